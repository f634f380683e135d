"""Programs in a terminal of the tests' own, and what is on it."""

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

from command import ENVIRONMENT, PROGRAM

PATIENCE_S = 30
ROWS, COLUMNS = 24, 80

TOKEN = re.compile(r"\x1b\[([?0-9;]*)([a-zA-Z])|\x1b.|[\r\n\x08]|[^\x1b\r\n\x08]")


class Grid:
    """The cells of a terminal: what moves the cursor (CUP), clears (ED, EL) and prints."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.cells = [[" "] * COLUMNS for _ in range(ROWS)]
        self.row = self.column = 0

    def put(self, text: str) -> None:
        for found in TOKEN.finditer(text):
            numbers, command = found.groups()
            if command == "H":
                place = [int(number or 1) for number in (numbers or "1;1").split(";")]
                self.row, self.column = place[0] - 1, (place + [1])[1] - 1
            elif command == "J":
                self.clear()
            elif command == "K":
                self.cells[self.row][self.column :] = [" "] * (COLUMNS - self.column)
            elif found.group() == "\n":
                self.row = min(self.row + 1, ROWS - 1)
            elif found.group() == "\r":
                self.column = 0
            elif command is None and found.group() >= " " and self.column < COLUMNS:
                self.cells[self.row][self.column] = found.group()
                self.column += 1

    @property
    def lines(self) -> list[str]:
        return ["".join(row).rstrip() for row in self.cells]


class Terminal:
    """A command in a terminal of 80 by 24, and what is seen there."""

    def __init__(self, *arguments: str | Path, cwd: Path | None = None) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", ROWS, COLUMNS, 0, 0))
        self.settings = termios.tcgetattr(self._ours)
        environment = {**ENVIRONMENT, "TERM": "xterm", "LC_ALL": "C.UTF-8"}
        self.process = subprocess.Popen(
            [PROGRAM, *arguments],
            stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, cwd=cwd, env=environment,
        )  # fmt: skip
        os.close(theirs)
        self.seen = ""
        self.grid = Grid()

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()
        os.close(self._ours)

    @property
    def text(self) -> str:
        return "\n".join(self.grid.lines)

    def _read(self, patience_s: float = 0.1) -> bool:
        """Whether anything was drawn."""
        is_drawn = bool(select.select([self._ours], [], [], patience_s)[0])
        if is_drawn:
            # Once the last that had it open is gone, a terminal is an input error.
            with contextlib.suppress(OSError):
                read = os.read(self._ours, 65536).decode(errors="replace")
                self.seen += read
                self.grid.put(read)
        return is_drawn

    def wait_for(self, pattern: str) -> str:
        """Waits until a regular expression is found on the screen; the screen."""
        deadline = time.monotonic() + PATIENCE_S
        is_whole = False
        while not is_whole:
            is_found = re.search(pattern, self.text)
            assert is_found or time.monotonic() < deadline, f"{pattern!r} not drawn:\n{self.text}"
            if not is_found:
                assert self.process.poll() is None, (pattern, self.text, self.errors())
            # A screen comes in several pieces: it is whole once no other follows immediately.
            is_whole = not self._read(0.02 if is_found else 0.1) and bool(is_found)
        return self.text

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def errors(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def end(self, keys: str = "q") -> str:
        """Ends it as a person would; what was said on standard error."""
        if keys:
            self.press(keys)
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.text
            self._read()
        said = self.errors()
        assert self.process.returncode == 0, said
        assert termios.tcgetattr(self._ours) == self.settings, "left as it was found"
        return said
