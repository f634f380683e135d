"""Queues that the model that ships was not trained on: no control is named, and why is said.

In network namespaces of the test's own; without root it is skipped.
"""

import json
import re
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from cca_queue import shared_queue
from command import ROOT, wirelens
from lab import Listening
from sealing import seal
from testbed_runs import need_root

RUN = ROOT / "testdata/testbed/congestion"
TAPS = ("-r", RUN / "before.pcapng.gz", "--egress", RUN / "after.pcapng.gz")


@pytest.mark.testbed
@pytest.mark.parametrize(
    ("controls", "rate_mbit", "why"),
    [(("reno", "cubic"), 200.0, "rate"), (("reno", "cubic", "bbr"), 4.0, "rate")],
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


@pytest.mark.parametrize(
    ("reason", "span"),
    [("flows", [4, 81]), ("rate_bit", [5e7, 1e8]), ("queue_s", [0.001, 0.01])],
)
def test_a_capture_unlike_those_of_training_is_not_named(
    reason: str, span: list[float], tmp_path: Path
) -> None:
    """Three flows share 20 Mbit/s, and wait 40 ms; the model says that its training had not that."""
    model, why = trained_on(tmp_path, reason, span), reason.split("_")[0]
    ran = wirelens("cca", *TAPS, "--model", model, "--every", "500ms", "--format", "jsonl")
    assert ran.status == 0, ran.stderr
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    named = {row["unnamed"] for row in rows}
    assert named <= {"short", why} and why in named, named
    assert all(row["control"] is None and row["confidence"] is None for row in rows)
    ran = wirelens("cca", *TAPS, "--model", model, "--every", "500ms")
    shown = {"flows": "number of flows"}.get(why, why)
    assert re.search(f"unknown: {shown}.* outside training".encode(), ran.stdout)


def trained_on(folder: Path, what: str, span: list[float]) -> Path:
    """The model that ships, as if it had been trained on this range."""
    content = (ROOT / "models/cca/model.safetensors").read_bytes()
    (head_len,) = struct.unpack("<Q", content[:8])
    head = json.loads(content[8 : 8 + head_len])
    said = json.loads(head["__metadata__"]["wirelens"])
    said["range"][what] = span
    head["__metadata__"]["wirelens"] = json.dumps(said)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    copy = folder / "model.safetensors"
    copy.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + head_len :])
    seal(folder)
    return folder
