"""Finds the arrival of each data packet, and the acknowledgement that reached its sender.

Both captures are read together, in the order of time. A packet is recognised by its IP
identification, ports and sequence number: TCP increments the identification for every packet of a
connection, so that a retransmission differs from the packet that it repeats.

An acknowledgement counts for a packet when it is the first, cumulative or selective, that covers
the packet's bytes at a time when the packet has arrived. So no acknowledgement is attributed to
a copy that was still on its way; the sender's capture alone cannot show this.
"""

from __future__ import annotations

import gzip
import socket
import struct
from array import array
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path

from wirelens_testbed.pcapng import CapturedPacket

ETHERNET_SIZE_BYTES, IPV4_SIZE_BYTES = 14, 20
# Captures of the testbed hold IPv4 without options only: 0x45 is version 4 and a header of 20.
VERSION_AND_SIZE, PROTOCOL_TCP = 0x45, 6
SYN, ACK = 0x02, 0x10
OPTION_END, OPTION_NOTHING, OPTION_SACK = 0, 1, 5
SEQUENCE_COUNT, SEQUENCE_HALF = 1 << 32, 1 << 31

NONE, CUMULATIVE, SELECTIVE = 0, 1, 2
ACK_KINDS = ("", "cumulative", "selective")

COLUMNS = (
    "number", "flow", "client_port", "seq", "size_bytes", "payload_bytes", "copy", "sent_ns",
    "received_ns", "owd_us", "ack_ns", "ack_latency_us", "ack_kind", "lost",
)  # fmt: skip


def _numbers() -> array[int]:
    return array("q")


@dataclass
class DataPackets:
    """The data packets of the sender's capture, in its order: a column each; 0 where not known."""

    number: array[int] = field(default_factory=_numbers)
    flow: array[int] = field(default_factory=_numbers)
    port: array[int] = field(default_factory=_numbers)
    seq: array[int] = field(default_factory=_numbers)
    size_bytes: array[int] = field(default_factory=_numbers)
    payload_bytes: array[int] = field(default_factory=_numbers)
    copy: array[int] = field(default_factory=_numbers)
    sent_ns: array[int] = field(default_factory=_numbers)
    received_ns: array[int] = field(default_factory=_numbers)
    ack_ns: array[int] = field(default_factory=_numbers)
    ack_kind: array[int] = field(default_factory=_numbers)


@dataclass
class Counts:
    """What went from the server to the client, of whatever kind."""

    sent: int = 0
    received: int = 0
    received_unknown: int = 0  # of these, not found among the sent

    @property
    def lost(self) -> int:
        return self.sent - (self.received - self.received_unknown)


@dataclass
class _Flow:
    number: int
    sequence: int  # the highest one seen, unfolded
    acked: int = 0
    # Indices of data packets whose bytes are not yet covered for good: those that carried new
    # bytes, in the order of these, and those that carried some again.
    fresh: deque[int] = field(default_factory=deque)
    repeats: list[int] = field(default_factory=list)
    copies: dict[int, int] = field(default_factory=dict)  # first byte -> how often sent
    told: set[int] = field(default_factory=set)  # first bytes covered by a selective one

    def unfold(self, sequence: int) -> int:
        """A sequence number that never wraps, from one that does after 4 GiB."""
        step = (sequence - self.sequence) % SEQUENCE_COUNT
        return self.sequence + (step - SEQUENCE_COUNT if step >= SEQUENCE_HALF else step)


class Matcher:
    """Goes through the two captures once; `packets` and `counts` then hold what was found."""

    def __init__(self, server: str, client: str) -> None:
        self.packets = DataPackets()
        self.counts = Counts()
        self._forward = _addresses(server, client)
        self._back = _addresses(client, server)
        self._flows: dict[int, _Flow] = {}  # by the client's port
        self._flow_count = 0
        # Indices of data packets, or -1, oldest first: the kernel's resets and repeated SYN-ACKs
        # all have the identification 0, and so may look the same.
        self._on_the_way: dict[bytes, list[int]] = {}

    def run(self, sender: Iterator[CapturedPacket], receiver: Iterator[CapturedPacket]) -> None:
        """Matches two captures of the same time, each in its order."""
        number = 0
        for at_sender, packet in _in_order_of_time(sender, receiver):
            number += at_sender
            data = packet.data
            addresses = data[26:34]
            if len(data) < ETHERNET_SIZE_BYTES + IPV4_SIZE_BYTES or data[12:14] != b"\x08\x00":
                continue
            if addresses == self._forward:
                if at_sender:
                    self._take_sent(number, packet)
                else:
                    self._take_received(packet)
            elif at_sender and addresses == self._back:
                self._take_ack(packet)

    def _take_sent(self, number: int, packet: CapturedPacket) -> None:
        self.counts.sent += 1
        data = packet.data
        index = -1
        if data[14] == VERSION_AND_SIZE and data[23] == PROTOCOL_TCP and len(data) >= 54:
            total, port, sequence, words, flags = struct.unpack_from("!16xH18xHI4xBB", data)
            flow = self._flow_of(port, sequence, flags)
            payload_bytes = total - IPV4_SIZE_BYTES - (words >> 4) * 4
            if payload_bytes > 0:
                index = self._add(number, packet, flow, port, sequence, payload_bytes)
        self._on_the_way.setdefault(_key(data), []).append(index)

    def _flow_of(self, port: int, sequence: int, flags: int) -> _Flow:
        flow = self._flows.get(port)
        # A port may serve one connection after another; a repeated SYN begins no new one.
        if flow is None or (flags & SYN and sequence != flow.sequence % SEQUENCE_COUNT):
            self._flow_count += 1
            flow = self._flows[port] = _Flow(self._flow_count, sequence)
        return flow

    def _add(
        self, number: int, packet: CapturedPacket, flow: _Flow, port: int, sequence: int, size: int
    ) -> int:
        packets = self.packets
        index = len(packets.number)
        begin = flow.unfold(sequence)
        copy = flow.copies.get(begin, int(begin < flow.acked)) + 1
        flow.copies[begin] = copy
        if begin >= flow.sequence:
            flow.sequence = begin
            flow.fresh.append(index)
        else:
            flow.repeats.append(index)
        packets.number.append(number)
        packets.flow.append(flow.number)
        packets.port.append(port)
        packets.seq.append(begin)
        packets.size_bytes.append(packet.size_bytes)
        packets.payload_bytes.append(size)
        packets.copy.append(copy)
        packets.sent_ns.append(packet.ts_ns)
        for unknown in (packets.received_ns, packets.ack_ns, packets.ack_kind):
            unknown.append(NONE)
        return index

    def _take_received(self, packet: CapturedPacket) -> None:
        self.counts.received += 1
        key = _key(packet.data)
        same = self._on_the_way.pop(key, None)
        if same is None:
            self.counts.received_unknown += 1
            return
        index, *later = same
        if later:
            self._on_the_way[key] = later
        if index >= 0:
            self.packets.received_ns[index] = packet.ts_ns

    def _take_ack(self, packet: CapturedPacket) -> None:
        data = packet.data
        if data[14] != VERSION_AND_SIZE or data[23] != PROTOCOL_TCP or len(data) < 54:
            return
        port, acked_folded, words, flags = struct.unpack_from("!34xH6xIBB", data)
        flow = self._flows.get(port)
        if flow is None or not flags & ACK:
            return
        acked = flow.unfold(acked_folded)
        options_end = ETHERNET_SIZE_BYTES + IPV4_SIZE_BYTES + (words >> 4) * 4
        if options_end > len(data):
            return
        blocks = [
            (flow.unfold(low), flow.unfold(high)) for low, high in _blocks(data[54:options_end])
        ]
        # A block below the cumulative number tells of a copy that came twice.
        blocks = [(low, high) for low, high in blocks if high > acked]
        if acked > flow.acked:
            self._settle(flow, packet.ts_ns, acked)
        if blocks:
            self._select(flow, packet.ts_ns, blocks)

    def _settle(self, flow: _Flow, ts_ns: int, acked: int) -> None:
        """A cumulative number covers all that ends below it, for good."""
        packets, fresh = self.packets, flow.fresh
        covered: list[int] = []
        while fresh and packets.seq[fresh[0]] + packets.payload_bytes[fresh[0]] <= acked:
            covered.append(fresh.popleft())
        if flow.repeats:
            is_left = [packets.seq[i] + packets.payload_bytes[i] > acked for i in flow.repeats]
            covered += [i for i, left in zip(flow.repeats, is_left, strict=True) if not left]
            flow.repeats = [i for i, left in zip(flow.repeats, is_left, strict=True) if left]
        for index in self._first_arrived(flow, covered):
            packets.ack_ns[index], packets.ack_kind[index] = ts_ns, CUMULATIVE
        for index in covered:
            flow.copies.pop(packets.seq[index], None)
            flow.told.discard(packets.seq[index])
        flow.acked = acked

    def _select(self, flow: _Flow, ts_ns: int, blocks: list[tuple[int, int]]) -> None:
        """A block covers what lies in it until a cumulative number does."""
        packets = self.packets
        covered = [
            index
            for index in (*flow.fresh, *flow.repeats)
            for low, high in blocks
            if low <= packets.seq[index]
            and packets.seq[index] + packets.payload_bytes[index] <= high
        ]
        for index in self._first_arrived(flow, covered):
            packets.ack_ns[index], packets.ack_kind[index] = ts_ns, SELECTIVE
            flow.told.add(packets.seq[index])

    def _first_arrived(self, flow: _Flow, covered: list[int]) -> list[int]:
        """Of the copies of each packet the one that arrived first, if nothing was told of it yet."""
        received_ns = self.packets.received_ns
        first: dict[int, int] = {}
        for index in covered:
            begin = self.packets.seq[index]
            if not received_ns[index] or begin < flow.acked or begin in flow.told:
                continue
            best = first.get(begin)
            if best is None or received_ns[index] < received_ns[best]:
                first[begin] = index
        return list(first.values())


def _addresses(source: str, target: str) -> bytes:
    return socket.inet_aton(source) + socket.inet_aton(target)


def _key(data: bytes) -> bytes:
    # IP identification and protocol, ports, sequence number.
    return data[18:20] + data[23:24] + data[34:42]


def _blocks(options: bytes) -> list[tuple[int, int]]:
    """The blocks of a selective acknowledgement (RFC 2018)."""
    offset = 0
    while offset + 1 < len(options):
        kind = options[offset]
        if kind == OPTION_END:
            break
        if kind == OPTION_NOTHING:
            offset += 1
            continue
        size_bytes = options[offset + 1]
        if size_bytes < 2 or offset + size_bytes > len(options):
            break
        if kind == OPTION_SACK:
            edges = options[offset + 2 : offset + size_bytes]
            return list(struct.iter_unpack("!II", edges[: len(edges) // 8 * 8]))
        offset += size_bytes
    return []


def _in_order_of_time(
    sender: Iterator[CapturedPacket], receiver: Iterator[CapturedPacket]
) -> Iterator[tuple[bool, CapturedPacket]]:
    sent, received = next(sender, None), next(receiver, None)
    while sent or received:
        if received is None or (sent and sent.ts_ns <= received.ts_ns):
            assert sent is not None
            yield True, sent
            sent = next(sender, None)
        else:
            yield False, received
            received = next(receiver, None)


def write(packets: DataPackets, path: Path) -> None:
    """Writes a row for each data packet; what is not known, or never was, is empty."""
    columns = zip(*(getattr(packets, each.name) for each in fields(packets)), strict=True)
    with gzip.open(path, "wt", compresslevel=1) as table:
        table.write("\t".join(COLUMNS) + "\n")
        for number, flow, port, seq, size, payload, copy, sent, received, acked, kind in columns:
            owd_us = f"{(received - sent) / 1000:.1f}" if received else ""
            latency_us = f"{(acked - sent) / 1000:.1f}" if acked else ""
            table.write(
                f"{number}\t{flow}\t{port}\t{seq}\t{size}\t{payload}\t{copy}\t{sent}\t"
                f"{received or ''}\t{owd_us}\t{acked or ''}\t{latency_us}\t{ACK_KINDS[kind]}\t"
                f"{int(not received)}\n"
            )


def owd_min_us(packets: DataPackets) -> float:
    """The shortest one-way delay of all."""
    pairs = zip(packets.sent_ns, packets.received_ns, strict=True)
    return min(((received - sent) / 1000 for sent, received in pairs if received), default=0.0)
