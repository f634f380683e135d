"""Each application that a run can have is named, documented, counted and held by a golden case."""

import re

import pytest
from command import ROOT, wirelens

EXAMPLE = wirelens("run", "--init").stdout.decode()
NAMES = [name for name in re.findall(r"^\[(\w+)\]$", EXAMPLE, re.M) if name not in ("input", "run")]


def test_the_applications_are_known() -> None:
    assert {"top", "flows", "classify", "packetlog", "cca", "unanswered"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_an_application_is_whole(name: str) -> None:
    guide = (ROOT / "docs/guide/run.md").read_text()
    assert f"| `[{name}]` |" in guide, "a row of the guide's table"
    metrics = (ROOT / "docs/specs/metrics.md").read_text()
    assert f"| `{name}` |" in metrics, "its counters"
    case = ROOT / f"testdata/golden/run-{name}"
    assert f"[{name}]" in (case / "wirelens.toml").read_text(), "a golden case"
    columns = (ROOT / "docs/reference/columns.md").read_text()
    assert re.search(rf"wirelens (run, \[)?{name}\b", columns), "its columns"


def test_the_example_is_short_and_alone() -> None:
    """A reader copies one file, and adds one line to one list."""
    path = ROOT / "crates/session/src/applications/unanswered.rs"
    assert len(path.read_text().splitlines()) <= 150
    sources = [*ROOT.glob("crates/session/src/**/*.rs"), *ROOT.glob("crates/cli/src/**/*.rs"),
               *ROOT.glob("crates/python/src/**/*.rs"), *ROOT.glob("python/**/*.py")]  # fmt: skip
    named = re.compile(r"""\bUnanswered\b|["']unanswered["']|\bunanswered::|mod unanswered""")
    naming = {str(source.relative_to(ROOT)) for source in sources
              if named.search(source.read_text())}  # fmt: skip
    wanted = {f"crates/session/src/applications/{name}.rs" for name in ("mod", "unanswered")}
    assert naming == wanted
