"""Figures from kept rows, as the pages of `bench/pages/pages.py` ask for them.

A figure is named in `bench/pages/pages.toml`: a file under `bench/results`, and what of its rows.
A page asks `NAME [VALUE...] [KEY=VALUE...] [AGGREGATE] [.FIELD]`, where values without a key belong
to the figure's `keys` in their order.
"""

import csv
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from statistics import mean, median, quantiles
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results"
Row = Mapping[str, Any]
NAMED = re.compile(r"([a-z_][\w.]*)=(.*)")
"""`duration=10s`; what has a blank before its `=` is a value, such as `count, r=1`."""


class Missing(Exception):
    """A page asks for a figure that no kept row has."""


@dataclass(frozen=True)
class Figure:
    """What `[figures.NAME]` of `bench/pages/pages.toml` says."""

    rows: str
    """File under `bench/results`."""
    keys: list[str] = field(default_factory=list)
    where: dict[str, Any] = field(default_factory=dict)
    take: str = ""
    """Field whose value is wanted."""
    over: str = "only"
    """How several rows become a number: one of AGGREGATES, or `pooled`, where sums are divided."""
    per: str = ""
    """Field by which `take` is divided, such as seconds."""
    scale: float = 1.0
    less_from: float | None = None
    """What the figure is taken from: 100 makes of what is left what was saved."""
    one_each: str = ""
    """A field, such as the seed, that no two rows of a figure may share: it is averaged over."""


def only(values: list[float]) -> float:
    if len(set(values)) != 1:
        raise Missing(f"{len(values)} rows where one is wanted: {values[:5]}; name more keys")
    return values[0]


AGGREGATES: dict[str, Callable[[list[float]], float]] = {
    "only": only,
    "mean": mean,
    "median": median,
    "lowest": min,
    "highest": max,
    "sum": sum,
    "count": len,
    "quartile1": lambda values: quantiles(values, n=4, method="inclusive")[0],
    "quartile3": lambda values: quantiles(values, n=4, method="inclusive")[2],
}


def config() -> dict[str, Any]:
    """`bench/pages/pages.toml`."""
    return tomllib.loads((ROOT / "bench" / "pages" / "pages.toml").read_text(encoding="utf-8"))


@cache
def figures() -> dict[str, Figure]:
    return {name: Figure(**said) for name, said in config()["figures"].items()}


def read(path: str) -> list[Row]:
    """Rows of a file under `bench/results`."""
    return rows_of(RESULTS / path)


@cache
def rows_of(file: Path) -> list[Row]:
    """Rows of a file, by what its name ends with."""
    if not file.exists():
        raise Missing(f"no file {file.relative_to(ROOT) if file.is_relative_to(ROOT) else file}")
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines() if line]
    if file.suffix == ".json":
        found = json.loads(text)
        return found if isinstance(found, list) else [found]
    if file.suffix in (".tsv", ".csv"):
        delimiter = "\t" if file.suffix == ".tsv" else ","
        return list(csv.DictReader(text.splitlines(), delimiter=delimiter))
    if file.suffix == ".md":
        return list(table_rows(text))
    raise Missing(f"{file.name}: rows are .jsonl, .json, .tsv, .csv or the tables of .md")


def table_rows(text: str) -> Iterator[Row]:
    """Of each table in Markdown its rows by column; `section` is the heading above, `row` the first
    cell, `table` the table's number under that heading."""
    section, head, table = "", list[str](), -1
    for line in text.splitlines():
        if line.startswith("#"):
            section, table = line.lstrip("# "), -1
        if not line.startswith("|"):
            head = []
            continue
        cells = [cell.strip().strip("*") for cell in line.strip().strip("|").split("|")]
        if not head:
            head, table = cells, table + 1
        elif not all(set(cell) <= set("-: ") and cell for cell in cells):
            named = dict(zip(head, cells, strict=False))
            yield {**named, "section": section, "table": table, "row": cells[0]}


def value_of(row: Row, path: str) -> Any:
    """A field; `f1_each.bbr` and `decided.0` are parts of one. An absent one is None."""
    if path in row:
        return row[path]
    first, _, rest = path.partition(".")
    inner = row.get(first)
    if isinstance(inner, list):
        inner = {str(at): one for at, one in enumerate(inner)}
    return value_of(inner, rest) if rest and isinstance(inner, Mapping) else None


def is_same(found: Any, wanted: Any) -> bool:
    """As numbers, as a pattern with `*`, or as they are written."""
    if isinstance(found, list):
        found = ",".join(str(one) for one in found)
    try:
        return float(found) == float(wanted)
    except (TypeError, ValueError):
        text = "" if found is None else str(found)
    return fnmatchcase(text, wanted) if "*" in str(wanted) else text == str(wanted)


def chosen(rows: list[Row], where: Mapping[str, Any]) -> list[Row]:
    return [
        row
        for row in rows
        if all(is_same(value_of(row, key), value) for key, value in where.items())
    ]


def number(text: Any) -> float:
    """Of a cell: the number at its beginning, a spread in brackets behind it left out."""
    if isinstance(text, int | float):
        return float(text)
    first = str(text).replace(",", "").replace("**", "").strip().split()
    suffixes = {"%": 1.0, "k": 1e3, "M": 1e6}
    try:
        cell = first[0]
        scale = suffixes.get(cell[-1], 1.0)
        return float(cell.rstrip("%kM")) * scale
    except (IndexError, ValueError):
        raise Missing(f"{text!r} is no number") from None


def asked(query: str, read: Callable[[str], list[Row]] = read) -> float:
    """The figure that a page asks for; `read` gives the rows of a file named as the kept one."""
    name, *words = shlex.split(query)
    if name not in figures():
        raise Missing(f"no figure {name!r} in bench/pages/pages.toml")
    figure = figures()[name]
    where, over, take = dict(figure.where), figure.over, figure.take
    keys = iter(figure.keys)
    for word in words:
        named = NAMED.match(word)
        if named:
            where[named[1]] = named[2]
        elif word in AGGREGATES or word == "pooled":
            over = word
        elif word.startswith("."):
            take = word[1:]
        else:
            key = next(keys, "")
            if not key:
                raise Missing(f"{query!r}: {word!r} has no key; the figure's are {figure.keys}")
            where[key] = word
    rows = chosen(read(figure.rows), where)
    if not rows:
        raise Missing(f"{query!r}: no row of {figure.rows} has {where}")
    each = [str(value_of(row, figure.one_each)) for row in rows] if figure.one_each else []
    if len(set(each)) != len(each):
        raise Missing(f"{query!r}: several rows for one {figure.one_each}; name more keys")
    if over == "count":
        return float(len(rows))
    values = [
        number(value_of(row, take)) / (number(value_of(row, figure.per)) if figure.per else 1)
        for row in rows
    ]
    if over == "pooled":
        whole = sum(number(value_of(row, figure.per)) for row in rows)
        return sum(number(value_of(row, take)) for row in rows) / whole * figure.scale
    if figure.less_from is not None:
        values = [figure.less_from - value for value in values]
    return AGGREGATES[over](values) * figure.scale


def changes(some: Sequence[Row], plain: Sequence[Row], key: str) -> list[float]:
    """By how much each seed differs from the same seed in `plain`, in %; those with 0 or nothing
    there are left out."""
    of = {row["seed"]: row[key] for row in plain}
    if absent := {row["seed"] for row in some} - of.keys():
        raise Missing(f"seeds {sorted(absent)} have nothing to be compared with")
    return [100 * (row[key] / of[row["seed"]] - 1) for row in some if of[row["seed"]]]


def change(some: Sequence[Row], plain: Sequence[Row], key: str = "p99_ms") -> str:
    """The median of these changes, with the lowest and the highest."""
    found = changes(some, plain, key)
    return f"{median(found):+.0f} % ({min(found):+.0f} to {max(found):+.0f})" if found else "–"
