"""Names that packets carry, as users ask for them, on traffic of which they are known."""

import ipaddress
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
    web = Connection(1025, server)
    frames += [*web.opening(), web.say(0, hello("web.example.com")), *silence * 12]
    # And a connection of which the beginning was not seen, long after.
    frames += [*silence * 200, Connection(1025, server).say(0, b"late")]
    capture = written(tmp_path / "again.pcap", frames, step_ns=10**9)
    rows = list(wirelens.flows(capture, filter="tcp", read_names=True, window="10s"))
    named = [row.server_name for row in rows]
    assert named == ["old.example.com", None, "web.example.com", None]


def test_a_hello_at_the_start_of_a_window_is_read(tmp_path: Path) -> None:
    flow = Connection(1024, ("198.51.100.1", 443))
    frames = [Frame(4_900_000_000, data, len(data)) for data in flow.opening()]
    name = flow.say(0, hello("late.example.com"))
    frames.append(Frame(5_000_000_000, name, len(name)))
    query, answer = asked(40000, 1, "www.example.com", "198.51.100.2")
    frames.append(Frame(9_900_000_000, query, len(query)))
    frames.append(Frame(10_000_000_000, answer, len(answer)))
    later = segment((CLIENT, 1025), ("198.51.100.2", 443), 1, 2, b"")
    frames.append(Frame(11_000_000_000, later, len(later)))
    write_pcap(tmp_path / "window.pcap", frames)
    rows = list(wirelens.flows(tmp_path / "window.pcap", read_names=True, window="5s"))
    assert [row.server_name for row in rows if row.src_port == 1024] == [None, "late.example.com"]
    assert [row.resolved_name for row in rows if row.src_port == 1025] == ["www.example.com"]


def test_nobody_names_a_server_for_others(tmp_path: Path) -> None:
    """Responses that go the way of their query, mDNS across networks, names under no `local`."""
    liar, victim = "203.0.113.6", "192.0.2.10"
    query, answer = asked(40000, 1, "bank.example.com", liar)
    frames = [
        # The same packets, both from the liar.
        datagram((liar, 40000), (victim, 53), query[42:]),
        datagram((liar, 40000), (victim, 53), answer[42:]),
    ]
    address = ipaddress.ip_address(liar).packed
    for name in ("update.example.com", "printer.local"):
        own = labels(name) + struct.pack("!HHIH", 1, 1, 120, 4) + address
        claim = struct.pack("!6H", 0, 0x8400, 0, 1, 0, 0) + own
        frames.append(datagram((liar, 5353), (victim, 5353), claim))
        frames.append(datagram((liar, 5355), (victim, 1111), claim))
    claim = struct.pack("!6H", 0, 0x8400, 0, 1, 0, 0) + labels("mail.example.com")
    claim += struct.pack("!HHIH", 1, 1, 120, 4) + address
    frames.append(datagram((liar, 5353), ("224.0.0.251", 5353), claim))
    frames.append(segment((victim, 1024), (liar, 443), 1, 2, b""))
    rows = list(wirelens.flows(written(tmp_path / "liar.pcap", frames), read_names=True))
    assert [row.resolved_name for row in rows if row.dst_port == 443] == [None]


def test_what_the_other_side_says_does_not_hide_a_hello(tmp_path: Path) -> None:
    """PostgreSQL answers with a byte, and the hello comes in two segments, far ones before it."""
    flow = Connection(1024, ("198.51.100.1", 5432))
    data = hello("db.example.com")
    frames = [
        *flow.opening(),
        flow.say(0, b"\0\0\0\x08\x04\xd2\x16\x2f"),
        flow.say(1, b"S"),
        flow.say(0, data[:100], at=0),
        flow.say(0, b"beyond", at=5000),
        flow.say(0, data[100:], at=100),
    ]
    (row,) = wirelens.flows(written(tmp_path / "db.pcap", frames), read_names=True)
    assert (row.app_protocol, row.server_name) == ("postgresql", "db.example.com")


def test_far_segments_do_not_end_reading(tmp_path: Path) -> None:
    flow = Connection(1024, ("198.51.100.1", 80))
    request = b"POST / HTTP/1.1\r\nHost: upload.example.com\r\n\r\n"
    body = [(len(request) + at, b"x" * 1400) for at in range(0, 7000, 1400)]
    frames = [*flow.opening(), *(flow.say(0, part, at) for at, part in body)]
    frames.append(flow.say(0, request, at=0))
    (row,) = wirelens.flows(written(tmp_path / "post.pcap", frames), read_names=True)
    assert row.server_name == "upload.example.com"


def test_totals_by_name_are_written_once(tmp_path: Path) -> None:
    first = Connection(1024, ("198.51.100.1", 443))
    frames = [*first.opening(), first.say(0, hello("a.example.com"))]
    frames += [first.say(0, b"", flags=17), first.say(1, b"", flags=17)]
    frames += [datagram((CLIENT, 9), ("198.51.100.9", 9), b"-")] * 30
    second = Connection(1025, ("198.51.100.1", 443))
    frames += [*second.opening(), second.say(0, hello("a.example.com"))]
    capture = written(tmp_path / "twice.pcap", frames, step_ns=10**9)
    totals = [(row.name, row.packets) for row in wirelens.top(capture, by="name", n=0)]
    assert sorted(totals, key=str) == [("a.example.com", 8), (None, 30)]


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


def test_long_names_and_chains_of_pointers_are_faults(tmp_path: Path) -> None:
    long = ".".join(letter * 63 for letter in "abcd") + ".e"
    ends = (CLIENT, 40000), ("192.0.2.53", 53)
    header = struct.pack("!6H", 1, 0x100, 1, 0, 0, 0)
    # A question, and an answer whose name is a chain of a hundred pointers, each to the one before.
    question = labels("www.example.com") + struct.pack("!HH", 1, 1)
    place = 12 + len(question) + 12
    data = b"\x01a\0\0" + b"".join(
        struct.pack("!H", 0xC000 + place + (0 if at == 0 else 2 + 2 * at)) for at in range(100)
    )
    chained = struct.pack("!HHHIH", 0xC00C, 16, 1, 60, len(data)) + data
    chained += struct.pack("!HHHIH", 0xC000 + place + 2 + 2 * 99, 1, 1, 60, 4) + b"\xc0\0\2\7"
    frames = [
        datagram(*ends, header + labels(long) + b"\0\x01\0\x01"),
        datagram(*ends, header + b"\xc0\x0c\0\x01\0\x01"),
        datagram(*ends, header + question),
        datagram(*ends[::-1], struct.pack("!6H", 1, 0x8180, 1, 2, 0, 0) + question + chained),
    ]
    flows = wirelens.flows(written(tmp_path / "long.pcap", frames), read_names=True)
    assert [flow.dns_query for flow in flows] == ["www.example.com"]
    assert flows.counts["name_faults"] == 3


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

