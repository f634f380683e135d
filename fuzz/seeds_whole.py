"""Seeds of whole commands and of what surrounds them: traffic as `fuzz::traffic` reads it,
settings, messages and damaged logs."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path


def u16(*values: int) -> bytes:
    return struct.pack(f">{len(values)}H", *values)


def u32(*values: int) -> bytes:
    return struct.pack(f">{len(values)}I", *values)


def packet(kind: int, flow: int = 0, way: int = 0, tunnel: int = 0, step: int = 3) -> bytes:
    """What a packet is, of which flow and in which tunnel, and how time goes on."""
    return bytes([kind, flow | way << 3 | tunnel << 4, step])


def opening(flow: int, tunnel: int = 0, step: int = 3) -> bytes:
    return packet(0, flow, 0, tunnel, step) + u32(0xFFFF_FF00, 1000 * flow)


def data(flow: int, way: int, which: int, tunnel: int = 0, step: int = 3) -> bytes:
    return packet(1, flow, way, tunnel, step) + bytes([which, 0])


def named(flow: int, which: int, name: bytes) -> bytes:
    return packet(1, flow) + bytes([which, len(name)]) + name


def burst(flow: int, way: int, count: int, gap: int, lost: int, tunnel: int = 0) -> bytes:
    return packet(2, flow, way, tunnel) + bytes([count, gap, lost])


def dns(name: bytes) -> bytes:
    question = packet(8, 3) + bytes([0, 1, 0, len(name)]) + name + b"\0"
    answer = (
        packet(8, 3, 1) + bytes([1, 1, 1, len(name)]) + name + bytes([12, 1, 4, 192, 0, 2, 7, 0])
    )
    return question + answer


def closing(flow: int) -> bytes:
    return packet(6, flow) + b"\x11" + packet(6, flow, 1) + b"\x11"


SACKED = bytes([0b110]) + u16(100) + b"\x40" + u16(300) + b"\x10"


def traffics() -> dict[str, bytes]:
    """Traffic by what is hostile in it."""
    session = opening(0) + data(0, 0, 0) + data(0, 1, 4) + burst(0, 1, 39, 3, 0) + closing(0)
    lossy = opening(6) + burst(6, 1, 39, 2, 7) + packet(5, 6) + u16(0) + SACKED
    lossy += packet(3, 6, 1) + u16(2400) + b"\x80" + burst(6, 1, 39, 2, 5) + closing(6)
    jumps = opening(1) + b"".join(
        packet(4, 1, way) + u32(number) + bytes([how])
        for way in (0, 1)
        for number, how in ((0, 0), (1 << 31, 0), (0xFFFF_FFFF, 248), (7, 0xF1), (1 << 30, 0xE9))
    )
    times = b"".join(data(flow, 0, 3, 0, step) for step in range(16) for flow in (0, 1, 2))
    back = opening(2) + b"".join(
        burst(2, 1, 9, 9, 3) + data(2, 0, 9, 0, step) for step in (11, 12, 13, 15, 15)
    )
    names = named(4, 8, b'a"\\\t\n\x1b[2J\xe2\x80\xae.example') + named(1, 7, b"-\t(empty),\r#x")
    names += dns(b'",{}\t\n\xff') + opening(1) + data(1, 0, 3) + data(4, 1, 5)
    quic = b"".join(
        packet(9, 2, way) + bytes([which, 0]) for way, which in ((0, 0), (1, 2), (0, 1), (1, 3))
    )
    quic += b"".join(packet(9, 2, spin & 1) + bytes([7 | (spin & 2) << 4]) for spin in range(24))
    tunnels = b"".join(opening(t & 7, t) + burst(t & 7, 1, 5, 3, 0, t) for t in range(9))
    pieces = b"".join(
        packet(11, 1) + bytes([gap, lost, 0, 40]) + bytes(40)
        for gap in (0, 255)
        for lost in (0, 1, 2)
    )
    others = packet(10, 1) + b"\3\1" + packet(10, 3) + b"\x80\0" + packet(14, 2) + b"\x84\4abcd"
    others += packet(12) + b"\5raw!!" + packet(13) + packet(15, 1) + b"\x0a\2\4\5\xb4\5\x12\0\0\0\1"
    hosts = b"".join(
        packet(0, f, 1) + u32(n, n) + u16(n) + data(f, 0, 2) for n in range(40) for f in (n & 7,)
    )
    cut = b"".join(
        packet(0x81 | 0x40 * (n & 1), n & 7, n >> 3 & 1) + bytes([n % 7, 0]) for n in range(32)
    )
    return {
        "session": session, "lossy": lossy, "jumps": jumps, "times": times, "back": back,
        "names": names, "quic": quic, "tunnels": tunnels, "pieces": pieces, "others": others,
        "hosts": hosts, "cut": cut,
    }  # fmt: skip


RUNS: dict[str, Sequence[int]] = {
    "run_top": (0, 0x13, 0xA6),
    "run_flows": (0, 0x2065, 0xC00C),
    "run_classify": (0, 0x2001, 0x0E),
    "run_packetlog": (0, 0x79, 0x1C3),
    "run_cca": (0, 0x41, 0x2012),
    "run_cca_taps": (0, 0x42, 0x2381),
    "run_latency": (0, 0x2005, 2),
    "run_latency_taps": (0, 9, 0x2006),
    "run_l4s": (0, 1),
    "run_traffic": (0, 0x2001),
    "run_all": (0, 0x8042),
    "info": (0,),
    "exports": (0, 1, 2, 3, 0x0D),
}
"""Of each command the choices of settings with which its seeds begin."""

SETTINGS = {
    "small": '[input]\nread = ["a.pcap"]\n[run]\nseed = 1\nthreads = 2\n[top]\noutput = "t.csv"\n',
    "rules": '[input]\nread = ["a.pcap"]\n[classify]\nmodel = "services"\noutput = "c.csv"\n[cca]\n'
    'output = "q.csv"\n[[rule]]\nservice = ["ssh"]\nbytes = "1M"\ncca = true\n',
    "alerts": '[input]\ninterface = ["a", "b"]\n[flows]\noutput = "f.parquet"\n[[alert]]\n'
    'name = "x"\ntable = "flows"\nwhen = "src_bytes > 1G and dst_port in {22, 23}"\n'
    '[[notify]]\nkind = "jsonl"\n'
    'to = "a.jsonl"\n',
    "wrong": '[input]\nread = "a\\nb"\npace = -1\n[flow]\n[top]\nby = 7\nwindow = "1"\nrows = -1\n',
    "observed": '[input]\ninterface = "a"\n[page]\nlisten = "127.0.0.1:1"\n[history]\n'
    'folder = "h"\n'
    '[nats]\nservers = ["nats:"]\nsensor = "a b"\n[networks]\nlocal = ["10.0.0.0/8"]\n[traffic]\n',
}

LOG_SETTINGS = {
    "modes": '[modes.mine]\npurpose = "x"\nbenign = "sample 1/10"\nanomalous = "full"\nlevel = 2\n'
    "[priorities]\nscan = 3\n",
    "limits": '[manager]\nboth = "log-minimum"\noverwrite = true\n'
    'disk = { on = 0.1, off = 0.2, hold = "10s", mode = "log-sampled" }\n',
}

ROW = {
    "count": 1,
    "small": -1,
    "port": 443,
    "time_ns": 5,
    "share": 0.5,
    "name": "a",
    "bytes": "00ff",
}
COUNTS = [
    {"application": "run", "name": name, "labels": {}, "value": value}
    for name, value in (("packets_received", 1e19), ("packets_dropped", 2), ("rows_lost", 3))
]


def messages() -> Iterator[tuple[str, str, bytes]]:
    for text in ("status", "metrics", "mode log-all", "mode", "mode x y", "status\n"):
        yield (
            "control_socket",
            text.strip().replace(" ", "-") + "-line" * text.endswith("\n"),
            text.encode(),
        )
    yield "bus_rows", "row", b"\0" + json.dumps(ROW).encode()
    metrics = {"version": 1, "sensor": "a", "run": "1", "number": 0, "time_ns": 5, "counts": COUNTS}
    yield "bus_rows", "metrics", b"\0" + json.dumps(metrics).encode()
    headers = "Wirelens-Version: 1\nWirelens-Sensor: a\nWirelens-Run: 1\nWirelens-Table: flows\n"
    headers += "Wirelens-First-Row: 4611686018427387903\nWirelens-Rows: 1\n\n"
    yield "bus_rows", "headers", b"\1" + headers.encode() + json.dumps(ROW).encode()
    row = struct.pack("<IHBB", 3, 2, 1, 3) + b"abc" + struct.pack("<2f", 0.5, 1e30) + bytes(40)
    yield "bus_escalation", "rows", b"\0" + struct.pack("<BBHI", 2, 0, 2, 300) + row * 2
    answer = struct.pack("<BBHI", 2, 0, 1, 300) + struct.pack("<HHdd", 3, 2, 0.75, 0.25)
    yield "bus_escalation", "answer", b"\1" + answer
    yield "ring_block", "frames", ring_block()
    for choice in (0, 4, 5, 12):
        numbers = struct.pack(">4f", 0.0, 1.5, -1e30, float("nan"))
        yield "worker_rows", f"row-{choice}", bytes([choice, 4]) + numbers + u16(64) + bytes(72)


def ring_block() -> bytes:
    """A block of two frames as the kernel describes them, one with a tag."""
    block = struct.pack("=12xII", 2, 48).ljust(48, b"\0")
    frame = bytes(12) + u16(0x0800) + bytes.fromhex("45000014") + bytes(16)
    for status in (1, 0x51):
        head = struct.pack("=6IHH", 192, 1, 2, len(frame), len(frame), status, 112, 98)
        head += (
            struct.pack("=IIH", 0, 5, 0x8100).ljust(20, b"\0")
            + bytes(4)
            + struct.pack("=iHB", 1, 1, 0)
        )
        block += (head.ljust(112, b"\0") + frame).ljust(192, b"\0")
    return u16(0, 65_535) + block


def whole_seeds() -> Iterator[tuple[str, str, bytes]]:
    for target, choices in RUNS.items():
        for at, (name, traffic) in enumerate(traffics().items()):
            yield target, name, u16(choices[at % len(choices)]) + traffic
    for name, text in SETTINGS.items():
        yield "settings", name, text.encode()
    for name, text in LOG_SETTINGS.items():
        yield "log_settings", name, text.encode()
    lists = {
        0: "# list\n192.0.2.1\n10.0.0.0/8 # ten\n::ffff:1.2.3.4\n2001:db8::/32,x\n0.0.0.0/0\n"
        "1.2.3.4/99\n",
        1: 'example.com\n*.example.org\n127.0.0.1 ads.example\n"quoted.example",1\n'
        "b\u00fccher.example\n.\n",
        2: "t13d1516h2_8daaf6152771_b186095e22b6\nq13d\n",
    }
    for kind, text in lists.items():
        yield "indicators", f"list-{kind}", bytes([kind]) + text.encode()
    yield from messages()
    for which in range(4):
        edits = b"".join(
            bytes([record, place, value])
            for record in (1, 3, 0x82, 0xC0)
            for place, value in ((2, 7), (5, 4))
        )
        yield "log_ledger", f"numbers-{which}", bytes([which]) + edits
        damages = b"".join(
            bytes([file, how]) + u16(40 * file) for file in range(5) for how in (which, 1)
        )
        yield "log_start", f"damages-{which}", bytes([which]) + damages
    for at, name in enumerate(("jsonl", "csv", "arrow", "parquet")):
        yield "recover_rows", name, bytes([0x80 | at]) + u16(0xFFFF)
        yield (
            "recover_rows",
            f"{name}-changed",
            bytes([0x80 | at]) + u16(900, 60, 0xFFFF, 200, 0x7F00),
        )
    yield "recover_rows", "lines", b'\0{"a":1}\n{"a":'


def capture_seeds(seeds: Path) -> Iterator[tuple[str, str, bytes]]:
    """The captures of targets that decode them, which ran before."""
    for target in ("pcap", "pcapng"):
        for path in sorted((seeds / target).iterdir()):
            yield "run_capture", f"{target}-{path.name}", path.read_bytes()
