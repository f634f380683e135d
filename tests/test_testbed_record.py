"""`wirelens testbed record`: what passes a device, as it is written and as the kernel counts it.

Without root they are skipped; root has to be able to run them.
"""

import ctypes
import os
import platform
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from command import Ran, wirelens
from companion import Companion, place
from lab import LIBC, Link, datagram, new_namespace, wait_until

BPF_CALL = {"x86_64": 321, "aarch64": 280}[platform.machine()]
BPF_PROG_QUERY, BPF_TCX_INGRESS, BPF_TCX_EGRESS = 16, 46, 47

TO_WL0 = datagram(("192.0.2.2", 1000), ("192.0.2.1", 53), length=300)
FROM_WL0 = datagram(("192.0.2.1", 53), ("192.0.2.2", 1000), length=700)


class Wire(Link):
    """A link, and its namespace as a companion is told it."""

    def __init__(self, namespace: int) -> None:
        super().__init__()
        self._namespace = namespace

    def device(self, name: str, direction: str) -> str:
        return f"{place(self._namespace, name)}:{direction}"


@pytest.fixture
def wire() -> Iterator[Wire]:
    with new_namespace() as namespace:
        made = Wire(namespace)
        try:
            yield made
        finally:
            made.close()


@dataclass(frozen=True)
class Packet:
    """A packet of a capture; `direction` is 0 where it is not told."""

    data: bytes
    wire_len: int
    direction: int


def packets_of(path: Path) -> list[Packet]:
    """The packets of a capture that we wrote: little-endian, one interface."""
    content, at, seen = path.read_bytes(), 0, []
    while at < len(content):
        kind, block_len = struct.unpack_from("<II", content, at)
        if kind == 6:
            captured_len, wire_len = struct.unpack_from("<II", content, at + 20)
            options = at + 28 + -(-captured_len // 4) * 4
            has_flags = options < at + block_len - 4
            flags = struct.unpack_from("<HHI", content, options)[2] if has_flags else 0
            data = content[at + 28 : at + 28 + captured_len]
            seen.append(Packet(data, wire_len, flags))
        at += block_len
    return seen


def attached_count(device: str) -> int:
    """Programs at tc ingress and egress of a device of this thread's namespace."""
    count = 0
    for attach_type in (BPF_TCX_INGRESS, BPF_TCX_EGRESS):
        request = ctypes.create_string_buffer(64)
        struct.pack_into("II", request, 0, socket.if_nametoindex(device), attach_type)
        if LIBC.syscall(BPF_CALL, BPF_PROG_QUERY, request, len(request)) == 0:
            count += struct.unpack_from("I", request, 24)[0]
    return count


@contextmanager
def traffic(name: str) -> Iterator[None]:
    """Sends without end from a device, on a thread that is in the namespace of this one."""
    out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    out.bind((name, 0))
    is_over = threading.Event()

    def send() -> None:
        while not is_over.is_set():
            out.send(TO_WL0)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        out.close()


def test_what_is_sent_is_in_the_files_and_in_the_counts(wire: Wire, tmp_path: Path) -> None:
    files = {direction: tmp_path / f"{direction}.pcapng" for direction in ("in", "out", "both")}
    taps = [
        part
        for direction, file in files.items()
        for part in ("--tap", f"{wire.device('wl0', direction)}:{file}")
    ]
    count = ("--count", wire.device("wl1", "in"))
    with Companion(tmp_path, "record", *taps, *count, "--comment", "for a test") as recording:
        wire.send([TO_WL0] * 500, "wl1")
        wire.send([FROM_WL0] * 300, "wl0")
        wire.send([TO_WL0] * 7, "wl1")
        assert not any(file.exists() for file in files.values())
        assert all(Path(f"{file}.partial").exists() for file in files.values())
        report = recording.end()
    received, sent = [TO_WL0] * 507, [FROM_WL0] * 300
    wanted = {"in": received, "out": sent, "both": received[:500] + sent + received[500:]}
    for (direction, frames), tap in zip(wanted.items(), report["taps"], strict=True):
        packets = packets_of(files[direction])
        assert [packet.data for packet in packets] == [frame[:96] for frame in frames]
        assert [packet.wire_len for packet in packets] == [len(frame) for frame in frames]
        told = {0} if direction != "both" else {1, 2}
        assert {packet.direction for packet in packets} == told
        counts = {"packets": len(frames), "bytes": sum(map(len, frames)), "segments": len(frames)}
        assert tap["tc"] == counts
        assert {key: tap[key] for key in counts} == counts
        assert (tap["dropped"], tap["freezes"], tap["unread"], tap["damage"]) == (0, 0, 0, None)
        assert (tap["dev"], tap["direction"], tap["file"]) == (
            "wl0",
            direction,
            str(files[direction]),
        )
    (counted,) = report["counts"]
    assert counted["tc"] == {"packets": 300, "bytes": 300 * len(FROM_WL0), "segments": 300}
    assert not list(tmp_path.glob("*.partial"))
    told = wirelens("info", "-r", files["in"]).stdout.decode()
    assert "wl0" in told and "507 packets" in told and b"for a test" in files["in"].read_bytes()


@pytest.mark.parametrize("snaplen", [0, 60, len(TO_WL0), 4000])
def test_a_frame_is_cut_and_its_length_is_told(wire: Wire, tmp_path: Path, snaplen: int) -> None:
    file = tmp_path / "cut.pcapng"
    tap = f"{wire.device('wl0', 'in')}:{file}"
    with Companion(tmp_path, "record", "--tap", tap, "--snaplen", str(snaplen)) as recording:
        wire.send([TO_WL0] * 3)
        recording.tell("stop")
        report = recording.end()
    kept = TO_WL0[: snaplen or None]
    assert packets_of(file) == [Packet(kept, len(TO_WL0), 0)] * 3
    assert report["taps"][0]["bytes"] == 3 * len(TO_WL0)


def test_captures_and_counts_agree_though_they_begin_and_end_under_traffic(
    wire: Wire, tmp_path: Path
) -> None:
    with traffic("wl1"):
        for number in range(5):
            file = tmp_path / f"{number}.pcapng"
            tap = f"{wire.device('wl0', 'in')}:{file}"
            with Companion(tmp_path, "record", "--tap", tap) as recording:
                before = wire.seen()
                wait_until(lambda before=before: wire.seen() > before + 1000, "some traffic")
                (tap_report,) = recording.end()["taps"]
            assert tap_report["packets"] == tap_report["tc"]["packets"] > 1000
            assert tap_report["bytes"] == tap_report["tc"]["bytes"]
            assert (tap_report["dropped"], tap_report["unread"]) == (0, 0)
            assert len(packets_of(file)) == tap_report["packets"]


def test_what_the_ring_had_no_room_for_is_counted(wire: Wire, tmp_path: Path) -> None:
    file = tmp_path / "lossy.pcapng"
    tap = f"{wire.device('wl0', 'in')}:{file}"
    with Companion(tmp_path, "record", "--tap", tap, "--buffer", "64KiB") as recording:
        recording.process.send_signal(signal.SIGSTOP)
        wire.send([TO_WL0] * 5000)
        recording.process.send_signal(signal.SIGCONT)
        wire.send([TO_WL0] * 5)
        (tap_report,) = recording.end()["taps"]
    assert tap_report["dropped"] > 0 and tap_report["freezes"] > 0
    assert tap_report["packets"] + tap_report["dropped"] == tap_report["tc"]["packets"] == 5005
    assert len(packets_of(file)) == tap_report["packets"] > 0


def test_nothing_stays_attached_whatever_ends_it(wire: Wire, tmp_path: Path) -> None:
    for number, is_killed in enumerate((False, True)):
        file = tmp_path / f"{number}.pcapng"
        tap = f"{wire.device('wl0', 'both')}:{file}"
        with Companion(tmp_path, "record", "--tap", tap) as recording:
            assert attached_count("wl0") == 2
            if is_killed:
                recording.kill()
            else:
                recording.end()
            # The kernel takes descriptors back a moment after the process has ended.
            wait_until(lambda: attached_count("wl0") == 0, "nothing is attached")
        assert file.exists() != is_killed
        assert Path(f"{file}.partial").exists() == is_killed


def test_a_removed_device_ends_its_tap_and_is_told(wire: Wire, tmp_path: Path) -> None:
    file = tmp_path / "short.pcapng"
    tap = f"{wire.device('wl0', 'in')}:{file}"
    with Companion(tmp_path, "record", "--tap", tap) as recording:
        wire.send([TO_WL0] * 9)
        subprocess.run(["ip", "link", "del", "wl0"], check=True, timeout=5)
        (tap_report,) = recording.end()["taps"]
    assert tap_report["packets"] == 9 and "removed" in tap_report["damage"]
    assert len(packets_of(file)) == 9


def refused(*arguments: str) -> Ran:
    ran = wirelens("testbed", "record", *arguments)
    assert (ran.status, ran.stdout) == (1, b"") and ran.stderr.count("\n") == 1, ran
    return ran


def test_what_cannot_be_recorded_is_named(wire: Wire, tmp_path: Path) -> None:
    file = tmp_path / "there.pcapng"
    file.write_bytes(b"mine")
    words = refused("--tap", f"{wire.device('wl0', 'in')}:{file}").stderr
    assert (
        words
        == f"wirelens: {file}: exists, and is not replaced; remove it or choose another name\n"
    )
    assert file.read_bytes() == b"mine"
    words = refused("--tap", f"{wire.device('wl7', 'in')}:{tmp_path}/x").stderr
    assert "wl7: cannot be tapped by eBPF: no such device" in words
    words = refused("--count", "no-such-namespace:wl0:in").stderr
    assert "no-such-namespace:wl0: cannot enter the network namespace /run/netns/" in words
    words = refused("--tap", f"{wire.device('wl0', 'in')}:{tmp_path}/none/x").stderr
    assert f"{tmp_path}/none/x: cannot be written: No such file" in words
    assert attached_count("wl0") == 0
    assert os.listdir(tmp_path) == ["there.pcapng"]
