"""Reads and writes captures for the tests, in as few lines as the formats allow."""

import gzip
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PCAP_MAGICS = {
    b"\xd4\xc3\xb2\xa1": ("<", 1_000_000), b"\xa1\xb2\xc3\xd4": (">", 1_000_000),
    b"\x4d\x3c\xb2\xa1": ("<", 1_000_000_000), b"\xa1\xb2\x3c\x4d": (">", 1_000_000_000),
}  # fmt: skip


@dataclass(frozen=True)
class Frame:
    """One frame with its stamp."""

    time_ns: int
    data: bytes
    wire_len: int


def content_of(path: Path) -> bytes:
    """What a file holds, without its compression; nothing if that is damaged."""
    content = path.read_bytes()
    try:
        return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    except (EOFError, OSError):
        return b""


def is_pcap(path: Path) -> bool:
    """Whether a file is pcap, which has one interface, whatever its name says."""
    return content_of(path)[:4] in PCAP_MAGICS


def pcap_stamps(path: Path) -> Iterator[tuple[int, int]]:
    """The sub-second part of each stamp of a pcap file, and what it must stay below."""
    content = content_of(path)
    order, limit = PCAP_MAGICS.get(content[:4], ("", 0))
    at = 24
    while limit and at + 16 <= len(content):
        _, fraction, captured_len, _ = struct.unpack(f"{order}4I", content[at : at + 16])
        yield fraction, limit
        at += 16 + captured_len


def overflowing_stamps(path: Path) -> bool:
    """Whether some stamp has a sub-second part of a second or more, or seconds past 2038."""
    return any(fraction >= limit for fraction, limit in pcap_stamps(path))


def write_pcap(path: Path, frames: Iterable[Frame], link: int = 1, snaplen: int = 262_144) -> None:
    """A pcap file with nanoseconds, little-endian."""
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, snaplen, link))
        for frame in frames:
            seconds, fraction = divmod(frame.time_ns, 10**9)
            sizes = len(frame.data), frame.wire_len
            file.write(struct.pack("<4I", seconds, fraction, *sizes) + frame.data)


def block(kind: int, body: bytes) -> bytes:
    """One block of pcapng."""
    size = 12 + len(body) + -len(body) % 4
    return struct.pack("<II", kind, size) + body + bytes(-len(body) % 4) + struct.pack("<I", size)


def write_pcapng(path: Path, frames: list[Frame], link: int = 1) -> None:
    """A pcapng file with one interface and nanoseconds, little-endian."""
    resolution = struct.pack("<HHB3x", 9, 1, 9) + bytes(4)
    with path.open("wb") as file:
        file.write(block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
        file.write(block(1, struct.pack("<HHI", link, 0, 0) + resolution))
        for frame in frames:
            high, low = divmod(frame.time_ns, 1 << 32)
            sizes = len(frame.data), frame.wire_len
            file.write(block(6, struct.pack("<5I", 0, high, low, *sizes) + frame.data))


def read_pcapng(path: Path) -> Iterator[Frame]:
    """The frames of a little-endian pcapng whose stamps are in nanoseconds."""
    content, at = path.read_bytes(), 0
    while at + 8 <= len(content):
        kind, length = struct.unpack_from("<II", content, at)
        if kind == 6:
            _, high, low, captured, wire = struct.unpack_from("<IIIII", content, at + 8)
            yield Frame(high << 32 | low, content[at + 28 : at + 28 + captured], wire)
        at += length
