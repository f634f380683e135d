"""Queues that the model that ships was not trained on: no control is named, and why is said.

In network namespaces of the test's own; without root it is skipped.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from cca_queue import shared_queue
from command import ROOT, wirelens
from lab import Listening
from testbed_runs import need_root

RUN = ROOT / "testdata/testbed/congestion"
TAPS = ("-r", RUN / "before.pcapng.gz", "--egress", RUN / "after.pcapng.gz")


@pytest.mark.testbed
@pytest.mark.parametrize(
    ("controls", "rate_mbit", "why"),
    [(("reno",), 100.0, "flows"), (("reno", "cubic", "bbr"), 20.0, "rate")],
)
def test_flows_outside_of_training_are_not_named(
    controls: Sequence[str], rate_mbit: float, why: str, tmp_path: Path
) -> None:
    need_root()
    told, last_s = tmp_path / "told.jsonl", 6.0
    # No delay but the queue's.
    rtts_ms = (0.0,) * len(controls)
    with shared_queue(
        controls, rtts_ms, duration_s=last_s + 1, rate_mbit=rate_mbit, buffer_bytes=600_000
    ) as queue:
        queue.start()
        words = ("--model", "cca", "--every", "200ms", "-o", told)
        with Listening(tmp_path, "cca", "-i", queue.before, "--egress", queue.behind, *words) as on:
            queue.wait_until(last_s)
            ran = on.end()
        assert ran.status == 0, ran.stderr
        queue.finish()
    rows = [json.loads(line) for line in told.read_text().splitlines()]
    # Slow start fills the queue in the first second or two.
    settled = [row for row in rows if row["start_ns"] > rows[0]["start_ns"] + 2e9]
    assert len(settled) >= 10 * len(controls)
    assert all(row["control"] is None and row["confidence"] is None for row in settled)
    reasons = [row["unnamed"] for row in settled]
    assert reasons.count(why) > 0.9 * len(reasons), reasons


def test_a_capture_from_a_slower_link_says_that_the_rate_is_outside_of_training() -> None:
    ran = wirelens("cca", *TAPS, "--model", "cca", "--every", "500ms", "--format", "jsonl")
    assert ran.status == 0, ran.stderr
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    named = {row["unnamed"] for row in rows}
    assert named <= {"short", "rate"} and "rate" in named, named
    assert all(row["control"] is None and row["confidence"] is None for row in rows)
    ran = wirelens("cca", *TAPS, "--model", "cca", "--every", "500ms")
    assert b"unknown: rate outside training" in ran.stdout
