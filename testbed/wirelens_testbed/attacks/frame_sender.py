"""Sends prepared frames at their times; the one program of ours that forges addresses.

It is run inside a namespace of the lab, reads one line of JSON and then the frames from standard
input, and prints one JSON object. It decides nothing: the number of frames and the time of each
were fixed by the code that prepared them, so that a count is a bound.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ENTRY = struct.Struct("!QH")  # due after the start in ns, size in bytes
# Locally administered, and "WL": what the machines of an attacks run have.
LAB_MAC_PREFIX = bytes.fromhex("02574c")
FRAME_COUNT_MAX = 1_000_000
# Frames that are due within this are sent at once: a sleep costs more than they are apart.
SLEEP_MIN_NS = 200_000


class ForgeError(Exception):
    """The frames cannot be sent; the text says why."""


@dataclass(frozen=True, slots=True)
class DueFrame:
    due_ns: int
    data: bytes


def command() -> list[str]:
    return [sys.executable, "-B", str(Path(__file__).resolve())]


def pack(device: str, time_max_s: float, frames: Sequence[DueFrame]) -> bytes:
    """What the program wants on its standard input."""
    head = json.dumps({"device": device, "time_max_s": time_max_s, "count": len(frames)})
    entries = (ENTRY.pack(frame.due_ns, len(frame.data)) + frame.data for frame in frames)
    return head.encode() + b"\n" + b"".join(entries)


def evenly(frames: Iterable[bytes], rate_per_s: float) -> list[DueFrame]:
    return [DueFrame(round(index * 1e9 / rate_per_s), data) for index, data in enumerate(frames)]


def unpack(data: bytes) -> list[DueFrame]:
    frames: list[DueFrame] = []
    offset = 0
    while offset < len(data):
        due_ns, size_bytes = ENTRY.unpack_from(data, offset)
        offset += ENTRY.size
        frames.append(DueFrame(due_ns, data[offset : offset + size_bytes]))
        offset += size_bytes
    return frames


def main() -> int:
    try:
        head = json.loads(sys.stdin.buffer.readline())
        refuse_outside_a_lab(head["device"])
        frames = unpack(sys.stdin.buffer.read())
        check_frames(head["device"], frames, head["count"])
        report = send(head["device"], head["time_max_s"], frames)
    except (ForgeError, OSError) as failure:
        print(f"frame_sender: {failure}", file=sys.stderr)
        return 1
    print(json.dumps(report))
    return 0


def refuse_outside_a_lab(device: str) -> None:
    """Forged frames must not reach a network.

    A lab starts its programs in another network namespace than its own, and its devices have
    addresses that no other devices have.
    """
    own, starter = (os.readlink(f"/proc/{who}/ns/net") for who in ("self", os.getppid()))
    if own == starter:
        raise ForgeError(
            "runs in the network namespace of the program that started it, but may send only in "
            "one of a lab; run a scenario instead: wirelens testbed run"
        )
    if not address_of(device).startswith(LAB_MAC_PREFIX):
        raise ForgeError(f"{device} is no device of a lab; run a scenario instead")


def address_of(device: str) -> bytes:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as asker:
        asker.bind((device, 0))
        address: bytes = asker.getsockname()[4]
        return address


def check_frames(device: str, frames: Sequence[DueFrame], count: int) -> None:
    """The frames are as many as announced, and each names the device's own MAC address."""
    if len(frames) != count or count > FRAME_COUNT_MAX:
        raise ForgeError(
            f"{len(frames)} frames, wanted the {count} announced and at most {FRAME_COUNT_MAX}"
        )
    own_mac = address_of(device)
    strange = sum(frame.data[6:12] != own_mac for frame in frames)
    if strange:
        raise ForgeError(
            f"{strange} frames name another source MAC address than {own_mac.hex(':')}, by which "
            "the truth knows them"
        )


def send(device: str, time_max_s: float, frames: Sequence[DueFrame]) -> dict[str, int]:
    late_max_ns = sent = 0
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
        sender.bind((device, 0))
        start_ns = time.monotonic_ns()
        for frame in frames:
            wait_ns = start_ns + frame.due_ns - time.monotonic_ns()
            if wait_ns > SLEEP_MIN_NS:
                time.sleep(wait_ns / 1e9)
            elif -wait_ns > late_max_ns:
                late_max_ns = -wait_ns
            if time.monotonic_ns() - start_ns > time_max_s * 1e9:
                break
            sender.send(frame.data)
            sent += 1
    return {"sent": sent, "late_max_us": late_max_ns // 1000}


if __name__ == "__main__":
    sys.exit(main())
