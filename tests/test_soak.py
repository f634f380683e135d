"""All applications on an interface for three minutes, at half of what they take: the long run of
`make soak`, as often as tests are run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from command import ROOT

pytestmark = pytest.mark.testbed

MINUTES = 3


def test_all_applications_hold_out_at_half_load(tmp_path: Path) -> None:
    program = ROOT / "bench/speed/run/soak.py"
    command = [sys.executable, str(program), str(tmp_path), "--minutes", str(MINUTES)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=MINUTES * 60 + 300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = [json.loads(line) for line in (tmp_path / "soak.jsonl").read_text().splitlines()]
    assert len(rows) >= MINUTES * 60 - 5 and rows[-1]["packets"] > 0
