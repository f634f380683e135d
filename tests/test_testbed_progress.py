"""What a person sees who waits for a run."""

import io
import sys
import time

import pytest
import testbed_runs  # noqa: F401  puts the library on the path
from wirelens_testbed.progress import REFRESH_S, Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def told(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, is_quiet: bool = False) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    progress = Progress(is_quiet)
    progress.tell("flows", 60)
    time.sleep(3 * REFRESH_S)
    progress.tell("counting")
    progress.finish()
    return stream.getvalue()


def test_a_terminal_has_a_bar_for_what_takes_a_known_time(monkeypatch: pytest.MonkeyPatch) -> None:
    text = told(monkeypatch, Terminal())
    assert "of 60 s" in text
    # It is gone before the next step is told.
    assert "\r\x1b[K[" in text and text.endswith("counting\n")


def test_a_file_has_lines_only_and_quiet_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = told(monkeypatch, io.StringIO()).splitlines()
    assert [line.split("] ")[1] for line in lines] == ["flows", "counting"]
    assert told(monkeypatch, Terminal(), is_quiet=True) == ""
