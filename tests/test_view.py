"""The terminal view of a run, under a terminal of the test's own."""

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from pathlib import Path

from command import DEMO, ENVIRONMENT, PROGRAM, wirelens

PATIENCE_S = 30


class Terminal:
    """A run in a terminal of 80 by 24, and what it has drawn so far."""

    def __init__(self, *arguments: str, cwd: Path) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
        environment = {**ENVIRONMENT, "TERM": "xterm", "LC_ALL": "C.UTF-8"}
        self.process = subprocess.Popen(
            [PROGRAM, "run", *arguments],
            stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, cwd=cwd, env=environment,
        )  # fmt: skip
        os.close(theirs)
        self.drawn = ""

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.drawn:
            assert time.monotonic() < deadline, f"{text!r} was not drawn: {self.drawn[-2000:]}"
            if select.select([self._ours], [], [], 0.1)[0]:
                seen = os.read(self._ours, 65536).decode(errors="replace")
                # Words are drawn whole; what moves the cursor and colours them is left out.
                self.drawn += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen)

    def press(self, keys: str) -> None:
        self.drawn = ""
        os.write(self._ours, keys.encode())

    def end(self) -> bytes:
        """Ends it as a person would; what was said on standard error."""
        os.write(self._ours, b"q")
        while self.process.poll() is None:
            # Once the last that had it open is gone, a terminal is an input error.
            with contextlib.suppress(OSError):
                if select.select([self._ours], [], [], 0.1)[0]:
                    os.read(self._ours, 65536)
        assert self.process.stderr is not None
        said = self.process.stderr.read()
        self.process.stderr.close()
        os.close(self._ours)
        assert self.process.returncode == 0, said
        return said


def test_screens_are_drawn_and_left(tmp_path: Path) -> None:
    terminal = Terminal("-r", str(DEMO), "--view", cwd=tmp_path)
    terminal.wait_for("Overview")
    terminal.press("2")
    terminal.wait_for("10.20.0.11")
    terminal.press("?")
    terminal.wait_for("filter")
    said = terminal.end().decode()
    # It may have been left before all was read; what was read is accounted for all the same.
    assert re.search(r"^\d+ packets captured$", said, re.M), said
    assert "missing from the count" not in said
    assert "page:" not in said


def test_a_view_needs_a_terminal(tmp_path: Path) -> None:
    refused = wirelens("run", "-r", DEMO, "--view", cwd=tmp_path)
    assert refused.status == 2 and "no terminal" in refused.stderr
