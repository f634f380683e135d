"""`wirelens nprint` writes the bits that are in the packets, under nPrint's names.

Every bit of the capture that ships is held against the fields that tshark finds, a decoder that
shares nothing with ours. What nPrint itself printed for captures that may not be passed on is
compared value by value; where rows differ on purpose, the reason stands beside the capture, and
all its other rows must be the same. The formats and the two kinds of rows are held to one another.
"""

import csv
import gzip
import io
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import numpy
import pyarrow.parquet
import pytest
from command import DEMO, ENVIRONMENT, ROOT, WIDE_DATA, wirelens
from wirelens.classify.features import FlowFeatures, first_packets

# nPrint's field, tshark's, and how tshark writes it.
FIELDS = {
    6: {
        "tcp_sprt": "tcp.srcport", "tcp_dprt": "tcp.dstport", "tcp_seq": "tcp.seq_raw",
        "tcp_ackn": "tcp.ack_raw", "tcp_wsize": "tcp.window_size_value",
        "tcp_cksum": "tcp.checksum", "tcp_urp": "tcp.urgent_pointer", "tcp_fin": "tcp.flags.fin",
        "tcp_syn": "tcp.flags.syn", "tcp_rst": "tcp.flags.reset", "tcp_psh": "tcp.flags.push",
        "tcp_ackf": "tcp.flags.ack", "tcp_urg": "tcp.flags.urg", "tcp_ece": "tcp.flags.ece",
        "tcp_cwr": "tcp.flags.cwr", "tcp_ns": "tcp.flags.ae",
    },
    17: {
        "udp_sport": "udp.srcport", "udp_dport": "udp.dstport", "udp_len": "udp.length",
        "udp_cksum": "udp.checksum",
    },
    1: {"icmp_type": "icmp.type", "icmp_code": "icmp.code", "icmp_cksum": "icmp.checksum"},
    "ip": {
        "ipv4_ver": "ip.version", "ipv4_tos": "ip.dsfield", "ipv4_tl": "ip.len",
        "ipv4_id": "ip.id", "ipv4_rbit": "ip.flags.rb", "ipv4_dfbit": "ip.flags.df",
        "ipv4_mfbit": "ip.flags.mf", "ipv4_foff": "ip.frag_offset", "ipv4_ttl": "ip.ttl",
        "ipv4_proto": "ip.proto", "ipv4_cksum": "ip.checksum", "ipv4_src": "ip.src",
        "ipv4_dst": "ip.dst",
    },
    "ipv6": {
        "ipv6_ver": "ipv6.version", "ipv6_tc": "ipv6.tclass", "ipv6_fl": "ipv6.flow",
        "ipv6_len": "ipv6.plen", "ipv6_nh": "ipv6.nxt", "ipv6_hl": "ipv6.hlim",
        "ipv6_src": "ipv6.src", "ipv6_dst": "ipv6.dst",
    },
}  # fmt: skip
ALL = ("-4", "-6", "-t", "-u", "--icmp", "-p", "8")
REFERENCE = WIDE_DATA / "nprint-reference"

# Later fragments carry no ports and no UDP header, whose place nPrint fills with what lies there;
# behind an IPv6 fragment header nPrint does not look, so that it prints no row.
FRAGMENTS = "fragments: nPrint takes a later one for a whole packet, and knows none of IPv6"
CAPTURES_THAT_DIFFER = {"ntop__dns_fragmented": FRAGMENTS}
NO_LATER_FRAGMENT = "ip[6:2] & 0x1fff = 0 or (ip6 and ip6[6] != 44)"


def number(text: str) -> int:
    """A field's value, as tshark writes numbers, addresses and truth."""
    if text in ("True", "False"):
        return int(text == "True")
    if "." in text or ":" in text:
        return int(ip_address(text))
    return int(text, 0)


def tshark_rows() -> Iterator[dict[str, str]]:
    """The first value of every field, of frames that carry TCP, UDP or ICMP over IP."""
    names = [name for fields in FIELDS.values() for name in fields.values()]
    names += ["ip.hdr_len", "tcp.hdr_len", "tcp.options", "tcp.payload", "udp.payload"]
    names += ["ipv6.fraghdr.nxt", "ipv6.fraghdr.offset"]
    command = ["tshark", "-n", "-r", str(DEMO), "-E", "occurrence=f", "-E", "header=y"]
    for option in ("ip.defragment", "ipv6.defragment", "tcp.desegment_tcp_streams"):
        command += ["-o", f"{option}:FALSE"]
    for dissector in ("tls", "http", "dns", "ssh", "quic"):
        command += ["--disable-protocol", dissector]
    command += ["-T", "fields", *(word for name in names for word in ("-e", name))]
    told = subprocess.run(command, capture_output=True, check=True, env=ENVIRONMENT).stdout
    for row in csv.DictReader(io.StringIO(told.decode()), delimiter="\t"):
        if protocol_of(row) in ("1", "6", "17"):
            yield row


def protocol_of(told: dict[str, str]) -> str:
    """What the packet carries; an error message quotes another, which does not count."""
    return told["ip.proto"] if told["ip.hdr_len"] else told["ipv6.fraghdr.nxt"] or told["ipv6.nxt"]


def field(row: dict[str, int], name: str) -> int | None:
    """A field's bits as a number; nothing where it is absent as a whole."""
    bits = []
    while (bit := row.get(f"{name}_{len(bits)}")) is not None:
        bits.append(bit)
    assert bits, name
    if all(bit == -1 for bit in bits):
        return None
    assert all(bit in (0, 1) for bit in bits), (name, bits)
    return int("".join(map(str, bits)), 2)


def leading_bytes(row: dict[str, int], name: str, length: int) -> bytes:
    """The bytes of a field that are there, which are followed by none."""
    bits = [row[f"{name}_{place}"] for place in range(length * 8)]
    there = bits.index(-1) if -1 in bits else len(bits)
    assert there % 8 == 0 and all(bit == -1 for bit in bits[there:]), (name, bits)
    text = "".join(map(str, bits[:there]))
    return bytes(int(text[at : at + 8], 2) for at in range(0, there, 8))


def bit_rows(*arguments: str | Path) -> list[dict[str, str]]:
    ran = wirelens("nprint", "-q", "-r", DEMO, *arguments)
    assert ran.status == 0, ran.stderr
    return ran.rows


def test_every_field_is_the_one_that_tshark_finds() -> None:
    ours = bit_rows(*ALL, "-O", "flow")
    theirs = list(tshark_rows())
    assert len(ours) == len(theirs) > 4000
    seen: defaultdict[str, set[int | None]] = defaultdict(set)
    for row, told in zip(ours, theirs, strict=True):
        bits = {name: int(value) for name, value in row.items() if name != "flow"}
        network = "ip" if told["ip.hdr_len"] else "ipv6"
        is_later = int(told["ip.frag_offset"] or told["ipv6.fraghdr.offset"] or 0) > 0
        protocol = None if is_later else int(protocol_of(told))
        for layer, fields in FIELDS.items():
            for name, of_tshark in fields.items():
                is_there = layer in (network, protocol)
                expected = number(told[of_tshark]) if is_there else None
                assert field(bits, name) == expected, (name, told)
                seen[name].add(expected)
        if protocol == 6:
            assert field(bits, "tcp_doff") == int(told["tcp.hdr_len"]) // 4
            options = bytes.fromhex(told["tcp.options"])
            assert leading_bytes(bits, "tcp_opt", 40) == options
        payloads = {6: told["tcp.payload"], 17: told["udp.payload"]}
        if protocol in payloads:
            payload = bytes.fromhex(payloads[protocol])[:8]
            assert leading_bytes(bits, "payload_bit", 8) == payload
    constant = {name for name, values in seen.items() if len(values - {None}) < 2}
    assert not constant & {"tcp_seq", "ipv4_id", "udp_len", "icmp_type", "ipv6_src", "tcp_psh"}


def test_rows_are_named_as_nprint_names_them() -> None:
    flows = [row["flow"] for row in bit_rows("--icmp", "-O", "4")]
    places = {"src_ip": 0, "dst_ip": 1, "src_prt": 2, "dst_prt": 3}
    for number_of, (name, place) in enumerate(places.items()):
        for index in (name, str(number_of)):
            rows = bit_rows("--icmp", "-O", index)
            assert [row[name] for row in rows] == [flow.split("_")[place] for flow in flows]
    assert {flow.rsplit("_", 1)[1] for flow in flows} == {"TCP", "UDP", "NULL"}


def test_every_format_has_the_same_values(tmp_path: Path) -> None:
    for depth in ((), ("--depth", "3")):
        arguments = (*ALL, *depth, "--no-ports", "-x", "_opt_", "-F", "7")
        rows = bit_rows(*arguments)
        paths = [tmp_path / f"bits-{len(depth)}.{suffix}" for suffix in ("parquet", "npy")]
        for path in paths:
            ran = wirelens("nprint", "-q", "-r", DEMO, *arguments, "-o", path)
            assert ran.status == 0, ran.stderr
        table = pyarrow.parquet.read_table(paths[0])
        assert table.column_names == list(rows[0])
        bits = [name for name in table.column_names if str(table.schema.field(name).type) == "int8"]
        index = [name for name in table.column_names if name not in bits]
        expected = numpy.array([[int(row[name]) for name in bits] for row in rows])
        columns = [table.column(name).to_numpy() for name in bits]
        assert (numpy.stack(columns, axis=1) == expected).all()
        matrix = numpy.load(paths[1], mmap_mode="r")
        assert matrix.dtype == numpy.int8 and (matrix == expected).all()
        with paths[1].with_suffix(".npy.index.csv").open() as file:
            beside = list(csv.DictReader(file))
        assert beside == [{name: row[name] for name in index} for row in rows]
        assert 7 in expected and -1 not in expected


def test_a_flow_has_the_rows_of_its_first_packets() -> None:
    depth = 4
    by_flow: defaultdict[frozenset[tuple[str, str]], list[list[str]]] = defaultdict(list)
    for row in bit_rows("-O", "flow"):
        source, destination, source_port, destination_port, _ = row.pop("flow").split("_")
        key = frozenset([(source, source_port), (destination, destination_port)])
        by_flow[key].append(list(row.values()))
    rows = bit_rows("--depth", str(depth))
    flows = wirelens("flows", "-q", "-r", DEMO, "--format", "csv").rows
    both = ("community_id", "protocol", "src_ip", "src_port", "dst_ip", "dst_port", "first_ns")
    assert [[row[name] for name in both] for row in rows] == [
        [row[name] for name in both] for row in flows
    ]
    compared = 0
    for row, flow in zip(rows, flows, strict=True):
        packets = int(flow["src_packets"]) + int(flow["dst_packets"])
        assert int(row["packets"]) == packets
        ends = [(row["src_ip"], row["src_port"]), (row["dst_ip"], row["dst_port"])]
        found = by_flow.get(frozenset(ends), [])
        if row["protocol"] not in ("tcp", "udp") or len(found) != packets:
            continue
        width = len(found[0])
        expected = [value for packet in found[:depth] for value in packet]
        expected += ["-1"] * (width * depth - len(expected))
        assert [value for name, value in row.items() if name.startswith("pkt")] == expected
        compared += 1
    assert compared > 200


def test_sequences_are_those_of_the_packets(tmp_path: Path) -> None:
    depth = 5
    rows = bit_rows("--depth", str(depth), "--sequences")
    numbers = [f"pkt{packet}_{name}" for packet in range(depth)
               for name in ("size_bytes", "direction", "gap_ns")]  # fmt: skip
    assert [name for name in rows[0] if name.startswith("pkt")] == numbers
    # In Python they are rounded to 32 bits.
    table = first_packets(DEMO, FlowFeatures(packets=depth, numbers=numbers))
    exact = [[int(row[name]) for name in numbers] for row in rows]
    assert numpy.float32(exact).tolist() == table.numbers.tolist()
    assert any(value != int(numpy.float32(value)) for row in exact for value in row)
    keys = table.keys()
    assert [row["community_id"] for row in rows] == keys["community_id"]
    path = tmp_path / "steps.parquet"
    asked = ("nprint", "-q", "-r", DEMO, "--depth", str(depth), "--sequences")
    assert wirelens(*asked, "-o", path).status == 0
    written = pyarrow.parquet.read_table(path).select(numbers)
    assert [list(row.values()) for row in written.to_pylist()] == exact
    refused = wirelens(*asked, "-o", tmp_path / "steps.npy")
    assert refused.status == 2 and "--sequences: a matrix holds bits" in refused.stderr
    assert wirelens(*asked, "--tcp").status == 2


def test_a_schema_names_the_columns_and_its_hash() -> None:
    from hashlib import sha256

    for arguments in ((), ("--depth", "2", "--no-addresses"), ("--no-decap", "-6", "-F", "0")):
        told = wirelens("nprint", "--schema", *arguments).stdout.decode()
        text, _, last = told.rpartition("sha256 ")
        assert last.strip() == sha256(text.encode()).hexdigest()
        columns = text.split("\n")[6:-1]
        names = [name for name in bit_rows(*arguments)[0] if name[:4] in ("ipv4", "ipv6", "pkt0")
                 or name[:3] in ("tcp", "udp")]  # fmt: skip
        assert columns == [name.removeprefix("pkt0_") for name in names]
    told = wirelens("nprint", "--schema", "--depth", "3", "--sequences").stdout.decode()
    assert "layout sequence steps=3 channels=3 pad=0\ndtype i64\n" in told
    page = (ROOT / "docs/specs/feature-schema.md").read_text()
    told = wirelens("nprint", "--schema").stdout.decode()
    assert told.rpartition("sha256 ")[2].strip() in page


def printed(name: str, *expression: str) -> list[str]:
    """Our lines, asked as nPrint was."""
    capture = WIDE_DATA / "services" / f"{name}.pcap"
    ran = wirelens("nprint", "-q", "--no-decap", *"-4 -t -u -O 4 -r".split(), capture, *expression)
    assert ran.status == 0, ran.stderr
    return ran.stdout.decode().splitlines()


@pytest.mark.wide
def test_captures_are_printed_as_nprint_prints_them() -> None:
    references = sorted(REFERENCE.glob("*.csv.gz"))
    if not references:
        pytest.skip(f"nothing that nPrint printed at {REFERENCE}; see CONTRIBUTING.md")
    differing = set()
    rows = 0
    for reference in references:
        name = reference.name.removesuffix(".csv.gz")
        theirs = gzip.open(reference, "rt").read().splitlines()
        rows += len(theirs) - 1
        if printed(name) == theirs:
            continue
        differing.add(name)
        assert name in CAPTURES_THAT_DIFFER, name
        columns = theirs[0].split(",")
        places = [place for place, column in enumerate(columns) if "ipv4_foff_" in column]
        whole = [line for line in theirs[1:]
                 if not any(line.split(",")[place] == "1" for place in places)]  # fmt: skip
        assert len(whole) < len(theirs) - 1
        assert printed(name, NO_LATER_FRAGMENT) == [theirs[0], *whole]
    assert differing == set(CAPTURES_THAT_DIFFER) and rows > 3000
