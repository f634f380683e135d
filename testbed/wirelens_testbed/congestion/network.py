"""The network of a congestion run: senders, a bottleneck with an own next hop, receivers.

    sender 1 ─┐                          data ──►                      ┌─ receiver 1
    sender 2 ─┤ entry ── in [router] out ══ tbf ══ in [exit] ──────────┤
    sender n ─┘               ▲    acks ◄── relay ──── acks │          └─ receiver m
                           before                          after

Data packets are forwarded by the kernel alone, so that the queue behaves as the kernel's.
Acknowledgements return through a relay that holds each for the round-trip time of its flow; if
no flow has one, they return over the link itself, as fast as this machine is.
`entry` is upstream of the router so that the router receives all packets by one device, and no
packet is still charged to its sender's socket while it waits in the queue: a sender that sees
a queue at its own interface holds back. `exit` is ours, so that departures can be counted where
they arrive.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from wirelens_testbed.congestion.plan import Link, Plan
from wirelens_testbed.lab import Lab
from wirelens_testbed.switch import add_link, keep_order

SENDERS_PREFIX = "10.1.0.0/16"
RECEIVERS_PREFIX = "10.2.0.0/16"
ENTRY, ROUTER, EXIT = "entry", "router", "exit"

# Room for the bandwidth-delay product of any link here: windows must be limited by the queue alone.
SOCKET_BUFFERS = {
    "net/ipv4/tcp_wmem": "4096 262144 33554432",
    "net/ipv4/tcp_rmem": "4096 262144 33554432",
    # What one flow learned of the path must not decide how the next one starts.
    "net/ipv4/tcp_no_metrics_save": "1",
}


@dataclass(frozen=True)
class QueueCounts:
    """What the kernel counted at the bottleneck queue."""

    sent: int
    dropped: int
    backlog: int


def sender_name(index: int) -> str:
    return f"s{index + 1}"


def receiver_name(index: int) -> str:
    return f"d{index + 1}"


def receiver_address(index: int) -> str:
    return f"10.2.{index + 1}.2"


def build(lab: Lab, plan: Plan) -> None:
    """Builds hosts and links; the relay, and routes through it, are added by `route_acks`."""
    for host in (ENTRY, ROUTER, EXIT):
        lab.add_host(host, forwarding=True, ipv6=False)
    ends = [sender_name(index) for index in range(plan.senders)]
    ends += [receiver_name(index) for index in range(plan.receivers)]
    for host in ends:
        lab.add_host(host, ipv6=False)
        lab.sysctl(host, SOCKET_BUFFERS | {"net/ipv4/tcp_ecn": "1" if plan.link.ecn else "2"})
    offloads = plan.link.offloads
    for index in range(plan.senders):
        host = sender_name(index)
        join(lab, (host, "eth0"), (ENTRY, host), f"10.1.{index + 1}", offloads)
        lab.ip(host, f"route add default via 10.1.{index + 1}.1")
        own = (flow.source for flow in plan.flows if flow.sender == index)
        lab.ip(host, *(f"address add {address}/24 dev eth0" for address in own))
        # A flow's source is an address of its own, which the entry must know the way to.
        lab.ip(ENTRY, *_neighbours(plan, index, host))
    for index in range(plan.receivers):
        host = receiver_name(index)
        join(lab, (host, "eth0"), (EXIT, host), f"10.2.{index + 1}", offloads)
        lab.ip(host, f"route add default via 10.2.{index + 1}.1")
    join(lab, (ROUTER, "in"), (ENTRY, "router"), "10.3.0", offloads)
    join(lab, (EXIT, "in"), (ROUTER, "out"), "10.4.0", offloads)
    lab.ip(ENTRY, f"route add {RECEIVERS_PREFIX} via 10.3.0.2")
    lab.ip(
        ROUTER,
        f"route add {RECEIVERS_PREFIX} via 10.4.0.2",
        f"route add {SENDERS_PREFIX} via 10.3.0.1",
    )
    lab.tc(ROUTER, *_shaping(plan.link))


def route_acks(lab: Lab) -> None:
    """Sends what goes back to the senders through the relay's devices, `acks` on either side."""
    for host in (EXIT, ROUTER):
        # Long enough for what arrives while the relay waits for its turn on a processor.
        lab.ip(host, "link set acks addrgenmode none txqueuelen 10000 up")
    lab.ip(EXIT, f"route add {SENDERS_PREFIX} dev acks")


def return_acks(lab: Lab) -> None:
    """Sends what goes back to the senders over the link that the data came by."""
    lab.ip(EXIT, f"route add {SENDERS_PREFIX} via 10.4.0.1")


def _shaping(link: Link) -> list[str]:
    """The commands of the bottleneck's queue, which drops at its tail, and of its rate."""
    bucket = f"rate {link.rate_mbit * 1e6:.0f}bit burst {link.burst_bytes}"
    if link.shaper == "tbf":
        return [f"qdisc add dev out root handle 1: tbf {bucket} limit {link.buffer_bytes}"]
    return [
        "qdisc add dev out root handle 1: htb default 1",
        f"class add dev out parent 1: classid 1:1 htb {bucket} cburst {link.burst_bytes}",
        f"qdisc add dev out parent 1:1 handle 10: bfifo limit {link.buffer_bytes}",
    ]


def queue_counts(lab: Lab) -> QueueCounts:
    """Reads the counters of the bottleneck queue."""
    queues = json.loads(lab.tc_show(ROUTER, "qdisc", "show", "dev", "out"))
    (queue,) = (each for each in queues if each.get("root"))
    return QueueCounts(queue["packets"], queue["drops"], queue.get("qlen", 0))


def join(
    lab: Lab, far: tuple[str, str], near: tuple[str, str], network: str, offloads: bool
) -> None:
    """Links two hosts as NETWORK.2 and NETWORK.1. Who has which address is told to both, not asked:
    an ARP packet in the queue would be one more than TCP sent."""
    add_link(lab, near, far, offloads=offloads)
    for (host, device), own, other in ((near, 1, 2), (far, 2, 1)):
        keep_order(lab, host, device)
        lab.ip(
            host,
            f"link set {device} address {_mac(network, own)}",
            f"address add {network}.{own}/24 dev {device}",
            f"neighbour replace {network}.{other} lladdr {_mac(network, other)} dev {device}",
        )


def _neighbours(plan: Plan, index: int, host: str) -> list[str]:
    mac = _mac(f"10.1.{index + 1}", 2)
    return [
        f"neighbour replace {flow.source} lladdr {mac} dev {host}"
        for flow in plan.flows
        if flow.sender == index
    ]


def _mac(network: str, number: int) -> str:
    first, second, third = map(int, network.split("."))
    return f"02:{first:02x}:{second:02x}:{third:02x}:00:{number:02x}"
