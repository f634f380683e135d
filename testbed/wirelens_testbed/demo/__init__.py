"""The demo: what two people and their machines do in half a minute, behind an access link.

Web, DNS, SSH, a voice-like call, bulk transfers under reno, cubic and bbr, and path probes, dual
stack, as the router's LAN sees them. The capture that ships is made by it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from wirelens_testbed import machine
from wirelens_testbed.demo import clients, servers, topology
from wirelens_testbed.run import Run, take_late_max_ms
from wirelens_testbed.scenario import Table
from wirelens_testbed.taps import Tap

NAME = "demo"
PROGRAMS = {
    "nginx": "nginx-light",
    "openssl": "openssl",
    "curl": "curl",
    "dnsmasq": "dnsmasq-base",
    "dig": "bind9-dnsutils",
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "scp": "openssh-client",
    "ssh-keygen": "openssh-client",
    "iperf3": "iperf3",
    "socat": "socat",
    "ping": "iputils-ping",
    "traceroute": "traceroute",
}
SNAPLEN = 262_144
SETTLE_S = 0.3


@dataclass(frozen=True)
class Plan:
    """Contents, order and pauses follow from the seed alone."""

    late_max_ms: float


def parse(table: Table) -> Plan:
    return Plan(take_late_max_ms(table))


def programs(plan: Plan) -> dict[str, str]:
    return PROGRAMS


def perform(plan: Plan, run: Run) -> None:
    """Builds the two networks, records the clients' side, and lets the clients work."""
    lab = run.lab
    machine.require_controls({algorithm for _, algorithm, *_ in servers.BULK_FLOWS})
    delay_us = topology.LINK_ONE_WAY_DELAY_MS * 1000
    access_link = topology.build(
        lab, lambda a, b: run.relay(a, b, delay_ab_us=delay_us, delay_ba_us=delay_us)
    )
    servers.start_servers(lab, random.Random(run.seed))
    recorder = run.record([Tap("router", topology.LAN_DEVICE, "both", "demo.pcapng")], SNAPLEN)
    topology.connect_clients(lab)
    run.progress("two people work")
    clients.run_clients(lab, run.seed)
    lab.pause(SETTLE_S)
    run.recorded(recorder)
    run.relayed(access_link, plan.late_max_ms)
