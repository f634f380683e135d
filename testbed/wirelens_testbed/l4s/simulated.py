"""The same scenario in a simulator: Wirelens' own, or ns-3.

The router, the trace and the journal are those of the testbed's router; what differs is TCP, and
that times are exact.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from wirelens_testbed.failure import TestbedError
from wirelens_testbed.l4s import folder
from wirelens_testbed.l4s.folder import JOURNAL, QUEUES, TRACE
from wirelens_testbed.l4s.plan import Flow, Plan
from wirelens_testbed.run import Run

SCENARIO = "scenario.txt"
MAGIC_BYTES, RECORD_BYTES = 8, 80
# ns-3 takes up to half a second for a second of 100 Mbit/s, ten for 1,000 flows at 1 Gbit/s.
SECONDS_MAX_PER_SECOND = 60


def perform(plan: Plan, run: Run) -> None:
    """Writes the scenario, has it simulated, and states what the router did."""
    (run.folder / SCENARIO).write_text(text(plan, run.seed))
    run.progress(f"{len(plan.flows)} flows for {plan.duration_s:g} s, in {plan.world}")
    found = _simulate(plan, run)
    for name in QUEUES:
        queue = found["queues"][name]
        lost = folder.dropped(queue)
        run.check(
            f"accounting {name}", queue["received"] == queue["sent"] + lost + queue["waiting"],
            f"{queue['received']} packets came, {queue['sent']} were sent, {lost} dropped",
            "received = sent + dropped by cause + waiting",
        )  # fmt: skip
    _check_trace(run, found)
    folder.check_replay(run, plan.router.settings, run.seed, 0)
    run.note(summary={name: _summary(found, name) for name in QUEUES}, groups=found["groups"])
    _state_truth(plan, run)


def text(plan: Plan, seed: int) -> str:
    """The scenario as both simulators read it, a group for each flow."""
    router = plan.router
    lines = [
        f"rate_bps {round(router.rate_mbit * 1e6)}",
        f"delay_ns {round(router.delay_ms * 1e6)}",
        f"duration_ns {round(plan.duration_s * 1e9)}",
        f"seed {seed}",
        f"router {router.settings}",
        f"control {plan.steering}",
        *(_group(plan, flow) for flow in plan.flows),
    ]
    return "\n".join(lines) + "\n"


def _group(plan: Plan, flow: Flow) -> str:
    receiver = flow.number % plan.receivers + 1
    return (
        f"group congestion={flow.control} sender={flow.sender + 1} receiver={receiver} "
        f"load={flow.load} start_ns={round(flow.start_s * 1e9)}"
    )


def ns3_program(wirelens: Path) -> Path:
    """Where `make ns3` puts the scenario: next to the build that runs."""
    return wirelens.resolve().parents[1] / "ns3" / "l4s"


def _simulate(plan: Plan, run: Run) -> dict[str, Any]:
    files = {"trace": run.folder / TRACE, "journal": run.folder / JOURNAL}
    command: list[Any] = [run.wirelens, "testbed", "simulate", run.folder / SCENARIO]
    command += ["-o", files["trace"], "--journal", files["journal"]]
    if plan.world == "ns3":
        program = ns3_program(run.wirelens)
        if not program.exists():
            raise TestbedError(
                f"ns-3's scenario was not found at {program}; `make ns3` in a clone builds it, or "
                'choose world = "simulator"'
            )
        command = [program, run.folder / SCENARIO]
        command += ["--trace", files["trace"], "--journal", files["journal"]]
    if plan.model:
        command += ["--model", plan.model]
    limit_s = max(plan.duration_s, 1) * SECONDS_MAX_PER_SECOND
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL,
        timeout=limit_s,
    )  # fmt: skip
    if done.returncode:
        raise TestbedError(f"{plan.world}: {done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _check_trace(run: Run, found: dict[str, Any]) -> None:
    records = ((run.folder / TRACE).stat().st_size - MAGIC_BYTES) // RECORD_BYTES
    # In ns-3 handshakes reach the router, too, and have no record.
    received = sum(found["queues"][name]["received"] for name in QUEUES)
    share = records / max(received, 1)
    run.check("trace", 0.99 <= share <= 1, f"{records} records", f"{received}, or nearly so many")


def _summary(found: dict[str, Any], name: str) -> dict[str, Any]:
    queue = found["queues"][name]
    shares = ("p50", "p90", "p99", "max")
    waits = {key: 1000 * (queue[f"{key}_ms"] or 0.0) for key in shares}
    return {
        "wait_us": waits,
        "packets": queue["received"],
        "dropped": folder.dropped(queue),
        "marked": folder.marked(queue),
    }


def _state_truth(plan: Plan, run: Run) -> None:
    rows = [
        {
            "flow": flow.number, "number": flow.number, "control": flow.control,
            "l4s": flow.is_l4s, "sender": flow.sender, "receiver": flow.number % plan.receivers,
            "load": flow.load,
        }
        for flow in plan.flows
    ]  # fmt: skip
    meta = {
        "world": plan.world, "seed": run.seed,
        "router": plan.router.settings, "router_seed": run.seed, "start_ns": 0,
        "end_ns": round(plan.duration_s * 1e9), "rate_bits": round(plan.router.rate_mbit * 1e6),
        "delay_ms": plan.router.delay_ms, "duration_s": plan.duration_s, "steering": plan.steering,
        "model": plan.model,
    }  # fmt: skip
    folder.write_truth(run, meta, rows)
