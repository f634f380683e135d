"""L4S packets of the first sender that leave their queue, in world `kernel`.

`random:SHARE` re-marks packets by a draw where they become ECT(1), as a baseline; `predicted:TIME`
runs `wirelens l4s --act` on the sender's interface, as a user would.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wirelens_testbed.failure import LabError, ScenarioError
from wirelens_testbed.lab import Lab, Program

NONE, RANDOM, PREDICTED = "none", "random", "predicted"
ROWS, WORDS = "steering.jsonl", "steering.txt"
END_TIME_MAX_S = 20.0
# What adds up over rows of `wirelens l4s`.
SUMS = (
    "l4s_packets", "decided", "kept", "rare", "limited", "silent", "unknown", "late", "remarked",
    "l4s_measured", "classic_measured",
)  # fmt: skip
LAG = re.compile(r"from a packet to its verdict: p50 ([\d.]+) ms, p99 ([\d.]+) ms")
ERROR = re.compile(r"mean error of (\d+) predictions ([\d.]+) ms")
HITS = re.compile(
    r"left re-marked (\d+) were to be by their own prediction and (\d+) were not; (\d+) that were"
)
EXPIRED = re.compile(r"(\d+) budgets expired in the kernel")


@dataclass(frozen=True)
class Steering:
    """A control by name, and what it needs."""

    kind: str
    share: float | None = None
    margin: str = ""

    @property
    def random_share(self) -> float:
        return self.share or 0.0 if self.kind == RANDOM else 0.0


def parse(text: str) -> Steering:
    """Reads what the kernel world has of a control: none, random:SHARE, predicted:TIME[:SHARE]."""
    kind, *values = text.split(":")
    refused = ScenarioError(
        f"steering = {text!r}: world 'kernel' has none, random:SHARE and predicted:TIME or "
        "predicted:TIME:SHARE, such as predicted:3ms:0.8"
    )
    try:
        if kind == NONE and not values:
            return Steering(NONE)
        if kind == RANDOM and len(values) == 1:
            return _checked(Steering(RANDOM, float(values[0])), refused)
        if kind == PREDICTED and 1 <= len(values) <= 2:
            share = float(values[1]) if len(values) == 2 else None
            return _checked(Steering(PREDICTED, share, values[0]), refused)
    except ValueError:
        raise refused from None
    raise refused


def _checked(steering: Steering, refused: ScenarioError) -> Steering:
    if steering.share is not None and not 0 <= steering.share <= 1:
        raise refused
    return steering


class PredictionPolicy:
    """`wirelens l4s --act` in the namespace of a sender, until `stop`."""

    def __init__(
        self, lab: Lab, wirelens: Path, host: str, to: list[str], model: str, steering: Steering,
        folder: Path,
    ) -> None:  # fmt: skip
        self._folder = folder
        words: list[str | Path] = ["l4s", "-i", "eth0", "--model", model, "--act"]
        words += ["--margin", steering.margin, "-o", folder / ROWS, "--every", "1s"]
        words += [word for receiver in to for word in ("--to", receiver)]
        if steering.share is not None:
            words += ["--max-share", f"{steering.share:g}"]
        log = "steering"
        self._log = lab.log_path(log)
        self._program: Program = lab.start(host, wirelens, *words, log_name=log)
        self._begin_s = time.monotonic()
        lab.wait_until(
            lambda: "listening on" in self._said() or self._program.poll() is not None,
            "`wirelens l4s` that listens",
        )
        if self._program.poll() is not None:
            raise LabError(f"`wirelens l4s` ended; it said: {self._said()[-600:]}")

    def stop(self) -> dict[str, Any]:
        """Ends it as a person would; what it said that it did."""
        cpu_s = _cpu_s(self._program.pid)
        wall_s = time.monotonic() - self._begin_s
        self._program.send_signal(signal.SIGINT)
        try:
            status = self._program.wait(END_TIME_MAX_S)
        except subprocess.TimeoutExpired:
            self._program.kill()
            raise LabError(f"`wirelens l4s` did not end within {END_TIME_MAX_S:g} s") from None
        said = self._said()
        (self._folder / WORDS).write_text(said)
        if status != 0:
            raise LabError(f"`wirelens l4s` ended with status {status}; it said: {said[-600:]}")
        rows = [json.loads(line) for line in (self._folder / ROWS).read_text().splitlines()]
        sums = {name: sum(row.get(name) or 0 for row in rows) for name in SUMS}
        lag, error, expired = LAG.search(said), ERROR.search(said), EXPIRED.search(said)
        hits = HITS.search(said)
        return sums | {
            "cpu_share": round(cpu_s / wall_s, 4),
            "lag_p50_ms": float(lag[1]) if lag else None,
            "lag_p99_ms": float(lag[2]) if lag else None,
            "error_mean_ms": float(error[2]) if error else None,
            "as_predicted": int(hits[1]) if hits else 0,
            "otherwise": int(hits[2]) if hits else 0,
            "missed": int(hits[3]) if hits else 0,
            "budgets_expired": int(expired[1]) if expired else 0,
        }

    def _said(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""


def _cpu_s(process_id: int) -> float:
    """CPU time of a process that still runs, with all of its threads: proc_pid_stat(5), 14, 15."""
    words = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
