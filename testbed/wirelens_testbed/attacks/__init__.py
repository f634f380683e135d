"""Attacks: real tools against real servers, amid benign traffic, and the truth of each packet."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence

from wirelens_testbed.attacks import conduct, findings, network
from wirelens_testbed.attacks.plan import MODULES, Plan, parse
from wirelens_testbed.failure import LabError
from wirelens_testbed.run import Run
from wirelens_testbed.services.registry import SERVICES
from wirelens_testbed.services.schedule import Appointment, Outcome, Visitors, plan_visits
from wirelens_testbed.taps import Tap

__all__ = ["NAME", "PROGRAMS", "parse", "perform", "programs"]

NAME = "attacks"
PROGRAMS = {
    name: package
    for each in (
        *(module.PROGRAMS for module in MODULES),
        *(server.PROGRAMS for server in (*network.VICTIMS.values(), *SERVICES.values())),
    )
    for name, package in each.items()
}

VISITORS_AT_ONCE = 6
# Longer than the last answer of a server that was cut short, and than a tap hands over packets.
SETTLE_S = 2.0
# Visits have limits of a minute at most, but a client library may wait without one for a server
# that was flooded.
LAST_VISITS_MAX_S = 120.0


def programs(plan: Plan) -> dict[str, str]:
    """The programs of the attacks and servers that the plan names."""
    return plan.programs


def perform(plan: Plan, run: Run) -> None:
    """Attacks servers on one switch while clients use them, and labels every packet."""
    run.progress(f"building a network for {len(plan.planned)} attacks")
    lan = network.build(
        run.lab,
        run.rng,
        client_count=plan.client_count,
        victim_names=plan.victims,
        service_names=plan.services,
        machines_of={each.number: each.attack.machine_count for each in plan.planned},
    )
    network.start_servers(lan)
    attempts = conduct.set_scenes(plan, run, lan)
    marks = findings.marks_of(attempts)
    tap = Tap(network.SWITCH, network.SWITCH_DEVICE, "in", findings.CAPTURE_NAME)
    recorder = run.record([tap], snaplen=plan.snaplen)
    run.progress("recording")
    _act(plan, run, lan, attempts)
    run.lab.pause(SETTLE_S)
    (report,) = run.recorded(recorder)
    run.progress(f"labelling {report['packets']} packets")
    found = findings.label_capture(run.folder, marks, lan)
    findings.write_attacks(run.folder / findings.ATTACKS_NAME, attempts, found)
    findings.check(run, attempts, found, report["packets"])
    findings.state_flows(run, lan, found)


def _act(plan: Plan, run: Run, lan: network.Network, attempts: list[conduct.Attempt]) -> None:
    """Attacks and visits side by side, until both have ended."""
    outcomes: list[Outcome] = []
    failures: list[BaseException] = []

    def visit() -> None:
        try:
            outcomes.extend(_visit(plan, run, lan, attempts))
        except BaseException as failure:  # told below, in the thread that can end the run
            failures.append(failure)

    visiting = threading.Thread(target=visit)
    started_s = time.monotonic()
    visiting.start()
    try:
        conduct.make_attempts(run, attempts)
        run.lab.pause(started_s + plan.duration_s - time.monotonic())
    except BaseException:
        run.lab.abandon()
        raise
    finally:
        visiting.join(LAST_VISITS_MAX_S)
        if visiting.is_alive():
            # Without its server the client's connection ends, and with it the visit.
            run.lab.abandon()
            visiting.join(LAST_VISITS_MAX_S)
            failures.insert(0, LabError(
                f"a benign visit still waited {LAST_VISITS_MAX_S:g} s after the last attack, and "
                "should have ended by itself; make the run again"
            ))  # fmt: skip
    if failures:
        raise failures[0]
    made = Counter("failed" if outcome.visit is None else "made" for outcome in outcomes)
    run.note(visits=dict(made))


def _visit(
    plan: Plan, run: Run, lan: network.Network, attempts: Sequence[conduct.Attempt]
) -> list[Outcome]:
    servers = {server.machine.name: server.server for server in lan.servers}
    if not servers:
        return []
    rng = random.Random(f"{run.seed}:visits")
    names = list(servers)
    weights = [servers[name].WEIGHT for name in names]
    wanted = round(plan.visits_per_s * plan.duration_s)
    counts = Counter(rng.choices(names, weights, k=wanted))
    clients = [machine.host for machine in lan.clients]
    appointments = plan_visits(rng, counts, clients, plan.duration_s)
    for attempt in attempts:
        planned = attempt.planned
        for after_s, service, client in planned.attack.visits_meanwhile(attempt.scene):
            appointments.append(
                Appointment(
                    len(appointments) + 1, planned.start_s + after_s, service, client.host,
                    rng.getrandbits(64),
                )
            )  # fmt: skip
    appointments.sort(key=lambda appointment: appointment.start_s)

    def tell(outcome: Outcome) -> None:
        # Under attack a visit may well fail: that is an event, and no fault of the run.
        run.event(
            "visit", service=outcome.appointment.service, client=outcome.appointment.client.name,
            start_ns=outcome.start_ns, variant=outcome.visit.variant if outcome.visit else "",
            complaint=outcome.complaint[:200],
        )  # fmt: skip

    return Visitors(run.lab, servers, VISITORS_AT_ONCE, tell).make(appointments)
