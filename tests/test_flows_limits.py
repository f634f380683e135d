"""Flows in a flood: memory is bounded, who spoke before goes on, and nothing is lost.

The flood is one SYN for each of a million 5-tuples, or of ten million. Fifty conversations were
there before it and speak on, each once in a tenth of a million packets.
"""

import csv
import os
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import ENVIRONMENT, PROGRAM

ESTABLISHED = 50
TURN = 100_000
START_S = 1_700_000_000
FRAME_LEN = 54
SERVER, CLIENTS, FLOOD = 0x0A00_0001, 0xC0A8_0000, 0x1000_0000

FLOWS_MAX = 100_000
# What the guide promises, and what a run takes that has one flow or writes in large pieces.
BYTES_PER_FLOW = 200
# Pages of files count as well, of which kernels with large folios map more where a file is new:
# one program took 54 to 76 MiB in floods.
FIXED_BYTES = 64 << 20

RECORD = struct.Struct("<4I")
SEGMENT = struct.Struct(">12xHBBHHHBBHIIHHIIBBHHH")


def segment(
    number: int, source: int, destination: int, ports: tuple[int, int], flags: int
) -> bytes:
    """One packet of TCP, a microsecond after the one before, with its record header."""
    seconds, us = divmod(number, 1_000_000)
    head = RECORD.pack(START_S + seconds, us * 1000, FRAME_LEN, FRAME_LEN)
    ip = (0x800, 0x45, 0, 40, 1, 0, 64, 6, 0, source, destination)
    return head + SEGMENT.pack(*ip, *ports, 1, 1, 0x50, flags, 100, 0, 0)


def established(first: int, flags: int, is_back: bool) -> Iterator[bytes]:
    for index in range(ESTABLISHED):
        ends, ports = (CLIENTS + index, SERVER), (5000, 80)
        if is_back:
            ends, ports = ends[::-1], ports[::-1]
        yield segment(first + index, *ends, ports, flags)


def write_flood(path: Path, flow_count: int, with_established: bool = True) -> int:
    """How many packets were written."""
    number = 0
    with path.open("wb", buffering=1 << 20) as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 1))

        def write(packets: Iterator[bytes]) -> None:
            nonlocal number
            for packet in packets:
                file.write(packet)
                number += 1

        if with_established:
            write(established(number, 0x02, is_back=False))
            write(established(number, 0x12, is_back=True))
        for turn in range(0, flow_count, TURN):
            flood = range(turn, min(flow_count, turn + TURN))
            first = number - turn
            write(
                segment(first + i, FLOOD + i, SERVER, (1024 + i % 60_000, 80), 0x02) for i in flood
            )
            if with_established:
                write(established(number, 0x10, is_back=turn // TURN % 2 == 1))
    return number


# Runs a command and prints the most that it had in memory, in KiB.
PARENT = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def memory_of(*arguments: str | os.PathLike[str]) -> int:
    """Bytes that `flows` took at most, pages of the capture included.

    A process is charged with what its parent had when it was made, so the parent is a small one.
    """
    command = [sys.executable, "-c", PARENT, PROGRAM, "flows", "-q", *arguments]
    run = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=ENVIRONMENT, check=True
    )
    return int(run.stdout) * 1024


def check_flood(folder: Path, flow_count: int) -> None:
    path, output = folder / "flood.pcap", folder / "flows.csv"
    packet_count = write_flood(path, flow_count)
    for where in (("-n", "10"), ("-o", output)):
        taken = memory_of("-r", path, "--max-flows", str(FLOWS_MAX), *where)
        assert taken <= FLOWS_MAX * BYTES_PER_FLOW + FIXED_BYTES, (taken, where)
    reasons, packets, size, spoke = Counter(), 0, 0, []
    with output.open() as file:
        for row in csv.DictReader(file):
            reasons[row["end_reason"]] += 1
            packets += int(row["src_packets"]) + int(row["dst_packets"])
            size += int(row["src_bytes"]) + int(row["dst_bytes"])
            if row["src_ip"].startswith("192.168."):
                spoke.append((row["src_packets"], row["dst_packets"], row["end_reason"]))
    assert (packets, size) == (packet_count, packet_count * FRAME_LEN)
    # Each partition has a 64th of the most, rounded up.
    assert set(reasons) == {"evicted", "end"} and reasons["end"] <= FLOWS_MAX + 64
    assert reasons.total() == flow_count + ESTABLISHED
    turns = flow_count // TURN
    there, back = 1 + (turns + 1) // 2, 1 + turns // 2
    assert spoke == [(str(there), str(back), "end")] * ESTABLISHED


def test_a_flood_is_bounded_and_loses_nothing(tmp_path: Path) -> None:
    check_flood(tmp_path, 1_000_000)


@pytest.mark.wide
def test_a_long_flood_is_bounded_and_loses_nothing(tmp_path: Path) -> None:
    check_flood(tmp_path, 10_000_000)


def test_a_flow_takes_two_hundred_bytes(tmp_path: Path) -> None:
    few, many = 200_000, 1_000_000
    paths = {count: tmp_path / f"{count}.pcap" for count in (few, many)}
    for count, path in paths.items():
        write_flood(path, count, with_established=False)
    for where in (("-n", "10"), ("--force", "-o", tmp_path / "flows.csv")):
        taken = {count: memory_of("-r", path, *where) for count, path in paths.items()}
        per_flow = (taken[many] - taken[few]) / (many - few)
        assert per_flow <= BYTES_PER_FLOW, (per_flow, where)
