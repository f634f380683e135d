"""Names that packets carry, as users ask for them, on traffic of which they are known."""

import random
import secrets
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import wirelens
from captures import Frame, write_pcap
from command import PROGRAM, ROOT
from names_traffic import (
    CLIENT,
    Connection,
    asked,
    datagram,
    hello,
    labels,
    pieces,
    segment,
)

NAMES = ROOT / "testdata/names.pcap"
PEAK = """
import os, subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(child.pid, 0)
assert status == 0
print(usage.ru_maxrss)
"""


def written(path: Path, frames: list[bytes], step_ns: int = 1_000_000) -> Path:
    write_pcap(path, (Frame(index * step_ns, data, len(data)) for index, data in enumerate(frames)))
    return path


def test_a_hello_in_any_pieces_in_any_order_has_its_name(tmp_path: Path) -> None:
    draw = random.Random(20)
    frames, wanted = [], {}
    for index in range(150):
        name = f"host{index}.example.com"
        flow = Connection(1024 + index, ("198.51.100.1", 443), isn=draw.randrange(2**32))
        parts = pieces(hello(name), draw.randint(1, 20))
        again = draw.sample(parts, k=min(2, len(parts)))
        order = draw.sample(parts + again, k=len(parts) + len(again))
        # Pieces overlap by some bytes.
        whole = b"".join(part for _, part in parts)
        longer = [(at, whole[at : at + len(part) + draw.randint(0, 9)]) for at, part in order]
        frames += flow.opening() + [flow.say(0, part, at) for at, part in longer]
        wanted[1024 + index] = name
    flows = wirelens.flows(written(tmp_path / "pieces.pcap", frames), read_names=True)
    assert {flow.src_port: flow.server_name for flow in flows} == wanted
    assert flows.counts["name_faults"] == 0


def test_columns_are_there_only_on_request() -> None:
    fields = {field.name for field in wirelens.flows(NAMES).fields}
    assert not fields & {"server_name", "ja4"}
    named = {field.name for field in wirelens.flows(NAMES, read_names=True).fields}
    assert {"server_name", "ja4", "app_protocol"} <= named


def test_pseudonyms_join_and_hide(tmp_path: Path) -> None:
    key = tmp_path / "names.key"
    key.write_bytes(secrets.token_bytes(32))
    plain = list(wirelens.flows(NAMES, read_names=True))
    hashed = list(wirelens.flows(NAMES, read_names=True, hash_names=key))
    assert len(plain) == len(hashed)
    pairs = set()
    for one, other in zip(plain, hashed, strict=True):
        for column in ("server_name", "resolved_name", "dns_query"):
            pairs.add((getattr(one, column), getattr(other, column)))
    known = {(name, hidden) for name, hidden in pairs if name is not None}
    assert len({name for name, _ in known}) == len({hidden for _, hidden in known}) == len(known)
    assert all(len(hidden) == 32 and "example" not in hidden for _, hidden in known)
    totals = wirelens.top(NAMES, by="name", n=0, hash_names=key)
    assert {row.name for row in totals} - {None} <= {hidden for _, hidden in known}


@pytest.mark.parametrize("arguments", [["flows"], ["top", "--by", "name"]])
def test_a_short_key_is_refused(tmp_path: Path, arguments: list[str]) -> None:
    key = tmp_path / "short.key"
    key.write_bytes(b"secret")
    command = [PROGRAM, *arguments, "-r", NAMES, "--hash-names", key, "--format", "csv"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "a key of 6 bytes; wanted 32 or more" in ran.stderr


def test_totals_by_name_are_those_of_flows() -> None:
    flows = list(wirelens.flows(NAMES, read_names=True))
    totals = {row.name: (row.packets, row.bytes) for row in wirelens.top(NAMES, by="name", n=0)}
    wanted: dict[str | None, list[int]] = {}
    for flow in flows:
        name = flow.server_name or flow.resolved_name or flow.dns_query
        sums = wanted.setdefault(name, [0, 0])
        sums[0] += flow.src_packets + flow.dst_packets
        sums[1] += flow.src_bytes + flow.dst_bytes
    assert totals == {name: tuple(sums) for name, sums in wanted.items()}


def test_a_name_holds_in_every_window_and_after_a_cut(tmp_path: Path) -> None:
    flow = Connection(1024, ("198.51.100.1", 443))
    frames = [*flow.opening(), flow.say(0, hello("long.example.com"))]
    frames += [flow.say(1, b"x" * 100) for _ in range(30)]
    capture = written(tmp_path / "long.pcap", frames, step_ns=10**9)
    windows = list(wirelens.flows(capture, read_names=True, window="5s"))
    assert len(windows) == 7
    assert {row.server_name for row in windows} == {"long.example.com"}
    totals = wirelens.top(capture, by="name", window="5s", n=0)
    assert [row.name for row in totals] == ["long.example.com"] * 7
    assert sum(row.packets for row in totals) == len(frames)
    aged = list(wirelens.flows(capture, read_names=True, active_timeout="10s"))
    assert len(aged) > 1
    assert {row.server_name for row in aged} == {"long.example.com"}


def test_a_name_ends_with_its_connection(tmp_path: Path) -> None:
    """A port that is used again within a window, after a reset or a long time, has no old name."""
    server = ("198.51.100.1", 443)
    first, again = (Connection(1024, server, isn=isn) for isn in (1, 5000))
    other = (("192.0.2.8", 8), ("198.51.100.8", 8))
    silence = [datagram(*other, b"-")]
    frames = [*first.opening(), first.say(0, hello("old.example.com")), *silence * 12]
    frames += [*again.opening(), again.say(0, b"no hello at all"), *silence * 12]
    # And a connection of which the beginning was not seen, long after.
    frames += [*silence * 200, Connection(1024, server).say(0, b"late")]
    capture = written(tmp_path / "again.pcap", frames, step_ns=10**9)
    rows = list(wirelens.flows(capture, filter="tcp", read_names=True, window="10s"))
    assert [row.server_name for row in rows] == ["old.example.com", None, None]


def test_an_answer_names_flows_of_its_client_within_its_time(tmp_path: Path) -> None:
    server, gap = "198.51.100.1", [datagram((CLIENT, 9), ("198.51.100.9", 9), b"-")]
    other = segment(("192.0.2.99", 1025), (server, 80), 1, 2, b"")
    ends = (CLIENT, 1024), (server, 80)
    frames = asked(40000, 1, "www.example.com", server)
    late = segment(ends[0], (server, 81), 1, 2, b"")
    frames += [segment(*ends, 1, 2, b""), other, *gap * 400, late]
    rows = wirelens.flows(written(tmp_path / "ttl.pcap", frames, step_ns=10**9), read_names=True)
    named = {(row.src_ip, row.dst_port): row.resolved_name for row in rows if row.dst_ip == server}
    assert named == {
        (CLIENT, 80): "www.example.com",
        ("192.0.2.99", 80): None,
        # Kept for 300 s at least, and not for 400.
        (CLIENT, 81): None,
    }


def test_long_names_and_many_pointers_are_bounded(tmp_path: Path) -> None:
    long = "a" * 63 + "." + "b" * 63 + "." + "c" * 63 + "." + "d" * 63 + ".e"
    ends = (CLIENT, 40000), ("192.0.2.53", 53)
    header = struct.pack("!6H", 1, 0x100, 1, 0, 0, 0)
    pointers = b"\x01a\0" + b"".join(struct.pack("!H", 0xC00C + 2 * index) for index in range(600))
    frames = [
        datagram(*ends, header + labels(long) + b"\0\x01\0\x01"),
        datagram(*ends, header + b"\xc0\x0c\0\x01\0\x01"),
        datagram(*ends, struct.pack("!6H", 2, 0x8180, 65535, 65535, 0, 0) + pointers),
    ]
    flows = wirelens.flows(written(tmp_path / "long.pcap", frames), read_names=True)
    assert [flow.dns_query for flow in flows] in ([None], ["a"])
    assert flows.counts["name_faults"] >= 2


def test_memory_stays_flat_under_half_open_handshakes(tmp_path: Path) -> None:
    start = hello("half.example.com")[:200]

    def peak_kib(count: int) -> int:
        frames = []
        for index in range(count):
            ends = (f"10.{index >> 16}.{index >> 8 & 255}.{index & 255}", 1024), ("192.0.2.1", 443)
            frames += [segment(*ends, 0, 2, b""), segment(*ends, 1, 16, start)]
        capture = written(tmp_path / f"{count}.pcap", frames, step_ns=1000)
        command = [PROGRAM, "flows", "-r", "-", "--read-names", "--max-flows", "16384", "-q"]
        # Through a pipe, as pages of a mapped file would count; of a small process, as a child's
        # peak is its parent's size at least.
        parent = [sys.executable, "-c", PEAK, *map(str, command), "--format", "csv"]
        with subprocess.Popen(["cat", capture], stdout=subprocess.PIPE) as cat:
            ran = subprocess.run(parent, stdin=cat.stdout, capture_output=True, check=True)
        return int(ran.stdout)

    few, many = peak_kib(80_000), peak_kib(240_000)
    assert many < few * 1.25, (few, many)

