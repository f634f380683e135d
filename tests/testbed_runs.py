"""Runs of the testbed, for its tests: the library on the path, and the command at work.

Live runs need root. Without it they are skipped; root has to be able to make them.
"""

import csv
import gzip
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from command import ENVIRONMENT, PROGRAM, ROOT

sys.path.insert(0, str(ROOT / "testbed"))

from wirelens_testbed.lab import stale_runs  # noqa: E402

SCENARIOS = ROOT / "testbed/scenarios"
DATASETS = ROOT / "testbed/datasets"
RUN_TIME_MAX_S = 180
ATTEMPTS_MAX = 6


SHARK_FIELDS = (
    "frame.number", "eth.src", "eth.dst", "ip.src", "ip.dst", "ip.proto", "tcp.flags",
    "tcp.srcport", "tcp.dstport", "udp.srcport", "udp.dstport", "arp.opcode", "arp.src.proto_ipv4",
)  # fmt: skip


@dataclass(frozen=True)
class TestbedRun:
    """One run that has ended: its folder, its status and its words."""

    __test__ = False  # no test, though its name begins like one

    status: int
    folder: Path
    stderr: str

    @cached_property
    def report(self) -> dict[str, Any]:
        return json.loads((self.folder / "run.json").read_text())

    def failed_checks(self) -> list[str]:
        checks = self.report["checks"]
        return [f"{c['name']}: {c['seen']}" for c in checks if not c["holds"]]

    def table(self, name: str) -> list[dict[str, str]]:
        path = self.folder / name
        opened = gzip.open(path, "rt") if name.endswith(".gz") else path.open()
        with opened as file:
            return list(csv.DictReader(file, delimiter="\t"))


def need_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, for networks of its own")


def testbed(*arguments: str | Path, time_max_s: float = RUN_TIME_MAX_S):
    """`wirelens testbed ARGUMENTS`, to its end."""
    return subprocess.run(
        [PROGRAM, "testbed", *arguments],
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=time_max_s,
        env=ENVIRONMENT,
    )


testbed.__test__ = False


# For tests of what a run counts, not of when: a machine that is busy with others wakes the relay
# late for minutes, and no count depends on it.
AT_ANY_TIME = ("--set", "late_max_ms=1000")


def run_scenario(
    scenario: Path, output: Path, *arguments: str, attempts: int = ATTEMPTS_MAX
) -> TestbedRun:
    """One scenario as root, to its end. A run that its own checks reject on a busy machine is made
    again, as a user would."""
    need_root()
    for seed in range(1, attempts + 1):
        time.sleep(2 * (seed - 1))
        done = testbed("run", scenario, "-o", output, "--seed", str(seed), *arguments)
        if done.returncode != 3:
            break
    assert done.returncode == 0, done.stderr
    return TestbedRun(done.returncode, Path(done.stdout.strip()), done.stderr)


def left_behind() -> list[str]:
    """Runs that left something on the machine and are no more; others may well be under way."""
    return stale_runs()


def read_by_tshark(capture: Path) -> list[dict[str, str]]:
    """The headers of each packet as another program reads them."""
    fields = [word for name in SHARK_FIELDS for word in ("-e", name)]
    done = subprocess.run(
        ["tshark", "-n", "-r", capture, "-T", "fields", "-E", "occurrence=f", *fields],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    return [dict(zip(SHARK_FIELDS, row, strict=True)) for row in rows]
