"""Scenarios: TOML with values that may be drawn, and reading them without believing them.

Wherever a value stands, a table with one of these keys may stand instead, and is drawn from the
run's seed: `{ between = [a, b] }`, `{ log_between = [a, b] }`, `{ among = [..] }`,
`{ weighted = { name = weight } }`. A table with `count = n` in a list of tables stands for n
tables, each drawn by itself. Each value is drawn from the seed and its own place, so that one more
key changes no other.
"""

from __future__ import annotations

import difflib
import math
import random
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from wirelens_testbed.failure import ScenarioError

Value = TypeVar("Value", bool, int, float, str)

REPEATS_MAX = 10_000
DRAWS = ("between", "log_between", "among", "weighted")


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as failure:
        raise ScenarioError(
            f"{path}: {failure.strerror}; `wirelens testbed scenarios` lists those that ship"
        ) from failure
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as failure:
        raise ScenarioError(f"{path}: no TOML: {failure}") from failure


def override(values: dict[str, Any], assignment: str) -> None:
    """Sets one value from `a.b=VALUE`, where VALUE is TOML, or a word that is taken as text."""
    path, equals, text = assignment.partition("=")
    if not equals or not path.strip():
        raise ScenarioError(f"--set {assignment}: no KEY=VALUE; try --set link.rate_mbit=50")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    *parents, last = (word.strip() for word in path.split("."))
    table = values
    for parent in parents:
        table = table.setdefault(parent, {})
        if not isinstance(table, dict):
            raise ScenarioError(f"--set {assignment}: {parent} is no table in this scenario")
    table[last] = value


def merged(values: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """The values with others laid over them, table by table; a list is taken whole."""
    both = dict(values)
    for key, value in over.items():
        old = both.get(key)
        is_table = isinstance(value, dict) and not is_draw(value)
        both[key] = merged(old, value) if is_table and isinstance(old, dict) else value
    return both


def draw(value: Any, seed: int, place: str = "") -> Any:
    """The value with every draw in it made; the same for the same seed."""
    if isinstance(value, dict):
        if is_draw(value):
            return _drawn(value, random.Random(f"{seed}:{place}"), place)
        return {key: draw(inner, seed, f"{place}.{key}".strip(".")) for key, inner in value.items()}
    if isinstance(value, list):
        repeated = _repeated(value, seed, place)
        return [draw(inner, seed, f"{place}[{index}]") for index, inner in enumerate(repeated)]
    return value


def is_draw(value: Any) -> bool:
    """Whether a table is a value that is yet to be drawn."""
    return isinstance(value, dict) and len(value) == 1 and next(iter(value)) in DRAWS


def _repeated(values: list[Any], seed: int, place: str) -> list[Any]:
    repeated: list[Any] = []
    for index, value in enumerate(values):
        if not isinstance(value, dict) or "count" not in value:
            repeated.append(value)
            continue
        count = draw(value["count"], seed, f"{place}[{index}].count")
        if not isinstance(count, int) or not 0 <= count <= REPEATS_MAX:
            raise ScenarioError(
                f"{place}: count is {count}, wanted a whole number to {REPEATS_MAX}"
            )
        repeated.extend([{key: kept for key, kept in value.items() if key != "count"}] * count)
    return repeated


def _drawn(spec: dict[str, Any], rng: random.Random, place: str) -> Any:
    ((how, among),) = spec.items()
    try:
        if how == "among":
            return rng.choice(among)
        if how == "weighted":
            return rng.choices(list(among), list(among.values()))[0]
        low, high = among
        if how == "log_between":
            drawn = math.exp(rng.uniform(math.log(low), math.log(high)))
            return round(drawn) if isinstance(low, int) and isinstance(high, int) else drawn
        if isinstance(low, int) and isinstance(high, int):
            return rng.randint(low, high)
        return round(rng.uniform(low, high), 6)
    except (TypeError, ValueError, IndexError) as failure:
        raise ScenarioError(
            f"{place}: cannot draw from {how} = {among!r} ({failure}); wanted two numbers, the "
            "lower first, or for `among` a list and for `weighted` a table of weights"
        ) from failure


class Table:
    """One table of a scenario: hands out each value once, checked, and knows what is left."""

    def __init__(self, values: dict[str, Any], place: str = "") -> None:
        self._values = dict(values)
        self._known: list[str] = []
        self.place = place

    def take(
        self,
        key: str,
        kind: type[Value],
        default: Value | None = None,
        *,
        minimum: float | None = None,
        maximum: float | None = None,
        among: Sequence[Value] = (),
    ) -> Value:
        """A value by its name; without a default it must be there."""
        found = self._taken(key)
        if found is None:
            if default is None:
                raise ScenarioError(f"{self._at(key)} is missing; wanted {_wanted(kind)}")
            return default
        if kind is float and isinstance(found, int) and not isinstance(found, bool):
            found = float(found)
        if not isinstance(found, kind) or (kind is not bool and isinstance(found, bool)):
            raise ScenarioError(f"{self._at(key)} is {found!r}, wanted {_wanted(kind)}")
        if among and found not in among:
            raise ScenarioError(
                f"{self._at(key)} is {found!r}, wanted one of {', '.join(map(str, among))}"
            )
        if isinstance(found, int | float):
            if minimum is not None and found < minimum:
                raise ScenarioError(f"{self._at(key)} is {found}, wanted at least {minimum}")
            if maximum is not None and found > maximum:
                raise ScenarioError(f"{self._at(key)} is {found}, wanted at most {maximum}")
        return found

    def take_optional(self, key: str, kind: type[Value], **limits: Any) -> Value | None:
        """A value that may be absent."""
        return self.take(key, kind, **limits) if self._values.get(key) is not None else None

    def take_list(self, key: str, kind: type[Value], default: Sequence[Value] = ()) -> list[Value]:
        """A list of values of one kind."""
        found = self._taken(key)
        if found is None:
            return list(default)
        if not isinstance(found, list) or not all(isinstance(each, kind) for each in found):
            raise ScenarioError(f"{self._at(key)} is {found!r}, wanted a list of {_wanted(kind)}")
        return found

    def take_table(self, key: str) -> Table:
        """An inner table; an absent one is empty."""
        found = self._taken(key)
        if found is not None and not isinstance(found, dict):
            raise ScenarioError(f"{self._at(key)} is {found!r}, wanted a table")
        return Table(found or {}, self._at(key))

    def take_tables(self, key: str) -> list[Table]:
        """A list of tables, `[[key]]`."""
        found = self._taken(key) or []
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            raise ScenarioError(f"{self._at(key)}: wanted tables, each begun by [[{key}]]")
        return [Table(each, f"{self._at(key)}[{index}]") for index, each in enumerate(found)]

    def rest(self) -> dict[str, Any]:
        """All keys that were not taken, for the caller to interpret."""
        values, self._values = self._values, {}
        return values

    def finish(self) -> None:
        """Refuses keys that were not taken: a misspelt key must not be a silent default."""
        for key in self._values:
            near = difflib.get_close_matches(key, self._known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(self._known)}"
            raise ScenarioError(f"{self._at(key)} is not known here; {hint}")

    def _taken(self, key: str) -> Any:
        self._known.append(key)
        return self._values.pop(key, None)

    def _at(self, key: str) -> str:
        return f"{self.place}.{key}" if self.place else key


def _wanted(kind: type) -> str:
    return {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}[kind]


def to_toml(values: dict[str, Any], place: str = "") -> str:
    """Writes tables, lists and plain values as TOML, so that a drawn scenario can be run again."""
    plain = {key: value for key, value in values.items() if not _is_tabular(value)}
    lines = [f"{key} = {_inline(value)}" for key, value in plain.items()]
    for key, value in values.items():
        path = f"{place}.{key}" if place else key
        if isinstance(value, dict):
            lines += ["", f"[{path}]", to_toml(value, path)]
        elif _is_tabular(value):
            for each in value:
                lines += ["", f"[[{path}]]", to_toml(each, path)]
    return "\n".join(lines)


def _is_tabular(value: Any) -> bool:
    is_list = isinstance(value, list) and bool(value)
    return isinstance(value, dict) or (is_list and all(isinstance(each, dict) for each in value))


def _inline(value: Any) -> str:
    """A value as it stands behind an equals sign in TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_inline(inner)}" for key, inner in value.items()) + " }"
    return str(value)
