"""Which captures hold the same packets: copies of a file, and captures that share a flow.

Flows of such captures are not independent of each other. Copies are one family, and so are captures
with a flow of the same ends and the same first microsecond: the same packets, cut or written
otherwise. Captures with flows that may be continuations of each other are only reported: those of
one link, hour by hour, would all be one family.
"""

import gzip
import hashlib
import ipaddress
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wirelens import compat
from wirelens.classify.labels import FlowKey, describe_key
from wirelens.learn.metrics import Array

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class CaptureHash:
    """SHA-256 of a capture as it is stored, and of what it holds: `x.pcap` and `x.pcap.gz` hold the
    same.
    """

    stored: str
    content: str
    # Whether it is compressed in a way that nothing here decompresses.
    is_opaque: bool = False


def hash_of(path: Path) -> CaptureHash:
    """The hashes of a capture. One whose compression is damaged is compared as it is stored."""
    with path.open("rb") as capture:
        magic = capture.read(4)
        capture.seek(0)
        stored = hashlib.file_digest(capture, "sha256").hexdigest()
    if magic.startswith(_GZIP):
        return CaptureHash(stored, _digest(lambda: gzip.open(path)) or stored)
    if magic == _ZSTD:
        arrow = compat.find("pyarrow")
        if arrow is None:
            return CaptureHash(stored, stored, is_opaque=True)
        content = _digest(lambda: arrow.input_stream(str(path), compression="zstd"))
        return CaptureHash(stored, content or stored)
    return CaptureHash(stored, stored)


def _digest(open_content: Callable[[], Any]) -> str | None:
    """SHA-256 of what a file holds; None where it cannot be decompressed to its end."""
    digest = hashlib.sha256()
    try:
        with open_content() as content:
            while chunk := content.read(_CHUNK_BYTES):
                digest.update(chunk)
    except (EOFError, OSError, ValueError, zlib.error):
        return None
    return digest.hexdigest()


def hashes_of(captures: Sequence[Path], files: Array) -> dict[int, CaptureHash]:
    """The hashes of the captures of these flows, by index."""
    return {file: hash_of(captures[file]) for file in sorted(set(files.tolist()))}


def opaque_message(captures: Sequence[Path], hashes: dict[int, CaptureHash]) -> list[str]:
    """Captures that are compared as they are stored, as a package is missing, in a sentence."""
    opaque = [captures[file] for file, one in hashes.items() if one.is_opaque]
    if not opaque:
        return []
    return [
        f"{len(opaque)} captures, such as {opaque[0].name}, are compressed by Zstandard, which "
        "needs pyarrow here: copies of them that are not compressed are not recognised as copies"
    ]


def joined_families(families: Sequence[str], captures: Sequence[str]) -> list[str]:
    """Families such that no capture has flows of two.

    Families that meet in a capture are one, under the name of the first; `captures` says of each
    flow which capture it is of, by a hash of its content, so that a copy is the same capture.
    """
    leader: dict[tuple[str, str], tuple[str, str]] = {}

    def find(node: tuple[str, str]) -> tuple[str, str]:
        while leader.setdefault(node, node) != node:
            leader[node] = leader[leader[node]]
            node = leader[node]
        return node

    for family, capture in zip(families, captures, strict=True):
        one, other = find(("family", family)), find(("capture", capture))
        # A family's name stays the name; of two the first in order.
        first, second = sorted((one, other), key=lambda node: (node[0] != "family", node[1]))
        leader[second] = first
    return [find(("family", family))[1] for family in families]


@dataclass(frozen=True)
class Flows:
    """What names flows, row by row; times are None where a capture has none."""

    keys: Sequence[FlowKey]
    families: Sequence[str]
    first_ns: Sequence[int | None]
    last_ns: Sequence[int | None]


def families_with_copies(flows: Flows, captures: Sequence[str]) -> list[str]:
    """The families of `joined_families`, those that have a flow in common joined as well."""
    seen: dict[tuple[FlowKey, int], int] = {}
    families, places = list(flows.families), list(captures)
    for row, (key, first) in enumerate(zip(flows.keys, flows.first_ns, strict=True)):
        if first is None:
            continue
        # Copies in other formats may have lost the digits below.
        other = seen.setdefault((key, first // 1000), row)
        if flows.families[other] != flows.families[row] and _names_hosts(key):
            # They meet in this flow, as in a capture.
            families += [flows.families[other], flows.families[row]]
            places += [f"flow of row {other}"] * 2
    return joined_families(families, places)[: len(flows.families)]


def meetings(flows: Flows, idle_ns: int) -> Iterator[tuple[int, int]]:
    """Flows that may be the same as one of another family, each with one such: both have the same
    ends, and were one flow if their packets were in one capture.
    """
    by_key: dict[FlowKey, list[tuple[int, int, int]]] = defaultdict(list)
    times = zip(flows.keys, flows.first_ns, flows.last_ns, strict=True)
    for row, (key, first, last) in enumerate(times):
        if first is not None and last is not None:
            by_key[key].append((first, last, row))
    for key, some in by_key.items():
        if len({flows.families[row] for _, _, row in some}) < 2 or not _names_hosts(key):
            continue
        # Of each family the flow that lasts longest so far.
        ends: dict[str, tuple[int, int]] = {}
        for first, last, row in sorted(some):
            family = flows.families[row]
            others = (end for other, end in ends.items() if other != family)
            end, other_row = max(others, default=(first - idle_ns - 1, -1))
            if first - end <= idle_ns:
                yield row, other_row
            ends[family] = max(ends.get(family, (last, row)), (last, row))


def _names_hosts(key: FlowKey) -> bool:
    """Whether both ends are addresses of hosts: those that ask for one are alike everywhere."""
    return not any(ipaddress.ip_address(address).is_unspecified for address, _ in key[1:])


def meeting_message(
    flows: Flows, captures: Sequence[Path], capture_of: Sequence[int], idle_ns: int
) -> list[str]:
    """Flows that may be on two sides of a split, by count and example."""
    found = list(meetings(flows, idle_ns))
    if not found:
        return []
    row, other = found[0]
    names = " and ".join(str(captures[capture_of[one]]) for one in (other, row))
    return [
        f"{len(found)} flows have the ends of a flow in a capture of another family, at most "
        f"{idle_ns / 1e9:g} s apart, such as {describe_key(flows.keys[row])} in {names}: if they "
        "are the same flow, it may be on both sides of a split, and figures are too good; give "
        "such captures one family (--family, --manifest)"
    ]
