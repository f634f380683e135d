"""Which flow and which packet gets which label, and what a picture makes of it."""

import csv
import gzip
import struct
from collections import Counter
from pathlib import Path

import pytest
import testbed_runs  # noqa: F401  puts the library on the path
from command import DEMO, PROGRAM
from wirelens_testbed import failure, plot
from wirelens_testbed.congestion import departures
from wirelens_testbed.pcapng import PcapngError, read_packets
from wirelens_testbed.truth import UNEXPLAINED, FlowTruth, PacketTruth

WEB, DESK = "203.0.113.80", "10.20.0.11"
ALWAYS = {"start_ns": 0, "end_ns": 1 << 62}


def finished(truth: FlowTruth, path: Path) -> tuple[dict[str, int], list[dict[str, str]]]:
    counts = truth.finish(DEMO)
    with path.open() as table:
        return counts, list(csv.DictReader(table, delimiter="\t"))


def test_the_rule_with_more_ports_wins_and_then_the_one_stated_last(tmp_path: Path) -> None:
    path = tmp_path / "flows.tsv"
    truth = FlowTruth(path, PROGRAM)
    truth.add(label="any web", client=(DESK, None), server=(WEB, None), **ALWAYS)
    truth.add(label="first", client=(DESK, None), server=(WEB, 443), visit=1, **ALWAYS)
    truth.add(label="tls", client=(DESK, None), server=(WEB, 443), visit=2, **ALWAYS)
    truth.add(label="udp", client=(DESK, None), server=(WEB, 80), protocol="udp", **ALWAYS)
    counts, rows = finished(truth, path)
    assert counts.keys() == {"any web", "tls", UNEXPLAINED}
    for row in rows:
        of_desk = (row["src_ip"], row["dst_ip"]) == (DESK, WEB) and row["protocol"] == "tcp"
        wanted = ("tls" if row["dst_port"] == "443" else "any web") if of_desk else UNEXPLAINED
        assert (row["label"], row["visit"]) == (wanted, "2" if wanted == "tls" else "")
    assert Counter(row["label"] for row in rows) == counts


def test_a_rule_holds_either_way_round_in_its_time_and_for_any_spelling(tmp_path: Path) -> None:
    path = tmp_path / "flows.tsv"
    truth = FlowTruth(path, PROGRAM)
    ipv6 = ("2001:0DB8:113:0::80", None), ("2001:db8:20:0:0::12", None)
    truth.add(label="swapped", client=ipv6[0], server=ipv6[1], **ALWAYS)
    truth.add(label="past", client=(DESK, None), server=(WEB, None), start_ns=0, end_ns=10)
    counts, _ = finished(truth, path)
    assert counts["swapped"] > 10 and "past" not in counts


def test_every_packet_has_its_row_in_order(tmp_path: Path) -> None:
    table = PacketTruth(tmp_path / "packets.tsv.gz", ["label", "departed_ns"])
    table.add("benign", 5)
    table.add("scan", None)
    table.close()
    with gzip.open(tmp_path / "packets.tsv.gz", "rt") as file:
        assert file.read() == "number\tlabel\tdeparted_ns\n1\tbenign\t5\n2\tscan\t\n"


def frame(identification: int, flow: int, ttl: int = 64) -> bytes:
    ip = struct.pack(
        ">BBHHHBBH4s4s", 0x45, 0, 40, identification, 0, ttl, 6, ttl, bytes(4), bytes(4)
    )
    ip = ip[:12] + bytes([10, 1, 1, flow]) + ip[16:]
    return bytes(12) + b"\x08\x00" + ip + struct.pack(">HHIIHHHH", 9, 10, 1, 2, 0x5010, 3, 4, 0)


def pcapng(path: Path, packets: list[tuple[int, bytes]]) -> Path:
    """A file as the recorder writes it: nanoseconds, one interface."""

    def block(kind: int, body: bytes) -> bytes:
        size = struct.pack("<I", len(body) + 12)
        return struct.pack("<I", kind) + size + body + size

    section = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    interface = block(1, struct.pack("<HHI", 1, 0, 96) + struct.pack("<HHB3xHH", 9, 1, 9, 0, 0))
    blocks = [
        block(6, struct.pack("<5I", 0, at >> 32, at & 0xFFFFFFFF, len(data), 1514) + padded(data))
        for at, data in packets
    ]
    path.write_bytes(section + interface + b"".join(blocks))
    return path


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def test_a_packet_departs_once_whatever_the_router_changed_and_others_did(tmp_path: Path) -> None:
    # Two flows that use the same identifications; the third packet of each is dropped, one is seen
    # twice, and two processors brought the last two in another order than the queue had them.
    came = [(at, frame(number, flow)) for at, (number, flow) in enumerate(
        [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2), (1, 1), (4, 2), (4, 1)], start=100
    )]  # fmt: skip
    left = [(at, frame(number, flow, ttl=63)) for at, (number, flow) in enumerate(
        [(1, 1), (1, 2), (2, 1), (2, 2), (1, 1), (4, 1), (4, 2)], start=200
    )]  # fmt: skip
    counts = departures.Counts()
    found = list(
        departures.passages(
            pcapng(tmp_path / "before.pcapng", came),
            pcapng(tmp_path / "after.pcapng", left),
            {bytes([10, 1, 1, flow]): flow for flow in (1, 2)},
            counts,
        )
    )
    assert [each.departed_ns for each in found] == [200, 201, 202, 203, None, None, 204, 206, 205]
    assert [each.flow for each in found] == [1, 2, 1, 2, 1, 2, 1, 2, 1]
    assert counts == departures.Counts(came=9, dropped=2, strangers=0)
    assert found[0].arrived_ns == 100 and found[0].size_bytes == 1514


def test_a_packet_that_never_came_is_counted(tmp_path: Path) -> None:
    before = pcapng(tmp_path / "before.pcapng", [(1, frame(1, 1))])
    after = pcapng(tmp_path / "after.pcapng", [(2, frame(1, 1)), (3, frame(2, 1))])
    counts = departures.Counts()
    list(departures.passages(before, after, {}, counts))
    assert counts == departures.Counts(came=1, dropped=0, strangers=1)


def test_a_cut_capture_is_refused(tmp_path: Path) -> None:
    whole = pcapng(tmp_path / "whole.pcapng", [(1, frame(1, 1))]).read_bytes()
    assert len(list(read_packets(tmp_path / "whole.pcapng"))) == 1
    for size in range(1, len(whole)):
        (tmp_path / "cut.pcapng").write_bytes(whole[:size])
        try:
            assert len(list(read_packets(tmp_path / "cut.pcapng"))) == 0
        except PcapngError as refused:
            assert "cut.pcapng" in str(refused)


def test_the_queue_holds_what_came_and_has_not_left(tmp_path: Path) -> None:
    table = PacketTruth(tmp_path / "packets.tsv.gz", departures.COLUMNS)
    second = 1_000_000_000
    table.add(second, 0, 1000, second + 2_500_000, 0)
    table.add(second + 1_000_000, 0, 500, second + 2_600_000, 0)
    table.add(second + 1_000_000, 1, 700, "", 1)
    table.close()
    (tmp_path / "flows.tsv").write_text(
        "flow\trole\tlabel\n0\tmeasured\treno\n1\tbackground\tbbr\n"
    )
    series = plot.read(tmp_path)
    assert series[0].queued_bytes[:4] == [1000, 1500, 0, 0]
    assert series[0].arrived_bytes[:4] == [1000, 500, 0, 0]
    assert series[1].queued_bytes[:4] == [0, 0, 0, 0] and series[1].arrived_bytes[1] == 700
    assert [each.label for each in series.values()] == ["reno", "bbr"]
    with pytest.raises(failure.TestbedError, match="has no packets.tsv.gz"):
        plot.read(tmp_path / "absent")
