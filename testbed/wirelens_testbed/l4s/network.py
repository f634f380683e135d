"""The network of an L4S run: senders, a router that is the testbed's relay, receivers.

    sender 1 ─┐                data: queues, rate, delay ──►         ┌─ receiver 1
    sender 2 ─┤ entry ── router ════════ relay ════════ router exit ─┤
    sender n ─┘                      ◄── acknowledgements: delay     └─ receiver m

Links of senders and receivers have no delay and no queue worth the name: what leaves a sender is at
the router. All packets are of the size that they have on a wire, since no device has offloads.
"""

from __future__ import annotations

from wirelens_testbed.congestion.network import (
    ENTRY,
    EXIT,
    RECEIVERS_PREFIX,
    SENDERS_PREFIX,
    SOCKET_BUFFERS,
    join,
    receiver_address,
    receiver_name,
    sender_name,
)
from wirelens_testbed.l4s.plan import Plan
from wirelens_testbed.lab import Lab

LINK = "router"


def sender_prefix(index: int) -> str:
    return f"10.1.{index + 1}.0/24"


def receiver_prefix(index: int) -> str:
    return f"10.2.{index + 1}.0/24"


def receivers(plan: Plan) -> list[tuple[str, str]]:
    """Each receiver, as (host, address)."""
    return [(receiver_name(index), receiver_address(index)) for index in range(plan.receivers)]


def build(lab: Lab, plan: Plan) -> None:
    """Builds hosts and links; `connect` adds the routes through the relay's devices."""
    for host in (ENTRY, EXIT):
        lab.add_host(host, forwarding=True, ipv6=False)
    names = [sender_name(index) for index in range(plan.senders)]
    names += [receiver_name(index) for index in range(plan.receivers)]
    for host in names:
        lab.add_host(host, ipv6=False)
        # 2: ECN only where a control or the peer asks for it.
        lab.sysctl(host, SOCKET_BUFFERS | {"net/ipv4/tcp_ecn": "1" if plan.classic_ecn else "2"})
    for index in range(plan.senders):
        host = sender_name(index)
        join(lab, (host, "eth0"), (ENTRY, host), f"10.1.{index + 1}", offloads=False)
        lab.ip(host, f"route add default via 10.1.{index + 1}.1")
        own = (flow.source for flow in plan.flows if flow.sender == index)
        lab.ip(host, *(f"address add {address}/24 dev eth0" for address in own))
    for index in range(plan.receivers):
        host = receiver_name(index)
        join(lab, (host, "eth0"), (EXIT, host), f"10.2.{index + 1}", offloads=False)
        lab.ip(host, f"route add default via 10.2.{index + 1}.1")


def connect(lab: Lab) -> None:
    """Brings the relay's devices up, and sends all that is not of this side through them."""
    for host, far in ((ENTRY, RECEIVERS_PREFIX), (EXIT, SENDERS_PREFIX)):
        # Long enough for what arrives while the relay waits for its turn on a processor.
        lab.ip(
            host,
            f"link set {LINK} addrgenmode none txqueuelen 10000 up",
            f"route add {far} dev {LINK}",
        )
