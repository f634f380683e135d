"""Packets that the program in the kernel hands over by an AF_XDP socket.

Links are of the tests' own, in network namespaces; see lab.py. Without root they are skipped.
"""

import array
import fcntl
import os
import re
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from command import Ran, wirelens
from lab import Link, Listening, bring_up, ip, link_facts, new_link, wait_until
from packetlog_lab import (
    ANOMALOUS,
    BENIGN,
    HEADERS,
    PAYLOAD,
    accounted,
    frames,
    query,
    seen,
    shown,
    status,
)
from packetlog_model import write_model

KERNEL = ("--offload", "af-xdp", "--mirror")
WHOLE = HEADERS + PAYLOAD
ARP = b"\xff" * 6 + b"\x02" * 6 + b"\x08\x06" + bytes(46)
# A frame that takes two chunks of the memory, and an MTU that a driver with a program allows.
LONG_PAYLOAD, MTU = 2_900, 3_000
# The kernel hands frames to a socket that is not read until its memory is full.
RING_KIB, CHUNK_LEN = 1_024, 2_048
SIOCETHTOOL, SET_CHANNELS = 0x8946, 0x3D


@pytest.fixture
def link() -> Iterator[Link]:
    with new_link() as made:
        yield made


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "ports")


def recording(folder: Path, log: Path, model: Path, *arguments: str) -> Listening:
    words = ("packetlog", "record", "-i", "wl0", "-o", log, "--model", model)
    return Listening(folder, *words, *KERNEL, *arguments)


def send(sent: Sequence[bytes], name: str = "wl1") -> None:
    """Without waiting until others on `wl0` see them, since they never do."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
        out.bind((name, 0))
        for frame in sent:
            out.send(frame)


def set_queues(name: str, receive: int, transmit: int) -> None:
    """As `ethtool -L`."""
    words = array.array("I", [SET_CHANNELS, 0, 0, 0, 0, receive, transmit, 0, 0])
    request = struct.pack("16sP16x", name.encode(), words.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        fcntl.ioctl(asked, SIOCETHTOOL, request)


def received(ran: Ran) -> dict[str, int]:
    names = ("captured", "received by filter", "dropped")
    return {name: int(re.search(rf"(\d+) packets {name}", ran.stderr)[1]) for name in names}


def test_packets_come_cut_with_their_lengths_and_times_and_nothing_else_sees_them(
    tmp_path: Path, model: Path, link: Link
) -> None:
    for name in ("wl0", "wl1"):
        ip(f"link set {name} mtu {MTU}")
    log = tmp_path / "log"
    with recording(tmp_path, log, model) as run:
        assert link_facts("wl0")["xdp"]["prog"]["name"] == "cut"
        before, passed = time.time(), link.seen()
        send(frames(800) + frames(80, ANOMALOUS))
        seen(log, 880)
        send([ARP, frames(1)[0][:40], *frames(3, payload=LONG_PAYLOAD), ARP])
        seen(log, 886)
        send(frames(600))
        seen(log, 1_486)
        kernel, after = status(log)["log"]["kernel"], time.time()
        assert link.seen() == passed
        ran = run.end()
    assert ran.status == 0, ran.stderr
    assert "wl0: packets go to this command alone, by AF_XDP" in ran.stderr
    assert accounted(ran) == {"seen": 1_486, "kept": 1_486, "passed over": 0, "lost": 0}
    assert kernel["classified"] == kernel["received_with_class"] == 1_480
    assert kernel["received_whole"] == 6 and kernel["other_queue"] == 0
    assert kernel["left_whole"] == {
        "other_network": 2, "other_header": 1, "other_transport": 0, "long": 3, "no_room": 0,
    }  # fmt: skip
    assert query(log, "-w", tmp_path / "all.pcapng") == 1_486
    fields = ("frame.cap_len", "frame.len", "udp.dstport", "frame.time_epoch")
    rows = [line.split("\t") for line in shown(tmp_path / "all.pcapng", *fields)]
    lengths = [(int(kept), int(wire), port) for kept, wire, port, _ in rows]
    assert lengths.count((HEADERS, WHOLE, str(BENIGN))) == 1_400
    assert lengths.count((WHOLE, WHOLE, str(ANOMALOUS))) == 80
    # Of what user space classifies as benign it stores the headers as well.
    assert lengths.count((HEADERS, HEADERS + LONG_PAYLOAD, str(BENIGN))) == 3
    times = [float(stamp) for *_, stamp in rows]
    assert times == sorted(times) and before <= times[0] <= times[-1] <= after
    assert "xdp" not in link_facts("wl0")


def test_packets_without_room_are_counted_as_lost(tmp_path: Path, model: Path, link: Link) -> None:
    log = tmp_path / "log"
    with recording(tmp_path, log, model, "-B", str(RING_KIB)) as run:
        send(frames(10))
        seen(log, 10)
        os.kill(run.process.pid, signal.SIGSTOP)
        send(frames(2_000))
        os.kill(run.process.pid, signal.SIGCONT)
        room = RING_KIB * 1_024 // CHUNK_LEN
        seen(log, 10 + room)
        send(frames(5))
        seen(log, 15 + room)
        ran = run.end()
    assert ran.status == 0, ran.stderr
    wanted = {"captured": 15 + room, "received by filter": 2_015, "dropped": 2_000 - room}
    assert received(ran) == wanted, ran.stderr
    # veth counts them as well, and they are reported once.
    assert "dropped by the interface" not in ran.stderr, ran.stderr
    assert accounted(ran)["seen"] == 15 + room


def test_frames_of_several_pieces_that_wait_are_counted_once(
    tmp_path: Path, model: Path, link: Link
) -> None:
    for name in ("wl0", "wl1"):
        ip(f"link set {name} mtu {MTU}")
    log, count = tmp_path / "log", 200
    with recording(tmp_path, log, model, "-B", str(RING_KIB)) as run:
        os.kill(run.process.pid, signal.SIGSTOP)
        # Two pieces each, which all have room.
        send(frames(count, payload=LONG_PAYLOAD))
        os.kill(run.process.pid, signal.SIGCONT)
        seen(log, count)
        ran = run.end()
    assert ran.status == 0, ran.stderr
    wanted = {"captured": count, "received by filter": count, "dropped": 0}
    assert received(ran) == wanted, ran.stderr
    assert "received after the last one counted" not in ran.stderr, ran.stderr


def test_packets_of_a_queue_that_was_added_meanwhile_are_a_loss(
    tmp_path: Path, model: Path, link: Link
) -> None:
    log, queues = tmp_path / "log", "numrxqueues 3 numtxqueues 3"
    ip(f"link add wl2 {queues} type veth peer name wl3 {queues}")
    # The driver takes no program with fewer queues than its peer sends by, but the stack does. It
    # takes a frame that was sent by queue 2 for one of receive queue 1, where there is one.
    set_queues("wl2", 1, 1)
    set_queues("wl3", 1, 3)
    bring_up("wl2", "wl3")
    words = ("packetlog", "record", "-i", "wl2", "-o", log, "--model", model, *KERNEL)
    with Listening(tmp_path, *words) as run:
        assert "truncated in the network stack" in run.stderr
        set_queues("wl2", 2, 1)
        # Of 500 flows, which the kernel spreads over the queues.
        send(frames(500), "wl3")
        wait_until(lambda: status(log)["log"]["kernel"]["seen"] >= 500, "all pass the program")
        missed = status(log)["log"]["kernel"]["other_queue"]
        seen(log, 500 - missed)
        ran = run.end()
    assert 0 < missed < 500 and accounted(ran)["seen"] == 500 - missed, ran.stderr
    assert f"wl2: {missed} packets are not in the log" in ran.stderr, ran.stderr
    assert ran.status == 1, ran.stderr


def test_a_bond_is_refused(tmp_path: Path, model: Path, link: Link) -> None:
    made = subprocess.run(
        ["ip", "link", "add", "wl4", "type", "bond"], check=False, capture_output=True, timeout=10
    )
    if made.returncode != 0:
        pytest.skip("this kernel has no bonds")
    words = ("packetlog", "record", "-o", tmp_path / "log", "--model", model, *KERNEL)
    ran = wirelens(*words, "-i", "wl4")
    assert ran.status != 0 and "wl4: a bond" in ran.stderr, ran.stderr
    assert not (tmp_path / "log").exists()


def test_a_socket_receives_from_one_queue_of_one_interface(
    tmp_path: Path, model: Path, link: Link
) -> None:
    words = ("packetlog", "record", "-o", tmp_path / "log", "--model", model, *KERNEL)
    ran = wirelens(*words, "-i", "any")
    assert ran.status != 0 and "one interface by its name" in ran.stderr, ran.stderr
    ip("link add wl2 numrxqueues 2 numtxqueues 2 type veth peer name wl3")
    ran = wirelens(*words, "-i", "wl2")
    assert ran.status != 0 and "wl2: 2 receive queues" in ran.stderr, ran.stderr
    assert not (tmp_path / "log").exists()


def test_nothing_stays_attached_after_a_kill(tmp_path: Path, model: Path, link: Link) -> None:
    with recording(tmp_path, tmp_path / "log", model) as run:
        os.kill(run.process.pid, signal.SIGKILL)
        run.process.wait(timeout=10)
        wait_until(lambda: "xdp" not in link_facts("wl0"), "the program is gone")
    with recording(tmp_path, tmp_path / "log", model) as run:
        send(frames(20))
        seen(tmp_path / "log", 20)
        assert run.end().status == 0
