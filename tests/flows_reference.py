"""Flows after docs/guide/flows.md, counted in plain Python from what tshark finds.

Made from the specification alone, as slow and as plain as it may be: a flow is the list of its
packets, and a row is a summary of such a list in whole numbers and fractions. What the
specification leaves open is decided here, in `Rules` and where it says "read as".
"""

import base64
import hashlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from ipaddress import ip_address
from math import sqrt

from reference import COUNTERPARTS, PORT_PROTOCOLS, PROTOCOL_NAMES, Packet

SECOND_NS = 10**9

FIN, SYN, RST, PSH, ACK, URG, ECE, CWR = (1 << bit for bit in range(8))
FLAGS = {"fin": FIN, "syn": SYN, "rst": RST, "psh": PSH, "ack": ACK, "urg": URG, "ece": ECE,
         "cwr": CWR}  # fmt: skip
SIDES = ("both", "src", "dst")

COLUMNS = (
    "community_id", "protocol", "src_ip", "src_port", "dst_ip", "dst_port", "first_ns", "last_ns",
    "src_packets", "src_bytes", "dst_packets", "dst_bytes", "src_tcp_flags", "dst_tcp_flags",
    "end_reason", "vlan",
)  # fmt: skip
MEASURES = ("size_min", "size_mean", "size_std", "size_max", "gap_min_ns", "gap_mean_ns",
            "gap_std_ns", "gap_max_ns")  # fmt: skip
STATS_COLUMNS = (
    *(f"{side}_{measure}" for side in SIDES for measure in MEASURES),
    "src_first_ns", "src_last_ns", "dst_first_ns", "dst_last_ns",
    *(f"{side}_{flag}_packets" for side in SIDES for flag in FLAGS),
)  # fmt: skip

Value = int | float | str | None
Row = dict[str, Value]
# Address and port, or what stands in for it.
End = tuple[str, int]


@dataclass(frozen=True)
class Rules:
    """What can be chosen, and the two spans that cannot."""

    idle_ns: int = 120 * SECOND_NS
    active_ns: int = 1800 * SECOND_NS
    window_ns: int | None = None
    decapsulate: bool = True
    linger_ns: int = 5 * SECOND_NS
    late_ns: int = SECOND_NS


@dataclass(frozen=True)
class Tuple:
    """The 5-tuple of one packet, from its sender's side."""

    protocol: int
    source: End
    destination: End
    # A message that no other answers: the way back is another flow.
    is_one_way: bool

    @classmethod
    def of(cls, packet: Packet, decapsulate: bool) -> "Tuple | None":
        at = packet.network(decapsulate)
        if at is None or at.name == "arp":
            return None
        ports, is_one_way = (0, 0), False
        if at.transport in COUNTERPARTS and at.ports:
            asked = COUNTERPARTS[at.transport]
            counterparts = asked | {answer: question for question, answer in asked.items()}
            kind, code = at.ports
            is_one_way = kind not in counterparts
            ports = (kind, counterparts.get(kind, code))
        elif at.protocol in PORT_PROTOCOLS and at.ports:
            ports = at.ports
        source, destination = (at.source, ports[0]), (at.destination, ports[1])
        return cls(at.protocol, source, destination, is_one_way)

    @property
    def ends(self) -> tuple[End, End]:
        """Both ends, in the order that both directions share."""
        ends = [self.source, self.destination]
        if not self.is_one_way:
            ends.sort(key=lambda end: (ip_address(end[0]).packed, end[1]))
        return ends[0], ends[1]

    @property
    def key(self) -> tuple[int, bool, End, End]:
        return (self.protocol, self.is_one_way, *self.ends)

    @property
    def community_id(self) -> str:
        """Version 1 with seed 0, after its specification."""
        low, high = self.ends
        content = bytes(2) + ip_address(low[0]).packed + ip_address(high[0]).packed
        content += bytes((self.protocol, 0))
        if self.protocol in (1, 6, 17, 58, 132):
            content += struct.pack(">HH", low[1], high[1])
        return "1:" + base64.b64encode(hashlib.sha1(content).digest()).decode()


@dataclass(frozen=True)
class PacketRecord:
    """A packet of a flow; its time is nothing until the flow has a stamp."""

    time_ns: int | None
    size: int
    flags: int
    is_from_source: bool


@dataclass
class Flow:
    """The packets of one flow in the order in which they came."""

    tuple: Tuple
    vlan: int | None
    packets: list[PacketRecord] = field(default_factory=list)
    # Nothing while no packet has had a stamp.
    first_ns: int | None = None
    last_ns: int | None = None
    # Sides that have sent FIN: whether it was the source.
    finished: set[bool] = field(default_factory=set)
    closed_by: str | None = None
    closed_ns: int | None = None
    # Its packets when it was closed, that which closed it included.
    closed_at: int = 0
    end_reason: str = ""
    # The capture's time, or that of the packet that did not belong to it any more.
    ended_ns: int | None = None

    def stamp(self, time_ns: int | None) -> None:
        """Packets before the first stamped one take its stamp."""
        if self.first_ns is None:
            self.packets = [replace(packet, time_ns=time_ns) for packet in self.packets]
            self.first_ns = self.last_ns = time_ns
            self.closed_ns = None if self.closed_by is None else time_ns

    def add(self, packet: Packet, time_ns: int | None, seen: Tuple, flags: int) -> None:
        is_from_source = seen.source == self.tuple.source
        if time_ns is not None and self.first_ns is not None:
            self.first_ns = min(self.first_ns, time_ns)
            self.last_ns = max(self.last_ns, time_ns)
        self.stamp(time_ns)
        self.packets.append(PacketRecord(time_ns, packet.wire_len, flags, is_from_source))
        if flags & FIN:
            self.finished.add(is_from_source)
        if self.closed_by is None and (flags & RST or len(self.finished) == 2):
            self.closed_by = "rst" if flags & RST else "fin"
            self.closed_ns = time_ns
            self.closed_at = len(self.packets)

    def end_before(self, time_ns: int | None, flags: int, rules: Rules) -> str | None:
        """Why the flow has ended when this packet comes; nothing if the packet is part of it."""
        if self.closed_by is not None and flags & (SYN | ACK) == SYN:
            return self.closed_by
        if time_ns is None:
            return None
        self.stamp(time_ns)
        is_apart = abs(time_ns - self.last_ns) >= rules.idle_ns
        if self.closed_by is not None:
            is_past = time_ns - self.closed_ns >= rules.linger_ns
            return self.closed_by if is_past or is_apart else None
        if is_apart:
            return "idle"
        if time_ns - self.first_ns >= rules.active_ns:
            return "active"
        return None

    def deadline(self, rules: Rules) -> tuple[int, str]:
        """When it ends if nothing more comes, and why."""
        idle_ns = self.last_ns + rules.idle_ns
        if self.closed_by is None:
            return idle_ns, "idle"
        return min(idle_ns, self.closed_ns + rules.linger_ns), self.closed_by

    @property
    def runs_backwards(self) -> bool:
        """Whether a packet has an earlier stamp than one that came before it."""
        stamps = [packet.time_ns or 0 for packet in self.packets]
        return any(later < earlier for earlier, later in zip(stamps, stamps[1:], strict=False))


STEPS_FREE = 16
PACKETS_PER_STEP = 1 << 16


class FlowTable:
    """All flows of a capture."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.open: dict[tuple, Flow] = {}
        self.ended: list[Flow] = []
        # The capture's time.
        self.now_ns: int | None = None
        self.late = 0
        self.clock_steps = 0
        # Steps back are rationed: so many, and one more for so many packets.
        self.steps_left = STEPS_FREE
        self.earned = 0
        self.packets = 0

    def read(self, packets: Iterable[Packet]) -> list[Flow]:
        """Every flow of a capture, in the order in which they ended."""
        for packet in packets:
            self.add(packet)
        for flow in list(self.open.values()):
            is_stamped = flow.last_ns is not None
            is_idle = is_stamped and self.now_ns - flow.last_ns >= self.rules.idle_ns
            self.end(flow, flow.closed_by or ("idle" if is_idle else "end"), self.now_ns)
        return self.ended

    def add(self, packet: Packet) -> None:
        time_ns = self.now_ns if packet.time_ns is None else packet.time_ns
        self.earn()
        is_back = self.now_ns is not None and self.now_ns - time_ns >= self.rules.idle_ns
        if is_back and self.steps_left > 0:
            self.set_back(time_ns)
        elif self.now_ns is not None:
            self.late += self.now_ns - time_ns > self.rules.late_ns
        seen = Tuple.of(packet, self.rules.decapsulate)
        if seen is not None:
            self.packets += 1
            self.add_to_flow(packet, time_ns, seen)
        if self.now_ns is None or time_ns > self.now_ns:
            self.now_ns = time_ns

    def add_to_flow(self, packet: Packet, time_ns: int | None, seen: Tuple) -> None:
        at = packet.network(self.rules.decapsulate)
        flags = at.tcp_flags if at.protocol == 6 else 0
        flow = self.open.get(seen.key)
        source = seen
        if flow is not None:
            reason = self.written_as(flow)
            if reason is None:
                reason = flow.end_before(time_ns, flags, self.rules)
            if reason is not None:
                self.end(flow, reason, time_ns)
                source = flow.tuple if reason == "active" else seen
                flow = None
        if flow is None:
            flow = self.open[seen.key] = Flow(source, packet.vlan)
        flow.add(packet, time_ns, seen, flags)

    def end(self, flow: Flow, reason: str, time_ns: int | None) -> None:
        flow.end_reason, flow.ended_ns = reason, time_ns
        self.ended.append(self.open.pop(flow.tuple.key))

    def written_as(self, flow: Flow) -> str | None:
        """The reason with which a flow past its deadline has been written already."""
        if flow.last_ns is None:
            return None
        deadline_ns, reason = flow.deadline(self.rules)
        return reason if self.now_ns >= deadline_ns + self.rules.late_ns else None

    def earn(self) -> None:
        """A packet more has come."""
        self.earned += 1
        if self.earned == PACKETS_PER_STEP:
            self.earned, self.steps_left = 0, min(self.steps_left + 1, STEPS_FREE)

    def set_back(self, time_ns: int) -> None:
        """The clock was set back: every flow has ended."""
        for flow in list(self.open.values()):
            is_stamped = flow.last_ns is not None
            reason = self.written_as(flow) or flow.closed_by or ("idle" if is_stamped else "end")
            self.end(flow, reason, time_ns)
        self.clock_steps += 1
        self.steps_left -= 1
        self.now_ns = time_ns


# --- Rows -----------------------------------------------------------------------------------


def rows_of(flow: Flow, rules: Rules, with_stats: bool) -> list[Row]:
    """The rows of a flow: one, or one for each window."""
    if rules.window_ns is None:
        return [row_of(flow, flow.packets, flow.end_reason, with_stats)]
    # A packet older than the window its flow is in counts in that one.
    windows: list[tuple[int | None, list[PacketRecord]]] = []
    reasons = []
    for index, packet in enumerate(flow.packets):
        start = None
        if packet.time_ns is not None:
            start = packet.time_ns - packet.time_ns % rules.window_ns
        if not windows or (start is not None and start > windows[-1][0]):
            windows.append((start, []))
            reasons.append("window")
        windows[-1][1].append(packet)
        if flow.closed_by is not None and index + 1 >= flow.closed_at:
            reasons[-1] = flow.closed_by
    if reasons[-1] == "window":
        reasons[-1] = reason_in_window(flow, rules)
    return [
        {"window_start_ns": start} | row_of(flow, packets, reason, with_stats)
        for (start, packets), reason in zip(windows, reasons, strict=True)
    ]


def reason_in_window(flow: Flow, rules: Rules) -> str:
    """What the last row of a flow says that nothing closed: told by its stamps as far as they
    can tell."""
    if flow.last_ns is None:
        return "end"
    window_end_ns = flow.last_ns - flow.last_ns % rules.window_ns + rules.window_ns
    is_past = flow.ended_ns >= window_end_ns
    if flow.end_reason == "idle":
        return "window" if flow.last_ns + rules.idle_ns > window_end_ns else "idle"
    return "window" if is_past else flow.end_reason


def row_of(flow: Flow, packets: list[PacketRecord], reason: str, with_stats: bool) -> Row:
    seen = flow.tuple
    by_side = {
        "both": packets,
        "src": [packet for packet in packets if packet.is_from_source],
        "dst": [packet for packet in packets if not packet.is_from_source],
    }
    values = [
        seen.community_id, PROTOCOL_NAMES.get(seen.protocol, str(seen.protocol)),
        *seen.source, *seen.destination,
        *span([packet.time_ns for packet in packets]),
        *(number for side in ("src", "dst") for number in totals(by_side[side])),
        *(all_flags(by_side[side]) for side in ("src", "dst")),
        reason, flow.vlan,
    ]  # fmt: skip
    row = dict(zip(COLUMNS, values, strict=True))
    return row | stats_of(by_side) if with_stats else row


def totals(packets: list[PacketRecord]) -> tuple[int, int]:
    return len(packets), sum(packet.size for packet in packets)


def all_flags(packets: list[PacketRecord]) -> int:
    flags = 0
    for packet in packets:
        flags |= packet.flags
    return flags


def stats_of(by_side: dict[str, list[PacketRecord]]) -> Row:
    row: Row = {}
    for side, packets in by_side.items():
        measures = spread([packet.size for packet in packets]) + spread(gaps(packets))
        row |= {f"{side}_{name}": value for name, value in zip(MEASURES, measures, strict=True)}
    for side in ("src", "dst"):
        stamps = span([packet.time_ns for packet in by_side[side]])
        row[f"{side}_first_ns"], row[f"{side}_last_ns"] = stamps
    for side, packets in by_side.items():
        for name, flag in FLAGS.items():
            row[f"{side}_{name}_packets"] = sum(bool(packet.flags & flag) for packet in packets)
    return row


def gaps(packets: list[PacketRecord]) -> list[int]:
    """From packet to packet as they came, each from the latest stamp before and none below 0."""
    found: list[int] = []
    latest = None
    for packet in packets:
        # Without stamps there is no time between packets either.
        time_ns = packet.time_ns or 0
        if latest is not None:
            found.append(max(0, time_ns - latest))
        latest = time_ns if latest is None else max(latest, time_ns)
    return found


def span(stamps: list[int | None]) -> tuple[int | None, int | None]:
    """The earliest and the latest, of a flow that has stamps."""
    known = [stamp for stamp in stamps if stamp is not None]
    return min(known, default=None), max(known, default=None)


def spread(numbers: list[int]) -> list[Value]:
    """Smallest, mean, standard deviation of a sample, largest; nothing where there is none."""
    if not numbers:
        return [None] * 4
    count, total = len(numbers), sum(numbers)
    deviation = None
    if count > 1:
        squares = sum(number * number for number in numbers)
        deviation = sqrt(Fraction(count * squares - total * total, count * (count - 1)))
    return [min(numbers), float(Fraction(total, count)), deviation, max(numbers)]
