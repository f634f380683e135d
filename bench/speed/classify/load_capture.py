"""Captures of loads: held-out flows drawn anew, each under addresses of its own, gaps kept.

What `loads.py` emulates, as a file that `wirelens classify --pace` replays. Frames are cut behind
their headers unless more of them is asked for; the address of a flow's first sender is replaced by
one that no other flow has, which also tells afterwards which flow it was. Checksums are left as
they were.
"""

import ipaddress
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
from wirelens.classify.dataset import Dataset
from wirelens.classify.labels import FlowKey, flow_key

Array = Any

BENCH = Path("target/release/wirelens-bench")
# Of each frame, unless told otherwise: headers.
WIDTH = 96
_GLOBAL, _RECORD = 24, 16
_NS_MAGIC = 0xA1B23C4D
_ETHERNET, _IPV4, _IPV6 = 14, b"\x08\x00", b"\x86\xdd"
_WITH_PORTS = (6, 17)
# Where addresses end: of the sender, of the receiver. Four bytes of each are replaced.
_ENDS = {_IPV4: (30, 34), _IPV6: (38, 54)}
# Packets written at once.
_CHUNK = 1 << 18
# When replays begin, in seconds; any time will do.
_EPOCH = 1_700_000_000


@dataclass(frozen=True)
class Frames:
    """Frames of some flows, flow by flow."""

    # The labelled flow of each.
    rows: Array
    # Bytes by frame, zeros behind its end; how many there are; how many were on the wire.
    data: Array
    captured: Array
    on_wire: Array
    # Nanoseconds after the flow's first frame.
    offset_ns: Array
    # Where the flow's own address ends, in each frame.
    address: Array
    # First frame and number of frames of each flow.
    first: Array
    count: Array


@dataclass(frozen=True)
class Counts:
    """What a capture has."""

    flows: int
    packets: int
    # The labelled flow that each repeats, and when it begins, nanoseconds since 1970.
    rows: Array
    first_ns: Array


def _key(frame: bytes) -> FlowKey | None:
    """The flow of a frame of Ethernet; None of what is no IP, or a later fragment."""
    kind = frame[12:14]
    if kind == _IPV4:
        protocol, begin = frame[23], _ETHERNET + 4 * (frame[14] & 15)
        ends = [ipaddress.IPv4Address(frame[26:30]), ipaddress.IPv4Address(frame[30:34])]
        if (frame[20] & 31) or frame[21]:
            return None
    elif kind == _IPV6:
        protocol, begin = frame[20], _ETHERNET + 40
        ends = [ipaddress.IPv6Address(frame[22:38]), ipaddress.IPv6Address(frame[38:54])]
    else:
        return None
    ports = [0, 0]
    if protocol in _WITH_PORTS:
        ports = [int.from_bytes(frame[at : at + 2], "big") for at in (begin, begin + 2)]
    return flow_key(protocol, str(ends[0]), ports[0], str(ends[1]), ports[1])


def _frames_of(capture: Path, width: int) -> list[tuple[int, bytes, int]]:
    """Time, bytes and length on the wire of each frame, in the capture's order."""
    with tempfile.TemporaryDirectory() as folder:
        cut = Path(folder) / "cut.pcap"
        typed = [BENCH, "convert", "--read", capture, "--resolution", "ns"]
        typed += ["--output", cut, "--snaplen", str(width)]
        subprocess.run(typed, check=True, capture_output=True)
        content = cut.read_bytes()
    found, at = [], _GLOBAL
    while at < len(content):
        seconds, ns, captured, on_wire = numpy.frombuffer(content, "<u4", 4, at).tolist()
        at += _RECORD
        found.append((seconds * 10**9 + ns, content[at : at + captured], on_wire))
        at += captured
    return found


def read(dataset: Dataset, rows: Array, packets_max: int | None, width: int = WIDTH) -> Frames:
    """Frames of labelled flows, at most so many of each, cut at so many bytes. Flows in tunnels are
    left out: their frames have the tunnel's addresses.
    """
    # By capture and key, the flows in order of time: when one begins, the one before is over.
    known: dict[tuple[int, FlowKey], list[tuple[int, int]]] = {}
    for place, row in enumerate(rows.tolist()):
        key = (int(dataset.capture_of[row]), dataset.keys[row])
        known.setdefault(key, []).append((dataset.first_ns[row], place))
    of_flow: list[list[tuple[int, bytes, int]]] = [[] for _ in rows]
    for capture in sorted({capture for capture, _ in known}):
        for now, data, on_wire in _frames_of(dataset.captures[capture], width):
            key_of_frame = _key(data)
            begun = known.get((capture, key_of_frame), []) if key_of_frame else []
            places = [place for first_ns, place in begun if first_ns <= now]
            mine = of_flow[places[-1]] if places else None
            if mine is not None and (packets_max is None or len(mine) < packets_max):
                mine.append((now, data, on_wire))
    kept = [place for place, frames in enumerate(of_flow) if frames]
    return _packed(rows[kept], [of_flow[place] for place in kept], width)


def _packed(rows: Array, of_flow: list[list[tuple[int, bytes, int]]], width: int) -> Frames:
    count = numpy.array([len(frames) for frames in of_flow])
    total, at = int(count.sum()), 0
    data = numpy.zeros((total, width), dtype=numpy.uint8)
    captured, on_wire, offset_ns, address = (numpy.zeros(total, dtype=numpy.int64) for _ in "1234")
    for frames in of_flow:
        begin_ns, begin, _ = frames[0]
        for now, frame, wire_len in frames:
            data[at, : len(frame)] = numpy.frombuffer(frame, dtype=numpy.uint8)
            captured[at], on_wire[at], offset_ns[at] = len(frame), wire_len, now - begin_ns
            source, target = _ENDS[frame[12:14]]
            length = source - _ETHERNET - 8 if frame[12:14] == _IPV6 else 4
            sent_first = frame[source - length : source] == begin[source - length : source]
            address[at] = source if sent_first else target
            at += 1
    first = numpy.concatenate([[0], numpy.cumsum(count)[:-1]])
    return Frames(rows, data, captured, on_wire, offset_ns, address, first, count)


def write(frames: Frames, path: Path, per_s: float, seconds: float, seed: int) -> Counts:
    """Writes a load: new flows for so long, at times independent of each other, and their packets
    until all could be decided.
    """
    dice = numpy.random.default_rng([seed, round(per_s), 1])
    flow_count = round(per_s * seconds)
    begin_ns = numpy.sort(dice.integers(0, round(seconds * 1e9), flow_count))
    rows = dice.integers(0, len(frames.count), flow_count)
    counts = frames.count[rows]
    flow = numpy.repeat(numpy.arange(flow_count), counts)
    within = numpy.arange(len(flow)) - numpy.repeat(numpy.cumsum(counts) - counts, counts)
    frame = frames.first[rows][flow] + within
    now_ns = begin_ns[flow] + frames.offset_ns[frame]
    # Whoever waits has waited for 10 s then.
    is_in = now_ns <= round((seconds + 10) * 1e9)
    order = numpy.flatnonzero(is_in)
    order = order[numpy.argsort(now_ns[order], kind="stable")]
    head = numpy.array([_NS_MAGIC, 4 << 16 | 2, 0, 0, frames.data.shape[1], 1], dtype="<u4")
    with path.open("wb") as out:
        out.write(head.tobytes())
        for at in range(0, len(order), _CHUNK):
            chosen = order[at : at + _CHUNK]
            out.write(_records(frames, frame[chosen], flow[chosen], now_ns[chosen]))
    return Counts(flow_count, len(order), frames.rows[rows], begin_ns + _EPOCH * 10**9)


def _records(frames: Frames, frame: Array, flow: Array, now_ns: Array) -> bytes:
    """Frames as pcap has them, each with its flow's address."""
    width = _RECORD + frames.data.shape[1]
    whole = numpy.zeros((len(frame), width), dtype=numpy.uint8)
    head = whole[:, :_RECORD].view("<u4")
    head[:, 0], head[:, 1] = now_ns // 10**9 + _EPOCH, now_ns % 10**9
    head[:, 2], head[:, 3] = frames.captured[frame], frames.on_wire[frame]
    whole[:, _RECORD:] = frames.data[frame]
    lines = numpy.arange(len(frame))
    for byte in range(4):
        # 10.0.0.0/8 of IPv4, the last four bytes of IPv6: room for 16.8 million flows.
        value = 10 if byte == 0 else flow >> (8 * (3 - byte)) & 255
        whole[lines, _RECORD + frames.address[frame] - 4 + byte] = value
    kept = numpy.arange(width) < _RECORD + frames.captured[frame][:, None]
    return bytes(whole[kept].tobytes())


def flow_of(address: str) -> int:
    """Which flow of a load has this address for its own."""
    return int.from_bytes(ipaddress.ip_address(address).packed[-3:], "big")
