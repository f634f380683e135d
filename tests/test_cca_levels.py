"""Levels and shares of two taps: worked out by hand, and served as they were trained."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cca_runs import TAPS, three_runs
from command import wirelens

SHORT, LONG = 20, 200
"""Slots of intervals."""


def test_a_flow_has_a_shape_a_level_and_a_share() -> None:
    from wirelens.cca.levels import with_levels, with_shares

    # Worked out by hand: `crates/cca/src/model/queue_levels.rs` has the same numbers.
    rows = np.array([[[1448.0, 0, 5792, 1448], [4344, 1448, 4344, 0]]], np.float32)
    expected = [
        [1 / 3, 0, 1 / 12, 0, 0.25, 0],
        [1, 1, 2 / 12, 1 / 12, 1, 0],
    ]
    np.testing.assert_allclose(with_shares(rows)[0], expected, atol=1e-6)
    alone = [line[:4] for line in expected]
    np.testing.assert_allclose(with_levels(rows[:, :, :2])[0], alone, atol=1e-6)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return three_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def model(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("levels")
    options = ("--levels", "--queue-shares", "--durations", "20ms,200ms", "--per-flow", "30",
               "--threads", "1", "-q")  # fmt: skip
    ran = wirelens("train", "cca", "-r", runs, "-o", folder, *options, time_max_s=300)
    assert ran.status == 0, ran.stderr
    return folder


def rows_of(model: Path, every: str) -> list[dict[str, Any]]:
    words = ("--model", model, "--every", every, "--format", "jsonl", "-q")
    ran = wirelens("cca", *TAPS, *words)
    assert ran.status == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def with_sums(taps: Any, way: Any, starts: list[int], slots: int) -> Any:
    """A flow's windows with the sums of those of all flows."""
    from wirelens.cca import windows

    before, after = taps
    every = {
        each: np.asarray(windows(before[each], after[each], starts, slots, passed="highest").values)
        for each in before if each in after
    }  # fmt: skip
    return np.concatenate([every[way], sum(every.values())], axis=2)


@pytest.mark.train
def test_serving_reads_shares_as_training_did_and_short_windows_vote(model: Path) -> None:
    from wirelens.cca import tap_slots
    from wirelens.cca.reading import load
    from wirelens.learn.metrics import softmax

    read = load(model)
    assert read.levels and [network.slots for network in read.networks] == [SHORT, LONG]
    short, long = read.networks
    assert short.correlation is not None and long.correlation is None and read.voting is not None
    taps = tap_slots([TAPS[1], TAPS[3]])
    compared = {SHORT: 0, LONG: 0}
    for row in rows_of(model, "50ms"):
        if row["confidence"] is None:  # of a queue outside of training, or of no interval
            continue
        slots = round(1000 * row["interval_s"])
        (way,) = (way for way in taps[0] if way.src_port == row["src_port"])
        end = (row["start_ns"] + 50_000_000) // 1_000_000
        if slots < LONG and way in taps[1]:
            # As many short ones as were known, up to the end.
            count = slots // SHORT
            starts = [end - SHORT * back for back in range(count, 0, -1)]
            values = with_sums(taps, way, starts, SHORT).reshape(1, slots, -1)
            scores = read.voted_by(short, values)
            compared[SHORT] += count > 1
        elif slots == LONG and end % LONG == 0:
            scores = read.voted(with_sums(taps, way, [end - LONG], LONG))
            compared[LONG] += 1
        else:
            continue
        assert read.confidence_max is not None
        sure = min(softmax(scores)[0].max(), read.confidence_max)
        assert row["confidence"] == pytest.approx(sure, abs=1e-4), row
    assert min(compared.values()) >= 2, compared


@pytest.mark.train
def test_short_windows_are_judged_alone_and_together(model: Path, runs: Path) -> None:
    ran = wirelens("eval", "cca", "--model", model, "-r", runs, "--per-flow", "10", "-q")
    assert ran.status == 0, ran.stderr
    lengths = re.findall(r"^\| (\d+) ms", ran.stdout.decode(), re.MULTILINE)
    assert lengths[:3] == ["20", "180", "200"], ran.stdout


@pytest.mark.train
def test_of_gaps_no_flow_has_a_share(runs: Path, tmp_path: Path) -> None:
    words = ("--levels", "--inputs", "cbiq_bytes,arrival_gap_ns")
    ran = wirelens("train", "cca", "-r", runs, "-o", tmp_path / "model", *words)
    assert ran.status == 2 and "arrival_gap_ns; wanted: inputs of which" in ran.stderr, ran.stderr
