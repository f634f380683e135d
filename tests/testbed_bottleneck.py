"""Flows of the testbed through one bottleneck, watched: what each socket did, and the queue."""

import json
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import testbed_runs  # noqa: F401  (puts the library on the path)
from command import PROGRAM
from wirelens_testbed import controls
from wirelens_testbed.congestion import network
from wirelens_testbed.congestion.ce_marking import CeMarking, Counts
from wirelens_testbed.congestion.plan import Flow, Link, Plan
from wirelens_testbed.lab import Lab
from wirelens_testbed.relay import Relay

PORT = 5001
DURATION_S = 6.0
LEAD_S = 0.4
QUEUE_INTERVAL_S = 0.02
PACKET_BYTES = 1514  # as the queue counts
SEGMENT_BYTES = 1448

Row = dict[str, float]


@dataclass
class QueueRun:
    """What was seen; times in seconds from the start of the flows."""

    rate_mbit: float
    flows: list[list[Row]]
    ends: list[dict[str, float]]
    queue: list[tuple[float, int]] = field(default_factory=list)
    dropped: int = 0
    marking: Counts | None = None

    def queue_bytes(self, start_s: float, stop_s: float) -> list[int]:
        return [size for time_s, size in self.queue if start_s <= time_s <= stop_s]

    def rows(self, flow: int, start_s: float, stop_s: float) -> list[Row]:
        return [row for row in self.flows[flow] if start_s <= row["time_s"] <= stop_s]

    def rate(self, flow: int, start_s: float, stop_s: float) -> float:
        """What a flow got, in Mbit/s of packets on the wire."""
        first, *_, last = self.rows(flow, start_s, stop_s)
        acked_bytes = last["acked_bytes"] - first["acked_bytes"]
        wire_bits = acked_bytes * PACKET_BYTES / SEGMENT_BYTES * 8
        return wire_bits / (last["time_s"] - first["time_s"]) / 1e6

    def retransmits(self, start_s: float, stop_s: float) -> int:
        """Of all flows together."""
        seen = [self.rows(flow, start_s, stop_s) for flow in range(len(self.flows))]
        return int(sum(rows[-1]["retransmits"] - rows[0]["retransmits"] for rows in seen))

    def use(self, start_s: float, stop_s: float) -> float:
        """The share of the link's rate that all flows together got."""
        rates = (self.rate(flow, start_s, stop_s) for flow in range(len(self.flows)))
        return sum(rates) / self.rate_mbit


def watch(
    flow_controls: Sequence[str],
    *,
    rate_mbit: float = 40.0,
    rtt_ms: float = 20.0,
    buffer_bytes: int = 100_000,
    threshold_bytes: int = 0,
    duration_s: float = DURATION_S,
    is_at_both_ends: bool = True,
) -> QueueRun:
    """Runs flows that start together, each from a host of its own.

    Where the machine stands still for a while, round trips are not what they are to be. Most laws
    show all the same, so a test is made again where its law does not, and not for each such run.
    """
    flows = tuple(
        Flow(number, number, control, "measured", rtt_ms, 0.0, duration_s, 0)
        for number, control in enumerate(flow_controls)
    )
    # A tbf of two packets lets each leave when its time has come.
    link = Link(
        shaper="tbf",
        rate_mbit=rate_mbit,
        buffer_bytes=buffer_bytes,
        burst_bytes=2 * PACKET_BYTES,
        offloads=False,
        ecn=False,
        ce_threshold_bytes=threshold_bytes,
    )
    plan = Plan(duration_s, len(flows), 1, link, flows, 96, False, late_max_ms=1.0)
    watched = QueueRun(rate_mbit, [], [])
    with ExitStack() as ends:
        ends.enter_context(controls.registered(flow.control for flow in plan.flows))
        lab = ends.enter_context(closing(Lab()))
        network.build(lab, plan)
        relay = Relay(
            lab, PROGRAM, (network.EXIT, "acks"), (network.ROUTER, "acks"),
            delay_ab_us=round(plan.flows[0].rtt_ms * 1000),
        )  # fmt: skip
        network.route_acks(lab)
        marking = None
        if threshold_bytes:
            marking = CeMarking(lab, network.ROUTER, "out", threshold_bytes)
        _start_receiver(lab, plan.flows, is_at_both_ends)
        with _watching_queue(lab, watched):
            _send(lab, plan, watched)
        watched.dropped = network.queue_counts(lab).dropped
        watched.marking = marking.stop() if marking else None
        # Where it came late most, for who looks into a failure.
        print(f"relay: at most {relay.stop()['ab']['late_us']['max']:.0f} µs late")
    return watched


def _port(flow: Flow) -> int:
    return PORT + flow.number


def _start_receiver(lab: Lab, flows: Sequence[Flow], is_at_both_ends: bool) -> None:
    host, address = network.receiver_name(0), network.receiver_address(0)
    ports = [
        f"{_port(flow)}={flow.control}" if is_at_both_ends else str(_port(flow)) for flow in flows
    ]
    lab.start_module(host, "wirelens_testbed.congestion.receiver", address, *ports)
    for flow in flows:
        lab.wait_for_listener(host, _port(flow))


def _send(lab: Lab, plan: Plan, watched: QueueRun) -> None:
    senders = []
    for flow in plan.flows:
        host = network.sender_name(flow.sender)
        sender = lab.start_module(
            host, "wirelens_testbed.congestion.sender",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        order = {
            "number": flow.number, "control": flow.control, "source": flow.source,
            "source_port": 40_000 + flow.number, "port": _port(flow),
            "target": network.receiver_address(0),
            "start_s": flow.start_s, "stop_s": flow.stop_s, "size_bytes": flow.size_bytes,
        }  # fmt: skip
        samples = lab.run_dir / f"sockets-{flow.number}.tsv"
        orders = json.dumps({"flows": [order], "samples": str(samples)})
        sender.stdin.write(f"{orders}\n".encode())
        sender.stdin.flush()
        assert sender.stdout.readline().strip() == b"ready", lab.log_tails()
        senders.append((sender, samples))
    begin_s = time.time() + LEAD_S
    for sender, _ in senders:
        sender.stdin.write(f"{begin_s}\n".encode())
        sender.stdin.flush()
    for sender, samples in senders:
        (end,) = json.loads(sender.stdout.readline())
        assert not end["error"], end
        watched.ends.append(end)
        watched.flows.append(_rows(samples, begin_s))
    watched.queue = [(at_s - begin_s, size_bytes) for at_s, size_bytes in watched.queue]


def _rows(path: Path, begin_s: float) -> list[Row]:
    names, *lines = (line.split("\t") for line in path.read_text().splitlines())
    rows = [dict(zip(names, map(float, line), strict=True)) for line in lines]
    for row in rows:
        row["time_s"] = row["time_ns"] / 1e9 - begin_s
    return rows


@contextmanager
def _watching_queue(lab: Lab, watched: QueueRun) -> Iterator[None]:
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(QUEUE_INTERVAL_S):
            shown = json.loads(lab.tc_show(network.ROUTER, "qdisc", "show", "dev", "out"))
            watched.queue.append((time.time(), shown[0]["backlog"]))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
