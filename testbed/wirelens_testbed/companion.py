"""The parts of the testbed that are `wirelens` itself: started, given commands, asked for a report.

A companion ends when its standard input does, so it cannot outlive us, however we end.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wirelens_testbed.failure import LabError
from wirelens_testbed.lab import Lab

END_TIME_MAX_S = 20.0


class Companion:
    """One running `wirelens testbed …` sub-command that prints `ready`, and a report at its end."""

    def __init__(self, lab: Lab, wirelens: Path, arguments: Sequence[str], log_name: str) -> None:
        self._lab = lab
        self._name = arguments[0]
        self._log_name = log_name
        self._program = lab.start(
            None,
            wirelens,
            "testbed",
            *arguments,
            log_name=log_name,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._program.stdout is not None
        if self._program.stdout.readline().strip() != b"ready":
            raise self._failure("did not get ready")

    def tell(self, line: str) -> None:
        """Gives a command; it takes effect immediately."""
        assert self._program.stdin is not None
        try:
            self._program.stdin.write(f"{line}\n".encode())
            self._program.stdin.flush()
        except BrokenPipeError:
            raise self._failure(f"had ended before `{line}`") from None

    def finish(self) -> dict[str, Any]:
        """Ends it and returns its report."""
        try:
            printed, _ = self._program.communicate(timeout=END_TIME_MAX_S)
        except subprocess.TimeoutExpired:
            self._program.kill()
            self._program.communicate()
            raise self._failure(f"did not end within {END_TIME_MAX_S:g} s") from None
        with contextlib.suppress(json.JSONDecodeError):
            report = json.loads(printed)
            if self._program.returncode == 0 and isinstance(report, dict):
                return report
        raise self._failure("ended without a report")

    def _failure(self, what: str) -> LabError:
        path = self._lab.log_path(self._log_name)
        said = path.read_text(errors="replace").strip()[-600:] if path.exists() else ""
        return LabError(f"`wirelens testbed {self._name}` {what}; it said: {said or '(nothing)'}")
