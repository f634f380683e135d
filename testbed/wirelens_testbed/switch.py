"""Links between hosts: plain pairs, and bridges that several hosts plug into."""

from __future__ import annotations

import os
from collections.abc import Sequence

from wirelens_testbed.lab import Lab

OFFLOADS = ("tx", "sg", "tso", "gso", "gro")


def turn_off_offloads(lab: Lab, host: str, device: str) -> None:
    """Makes each packet travel alone and whole, as on a wire.

    With offloads a tap sees frames of up to 64 kB with unfinished checksums.
    """
    settings = [word for offload in OFFLOADS for word in (offload, "off")]
    lab.run(host, "ethtool", "-K", device, *settings)


def keep_order(lab: Lab, host: str, device: str) -> None:
    """Has each flow that a device receives handled by one processor (receive packet steering).

    A pair of devices is served by whichever processor sends. From some hundred Mbit/s on, packets
    of a flow overtake each other where two do: a quarter of them at 1 Gbit/s.
    """
    processors = f"{(1 << (os.cpu_count() or 1)) - 1:x}"
    steering = f"/sys/class/net/{device}/queues/rx-0/rps_cpus"
    lab.run(host, "sh", "-c", f"echo {processors} > {steering}")


def add_link(
    lab: Lab, end_a: tuple[str, str], end_b: tuple[str, str], *, offloads: bool = False
) -> None:
    """Joins two hosts by a pair of devices, each given as (host, device), and brings both up."""
    (host_a, device_a), (host_b, device_b) = end_a, end_b
    peer = f"name {device_b} netns {lab.namespace(host_b)}"
    lab.ip(host_a, f"link add {device_a} type veth peer {peer}")
    for host, device in (end_a, end_b):
        if not offloads:
            turn_off_offloads(lab, host, device)
        lab.ip(host, f"link set {device} up")


def add_switch(lab: Lab, host: str, device: str, *, mac: str | None = None) -> None:
    """Adds a bridge to a host. It neither learns of multicast groups nor speaks STP."""
    address = f"address {mac} " if mac else ""
    lab.ip(
        host,
        f"link add {device} {address}type bridge stp_state 0 mcast_snooping 0",
        f"link set {device} up",
    )
    turn_off_offloads(lab, host, device)


def plug_in(
    lab: Lab,
    host: str,
    switch: tuple[str, str],
    *,
    addresses: Sequence[str],
    gateways: Sequence[str] = (),
    device: str = "eth0",
    mac: str | None = None,
    asks_for_address: bool = False,
) -> None:
    """Joins a host to a bridge, given as (host, device), and gives it addresses and routes.

    `addresses` are "192.0.2.1/24" or IPv6 alike; `gateways` are of either family. IPv6 hosts ask
    the link whether an address is taken; here none can be, and asking would cost a second, so it is
    only done where it `asks_for_address`.
    """
    switch_host, switch_device = switch
    port = f"p-{host}"
    own = f"name {device} {f'address {mac} ' if mac else ''}netns {lab.namespace(host)}"
    lab.ip(switch_host, f"link add {port} type veth peer {own}")
    turn_off_offloads(lab, switch_host, port)
    turn_off_offloads(lab, host, device)
    # The switch's side gets no IPv6 address of its own: it is a port, not a host.
    lab.ip(switch_host, f"link set {port} addrgenmode none master {switch_device} up")
    commands = [f"link set {device} up"]
    for address in addresses:
        flag = " nodad" if ":" in address and not asks_for_address else ""
        commands.append(f"address add {address} dev {device}{flag}")
    for gateway in gateways:
        commands.append(f"route add {'::/0' if ':' in gateway else 'default'} via {gateway}")
    lab.ip(host, *commands)
