"""Services: real servers and clients, each flow labelled by who was started."""

from __future__ import annotations

import csv
import random
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from wirelens_testbed.failure import ScenarioError
from wirelens_testbed.run import Run, take_late_max_ms
from wirelens_testbed.scenario import Table
from wirelens_testbed.services import names, network, schedule
from wirelens_testbed.services.registry import SERVICES
from wirelens_testbed.services.service import Endpoint, Server, Shares
from wirelens_testbed.taps import Tap
from wirelens_testbed.truth import UNEXPLAINED

NAME = "services"
PROGRAMS = names.PROGRAMS | {
    program: package
    for service in SERVICES.values()
    for program, package in service.PROGRAMS.items()
}

CAPTURE_NAME = "lan.pcapng"
SNAPLEN_ALL_BYTES = 262_144
STARTERS_MAX = 3
# What the last visits leave on the way: acknowledgements, ends of connections.
SETTLE_S = 1.0
# The testbed's own link-layer chatter (ARP, neighbour discovery) is recorded, but it is no flow of
# a service.
FLOWS_OF_SERVICES = "tcp or udp"
# A connection whose end is late is seen as one more flow, which no visit has begun.
STRAY_SHARE_MAX = 0.02


@dataclass(frozen=True)
class Plan:
    """A scenario of this kind, read and checked."""

    counts: Mapping[str, int]
    duration_s: float
    client_count: int
    worker_count: int
    snaplen_bytes: int
    failure_share_max: float
    late_max_ms: float
    shares: Shares
    paths: network.Paths


def parse(table: Table) -> Plan:
    """Reads a scenario; `[visits]` may name counts of single services."""
    wanted = table.take_list("services", str, list(SERVICES))
    for name in wanted:
        if name not in SERVICES:
            raise ScenarioError(f"services: {name!r} is not known; known: {', '.join(SERVICES)}")
    visit_count = table.take("visit_count", int, 10, minimum=1, maximum=10_000)
    visits = table.take_table("visits")
    counts = {
        name: visits.take(
            name, int, max(1, round(visit_count * SERVICES[name].WEIGHT)), minimum=0, maximum=10_000
        )
        for name in dict.fromkeys(wanted)
    }
    visits.finish()
    return Plan(
        counts=counts,
        duration_s=table.take("duration_s", float, 150.0, minimum=0.0, maximum=86_400.0),
        client_count=table.take("client_count", int, 4, minimum=1, maximum=network.CLIENTS_MAX),
        worker_count=table.take("worker_count", int, 6, minimum=1, maximum=64),
        snaplen_bytes=table.take("snaplen", int, SNAPLEN_ALL_BYTES, minimum=64),
        failure_share_max=table.take("failure_share_max", float, 0.02, minimum=0.0, maximum=1.0),
        late_max_ms=take_late_max_ms(table),
        shares=Shares(
            ipv6=table.take("ipv6_share", float, 0.4, minimum=0.0, maximum=1.0),
            other_port=table.take("other_port_share", float, 0.2, minimum=0.0, maximum=1.0),
        ),
        paths=network.Paths.parse(table.take_table("paths")),
    )


def programs(plan: Plan) -> dict[str, str]:
    """Only what the named services need."""
    wanted = dict(names.PROGRAMS)
    for name in plan.counts:
        wanted |= SERVICES[name].PROGRAMS
    return wanted


def perform(plan: Plan, run: Run) -> None:
    """Builds the network, starts all servers, lets the clients visit them, writes what was whose."""
    hosts = network.plan_hosts(plan.client_count, list(plan.counts))
    network.build(run, hosts, plan.paths, run.rng)
    relay = network.add_delays(run, hosts, plan.paths, run.rng)
    names.start_resolver(run.lab, hosts.resolver, list(hosts.servers.values()))
    names.resolve_names(run.lab, hosts.clients, (), hosts.resolver.ipv4)
    servers = _start_servers(plan, run, hosts)
    visits = schedule.plan_visits(run.rng, plan.counts, hosts.clients, plan.duration_s)
    run.progress(
        f"{len(servers)} servers listen; {len(visits)} visits in {plan.duration_s:g} s",
        plan.duration_s,
    )

    recorder = run.record(
        [Tap(network.ROUTER, network.LAN_DEVICE, "both", CAPTURE_NAME)], snaplen=plan.snaplen_bytes
    )
    start_ns = time.time_ns()
    visitors = schedule.Visitors(
        run.lab, servers, plan.worker_count, lambda outcome: _tell(run, outcome)
    )
    outcomes = visitors.make(visits)
    run.lab.pause(SETTLE_S)
    run.recorded(recorder)
    _state_truth(run, hosts, servers, outcomes, start_ns)
    run.relayed(relay, plan.late_max_ms)
    _check(plan, run, hosts, outcomes)


def _start_servers(plan: Plan, run: Run, hosts: network.Network) -> dict[str, Server]:
    servers = {
        name: SERVICES[name](
            run.lab, hosts.servers[name], random.Random(run.rng.getrandbits(64)), plan.shares
        )
        for name in plan.counts
    }
    run.progress(f"starting {len(servers)} servers")
    with ThreadPoolExecutor(STARTERS_MAX) as pool:
        try:
            for future in [pool.submit(server.start) for server in servers.values()]:
                future.result()
        except BaseException:
            run.lab.abandon()
            raise
    for name, server in servers.items():
        run.event("server", service=name, address=server.host.ipv4, port=server.port)
    return servers


def _tell(run: Run, outcome: schedule.Outcome) -> None:
    appointment = outcome.appointment
    facts = {
        "visit": appointment.number, "service": appointment.service,
        "client": appointment.client.name, "start_ns": outcome.start_ns,
    }  # fmt: skip
    if outcome.visit:
        run.event("visit", **facts, variant=outcome.visit.variant, program=outcome.visit.program)
    else:
        run.event("visit failed", **facts, complaint=outcome.complaint)
        run.progress(f"visit {appointment.number} failed: {outcome.complaint}")


def _state_truth(
    run: Run,
    hosts: network.Network,
    servers: Mapping[str, Server],
    outcomes: Sequence[schedule.Outcome],
    start_ns: int,
) -> None:
    whole = {"start_ns": start_ns, "end_ns": time.time_ns()}
    for client in hosts.clients:
        for family in (4, 6):
            own, resolver = (client.address(family), None), hosts.resolver.address(family)
            for protocol in ("udp", "tcp"):
                run.truth.add(
                    label=names.LABEL, protocol=protocol, client=own,
                    server=(resolver, names.PORT), **whole, service="resolver", variant="look-up",
                )  # fmt: skip
            for name, server in servers.items():
                for end in _ends(server):
                    run.truth.add(
                        label=end.label, protocol=end.protocol, client=own,
                        server=(server.host.address(family), end.port), **whole, service=name,
                    )  # fmt: skip
    # Stated last, so that these win over the statements for the whole run.
    for outcome in outcomes:
        appointment, visit = outcome.appointment, outcome.visit
        server = servers[appointment.service]
        for end in _ends(server):
            for family in (4, 6):
                run.truth.add(
                    label=end.label, protocol=end.protocol,
                    client=(appointment.client.address(family), None),
                    server=(server.host.address(family), end.port),
                    start_ns=outcome.start_ns, end_ns=outcome.end_ns,
                    service=appointment.service,
                    variant=visit.variant if visit else "failed",
                    program=visit.program if visit else "",
                    bytes_asked=visit.bytes_asked if visit else "",
                    visit=appointment.number,
                )  # fmt: skip


def _ends(server: Server) -> list[Endpoint]:
    """Where its flows go to. Later fragments of a datagram name no port, which is told as port 0."""
    of_datagrams = [end for end in server.endpoints if end.protocol == "udp" and end.port]
    return [*server.endpoints, *(replace(end, port=0) for end in of_datagrams[:1])]


def _check(
    plan: Plan, run: Run, hosts: network.Network, outcomes: Sequence[schedule.Outcome]
) -> None:
    counts = run.truth.finish(run.folder / CAPTURE_NAME, FLOWS_OF_SERVICES)
    unexplained = counts.pop(UNEXPLAINED, 0)
    failed = [outcome for outcome in outcomes if not outcome.visit]
    run.note(flows=counts, visits=len(outcomes), visits_failed=len(failed))
    run.check("flows: all explained", not unexplained, f"{unexplained} unexplained", "0")
    share = len(failed) / max(len(outcomes), 1)
    complaints = "; ".join(outcome.complaint for outcome in failed[:3])
    run.check(
        "visits: all but few succeed", share <= plan.failure_share_max,
        f"{len(failed)} of {len(outcomes)} failed: {complaints}",
        f"at most {plan.failure_share_max:.1%}",
    )  # fmt: skip
    with (run.folder / "flows.tsv").open() as table:
        rows = list(csv.DictReader(table, delimiter="\t"))
    visited = {row["service"] for row in rows if row["visit"]}
    unseen = [name for name, count in plan.counts.items() if count and name not in visited]
    run.check(
        "flows: of every service", not unseen, f"none of {', '.join(unseen) or 'no service'}",
        "at least one of each",
    )  # fmt: skip
    # A seed may call somebody who has left: only what clients begin has to be of a visit.
    addresses = {client.address(family) for client in hosts.clients for family in (4, 6)}
    begun = [row for row in rows if row["src_ip"] in addresses and row["service"] != "resolver"]
    strays = sum(not row["visit"] for row in begun)
    run.check(
        "flows: each of a visit", strays <= STRAY_SHARE_MAX * len(begun),
        f"{strays} of {len(begun)} are of no visit", f"at most {STRAY_SHARE_MAX:.0%}",
    )  # fmt: skip
