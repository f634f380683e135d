"""Makes a capture of which each flow goes on to the last stage of `services`, or sends it.

    python bench/speed/workers/traffic.py FILE [--flows-per-s 5000] [--seconds 12]
    python bench/speed/workers/traffic.py FILE --send INTERFACE

Flows of UDP to a port of no service begin at random times. Each has three packets, which is what
the last stage looks at, a millisecond apart, with payloads and lengths of their own. The first
stage knows ports alone and is not sure of any. The same arguments make the same bytes.
"""

import argparse
import heapq
import random
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

START_NS = 1_700_000_000 * 10**9
PACKETS = 3
GAP_NS = 10**6
# No class has these.
CLIENT_PORT, SERVER_PORT = 40_000, 33_440
PAYLOAD_BYTES = (20, 400)


def ipv4_checksum(header: bytes) -> int:
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF


def frame(flow: int, number: int, payload: bytes) -> bytes:
    """Ethernet, IPv4 and UDP without a checksum; the second packet is the server's."""
    client, server = (0xC612_0000 + flow, CLIENT_PORT), (0xCB00_7101, SERVER_PORT)
    (src, src_port), (dst, dst_port) = (server, client) if number == 1 else (client, server)
    length = 28 + len(payload)
    header = struct.pack(">BBHHHBBHII", 0x45, 0, length, 0, 0x4000, 64, 17, 0, src, dst)
    header = header[:10] + struct.pack(">H", ipv4_checksum(header)) + header[12:]
    udp = struct.pack(">4H", src_port, dst_port, length - 20, 0)
    return b"\x02\0\0\0\0\1\x02\0\0\0\0\2\x08\0" + header + udp + payload


def packets(flow_count: int, seconds: float) -> Iterator[tuple[int, int, int]]:
    """Time, flow and number of each packet, in order of time."""
    draw = random.Random(42)
    begins = sorted(draw.randrange(int(seconds * 10**9)) for _ in range(flow_count))
    return heapq.merge(
        *(
            [(START_NS + at + number * GAP_NS, flow, number) for flow, at in enumerate(begins)]
            for number in range(PACKETS)
        )
    )


def make(path: Path, flows_per_s: int, seconds: float) -> int:
    """Writes a pcap with stamps in nanoseconds; how many flows it has."""
    draw = random.Random(43)
    flow_count = int(flows_per_s * seconds)
    with path.open("wb") as file:
        file.write(struct.pack("<IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, 65_535, 1))
        for at_ns, flow, number in packets(flow_count, seconds):
            data = frame(flow, number, draw.randbytes(draw.randrange(*PAYLOAD_BYTES)))
            stamp = divmod(at_ns, 10**9)
            file.write(struct.pack("<4I", *stamp, len(data), len(data)) + data)
    return flow_count


def frames(path: Path) -> Iterator[tuple[int, bytes]]:
    """Time and bytes of each frame of a capture that `make` wrote."""
    data, at = path.read_bytes(), 24
    while at < len(data):
        seconds, ns, length, _ = struct.unpack_from("<4I", data, at)
        yield seconds * 10**9 + ns, data[at + 16 : at + 16 + length]
        at += 16 + length


def send(path: Path, interface: str) -> None:
    """Sends the frames when they are due, to about 0.1 ms; prints how many, and the most delay."""
    found = list(frames(path))
    late_most_ns = 0
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
        out.bind((interface, 0))
        began = time.monotonic_ns() + 10**7 - found[0][0]
        for due_ns, frame_bytes in found:
            while (left_ns := began + due_ns - time.monotonic_ns()) > 0:
                time.sleep(left_ns / 1e9)
            late_most_ns = max(late_most_ns, -left_ns)
            out.send(frame_bytes)
    print(len(found), late_most_ns)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--flows-per-s", type=int, default=5_000)
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--send", metavar="INTERFACE")
    arguments = parser.parse_args()
    if arguments.send:
        send(arguments.file, arguments.send)
    else:
        make(arguments.file, arguments.flows_per_s, arguments.seconds)
