"""Writes a hostile capture to standard output: pcap with nanoseconds, the same for the same seed.

    python bench/speed/floods/hostile.py KIND [--packets N] [--seed N] > FILE

`normal` has flows of a hundred packets; the others are floods (`KINDS`). In each, a hundred long
flows to port 65000 begin before the rest, and have packets until its end.
"""

import argparse
import struct
import sys
from collections.abc import Callable, Iterator
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Chance = np.random.Generator

CHUNK = 50_000
NS_PER_PACKET = 1_000
BEGIN_NS = 1_750_000_000 * 10**9
LONG_FLOWS = 100
LONG_PORT = 65_000
ETHERNET = bytes.fromhex("020000000001 020000000002 0800")
SYN, ACK, PSH_ACK = 0x02, 0x10, 0x18


def words(frames: Bytes, at: int, values: NDArray[np.uint64], size: int) -> None:
    """Writes a number of `size` bytes into each frame, in network order."""
    for place in range(size):
        shift = np.uint64(8 * (size - 1 - place))
        frames[:, at + place] = (values >> shift).astype(np.uint64) & np.uint64(0xFF)


def rows_of(template: bytes, count: int) -> Bytes:
    return np.tile(np.frombuffer(template, np.uint8), (count, 1))


def ipv4(protocol: int, payload: bytes, fragment: int = 0) -> bytes:
    size = 20 + len(payload)
    head = struct.pack(">BBHHHBBH", 0x45, 0, size, 0, fragment, 64, protocol, 0)
    return head + bytes([10, 0, 0, 1, 198, 18, 0, 1]) + payload


def udp(payload: bytes, port: int = 4433) -> bytes:
    return struct.pack(">HHHH", 40_000, port, 8 + len(payload), 0) + payload


def tcp(flags: int, payload: bytes = b"", options: bytes = b"") -> bytes:
    offset = (20 + len(options)) // 4 << 4
    head = struct.pack(">HHIIBBHHH", 40_000, 443, 1, 1, offset, flags, 65_535, 0, 0)
    return head + options + payload


def numbers(chance: Chance, count: int, below: int) -> NDArray[np.uint64]:
    return chance.integers(0, below, count, dtype=np.uint64)


def spread(chance: Chance, frames: Bytes, address_at: int, port_at: int | None = None) -> Bytes:
    """Gives each frame a random source address and port."""
    words(frames, address_at, numbers(chance, len(frames), 1 << 32), 4)
    if port_at is not None:
        words(frames, port_at, 1024 + numbers(chance, len(frames), 60_000), 2)
    return frames


def normal(chance: Chance, first: int, count: int) -> Bytes:
    """Data of TCP; a hundred packets of a flow, of 2,000 flows at a time."""
    frames = rows_of(ETHERNET + ipv4(6, tcp(PSH_ACK, bytes(100))), count)
    at = np.arange(first, first + count, dtype=np.uint64)
    flow = at // np.uint64(200_000) * np.uint64(2_000) + numbers(chance, count, 2_000)
    words(frames, 26, np.uint64(0x0A000000) + flow % np.uint64(1 << 22), 4)
    words(frames, 38, at % np.uint64(200_000) // np.uint64(2_000) * np.uint64(100), 4)
    return frames


def tuples(chance: Chance, first: int, count: int) -> Bytes:
    """One packet of UDP for each 5-tuple."""
    return spread(chance, rows_of(ETHERNET + ipv4(17, udp(bytes(22))), count), 26, 34)


def data(chance: Chance, first: int, count: int) -> Bytes:
    """One packet of TCP with data for each 5-tuple."""
    return spread(chance, rows_of(ETHERNET + ipv4(6, tcp(PSH_ACK, bytes(22))), count), 26, 34)


def handshakes(chance: Chance, first: int, count: int) -> Bytes:
    """A SYN from each 5-tuple, without an answer."""
    options = bytes.fromhex("020405b4 0402 080a 00000001 00000000 01 030307")
    frames = rows_of(ETHERNET + ipv4(6, tcp(SYN, options=options)), count)
    words(frames, 38, numbers(chance, count, 1 << 32), 4)
    return spread(chance, frames, 26, 34)


def fragments(chance: Chance, first: int, count: int) -> Bytes:
    """First and later fragments of datagrams of which no other comes."""
    frames = rows_of(ETHERNET + ipv4(17, udp(bytes(24)), 0x2000), count)
    words(frames, 18, numbers(chance, count, 1 << 16), 2)
    later = np.arange(count) % 2 == 1
    frames[later, 20:22] = (0, 5)
    return spread(chance, frames, 26)


def tunnels(chance: Chance, first: int, count: int) -> Bytes:
    """Two VLANs, GRE, VXLAN and IP in IP around one packet for each inner 5-tuple."""
    inner = ipv4(4, ipv4(17, udp(bytes(22))))
    vxlan = bytes.fromhex("0800000000000100") + ETHERNET + inner
    outer = ipv4(47, bytes.fromhex("00000800") + ipv4(17, udp(vxlan, 4789)))
    vlans = bytes.fromhex("88a8 0001 8100 0002 0800")
    template = ETHERNET[:12] + vlans + outer
    place = len(template) - 20 - 8 - 22
    return spread(chance, rows_of(template, count), place + 12, place + 20)


def options(chance: Chance, first: int, count: int) -> Bytes:
    """Forty bytes of options, mostly wrong, in 1,000 flows."""
    frames = rows_of(ETHERNET + ipv4(6, tcp(PSH_ACK, bytes(10), bytes(40))), count)
    frames[:, 54:94] = chance.integers(0, 256, (count, 40), dtype=np.uint8)
    # A third are four SACK blocks of random edges, a third single NOPs.
    frames[::3, 54:58] = (1, 1, 5, 34)
    frames[1::3, 54:94] = 1
    words(frames, 26, np.uint64(0x0A000000) + numbers(chance, count, 1_000), 4)
    words(frames, 38, numbers(chance, count, 1 << 32), 4)
    words(frames, 42, numbers(chance, count, 1 << 32), 4)
    return frames


def names(chance: Chance, first: int, count: int) -> Bytes:
    """Queries of DNS and their answers, each of another name, by 1,000 clients."""
    question = b"\x20" + bytes(32) + b"\x07example\x00\x00\x01\x00\x01"
    answer = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x0e\x10\x00\x04\xc0\x00\x02\x01"
    message = struct.pack(">HHHHHH", 0, 0x8180, 1, 1, 0, 0) + question + answer
    frames = rows_of(ETHERNET + ipv4(17, udp(message)), count)
    pair = np.arange(first, first + count, dtype=np.uint64) // np.uint64(2)
    client = np.uint64(0x0A000000) + pair % np.uint64(1_000)
    is_query = np.arange(first, first + count) % 2 == 0
    letters = np.random.default_rng(first).integers(97, 123, (count // 2 + 1, 32), dtype=np.uint8)
    frames[:, 55:87] = letters[np.arange(count) // 2]
    words(frames, 42, pair & np.uint64(0xFFFF), 2)
    words(frames, 96 + 16, pair & np.uint64(0xFFFFFFFF), 4)
    for rows, source, ports in ((is_query, 26, (0, 53)), (~is_query, 30, (53, 0))):
        part = frames[rows]
        words(part, source, client[rows], 4)
        part[:, 26 if source == 30 else 30 : 30 if source == 30 else 34] = (198, 18, 0, 53)
        asked = np.uint64(1024) + pair[rows] % np.uint64(60_000)
        for at, port in zip((34, 36), ports, strict=True):
            words(part, at, asked if port == 0 else np.full(len(part), port, np.uint64), 2)
        if source == 26:
            part[:, 44:46], part[:, 48:50] = (1, 0), 0
        frames[rows] = part
    return frames


def hellos(chance: Chance, first: int, count: int) -> Bytes:
    """The beginning of a client hello in each flow, of which no more comes."""
    hello = bytes.fromhex("160301 3fff 01 003ffb 0303") + bytes(60)
    return spread(chance, rows_of(ETHERNET + ipv4(6, tcp(PSH_ACK, hello)), count), 26, 34)


def collisions(chance: Chance, first: int, count: int) -> Bytes:
    """5-tuples that are one to hashes that add or exclusive-or their words."""
    frames = rows_of(ETHERNET + ipv4(17, udp(bytes(22))), count)
    number = np.arange(first, first + count, dtype=np.uint64)
    words(frames, 26, np.uint64(0x0A000000) + number, 4)
    words(frames, 30, np.uint64(0xC6120001) ^ (np.uint64(0x0A000000) + number), 4)
    words(frames, 34, number & np.uint64(0xFFFF), 2)
    words(frames, 36, np.uint64(0xFFFF) - (number & np.uint64(0xFFFF)), 2)
    return frames


KINDS: dict[str, Callable[[Chance, int, int], Bytes]] = {
    "normal": normal, "tuples": tuples, "data": data, "handshakes": handshakes,
    "fragments": fragments, "tunnels": tunnels, "options": options, "names": names,
    "hellos": hellos, "collisions": collisions,
}  # fmt: skip


def long_flows(turn: int) -> Bytes:
    """A packet of each long flow, and its answer."""
    there = rows_of(ETHERNET + ipv4(6, tcp(PSH_ACK, bytes(100))), LONG_FLOWS)
    words(there, 26, np.uint64(0xAC100000) + np.arange(LONG_FLOWS, dtype=np.uint64), 4)
    there[:, 36:38] = np.frombuffer(struct.pack(">H", LONG_PORT), np.uint8)
    words(there, 38, np.full(LONG_FLOWS, 1 + 100 * turn, np.uint64), 4)
    back = there.copy()
    back[:, 26:30], back[:, 30:34] = there[:, 30:34], there[:, 26:30]
    back[:, 34:36], back[:, 36:38] = there[:, 36:38], there[:, 34:36]
    words(back, 38, np.full(LONG_FLOWS, 1 + 100 * turn, np.uint64), 4)
    words(back, 42, np.full(LONG_FLOWS, 101 + 100 * turn, np.uint64), 4)
    return np.concatenate([there, back])


def stamped(frames: Bytes, first_ns: int, step_ns: int) -> bytes:
    """Frames with the headers of pcap."""
    count, size = frames.shape
    times = np.uint64(first_ns) + np.arange(count, dtype=np.uint64) * np.uint64(step_ns)
    head = np.empty((count, 4), "<u4")
    head[:, 0], head[:, 1] = times // np.uint64(10**9), times % np.uint64(10**9)
    head[:, 2] = head[:, 3] = size
    return np.concatenate([head.view(np.uint8), frames], axis=1).tobytes()


def capture(kind: str, packets: int, seed: int) -> Iterator[bytes]:
    """Pieces of a capture with so many packets besides those of long flows."""
    chance = np.random.default_rng(seed)
    yield struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65_535, 1)
    now_ns = BEGIN_NS
    for turn, first in enumerate(range(0, packets, CHUNK)):
        yield stamped(long_flows(turn), now_ns, 1)
        count = min(CHUNK, packets - first)
        yield stamped(KINDS[kind](chance, first, count), now_ns + 1_000, NS_PER_PACKET)
        now_ns += 1_000 + count * NS_PER_PACKET
    yield stamped(long_flows(turn + 1), now_ns, 1)


def long_packets(packets: int) -> int:
    """Packets of long flows in a capture."""
    return 2 * LONG_FLOWS * (len(range(0, packets, CHUNK)) + 1)


def write(kind: str, packets: int, seed: int, out: BinaryIO) -> None:
    for piece in capture(kind, packets, seed):
        out.write(piece)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--packets", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    write(given.kind, given.packets, given.seed, sys.stdout.buffer)
