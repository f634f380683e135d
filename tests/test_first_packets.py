"""Rows of features: what tshark finds in the packets, and what the command prints of them."""

import doctest
import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy
import pytest
import wirelens
from captures import Frame, write_pcap
from command import DEMO, ROOT
from command import wirelens as run
from reference import Tshark, nanoseconds
from wirelens.classify import features as features_module
from wirelens.classify.features import FlowFeatures, first_packets

SERVICES = ROOT / "testdata/testbed/services/lan.pcapng.gz"
CALLS = ROOT / "testdata/testbed/calls/sender.pcapng.gz"
DEPTH = 6
BYTES = 8
OF_PACKET = ("size_bytes", "direction", "gap_ns", "payload_bytes")
NUMBERS = [
    "protocol", "server_port", "client_port",
    *(f"pkt{packet}_{name}" for packet in range(DEPTH) for name in OF_PACKET),
    *(f"pkt{packet}_byte_{place}" for packet in range(DEPTH) for place in range(BYTES)),
]  # fmt: skip
ALL = FlowFeatures(payload_bytes=BYTES, packets=DEPTH, numbers=NUMBERS)


@dataclass
class Packet:
    """A packet as tshark tells of it."""

    protocol: int
    ends: tuple[tuple[str, int], tuple[str, int]]
    time_ns: int
    size_bytes: int
    payload_bytes: int
    payload: bytes


def seen_by_tshark(tshark: Tshark, path: Path) -> Iterator[Packet]:
    """Frames of TCP and UDP, without those in tunnels and fragments."""
    names = (
        "frame.time_epoch", "ip.proto", "ipv6.nxt", "ip.src", "ipv6.src", "ip.dst", "ipv6.dst",
        "ip.len", "ipv6.plen", "tcp.srcport", "udp.srcport", "tcp.dstport", "udp.dstport",
        "tcp.len", "udp.length", "tcp.payload", "udp.payload", "ip.flags.mf", "ip.frag_offset",
    )  # fmt: skip
    lines, complaint = tshark.fields(path, names, "read")
    assert not complaint
    for line in lines:
        told = dict(zip(names, line, strict=True))
        protocol = told["ip.proto"] or told["ipv6.nxt"]
        is_whole = told["ip.flags.mf"] in ("", "0", "False") and told["ip.frag_offset"] in ("", "0")
        if protocol not in ("6", "17") or not is_whole:
            continue

        def either(*pair: str, told: dict[str, str] = told) -> str:
            return told[pair[0]] or told[pair[1]]

        size = int(told["ip.len"] or 0) or int(told["ipv6.plen"]) + 40
        payload = int(told["tcp.len"]) if protocol == "6" else int(told["udp.length"]) - 8
        yield Packet(
            int(protocol),
            (
                (either("ip.src", "ipv6.src"), int(either("tcp.srcport", "udp.srcport"))),
                (either("ip.dst", "ipv6.dst"), int(either("tcp.dstport", "udp.dstport"))),
            ),
            nanoseconds(told["frame.time_epoch"]),
            size,
            payload,
            bytes.fromhex(either("tcp.payload", "udp.payload").replace(":", "")),
        )


def single(number: int) -> float:
    return float(struct.unpack("f", struct.pack("f", number))[0])


def expected(packets: list[Packet]) -> dict[str, float]:
    """The numbers that these packets make."""
    client, server = packets[0].ends
    row = {"protocol": packets[0].protocol, "server_port": server[1], "client_port": client[1]}
    latest = packets[0].time_ns
    for index in range(DEPTH):
        packet = packets[index] if index < len(packets) else None
        values = [0.0, 0.0, 0.0, -1.0]
        payload = b""
        if packet:
            gap = max(packet.time_ns - latest, 0)
            latest = max(latest, packet.time_ns)
            way = 1.0 if packet.ends[0] == client else -1.0
            payload = packet.payload
            values = [packet.size_bytes, way, single(gap), packet.payload_bytes]
        row |= {f"pkt{index}_{name}": v for name, v in zip(OF_PACKET, values, strict=True)}
        for place in range(BYTES):
            row[f"pkt{index}_byte_{place}"] = payload[place] if place < len(payload) else -1
    return row


@pytest.mark.parametrize("path", [DEMO, SERVICES])
def test_numbers_are_what_tshark_finds(path: Path) -> None:
    tshark = Tshark()
    by_flow: defaultdict[tuple[int, frozenset[tuple[str, int]]], list[Packet]] = defaultdict(list)
    for packet in seen_by_tshark(tshark, path):
        by_flow[packet.protocol, frozenset(packet.ends)].append(packet)
    tshark.close()
    table = first_packets(path, ALL)
    keys, numbers = table.keys(), numpy.asarray(table.numbers)
    assert numbers.shape == (len(table), len(NUMBERS))
    compared = packets = 0
    for row, values in enumerate(numbers.tolist()):
        key = {name: column[row] for name, column in keys.items()}
        ends = frozenset([(key["src_ip"], key["src_port"]), (key["dst_ip"], key["dst_port"])])
        found = by_flow.get(({"tcp": 6, "udp": 17}.get(key["protocol"], 0), ends), [])
        # Of a conversation that was several flows, tshark does not tell where one ends.
        if len(found) != key["packets"]:
            continue
        assert dict(zip(NUMBERS, values, strict=True)) == expected(found), key
        assert key["first_ns"] == found[0].time_ns
        compared += 1
        packets += min(len(found), DEPTH)
    print(f"{path.name}: {compared} of {len(table)} flows, {packets} packets")
    assert compared > len(table) * 0.6
    columns = [NUMBERS.index(name) for name in ("pkt1_gap_ns", "pkt1_direction", "server_port")]
    assert all(len(set(numbers[:, column])) > 1 for column in columns)


def test_every_flow_is_a_row_with_the_bits_that_the_command_prints() -> None:
    blocks = ["udp", "ipv4", "ipv6", "icmp", "tcp"]
    features = FlowFeatures(blocks=blocks, payload_bytes=3, packets=4)
    table = first_packets(DEMO, features)
    options = ("-4", "-6", "-t", "-u", "--icmp", "-p", "3", "--depth", "4")
    printed = run("nprint", "-q", "-r", DEMO, *options).rows
    keys = table.keys()
    pairs = {name: name for name in ("src_ip", "src_port", "packets", "protocol")}
    for ours, theirs in pairs.items():
        assert [str(value) for value in keys[ours]] == [row[theirs] for row in printed]
    names = [name for name in printed[0] if name.startswith("pkt")]
    assert features.bit_columns() == names
    wanted = numpy.array([[int(row[name]) for name in names] for row in printed], dtype=numpy.int8)
    assert (numpy.asarray(table.bits(names)) == wanted).all()
    some = names[::-7]
    assert (numpy.asarray(table.bits(some)) == wanted[:, ::-7]).all()
    # Which bits change, in all rows and in some.
    chosen = numpy.arange(len(table)) % 3 == 0
    for rows in (numpy.ones(len(table), dtype=bool), chosen):
        part = wanted[rows]
        varies = (part != part[0]).any(axis=0)
        assert table.varying_bits(rows) == [n for n, v in zip(names, varies, strict=True) if v]
    assert table.varying_bits() == table.varying_bits([True] * len(table))
    told = run("nprint", "--schema", *options).stdout.decode()
    assert (features.schema(), features.hash()) == tuple(told.strip().split("sha256 "))
    # Each of the flows that the flow table has.
    flows = wirelens.flows(DEMO)
    assert [flow.community_id for flow in flows] == keys["community_id"]
    assert table.counts["ended"] == flows.counts["ended"]
    sums = [flow.src_bytes + flow.dst_bytes for flow in wirelens.flows(DEMO)]
    assert keys["bytes"] == sums and set(keys["long_packets"]) == {0}


def test_captures_are_read_one_after_the_other() -> None:
    alone = [first_packets(path, ALL, seed=1) for path in (CALLS, SERVICES)]
    both = first_packets([CALLS, SERVICES], ALL, seed=99)
    assert [Path(file) for file in both.files] == [CALLS, SERVICES]
    assert both.keys()["file"] == [0] * len(alone[0]) + [1] * len(alone[1])
    assert both.records == b"".join(table.records for table in alone)
    assert both.numbers.tobytes() == b"".join(table.numbers.tobytes() for table in alone)
    assert both.counts["received"] == sum(table.counts["received"] for table in alone)
    folder = first_packets(ROOT / "testdata/testbed", ALL)
    assert both.files[0] in folder.files and len(folder.files) > 5
    at = folder.files.index(str(SERVICES))
    assert folder.keys()["file"].count(at) == len(alone[1])


def test_fewer_packets_are_the_beginning_of_more() -> None:
    table = first_packets(DEMO, ALL)
    few = first_packets(DEMO, ALL.first(2))
    later = {f"pkt{packet}" for packet in range(2, DEPTH)}
    assert few.features.numbers == tuple(name for name in NUMBERS if name[:4] not in later)
    assert table.records_of(2) == few.records
    assert table.numbers_of(few.features.numbers).tobytes() == few.numbers.tobytes()
    bits = few.features.bit_columns([1])
    assert table.bits(bits).tobytes() == few.bits(bits).tobytes()
    assert ALL.first(2).header_bits().hash() == ALL.first(2).hash() != ALL.hash()
    # Blocks and numbers are what they are, in whatever they were given.
    assert FlowFeatures(blocks=["ipv4"]) == FlowFeatures(blocks=("ipv4",))


def test_what_cannot_be_is_named(tmp_path: Path) -> None:
    for wanted, options in {
        "packets: 0; wanted: a number from 1 to 255": {"packets": 0},
        "`-1`: wanted a number from 0": {"packets": -1},
        'blocks: "http"; wanted: ipv4': {"blocks": ["http"]},
        "blocks: none, and no payload": {"blocks": []},
        'headers: "inner"; wanted: innermost or outermost': {"headers": "inner"},
        "pkt1_byte_0 is of a byte that is not read": {"numbers": ["pkt1_byte_0"]},
        '"pkt0_size" is none; wanted: protocol': {"numbers": ["pkt0_size"]},
    }.items():
        with pytest.raises(wirelens.OptionError) as refusal:
            FlowFeatures(**options)
        assert wanted in str(refusal.value)
    table = first_packets(DEMO, FlowFeatures(packets=1, numbers=["protocol"]))
    with pytest.raises(wirelens.OptionError, match="pkt1_tcp_syn_0: no column of the features"):
        table.bits(["pkt0_tcp_syn_0", "pkt1_tcp_syn_0"])
    with pytest.raises(wirelens.OptionError, match='"server_port" was not read'):
        table.numbers_of(["server_port"])
    with pytest.raises(wirelens.OptionError, match="wanted: 312, one for each row"):
        table.varying_bits([True])
    with pytest.raises(wirelens.OptionError, match="packets: `2`"):
        table.records_of(2)
    with pytest.raises(wirelens.CaptureNotFoundError):
        first_packets([DEMO, tmp_path / "nothing.pcap"], ALL)
    with pytest.raises(wirelens.FilterError):
        first_packets(DEMO, ALL, filter="tcp and")


def test_a_capture_without_flows_gives_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "arp.pcap"
    write_pcap(path, [Frame(1, bytes(12) + b"\x08\x06" + bytes(28), 42)])
    table = first_packets(path, ALL)
    assert len(table) == 0 and table.records == b"" and not table.varying_bits()
    assert table.numbers.tolist() == table.bits(["pkt0_tcp_syn_0"]).tolist() == []
    assert table.keys()["src_ip"] == [] and table.counts["without_key"] == 1
    # A damaged capture gives the rows before the damage, and says so.
    damaged = tmp_path / "damaged.pcapng"
    damaged.write_bytes(DEMO.read_bytes()[:1_000_000])
    with pytest.warns(wirelens.DamagedCaptureWarning, match="damaged.pcapng"):
        table = first_packets([DEMO, damaged], ALL)
    assert 0 < table.keys()["file"].count(1) < table.keys()["file"].count(0)
    # Filtered, and cut short.
    tcp = first_packets(DEMO, ALL, filter="tcp", snaplen=60)
    assert set(tcp.keys()["protocol"]) == {"tcp"}
    assert set(numpy.asarray(tcp.numbers_of(["pkt3_byte_7"])).ravel()) == {-1.0}


def test_the_examples_are_true(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    failed, attempted = doctest.testmod(features_module)
    assert failed == 0 and attempted > 3
