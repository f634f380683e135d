"""Flows in a flood: memory is bounded, who spoke before goes on, and nothing is lost.

The flood is one SYN for each of a million 5-tuples, or of ten million. Fifty conversations were
there before it and speak on, each once in a tenth of a million packets.
"""

import os
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy
import pyarrow
import pytest
from command import ENVIRONMENT, PROGRAM
from pyarrow import compute, csv

Numbers = int | numpy.ndarray

ESTABLISHED = 50
TURN = 100_000
START_S = 1_700_000_000
FRAME_LEN = 54
SERVER, CLIENTS, FLOOD = 0x0A00_0001, 0xC0A8_0000, 0x1000_0000

# In small pieces, so that pages of the file are of one size on every kernel.
PIECE_LEN = 1 << 16

FLOWS_MAX = 100_000
# What the guide promises, and what a run takes that has one flow or writes in large pieces.
BYTES_PER_FLOW = 200
FIXED_BYTES = 32 << 20

# A packet of TCP with its record header; the record's numbers are little-endian.
SEGMENT = numpy.dtype(
    [
        ("seconds", "<u4"), ("fraction_ns", "<u4"), ("captured_len", "<u4"), ("wire_len", "<u4"),
        ("macs", "12V"), ("ether_type", ">u2"),
        ("version", "u1"), ("tos", "u1"), ("total_len", ">u2"), ("id", ">u2"), ("offset", ">u2"),
        ("ttl", "u1"), ("protocol", "u1"), ("ip_sum", ">u2"), ("source", ">u4"),
        ("destination", ">u4"), ("source_port", ">u2"), ("destination_port", ">u2"),
        ("sequence", ">u4"), ("acknowledgement", ">u4"), ("header_len", "u1"), ("flags", "u1"),
        ("window", ">u2"), ("tcp_sum", ">u2"), ("urgent", ">u2"),
    ]
)  # fmt: skip


def segments(
    first: int, count: int, flags: int, *, ends: tuple[Numbers, Numbers], ports: tuple[Numbers, int]
) -> numpy.ndarray:
    """Packets of TCP, each a microsecond after the one before."""
    made = numpy.zeros(count, SEGMENT)
    seconds, us = numpy.divmod(numpy.arange(first, first + count), 1_000_000)
    made["seconds"], made["fraction_ns"] = START_S + seconds, us * 1000
    made["captured_len"] = made["wire_len"] = FRAME_LEN
    made["ether_type"], made["version"], made["total_len"] = 0x800, 0x45, 40
    made["id"], made["ttl"], made["protocol"] = 1, 64, 6
    made["source"], made["destination"] = ends
    made["source_port"], made["destination_port"] = ports
    made["sequence"] = made["acknowledgement"] = 1
    made["header_len"], made["flags"], made["window"] = 0x50, flags, 100
    return made


def established(first: int, flags: int, is_back: bool) -> numpy.ndarray:
    ends, ports = (CLIENTS + numpy.arange(ESTABLISHED), SERVER), (5000, 80)
    if is_back:
        ends, ports = ends[::-1], ports[::-1]
    return segments(first, ESTABLISHED, flags, ends=ends, ports=ports)


def write_flood(path: Path, flow_count: int, with_established: bool = True) -> int:
    """How many packets were written."""
    number = 0
    with path.open("wb", buffering=1 << 20) as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 1))

        def write(packets: numpy.ndarray) -> None:
            nonlocal number
            data = memoryview(packets.tobytes())
            for at in range(0, len(data), PIECE_LEN):
                file.write(data[at : at + PIECE_LEN])
            number += len(packets)

        if with_established:
            write(established(number, 0x02, is_back=False))
            write(established(number, 0x12, is_back=True))
        for turn in range(0, flow_count, TURN):
            flood = numpy.arange(turn, min(flow_count, turn + TURN))
            ends, ports = (FLOOD + flood, SERVER), (1024 + flood % 60_000, 80)
            write(segments(number, len(flood), 0x02, ends=ends, ports=ports))
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


def run_within(limit_bytes: int, *arguments: str | os.PathLike[str]) -> None:
    """Runs `flows`, which ends with an error where its own memory exceeds the limit.

    Pages of files do not count: how many of the program's 42 MiB are mapped is up to the kernel.
    """
    words = [PROGRAM, "flows", "-q", "--max-flows", str(FLOWS_MAX), *arguments]
    limited = ["prlimit", f"--data={limit_bytes}", *words]
    subprocess.run(limited, stdout=subprocess.DEVNULL, env=ENVIRONMENT, check=True)


COLUMNS = ["src_ip", "src_packets", "dst_packets", "src_bytes", "dst_bytes", "end_reason"]


def sum_of(rows: pyarrow.RecordBatch, column: str) -> int:
    return compute.sum(rows[column]).as_py()


def check_flood(folder: Path, flow_count: int) -> None:
    path, output = folder / "flood.pcap", folder / "flows.csv"
    packet_count = write_flood(path, flow_count)
    for where in (("-n", "10"), ("-o", output)):
        run_within(FLOWS_MAX * BYTES_PER_FLOW + FIXED_BYTES, "-r", path, *where)
    reasons, packets, size, spoke = Counter(), 0, 0, []
    for rows in csv.open_csv(output, convert_options=csv.ConvertOptions(include_columns=COLUMNS)):
        packets += sum_of(rows, "src_packets") + sum_of(rows, "dst_packets")
        size += sum_of(rows, "src_bytes") + sum_of(rows, "dst_bytes")
        for counted in rows["end_reason"].value_counts().to_pylist():
            reasons[counted["values"]] += counted["counts"]
        of_established = compute.starts_with(rows["src_ip"], "192.168.")
        for row in rows.filter(of_established).to_pylist():
            spoke.append((row["src_packets"], row["dst_packets"], row["end_reason"]))
    assert (packets, size) == (packet_count, packet_count * FRAME_LEN)
    # Each partition has a 64th of the most, rounded up.
    assert set(reasons) == {"evicted", "end"} and reasons["end"] <= FLOWS_MAX + 64
    assert reasons.total() == flow_count + ESTABLISHED
    turns = flow_count // TURN
    there, back = 1 + (turns + 1) // 2, 1 + turns // 2
    assert spoke == [(there, back, "end")] * ESTABLISHED


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
