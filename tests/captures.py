"""Reads and writes captures for the tests, in as few lines as the formats allow."""

import gzip
import struct
from collections.abc import Iterator
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


def pcap_stamps(path: Path) -> Iterator[tuple[int, int]]:
    """The sub-second part of each stamp of a pcap file, and what it must stay below."""
    content = path.read_bytes()
    if content.startswith(b"\x1f\x8b"):
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError):
            return
    order, limit = PCAP_MAGICS.get(content[:4], ("", 0))
    at = 24
    while limit and at + 16 <= len(content):
        _, fraction, captured_len, _ = struct.unpack(f"{order}4I", content[at : at + 16])
        yield fraction, limit
        at += 16 + captured_len


def overflowing_stamps(path: Path) -> bool:
    """Whether some stamp has a sub-second part of a second or more, or seconds past 2038."""
    return any(fraction >= limit for fraction, limit in pcap_stamps(path))
