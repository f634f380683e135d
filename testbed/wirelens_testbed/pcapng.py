"""Reads back the packets of a pcapng file that our recorder wrote.

Only the blocks that it writes are understood, and their order is theirs: a file of another maker
may be refused. What `wirelens` itself offers for reading captures needs its Python package, and the
testbed must run with the standard library alone.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from wirelens_testbed.failure import TestbedError

SECTION_HEADER, INTERFACE, ENHANCED_PACKET = 0x0A0D0D0A, 1, 6
BYTE_ORDER_MAGIC = b"\x1a\x2b\x3c\x4d"
OPTION_END, OPTION_RESOLUTION = 0, 9
RESOLUTION_DEFAULT = 6  # digits behind the second's point, where the interface says nothing
BLOCK_SIZE_MAX_BYTES = 16 << 20


class PcapngError(TestbedError):
    """The file is not what our recorder writes."""


class CapturedPacket(NamedTuple):
    ts_ns: int
    size_bytes: int  # on the wire; `data` may be shorter
    data: bytes
    interface: int


def read_packets(path: Path) -> Iterator[CapturedPacket]:
    """The packets of a file, in its order."""
    with path.open("rb") as file:
        ns_per_unit: list[int] = []
        for kind, body, order in _blocks(path, file):
            if kind == SECTION_HEADER:
                ns_per_unit = []
            elif kind == INTERFACE:
                ns_per_unit.append(_ns_per_unit(path, body, order))
            elif kind == ENHANCED_PACKET:
                interface, high, low, captured, size_bytes = struct.unpack_from(order + "5I", body)
                if interface >= len(ns_per_unit):
                    raise PcapngError(
                        f"{path}: a packet of interface {interface}, but the file describes "
                        f"{len(ns_per_unit)}; record it again"
                    )
                ts_ns = ((high << 32) | low) * ns_per_unit[interface]
                yield CapturedPacket(ts_ns, size_bytes, body[20 : 20 + captured], interface)


def _blocks(path: Path, file: BinaryIO) -> Iterator[tuple[int, bytes, str]]:
    order = "<"
    while head := file.read(8):
        if head[:4] == SECTION_HEADER.to_bytes(4, "big"):  # reads the same from both ends
            magic = file.read(4)
            order = ">" if magic == BYTE_ORDER_MAGIC else "<"
            file.seek(-len(magic), 1)
        if len(head) < 8:
            raise PcapngError(f"{path}: ends inside a block; record it again")
        kind, size_bytes = struct.unpack(order + "II", head)
        if not 12 <= size_bytes <= BLOCK_SIZE_MAX_BYTES:
            raise PcapngError(
                f"{path}: a block of {size_bytes} bytes, wanted 12 to {BLOCK_SIZE_MAX_BYTES}; "
                "is it a pcapng file?"
            )
        body = file.read(size_bytes - 8)
        if len(body) < size_bytes - 8:
            raise PcapngError(f"{path}: ends inside a block; record it again")
        yield kind, body[:-4], order


def _ns_per_unit(path: Path, body: bytes, order: str) -> int:
    offset = 8
    while offset + 4 <= len(body):
        code, size_bytes = struct.unpack_from(order + "HH", body, offset)
        if code == OPTION_END:
            break
        if code == OPTION_RESOLUTION:
            digits = body[offset + 4]
            if digits > 9:
                raise PcapngError(
                    f"{path}: stamps of resolution code {digits}, wanted decimal ones down to 1 ns"
                )
            return int(10 ** (9 - digits))
        offset += 4 + (size_bytes + 3) // 4 * 4
    return int(10 ** (9 - RESOLUTION_DEFAULT))
