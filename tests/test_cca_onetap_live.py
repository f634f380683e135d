"""The model of one tap that ships, on flows of this kernel that share a queue."""

import json
from pathlib import Path

import pytest
from cca_queue import shared_queue
from lab import Listening
from testbed_runs import need_root

CONTROLS = ("bbr", "cubic")
ENDS_S, LOOKED_AT_S = 24.0, 8.0


# What a flow shows in 128 round trips differs from run to run.
@pytest.mark.flaky(reruns=5, only_rerun=["AssertionError"])
@pytest.mark.testbed
def test_flows_of_one_interface_get_their_controls(tmp_path: Path) -> None:
    need_root()
    told = tmp_path / "told.jsonl"
    with shared_queue(CONTROLS, [20.0, 30.0], duration_s=ENDS_S + 1.0) as queue:
        words = ("--model", "cca-onetap", "--every", "1s", "-o", told)
        namespace, _, device = queue.before.partition(":")
        arguments = ("cca", "-i", device, *words)
        with Listening(tmp_path, *arguments, namespace=namespace) as listening:
            queue.start()
            queue.wait_until(ENDS_S)
            ran = listening.end()
        queue.finish()
    assert ran.status == 0, ran.stderr
    rows = [json.loads(line) for line in told.read_text().splitlines()]
    rows = [row for row in rows if row["sent_bytes"] > row["acked_bytes"] / 2]
    ends_ns = max(int(row["start_ns"]) for row in rows)
    first = [row for row in rows if row["unnamed"] == "short"]
    assert first and not first[0]["likeliest"], "a flow that is seen too briefly has no answer"
    late = [row for row in rows if int(row["start_ns"]) > ends_ns - LOOKED_AT_S * 1e9]
    for flow in queue.plan.flows:
        own = [row for row in late if row["src_ip"] == flow.source]
        assert len(own) >= LOOKED_AT_S - 2
        right = [row for row in own if flow.control in (row["likeliest"] or "")]
        assert len(right) > len(own) / 2, [row["likeliest"] for row in own]
        named = [row["control"] for row in own if row["control"]]
        assert named.count(flow.control) >= len(named) / 2, named
