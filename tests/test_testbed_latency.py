"""Latency traces of the testbed: packets found again, acknowledgements given to the right copy."""

import gzip
import random
import re
import socket
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from testbed_runs import AT_ANY_TIME, SCENARIOS, left_behind, run_scenario
from wirelens_testbed.failure import ScenarioError
from wirelens_testbed.latency import content, matching, plan
from wirelens_testbed.pcapng import CapturedPacket
from wirelens_testbed.scenario import Table

SERVER, CLIENT = "10.1.0.2", "10.2.0.2"
PORT = 40_000
SIZE = 1000
SYN, ACK = 0x02, 0x10
STEP = {"seconds": 4, "rate_mbit": 2, "delay_ms": 10}


def packet(
    ts_ns: int,
    seq: int = 0,
    ack: int = 0,
    *,
    size: int = 0,
    identity: int = 0,
    flags: int = ACK,
    port: int = PORT,
    back: bool = False,
    blocks: tuple[tuple[int, int], ...] = (),
) -> CapturedPacket:
    """A TCP packet from the server, or back to it, cut after its headers."""
    options = b""
    if blocks:
        edges = b"".join(struct.pack("!II", *(edge % 2**32 for edge in block)) for block in blocks)
        options = bytes([1, 1, 5, 2 + len(edges)]) + edges
    source, target = (CLIENT, SERVER) if back else (SERVER, CLIENT)
    source_port, target_port = (port, 443) if back else (443, port)
    words = 5 + len(options) // 4
    total = 20 + words * 4 + size
    ip = struct.pack("!BBHHHBBH", 0x45, 0, total, identity, 0x4000, 64, 6, 0)
    ip += socket.inet_aton(source) + socket.inet_aton(target)
    tcp = struct.pack("!HHII", source_port, target_port, seq % 2**32, ack % 2**32)
    tcp += struct.pack("!BBHHH", words << 4, flags, 1000, 0, 0) + options
    data = bytes(12) + b"\x08\x00" + ip + tcp
    return CapturedPacket(ts_ns, 14 + total, data, 0)


def acknowledgement(ts_ns: int, ack: int, *blocks: tuple[int, int]) -> CapturedPacket:
    return packet(ts_ns, ack=ack, back=True, blocks=blocks)


def match(sender: list[CapturedPacket], receiver: list[CapturedPacket]) -> matching.Matcher:
    matcher = matching.Matcher(SERVER, CLIENT)
    matcher.run(iter(sender), iter(receiver))
    return matcher


def test_delay_and_acknowledgement_are_those_of_the_packet() -> None:
    sent = [packet(10, 1, size=SIZE, identity=1), packet(11, 1001, size=SIZE, identity=2)]
    arrived = [packet(30, 1, size=SIZE, identity=1), packet(31, 1001, size=SIZE, identity=2)]
    # One number covers both, as when every second packet is acknowledged.
    found = match([*sent, acknowledgement(50, 2001)], arrived)
    assert list(found.packets.received_ns) == [30, 31]
    assert list(found.packets.ack_ns) == [50, 50]
    assert list(found.packets.number) == [1, 2]
    assert (found.counts.sent, found.counts.lost) == (2, 0)


def test_a_number_below_the_end_of_a_packet_does_not_cover_it() -> None:
    sent = [packet(10, 1, size=SIZE, identity=1), packet(11, 1001, size=SIZE, identity=2)]
    arrived = [packet(30, 1, size=SIZE, identity=1), packet(31, 1001, size=SIZE, identity=2)]
    found = match([*sent, acknowledgement(40, 1001), acknowledgement(60, 2001)], arrived)
    assert list(found.packets.ack_ns) == [40, 60]


def test_the_acknowledgement_belongs_to_the_copy_that_arrived() -> None:
    sender = [
        packet(10, 1, size=SIZE, identity=1),
        packet(90, 1, size=SIZE, identity=2),
        acknowledgement(130, 1001),
    ]
    found = match(sender, [packet(110, 1, size=SIZE, identity=2)])
    assert list(found.packets.received_ns) == [0, 110]
    assert list(found.packets.ack_ns) == [0, 130]
    assert list(found.packets.copy) == [1, 2]
    assert found.counts.lost == 1


def test_of_two_copies_that_arrive_the_first_is_acknowledged() -> None:
    sender = [
        packet(10, 1, size=SIZE, identity=1),
        packet(90, 1, size=SIZE, identity=2),
        acknowledgement(100, 1001),
        acknowledgement(140, 1001, (1, 1001)),
    ]
    arrived = [packet(80, 1, size=SIZE, identity=1), packet(120, 1, size=SIZE, identity=2)]
    found = match(sender, arrived)
    assert list(found.packets.ack_ns) == [100, 0]
    assert found.counts.lost == 0


def test_a_selective_acknowledgement_tells_before_the_gap_is_filled() -> None:
    sender = [
        packet(10, 1, size=SIZE, identity=1),
        packet(11, 1001, size=SIZE, identity=2),
        acknowledgement(50, 1, (1001, 2001)),
        packet(60, 1, size=SIZE, identity=3),
        acknowledgement(90, 2001),
    ]
    arrived = [packet(30, 1001, size=SIZE, identity=2), packet(80, 1, size=SIZE, identity=3)]
    found = match(sender, arrived)
    assert list(found.packets.ack_ns) == [0, 50, 90]
    kinds = [matching.ACK_KINDS[kind] for kind in found.packets.ack_kind]
    assert kinds == ["", "selective", "cumulative"]


def test_sequence_numbers_may_start_anew_within_a_flow() -> None:
    begin = 2**32 - 500
    sender = [
        packet(10, begin, size=SIZE, identity=1),
        packet(11, begin + SIZE, size=SIZE, identity=2),
        acknowledgement(50, begin + 2 * SIZE),
    ]
    arrived = [
        packet(30, begin, size=SIZE, identity=1),
        packet(31, begin + SIZE, size=SIZE, identity=2),
    ]
    found = match(sender, arrived)
    assert list(found.packets.seq) == [begin, begin + SIZE]
    assert list(found.packets.ack_ns) == [50, 50]


def test_a_port_used_again_is_another_flow() -> None:
    sender = [
        packet(10, 0, flags=SYN | ACK),
        packet(11, 1, size=SIZE, identity=1),
        packet(12, 7000, flags=SYN | ACK),
        packet(13, 7001, size=SIZE, identity=1),
        packet(14, 1, size=SIZE, identity=1, port=PORT + 1),
    ]
    found = match(sender, [])
    assert list(found.packets.flow) == [1, 2, 3]
    assert found.counts.lost == 5


def test_what_was_never_sent_is_counted_and_not_taken_for_a_loss() -> None:
    found = match([packet(10, 1, size=SIZE, identity=1)], [packet(20, 5, size=SIZE, identity=9)])
    assert (found.counts.received_unknown, found.counts.lost) == (1, 1)


def test_packets_that_look_the_same_are_not_taken_for_one() -> None:
    # The kernel gives resets the identification 0, and two of them may be on their way.
    reset = [packet(ts_ns, 1, flags=0x14) for ts_ns in (10, 11, 30, 31)]
    found = match(reset[:2], reset[2:])
    assert (found.counts.received_unknown, found.counts.lost) == (0, 0)
    assert match(reset[:2], reset[2:3]).counts.lost == 1


def test_packets_of_others_and_broken_ones_are_passed_over() -> None:
    arp = CapturedPacket(1, 42, bytes(12) + b"\x08\x06" + bytes(28), 0)
    cut = CapturedPacket(2, 60, packet(2, 1, size=SIZE).data[:40], 0)
    found = match([arp, cut, CapturedPacket(3, 2, b"ab", 0)], [arp])
    assert len(found.packets.number) == 0
    assert found.counts.received == 0


@pytest.mark.parametrize("seed", range(20))
def test_every_packet_that_arrives_over_a_lossy_path_is_acknowledged_once(seed: int) -> None:
    rng = random.Random(seed)
    sender, receiver, arrived, now_ns, identity, have = [], [], 0, 1000, 0, set()
    waiting = [index * SIZE for index in range(60)]
    while waiting:
        again = []
        for begin in waiting:
            now_ns += 100
            identity += 1
            sender.append(packet(now_ns, begin, size=SIZE, identity=identity))
            if rng.random() < 0.3:
                again.append(begin)
                continue
            arrived += 1
            receiver.append(packet(now_ns + 30, begin, size=SIZE, identity=identity))
            have.add(begin)
            next_wanted = min(set(range(0, 61 * SIZE, SIZE)) - have)
            blocks = [(begin, begin + SIZE)] if begin > next_wanted else []
            sender.append(acknowledgement(now_ns + 60, next_wanted, *blocks))
        waiting = again
    found = match(sender, receiver)
    told = [
        (ack_ns, received_ns)
        for ack_ns, received_ns in zip(found.packets.ack_ns, found.packets.received_ns, strict=True)
        if ack_ns
    ]
    assert len(told) == arrived == 60
    assert all(ack_ns == received_ns + 30 for ack_ns, received_ns in told)
    assert found.counts.lost == len(found.packets.number) - 60


def test_the_table_has_a_row_for_each_data_packet_and_is_empty_where_nothing_is_known(
    tmp_path: Path,
) -> None:
    sender = [
        packet(10_000, 1, size=SIZE, identity=1),
        packet(20_000, 1001, size=SIZE, identity=2),
        acknowledgement(50_000, 1001),
    ]
    found = match(sender, [packet(30_500, 1, size=SIZE, identity=1)])
    matching.write(found.packets, tmp_path / "packets.tsv.gz")
    header, first, second = gzip.open(tmp_path / "packets.tsv.gz", "rt").read().splitlines()
    assert header.split("\t") == list(matching.COLUMNS)
    one = dict(zip(matching.COLUMNS, first.split("\t"), strict=True))
    assert (one["owd_us"], one["ack_latency_us"], one["lost"]) == ("20.5", "40.0", "0")
    other = dict(zip(matching.COLUMNS, second.split("\t"), strict=True))
    assert (other["received_ns"], other["owd_us"], other["ack_ns"]) == ("", "", "")
    assert (other["number"], other["lost"]) == ("2", "1")
    assert matching.owd_min_us(found.packets) == 20.5


def parse(**values: Any) -> plan.Plan:
    table = Table({"duration_s": 20, "traffic": "web", "link": {"steps": [STEP]}} | values)
    parsed = plan.parse(table)
    table.finish()
    return parsed


def test_what_a_trace_cannot_be_is_refused_by_its_name() -> None:
    assert parse(server={"tls": True, "http2": True}).port == 443
    for values, words in (
        ({"traffic": "mail"}, "traffic is 'mail', wanted one of video, web"),
        ({"server": {"tls": False, "http2": True}}, "server.http2 is true without server.tls"),
        ({"video": {"rates_kbit": []}}, "video.rates_kbit"),
        ({"web": {"page": 3}}, "did you mean pages"),
    ):
        with pytest.raises(ScenarioError, match=words):
            parse(**values)


def test_pages_name_objects_that_are_there_and_pictures_are_pictures(tmp_path: Path) -> None:
    web = parse(web={"pages": 5, "objects_max": 8}).web
    content.make_pages(web, tmp_path, random.Random(3))
    names = []
    for page in tmp_path.iterdir():
        text = (page / "index.html").read_text()
        found = re.findall(r'(?:src|href)="([^"]+)"', text)
        assert all((page / name).is_file() for name in found)
        names += [page / name for name in found]
    pictures = [path for path in names if path.suffix == ".png"]
    assert pictures
    for picture in pictures:
        data = picture.read_bytes()
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        offset, kinds = 8, []
        while offset < len(data):
            (size,) = struct.unpack_from("!I", data, offset)
            body = data[offset + 4 : offset + 8 + size]
            assert zlib.crc32(body) == struct.unpack_from("!I", data, offset + 8 + size)[0]
            kinds.append(body[:4])
            offset += 12 + size
        assert kinds == [b"IHDR", b"wlFi", b"IDAT", b"IEND"]


@pytest.mark.testbed
def test_a_trace_knows_the_delay_of_each_packet_and_loses_none_unexplained(tmp_path: Path) -> None:
    run = run_scenario(SCENARIOS / "latency-small.toml", tmp_path, *AT_ANY_TIME)
    # Others may make runs on this machine as well; of ours there is nothing.
    own = run.report["taps"][0]["netns"].rpartition("-")[0]
    assert not [path for path in left_behind() if own in path]
    assert run.failed_checks() == []
    rows = run.table("packets.tsv.gz")
    assert len(rows) == run.report["packets"]["data"] > 1000
    delays_us = [float(row["owd_us"]) for row in rows if row["owd_us"]]
    # The link's own delay is 8 to 12 ms; what comes on top is the queue's doing.
    assert min(delays_us) >= 7_900 and max(delays_us) > 20_000
    assert all(float(row["ack_latency_us"]) > float(row["owd_us"]) for row in rows if row["ack_ns"])
    assert {flow["label"] for flow in run.table("flows.tsv")} == {"web"}
    pages = [event for event in run.table("events.tsv") if event["event"] == "page"]
    assert len(pages) >= 2
