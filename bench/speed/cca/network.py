"""Two links through a router, or one link, in network namespaces of their own, and TCP over them.

Segments travel as packets of up to 64 kB (segmentation offload) unless that is turned off. There is
no queueing discipline and no delay: it is as fast as this machine makes it.
"""

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass

SENDER, ROUTER, RECEIVER = "wlb-s", "wlb-r", "wlb-d"
FROM, TO = "10.231.1.2", "10.231.2.2"
FIRST_PORT, CLIENT_PORT = 5301, 42001
OFFLOADS = ("tso", "gso", "gro")


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def inside(namespace: str, *command: str) -> list[str]:
    return ["ip", "netns", "exec", namespace, *command]


@dataclass(frozen=True)
class Network:
    """Where the taps stand; on one link there is no queue, and both stand at its far end."""

    name: str
    ingress: str
    egress: str


def link(one: tuple[str, str], other: tuple[str, str], offload: str) -> None:
    run("ip", "link", "add", one[1], "netns", one[0], "type", "veth", "peer", "name", other[1],
        "netns", other[0])  # fmt: skip
    for namespace, device in (one, other):
        # No packets but those of the flows: IPv6 would look for neighbours.
        run(*inside(namespace, "ip", "link", "set", device, "addrgenmode", "none", "up"))
        for name in OFFLOADS:
            run(*inside(namespace, "ethtool", "-K", device, name, offload))


def address(namespace: str, device: str, text: str) -> None:
    run(*inside(namespace, "ip", "address", "add", text, "dev", device))


@contextlib.contextmanager
def network(name: str, *, has_offload: bool = True) -> Iterator[Network]:
    """`router` is two links with a router between them, `pair` one link."""
    offload = "on" if has_offload else "off"
    names = [SENDER, RECEIVER] + ([ROUTER] if name == "router" else [])
    try:
        for namespace in names:
            run("ip", "netns", "add", namespace)
            run(*inside(namespace, "ip", "link", "set", "lo", "up"))
        if name == "router":
            link((SENDER, "s0"), (ROUTER, "r0"), offload)
            link((ROUTER, "r1"), (RECEIVER, "d0"), offload)
            address(SENDER, "s0", f"{FROM}/24")
            address(ROUTER, "r0", "10.231.1.1/24")
            address(ROUTER, "r1", "10.231.2.1/24")
            address(RECEIVER, "d0", f"{TO}/24")
            run(*inside(ROUTER, "sysctl", "-qw", "net.ipv4.ip_forward=1"))
            run(*inside(SENDER, "ip", "route", "add", "default", "via", "10.231.1.1"))
            run(*inside(RECEIVER, "ip", "route", "add", "default", "via", "10.231.2.1"))
            made = Network(name, f"{ROUTER}:r0", f"{RECEIVER}:d0")
        else:
            link((SENDER, "s0"), (RECEIVER, "d0"), offload)
            address(SENDER, "s0", f"{FROM}/16")
            address(RECEIVER, "d0", f"{TO}/16")
            made = Network(name, f"{RECEIVER}:d0", f"{RECEIVER}:d0")
        # A connection that is tried before both ends are up waits a second.
        time.sleep(1)
        yield made
    finally:
        for namespace in names:
            subprocess.run(["ip", "netns", "del", namespace], check=False, capture_output=True)


def flows(count: int) -> list[str]:
    """As `wirelens-bench cca collect` names them."""
    ports = range(count)
    return [f"{FROM}:{CLIENT_PORT + at}-{TO}:{FIRST_PORT + at}" for at in ports]


def send(flow_count: int, seconds: float, rate: str = "0") -> float:
    """So many flows at once, each at a rate or as fast as can be: what was received, Gbit/s, from
    the start of the first to the end of the last."""
    servers, clients = [], []
    for at in range(flow_count):
        server = ["iperf3", "-s", "-1", "-p", str(FIRST_PORT + at)]
        servers.append(subprocess.Popen(inside(RECEIVER, *server), stdout=subprocess.DEVNULL))
    time.sleep(0.3)
    for at in range(flow_count):
        client = ["iperf3", "-J", "-c", TO, "-p", str(FIRST_PORT + at), "-t", str(seconds)]
        client += ["-C", "cubic", "--cport", str(CLIENT_PORT + at), "-l", "1M"]
        client += ["-b", rate]
        command = inside(SENDER, *client)
        clients.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    bits, begins, ends = 0.0, [], []
    for client in clients:
        out, _ = client.communicate(timeout=seconds + 30)
        told = json.loads(out)
        received = told["end"]["sum_received"]
        bits += received["bytes"] * 8
        begins.append(told["start"]["timestamp"]["timesecs"])
        ends.append(begins[-1] + received["seconds"])
    for server in servers:
        server.wait(timeout=30)
    return bits / 1e9 / (max(ends) - min(begins))


@contextlib.contextmanager
def streaming(number: int, seconds: float) -> Iterator[subprocess.Popen[str]]:
    """A flow as fast as can be; it tells how much came each fifth of a second."""
    port, client_port = str(FIRST_PORT + number), str(CLIENT_PORT + number)
    server_command = inside(RECEIVER, "iperf3", "-s", "-1", "-p", port)
    with subprocess.Popen(server_command, stdout=subprocess.DEVNULL) as server:
        time.sleep(0.3)
        client = ["iperf3", "-J", "-i", "0.2", "-c", TO, "-p", port, "-C", "cubic"]
        client += ["--cport", client_port, "-l", "1M", "-t", f"{seconds:.0f}"]
        command = inside(SENDER, *client)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
            yield run
        server.wait(30)
