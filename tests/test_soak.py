"""All applications on an interface for three minutes, at a rate that any machine takes: the long
run of `make soak`, as often as tests are run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from command import ROOT

pytestmark = pytest.mark.testbed

MINUTES = 3
# A tenth of what two idle processors take, as other programs use them too where tests run.
RATE = 5_000


def test_all_applications_hold_out(tmp_path: Path) -> None:
    program = ROOT / "bench/speed/run/soak.py"
    command = [sys.executable, str(program), str(tmp_path), "--minutes", str(MINUTES)]
    command += ["--rate", str(RATE)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=MINUTES * 60 + 300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = [json.loads(line) for line in (tmp_path / "soak.jsonl").read_text().splitlines()]
    assert len(rows) >= MINUTES * 60 - 5 and rows[-1]["packets"] > 0
