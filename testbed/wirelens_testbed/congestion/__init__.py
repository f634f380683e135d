"""Congestion control: flows under many controls share one queue, seen before and after it."""

from __future__ import annotations

import socket
from dataclasses import asdict
from typing import Any

from wirelens_testbed import controls, machine, processor
from wirelens_testbed.congestion import departures, network, transfers
from wirelens_testbed.congestion.ce_marking import CeMarking
from wirelens_testbed.congestion.plan import Plan, parse
from wirelens_testbed.lab import Lab
from wirelens_testbed.relay import Relay
from wirelens_testbed.run import Run
from wirelens_testbed.taps import Tap

__all__ = ["NAME", "PROGRAMS", "parse", "perform", "programs"]

NAME = "congestion"
PROGRAMS: dict[str, str] = {}

# What TSO hands over at once, 64 kB, in the smallest packets that a full flow sends.
SEGMENTS_MAX = 64
BEFORE, AFTER = "before.pcapng", "after.pcapng"
# After the last flow has closed, for the queue to run empty and the last packet to be recorded.
SETTLE_S = 0.1
SETTLE_ATTEMPTS = 30
# Of packets that came to the queue, lost elsewhere: what controls do is to be the queue's doing.
LOST_ELSEWHERE_MAX = 0.001


def programs(plan: Plan) -> dict[str, str]:
    """Only what every run needs: senders and receivers are ours."""
    return PROGRAMS


def perform(plan: Plan, run: Run) -> None:
    """Builds the dumbbell, runs the flows, and writes the outcome of each packet."""
    wanted = {flow.kernel_control for flow in plan.flows}
    with controls.registered(wanted):
        machine.require_controls(wanted)
        _perform(plan, run)


def _perform(plan: Plan, run: Run) -> None:
    lab = run.lab
    run.progress(f"building {plan.senders} senders, the bottleneck, {plan.receivers} receivers")
    network.build(lab, plan)
    relay = _relay_acks(plan, run) if any(flow.rtt_ms for flow in plan.flows) else None
    if not relay:
        network.return_acks(lab)
    transfers.start_receivers(run, _receivers(plan), (flow.kernel_control for flow in plan.flows))
    marking = None
    if plan.link.ce_threshold_bytes:
        marking = CeMarking(lab, network.ROUTER, "out", plan.link.ce_threshold_bytes)
    recorder = run.record(
        [
            Tap(network.ROUTER, "in", "in", BEFORE),
            Tap(network.EXIT, "in", "in", AFTER),
            *(_single_taps(plan) if plan.single_taps else ()),
        ],
        plan.snaplen,
    )
    run.progress(f"{len(plan.flows)} flows for {plan.duration_s:g} s", plan.duration_s)
    dropped_before = processor.dropped_packets()
    ends = transfers.send(run, _orders(plan, run))
    queue = _settled(plan, lab)
    if marking:
        run.note(marking=asdict(marking.stop()))
    reports = run.recorded(recorder)
    if relay:
        run.relayed(relay, plan.late_max_ms)
    else:
        run.punctual(plan.late_max_ms)
    _account(plan, run, reports, queue)
    _look_elsewhere(run, processor.dropped_packets() - dropped_before)
    _state_truth(plan, run, ends)


def _settled(plan: Plan, lab: Lab) -> network.QueueCounts:
    """The queue's counts once nothing comes any more: acknowledgements of what it still held take
    a round trip, and closed sockets answer each of them."""
    quiet_s = SETTLE_S + max((flow.rtt_ms for flow in plan.flows), default=0.0) / 1000
    before = network.queue_counts(lab)
    for _ in range(SETTLE_ATTEMPTS):
        lab.pause(quiet_s)
        now = network.queue_counts(lab)
        if now == before:
            break
        before = now
    return before


def _single_taps(plan: Plan) -> list[Tap]:
    """Where acknowledgements pass as well as data."""
    receivers = (network.receiver_name(index) for index in range(plan.receivers))
    return [
        Tap(network.ROUTER, "in", "both", "single-before.pcapng"),
        *(Tap(host, "eth0", "both", f"single-{host}.pcapng") for host in receivers),
    ]


def _relay_acks(plan: Plan, run: Run) -> Relay:
    relay = run.relay(
        (network.EXIT, "acks"),
        (network.ROUTER, "acks"),
        classes_ab={f"{flow.source}/32": round(flow.rtt_ms * 1000) for flow in plan.flows},
    )
    network.route_acks(run.lab)
    return relay


def _receivers(plan: Plan) -> list[tuple[str, str]]:
    return [
        (network.receiver_name(index), network.receiver_address(index))
        for index in range(plan.receivers)
    ]


def _orders(plan: Plan, run: Run) -> dict[str, list[dict[str, Any]]]:
    """What each sender is to send, by its host."""
    orders: dict[str, list[dict[str, Any]]] = {}
    for flow in sorted(plan.flows, key=lambda flow: flow.sender):
        orders.setdefault(network.sender_name(flow.sender), []).append({
            "number": flow.number, "control": flow.kernel_control, "source": flow.source,
            "source_port": run.rng.randint(32_768, 60_999),
            "port": transfers.port(flow.kernel_control),
            "target": network.receiver_address(flow.number % plan.receivers),
            "start_s": flow.start_s, "stop_s": flow.stop_s, "size_bytes": flow.size_bytes,
        })  # fmt: skip
    return orders


def _account(
    plan: Plan, run: Run, reports: list[dict[str, Any]], queue: network.QueueCounts
) -> None:
    """Holds the taps' counts against the queue's own."""
    came, left = (report["tc"]["segments"] for report in reports[:2])
    run.note(
        queue={
            "came": came, "sent": queue.sent, "left": left, "dropped": queue.dropped,
            "waiting": queue.backlog,
        }
    )  # fmt: skip
    run.check(
        "departures", left == queue.sent,
        f"{queue.sent} packets sent by the queue, {left} arrived behind it", "the same",
    )  # fmt: skip
    lost = came - left - queue.backlog
    # The queue counts as one drop what came to it as one: with offloads, up to 64 kB.
    is_exact = not plan.link.offloads
    lost_max = queue.dropped * (1 if is_exact else SEGMENTS_MAX)
    run.check(
        "accounting", queue.dropped <= lost <= lost_max,
        f"{came} packets came to the queue, {left} left it, {queue.dropped} were dropped, "
        f"{queue.backlog} wait",
        "came = left + dropped + waiting"
        + ("" if is_exact else f", where a drop may be up to {SEGMENTS_MAX} packets"),
    )  # fmt: skip


def _look_elsewhere(run: Run, dropped: int) -> None:
    """Holds what processors had no room for, on the whole machine, against what came."""
    came = run.facts["queue"]["came"]
    run.note(dropped_by_processors=dropped)
    run.check(
        "losses elsewhere", dropped <= came * LOST_ELSEWHERE_MAX,
        f"{dropped} packets dropped by processors, {came} arrived at the queue",
        f"at most {LOST_ELSEWHERE_MAX:.1%}; try fewer parallel runs, a slower link, or a higher "
        "net.core.netdev_max_backlog",
    )  # fmt: skip


def _state_truth(plan: Plan, run: Run, ends: list[dict[str, Any]]) -> None:
    for flow, end in zip(plan.flows, ends, strict=True):
        is_fine = not end["error"] and end["control"] == flow.kernel_control
        seen = end["error"] or f"ran under {end['control']}, {end.get('acked_bytes', 0)} bytes"
        run.check(f"flow {flow.number}", is_fine, seen, f"under {flow.kernel_control}, to its end")
        run.truth.add(
            label=flow.control,
            client=(flow.source, end["port"]),
            server=(
                network.receiver_address(flow.number % plan.receivers),
                transfers.port(flow.kernel_control),
            ),
            start_ns=end["start_ns"],
            end_ns=end["end_ns"],
            flow=flow.number,
            role=flow.role,
            rtt_ms=flow.rtt_ms,
            acked_bytes=end.get("acked_bytes", 0),
            retransmits=end.get("retransmits", 0),
            rtt_min_us=end.get("rtt_min_us", 0),
            delivered_ce=end.get("delivered_ce", 0),
        )
    counts = run.truth.finish(run.folder / BEFORE)
    run.note(flows=counts)
    run.check(
        "truth", sum(counts.values()) == len(plan.flows) and "unexplained" not in counts,
        f"flows by label {counts}", f"{len(plan.flows)} flows, each explained",
    )  # fmt: skip
    if plan.packet_truth:
        run.progress("telling of each packet when it left the queue")
        sources = {socket.inet_aton(flow.source): flow.number for flow in plan.flows}
        seen = departures.write(
            run.folder / BEFORE, run.folder / AFTER, sources, run.folder / "packets.tsv.gz"
        )
        queue = run.facts["queue"]
        wanted = departures.Counts(came=queue["came"], dropped=queue["dropped"], strangers=0)
        run.check("packets", seen == wanted, str(seen), f"{wanted}, as counted")
