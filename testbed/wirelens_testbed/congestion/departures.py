"""Which packets left the queue, and when: the two taps of one run laid side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from wirelens_testbed.pcapng import CapturedPacket, read_packets
from wirelens_testbed.truth import PacketTruth

COLUMNS = ("time_ns", "flow", "bytes", "departed_ns", "dropped")

ETHERNET_BYTES = 14
# What makes a packet itself, behind the Ethernet header: the IP identification, the addresses, and
# the first half of the TCP header. Retransmissions differ in the identification, which each socket
# counts up. Left out is what a router changes: time to live, checksum, and ECN where it marks.
IDENTIFICATION, ENDS_AND_NUMBERS = slice(18, 20), slice(26, 50)
SOURCE = slice(26, 30)


class Passage(NamedTuple):
    """One packet that came to the queue, and when it left; `None` if the queue was full."""

    arrived_ns: int
    departed_ns: int | None
    flow: int
    size_bytes: int


@dataclass
class Counts:
    """What a comparison of the taps has found; `strangers` left the queue and never came to it."""

    came: int = 0
    dropped: int = 0
    strangers: int = 0


def passages(
    before: Path, after: Path, flow_of_source: Mapping[bytes, int], counts: Counts
) -> Iterator[Passage]:
    """The packets of `before`, in order, each with its departure in `after`.

    All departures are held in memory, some 200 bytes each. They cannot be read along, as the tap
    and the queue need not agree on the order of packets that two processors bring at once.
    """
    departures: dict[bytes, list[int]] = {}
    for departed in read_packets(after):
        departures.setdefault(_identity(departed), []).append(departed.ts_ns)
    for arrived in read_packets(before):
        flow = flow_of_source.get(arrived.data[SOURCE], -1)
        times_ns = departures.get(_identity(arrived))
        departed_ns = times_ns.pop(0) if times_ns else None
        counts.came += 1
        counts.dropped += departed_ns is None
        yield Passage(arrived.ts_ns, departed_ns, flow, arrived.size_bytes)
    counts.strangers = sum(map(len, departures.values()))


def _identity(packet: CapturedPacket) -> bytes:
    return packet.data[IDENTIFICATION] + packet.data[ENDS_AND_NUMBERS]


def write(before: Path, after: Path, flow_of_source: Mapping[bytes, int], path: Path) -> Counts:
    """Writes the per-packet truth."""
    counts = Counts()
    table = PacketTruth(path, COLUMNS)
    try:
        for each in passages(before, after, flow_of_source, counts):
            is_dropped = int(each.departed_ns is None)
            table.add(each.arrived_ns, each.flow, each.size_bytes, each.departed_ns, is_dropped)
    finally:
        table.close()
    return counts
