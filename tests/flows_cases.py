"""Captures made by hand, each small enough for its flows to be worked out on paper."""

import struct
from dataclasses import dataclass

from captures import Frame
from flows_reference import ACK, FIN, PSH, RST, SECOND_NS, SYN

A, B = bytes((10, 0, 0, 1)), bytes((10, 0, 0, 2))
PORTS = {A: 1000, B: 80}
START_NS = 1_700_000_000 * SECOND_NS
LETTERS = {"S": SYN, "A": ACK, "F": FIN, "R": RST, "P": PSH}


def ipv4(
    source: bytes, destination: bytes, protocol: int, payload: bytes, offset: int = 0
) -> bytes:
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 1, offset, 64, protocol, 0)
    return head + source + destination + payload


def frame(seconds: float, packet: bytes, tag: int | None = None, wire_len: int = 0) -> Frame:
    """`seconds` after the start, in Ethernet; longer on the wire than captured if told so."""
    vlan = b"" if tag is None else struct.pack(">HH", 0x8100, tag)
    data = bytes(12) + vlan + b"\x08\x00" + packet
    time_ns = START_NS + round(seconds * 1000) * 1_000_000
    return Frame(time_ns, data, max(wire_len, len(data)))


def tcp(line: str) -> Frame:
    """`1.5 a SA`: after 1.5 s, from a, SYN and ACK. A fourth word is nanoseconds to add."""
    seconds, who, letters, *more = line.split()
    source, destination = (A, B) if who == "a" else (B, A)
    flags = sum(LETTERS[letter] for letter in letters if letter != "-")
    ports = PORTS[source], PORTS[destination]
    segment = struct.pack(">HHIIBBHHH", *ports, 1, 1, 0x50, flags, 100, 0, 0)
    made = frame(float(seconds), ipv4(source, destination, 6, segment))
    return Frame(made.time_ns + int(more[0]), made.data, made.wire_len) if more else made


def udp(seconds: float, who: str, size: int = 60, port: int = 1000) -> Frame:
    source, destination = (A, B) if who == "a" else (B, A)
    ports = (port, 80) if who == "a" else (80, port)
    datagram = struct.pack(">HHHH", *ports, 8, 0)
    return frame(seconds, ipv4(source, destination, 17, datagram), wire_len=size)


def icmp(seconds: float, who: str, kind: int, code: int = 0) -> Frame:
    source, destination = (A, B) if who == "a" else (B, A)
    return frame(seconds, ipv4(source, destination, 1, bytes((kind, code)) + bytes(6)))


def exchange(*lines: str) -> list[Frame]:
    return [tcp(line) for line in lines]


CLOSE = ("0 a S", "0.1 b SA", "0.2 a A", "0.3 a FA", "1 b FA")
FRAGMENT = struct.pack(">HHHH", 1000, 80, 60, 0) + bytes(8)


@dataclass(frozen=True)
class Case:
    """A capture and its flows: source and its port, first and last in milliseconds after the
    start, packets each way, reason."""

    frames: list[Frame]
    flows: list[tuple]
    mode: str = "default"


CASES = {
    "the last acknowledgement belongs to the flow that was closed": Case(
        exchange(*CLOSE, "1.1 a A"), [("a", 1000, 0, 1100, 4, 2, "fin")]
    ),
    "up to five seconds after the close packets belong to it": Case(
        exchange(*CLOSE, "6 b A -1"), [("a", 1000, 0, 6000, 3, 3, "fin")]
    ),
    "five seconds after the close another flow begins": Case(
        exchange(*CLOSE, "6 b A"),
        [("a", 1000, 0, 1000, 3, 2, "fin"), ("b", 80, 6000, 6000, 1, 0, "end")],
    ),
    "a reset closes": Case(
        exchange("0 a S", "1 b RA", "2 a A", "6 a A"),
        [("a", 1000, 0, 2000, 2, 1, "rst"), ("a", 1000, 6000, 6000, 1, 0, "end")],
    ),
    "what closed first is the reason": Case(
        exchange(*CLOSE, "1.5 a R"), [("a", 1000, 0, 1500, 4, 2, "fin")]
    ),
    "a SYN soon after the close is another flow": Case(
        exchange(*CLOSE, "1.5 a A", "2 b S", "2.1 a SA"),
        [("a", 1000, 0, 1500, 4, 2, "fin"), ("b", 80, 2000, 2100, 1, 1, "end")],
    ),
    "a SYN with ACK after the close is late": Case(
        exchange(*CLOSE, "2 b SA"), [("a", 1000, 0, 2000, 3, 3, "fin")]
    ),
    "a second SYN before any close is the same flow": Case(
        exchange("0 a S", "3 a S", "4 b SA"), [("a", 1000, 0, 4000, 2, 1, "end")]
    ),
    "FIN twice from one side does not close": Case(
        exchange("0 a FA", "1 a FA", "20 a A"), [("a", 1000, 0, 20000, 3, 0, "end")]
    ),
    "a half-closed flow goes on": Case(
        exchange("0 a S", "1 a FA", "60 b A", "70 b FA", "70.1 a A"),
        [("a", 1000, 0, 70100, 3, 2, "fin")],
    ),
    "idle at a hundred and twenty seconds": Case(
        exchange("0 a A", "120 b A"),
        [("a", 1000, 0, 0, 1, 0, "idle"), ("b", 80, 120000, 120000, 1, 0, "end")],
    ),
    "not idle a nanosecond before": Case(
        exchange("0 a A", "120 b A -1"), [("a", 1000, 0, 120000, 1, 1, "end")]
    ),
    "what was closed does not end by being idle": Case(
        exchange(*CLOSE, "200 a S"),
        [("a", 1000, 0, 1000, 3, 2, "fin"), ("a", 1000, 200000, 200000, 1, 0, "end")],
    ),
    "active keeps the source": Case(
        exchange(*(f"{at} a A" for at in range(0, 1800, 100)), "1800 b A", "1801 a A"),
        [("a", 1000, 0, 1700000, 18, 0, "active"), ("a", 1000, 1800000, 1801000, 1, 1, "end")],
    ),
    "not active a nanosecond before": Case(
        exchange(*(f"{at} a A" for at in range(0, 1800, 100)), "1800 b A -1"),
        [("a", 1000, 0, 1800000, 18, 1, "end")],
    ),
    "stamps that run backwards a little": Case(
        exchange("10 b A", "5 a A", "12 a A"), [("b", 80, 5000, 12000, 1, 2, "end")]
    ),
    "a clock set back": Case(
        exchange("200 a A", "80 b A", "81 a A"),
        [("a", 1000, 200000, 200000, 1, 0, "idle"), ("b", 80, 80000, 81000, 1, 1, "end")],
    ),
    "late for a flow that was written": Case(
        [udp(0, "a"), udp(124, "a", port=5), udp(119, "b")],
        [("a", 1000, 0, 0, 1, 0, "idle"), ("a", 5, 124000, 124000, 1, 0, "end"),
         ("b", 80, 119000, 119000, 1, 0, "end")],
    ),
    "in time for a flow that was not": Case(
        [udp(0, "a"), udp(120.999, "a", port=5), udp(119, "b")],
        [("a", 1000, 0, 119000, 1, 1, "end"), ("a", 5, 120999, 120999, 1, 0, "end")],
    ),
    "a closed flow is written some six seconds after": Case(
        [*exchange(*CLOSE), udp(10, "a", port=5), tcp("5 a A")],
        [("a", 1000, 0, 1000, 3, 2, "fin"), ("a", 5, 10000, 10000, 1, 0, "end"),
         ("a", 1000, 5000, 5000, 1, 0, "end")],
    ),
    "an echo and its reply": Case(
        [icmp(0, "a", 8), icmp(1, "b", 0), icmp(2, "b", 8), icmp(3, "a", 0)],
        [("a", 8, 0, 1000, 1, 1, "end"), ("b", 8, 2000, 3000, 1, 1, "end")],
    ),
    "a reply that comes first": Case(
        [icmp(0, "b", 0), icmp(1, "a", 8)], [("b", 0, 0, 1000, 1, 1, "end")]
    ),
    "messages that go one way": Case(
        [icmp(0, "a", 3, 1), icmp(1, "b", 3, 1), icmp(2, "a", 3, 1)],
        [("a", 3, 0, 2000, 2, 0, "end"), ("b", 3, 1000, 1000, 1, 0, "end")],
    ),
    "fragments after the first are a flow of their own": Case(
        [frame(0, ipv4(A, B, 17, FRAGMENT, 0x2000)), frame(1, ipv4(A, B, 17, FRAGMENT, 0x2002)),
         frame(2, ipv4(A, B, 17, FRAGMENT, 0x0004)), frame(3, ipv4(B, A, 17, FRAGMENT, 0x0001))],
        [("a", 1000, 0, 0, 1, 0, "end"), ("a", 0, 1000, 3000, 2, 1, "end")],
    ),
    "a VLAN does not tell flows apart": Case(
        [frame(0, ipv4(A, B, 17, FRAGMENT), 5), frame(1, ipv4(A, B, 17, FRAGMENT))],
        [("a", 1000, 0, 1000, 2, 0, "end")],
    ),
    "windows": Case(
        [udp(0.5, "a"), udp(0.9, "b"), udp(1, "b"), udp(3.2, "a")],
        [("a", 1000, 500, 900, 1, 1, "window"), ("a", 1000, 1000, 1000, 0, 1, "window"),
         ("a", 1000, 3200, 3200, 1, 0, "end")],
        "window",
    ),
    "short time-outs": Case(
        [udp(0, "a"), udp(0.9, "a"), udp(1.9, "b"), *(udp(2 + i / 2, "a") for i in range(11))],
        [("a", 1000, 0, 900, 2, 0, "idle"), ("b", 80, 1900, 6500, 1, 10, "active"),
         ("b", 80, 7000, 7000, 0, 1, "end")],
        "short",
    ),
}  # fmt: skip
