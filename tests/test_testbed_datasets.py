"""Data sets of the testbed: how many runs at a time, and which."""

from pathlib import Path

import pytest
from command import PROGRAM
from testbed_runs import SCENARIOS, need_root, testbed
from wirelens_testbed import dataset
from wirelens_testbed.dataset import MORE_AFTER, Job, Tally, _Maker
from wirelens_testbed.failure import ScenarioError

VARIANTS = f"""
scenario = "{SCENARIOS / "congestion-small.toml"}"

[set]
duration_s = 5
late_max_ms = 1000

[[variants]]
name = "train"
runs = 40

[[variants]]
name = "heldout"
runs = 3
"""


def maker(tmp_path: Path, parallel: int) -> tuple[_Maker, Job]:
    name = tmp_path / "set.toml"
    name.write_text(VARIANTS)
    read = dataset.read(name)
    job = Job("train-0000", read.variants[0], seed=1, together=parallel)
    return _Maker(read, tmp_path, PROGRAM, parallel, Tally(total=1), quiet=True), job


def test_runs_are_parallel_again_when_enough_were_accepted(tmp_path: Path) -> None:
    making, job = maker(tmp_path, 3)
    rounds = []
    for _ in range(3):
        making._on_rejected(job)
        assert making._parallel == 2
        accepted = 0
        while making._parallel < 3:
            making._on_accepted()
            accepted += 1
        rounds.append(accepted)
    assert rounds == [2 * MORE_AFTER, 4 * MORE_AFTER, 8 * MORE_AFTER]
    for _ in range(100):
        making._on_accepted()
    assert making._parallel == 3, "no more than were asked for"


def test_runs_that_were_rejected_together_count_once(tmp_path: Path) -> None:
    making, job = maker(tmp_path, 3)
    making._on_rejected(job)
    making._on_rejected(job)
    assert making._parallel == 2
    job.together = 1
    making._on_rejected(job)
    assert making._parallel == 1


def test_a_variant_that_is_not_there_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    name = tmp_path / "set.toml"
    name.write_text(VARIANTS)
    with pytest.raises(ScenarioError, match="'test'; wanted: some of train, heldout"):
        dataset.make(
            dataset.read(name), tmp_path / "runs", PROGRAM,
            runs=None, variants=["test"], parallel=None, quiet=True,
        )  # fmt: skip
    assert not (tmp_path / "runs").exists()


@pytest.mark.testbed
def test_one_variant_is_made_alone(tmp_path: Path) -> None:
    need_root()
    name = tmp_path / "set.toml"
    name.write_text(VARIANTS)
    done = testbed("make", name, "--variant", "heldout", "--runs", "1", "-o", tmp_path)
    assert done.returncode == 0, done.stderr
    made = [path.parent.name for path in (tmp_path / "set").glob("*/run.json")]
    assert made == ["heldout-0000"]
    (row,) = (tmp_path / "set/runs.tsv").read_text().splitlines()[1:]
    assert row.split("\t")[:2] == ["heldout-0000", "heldout"]
