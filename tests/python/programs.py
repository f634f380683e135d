"""Programs of their own and threads of ours, for tests of what comes while it is read."""

import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path

# A machine that does other things may be late by this, and a hang is told from it.
PATIENCE_S = 20


def program(text: str, *arguments: str | Path) -> list[str | Path]:
    """A command line that runs `text` as Python."""
    return [sys.executable, "-c", text, *arguments]


def reader_threads() -> int:
    """Threads of this process that read for a stream."""
    count = 0
    for path in Path("/proc/self/task").glob("*/comm"):
        # A thread may end between the list and the look at it.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            count += path.read_text().startswith("wirelens-reader")
    return count


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    """Returns when it is so; that it never is fails the test."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)
