"""Makes the bulk capture of the benchmark of `wirelens run`: few TCP flows that send much.

    python bench/speed/run/traffic.py PACKETS FILE

Each flow opens a connection, sends segments of 1,448 bytes at a steady pace, and has every second
one acknowledged a round trip later. The same arguments make the same bytes.
"""

import random
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

FLOW_COUNT = 64
SEGMENT_BYTES = 1448
DURATION_NS = 60 * 10**9
START_NS = 1_700_000_000 * 10**9
RTT_NS = (5_000_000, 40_000_000)
SYN, ACK, PSH = 0x02, 0x10, 0x08
MAGIC_NS = 0xA1B23C4D

# Time, flow, whether it is sent by the client, sequence number, acknowledged, flags, payload bytes.
Packet = tuple[int, int, bool, int, int, int, int]


def connection(flow: int, data_count: int, begin_ns: int, rtt_ns: int) -> Iterator[Packet]:
    """The packets of one flow, which its server sends to its client."""
    client, server = 1_000 * flow, 7_777 * flow
    yield begin_ns, flow, True, client, 0, SYN, 0
    yield begin_ns + rtt_ns, flow, False, server, client + 1, SYN | ACK, 0
    yield begin_ns + rtt_ns + 50_000, flow, True, client + 1, server + 1, ACK, 0
    yield begin_ns + rtt_ns + 90_000, flow, True, client + 1, server + 1, ACK | PSH, 200
    first_ns = begin_ns + 2 * rtt_ns
    gap_ns = (START_NS + DURATION_NS - first_ns - rtt_ns) // data_count
    for number in range(data_count):
        seq, at_ns = server + 1 + number * SEGMENT_BYTES, first_ns + number * gap_ns
        yield at_ns, flow, False, seq, client + 201, ACK, SEGMENT_BYTES
        if number % 2:
            acked = seq + SEGMENT_BYTES
            yield at_ns + rtt_ns, flow, True, client + 201, acked, ACK, 0


def frame(packet: Packet, payload: bytes) -> bytes:
    """Ethernet, IPv4 and TCP; transport checksums are left at zero."""
    _, flow, is_client, seq, acked, flags, length = packet
    ends = [(0x0A000001 + flow, 40_000 + flow), (0xC0A80001 + flow % 8, (443, 80, 22)[flow % 3])]
    (src, src_port), (dst, dst_port) = ends if is_client else ends[::-1]
    head = struct.pack(
        ">6s6sHBBHHHBBHII", b"\x02\0\0\0\0\1", b"\x02\0\0\0\0\2", 0x0800,
        0x45, 0, 40 + length, seq & 0xFFFF, 0x4000, 57, 6, 0, src, dst,
    )  # fmt: skip
    words = struct.unpack(">10H", head[14:])
    total = sum(words)
    total = (total & 0xFFFF) + (total >> 16)
    check = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    head = head[:24] + struct.pack(">H", check) + head[26:]
    tcp = struct.pack(
        ">HHIIBBHHH", src_port, dst_port, seq & 0xFFFFFFFF, acked & 0xFFFFFFFF, 0x50, flags,
        0xFFFF, 0, 0,
    )  # fmt: skip
    return head + tcp + payload[seq % 1024 : seq % 1024 + length]


def make_bulk(packet_count: int, path: Path) -> None:
    """Writes about so many packets as a pcap with stamps in nanoseconds."""
    draw = random.Random(42)
    data_count = packet_count * 2 // (3 * FLOW_COUNT)
    packets: list[Packet] = []
    for flow in range(FLOW_COUNT):
        begin_ns = START_NS + draw.randrange(10**9)
        packets += connection(flow, data_count, begin_ns, draw.randrange(*RTT_NS))
    packets.sort()
    payload = draw.randbytes(1024 + SEGMENT_BYTES)
    with path.open("wb") as file:
        file.write(struct.pack("<IHHIIII", MAGIC_NS, 2, 4, 0, 0, 65_535, 1))
        for packet in packets:
            bytes_ = frame(packet, payload)
            seconds, ns = divmod(packet[0], 10**9)
            file.write(struct.pack("<IIII", seconds, ns, len(bytes_), len(bytes_)) + bytes_)


if __name__ == "__main__":
    make_bulk(int(sys.argv[1]), Path(sys.argv[2]))
