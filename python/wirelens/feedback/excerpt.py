"""`flows.pcapng`: the first packets of the chosen flows, as many as the model reads."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from wirelens import written
from wirelens._wirelens import Batch, __version__
from wirelens.feedback.headers import packet_at, packet_len
from wirelens.feedback.model import ModelNeeds
from wirelens.feedback.verdicts import PORT_PROTOCOLS, Verdict
from wirelens.questions import packets

_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6
_BYTE_ORDER, _UNKNOWN_LEN = 0x1A2B3C4D, -1
# Packets begin with the IP header, whatever the link was.
_LINK_RAW = 101
_COMMENT, _APPLICATION, _RESOLUTION, _NANOSECONDS = 1, 4, 9, 9
_FRAME_BYTES_MAX = 262_144
# Link and tunnel headers, IPv6 with extensions, the longest TCP header.
_HEADER_BYTES_MAX = 1024
_BATCH_PACKETS = 8192

Ends = tuple[str, tuple[str, int], tuple[str, int]]


def ends_of(protocol: str, src: str, src_port: int | None, dst: str, dst_port: int | None) -> Ends:
    """The same for both directions of a flow."""
    has_ports = protocol in PORT_PROTOCOLS
    one = (src, src_port or 0) if has_ports else (src, 0)
    other = (dst, dst_port or 0) if has_ports else (dst, 0)
    return (protocol, one, other) if one <= other else (protocol, other, one)


@dataclass
class _ChosenFlow:
    """A chosen flow, and what was found of it."""

    row: int
    verdict: Verdict
    found: int = 0
    last_ns: int = 0


@dataclass
class Excerpt:
    """What was written."""

    packets: int = 0
    flows: int = 0
    # Of chosen flows, but without the IP header in what was captured.
    headless: int = 0


def write(
    path: Path,
    read: Sequence[Path],
    chosen: Sequence[Verdict],
    needs: ModelNeeds,
    payload_bytes: int | None,
) -> Iterator[Excerpt]:
    """Reads the captures again and writes the packets; yields what was written after each batch.

    `payload_bytes` of each packet's payload are kept; with None all of it.
    """
    wanted: dict[Ends, list[_ChosenFlow]] = {}
    for row, one in enumerate(chosen, start=1):
        ends = ends_of(one.protocol, one.src_ip, one.src_port, one.dst_ip, one.dst_port)
        wanted.setdefault(ends, []).append(_ChosenFlow(row, one))
    for flows in wanted.values():
        flows.sort(key=lambda flow: flow.verdict.first_ns or 0)
    frame_len = _FRAME_BYTES_MAX if payload_bytes is None else _HEADER_BYTES_MAX + payload_bytes
    done = Excerpt()
    stream = packets([str(path) for path in read], frame=frame_len, batch_size=_BATCH_PACKETS)
    with written.private(path) as out:
        _begin(out)
        for batch in stream.batches():
            hits = _hits(batch, wanted, needs)
            # Frames become Python's only where some are wanted.
            frames = batch.column("frame") if hits else []
            lens = batch.column("wire_len") if hits else []
            for hit in hits:
                frame = frames[hit.place]
                start = packet_at(frame, hit.src, hit.dst)
                if start is None:
                    done.headless += 1
                    continue
                packet = frame[start:]
                packet = packet[: packet_len(packet, payload_bytes)]
                done.packets += 1
                done.flows += hit.is_first
                _write_packet(out, hit, packet, lens[hit.place] - start)
            yield done


class _Hit(NamedTuple):
    """A packet of a chosen flow."""

    place: int
    flow: _ChosenFlow
    is_first: bool
    time_ns: int
    src: str
    dst: str


def _hits(
    batch: Batch, wanted: Mapping[Ends, Sequence[_ChosenFlow]], needs: ModelNeeds
) -> list[_Hit]:
    """The packets of a batch that are wanted."""
    columns = ("time_ns", "protocol", "src_ip", "src_port", "dst_ip", "dst_port")
    found = []
    keys = zip(*(batch.column(name) for name in columns), strict=True)
    for place, (time_ns, protocol, src, src_port, dst, dst_port) in enumerate(keys):
        if protocol is None or src is None or dst is None:
            continue
        flows = wanted.get(ends_of(protocol, src, src_port, dst, dst_port))
        flow = None if flows is None else _flow_at(flows, time_ns or 0, needs)
        if flow is not None:
            found.append(_Hit(place, flow, flow.found == 1, time_ns or 0, src, dst))
    return found


def _flow_at(flows: Sequence[_ChosenFlow], time_ns: int, needs: ModelNeeds) -> _ChosenFlow | None:
    """The flow of a packet, if it is one of the first that are wanted; it counts then."""
    begun = [flow for flow in flows if (flow.verdict.first_ns or 0) <= time_ns]
    flow = begun[-1] if begun else None
    if flow is None or flow.found >= needs.packets:
        return None
    if flow.found and time_ns - flow.last_ns > needs.idle_timeout_ns:
        # Another flow of the same ends: no packet of this one comes any more.
        flow.found = needs.packets
        return None
    flow.found += 1
    flow.last_ns = max(flow.last_ns, time_ns)
    return flow


def _write_packet(out: BinaryIO, hit: _Hit, packet: bytes, wire_len: int) -> None:
    options = b""
    if hit.is_first:
        one = hit.flow.verdict
        text = f"row {hit.flow.row}: guess {one.guess} ({one.guess_confidence:.4f}), {one.label}"
        options = _options((_COMMENT, text.encode()))
    high, low = hit.time_ns >> 32, hit.time_ns & 0xFFFF_FFFF
    head = struct.pack("<IIIII", 0, high, low, len(packet), max(wire_len, len(packet)))
    _block(out, _PACKET, head + _padded(packet) + options)


def _begin(out: BinaryIO) -> None:
    about = _options((_APPLICATION, f"wirelens {__version__}".encode()))
    _block(out, _SECTION, struct.pack("<IHHq", _BYTE_ORDER, 1, 0, _UNKNOWN_LEN) + about)
    times = _options((_RESOLUTION, bytes([_NANOSECONDS])))
    _block(out, _INTERFACE, struct.pack("<HHI", _LINK_RAW, 0, 0) + times)


def _options(*options: tuple[int, bytes]) -> bytes:
    found = b"".join(struct.pack("<HH", code, len(data)) + _padded(data) for code, data in options)
    return found + bytes(4)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _block(out: BinaryIO, kind: int, body: bytes) -> None:
    length = struct.pack("<I", len(body) + 12)
    out.write(struct.pack("<I", kind) + length + body + length)
