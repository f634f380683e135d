"""`wirelens testbed relay`: a link with delay and loss between two namespaces of the test's own.

Without root they are skipped; root has to be able to run them.
"""

import itertools
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command import Ran, wirelens
from companion import Companion, place
from lab import inside, ip, new_namespace, wait_until

# No names for these in Python 3.11.
SO_RCVBUFFORCE, SO_TIMESTAMPNS, IP_PKTINFO = 33, 35, 8

PORT = 5000
RECEIVE_BUFFER_BYTES = 16 << 20
# After so long without a packet none is expected.
QUIET_S = 0.6
NS_PER_MS = 1_000_000
# The wall clock, by which we measure, may be set right by 500 millionths while we do.
CLOCK_SLEW_MS = 0.1


@dataclass(frozen=True)
class Arrival:
    """A numbered datagram as it came out of the link; kernel and sender use the same clock."""

    number: int
    sent_ns: int
    arrived_ns: int
    destination: str

    @property
    def delay_ms(self) -> float:
        return (self.arrived_ns - self.sent_ns) / NS_PER_MS


class Ends:
    """Two namespaces; what is sent in `a` into its TUN device is received in `b`."""

    def __init__(self, a: int, b: int, stack: ExitStack) -> None:
        self.a, self.b = a, b
        with inside(b):
            self._receiver = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            self._receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
            self._receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            self._receiver.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
            self._receiver.bind(("0.0.0.0", PORT))
            self._receiver.settimeout(QUIET_S)
        with inside(a):
            self._sender = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self._number = itertools.count()

    def relay(self, folder: Path, *arguments: str) -> Companion:
        """The link, whose devices are still down."""
        ends = ("--a", place(self.a, "tun0"), "--b", place(self.b, "tun0"))
        return Companion(folder, "relay", *ends, *arguments)

    def connect(self) -> None:
        """Brings the devices up; everything in 10.0.0.0/8 is at b's end."""
        with inside(self.a):
            ip("link set tun0 up")
            ip("addr add 192.0.2.1/32 dev tun0")
            ip("route add 10.0.0.0/8 dev tun0")
        with inside(self.b):
            ip("link set lo up")
            ip("link set tun0 up")
            ip("route replace local 10.0.0.0/8 dev lo")
            ip("route add 192.0.2.1/32 dev tun0")

    def send(self, *destinations: str) -> None:
        """A numbered datagram to each."""
        for destination in destinations:
            content = struct.pack("<QQ", next(self._number), time.time_ns())
            self._sender.sendto(content, (destination, PORT))

    def arrivals(self) -> list[Arrival]:
        """What came, until nothing more does."""
        seen = []
        while True:
            try:
                content, notes, *_ = self._receiver.recvmsg(64, 256)
            except TimeoutError:
                return seen
            told = {(level, kind): value for level, kind, value in notes}
            seconds, ns = struct.unpack("qq", told[socket.SOL_SOCKET, SO_TIMESTAMPNS])
            to = socket.inet_ntoa(told[socket.IPPROTO_IP, IP_PKTINFO][8:12])
            number, sent_ns = struct.unpack("<QQ", content)
            seen.append(Arrival(number, sent_ns, seconds * 10**9 + ns, to))


@pytest.fixture
def ends() -> Iterator[Ends]:
    with new_namespace() as a, new_namespace() as b, ExitStack() as stack:
        yield Ends(a, b, stack)


def devices(namespace: int) -> str:
    with inside(namespace):
        return subprocess.run(
            ["ip", "-o", "link"], check=True, capture_output=True, text=True, timeout=5
        ).stdout


def sums_up(way: dict[str, Any]) -> None:
    parts = ("sent", "lost", "dropped_full", "dropped_closed", "waiting")
    assert way["received"] == sum(way[part] for part in parts), way


def test_each_class_is_delayed_by_its_own_delay(ends: Ends, tmp_path: Path) -> None:
    delays_ms = {"10.0.0.1": 60, "10.1.0.1": 5, "10.1.2.1": 150}
    classes = ("--class-ab", "10.1.0.0/16=5ms", "--class-ab", "10.1.2.0/24=150ms")
    with ends.relay(tmp_path, "--delay-ab", "60ms", "--delay-ba", "1s", *classes) as relay:
        ends.connect()
        for _ in range(40):
            ends.send(*reversed(delays_ms))
            time.sleep(0.002)
        arrivals = ends.arrivals()
        report = relay.end()
    for destination, delay_ms in delays_ms.items():
        seen = [arrival.delay_ms for arrival in arrivals if arrival.destination == destination]
        assert len(seen) == 40
        # No packet is early, and on the busiest machine one of forty is in time.
        assert min(seen) >= delay_ms - CLOCK_SLEW_MS
        assert min(seen) < delay_ms + 40
    assert report["ab"]["sent"] == len(arrivals) == 120
    assert report["ab"]["bytes"] == 120 * (20 + 8 + 16)
    assert report["ab"]["dropped_before"] == 0
    late = report["ab"]["late_us"]
    assert 0 < late["p50"] <= late["p99"] <= late["max"] and late["mean"] <= late["max"]
    sums_up(report["ab"])
    assert report["ba"]["received"] == 0


def test_loss_is_counted_exactly_and_the_seed_decides_it(ends: Ends, tmp_path: Path) -> None:
    def lost(seed: int, way: str) -> set[int]:
        first = next(ends._number) + 1
        loss = (f"--loss-{way}", "0.3", "--seed", str(seed))
        with ends.relay(tmp_path, "--delay-ab", "1ms", *loss) as relay:
            ends.connect()
            ends.send(*["10.0.0.1"] * 1000)
            came = {arrival.number - first for arrival in ends.arrivals()}
            report = relay.end()["ab"]
        assert (report["received"], report["waiting"], report["dropped_before"]) == (1000, 0, 0)
        assert report["sent"] == len(came) == 1000 - report["lost"]
        sums_up(report)
        return set(range(1000)) - came

    # Chance leaves these bounds once in ten thousand million times.
    assert 200 < len(lost(1, "ab")) < 400
    assert lost(1, "ab") == lost(1, "ab") != lost(2, "ab")
    assert not lost(1, "ba")


def test_packets_keep_their_order_when_the_delay_changes(ends: Ends, tmp_path: Path) -> None:
    with ends.relay(tmp_path, "--delay-ab", "40ms") as relay:
        ends.connect()
        for delay_ms in (40, 1, 20, 0, 5):
            relay.tell(f"delay ab {delay_ms}ms")
            ends.send(*["10.0.0.1"] * 200)
            time.sleep(0.01)
        numbers = [arrival.number for arrival in ends.arrivals()]
        report = relay.end()
    assert numbers == list(range(1000))
    assert report["ab"]["sent"] == 1000


def test_delay_and_loss_change_while_it_runs(ends: Ends, tmp_path: Path) -> None:
    with ends.relay(tmp_path) as relay:
        ends.connect()

        def after(line: str) -> list[Arrival]:
            relay.tell(line)
            # It is read at once; there is no answer to wait for.
            time.sleep(0.2)
            ends.send(*["10.0.0.1"] * 10)
            return ends.arrivals()

        assert len(after("loss ab 0")) == 10
        assert after("loss ab 1") == []
        assert len(after("loss ba 1")) == 0
        assert len(after("loss ab 0.0")) == 10
        assert min(arrival.delay_ms for arrival in after("delay ab 123ms")) > 123 - CLOCK_SLEW_MS
        report = relay.end()
    assert (report["ab"]["sent"], report["ab"]["lost"]) == (30, 20)


def test_a_full_queue_drops_and_counts_and_what_waits_at_the_end_is_told(
    ends: Ends, tmp_path: Path
) -> None:
    with ends.relay(tmp_path, "--delay-ab", "1m", "--queue-max", "10") as relay:
        ends.connect()
        ends.send(*["10.0.0.1"] * 50)
        assert ends.arrivals() == []
        report = relay.end()["ab"]
    assert (report["received"], report["dropped_full"], report["waiting"]) == (50, 40, 10)
    sums_up(report)


def test_what_a_device_does_not_take_is_counted(ends: Ends, tmp_path: Path) -> None:
    with ends.relay(tmp_path, "--delay-ab", "1ms") as relay:
        ends.connect()
        with inside(ends.b):
            ip("link set tun0 down")
        ends.send(*["10.0.0.1"] * 5)
        assert ends.arrivals() == []
        report = relay.end()["ab"]
    assert (report["received"], report["dropped_closed"]) == (5, 5)
    sums_up(report)


def test_a_removed_device_ends_nothing_and_costs_nothing(ends: Ends, tmp_path: Path) -> None:
    with ends.relay(tmp_path) as relay:
        ends.connect()
        ends.send(*["10.0.0.1"] * 5)
        assert len(ends.arrivals()) == 5
        with inside(ends.a):
            ip("link del tun0")
        before_s = relay.cpu_time_s()
        time.sleep(1)
        assert relay.cpu_time_s() - before_s < 0.5
        relay.tell("stop")
        report = relay.end()
    assert (report["ab"]["sent"], report["ab"]["dropped_before"]) == (5, None)


def test_a_killed_relay_leaves_no_device(ends: Ends, tmp_path: Path) -> None:
    with ends.relay(tmp_path) as relay:
        ends.connect()
        assert "tun0" in devices(ends.a) and "tun0" in devices(ends.b)
        relay.kill()
        for namespace in (ends.a, ends.b):
            wait_until(lambda at=namespace: "tun0" not in devices(at), "the device is gone")


def refused(*arguments: str) -> Ran:
    ran = wirelens("testbed", "relay", *arguments)
    assert (ran.status, ran.stdout) == (1, b"") and ran.stderr.count("\n") == 1
    return ran


def test_what_cannot_be_made_is_named(ends: Ends, tmp_path: Path) -> None:
    taken, free = place(ends.a, "tun0"), place(ends.b, "tun0")
    with ends.relay(tmp_path):
        words = refused("--a", taken, "--b", free).stderr
        assert words.startswith(f"wirelens: {taken}: cannot make this TUN device: "), words
    words = refused("--a", "no-such-namespace:tun0", "--b", free).stderr
    assert "no-such-namespace:tun0: cannot enter the network namespace /run/netns/" in words
    words = refused("--a", f"{tmp_path}:tun0", "--b", free).stderr
    assert f"{tmp_path}:tun0: cannot enter" in words


def test_a_line_that_is_no_command_ends_it_with_an_error(ends: Ends, tmp_path: Path) -> None:
    with ends.relay(tmp_path) as relay:
        relay.tell("delay ab soon")
        ran = relay.ended()
    assert (ran.status, ran.stdout) == (2, b"")
    assert ran.stderr.startswith("wirelens: `delay ab soon` is not a command of a relay; ")
