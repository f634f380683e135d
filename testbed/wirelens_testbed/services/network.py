"""The network of a services run.

    client0 ---+                                                    +--- http
    client1 ---+ lan0 [router] wan0 === delays === wan0 [far] srv0 -+--- dns
    ...        |   ^                                                +--- ...
                recorded here

Each client has an access line of its own rate, made at both of its ends, so the recorder sees its
uploads after the line and its downloads before. Delay is made between the two TUN devices: towards
a server by the server's distance, back by the client's.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from wirelens_testbed.relay import Relay
from wirelens_testbed.run import Run
from wirelens_testbed.scenario import Table
from wirelens_testbed.services.service import Host
from wirelens_testbed.switch import add_switch, plug_in

DOMAIN = "testbed.example"  # a name reserved for examples (RFC 2606)
# Private addresses for the clients; for the rest the ranges set aside for documentation
# (RFC 5737, RFC 3849), so that nothing in a file can be mistaken for somebody's host.
LAN_IPV4, LAN_IPV6 = "10.20.0", "2001:db8:20:"
SERVER_IPV4, SERVER_IPV6 = "203.0.113", "2001:db8:113:"
WAN_IPV4, WAN_IPV6 = "198.51.100", "2001:db8:100:"
FIRST_CLIENT, FIRST_SERVER = 11, 10
CLIENTS_MAX = 50

ROUTER, FAR = "router", "far"
LAN_DEVICE, WAN_DEVICE, SERVER_DEVICE = "lan0", "wan0", "srv0"
# The range set aside for short-lived ports (RFC 6335). The kernel's own is wider and holds ports
# registered for protocols, which a dissector would then see in a flow.
CLIENT_PORTS = "49152 65535"
BURST_BYTES = 10_000  # a few packets: with a larger bucket whole bursts would leave at once
BUFFER_MS = 100
BUFFER_MIN_BYTES = 30_000


@dataclass(frozen=True)
class Paths:
    """Ranges from which the clients' lines and the distances are drawn."""

    down_mbit: tuple[float, float]
    up_share: tuple[float, float]
    client_delay_ms: tuple[float, float]
    server_delay_ms: tuple[float, float]

    @classmethod
    def parse(cls, table: Table) -> Paths:
        """Reads the table `[paths]`."""

        def pair(key: str, low: float, high: float) -> tuple[float, float]:
            inner = table.take_table(key)
            least = inner.take("min", float, low, minimum=0.001)
            most = inner.take("max", float, max(high, least), minimum=least)
            inner.finish()
            return least, most

        paths = cls(
            down_mbit=pair("down_mbit", 8.0, 100.0),
            up_share=pair("up_share", 0.2, 1.0),
            client_delay_ms=pair("client_delay_ms", 1.0, 30.0),
            server_delay_ms=pair("server_delay_ms", 1.0, 40.0),
        )
        table.finish()
        return paths


@dataclass(frozen=True)
class Network:
    """The hosts of a run, once `build` has made them."""

    clients: list[Host]
    servers: dict[str, Host]
    resolver: Host


def plan_hosts(client_count: int, services: Sequence[str]) -> Network:
    """Gives each host its name and addresses."""
    clients = [
        _host(f"client{index}", LAN_IPV4, LAN_IPV6, FIRST_CLIENT + index)
        for index in range(client_count)
    ]
    servers = {
        name: _host(name, SERVER_IPV4, SERVER_IPV6, FIRST_SERVER + index)
        for index, name in enumerate(services)
    }
    resolver = _host("resolver", SERVER_IPV4, SERVER_IPV6, FIRST_SERVER + len(services))
    return Network(clients, servers, resolver)


def _host(name: str, ipv4: str, ipv6: str, number: int) -> Host:
    # Written with the digits of the IPv4 address, so that the two are seen to belong together.
    return Host(name, f"{ipv4}.{number}", f"{ipv6}:{number}", f"{name}.{DOMAIN}")


def build(run: Run, network: Network, paths: Paths, rng: random.Random) -> None:
    """Builds hosts, bridges, and lines; `add_delays` then joins the two bridges."""
    lab = run.lab
    for name in (ROUTER, FAR):
        lab.add_host(name, forwarding=True)
    add_switch(lab, ROUTER, LAN_DEVICE)
    add_switch(lab, FAR, SERVER_DEVICE)
    gateways = {
        (ROUTER, LAN_DEVICE): (f"{LAN_IPV4}.1", f"{LAN_IPV6}:1"),
        (FAR, SERVER_DEVICE): (f"{SERVER_IPV4}.1", f"{SERVER_IPV6}:1"),
    }
    for (name, device), (ipv4, ipv6) in gateways.items():
        lab.ip(
            name,
            f"address add {ipv4}/24 dev {device}",
            f"address add {ipv6}/64 dev {device} nodad",
        )
    servers = [*network.servers.values(), network.resolver]
    for host, switch in [
        *((client, (ROUTER, LAN_DEVICE)) for client in network.clients),
        *((server, (FAR, SERVER_DEVICE)) for server in servers),
    ]:
        lab.add_host(host.name)
        addresses = (f"{host.ipv4}/24", f"{host.ipv6}/64")
        plug_in(lab, host.name, switch, addresses=addresses, gateways=gateways[switch])
    for client in network.clients:
        lab.sysctl(client.name, {"net/ipv4/ip_local_port_range": CLIENT_PORTS})
        _add_line(run, client, paths, rng)


def _add_line(run: Run, client: Host, paths: Paths, rng: random.Random) -> None:
    down_mbit = _draw_log(rng, paths.down_mbit)
    up_mbit = down_mbit * _draw_log(rng, paths.up_share)
    for host, device, rate_mbit in (
        (ROUTER, f"p-{client.name}", down_mbit),
        (client.name, "eth0", up_mbit),
    ):
        buffer_bytes = max(BUFFER_MIN_BYTES, round(rate_mbit * BUFFER_MS * 125))
        run.lab.tc(
            host,
            f"qdisc add dev {device} root tbf rate {round(rate_mbit * 1000)}kbit "
            f"burst {BURST_BYTES} limit {buffer_bytes}",
        )
    run.event("line", client=client.name, down_mbit=round(down_mbit, 2), up_mbit=round(up_mbit, 2))


def add_delays(run: Run, network: Network, paths: Paths, rng: random.Random) -> Relay:
    """Joins router and far by a link whose delay depends on where a packet goes."""
    servers = [*network.servers.values(), network.resolver]
    classes: list[dict[str, int]] = []
    for hosts, range_ms in (
        (servers, paths.server_delay_ms),
        (network.clients, paths.client_delay_ms),
    ):
        delays = {host: round(_draw_log(rng, range_ms) * 1000) for host in hosts}
        for host, delay_us in delays.items():
            run.event("distance", host=host.name, delay_us=delay_us)
        classes.append(
            {f"{host.ipv4}/32": delay_us for host, delay_us in delays.items()}
            | {f"{host.ipv6}/128": delay_us for host, delay_us in delays.items()}
        )
    relay = run.relay(
        (ROUTER, WAN_DEVICE), (FAR, WAN_DEVICE), classes_ab=classes[0], classes_ba=classes[1]
    )
    for name, own, other, ipv4, ipv6 in (
        (ROUTER, 1, 2, SERVER_IPV4, SERVER_IPV6),
        (FAR, 2, 1, LAN_IPV4, LAN_IPV6),
    ):
        run.lab.ip(
            name,
            f"link set {WAN_DEVICE} addrgenmode none mtu 1500 up",
            f"address add {WAN_IPV4}.{own}/30 dev {WAN_DEVICE}",
            f"address add {WAN_IPV6}:{own}/64 dev {WAN_DEVICE} nodad",
            f"route add {ipv4}.0/24 via {WAN_IPV4}.{other}",
            f"route add {ipv6}:/64 via {WAN_IPV6}:{other}",
        )
    return relay


def _draw_log(rng: random.Random, range_: tuple[float, float]) -> float:
    return math.exp(rng.uniform(math.log(range_[0]), math.log(range_[1])))
