"""No feature names a unit or a network: another home with the same devices has the same rows."""

import sys
from pathlib import Path

import numpy
import pytest
import wirelens
from captures import Frame, write_pcap
from command import DEMO, ROOT, WIDE_DATA
from home import ONE
from wirelens.classify.features import FirstPacketsTable, FlowFeatures, first_packets

sys.path.insert(0, str(ROOT / "bench/evaluation/classify"))
from rewrite import rewrite  # noqa: E402

BYTES, DEPTH = 96, 10
NUMBERS = [
    "protocol", "server_port", "client_port",
    *(
        f"pkt{packet}_{name}"
        for packet in range(DEPTH)
        for name in ("size_bytes", "direction", "gap_ns", "payload_bytes")
    ),
    *(f"pkt{packet}_byte_{place}" for packet in range(DEPTH) for place in range(BYTES)),
]  # fmt: skip
BLOCKS = ("ipv4", "ipv6", "tcp", "udp", "icmp")


def rows(path: Path, identity: str) -> FirstPacketsTable:
    """Every feature that there is."""
    return first_packets(
        path,
        FlowFeatures(
            blocks=BLOCKS, payload_bytes=BYTES, packets=DEPTH, numbers=NUMBERS, identity=identity
        ),
    )


def in_order(table: FirstPacketsTable) -> tuple[list[bytes], numpy.ndarray]:
    """Records and numbers of each flow, in the order in which flows began."""
    keys = table.keys()
    order = sorted(
        range(len(table)), key=lambda row: (keys["first_ns"][row], keys["packets"][row], row)
    )
    length = len(table.records) // len(table)
    records = [table.records[row * length : (row + 1) * length] for row in order]
    return records, numpy.asarray(table.numbers)[order]


def differing(one: Path, other: Path, identity: str) -> tuple[int, int]:
    """How many flows there are, and how many do not have the same row in both."""
    first, second = (in_order(rows(path, identity)) for path in (one, other))
    assert len(first[0]) == len(second[0]) > 0
    differ = sum(
        a != b or (x != y).any()
        for a, b, x, y in zip(*(first[0], second[0], first[1], second[1]), strict=True)
    )
    return len(first[0]), differ


@pytest.mark.parametrize("seed", [1, 2])
def test_a_home_with_other_names_has_the_same_rows(seed: int, tmp_path: Path) -> None:
    home, other = tmp_path / "home.pcap", tmp_path / "other.pcap"
    write_pcap(home, ONE.frames())
    changed = rewrite(home, other, seed)
    # All of it was found and rewritten.
    assert ONE.lamp in changed["macs"] and ONE.link_local in changed["ipv6"]
    assert ONE.name.encode() in changed["names"]
    told = other.read_bytes()
    assert not any(
        text in told for text in (ONE.lamp, ONE.own, ONE.name.encode(), ONE.lamp.hex().encode())
    )
    count, differ = differing(home, other, "masked")
    assert (count, differ) == (11, 0)
    # As they are, nearly all flows differ: this is what a model could learn by heart.
    assert differing(home, other, "kept")[1] >= 9


def test_what_tells_a_product_is_left(tmp_path: Path) -> None:
    home = tmp_path / "home.pcap"
    write_pcap(home, ONE.frames())
    kept = b"".join(in_order(rows(home, "masked"))[0])
    for text in (b"udhcp 1.19", b"_hap", b"FreeRTOS/6.0.5", b"GET /scale/register", b"example"):
        assert text in kept, text
    for text in (ONE.lamp, ONE.name.encode(), ONE.own, ONE.lamp[3:], b"uuid:2f40", b"serial="):
        assert text not in kept, text


def test_the_capture_that_ships_has_the_same_rows_elsewhere(tmp_path: Path) -> None:
    plain, other = tmp_path / "plain.pcap", tmp_path / "other.pcap"
    to_pcap(DEMO, plain)
    rewrite(plain, other, 3)
    count, differ = differing(plain, other, "masked")
    assert count > 300 and differ == 0
    assert differing(plain, other, "kept")[1] > 0


def to_pcap(source: Path, target: Path) -> None:
    """The same packets in the one format that the rewriter reads."""
    packets = wirelens.packets(source, frame=65_535)
    write_pcap(target, [Frame(p.time_ns or 0, p.frame, p.wire_len) for p in packets])


@pytest.mark.wide
def test_set_ups_of_real_devices_have_the_same_rows_elsewhere(tmp_path: Path) -> None:
    folders = sorted((WIDE_DATA / "devices/sentinel").iterdir())
    flows = 0
    for folder in folders:
        source = min(folder.glob("*.pcap"))
        other = tmp_path / f"{folder.name}.pcap"
        rewrite(source, other, 5)
        count, differ = differing(source, other, "masked")
        assert differ == 0, (folder.name, differ, count)
        flows += count
    assert flows > 400


def test_the_rule_is_part_of_the_schema() -> None:
    kept, masked = (FlowFeatures(identity=identity) for identity in ("kept", "masked"))
    assert "identity" not in kept.schema() and "identity masked 1\n" in masked.schema()
    assert kept.hash() != masked.hash()
    with pytest.raises(wirelens.OptionError, match='identity: "some"; wanted: kept or masked'):
        FlowFeatures(identity="some")
