"""Flows find their labels, whichever way they are written down; what does not match is told."""

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import wirelens
from captures import Frame, write_pcap
from command import DEMO
from home import ONE
from wirelens import OptionError
from wirelens.classify.features import FlowFeatures, first_packets
from wirelens.classify.labels import (
    CaptureNames,
    FlowLabel,
    LabelTable,
    flow_key,
    match,
    protocol_number,
    read_families,
    read_labels,
)

CAPTURES = [Path("/data/a/one.pcap"), Path("/data/b/two.pcapng.gz")]
WEB = flow_key(6, "192.0.2.1", 50000, "198.51.100.7", 443)
DNS = flow_key(17, "192.0.2.1", 50001, "198.51.100.7", 53)


def table(folder, text, name="flows.tsv", **options):
    path = folder / name
    path.write_text(text.replace(" ", "\t"), encoding="utf-8")
    return read_labels(path, **options)


def test_either_direction_matches(tmp_path):
    labels = table(
        tmp_path,
        "proto src sport dst dport label\n"
        "TCP 198.51.100.7 443 192.0.2.1 50000 web\n"
        "17 192.0.2.1 50001 198.51.100.7 53 dns\n",
    )
    found = match(labels, CAPTURES, [(0, WEB, 5), (1, DNS, 5)])
    assert found.labels == ["web", "dns"]
    assert found.messages() == []


def test_a_row_that_names_a_capture_is_for_its_flows_only(tmp_path):
    labels = table(
        tmp_path,
        "file proto src sport dst dport app\n"
        "one.pcap tcp 192.0.2.1 50000 198.51.100.7 443 mail\n"
        "b/two.pcapng tcp 192.0.2.1 50000 198.51.100.7 443 web\n",
        label="app",
    )
    found = match(labels, CAPTURES, [(0, WEB, 5), (1, WEB, 5)])
    assert found.labels == ["mail", "web"]


def test_times_tell_flows_of_the_same_ends_apart(tmp_path):
    labels = table(
        tmp_path,
        "protocol src_ip src_port dst_ip dst_port first_ns last_ns label\n"
        "tcp 192.0.2.1 50000 198.51.100.7 443 1000000 2000000 early\n"
        "tcp 192.0.2.1 50000 198.51.100.7 443 9000000 9900000 late\n",
    )
    found = match(labels, CAPTURES, [(0, WEB, 1_000_000), (0, WEB, 9_500_000), (0, WEB, 5_000_000)])
    assert found.labels == ["early", "late", None]


def test_a_row_of_one_time_is_for_the_flow_that_began_then_else_for_one_that_lasted_then(tmp_path):
    labels = table(
        tmp_path,
        "protocol src_ip src_port dst_ip dst_port first_ns last_ns label\n"
        "tcp 192.0.2.1 50000 198.51.100.7 443 5000000 5000000 early\n"
        "tcp 192.0.2.1 50000 198.51.100.7 443 9000000 9000000 late\n",
    )
    # Packets of the first were read out of order; the second lasts beyond both times.
    flows = [(0, WEB, 4_000_000), (0, WEB, 9_000_500), (0, WEB, 10_000_000), (1, WEB, 5_002_000)]
    found = match(labels, CAPTURES, flows, last_ns=[6_000_000, 12_000_000, 11_000_000, 6_000_000])
    assert found.labels == ["early", "late", None, None]
    assert match(labels, CAPTURES, flows).labels == [None, "late", None, None]
    # One that lasted at both times is of neither.
    found = match(labels, CAPTURES, [(0, WEB, 4_000_000)], last_ns=[9_500_000])
    assert found.labels == [None] and len(found.ambiguous) == 1
    ranges = table(
        tmp_path,
        "protocol src_ip src_port dst_ip dst_port first_ns last_ns label\n"
        "tcp 192.0.2.1 50000 198.51.100.7 443 5000000 5500000 early\n",
    )
    assert match(ranges, CAPTURES, [(0, WEB, 4_000_000)], last_ns=[6_000_000]).labels == [None]


def test_a_verdict_on_a_flow_that_is_out_of_order_labels_it(tmp_path):
    data = ONE.tcp(0x18, 1, b"x", 80)
    frames = [Frame(ns, data, 60) for ns in (9_000_000, 2_000_000, 12_000_000)]
    write_pcap(tmp_path / "a.pcap", frames)
    (verdict,) = wirelens.classify_flows(tmp_path / "a.pcap", "services")
    assert verdict.first_ns == 9_000_000
    keys = first_packets(tmp_path / "a.pcap", FlowFeatures(packets=1)).keys()
    ends = (keys[name][0] for name in ("src_ip", "src_port", "dst_ip", "dst_port"))
    (first,), (last,) = keys["first_ns"], keys["last_ns"]
    row = FlowLabel(2, None, flow_key(6, *ends), "lamp", verdict.first_ns, verdict.first_ns)
    found = match(LabelTable("t", [row]), [Path("a.pcap")], [(0, row.key, first)], None, [last])
    assert found.labels == ["lamp"] and first == 2_000_000


def test_what_does_not_match_is_told_by_count_and_example(tmp_path):
    labels = table(
        tmp_path,
        "file proto src sport dst dport label\n"
        "one.pcap tcp 192.0.2.1 50000 198.51.100.7 443 web\n"
        "one.pcap tcp 192.0.2.1 1 198.51.100.7 2 web\n"
        "three.pcap tcp 192.0.2.1 1 198.51.100.7 2 web\n"
        "two.pcapng udp 192.0.2.1 50001 198.51.100.7 53 dns\n"
        "two.pcapng udp 198.51.100.7 53 192.0.2.1 50001 voice\n",
    )
    found = match(labels, CAPTURES, [(0, WEB, 5), (0, DNS, 5), (1, DNS, 5)])
    assert found.labels == ["web", None, None]
    assert [row.line for row in found.unmatched] == [3, 4]
    told = found.messages()
    assert told[0].startswith("2 of 5 labels match no flow, such as protocol 6 192.0.2.1 port 1 ")
    assert "three.pcap (web, line 4)" in told[0]
    assert told[1].startswith("1 of 3 flows have no label and are left out, such as protocol 17")
    assert "conflicting labels" in told[2] and "(dns, voice)" in told[2]


def test_times_of_parquet_files_are_nanoseconds_whatever_their_unit(tmp_path):
    """As `wirelens flows` writes them, and as what reads and writes its tables does."""
    import pyarrow
    import pyarrow.parquet

    path = tmp_path / "flows.parquet"
    wirelens.flows(DEMO).to_parquet(path)
    flows = pyarrow.parquet.read_table(path)
    flows = flows.append_column("label", [["web"] * flows.num_rows])
    pyarrow.parquet.write_table(flows, path)
    labels = read_labels(path)
    first = flows["first_ns"].cast("int64").to_pylist()
    assert [row.first_ns for row in labels.rows] == first
    times = pyarrow.array([10**15, None], pyarrow.timestamp("us"))
    columns = {"file": ["a.pcap"] * 2, "label": ["web"] * 2, "first_ns": times}
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    assert [row.first_ns for row in read_labels(path).rows] == [10**18, None]


def test_a_parquet_file_is_a_table_as_well(tmp_path):
    import pyarrow
    import pyarrow.parquet

    columns = {
        "proto": [6], "src": ["192.0.2.1"], "sport": [50000], "dst": ["198.51.100.7"],
        "dport": [443], "label": ["web"], "first_ns": pyarrow.array([None], pyarrow.int64()),
    }  # fmt: skip
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "flows.parquet")
    labels = read_labels(tmp_path / "flows.parquet")
    assert match(labels, CAPTURES, [(0, WEB, 5)]).labels == ["web"]


def test_a_table_of_captures_labels_all_their_flows(tmp_path):
    labels = table(tmp_path, "file label\none.pcap bulb\n")
    assert match(labels, CAPTURES, [(0, WEB, 5), (0, DNS, 5), (1, WEB, 5)]).labels == [
        "bulb",
        "bulb",
        None,
    ]


def test_protocols_without_ports_match_by_their_ends(tmp_path):
    labels = table(
        tmp_path,
        "proto src sport dst dport label\nICMPV6 [fe80::1] 0 [ff02::0002] 0 infra\n",
    )
    flow = (0, flow_key(58, "ff02::2", 133, "fe80::1", 134), 5)
    assert match(labels, CAPTURES, [flow]).labels == ["infra"]


def test_addresses_are_read_however_they_are_written(tmp_path):
    labels = table(
        tmp_path,
        "proto src sport dst dport label\n"
        # As nDPI writes 2600:1901:0:7a0b::
        "tcp [2600:1901::7a0b::] 443 2001:DB8:0:0::1 5000 web\n"
        "tcp nobody 1 192.0.2.1 2 web\n",
    )
    flow = (0, flow_key(6, "2001:db8::1", 5000, "2600:1901:0:7a0b::", 443), 5)
    found = match(labels, CAPTURES, [flow])
    assert found.labels == ["web"]
    assert [row.line for row in found.unmatched] == [3]
    assert "protocol 6 192.0.2.1 port 2 - nobody port 1" in found.messages()[0]


def test_flows_are_named_as_in_the_tables_of_the_command(tmp_path):
    rows = "tcp 192.0.2.1 50000 198.51.100.7 443 web\n"
    own = table(tmp_path, f"protocol src_ip src_port dst_ip dst_port label\n{rows}")
    older = table(tmp_path, f"proto src sport dst dport label\n{rows}")
    assert own.rows == older.rows and own.rows[0].key == WEB


def test_commas_do_as_well_and_blank_labels_are_counted(tmp_path):
    path = tmp_path / "flows.csv"
    path.write_text("Proto,src,sport,dst,dport,label\ntcp,192.0.2.1,1,192.0.2.2,2,\n")
    assert (read_labels(path).rows, read_labels(path).blank) == ([], 1)
    found = match(read_labels(path), CAPTURES, [(0, WEB, 5)])
    assert found.messages()[-1] == "1 rows of the table have no label"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("proto src sport dst label\ntcp 192.0.2.1 1 192.0.2.2 a\n", "no column dst_port"),
        ("name label\nx a\n", "no column protocol"),
        ("file kind\nx a\n", "no column label"),
        ("file label\n", "no rows"),
        ("proto src sport dst dport label\ntcp here 1 there 2 a\n", "no address in src or dst"),
        ("proto src sport dst dport label\nxyz 192.0.2.1 1 192.0.2.2 2 a\n", "protocol 'xyz'"),
        ("proto src sport dst dport label\ntcp 192.0.2.1 x 192.0.2.2 2 a\n", "line 2: .*'x'"),
        ("proto src sport dst dport label\ntcp 192.0.2.1 1 192.0.2.2 99999 a\n", "dst_port 99999"),
    ],
)
def test_a_table_that_cannot_be_meant_is_refused(tmp_path, text, message):
    with pytest.raises(OptionError, match=message):
        table(tmp_path, text)


def test_a_table_that_cannot_be_read_is_refused_in_a_line(tmp_path):
    for name, content, message in (
        ("lines.csv", b'file,label\nx,"a\nb"\n', "line 2: class 'a.nb'; wanted: a name in"),
        ("escape.csv", b"file,label\nx,\x1b[31mred\n", "class '.x1b.31mred'"),
        ("latin.tsv", b"file\tlabel\nx\tcaf\xe9\n", "not UTF-8 .byte 0xe9.; convert it"),
        ("long.csv", b"file,label\nx," + b"a" * 200_000 + b"\n", "field larger"),
        ("flows.parquet", b"no such thing", "wanted: a Parquet file"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(OptionError, match=message):
            read_labels(tmp_path / name)


def test_ports_may_be_written_as_floats_and_are_not_looked_at_where_there_are_none(tmp_path):
    labels = table(
        tmp_path,
        "proto src sport dst dport label\n"
        "tcp 192.0.2.1 50000.0 198.51.100.7 443.0 web\n"
        "icmp 192.0.2.1 type-8 198.51.100.7 99999 ping\n",
    )
    flows = [(0, WEB, 5), (0, flow_key(1, "192.0.2.1", 8, "198.51.100.7", 0), 5)]
    assert match(labels, CAPTURES, flows).labels == ["web", "ping"]


def test_captures_that_a_name_does_not_tell_apart_are_refused():
    names = CaptureNames([Path("/data/a/x.pcap"), Path("/data/b/x.pcap")])
    assert names.find("b/x.pcap") == 1
    assert names.find("y.pcap") is None
    with pytest.raises(OptionError, match="distinguish them"):
        names.find("x.pcap")


def test_a_name_is_of_the_capture_with_this_suffix_or_this_path():
    names = CaptureNames([Path("a/x.pcap"), Path("a/x.pcap.gz"), Path("b/a/x.pcap.gz")])
    assert [names.find(name) for name in ("x.pcap", "a/x.pcap", "b/a/x.pcap")] == [0, 0, 2]
    assert [names.find(name) for name in ("a/x.pcap.gz", "b/a/x.pcap.gz")] == [1, 2]
    with pytest.raises(OptionError, match="distinguish them"):
        names.find("x.pcap.gz")


def test_as_many_names_as_captures_are_found_in_little_time():
    captures = [Path(f"/data/run{run}/capture.pcapng.gz") for run in range(10_000)]
    names, began_s = CaptureNames(captures), time.process_time()
    found = [names.find(f"run{run}/capture.pcapng") for run in range(10_000)]
    assert found == list(range(10_000))
    # Each name compared with each capture takes minutes.
    assert time.process_time() - began_s < 5


def test_families_come_from_a_column_or_from_the_note(tmp_path):
    path = tmp_path / "m.tsv"
    path.write_text("file\tnote\na.pcap\tmade family=ndpi:a.pcap; and more\n")
    assert read_families(path) == {"a.pcap": "ndpi:a.pcap"}
    path.write_text("file\tsite\na.pcap\thome\n")
    assert read_families(path, "site") == {"a.pcap": "home"}
    with pytest.raises(OptionError, match="wanted: file, and family or note"):
        read_families(path)
    path.write_text("file\tfamily\na.pcap\thome\na.pcap\thome\na.pcap\toffice\n")
    with pytest.raises(OptionError, match="line 4: a.pcap is of office, and of home before"):
        read_families(path)


def test_protocols_have_names_or_numbers():
    assert [protocol_number(text) for text in ("TCP", "ipv6-icmp", "132")] == [6, 58, 132]
    with pytest.raises(OptionError, match="below 256"):
        protocol_number("256")


def test_without_the_extra_the_line_that_installs_it_is_told():
    program = (
        "import sys; sys.modules['numpy'] = None\n"
        "from wirelens.classify.__main__ import main; sys.exit(main(['train']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 1
    assert done.stderr.decode() == (
        "error: wirelens.classify needs numpy, which is not installed; "
        "install it from a clone of Wirelens, in its folder: "
        f"{sys.executable} -m pip install '.[train]'\n"
    )


LAMP, SOCKET, ROUTER = "00:17:88:21:3f:4d", "50:c7:bf:00:01:02", "20:e5:2a:c8:6a:01"


def test_a_unit_is_found_by_its_hardware_address(tmp_path):
    labels = table(tmp_path, "mac label\n0017.8821.3F4D lamp\n50-C7-BF-00-01-02 socket\n")
    flows = [(0, WEB, 5), (1, DNS, 5), (0, DNS, 5), (0, WEB, 5)]
    macs = [(LAMP, ROUTER), (ROUTER, SOCKET), (LAMP, SOCKET), (ROUTER, None)]
    found = match(labels, CAPTURES, flows, macs)
    assert found.labels == ["lamp", "socket", None, None]
    assert len(found.ambiguous) == 1 and found.unmatched == []


def test_an_address_comes_before_a_unit_and_a_unit_before_a_capture(tmp_path):
    labels = table(
        tmp_path,
        "file,mac,protocol,src_ip,src_port,dst_ip,dst_port,label\n"
        f",{LAMP},,,,,,lamp\none.pcap,{SOCKET},,,,,,socket\none.pcap,,,,,,,rest\n",
    )
    found = match(
        labels,
        CAPTURES,
        [(0, WEB, 5), (0, WEB, 5), (1, WEB, 5), (0, DNS, 5)],
        [(LAMP, ROUTER), (SOCKET, ROUTER), (SOCKET, ROUTER), (ROUTER, ROUTER)],
    )
    assert found.labels == ["lamp", "socket", None, "rest"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("mac label\n00:17:88 lamp\n", "line 2: mac '00:17:88'; wanted: such as"),
        ("file mac label\n  lamp\n", "line 2: neither file nor mac; wanted: one of them"),
    ],
)
def test_a_unit_without_an_address_is_refused_with_its_line(tmp_path, text, complaint):
    with pytest.raises(OptionError, match=complaint):
        table(tmp_path, text)


def test_flows_carry_the_addresses_of_their_first_packet(tmp_path):
    write_pcap(tmp_path / "home.pcap", ONE.frames())
    keys = first_packets(tmp_path / "home.pcap", FlowFeatures(packets=1)).keys()
    assert set(keys["src_mac"]) == {LAMP}
    assert {"33:33:ff:21:3f:4d", "ff:ff:ff:ff:ff:ff", ROUTER} <= set(keys["dst_mac"])
    write_pcap(tmp_path / "raw.pcap", [Frame(5, ONE.frames()[1].data[14:], 323)], link=101)
    keys = first_packets(tmp_path / "raw.pcap", FlowFeatures(packets=1)).keys()
    assert [*keys["src_mac"], *keys["dst_mac"]] == [None, None]


@pytest.mark.train
def test_a_model_is_trained_with_labels_by_mac(tmp_path):
    """Two lamps and two sockets in one capture; addresses find labels and are no feature."""
    names = ("lamp", "socket") * 2
    macs = [f"0200000000{number:02x}" for number in range(4)]
    for capture in range(6):
        frames = []
        for number, (name, mac) in enumerate(zip(names, macs, strict=True)):
            home = replace(ONE, lamp=bytes.fromhex(mac), number=20 + number)
            data = f"GET /{name}/on HTTP/1.1\r\n".encode()
            frames += [Frame(capture * 10**12 + number, home.tcp(0x18, 1, data, 80), 200)]
        write_pcap(tmp_path / f"{capture}.pcap", frames)
    units = "".join(f"{mac}\t{name}\n" for mac, name in zip(macs, names, strict=True))
    (tmp_path / "units.tsv").write_text(f"mac\tlabel\n{units}", encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "wirelens.classify",
        "train",
        "-q",
        "-o",
        "out",
        "--flows-min",
        "2",
        *(f"-r={capture}.pcap" for capture in range(6)),
        "--families",
        "decision-tree",
        "--depths",
        "1",
        "--identity",
        "masked",
        "--payload-bytes",
        "16",
        "--blocks",
        "tcp",
        "--numbers",
        "size_bytes,byte:0-15",
        "--set",
        "decision-tree.min_samples_leaf=1",
    ]
    ran = subprocess.run(
        [*command, "--labels-by-mac", "units.tsv"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    head = json.loads((tmp_path / "out/cascade.json").read_text(encoding="utf-8"))
    assert head["training"]["flows_by_class"] == {"lamp": 12, "socket": 12}
    assert head["profile"]["macro_f1"] == 1.0
    trees = (tmp_path / "out" / head["stages"][-1]["file"]).read_text(encoding="utf-8")
    assert '"identity":"masked"' in trees.partition("\n")[0]
    both = subprocess.run(
        [*command, "--labels-by-mac", "units.tsv", "--flows", "units.tsv"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert both.returncode == 2 and "--labels-by-mac with --flows; wanted: one" in both.stderr
