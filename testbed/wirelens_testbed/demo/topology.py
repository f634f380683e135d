"""The network of the demo capture: hosts, addresses, and the links between them.

    desk ---+                                              +--- web
            lan0 [router] wan0 == access link == wan0 [isp] srv0 --- dns
    laptop -+   ^                                          +--- shell
                recorded here                              +--- media

The access link is the bottleneck in both directions: a tbf each way, and propagation delay between
the two. It lies behind the recorded interface, so uploads are seen as the clients sent them, before
any loss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wirelens_testbed.lab import Lab
from wirelens_testbed.relay import End, Relay
from wirelens_testbed.switch import add_switch, plug_in

DOMAIN = "demo.example"  # a name reserved for examples (RFC 2606)

# Private addresses for the clients; for the rest the ranges set aside for documentation
# (RFC 5737, RFC 3849), so that nothing in the file can be mistaken for somebody's host.
LAN_IPV4, LAN_IPV6 = "10.20.0", "2001:db8:20:"
SERVER_IPV4, SERVER_IPV6 = "203.0.113", "2001:db8:113:"
WAN_IPV4, WAN_IPV6 = "198.51.100", "2001:db8:100:"
UNUSED_SERVER_IPV4 = f"{SERVER_IPV4}.99"
UNUSED_SERVER_IPV6 = f"{SERVER_IPV6}:99"

LAN_DEVICE = "lan0"
ROUTER_MAC = "02:57:4c:00:00:01"  # 02: locally administered

LINK_RATE = "8mbit"
LINK_ONE_WAY_DELAY_MS = 10
# 20 full packets, 1.5 times the bandwidth-delay product: slow start overshoots it, so that a
# loss-based congestion control meets its first loss within a few hundred packets.
LINK_BUFFER_BYTES = 30_000
# Two full frames: with a larger bucket whole bursts would leave at once.
LINK_BURST_BYTES = 3_100

# The range set aside for short-lived ports (RFC 6335). The kernel's own is wider and holds ports
# registered for protocols, which a dissector would then see in a flow.
CLIENT_PORTS = "49152 65535"


@dataclass(frozen=True)
class Host:
    name: str
    number: int  # last part of each address

    @property
    def is_client(self) -> bool:
        return self in CLIENTS

    @property
    def ipv4(self) -> str:
        return f"{LAN_IPV4 if self.is_client else SERVER_IPV4}.{self.number}"

    @property
    def ipv6(self) -> str:
        # Written with the digits of the IPv4 address, so that the two are seen to belong together.
        return f"{LAN_IPV6 if self.is_client else SERVER_IPV6}:{self.number}"

    @property
    def mac(self) -> str:
        return f"02:57:4c:00:{20 if self.is_client else 71}:{self.number:02d}"

    @property
    def domain_name(self) -> str:
        return f"{'www' if self.name == 'web' else self.name}.{DOMAIN}"


DESK = Host("desk", 11)
LAPTOP = Host("laptop", 12)
WEB = Host("web", 80)
DNS = Host("dns", 53)
SHELL = Host("shell", 22)
MEDIA = Host("media", 10)
CLIENTS = (DESK, LAPTOP)
SERVERS = (WEB, DNS, SHELL, MEDIA)


def build(lab: Lab, relay: Callable[[End, End], Relay]) -> Relay:
    """Builds everything but the clients' links, which `connect_clients` adds under recording.

    `relay` makes the access link's two devices, and the delay between them.
    """
    for name in ("router", "isp"):
        lab.add_host(name, forwarding=True)
    for host in CLIENTS + SERVERS:
        lab.add_host(host.name)
    for host in CLIENTS:
        lab.sysctl(host.name, {"net/ipv4/ip_local_port_range": CLIENT_PORTS})
    add_switch(lab, "router", LAN_DEVICE, mac=ROUTER_MAC)
    lab.ip(
        "router",
        f"address add {LAN_IPV4}.1/24 dev {LAN_DEVICE}",
        f"address add {LAN_IPV6}:1/64 dev {LAN_DEVICE}",
    )
    add_switch(lab, "isp", "srv0", mac="02:57:4c:00:71:01")
    lab.ip(
        "isp",
        f"address add {SERVER_IPV4}.1/24 dev srv0",
        f"address add {SERVER_IPV6}:1/64 dev srv0 nodad",
    )
    for host in SERVERS:
        _plug_in(lab, host, "isp", "srv0")
    access_link = relay(("router", "wan0"), ("isp", "wan0"))
    _shape_access_link(lab)
    return access_link


def connect_clients(lab: Lab) -> None:
    """Brings the clients up while the recorder runs: how they take their addresses is traffic."""
    for host in CLIENTS:
        # The web is asked for by name, so that each visit starts with a look-up.
        first, second = (DNS.ipv4, DNS.ipv6) if host is DESK else (DNS.ipv6, DNS.ipv4)
        resolver = f"nameserver {first}\nnameserver {second}\noptions timeout:2\n"
        lab.overlay_etc(host.name, "resolv.conf", resolver)
        lab.overlay_etc(
            host.name, "nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"
        )
        lab.overlay_etc(host.name, "hosts", "127.0.0.1 localhost\n")
        _plug_in(lab, host, "router", LAN_DEVICE)
    for name in ("router", *(host.name for host in CLIENTS)):
        _wait_for_ipv6(lab, name)


def _wait_for_ipv6(lab: Lab, name: str) -> None:
    command = ["ip", "-6", "address", "show", "tentative"]
    lab.wait_until(lambda: not lab.run(name, *command), f"IPv6 addresses of {name} usable")


def _plug_in(lab: Lab, host: Host, switch: str, switch_device: str) -> None:
    gateways = (
        f"{LAN_IPV4 if host.is_client else SERVER_IPV4}.1",
        f"{LAN_IPV6 if host.is_client else SERVER_IPV6}:1",
    )
    plug_in(
        lab,
        host.name,
        (switch, switch_device),
        addresses=(f"{host.ipv4}/24", f"{host.ipv6}/64"),
        gateways=gateways,
        mac=host.mac,
        asks_for_address=host.is_client,
    )


def _shape_access_link(lab: Lab) -> None:
    for name, own, other, prefix_v4, prefix_v6 in (
        ("router", 1, 2, SERVER_IPV4, SERVER_IPV6),
        ("isp", 2, 1, LAN_IPV4, LAN_IPV6),
    ):
        lab.ip(
            name,
            "link set wan0 addrgenmode none mtu 1500 up",
            f"address add {WAN_IPV4}.{own}/30 dev wan0",
            f"address add {WAN_IPV6}:{own}/64 dev wan0 nodad",
            f"route add {prefix_v4}.0/24 via {WAN_IPV4}.{other}",
            f"route add {prefix_v6}:/64 via {WAN_IPV6}:{other}",
        )
        lab.tc(
            name,
            f"qdisc add dev wan0 root tbf rate {LINK_RATE} burst {LINK_BURST_BYTES} "
            f"limit {LINK_BUFFER_BYTES}",
        )
