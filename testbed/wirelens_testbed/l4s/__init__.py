"""L4S: flows of real TCP share a router with two queues; each packet's way through it is traced."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import asdict
from typing import Any

from wirelens_testbed import bpf, controls, machine
from wirelens_testbed.congestion import transfers
from wirelens_testbed.congestion.network import ENTRY, EXIT, receiver_address, sender_name
from wirelens_testbed.failure import TestbedError
from wirelens_testbed.l4s import folder, messages, network, simulated, steering
from wirelens_testbed.l4s.folder import JOURNAL, QUEUES, TRACE
from wirelens_testbed.l4s.marking import MARK, OBJECT, Counts, Ect1Marking
from wirelens_testbed.l4s.plan import GREEDY, KERNEL, Flow, Plan, parse
from wirelens_testbed.relay import Queues
from wirelens_testbed.run import Run

__all__ = ["NAME", "PROGRAMS", "missing_features", "parse", "perform", "programs"]

NAME = "l4s"
PROGRAMS: dict[str, str] = {}
# After the last flow has closed: a round trip for what is under way, and some time to wake.
SETTLE_S = 0.2


def programs(plan: Plan) -> dict[str, str]:
    """Only what every run needs: senders, router and receivers are ours."""
    return PROGRAMS


def missing_features() -> list[str]:
    """Why this kernel cannot run a control of ours or change ECT(0), each tried."""
    try:
        with controls.registered(["wl_prague"]), bpf.BpfObject(OBJECT) as program:
            program.load()
    except TestbedError as failure:
        return [str(failure)]
    return []


def perform(plan: Plan, run: Run) -> None:
    """Builds the network, runs the flows, and states what the router did."""
    if plan.world != KERNEL:
        simulated.perform(plan, run)
        return
    wanted = {flow.kernel_control for flow in plan.flows}
    with controls.registered(wanted):
        machine.require_controls(wanted)
        _perform(plan, run)


def _perform(plan: Plan, run: Run) -> None:
    lab, router = run.lab, plan.router
    run.progress(f"building {plan.senders} senders, the router, {plan.receivers} receivers")
    network.build(lab, plan)
    if plan.one_segment:
        for index in range(plan.senders):
            lab.ip(sender_name(index), "link set eth0 gso_max_segs 1")
    relay = run.relay(
        (ENTRY, network.LINK),
        (EXIT, network.LINK),
        delay_ab_us=round(router.delay_ms * 1000),
        delay_ba_us=round(router.delay_ms * 1000),
        loss_ab=router.loss,
        queues=Queues(
            settings=router.settings,
            rate_mbit=router.rate_mbit,
            trace=run.folder / TRACE,
            journal=run.folder / JOURNAL,
            senders=[network.sender_prefix(index) for index in range(plan.senders)],
            receivers=[network.receiver_prefix(index) for index in range(plan.receivers)],
        ),
    )
    network.connect(lab)
    markings = _marked(plan, run)
    kernel_controls = [flow.kernel_control for flow in plan.flows]
    transfers.start_receivers(run, network.receivers(plan), kernel_controls)
    predicted = _predicted(plan, run)
    run.progress(f"{len(plan.flows)} flows for {plan.duration_s:g} s", plan.duration_s)
    ends = transfers.send(run, _orders(plan, run))
    lab.pause(SETTLE_S + 2 * router.delay_ms / 1000)
    remarked = 0
    if predicted:
        # While packets of no flow are under way any more: all of them were the same to both.
        found = predicted.stop()
        remarked = found["remarked"]
        run.note(steering=found)
    changed = sum((marking.stop() for marking in markings), Counts(0, 0))
    report = run.relayed(relay, plan.late_max_ms)
    run.note(ect1=asdict(changed), packets=report["ab"]["received"])
    _account(plan, run, report, changed.changed - remarked)
    router_of = report["router"]
    folder.check_replay(run, router_of["settings"], router_of["seed"], router_of["start_ns"])
    _summarise(run, report["router"])
    _state_truth(plan, run, report, ends)


def _marked(plan: Plan, run: Run) -> list[Ect1Marking]:
    """ECT(1) for the packets of L4S flows, but for what is re-marked at random."""
    of_l4s = sorted({flow.sender for flow in plan.flows if flow.is_l4s})
    share = steering.parse(plan.steering).random_share
    groups = ((share, of_l4s[:1]), (0.0, of_l4s[1:])) if of_l4s[:1] == [0] else ((0.0, of_l4s),)
    return [
        Ect1Marking(run.lab, map(sender_name, senders), "eth0", share)
        for share, senders in groups
        if senders
    ]


def _predicted(plan: Plan, run: Run) -> steering.PredictionPolicy | None:
    asked = steering.parse(plan.steering)
    if asked.kind != steering.PREDICTED:
        return None
    to = [network.receiver_prefix(index) for index in range(plan.receivers)]
    return steering.PredictionPolicy(
        run.lab, run.wirelens, sender_name(0), to, plan.model, asked, run.folder
    )


def _orders(plan: Plan, run: Run) -> dict[str, list[dict[str, Any]]]:
    """What each sender is to send, by its host."""
    orders: dict[str, list[dict[str, Any]]] = {}
    for flow in sorted(plan.flows, key=lambda flow: flow.sender):
        order = {
            "number": flow.number, "control": flow.kernel_control, "source": flow.source,
            "source_port": run.rng.randint(32_768, 60_999),
            "port": transfers.port(flow.kernel_control), "target": _target(plan, flow),
            "start_s": flow.start_s, "stop_s": flow.stop_s, "size_bytes": flow.size_bytes,
            "mark": MARK if flow.is_l4s else 0,
        }  # fmt: skip
        if flow.load != GREEDY:
            rng = random.Random(f"{run.seed}:messages:{flow.number}")
            order["messages"] = messages.draw(flow.load, flow.start_s, flow.stop_s, rng)
        orders.setdefault(sender_name(flow.sender), []).append(order)
    return orders


def _target(plan: Plan, flow: Flow) -> str:
    return receiver_address(flow.number % plan.receivers)


def _account(plan: Plan, run: Run, report: dict[str, Any], changed: int) -> None:
    """Checks that packets of the senders, into each queue and out of it add up."""
    there, back = report["ab"], report["ba"]
    for name, way in (("there", there), ("back", back)):
        run.check(
            f"accounting {name}", way["adds_up"] and way["dropped_before"] == 0,
            f"{way['received']} packets came, {way['dropped_before']} before the relay saw them "
            f"were dropped, {way['sent']} were sent",
            "received = sent + dropped by cause + waiting, and none dropped before",
        )  # fmt: skip
    trace = report["trace"]
    run.check(
        "trace", trace["lost"] == 0 and trace["records"] == there["received"],
        f"{trace['records']} records, {trace['lost']} notes lost",
        f"{there['received']} records, as many as packets, and none lost",
    )  # fmt: skip
    if plan.router.mode != "tail-drop":
        came = report["router"]["l4s"]["received"]
        run.check(
            "ECT(1)", came == changed,
            f"{changed} packets left as ECT(1), {came} came to the L4S queue", "the same",
        )  # fmt: skip


def _summarise(run: Run, router: dict[str, Any]) -> None:
    """What a reader looks at first: each queue's delay, what it lost, marked and carried."""
    used_us = max(router["used_ns"], 1) / 1000
    run.note(
        summary={
            name: {
                "wait_us": router[name]["wait_us"],
                "packets": router[name]["received"],
                "dropped": folder.dropped(router[name]),
                "marked": folder.marked(router[name]),
                "rate_mbit": round(router[name]["sent_bytes"] * 8 / used_us, 3),
            }
            for name in QUEUES
        }
    )


def _state_truth(plan: Plan, run: Run, report: dict[str, Any], ends: list[dict[str, Any]]) -> None:
    numbers = {
        (flow["source"], flow["source_port"]): number
        for number, flow in enumerate(report["trace"]["flows"])
    }
    rows = []
    for flow, end in zip(plan.flows, ends, strict=True):
        is_fine = not end["error"] and end["control"] == flow.kernel_control
        seen = end["error"] or f"ran under {end['control']}, {end.get('acked_bytes', 0)} bytes"
        run.check(f"flow {flow.number}", is_fine, seen, f"under {flow.kernel_control}, to its end")
        rows.append({
            "flow": numbers.get((flow.source, end["port"])), "number": flow.number,
            "control": flow.control, "l4s": flow.is_l4s, "sender": flow.sender,
            "receiver": flow.number % plan.receivers, "source": flow.source,
            "source_port": end["port"], "target": _target(plan, flow),
            "target_port": transfers.port(flow.kernel_control),
            "acked_bytes": end.get("acked_bytes", 0), "retransmits": end.get("retransmits", 0),
            "rtt_min_us": end.get("rtt_min_us", 0), "delivered_ce": end.get("delivered_ce", 0),
        })  # fmt: skip
    run.check(
        "flows", all(row["flow"] is not None for row in rows),
        f"{sum(row['flow'] is not None for row in rows)} flows in the trace", f"{len(rows)}",
    )  # fmt: skip
    run.note(flows=dict(Counter(flow.control for flow in plan.flows)))
    router = report["router"]
    meta = {
        "world": KERNEL, "seed": run.seed,
        "router": router["settings"], "router_seed": router["seed"],
        "start_ns": router["start_ns"], "end_ns": router["end_ns"],
        "rate_bits": router["rate_bits"], "delay_ms": plan.router.delay_ms,
        "duration_s": plan.duration_s,
    }  # fmt: skip
    folder.write_truth(run, meta, rows)
