"""The terminal view of a run, under a terminal of the test's own."""

import re
from pathlib import Path

from command import DEMO, wirelens
from terminals import Terminal


def test_screens_are_drawn_and_left(tmp_path: Path) -> None:
    with Terminal("run", "-r", DEMO, "--view", cwd=tmp_path) as terminal:
        terminal.wait_for("Overview")
        terminal.press("2")
        terminal.wait_for(r"10\.20\.0\.11")
        terminal.press("?")
        terminal.wait_for("filter the rows")
        said = terminal.end()
    # It may have been left before all was read; what was read is accounted for all the same.
    assert re.search(r"^\d+ packets captured$", said, re.M), said
    assert "missing from the count" not in said
    assert "page:" not in said


def test_a_view_needs_a_terminal(tmp_path: Path) -> None:
    refused = wirelens("run", "-r", DEMO, "--view", cwd=tmp_path)
    assert refused.status == 2 and "not a terminal" in refused.stderr
