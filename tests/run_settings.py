"""Settings of `wirelens run` for the tests, and the single commands that say the same."""

from collections.abc import Sequence
from pathlib import Path

from command import Ran, wirelens

# By application: its settings, and the command whose rows they are.
SINGLE: dict[str, tuple[dict[str, object], list[str]]] = {
    "top": (
        {"by": "flow", "rows": 0, "window": "1s"},
        ["top", "--by", "flow", "-n", "0", "--window", "1s"],
    ),
    "flows": ({"stats": True}, ["flows", "--stats"]),
    "classify": ({"model": "services"}, ["classify", "--model", "services"]),
    "cca": ({"every": "100ms", "rows": 0}, ["cca", "--every", "100ms", "-n", "0"]),
    "latency": ({"by": "packet"}, ["latency", "--by", "packet"]),
}  # fmt: skip
SEED = 7

Settings = dict[str, dict[str, object]]


def toml(value: object) -> str:
    """A value of settings as TOML has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {toml(each)}' for key, each in value.items())}}}"
    return f'"{value}"' if isinstance(value, str | Path) else str(value)


def written(tables: dict[str, dict[str, object]], rules: Sequence[dict[str, object]] = ()) -> str:
    """Settings with these tables and rules."""
    named = [(f"[{name}]", table) for name, table in tables.items()]
    lines = []
    for head, table in named + [("[[rule]]", rule) for rule in rules]:
        lines += [head, *(f"{key} = {toml(value)}" for key, value in table.items()), ""]
    return "\n".join(lines)


def run(folder: Path, text: str, *arguments: str | Path, time_max_s: float = 120) -> Ran:
    """Runs settings that are put into a folder."""
    path = folder / "wirelens.toml"
    path.write_text(text)
    return wirelens("run", "-c", path, *arguments, time_max_s=time_max_s)


def all_on(folder: Path, read: Path | list[Path]) -> dict[str, dict[str, object]]:
    """Tables of every application in `SINGLE`, with their rows in a folder."""
    tables: dict[str, dict[str, object]] = {
        "input": {"read": read},
        "run": {"seed": SEED},
    }
    for name, (settings, _) in SINGLE.items():
        tables[name] = {"output": folder / f"{name}.csv"} | settings
    return tables


# Numbers of threads on which rows have to be the same.
THREADS = (1, 2, 5)


def differing(folder: Path, capture: Path) -> str | None:
    """Which application's rows are not those of its command, or are others on several threads;
    nothing where all are the same."""
    of_threads = {}
    for count in THREADS:
        ran = run(folder, written(all_on(folder, capture)), "-q", "--threads", str(count))
        rows = {name: folder / f"{name}.csv" for name in SINGLE}
        found = {name: path.read_bytes() for name, path in rows.items() if path.exists()}
        of_threads[count] = (ran.status, found)
        if count != THREADS[-1]:
            for path in rows.values():
                path.unlink(missing_ok=True)
    first = of_threads[THREADS[0]]
    for count, (status, found) in of_threads.items():
        others = [name for name in SINGLE if found.get(name) != first[1].get(name)]
        if status != first[0] or others:
            return f"{count} threads: status {status} and {first[0]}, other rows of {others}"
    for name, (_, command) in SINGLE.items():
        shown = ["-q", "--format", "csv", "--seed", str(SEED)]
        single = wirelens(*command, "-r", capture, *shown, time_max_s=120)
        if ran.status != single.status:
            return f"{name}: status {ran.status} and {single.status}: {ran.stderr} {single.stderr}"
        rows = folder / f"{name}.csv"
        if rows.exists() and rows.read_bytes() != single.stdout:
            return f"{name}: other rows than `wirelens {' '.join(command)}`"
        if not rows.exists() and single.stdout:
            return f"{name}: no rows, where `wirelens {' '.join(command)}` has some"
        rows.unlink(missing_ok=True)
    return None
