"""What cannot be read of a capture is named and counted: link types, stamps, files in folders."""

import json
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from captures import Frame, block, write_pcap
from command import DEMO, ROOT, captures, in_parallel, wirelens
from test_flow_direction import udp

CASCADE = str(ROOT / "testdata/cascade")
PACKET = udp((1, 1000), (2, 53), 20)[14:]
COMMANDS = {
    "top": ("top",),
    "top windows": ("top", "--by", "flow", "--window", "1s"),
    "flows": ("flows",),
    "classify": ("classify", "--model", CASCADE),
    "nprint": ("nprint", "-4", "-o", "{out}"),
    "cca": ("cca",),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_link_type_that_is_not_decoded_is_named(tmp_path: Path, name: str) -> None:
    path, out = tmp_path / "beacons.pcap", tmp_path / "out.csv"
    write_pcap(path, [Frame(n, b"\x41\x88", 2) for n in range(5)], link=195)
    command = [word.format(out=out) for word in COMMANDS[name]]
    ran = wirelens(*command, "-q", "-r", path)
    said = "5 packets of link type IEEE802_15_4_WITHFCS (195): their headers are not decoded"
    assert (ran.status, said in ran.stderr) == (3, True), ran.stderr


def test_info_and_the_summary_count_link_types_that_are_not_decoded(tmp_path: Path) -> None:
    write_pcap(tmp_path / "a.pcap", [Frame(n, b"\x41\x88", 2) for n in range(5)], link=195)
    shutil.copy(DEMO, tmp_path / "b.pcapng")
    ran = wirelens("info", "--format", "jsonl", "-r", tmp_path)
    of_beacons, of_demo = map(json.loads, ran.stdout.splitlines())
    assert (ran.status, of_beacons["undecoded_packets"], of_demo["undecoded_packets"]) == (0, 5, 0)
    assert "5 packets of link type IEEE802_15_4_WITHFCS (195)" in ran.stderr
    # Of the other capture there are rows, so the run is fine.
    ran = wirelens("top", "--format", "csv", "-r", tmp_path)
    assert ran.status == 0 and ran.rows and "IEEE802_15_4_WITHFCS (195)" in ran.stderr


@pytest.mark.parametrize("limit", [1, 3, 4, 7, 12])
def test_a_limit_counts_each_link_type_exactly(tmp_path: Path, limit: int) -> None:
    # In order of time: three beacons, three packets, then both in turns; 195 is not decoded.
    beacons = [Frame(n, b"\x41\x88", 2) for n in (0, 1, 2, 6, 8, 10)]
    packets = [Frame(n, bytes(60), 60) for n in (3, 4, 5, 7, 9, 11)]
    write_pcap(tmp_path / "a.pcap", beacons, link=195)
    write_pcap(tmp_path / "b.pcap", packets)
    stamps = sorted(frame.time_ns for frame in beacons + packets)[:limit]
    wanted = sum(frame.time_ns in stamps for frame in beacons)
    ran = wirelens("top", "-c", str(limit), "-r", tmp_path, "--format", "csv")
    assert f"wirelens: {wanted} packets of link type IEEE802_15_4_WITHFCS" in ran.stderr, ran.stderr
    assert f"{limit} packets captured\n{limit} packets received" in ran.stderr
    # `info` reads one capture after the other.
    ran = wirelens("info", "-c", str(limit), "-r", tmp_path, "--format", "jsonl")
    first, *_ = map(json.loads, ran.stdout.splitlines())
    assert first["undecoded_packets"] == first["packets"] == min(limit, len(beacons))
    assert f"wirelens: {min(limit, 6)} packets of link type IEEE" in ran.stderr, ran.stderr
    assert f"{limit} packets captured\n{limit} packets received" in ran.stderr


def interface(options: bytes) -> bytes:
    return block(1, struct.pack("<HHI", 1, 0, 0) + options)


def packet(ticks: int) -> bytes:
    frame = bytes(60)
    return block(6, struct.pack("<5I", 0, ticks >> 32, ticks & 0xFFFFFFFF, 60, 60) + frame)


def test_stamps_outside_of_64_bits_of_nanoseconds_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "late.pcapng"
    section = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    ticks = (2**64 - 1, 0x8000_0000_0000_0000, 1_700_000_000_000_000)
    path.write_bytes(section + interface(b"") + b"".join(map(packet, ticks)))
    said = "2 packets have timestamps outside the years 1677 to 2262"
    for name in ("top", "flows", "classify"):
        assert said in wirelens(*COMMANDS[name], "-q", "-r", path).stderr, name
    (row,) = map(json.loads, wirelens("info", "--format", "jsonl", "-r", path).stdout.splitlines())
    assert row["clamped_packets"] == 2
    assert "outside" not in wirelens("top", "-r", DEMO).stderr


def nflog(packet: bytes, order: str) -> bytes:
    """A frame of netfilter's log with the attributes before and behind the packet."""
    attributes = ((1, b"\x08\x00\x01\x00"), (10, b"to\0"), (9, packet), (8, bytes(8)))
    frame = bytes([2, 0, 0, 5])
    for kind, value in attributes:
        frame += struct.pack(f"{order}HH", 4 + len(value), kind) + value
        frame += bytes(-len(frame) % 4)
    return frame


@pytest.mark.parametrize("order", ["<", ">"])
def test_packets_in_netfilters_log_are_read(tmp_path: Path, order: str) -> None:
    path = tmp_path / "log.pcap"
    frames = [nflog(PACKET, order), nflog(PACKET, order)[:60]]
    write_pcap(path, [Frame(1, data, 120) for data in frames], link=239)
    ran = wirelens("top", "--by", "flow", "--format", "csv", "-r", path)
    assert [(row["src_ip"], row["src_port"], row["packets"]) for row in ran.rows] == [
        ("10.0.0.1", "1000", "2")
    ]


def loopback(order: str, family: int) -> Frame:
    data = struct.pack(f"{order}I", family) + PACKET
    return Frame(1, data, len(data))


@pytest.mark.parametrize("expression", ["udp", "udp port 53", "ip6", "ip", "host 10.0.0.1", "tcp"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_filters_pass_of_loopbacks_what_tcpdump_passes(
    tmp_path: Path, order: str, expression: str
) -> None:
    """The family is in the order of the host that captured, and IPv6 has a number on each."""
    path = tmp_path / "lo.pcap"
    write_pcap(path, [loopback(order, family) for family in (2, 2, 10, 23, 24, 28, 30, 7)], link=0)
    if order == ">":
        path.write_bytes(swapped(path.read_bytes()))
    printed = subprocess.run(
        ["tcpdump", "-n", "-t", "-r", path, expression], capture_output=True, check=True
    )
    passed = sum(not line.startswith(b"\t") for line in printed.stdout.splitlines())
    ran = wirelens("top", "-r", path, expression)
    assert f"{passed} packets captured" in ran.stderr, (passed, ran.stderr)
    assert passed or expression == "tcp"


def swapped(content: bytes) -> bytes:
    """A little-endian pcap file of one size of frames as a big-endian host writes it."""
    head = struct.pack(">IHHiIII", *struct.unpack("<IHHiIII", content[:24]))
    body, at = b"", 24
    while at < len(content):
        words = struct.unpack("<4I", content[at : at + 16])
        body += struct.pack(">4I", *words) + content[at + 16 : at + 16 + words[2]]
        at += 16 + words[2]
    return head + body


def test_what_a_file_cannot_tell_is_refused_in_a_filter() -> None:
    ran = wirelens("top", "-r", DEMO, "inbound")
    assert ran.status in (1, 2) and "inbound" in ran.stderr and not ran.stdout


@pytest.mark.parametrize("command", [("top",), ("flows",), ("info",), COMMANDS["classify"]])
def test_one_unreadable_file_in_a_folder_does_not_end_the_run(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    wanted = wirelens(*command, "--format", "csv", "-q", "-r", DEMO)
    shutil.copy(DEMO, tmp_path / "good.pcapng")
    (tmp_path / "bad.pcap").write_bytes(b"\xd4\xc3\xb2\xa1\x02\x00\x04\x00")
    (tmp_path / "notes.txt").write_text("nothing")
    ran = wirelens(*command, "--format", "csv", "-r", tmp_path)
    assert ran.status == 3, ran.stderr
    assert f"wirelens: {tmp_path / 'bad.pcap'}: " in ran.stderr
    assert "skipped in folders, as they cannot be read: 1" in ran.stderr
    assert "skipped in folders, as they are not captures: 1" in ran.stderr
    assert len(ran.rows) == len(wanted.rows) > 0
    # Named by itself it is an error.
    assert wirelens(*command, "-r", tmp_path / "bad.pcap").status == 1


@pytest.mark.wide
def test_no_capture_is_silently_empty() -> None:
    """Either packets have a protocol, or the summary says why none has."""

    def fault(path: Path) -> str | None:
        ran = wirelens("top", "--by", "protocol", "--format", "csv", "-r", path)
        if ran.status not in (0, 1, 3):
            return f"exit status {ran.status}"
        if ran.rows or ran.status == 1 or ran.stderr.startswith("0 packets captured"):
            return None
        named = ("their headers are not decoded", "wirelens: ", " malformed (")
        is_cut = " + 0 truncated" not in ran.stderr
        return None if is_cut or any(word in ran.stderr for word in named) else ran.stderr

    faults = {path.name: said for path, said in in_parallel(fault, captures("formats")) if said}
    # Nor does tshark find a protocol there: Cisco's SLARP, bytes that are no PPP, and 802.11 with
    # nothing but management frames and encrypted ones.
    assert faults.keys() == {
        "ntop__hdlc_slarp.pcapng", "the-tcpdump-__ppp_ip_udp_dns.pcap",
        "chrissanders__3e80211_wepauthfail.pcapng", "ntop__ieee802.11_exthdr.pcap",
        "ntop__ieee802.11_rx-stbc.pcap",
    }  # fmt: skip
    assert all(" = 0 counted + " in said for said in faults.values())
