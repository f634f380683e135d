"""Interfaces of a test's own, traffic on them, and `wirelens` listening there.

The calling thread moves into a network namespace that has no name. What it opens and starts is
born there; the namespace ends with the last of it, however that ends, and its interfaces with
it. Nothing is left behind, not even by a kill, and no frame reaches a network of the host.
"""

import contextlib
import ctypes
import json
import os
import re
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from command import ENVIRONMENT, MEMORY_MAX_BYTES, PROGRAM, TIME_MAX_S, Ran

# No names for these in Python 3.11.
CLONE_NEWNET = 0x40000000
SOL_PACKET, PACKET_STATISTICS = 263, 6
ETH_P_ALL = 3

LIBC = ctypes.CDLL(None, use_errno=True)

# What frames are sent to and from; documentation (RFC 5737) and benchmarks (RFC 2544).
HERE, THERE = "192.0.2.1", "192.0.2.2"


def checked(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def open_namespace() -> int:
    """The network namespace of this thread."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


@contextlib.contextmanager
def inside(namespace: int) -> Iterator[None]:
    """Moves this thread, and it alone."""
    before = open_namespace()
    try:
        checked(LIBC.setns(namespace, CLONE_NEWNET), "setns")
        yield
    finally:
        checked(LIBC.setns(before, CLONE_NEWNET), "setns")
        os.close(before)


@contextlib.contextmanager
def new_namespace() -> Iterator[int]:
    """An empty network namespace, with this thread in it. Root has to be able to make one."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for a network of its own")
    before = open_namespace()
    try:
        checked(LIBC.unshare(CLONE_NEWNET), "unshare")
        made = open_namespace()
        try:
            # Nothing may be sent that the test does not send.
            Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
            yield made
        finally:
            os.close(made)
    finally:
        checked(LIBC.setns(before, CLONE_NEWNET), "setns")
        os.close(before)


def ip(command: str) -> None:
    subprocess.run(["ip", *command.split()], check=True, timeout=TIME_MAX_S)


def wait_until(holds: Callable[[], bool], what: str, time_max_s: float = 10.0) -> None:
    deadline = time.monotonic() + time_max_s
    while not holds():
        assert time.monotonic() < deadline, f"waited {time_max_s:g} s in vain: {what}"
        time.sleep(0.01)


def link_facts(name: str) -> dict[str, object]:
    shown = subprocess.run(
        ["ip", "-d", "-j", "link", "show", name], check=True, capture_output=True, timeout=5
    )
    return json.loads(shown.stdout)[0]


def bring_up(*names: str) -> None:
    for name in names:
        ip(f"link set {name} up")
    # The kernel notices a little later that both ends are up, and throws away what is sent before.
    for name in names:
        wait_until(lambda name=name: link_facts(name)["operstate"] == "UP", f"{name} is connected")


class Link:
    """A pair of interfaces, `wl0` and `wl1`: what enters one leaves the other."""

    def __init__(self) -> None:
        ip("link add wl0 type veth peer name wl1")
        bring_up("wl0", "wl1")
        self._seen = 0
        # Whoever listens later is asked earlier: what was counted here, others have as well.
        self._witness = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self._witness.bind(("wl0", ETH_P_ALL))

    def seen(self) -> int:
        """Frames that passed `wl0` so far, in either direction."""
        counts = self._witness.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8)
        self._seen += struct.unpack("II", counts)[0]
        return self._seen

    def send(self, frames: Sequence[bytes], name: str = "wl1") -> None:
        """Sends all, and comes back when they have passed `wl0`."""
        wanted = self.seen() + len(frames)
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
            out.bind((name, 0))
            for frame in frames:
                out.send(frame)
        wait_until(lambda: self.seen() >= wanted, f"{len(frames)} frames pass")

    def settle(self) -> None:
        """Waits until no frame has passed for a while."""
        before = -1
        while before != (before := self.seen()):
            time.sleep(0.15)

    def close(self) -> None:
        self._witness.close()


@contextlib.contextmanager
def new_link() -> Iterator[Link]:
    """A link in a namespace of its own."""
    with new_namespace():
        link = Link()
        try:
            yield link
        finally:
            link.close()


def add_second_link() -> None:
    """`wl2` and `wl3`, next to those of `new_link`."""
    ip("link add wl2 type veth peer name wl3")
    bring_up("wl2", "wl3")


@contextlib.contextmanager
def new_links() -> Iterator[Link]:
    """`wl0` and `wl1`, and `wl2` and `wl3`, in a namespace of their own."""
    with new_link() as made:
        add_second_link()
        yield made


def datagram(
    source: tuple[str, int], destination: tuple[str, int], length: int = 18, vlan: int | None = None
) -> bytes:
    """A frame with UDP without checksums."""
    tag = b"" if vlan is None else struct.pack(">HH", 0x8100, vlan)
    ethernet = bytes.fromhex("020000000002 020000000001") + tag + b"\x08\x00"
    ipv4 = struct.pack(">BBHHHBBH", 0x45, 0, 28 + length, 0, 0x4000, 64, 17, 0)
    ipv4 += socket.inet_aton(source[0]) + socket.inet_aton(destination[0])
    udp = struct.pack(">4H", source[1], destination[1], 8 + length, 0)
    return ethernet + ipv4 + udp + bytes(length)


def datagrams(flow_count: int, port: int = 53, is_answer: bool = False) -> list[bytes]:
    """One of each of so many flows, there or back."""
    ends = ((("198.18.0.1", 1024 + flow), ("198.19.0.1", port)) for flow in range(flow_count))
    return [datagram(*(reversed(both) if is_answer else both)) for both in ends]


class Listening:
    """A run of `wirelens` that goes on until it is ended, at the latest by leaving its block."""

    def __init__(
        self, folder: Path, *arguments: str | Path,
        stdout: int | None = None, namespace: str | None = None, cwd: Path | None = None,
    ) -> None:  # fmt: skip
        number = len(list(folder.glob("run-*.err")))
        self._out = folder / f"run-{number}.out"
        self._err = folder / f"run-{number}.err"
        command = ["prlimit", f"--as={MEMORY_MAX_BYTES}", PROGRAM, *arguments]
        if namespace:
            command = ["ip", "netns", "exec", namespace, *command]
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out if stdout is None else stdout,
                stderr=err,
                env=ENVIRONMENT,
                cwd=cwd,
            )

    def __enter__(self) -> "Listening":
        try:
            self.wait_for("listening on|waiting for it to come up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def stdout(self) -> bytes:
        return self._out.read_bytes()

    @property
    def stderr(self) -> str:
        return self._err.read_text()

    def wait_for(self, pattern: str, time_max_s: float = 10.0) -> None:
        """Waits for words on standard error."""

        def is_there() -> bool:
            return bool(re.search(pattern, self.stderr)) or self.process.poll() is not None

        wait_until(is_there, pattern, time_max_s)
        assert re.search(pattern, self.stderr), (self.process.poll(), self.stderr)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self, time_max_s: float = 10.0) -> Ran:
        """Waits for an end that comes by itself."""
        status = self.process.wait(time_max_s)
        return Ran(status, self.stdout, self.stderr)

    def end(self) -> Ran:
        """Ends it as a person would."""
        self.signal(signal.SIGINT)
        return self.wait()


IDENTITY = re.compile(
    r"^\w+: (?P<received>\d+) received = (?P<processed>\d+) processed \+ (?P<filtered>\d+) filtered"
    r" \+ (?P<dropped>\d+) dropped \+ (?P<malformed>\d+) malformed(?: \+ (?P<unread>\d+) unread)?$",
    re.MULTILINE,
)


def identity(ran: Ran) -> dict[str, int]:
    """What became of the packets received; that it adds up is asserted."""
    match = IDENTITY.search(ran.stderr)
    assert match, ran.stderr
    n = {name: int(text or 0) for name, text in match.groupdict().items()}
    assert n["received"] == sum(n.values()) - n["received"], ran.stderr
    assert f"{n['processed'] + n['malformed']} packets captured\n" in ran.stderr
    assert f"{n['received']} packets received by filter\n" in ran.stderr
    assert f"{n['dropped']} packets dropped" in ran.stderr
    return n
