"""Flows of the testbed that share a queue while somebody acts on it: what each of them got."""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import testbed_runs  # noqa: F401  (puts the library on the path)
from command import PROGRAM
from wirelens_testbed.congestion import network
from wirelens_testbed.congestion.plan import Flow, Link, Plan
from wirelens_testbed.lab import Lab, Program
from wirelens_testbed.relay import Relay

PORT = 5001
PORT_FIRST = 40_000
LEAD_S = 0.4
PACKET_BYTES = 1514


class SharedQueue:
    """Flows that run, one a sender; times are in seconds from their start."""

    def __init__(self, lab: Lab, plan: Plan) -> None:
        self.lab = lab
        self.plan = plan
        self.before = f"{lab.namespace(network.ROUTER)}:in"
        self.behind = f"{lab.namespace(network.EXIT)}:in"
        self.device = f"{lab.namespace(network.ROUTER)}:out"
        self.late_max_us = 0.0
        self._senders: list[tuple[Program, Path]] = []
        self._rows: list[list[tuple[float, float, float]]] = []
        self._begin_s = 0.0

    def controls_text(self) -> str:
        """Who runs what, as `--act-by` reads it."""
        return "".join(f"{flow.source} {flow.control}\n" for flow in self.plan.flows)

    def shown(self, what: str = "qdisc") -> list[dict[str, Any]]:
        """What `tc` tells of the bottleneck."""
        words = [what, "show", "dev", "out"]
        if what == "qdisc":
            words.append("invisible")
        return json.loads(self.lab.tc_show(network.ROUTER, *words))

    def start(self) -> None:
        for flow in self.plan.flows:
            sender = self.lab.start_module(
                network.sender_name(flow.sender), "wirelens_testbed.congestion.sender",
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
            order = {
                "number": flow.number, "control": flow.control, "source": flow.source,
                "source_port": PORT_FIRST + flow.number, "port": PORT,
                "target": network.receiver_address(0), "start_s": flow.start_s,
                "stop_s": flow.stop_s, "size_bytes": flow.size_bytes,
            }  # fmt: skip
            samples = self.lab.run_dir / f"sockets-{flow.number}.tsv"
            self._tell(sender, json.dumps({"flows": [order], "samples": str(samples)}))
            assert sender.stdout is not None
            assert sender.stdout.readline().strip() == b"ready", self.lab.log_tails()
            self._senders.append((sender, samples))
        self._begin_s = time.time() + LEAD_S
        for sender, _ in self._senders:
            self._tell(sender, str(self._begin_s))

    @staticmethod
    def _tell(sender: Program, line: str) -> None:
        assert sender.stdin is not None
        sender.stdin.write(f"{line}\n".encode())
        sender.stdin.flush()

    def wait_until(self, second: float) -> None:
        time.sleep(max(0.0, self._begin_s + second - time.time()))

    def second(self) -> float:
        return time.time() - self._begin_s

    def finish(self) -> None:
        """Waits for all flows to end."""
        for sender, samples in self._senders:
            assert sender.stdout is not None
            (end,) = json.loads(sender.stdout.readline())
            assert not end["error"], end
            names, *lines = (line.split("\t") for line in samples.read_text().splitlines())
            at, acked, rtt = map(names.index, ("time_ns", "acked_bytes", "rtt_us"))
            self._rows.append(
                [
                    (int(row[at]) / 1e9 - self._begin_s, float(row[acked]), float(row[rtt]) / 1e3)
                    for row in lines
                ]
            )

    def rates(self, start_s: float, stop_s: float) -> list[float]:
        """What each flow got, in Mbit/s of data."""
        found = []
        for rows in self._rows:
            (first_s, first, _), *_, (last_s, last, _) = _between(rows, start_s, stop_s)
            found.append((last - first) * 8e-6 / (last_s - first_s))
        return found

    def waits_ms(self, start_s: float, stop_s: float) -> list[float]:
        """How much longer than its path each flow's smoothed round trip was, on average."""
        return [
            statistics.mean(rtt for _, _, rtt in _between(rows, start_s, stop_s)) - flow.rtt_ms
            for rows, flow in zip(self._rows, self.plan.flows, strict=True)
        ]


def _between(
    rows: list[tuple[float, float, float]], start_s: float, stop_s: float
) -> list[tuple[float, float, float]]:
    return [row for row in rows if start_s <= row[0] <= stop_s]


@contextmanager
def shared_queue(
    controls: Sequence[str],
    rtts_ms: Sequence[float],
    *,
    duration_s: float,
    rate_mbit: float = 20.0,
    buffer_bytes: int = 100_000,
) -> Iterator[SharedQueue]:
    """A queue before a tbf, and senders that have not begun."""
    flows = tuple(
        Flow(number, number, control, "measured", rtt_ms, 0.0, duration_s, 0)
        for number, (control, rtt_ms) in enumerate(zip(controls, rtts_ms, strict=True))
    )
    # A tbf of two packets lets each leave when its time has come.
    link = Link("tbf", rate_mbit, buffer_bytes, 2 * PACKET_BYTES, False, False, 0)
    plan = Plan(duration_s, len(flows), 1, link, flows, 96, False, late_max_ms=1.0)
    with ExitStack() as ends:
        lab = ends.enter_context(closing(Lab()))
        network.build(lab, plan)
        relay = Relay(
            lab, PROGRAM, (network.EXIT, "acks"), (network.ROUTER, "acks"),
            classes_ab={f"{flow.source}/32": round(flow.rtt_ms * 1000) for flow in flows},
        )  # fmt: skip
        network.route_acks(lab)
        lab.start_module(
            network.receiver_name(0), "wirelens_testbed.congestion.receiver",
            network.receiver_address(0), str(PORT),
        )  # fmt: skip
        lab.wait_for_listener(network.receiver_name(0), PORT)
        queue = SharedQueue(lab, plan)
        yield queue
        queue.late_max_us = relay.stop()["ab"]["late_us"]["max"]


def jain(rates: Sequence[float]) -> float:
    """Jain's index: 1 where all got the same, 1 of so many where one got all."""
    return sum(rates) ** 2 / (len(rates) * sum(rate * rate for rate in rates))
