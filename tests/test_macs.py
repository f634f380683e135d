"""`--macs`: the MAC addresses of a flow, as tshark has them, in rows, in records of other tools,
and with their vendors."""

import json
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
from captures import Frame, write_pcap
from command import DEMO, ROOT, Ran, wirelens
from reference import Tshark

SCHEMA = json.loads((ROOT / "testdata/suricata-eve.schema.json").read_text())
OUI = "00-00-5E   (hex)\t\tICANN, IANA Department\n02-00-00   (hex)\t\tNobody\n"
ICANN = [bytes.fromhex(f"00005e0053{last:02x}") for last in (1, 2, 3)]
SLL, SLL2, RAW = 113, 276, 101


@pytest.fixture(scope="module")
def tshark() -> Iterator[Tshark]:
    started = Tshark()
    yield started
    started.close()


def rows(capture: Path, *arguments: str) -> list[dict[str, str]]:
    ran = wirelens("flows", "-q", "-r", capture, "--format", "csv", *arguments)
    assert ran.status == 0, ran.stderr
    return ran.rows


def packet(source: int, destination: int, sport: int, dport: int) -> bytes:
    udp = struct.pack(">HHHH", sport, dport, 12, 0) + b"data"
    ends = bytes([192, 0, 2, source, 192, 0, 2, destination])
    return (
        struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0) + ends + udp
    )


def ask(of: int = 1) -> bytes:
    return packet(of, 9, 1000, 53)


def answer(of: int = 1) -> bytes:
    return packet(9, of, 53, 1000)


def ethernet(source: bytes, destination: bytes, inner: bytes) -> bytes:
    return destination + source + b"\x08\x00" + inner


def sll(kind: int, hardware: int, address: bytes, inner: bytes) -> bytes:
    padded = address.ljust(8, b"\0")
    return (
        struct.pack(">HHH", kind, hardware, len(address)) + padded + b"\x08\x00" + inner
    )


def sll2(kind: int, hardware: int, address: bytes, inner: bytes) -> bytes:
    head = struct.pack(">HHIHBB", 0x0800, 0, 2, hardware, kind, len(address))
    return head + address.ljust(8, b"\0") + inner


def capture(path: Path, frames: list[bytes], link: int = 1) -> Path:
    write_pcap(
        path, [Frame(10**9 + n, data, len(data)) for n, data in enumerate(frames)], link
    )
    return path


def text(address: bytes) -> str:
    return address.hex(":")


def test_each_flow_has_the_addresses_of_its_first_frame(tshark: Tshark) -> None:
    fields = ("communityid", "eth.src", "eth.dst", "ip.src", "ipv6.src")
    lines, _ = tshark.fields(DEMO, fields, "all")
    first: dict[str, tuple[str, ...]] = {}
    for ids, source, destination, *ips in lines:
        if ids and "," not in ids and source:
            first.setdefault(ids, (source, destination, ips[0] or ips[1]))
    compared = 0
    for row in rows(DEMO, "--macs", "--idle-timeout", "1h", "--no-decap"):
        assert row["src_mac"] and row["dst_mac"]
        found = first.get(row["community_id"])
        if found and found[2] == row["src_ip"]:
            assert (row["src_mac"], row["dst_mac"]) == found[:2], row
            compared += 1
    assert compared > 200


@pytest.mark.parametrize("more", [(), ("--stats",), ("--read-names",), ("--window", "1s"),
                                  ("--model", "services")])  # fmt: skip
def test_all_else_stays_as_it_is(more: tuple[str, ...]) -> None:
    with_macs, without = rows(DEMO, "--macs", *more), rows(DEMO, *more)
    for row, bare in zip(with_macs, without, strict=True):
        assert {"src_mac", "dst_mac"} == row.keys() - bare.keys()
        assert all(len(row.pop(name)) == 17 for name in ("src_mac", "dst_mac"))
        assert row == bare


def test_addresses_stay_those_of_the_first_frame(tmp_path: Path) -> None:
    one, two, three = ICANN
    there, back = ethernet(one, two, ask()), ethernet(three, one, answer())
    frames = [there, back, ethernet(two, three, ask())]
    (row,) = rows(capture(tmp_path / "moved.pcap", frames), "--macs")
    assert (row["src_mac"], row["dst_mac"]) == (text(one), text(two))
    # The first packet comes from the higher address.
    (row,) = rows(capture(tmp_path / "answer.pcap", frames[1:2]), "--macs")
    assert (row["src_ip"], row["src_mac"], row["dst_mac"]) == (
        "192.0.2.9",
        text(three),
        text(one),
    )


@pytest.mark.parametrize(("link", "header"), [(SLL, sll), (SLL2, sll2)])
def test_a_cooked_capture_has_senders_alone(tmp_path: Path, link: int, header) -> None:
    one, two, _ = ICANN
    frames = [
        header(4, 1, one, ask(1)), header(0, 1, two, answer(1)),
        header(4, 1, one, ask(2)),
        # An interface that is not Ethernet, such as loopback or a tunnel.
        header(0, 772, bytes(6), ask(3)), header(0, 1, one[:4], ask(4)),
    ]  # fmt: skip
    found = {
        row["src_ip"][-1]: (row["src_mac"], row["dst_mac"])
        for row in rows(capture(tmp_path / "any.pcap", frames, link), "--macs")
    }
    both, sender, none = (text(one), text(two)), (text(one), ""), ("", "")
    assert found == {"1": both, "2": sender, "3": none, "4": none}


def test_a_link_without_addresses_has_none(tmp_path: Path) -> None:
    (row,) = rows(capture(tmp_path / "raw.pcap", [ask()], RAW), "--macs")
    assert (row["src_mac"], row["dst_mac"]) == ("", "")
    (row,) = rows(tmp_path / "raw.pcap", "--names", "nfstream")
    assert (row["src_mac"], row["src_oui"]) == ("", "")


def test_nfstreams_columns_always_have_them() -> None:
    for row, ours in zip(
        rows(DEMO, "--names", "nfstream"), rows(DEMO, "--macs"), strict=True
    ):
        for side in ("src", "dst"):
            assert row[f"{side}_mac"] == ours[f"{side}_mac"]
            assert row[f"{side}_oui"] == ours[f"{side}_mac"][:8]


def test_records_of_other_tools_have_them(tmp_path: Path) -> None:
    one, two, _ = ICANN
    frames = [ethernet(one, two, ask()), ethernet(two, one, answer())]
    path = capture(tmp_path / "two.pcap", frames)
    ran = wirelens("flows", "-q", "-r", path, "--macs", "--format", "eve")
    (event,) = (
        json.loads(line) for line in ran.stdout.splitlines() if b'"flow"' in line
    )
    assert event["ether"] == {"src_macs": [text(one)], "dest_macs": [text(two)]}
    jsonschema.validate({k: v for k, v in event.items() if k != "wirelens"}, SCHEMA)
    logs = tmp_path / "logs"
    assert (
        wirelens(
            "flows", "-q", "-r", path, "--macs", "--format", "zeek", "-o", logs
        ).status
        == 0
    )
    lines = (logs / "conn.log").read_text().splitlines()
    (fields,) = (line.split("\t")[1:] for line in lines if line.startswith("#fields"))
    (conn,) = (line.split("\t") for line in lines if line[0] != "#")
    zeek = dict(zip(fields, conn, strict=True))
    assert (zeek["orig_l2_addr"], zeek["resp_l2_addr"]) == (text(one), text(two))


@pytest.mark.parametrize("more", [(), ("--biflow",)])
def test_ipfix_has_the_elements_of_iana(tmp_path: Path, more: tuple[str, ...]) -> None:
    one, two, _ = ICANN
    frames = [
        ethernet(one, two, ask()),
        ethernet(two, one, answer()),
        sll(0, 1, one, ask(2)),
    ]
    path, out = capture(tmp_path / "two.pcap", frames[:2]), tmp_path / "out.ipfix"
    ran = wirelens("flows", "-q", "-r", path, "--macs", "-o", out, *more)
    assert ran.status == 0, ran.stderr
    names = ("cflow.srcmac", "cflow.dstmac")
    done = subprocess.run(
        ["tshark", "-r", out, "-Y", "cflow", "-T", "fields", *(f"-e{name}" for name in names)],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    found = [tuple(column.split(",")) for line in done.stdout.splitlines() if line.strip()
             for column in line.split("\t")]  # fmt: skip
    ends = (text(one), text(two))
    both = [ends[:1], ends[1:]] if more else [ends, ends[::-1]]
    assert found == both, done.stdout


def run(folder: Path, settings: str) -> Ran:
    (folder / "wirelens.toml").write_text(settings)
    return wirelens("run", "-q", "-c", "wirelens.toml", cwd=folder)


def test_vendors_are_added_by_a_list_of_the_users(tmp_path: Path) -> None:
    one, two, _ = ICANN
    phone = bytes.fromhex("02000000000a")
    capture(
        tmp_path / "in.pcap", [ethernet(one, two, ask()), ethernet(phone, two, ask(2))]
    )
    (tmp_path / "oui.txt").write_text(OUI)
    head = '[input]\nread = "in.pcap"\n[networks]\nmac-vendors = "oui.txt"\n[flows]\n'
    ran = run(tmp_path, head + 'macs = true\noutput = "-"\nformat = "csv"\n')
    assert ran.status == 0, ran.stderr
    found = {
        row["src_ip"][-1]: (row["src_mac_vendor"], row["dst_mac_vendor"])
        for row in ran.rows
    }
    icann = "ICANN, IANA Department"
    # An address that its host drew has no vendor, whatever a list says.
    assert found == {"1": (icann, icann), "2": ("", icann)}
    ran = run(tmp_path, head + 'macs = true\noutput = "eve.json"\nformat = "eve"\n')
    events = [
        json.loads(line) for line in (tmp_path / "eve.json").read_text().splitlines()
    ]
    vendors = [event["wirelens"].get("src_mac_vendor") for event in events
               if event["event_type"] == "flow"]  # fmt: skip
    assert sorted(map(str, vendors)) == [icann, "None"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            '[flows]\noutput = "a.csv"\n',
            "no table has MAC addresses; add `macs = true` to [flows]",
        ),
        (
            '[classify]\nmodel = "services"\noutput = "a.csv"\n',
            "no table has MAC addresses",
        ),
        (
            '[flows]\nmacs = true\nnames = "nfstream"\noutput = "a.csv"\n',
            "MAC addresses already",
        ),
    ],
)
def test_what_cannot_be_had_is_refused(
    tmp_path: Path, settings: str, said: str
) -> None:
    (tmp_path / "oui.txt").write_text(OUI)
    head = f'[input]\nread = "{DEMO}"\n[networks]\nmac-vendors = "oui.txt"\n'
    ran = run(tmp_path, head + settings)
    assert ran.status == 2 and said in ran.stderr, ran.stderr


@pytest.mark.parametrize("content", ["", "192.0.2.1\tname\n", "\0" * 1000])
def test_a_list_without_vendors_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "oui.txt").write_text(content)
    networks = '[networks]\nmac-vendors = "oui.txt"\n'
    flows = '[flows]\nmacs = true\noutput = "-"\n'
    settings = f'[input]\nread = "{DEMO}"\n{networks}{flows}'
    ran = run(tmp_path, settings)
    assert ran.status == 2 and "oui.txt: no line names a vendor" in ran.stderr, (
        ran.stderr
    )


def test_a_table_has_no_column_for_them() -> None:
    ran = wirelens("flows", "-r", DEMO, "--macs")
    assert ran.status == 2 and "--macs" in ran.stderr and "-o FILE" in ran.stderr
