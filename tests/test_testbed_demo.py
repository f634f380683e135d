"""The demo: the capture that ships can be made again, with every kind of traffic in it."""

import subprocess
import sys
from pathlib import Path

import pytest
from command import DEMO, ENVIRONMENT, ROOT
from testbed_runs import AT_ANY_TIME, SCENARIOS, left_behind, run_scenario


def table_of(capture: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "wirelens_testbed.demo.table", capture],
        check=False,
        capture_output=True,
        text=True,
        env=ENVIRONMENT | {"PYTHONPATH": str(ROOT / "testbed")},
    )


def test_the_capture_that_ships_holds_every_kind_of_traffic() -> None:
    counted = table_of(DEMO)
    assert counted.returncode == 0, counted.stderr


@pytest.mark.testbed
def test_the_capture_that_ships_can_be_made_again(tmp_path: Path) -> None:
    run = run_scenario(SCENARIOS / "demo.toml", tmp_path, *AT_ANY_TIME)
    counted = table_of(run.folder / "demo.pcapng")
    assert counted.returncode == 0, counted.stderr
    assert not left_behind()
