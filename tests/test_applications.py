"""Each application that a run can have is named, documented, counted and held by a golden case."""

import re
import tomllib

import pytest
from command import ROOT, wirelens

EXAMPLE = wirelens("run", "--init").stdout.decode()
NAMES = [name for name in re.findall(r"^\[(\w+)\]$", EXAMPLE, re.M) if name not in ("input", "run")]
GUIDE = (ROOT / "docs/guide/run.md").read_text()
METRICS = (ROOT / "docs/specs/metrics.md").read_text()
COLUMNS = (ROOT / "docs/reference/columns.md").read_text()
WITHOUT_ROWS = ("packetlog",)
"""Applications that keep what they find in files of their own format."""


def keys(name: str) -> list[str]:
    """The settings of an application, as `wirelens run --init` prints them."""
    table = re.split(r"^(?:# )?\[", EXAMPLE.partition(f"\n[{name}]\n")[2], flags=re.M)[0]
    return re.findall(r"^#? ?([a-z][a-z-]*) = ", table, re.M)


def lacks_settings(name: str) -> str | None:
    if not keys(name):
        return "settings that `wirelens run --init` prints"
    row = re.search(rf"^\| `\[{name}\]` \| (.*?) \|", GUIDE, re.M)
    return None if row and row[1].strip() else "a row in the settings table of docs/guide/run.md"


def lacks_guide(name: str) -> str | None:
    """A page of its own, or a section of the page about runs that names each of its keys."""
    if (ROOT / f"docs/guide/{name}.md").is_file():
        return None
    section = re.search(rf"^## .*`\[{name}\]`\n(.*?)(?=^## |\Z)", GUIDE, re.M | re.S)
    if section is None:
        return f"docs/guide/{name}.md, or a section of run.md with `[{name}]` in its heading"
    common = ("output", "format", "force")
    unnamed = [key for key in keys(name) if key not in common and f"`{key}`" not in section[1]]
    return f"in its section of run.md: {', '.join(unnamed)}" if unnamed else None


def lacks_columns(name: str) -> str | None:
    heads = re.findall(rf"^## `(wirelens (?:run, \[)?{name}\b.*)`$", COLUMNS, re.M)
    for head in heads:
        table = COLUMNS.partition(f"## `{head}`\n")[2].partition("\n## ")[0]
        if re.search(r"^\| column \| type \| meaning \|\n\|[-|]+\|\n\| `\w+` \| \S", table, re.M):
            return None
    return "a table with columns, types and meanings in docs/reference/columns.md"


def lacks_metrics(name: str) -> str | None:
    row = re.search(rf"^\| `{name}` \| (.*) \|$", METRICS, re.M)
    if row and ("those of each" in row[1] or f"wirelens_{name}_" in row[1]):
        return None
    return "a row with its counters in docs/specs/metrics.md"


def lacks_golden_case(name: str) -> str | None:
    case = ROOT / f"testdata/golden/run-{name}"
    try:
        settings = tomllib.loads((case / "wirelens.toml").read_text())
        command = (case / "cmd").read_text()
    except FileNotFoundError:
        return f"testdata/golden/run-{name}, with wirelens.toml and cmd"
    if name not in settings or f"testdata/golden/run-{name}/wirelens.toml" not in command:
        return f"a table [{name}] in the settings of its golden case, and a command that reads it"
    kept = case / "stdout"
    if name in WITHOUT_ROWS:
        return None
    has_rows = kept.is_file() and len(kept.read_text().splitlines()) > 1
    return None if has_rows else "rows in the golden case"


DEMANDS = (lacks_settings, lacks_guide, lacks_columns, lacks_metrics, lacks_golden_case)


def lacking(name: str) -> list[str]:
    """What an application lacks to be whole."""
    return [said for said in (demand(name) for demand in DEMANDS) if said]


def test_the_applications_are_known() -> None:
    assert {"top", "flows", "classify", "packetlog", "cca", "latency", "unanswered"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_an_application_is_whole(name: str) -> None:
    assert lacking(name) == []


def test_an_application_of_which_nothing_is_known_lacks_everything() -> None:
    assert len(lacking("nobody")) == len(DEMANDS)


def test_the_example_is_short_and_alone() -> None:
    """A reader copies one file, and adds one line to one list."""
    path = ROOT / "crates/session/src/applications/unanswered.rs"
    assert len(path.read_text().splitlines()) <= 150
    crates = (path for path in ROOT.glob("crates/*/src/**/*.rs"))
    sources = [*crates, *ROOT.glob("python/**/*.py"), *ROOT.glob("testbed/**/*.py")]
    # The engine has a class of flows of that name and verdicts a cause, which are none of ours.
    type_name = r"(?<!Class::)(?<!Cause::)(?<!Self::)\bUnanswered\b(?!,$)"
    word = r"""["'`\[]unanswered\b(?! )|\bunanswered::|mod unanswered"""
    named = re.compile(f"{type_name}|{word}", re.M)
    naming = {str(source.relative_to(ROOT)) for source in sources
              if named.search(source.read_text())}  # fmt: skip
    # Rows that ship have types in Python; an application whose rows have none runs all the same.
    typed = {f"python/wirelens/{name}.py" for name in ("rows", "running")}
    causes = {"crates/classify/src/verdict.rs", "crates/session/src/classify/application.rs",
              "python/wirelens/feedback/verdicts.py"}  # fmt: skip
    wanted = {f"crates/session/src/applications/{name}.rs" for name in ("mod", "unanswered")}
    assert naming - typed - causes == wanted
