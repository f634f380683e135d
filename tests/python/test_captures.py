"""From Python, too, rows of several captures say which one they are from."""

from pathlib import Path
from typing import Any

import pytest
import wirelens
from command import DEMO


@pytest.mark.parametrize("source", ["folder", "list"])
@pytest.mark.parametrize(
    "ask",
    [
        lambda source: wirelens.flows(source),
        lambda source: wirelens.flows(source, stats=True, window="1s"),
        lambda source: wirelens.flows(source, names="nfstream"),
        lambda source: wirelens.classify_flows(source, model="services"),
    ],
)
def test_several_captures_are_named(ask: Any, source: str, tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    folder.mkdir()
    names = [folder / "one.pcapng", folder / "two.pcapng"]
    for name in names:
        name.symlink_to(DEMO)
    stream = ask(folder if source == "folder" else names)
    assert stream.fields[-1].name == "capture"
    rows = list(stream)
    # Both have the same flows at the same times; those of the first begin with its packets.
    assert {row.capture for row in rows} == {str(names[0])}
    assert rows[0]._fields[-1] == "capture"


def test_one_capture_is_not() -> None:
    assert "capture" not in next(iter(wirelens.flows(DEMO)))._fields
