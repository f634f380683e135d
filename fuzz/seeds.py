#!/usr/bin/env python3
"""Makes the seeds: fuzz/seeds/TARGET/, small inputs from which fuzzing starts.

Frames are picked from testdata/demo.pcapng, one of each kind of header, or put
together here where the demo has none. The same bytes come out of every run;
inputs that were added by hand, such as reduced findings, are left alone.
"""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Iterator
from pathlib import Path

from seeds_cca import cca_seeds
from seeds_mirrored import (
    ERSPAN,
    GENEVE,
    MAC,
    V4,
    V6,
    ethernet,
    inner,
    ipv4,
    ipv6,
    mirrored_frames,
    radio_frames,
    u16,
    u32,
    udp,
)  # fmt: skip
from seeds_names import name_seeds
from seeds_whole import capture_seeds, whole_seeds

HERE = Path(__file__).resolve().parent
DEMO = HERE.parent / "testdata" / "demo.pcapng"
FRAME_LEN_MAX = 400
# Of windows of a second, IPv4, TCP and UDP of two packets, and the number main_packets.
WINDOW_SCHEMA = "797ba1fb1cb8a8f53294c428b0bcf7bb3ef371f313b615b0c7ba36cb78804905"

def tcp(options: bytes = b"", payload: bytes = b"") -> bytes:
    offset = (20 + len(options)) // 4 << 12
    return u16(50000, 443) + u32(1, 2) + u16(offset | 0x18, 512, 0, 0) + options + payload


def sctp() -> bytes:
    chunk = bytes([0, 3]) + u16(19) + u32(1) + u16(2, 3) + u32(0) + b"abc\0"
    return u16(5000, 5001) + u32(9, 0) + chunk + bytes([3, 0, 0, 4])


TCP_OPTIONS = [
    bytes([2, 4, 5, 180, 4, 2, 8, 10]) + u32(1, 2) + bytes([1, 3, 3, 7]),
    bytes([1, 1, 8, 10]) + u32(5, 6),
    bytes([1, 1, 5, 18]) + u32(1, 2, 3, 4),
    bytes([30, 4, 0, 0, 34, 2, 0, 0]),
    bytes([253, 3, 9, 0, 2, 3, 1, 1]),
]

GRE = {
    "plain": bytes(2) + u16(0x0800),
    "all": u16(0xB000, 0x6558) + u16(0, 0) + u32(7, 8),
    "routing": u16(0x4000, 0x0800, 0, 0, 2, 4) + V4[:4] + u16(0, 0),
    "pptp": u16(0x3081, 0x880B) + u16(4, 5) + u32(6, 7),
}


def gtpu(payload: bytes, with_extension: bool) -> bytes:
    optional = u16(9) + bytes([0, 0x85, 1, 0x10, 9, 0]) if with_extension else b""
    flags = 0x36 if with_extension else 0x30
    return bytes([flags, 255]) + u16(len(optional) + len(payload)) + u32(1) + optional + payload


# --- Frames -----------------------------------------------------------------------------------


def made_frames() -> Iterator[tuple[str, int, bytes]]:
    """Name, index of the link type in targets/dissect.rs, bytes."""
    packet = ipv4(6, tcp(TCP_OPTIONS[1], b"GET /"))
    for name, tags in {"vlan": [0x8100], "stacked": [0x88A8, 0x8100]}.items():
        carried = u16(0x0800) + packet
        for tag in reversed(tags):
            carried = u16(tag, 0x6064) + carried
        yield name, 0, MAC + carried
    label, bottom = u32(0x00010040), u32(0x00011140)
    yield "mpls", 0, ethernet(0x8847, label + bottom + packet)
    pseudo_wire = bottom + u32(0) + ethernet(0x0800, packet)
    yield "mpls-ethernet", 0, ethernet(0x8847, pseudo_wire)
    session = bytes([0x11, 0]) + u16(3, 2 + len(packet)) + u16(0x0021) + packet
    yield "pppoe", 0, ethernet(0x8864, session)
    snap = bytes.fromhex("aaaa03000000") + u16(0x0800) + packet
    yield "snap", 0, ethernet(len(snap), snap)
    stp = bytes.fromhex("424203") + bytes(35)
    yield "llc", 0, ethernet(len(stp), stp)
    yield "sctp", 0, ethernet(0x0800, ipv4(132, sctp()))
    yield "options", 0, ethernet(0x0800, ipv4(1, bytes([8, 0, 0, 0, 0, 1, 0, 2]), b"\x94\4\0\0"))
    for name, head in GRE.items():
        carried = ethernet(0x0800, inner()) if name == "all" else inner()
        carried = b"\xff\x03\x00\x21" + inner() if name == "pptp" else carried
        yield f"gre-{name}", 0, ethernet(0x0800, ipv4(47, head + carried))
    vxlan = bytes([8, 0, 0, 0, 0, 0, 5, 0]) + ethernet(0x0800, inner())
    yield "vxlan", 0, ethernet(0x86DD, ipv6(17, udp(9999, 4789, vxlan)))
    for with_extension in (False, True):
        tunnel = udp(2152, 2152, gtpu(inner(), with_extension))
        yield f"gtpu-{int(with_extension)}", 0, ethernet(0x0800, ipv4(17, tunnel))
    yield "gtpu-short", 0, ethernet(0x0800, ipv4(17, udp(2152, 2152, b"\x30\x01abc")))
    yield "4in4", 0, ethernet(0x0800, ipv4(4, inner()))
    yield "6in4", 0, ethernet(0x0800, ipv4(41, ipv6(6, tcp())))
    chain = bytes([43, 0]) + bytes(6) + bytes([51, 0]) + bytes(6) + bytes([6, 1]) + bytes(10)
    yield "extensions", 0, ethernet(0x86DD, ipv6(0, chain + tcp()))
    later = bytes([17, 0]) + u16(0x00B9) + u32(5) + b"later"
    yield "fragment", 0, ethernet(0x86DD, ipv6(44, later))
    yield "no-next", 0, ethernet(0x86DD, ipv6(59, b""))
    yield "raw", 1, packet
    yield "ipv4", 4, packet
    yield "ipv6", 5, ipv6(6, tcp())
    yield "null", 6, bytes([2, 0, 0, 0]) + packet
    yield "loop", 7, u32(24) + ipv6(58, bytes([128, 0, 0, 0, 0, 1, 0, 1]))
    yield "cooked", 8, u16(4, 1, 6) + MAC[:6] + u16(0, 0x0800) + packet
    cooked_v2 = u16(0x0800, 0) + u32(2) + u16(1) + bytes([0, 6]) + MAC[:6] + u16(0) + packet
    yield "cooked-v2", 9, cooked_v2
    yield "ppp", 10, bytes.fromhex("ff030021") + packet
    yield "ppp-short", 11, b"\x21" + packet
    yield "cisco", 12, u16(0x0F00, 0x0800) + packet
    yield "pppoe-link", 13, session
    yield from mirrored_frames()
    yield from radio_frames()
    attributes = struct.pack("<HHHH", 8, 1, 0x0008, 1) + struct.pack("<HH", 4 + len(packet), 9)
    yield "netfilter", 20, bytes([2, 0, 0, 0]) + attributes + packet


def demo_blocks() -> Iterator[tuple[int, bytes]]:
    data, at = DEMO.read_bytes(), 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        yield kind, data[at : at + length]
        at += length


def segment_kind(protocol: int, segment: bytes) -> int:
    """Type of ICMP messages; of TCP segments, whether they open, end or carry; else 0."""
    if protocol in (1, 58):
        return segment[0]
    return segment[13] & 15 if protocol == 6 else 0


def demo_frames() -> Iterator[bytes]:
    """One frame of each kind that the demo has, cut to a length that suffices."""
    seen = set()
    for kind, block in demo_blocks():
        if kind != 6:
            continue
        captured_len = min(struct.unpack_from("<I", block, 20)[0], FRAME_LEN_MAX)
        frame = block[28 : 28 + captured_len]
        # Protocol, whether a later fragment, and what the message or the segment is.
        key: tuple[int, ...] = (frame[13],)
        if frame[12:14] == u16(0x0800):
            key = (frame[23], int(frame[21] > 0), segment_kind(frame[23], frame[34:]))
        elif frame[12:14] == u16(0x86DD):
            key = (frame[20], int(frame[57] > 1), segment_kind(frame[20], frame[54:]))
        if key not in seen:
            seen.add(key)
            yield frame


# --- Files ------------------------------------------------------------------------------------


def pcap(frames: list[bytes], magic: int, order: str, version: tuple[int, int] = (2, 4)) -> bytes:
    file = struct.pack(f"{order}IHHiIII", magic, *version, 0, 0, 262144, 1)
    extra = bytes([0, 0, 0, 2, 8, 0, 4, 0]) if magic == 0xA1B2CD34 else b""
    for index, frame in enumerate(frames):
        captured, wire = len(frame), len(frame) + index
        lengths = (wire, captured) if version < (2, 3) else (captured, wire)
        stamp = 1_700_000_000 + index
        file += struct.pack(f"{order}IIII", stamp, 5 + index, *lengths) + extra + frame
    return file


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


class Pcapng:
    """Every kind of block, in either byte order."""

    def __init__(self, order: str) -> None:
        self.order = order

    def pack(self, layout: str, *values: int) -> bytes:
        return struct.pack(self.order + layout, *values)

    def block(self, kind: int, body: bytes) -> bytes:
        length = 12 + len(padded(body))
        return self.pack("II", kind, length) + padded(body) + self.pack("I", length)

    def options(self, *options: tuple[int, bytes]) -> bytes:
        lists = [self.pack("HH", code, len(value)) + padded(value) for code, value in options]
        return b"".join(lists) + self.pack("HH", 0, 0)

    def section(self) -> bytes:
        body = self.pack("IHHq", 0x1A2B3C4D, 1, 0, -1)
        body += self.options((1, b"comment"), (2, b"box"), (3, b"os"), (4, b"app"))
        return self.block(0x0A0D0D0A, body)

    def interface(self) -> bytes:
        numbers = (8, self.pack("Q", 10**9)), (9, bytes([0x94])), (13, b"\4")
        texts = (2, b"eth0"), (11, b"\0ip"), (14, self.pack("q", -7))
        body = self.pack("HHI", 1, 0, 96) + self.options(*texts, *numbers)
        return self.block(1, body)

    def start(self) -> bytes:
        return self.section() + self.interface()

    def packet(self, frame: bytes, *options: tuple[int, bytes]) -> bytes:
        head = self.pack("IIIII", 0, 5, 6, len(frame), len(frame))
        tail = self.options(*options) if options else b""
        return self.block(6, head + padded(frame) + tail)

    def rest(self, frame: bytes) -> bytes:
        flags, lost = (2, self.pack("I", 1)), (4, self.pack("Q", 3))
        obsolete = self.pack("HHIIII", 0, 2, 5, 6, len(frame), len(frame)) + padded(frame)
        names = self.pack("HH", 1, 6) + bytes(4) + b"a\0" + bytes(2) + self.pack("HH", 0, 0)
        received = self.options((2, bytes(8)), (4, self.pack("Q", 9)))
        blocks = [
            self.packet(frame, flags, lost, (1, b"seen")),
            self.block(2, obsolete),
            self.block(3, self.pack("I", len(frame)) + frame),
            self.block(4, names),
            self.block(5, self.pack("III", 0, 5, 6) + received),
            self.block(9, b"journal"),
            self.block(10, b"TLSKsecret"),
            self.block(0x0BAD, self.pack("I", 32473) + b"ours"),
            self.block(0x7777, b"unknown"),
        ]
        return b"".join(blocks)


def zstd(data: bytes) -> bytes:
    """A frame of RFC 8878 with one raw block and one of a repeated byte."""
    header = bytes.fromhex("28b52ffd0050")
    raw = struct.pack("<I", len(data) << 3)[:3] + data
    return header + raw + struct.pack("<I", 9 << 3 | 2 | 1)[:3] + b"\0"


def pcaps(frames: list[bytes]) -> dict[str, bytes]:
    few = [frame[:96] for frame in frames[:5]]
    files = {}
    for name, magic in {"us": 0xA1B2C3D4, "ns": 0xA1B23C4D, "modified": 0xA1B2CD34}.items():
        files[f"{name}-little"] = pcap(few, magic, "<")
        files[f"{name}-big"] = pcap(few, magic, ">")
    files["old-2.2"] = pcap(few, 0xA1B2C3D4, "<", (2, 2))
    files["old-2.3"] = pcap(few, 0xA1B2C3D4, "<", (2, 3))
    files["many"] = pcap([b"\x2a"] * 70, 0xA1B23C4D, "<")
    files["cut"] = files["us-little"][:-11]
    return files


def pcapngs(frames: list[bytes]) -> dict[str, bytes]:
    files = {}
    for name, order in {"little": "<", "big": ">"}.items():
        blocks = Pcapng(order)
        files[name] = blocks.start() + blocks.rest(frames[0][:60])
    files["two-sections"] = files["little"] + files["big"]
    files["many"] = Pcapng("<").start() + b"".join([Pcapng("<").packet(b"\x2a")] * 70)
    files["cut"] = files["little"][:-30]
    blocks = list(demo_blocks())
    files["demo"] = b"".join(block for _, block in blocks[:8] + blocks[-1:])
    return files


# --- Seeds ------------------------------------------------------------------------------------


def header_seeds(frames: list[bytes]) -> Iterator[tuple[str, str, bytes]]:
    for name, link, frame in made_frames():
        if link:
            yield "wire_link", name, frame[: 180 if link > 13 else 24]
        elif frame[12:14] in (u16(0x0800), u16(0x86DD)):
            yield "wire_network", name, frame[14:94]
        else:
            yield "wire_link", name, frame[14:30]
            yield "wire_link", f"{name}-inside", frame[18:30]
    for frame in frames:
        yield "wire_network", "demo", frame[14:94]
        if frame[12:14] == u16(0x0800):
            yield "wire_transport", "demo", frame[34:94]
        elif frame[12:14] == u16(0x86DD):
            yield "wire_transport", "demo", frame[54:114]
            yield "wire_network", "extension", frame[54:78]
    yield "wire_link", "ethernet", frames[0][:22]
    for options in TCP_OPTIONS:
        yield "wire_transport", "tcp", tcp(options, b"payload")
        yield "wire_transport", "options", options
    yield "wire_transport", "sctp", sctp()
    yield "wire_tunnel", "vxlan", bytes([8, 0, 0, 0, 0, 0, 5, 0]) + bytes(14)
    for name, head in GRE.items():
        yield "wire_tunnel", f"gre-{name}", head + b"payload"
    yield "wire_tunnel", "geneve", GENEVE + b"payload"
    for name, head in ERSPAN.items():
        yield "wire_tunnel", f"erspan-{name}", head + b"payload"
    for with_extension in (False, True):
        yield "wire_tunnel", "gtpu", gtpu(inner(), with_extension)


def file_seeds(frames: list[bytes]) -> Iterator[tuple[str, str, bytes]]:
    for name, file in pcaps(frames).items():
        yield "pcap", name, file
    for name, file in pcapngs(frames).items():
        yield "pcapng", name, file
    sample = pcaps(frames)["us-little"]
    for choice in (0x00, 0x08, 0x18, 0x2F, 0x4C, 0x50, 0x80, 0x90):
        for name, file in (pcaps(frames) | pcapngs(frames)).items():
            if name in ("ns-little", "modified-big", "cut", "demo"):
                yield "read_file", f"{name}-{choice:02x}", file + bytes([choice])
    yield "read_file", "gzip", gzip.compress(sample, mtime=0)
    yield "read_file", "gzip-cut", gzip.compress(sample, mtime=0)[:-20]
    yield "read_file", "gzip-twice", gzip.compress(sample, mtime=0) * 2
    yield "read_file", "zstd", zstd(sample)
    yield from split_seeds(frames[0])


def split_seeds(frame: bytes) -> Iterator[tuple[str, str, bytes]]:
    blocks = Pcapng("<")
    patches = {
        "nothing": b"",
        "zeros": bytes(64),
        "record": pcap([frame], 0xA1B23C4D, "<")[24:],
        "packet": blocks.packet(frame),
        "interface": blocks.interface(),
        "section": blocks.start(),
        "statistics": blocks.rest(frame),
    }
    # Bits of the first byte, as targets/split.rs takes them.
    pcapng, nested, fitted, before = 1, 2, 8, 128
    for name, patch in patches.items():
        for kind in (0, pcapng, pcapng | nested):
            for place in (0, fitted, fitted | before):
                seed = bytes([kind | place, kind >> 1]) + u16(20_000) + patch
                yield "split", f"{name}-{kind | place:02x}", seed


FILTERS = [
    "ip", "tcp port 80 or udp port 53", "host 192.0.2.1 and not arp", "ip6 and icmp6[0] == 128",
    "net 192.0.2.0/24 and tcp[13] & 2 != 0", "ether host 00:11:22:33:44:55", "len > 100",
    "vlan 100 and ip proto \\tcp", "mpls and ip", "portrange 1-1024 and (tcp or sctp)",
    "ip6 host 2001:db8::1", "greater 64 and less 1500", "ether[12:2] = 0x0800",
    "ip[2:2] - (ip[0] & 0xf) << 2 > 40", "not not not ip", "(((ip))))", "ip and", "tcp[tcpflags]",
    "ip protochain 6", "inbound", "type mgt subtype beacon", "gateway x", "port 99999", "", " ",
]  # fmt: skip


def other_seeds(frames: list[bytes]) -> Iterator[tuple[str, str, bytes]]:
    for index, (name, link, frame) in enumerate(made_frames()):
        yield "dissect", name, bytes([link, 0]) + frame
        yield "dissect", f"{name}-choice", bytes([link, 37 * index % 256]) + frame
    for frame in frames:
        # Of a frame that was cut here, more was on the wire.
        choice = 0xF8 if len(frame) == FRAME_LEN_MAX else 0
        yield "dissect", "demo", bytes([0, choice]) + frame
        yield "dissect", "cut", bytes([0, 0xFC]) + frame[: len(frame) // 2]
    for index, frame in enumerate(frames):
        yield "header_bits", "demo", bytes([63, 8, 7 * index % 64, 255, 1]) + frame
    for index, (name, link, frame) in enumerate(made_frames()):
        if link == 0:
            choices = bytes([7 * index % 64, 3, 9 * index % 64, 255, 1])
            yield "header_bits", name, choices + frame
    yield "header_bits", "any-layers", bytes([63, 9, 16, 255, 255]) + bytes(range(120))
    for flags, protocol, ports in (
        (0, 6, (50000, 443)),
        (0, 1, (8, 0)),
        (0, 1, (3, 1)),
        (3, 58, (135, 136)),
        (3, 17, (53, 53)),
        (1, 132, (7, 7)),
    ):
        head = bytes([flags, protocol]) + u16(1, *ports) + V6
        yield "flow_key", "tuple", head
    lite = [ethernet(0x0800, ipv4(number, udp(1, 2, b"lite"))) for number in (33, 136)]
    for frame in frames + lite:
        yield "flow_key", "frame", bytes([0, 6]) + u16(0, 1, 2) + V6 + frame
    for index, text in enumerate(FILTERS):
        head = bytes([0, 40]) + frames[0][:40] if index % 2 == 0 else bytes([1 + index % 9, 0])
        yield "filter_text", f"{index:02}", head + text.encode()
    texts = b"\3box\2os\3app\1\4note"
    interface = bytes([7]) + u32(90) + bytes(8) + b"\4\1" + bytes(8) + b"\4eth0\0\2ip\0\0\0"
    note = bytes([4]) + (1_700_000_000 * 10**9).to_bytes(8, "big") + u32(60) + b"\1\2hi"
    for flags in (0, 1, 12, 31):
        counters = (b"\1" + bytes(8)) * 6 if flags & 4 else b""
        head = bytes([flags]) + u16(1) + texts + interface * (1 + (flags & 3))
        for frame in (frames[0][:60], bytes(200)):
            tail = note + bytes([len(frame)]) + frame
            yield "encode", f"{flags:02x}", head + (bytes(4) + counters) * bool(counters) + tail * 3


def tree_seeds() -> Iterator[tuple[str, str, bytes]]:
    common = (
        '"classes":["a","b"],"schema":"' + "0f" * 32 + '","headers":"innermost","blocks":'
        '["ipv4","tcp","udp"],"payload_bytes":1,"packets":2,"numbers":["size"],"trees":1}'
    )
    tests = '{"tests":["pkt0_tcp_syn_0 is 1","pkt1_ipv4_ttl_0 is there","size > 0.5"]}'
    boosted = '{"class":1,"nodes":[0,1,-1,2,-1,-1,-1],"leaves":[1,-2.5,3e-3,0]}'
    kinds = {
        "mean": ("", '{"nodes":[2,-1,1,-1,-1],"leaves":[[1,0],[0.5,0.5],[0,1]]}'),
        "softmax": ('"start":[0,1],', boosted),
        "sigmoid": ('"start":[0,1],"slope":1.5,', boosted),
    }
    for kind, (start, tree) in kinds.items():
        head = '{"format":"wirelens trees","version":1,"kind":"' + kind + '",' + start + common
        yield "trees", kind, b"\x90" + f"{head}\n{tests}\n{tree}\n".encode()


def cascade_seeds(frames: list[bytes]) -> Iterator[tuple[str, str, bytes]]:
    """The cascade of the golden runs, one with windows in its place, and sums of their own."""
    folder = HERE.parent / "testdata" / "cascade"
    told = (folder / "cascade.json").read_bytes()
    names = ("fastest", "fast", "slow")
    files = [(folder / f"{name}.trees.jsonl").read_bytes() for name in names]
    # Seals are made by the target.
    trees = [b"".join(file.splitlines(keepends=True)[:-1]) for file in files]
    traffic = b"".join(bytes([len(frame[:250])]) + frame[:250] for frame in frames[:12])
    yield "cascade", "flows", b"\0".join([b"\0" + told, *trees, traffic])
    # Of windows the last stage is enough; the schema is that of these columns.
    windows = json.loads(told) | {"kind": "windows", "window_ns": 10**9}
    windows["stages"] = [windows["stages"][-1] | {"packets": 2}]
    text = trees[-1].decode().replace("pkt2_size_bytes", "main_packets")
    head, _, tree = text.splitlines()
    told_of_trees = json.loads(head) | {"packets": 2, "schema": WINDOW_SCHEMA}
    tests = '{"tests":["main_packets > 2.5","pkt1_udp_sport_0 is there"]}'
    file = f"{json.dumps(told_of_trees)}\n{tests}\n{tree}\n".encode()
    head_of_windows = b"\0" + json.dumps(windows).encode()
    yield "cascade", "windows", b"\0".join([head_of_windows, b"", b"", file, traffic])
    sums = (folder / "SHA256SUMS").read_bytes()
    yield "cascade", "sums", b"\0".join([b"\1" + told, *trees, sums])


def model_seeds(frames: list[bytes]) -> Iterator[tuple[str, str, bytes]]:
    """The model that ships with the tops of its first trees; the target knows its hash."""
    shipped = HERE.parent / "models" / "packetlog" / "model.json"
    model = json.loads(shipped.read_text()) | {"training": {}}
    inner = ("feature", "threshold", "left", "right")

    def top(tree: dict[str, list], count: int) -> dict[str, list]:
        """The first nodes by depth; where children are cut off, a leaf."""
        order = [0]
        for node in order:
            children = [tree[side][node] for side in ("left", "right")]
            if children[0] >= 0 and len(order) + 2 <= count:
                order += children
        place = {old: new for new, old in enumerate(order)}
        cut = {name: [tree[name][old] for old in order] for name in (*inner, "value")}
        for at, old in enumerate(order):
            left = place.get(tree["left"][old], -1)
            is_leaf = left < 0
            values = (-2, -2.0, -1, -1) if is_leaf else None
            values = values or (*(cut[name][at] for name in inner[:2]), left, left + 1)
            for name, value in zip(inner, values, strict=True):
                cut[name][at] = value
        return cut

    traffic = b"".join(bytes([len(frame[:250])]) + frame[:250] for frame in frames[:12])
    small = model["features"] | {"buckets": 8, "flow_count_max": 4}
    for name, features, tree_count in (
        ("sketch", small, 1),
        ("exact", small | {"source": "exact", "window_ns": 0}, 2),
        ("large", model["features"], 1),
    ):
        forests = {
            forest: {"trees": [top(tree, 9) for tree in model[forest]["trees"][:tree_count]]}
            for forest in ("flow_forest", "packet_forest")
        }
        text = json.dumps(model | forests | {"features": features}, separators=(",", ":"))
        yield "packetlog_model", name, text.encode() + b"\0" + traffic


def packetlog_seeds(frames: list[bytes]) -> Iterator[tuple[str, str, bytes]]:
    """Two chunks of two packets and their index; whole, torn, and without the index."""

    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)

    row = struct.pack("<HHI8Q", 1, 0, 0, 2, 3000, 2, 3000, 200, 0, 0, 0)
    note = struct.pack("<HHI2sBBHHHH", 2989, 12, 32473, b"W1", 0, 0, 1, 65535, 0, 0)

    def chunk(number: int) -> bytes:
        text = b"packetlog 1\nmode\t1\tdefault\nclass\t0\t0\tbenign\nclass\t1\t0\tscan\n"
        option = struct.pack("<HHI", 2988, len(text) + 4, 32473) + text + bytes(-len(text) % 4)
        body = struct.pack("<IHHQ", 0x1A2B3C4D, 1, 0, 0) + option + bytes(4)
        head = block(0x0A0D0D0A, body) + block(1, struct.pack("<HHI", 1, 0, 0))
        for index, frame in enumerate(frames[number : number + 2]):
            kept = frame[:60] + bytes(-len(frame[:60]) % 4)
            fixed = struct.pack("<5I", 0, 0, 1000 + index, min(len(frame), 60), len(frame))
            head += block(6, fixed + kept + (note if index else b""))
        trailer_len = 4096 - len(head)
        data = b"WLCHUNK1" + struct.pack("<QqqIBBH", number, 1000, 1001, 2, 0, 0, 1) + row
        trailer = struct.pack("<IIIHHI", 4, trailer_len, 0, 19373, trailer_len - 24, 32473) + data
        trailer += bytes(trailer_len - len(trailer) - 4) + struct.pack("<I", trailer_len)
        sealed = bytearray(head + trailer)
        struct.pack_into("<Q", sealed, 16, 4096 - struct.unpack_from("<I", sealed, 4)[0])
        return bytes(sealed)

    def record(number: int) -> bytes:
        place = struct.pack("<QIIQ", 4096 * number, 4096, 0, 0) + bytes(24)
        told = struct.pack("<QqqIBBBBHHI", number, 1000, 1001, 2, 0, 0, 1, 0, 1, 0, 0) + row
        return b"WLX1" + struct.pack("<I", 12 + len(place + told)) + place + told + bytes(4)

    file, index = chunk(0) + chunk(1), record(0) + record(1)
    torn = file[:4396] + bytes(2000)
    for name, told, data in [
        ("whole", index, file),
        ("torn", record(0), torn),
        ("torn-between", b"", file[:300] + bytes(3796) + chunk(1)),
        ("no-index", b"", file),
        ("cut-index", index[:-9], file),
    ]:
        yield "packetlog", name, u16(len(told)) + told + data


def packetlog_side_seeds() -> Iterator[tuple[str, str, bytes]]:
    """Changes to a log that the target makes itself: each a file, a width, a place and a value."""
    account, index, keys, chunks = range(4)

    def change(file: int, width: int, at: int, value: int) -> bytes:
        return bytes([file, {1: 0, 2: 1, 4: 2, 8: 3}[width]]) + u16(at) + struct.pack(">Q", value)

    most = 2**64 - 1
    # Enhanced packet blocks and compact ones, each plain and compressed.
    for which in range(4):
        for name, changes in [
            ("nothing", b""),
            ("hashes-at-the-end-of-numbers", change(index, 8, 32, most)),
            ("chunk-at-the-end-of-numbers", change(index, 8, 8, most - 4095)),
            ("frame-at-the-end-of-numbers", change(index, 8, 24, most - 5)),
            ("length", change(index, 4, 16, 2**31)),
            ("no-packets", change(index, 4, 80, 0)),
            ("sequence", change(index, 8, 56, most)),
            ("hosts", change(index, 4, 40, 2**32 - 1)),
            ("account", change(account, 8, 40, most)),
            ("hash", change(keys, 4, 0, most)),
            ("section", change(chunks, 8, 16, most)),
            ("column", change(chunks, 4, 300, 2**31)),
        ]:
            yield "packetlog_side", name, bytes([which]) + changes


def flow_seeds() -> Iterator[tuple[str, str, bytes]]:
    fin, syn, rst, ack, unknown, absolute = 1, 2, 4, 16, 6, 7

    def step(key: int, side: int, flags: int, kind: int = 0, number: bytes = b"\1") -> bytes:
        return bytes([key, side, flags, kind]) + number

    closed = step(1, 0, syn) + step(1, 1, syn | ack) + step(1, 0, fin) + step(1, 1, fin)
    seeds = {
        "closed": closed + step(1, 0, ack) + step(1, 0, syn),
        "reset": step(1, 0, syn) + step(1, 1, rst) + step(1, 0, ack, 3, u16(6000)) + closed,
        "idle": step(1, 0, ack) * 3 + step(2, 0, ack, 3, u16(40_000)) + step(1, 1, ack),
        "late": step(1, 0, ack, 3, u16(9000)) + step(2, 0, ack, 5, u16(1500)) + step(1, 1, ack),
        "set-back": step(1, 0, ack) + step(2, 0, ack, 5, u16(60_000)) + step(1, 1, ack) * 2,
        "no-stamps": step(1, 0, rst, unknown, b"") + step(2, 1, ack, unknown, b"") + closed,
        "extremes": b"".join(
            step(4, at & 1, ack, absolute, at.to_bytes(8, "big", signed=True))
            for at in (2**63 - 1, -(2**63) + 1, 0, 2**63 - 1, 1 - 2**63)
        ),
        "flood": b"".join(step(key, 0, syn) for key in range(256)),
    }
    for name, packets in seeds.items():
        for idle, active, window, flow_count_max in (
            (30_000, 60_000, 0, 255), (1_000, 5_000, 1_000, 255), (0, 0, 300, 1),
            (20_000, 3_000, 700, 64),
        ):  # fmt: skip
            yield "flows", name, u16(idle, active, window) + bytes([flow_count_max]) + packets


def main() -> None:
    frames = list(demo_frames())
    counts: dict[tuple[str, str], int] = {}
    written: set[tuple[str, bytes]] = set()
    of_frames = (header_seeds(frames), file_seeds(frames), other_seeds(frames))
    of_frames = (*of_frames, cascade_seeds(frames), packetlog_seeds(frames), model_seeds(frames))
    of_none = (packetlog_side_seeds(), flow_seeds(), tree_seeds(), cca_seeds(), name_seeds())
    for seeds in (*of_frames, *of_none, whole_seeds(), capture_seeds(HERE / "seeds")):
        for target, name, data in seeds:
            if (target, data) in written or not data:
                continue
            written.add((target, data))
            number = counts[target, name] = counts.get((target, name), 0) + 1
            path = HERE / "seeds" / target / (name if number == 1 else f"{name}-{number}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    size = sum(len(data) for _, data in written)
    print(f"{len(written)} seeds, {size} bytes")


if __name__ == "__main__":
    main()
