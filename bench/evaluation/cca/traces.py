"""Traces of one tap as tables, written as captures, so that the way of all captures reads them.

A table has a row a packet: time, sequence and acknowledgement number, bytes of data, bytes of the
packet (Nebby's traces of 17 controls have it so; numbers begin at 0). What it does not tell, such
as SACK blocks, the capture does not have either.
"""

import csv
import gzip
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SYN, ACK = 0x02, 0x10
LINK_RAW = 101
IP_LEN, TCP_LEN = 20, 20
# The times of the tables count from each trace's beginning.
BEGIN_NS = 1_700_000_000_000_000_000


@dataclass(frozen=True)
class Trace:
    """A trace and what is known of it."""

    path: Path
    control: str
    rtt: str
    rate: str

    @property
    def combination(self) -> str:
        """Rate and RTT, as it is split by."""
        return f"{self.rate} {self.rtt}"


def find(folder: Path) -> list[Trace]:
    """All traces of a folder, in the order of their names."""
    found = []
    for path in sorted(folder.glob("*.csv.gz")):
        control, rtt, rate = path.name.removesuffix(".csv.gz").split("_")
        found.append(Trace(path, control, rtt, rate))
    return found


def _packets(path: Path) -> Iterator[tuple[int, bytes, int]]:
    with gzip.open(path, "rt") as file:
        for row in csv.DictReader(file):
            if not row["tcp.seq"]:
                continue  # No TCP.
            seconds, _, fraction = row["frame.time_relative"].partition(".")
            time_ns = BEGIN_NS + int(seconds) * 10**9 + int(fraction.ljust(9, "0")[:9])
            yield time_ns, *_packet(row)


def _packet(row: dict[str, str]) -> tuple[bytes, int]:
    """Headers, and how long the packet was."""
    whole, data = int(row["frame.len"]), int(row["tcp.len"])
    ports = int(row["tcp.srcport"]), int(row["tcp.dstport"])
    seq, ack = int(row["tcp.seq"]) % 2**32, int(row["tcp.ack"]) % 2**32
    options = whole - IP_LEN - TCP_LEN - data
    # Whoever opens sends nothing and has number 0; one of the two acknowledges that.
    flags = (SYN if seq == 0 and data == 0 else 0) | (ACK if ack else 0)
    server = ports[1] == 5000
    addresses = b"\xc0\x00\x02\x01", b"\xc0\x00\x02\x02"
    source, destination = addresses if server else addresses[::-1]
    ip = struct.pack(
        ">BBHHHBBH4s4s", 0x45, 0, whole, 0, 0x4000, 64, 6, 0, source, destination
    )  # fmt: skip
    tcp = struct.pack(
        ">HHIIBBHHH", *ports, seq, ack, (TCP_LEN + options) // 4 << 4, flags, 65535, 0, 0
    )
    return ip + tcp + b"\x01" * options, whole


def write(path: Path, capture: Path) -> None:
    """Writes a trace as a pcap file with nanoseconds, headers alone."""
    with capture.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, LINK_RAW))
        for time_ns, headers, whole in _packets(path):
            seconds, fraction = divmod(time_ns, 10**9)
            file.write(struct.pack("<4I", seconds, fraction, len(headers), whole) + headers)


def number_of(text: str) -> int:
    """A number of a text, the same in every run."""
    return zlib.crc32(text.encode())
