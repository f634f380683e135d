"""A link with propagation delay between two namespaces: two TUN devices and a relay between them.

Without a round-trip time worth the name, congestion controls cannot show how they differ, and BBR
starves. Linux has netem for this, but not every kernel is built with it; a relay needs only TUN.
The relay adds delay and nothing else. The rate and the buffer of the link are the kernel's: put a
tbf on each of the two devices.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import os
import select
import signal
import struct
import time
from collections import deque
from dataclasses import dataclass, field

TUN_CONTROL = "/dev/net/tun"
TUNSETIFF = 0x400454CA
IFF_TUN = 0x0001
IFF_NO_PI = 0x1000  # plain IP packets, without the four bytes of packet information
CLONE_NEWNET = 0x40000000

PACKET_SIZE_MAX_BYTES = 65536
# Far above what a tbf lets through in one delay; reached only when the relay itself is starved.
QUEUE_LEN_MAX_PACKETS = 2000
# Real time, so that other work on the machine adds little to the delay; low within that class.
REALTIME_PRIORITY = 10


@dataclass
class Lateness:
    """How much later than wanted the packets left: says whether the delay can be believed."""

    packet_count: int = 0
    sum_ns: int = 0
    max_ns: int = 0
    dropped_count: int = 0

    def add(self, late_ns: int) -> None:
        self.packet_count += 1
        self.sum_ns += late_ns
        self.max_ns = max(self.max_ns, late_ns)

    def summary(self) -> str:
        mean_us = self.sum_ns / max(self.packet_count, 1) / 1e3
        return (
            f"delay link: {self.packet_count} packets, {mean_us:.0f} us late on average, "
            f"{self.max_ns / 1e6:.1f} ms at most, {self.dropped_count} dropped"
        )


@dataclass
class Direction:
    source_fd: int
    sink_fd: int
    delay_ns: int
    lateness: Lateness
    waiting: deque[tuple[int, bytes]] = field(default_factory=deque)

    def receive(self) -> None:
        """Takes in what has arrived. It comes from the tbf, so the wire's delay begins now."""
        while True:
            try:
                packet = os.read(self.source_fd, PACKET_SIZE_MAX_BYTES)
            except BlockingIOError:
                return
            if len(self.waiting) == QUEUE_LEN_MAX_PACKETS:
                self.lateness.dropped_count += 1
                continue
            self.waiting.append((time.monotonic_ns() + self.delay_ns, packet))

    def send_due(self) -> None:
        while self.waiting and self.waiting[0][0] <= time.monotonic_ns():
            due_ns, packet = self.waiting.popleft()
            try:
                os.write(self.sink_fd, packet)
            except OSError:  # the device is not up yet, or its namespace is on its way out
                self.lateness.dropped_count += 1
                continue
            self.lateness.add(time.monotonic_ns() - due_ns)

    def next_due_in_s(self) -> float:
        if not self.waiting:
            return 1.0
        return max(0.0, (self.waiting[0][0] - time.monotonic_ns()) / 1e9)


def open_tun(device: str) -> int:
    tun_fd = os.open(TUN_CONTROL, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun_fd, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TUN | IFF_NO_PI))
    return tun_fd


def enter_namespace(name: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)  # os.setns came with Python 3.12
    with open(f"/run/netns/{name}") as namespace:
        if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter namespace {name}; it takes root")


def relay(near_fd: int, far_fd: int, delay_ns: int, lateness: Lateness) -> None:
    """Carries packets both ways until a signal ends the process."""
    directions = [
        Direction(near_fd, far_fd, delay_ns, lateness),
        Direction(far_fd, near_fd, delay_ns, lateness),
    ]
    while True:
        timeout_s = min(direction.next_due_in_s() for direction in directions)
        select.select([near_fd, far_fd], [], [], timeout_s)
        for direction in directions:
            direction.receive()
            direction.send_due()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--far-namespace", required=True, help="the other end; this end is where we are started"
    )
    parser.add_argument("--device", default="wan0", help="name of the TUN device on both ends")
    parser.add_argument(
        "--delay-ms", type=float, default=10.0, help="one-way delay in milliseconds"
    )
    options = parser.parse_args()

    near_fd = open_tun(options.device)
    enter_namespace(options.far_namespace)
    far_fd = open_tun(options.device)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(REALTIME_PRIORITY))
    except PermissionError:
        print("delay link: no real-time priority; delays will vary more", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print("delay link: ready", flush=True)

    lateness = Lateness()
    try:
        relay(near_fd, far_fd, int(options.delay_ms * 1e6), lateness)
    except KeyboardInterrupt:
        print(lateness.summary(), flush=True)


if __name__ == "__main__":
    main()
