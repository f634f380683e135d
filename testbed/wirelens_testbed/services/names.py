"""The resolver that the testbed's hosts ask for names: dnsmasq, which knows all of them."""

from __future__ import annotations

from collections.abc import Sequence

from wirelens_testbed.lab import Lab
from wirelens_testbed.services.service import Host

PROGRAMS = {"dnsmasq": "dnsmasq-base"}
PORT = 53
LABEL = "dns"


def start_resolver(lab: Lab, resolver: Host, hosts: Sequence[Host]) -> None:
    """Answers for the names of these hosts, and for no others."""
    records = [f"--host-record={host.domain_name},{host.ipv4},{host.ipv6}" for host in hosts]
    lab.start(
        resolver.name, "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--pid-file=",
        "--user=nobody", "--log-facility=-", "--no-resolv", "--no-hosts", *records,
        log_name=resolver.name,
    )  # fmt: skip
    lab.wait_for_listener(resolver.name, PORT)


def resolve_names(lab: Lab, clients: Sequence[Host], hosts: Sequence[Host], resolver: str) -> None:
    """Tells clients who has which name: by the resolver's address, or, where empty, by a file."""
    rows = ["127.0.0.1 localhost"]
    if not resolver:
        rows += [f"{a} {host.domain_name}" for host in hosts for a in (host.ipv4, host.ipv6)]
    for client in clients:
        lab.overlay_etc(client.name, "hosts", "\n".join(rows) + "\n")
        lab.overlay_etc(
            client.name, "nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"
        )
        settings = f"nameserver {resolver}\noptions timeout:2\n" if resolver else ""
        lab.overlay_etc(client.name, "resolv.conf", settings)
