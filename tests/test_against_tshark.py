"""Every number of `info` and `top` is the one that tshark finds.

For each capture and each key of `top`, with tunnels opened and left closed, the rows are compared
one by one. Frames in which tshark finds a header malformed, bogus or cut off ("doubtful") have
totals that must agree as well, but not always a key: the two programs give up at different fields
of such a header. So each row must hold at least what tshark's other frames put there, and what
the rows hold beyond must be no more packets than there are doubtful ones. In a sound capture there
are none, and that is equality.

Where the two differ on purpose, the difference is listed below with its reason; an entry that no
longer excuses anything fails.
"""

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from ipaddress import ip_address
from itertools import islice
from pathlib import Path

import pytest
from captures import is_pcap, overflowing_stamps
from command import DEMO, KEYS, captures, in_parallel, part_of, short, wirelens
from reference import COUNTERPARTS, PORT_PROTOCOLS, PROTOCOL_NAMES, Packet, Reading, Tshark

ETHER_TYPE_NAMES = {
    0x0800: "ipv4", 0x0806: "arp", 0x0842: "wake-on-lan", 0x22F3: "trill", 0x6003: "decnet",
    0x8035: "rarp", 0x809B: "appletalk", 0x8137: "ipx", 0x86DD: "ipv6", 0x8808: "flow-control",
    0x8809: "slow-protocols", 0x8847: "mpls", 0x8848: "mpls", 0x8863: "pppoe-discovery",
    0x8864: "pppoe", 0x888E: "eapol", 0x8892: "profinet", 0x88A4: "ethercat", 0x88B8: "goose",
    0x88BA: "sampled-values", 0x88CC: "lldp", 0x88E5: "macsec", 0x88F7: "ptp", 0x8902: "cfm",
    0x9000: "loopback",
}  # fmt: skip

# Link types that tshark 4.0 refuses; Wirelens counts their frames and reads no header in them.
LINKS_UNKNOWN_TO_TSHARK = frozenset(
    ("JUNIPER_ES", "JUNIPER_MONITOR", "MFR", "DSA_TAG_BRCM", "DSA_TAG_BRCM_PREPEND",
     "DSA_TAG_DSA", "DSA_TAG_EDSA")
)  # fmt: skip
# Captures in which the two programs differ for a reason of their own.
CONTROL_WORD = "tshark takes the control word of the pseudowire for the beginning of its Ethernet"
PSEUDO_HEADER = "tshark leaves the 4 bytes of SunATM's pseudo-header out of a frame's lengths"
WIRE_LEN = "a wire length above 2^31, which tshark takes down to that"
LOOPBACK = "an EtherType in place of the address family, which tshark allows for"
FILES_THAT_DIFFER = {
    "formats/AlexeyVasile__03_mpls_pw_eth_ipv6_tcp_cw.pcap": CONTROL_WORD,
    "malformed/AlexeyVasile__13_mpls_pw_truncated_inner_ipv4.pcap": CONTROL_WORD,
    "malformed/OISF__fuzz.pcap": "its second record header is damaged, so tshark tries other "
    "variants of pcap and takes one with longer record headers for the first frame as well",
    "malformed/nfstream__fuzz-2021-06-07-c6c72a0a56.pcap": WIRE_LEN,
    "malformed/ntop__fuzz-2021-06-07-c6c72a0a56.pcap": WIRE_LEN,
    "malformed/ntop__atm-heapoverflow.pcap": PSEUDO_HEADER,
    "malformed/ntop__atm-oam-heapoverflow.pcap": PSEUDO_HEADER,
    "malformed/the-tcpdump-__atm-heapoverflow.pcap": PSEUDO_HEADER,
    "malformed/the-tcpdump-__atm-oam-loopback-print-overrun.pcap": PSEUDO_HEADER,
    "malformed/AlexeyVasile__11_macsec_truncated_packet_number.pcap": "a tag that ends early, which "
    "tshark names no MACsec and Wirelens counts as malformed",
    "malformed/seladb__NullLoopback.pcap": LOOPBACK,
    "malformed/seladb__null_loopback.pcap": LOOPBACK,
    "malformed/mtottenh__nflog-ebtables.pcapng": "frames of a bridge in NFLOG: tshark reads IP alone "
    "there, no ARP",
    "malformed/seladb__solaris.snoop": "a snoop capture, which Wirelens names and refuses",
}
# Layers of Wireshark's behind which IP lies that Wirelens leaves closed: what this stage of the
# project reads is listed in its issue, and these are not in it.
# With each of them a capture in which it is met.
CLOSED_TUNNELS = {
    "teredo": "nfstream__teredo.pcap",
    "nsh": "arkime__arkime_synthetic.pcap",
    "ipcomp": "the-tcpdump-__AH-IPcomp-IPv6.pcap",
    "vntag": "zeek__vntag.pcap",
    "cmd": "arkime__arkime_synthetic.pcap",
}
CLOSED_LINKS = {
    "fddi": "zeek__dns-inverse-query.pcap",
    "arcnet": "the-tcpdump-__arcnet-rfc1201-arp-icmp-http.pcap",
    "fr": "ntop__OSPFv3_multipoint_adjacencies.pcap",
    "juniper": "ntop__bgp-aigp.pcap",
    "ipnet": "ntop__e1000g.pcap",
    "ipoib": "ntop__ipoib.pcap",
    "pktap": "the-tcpdump-__LINKTYPE_PKTAP.pcap",
}


@dataclass
class Findings:
    """What a comparison of many captures came to."""

    complaints: list[str] = field(default_factory=list)
    packets: int = 0
    files: int = 0
    doubtful: int = 0
    # Exceptions that were needed.
    excused: set[str] = field(default_factory=set)


@pytest.fixture(scope="module")
def tshark() -> Iterator[Tshark]:
    reference = Tshark()
    yield reference
    reference.close()


# --- Rows as tshark's packets make them -----------------------------------------------------


def key_of(packet: Packet, by: str, decapsulate: bool) -> tuple[str, ...] | None:
    """The key of a packet, written as the rows write it; a flow by its two ends in order."""
    at = packet.network(decapsulate)
    is_ip = at is not None and at.name != "arp"
    if by == "protocol":
        if is_ip:
            return (PROTOCOL_NAMES.get(at.protocol, str(at.protocol)),)
        value = packet.ether_type
        return (ETHER_TYPE_NAMES.get(value, f"ether_type_0x{value:04x}"),) if value else None
    if not is_ip:
        return None
    if by in ("source", "destination"):
        return (at.source if by == "source" else at.destination,)
    if by == "pair":
        return (at.source, at.destination)
    name = PROTOCOL_NAMES.get(at.protocol, str(at.protocol))
    if by == "port":
        has_ports = at.ports and at.protocol in PORT_PROTOCOLS
        return (name, str(min(at.ports))) if has_ports else None
    source, destination = at.ports or (0, 0)
    is_one_way = False
    if at.transport in COUNTERPARTS and at.ports:
        pairs = COUNTERPARTS[at.transport]
        both = pairs | {answer: question for question, answer in pairs.items()}
        is_one_way = source not in both
        destination = both.get(source, destination)
    ends = [(at.source, source), (at.destination, destination)]
    if not is_one_way:
        ends.sort(key=lambda end: (ip_address(end[0]), end[1]))
    return (name, *(str(part) for end in ends for part in end))


def key_of_row(row: dict[str, str], by: str) -> tuple[str, ...]:
    if by != "flow":
        return tuple(text for name, text in row.items() if name not in ("packets", "bytes"))
    source, destination = (row["src_ip"], row["src_port"]), (row["dst_ip"], row["dst_port"])
    kind = {"icmp": "icmp", "ipv6-icmp": "icmpv6"}.get(row["protocol"])
    ends = [source, destination]
    pairs = COUNTERPARTS.get(kind, {})
    # Later fragments have no type, and 0 in its place.
    if kind is None or int(source[1]) in {*pairs, *pairs.values(), 0}:
        ends.sort(key=lambda end: (ip_address(end[0]), int(end[1])))
    return (row["protocol"], *ends[0], *ends[1])


def compare_rows(
    reading: Reading, rows: list[dict[str, str]], by: str, decapsulate: bool
) -> Iterator[str]:
    sure_packets, sure_bytes = Counter(), Counter()
    doubtful = 0
    for packet in reading.packets:
        if packet.marks:
            doubtful += 1
        elif key := key_of(packet, by, decapsulate):
            sure_packets[key] += 1
            sure_bytes[key] += packet.wire_len
    beyond = 0
    found = set()
    for row in rows:
        key = key_of_row(row, by)
        if key in found:
            yield f"{key}: in two rows"
        found.add(key)
        packets, size = int(row["packets"]), int(row["bytes"])
        beyond += packets - sure_packets[key]
        if packets == sure_packets[key] and size == sure_bytes[key]:
            continue
        if not doubtful or packets <= sure_packets[key] or size < sure_bytes[key]:
            expected = f"{sure_packets[key]} packets, {sure_bytes[key]} bytes"
            yield f"{key}: {packets} packets, {size} bytes; tshark: {expected}"
    for key in sorted(set(sure_packets) - found):
        yield f"{key}: no row; tshark: {sure_packets[key]} packets, {sure_bytes[key]} bytes"
    if beyond > doubtful:
        yield f"{beyond} packets in rows that tshark has not, {doubtful} doubtful ones"


def compare_community_ids(reading: Reading, rows: list[dict[str, str]]) -> Iterator[str]:
    """Of flows over ports outside tunnels: elsewhere tshark has rules of its own."""
    expected = defaultdict(set)
    for packet in reading.packets:
        at = packet.network(decapsulate=False)
        headers = packet.protocols.count("ip") + packet.protocols.count("ipv6")
        is_plain = headers == 1 == len(packet.networks) and not packet.marks
        if (
            is_plain
            and not at.is_fragment
            and at.ports
            and at.protocol in PORT_PROTOCOLS
            and packet.community_id
        ):
            expected[key_of(packet, "flow", decapsulate=False)].add(packet.community_id)
    for row in rows:
        wanted = expected.get(key_of_row(row, "flow"), {row["community_id"]})
        if wanted != {row["community_id"]}:
            yield f"{key_of_row(row, 'flow')}: {row['community_id']}; tshark: {wanted}"


# --- Captures as a whole --------------------------------------------------------------------


def expected_info(reading: Reading) -> dict[str, int]:
    """What does not depend on a header that two programs may doubt in different places."""
    packets = reading.packets
    stamps = [packet.time_ns for packet in packets if packet.time_ns is not None]
    expected = {
        "packets": len(packets),
        "bytes": sum(packet.wire_len for packet in packets),
        "captured_bytes": sum(packet.captured_len for packet in packets),
        "shortened_packets": sum(packet.captured_len < packet.wire_len for packet in packets),
    }
    if len(stamps) == len(packets) > 0:
        expected |= {"first_ns": min(stamps), "last_ns": max(stamps)}
    if any(packet.marks for packet in packets):
        return expected
    networks = [packet.network(decapsulate=True) for packet in packets]
    protocols = Counter(at.protocol for at in networks if at and at.name != "arp")
    names = Counter(at.name for at in networks if at)
    return expected | {
        "ipv4_packets": names["ip"],
        "ipv6_packets": names["ipv6"],
        "arp_packets": names["arp"],
        "tcp_packets": protocols[6],
        "udp_packets": protocols[17],
        "icmp_packets": protocols[1] + protocols[58],
        "vlan_packets": sum(packet.vlan is not None for packet in packets),
        "fragment_packets": sum(any(n.is_fragment for n in p.networks) for p in packets),
    }


def compare_info(path: Path, reading: Reading, seen: dict) -> Iterator[str]:
    expected = expected_info(reading)
    if overflowing_stamps(path):
        # tshark keeps a sub-second part of a second or more, and prints what overflows.
        expected = {name: n for name, n in expected.items() if not name.endswith("_ns")}
    for name, number in expected.items():
        if seen[name] != number:
            yield f"info: {name} {seen[name]}; tshark: {number}"


def compare(path: Path, reading: Reading) -> list[str]:
    """Every difference between the two programs on one capture."""
    ran = wirelens("info", "-q", "-r", path, "--format", "jsonl")
    if ran.status not in (0, 3):
        refusal = f"refused: {ran.stderr.strip()}"
        return [f"{refusal}; tshark reads {len(reading.packets)}"] if reading.packets else []
    seen = json.loads(ran.stdout)
    if "unknown or unsupported" in reading.complaint:
        return [f"link {link}" for link in seen["link_types"].split()] if seen["packets"] else []
    complaints = list(compare_info(path, reading, seen))
    # Where no tunnel is met, to leave them closed changes nothing; one key shows it.
    has_tunnel = seen["tunnelled_packets"] or any(len(p.networks) > 1 for p in reading.packets)
    for by in KEYS:
        for decapsulate in (True, False):
            if not decapsulate and not has_tunnel and by != "flow":
                continue
            options = () if decapsulate else ("--no-decap",)
            ran = wirelens(
                "top", "-q", "-r", path, "--by", by, "-n", "0", "--format", "csv", *options
            )
            where = " ".join(("by", by, *options))
            rows = ran.rows
            found = list(compare_rows(reading, rows, by, decapsulate))
            if by == "flow" and not decapsulate:
                found += compare_community_ids(reading, rows)
            complaints += [f"{where}: {complaint}" for complaint in found]
    return complaints


def judge(findings: Findings, path: Path, reading: Reading, complaints: list[str]) -> None:
    """Adds one capture, less what is excused."""
    findings.files += 1
    findings.packets += len(reading.packets)
    findings.doubtful += sum(bool(packet.marks) for packet in reading.packets)
    name = short(path)
    if complaints and complaints[0].startswith("link "):
        findings.excused.update(complaints)
        return
    if complaints and name in FILES_THAT_DIFFER:
        findings.excused.add(name)
        return
    findings.complaints += [f"{name}: {complaint}" for complaint in complaints[:8]]


def report(findings: Findings) -> None:
    """Fails with all that was found, or says what was compared."""
    print(
        f"{findings.files} captures, {findings.packets} packets ({findings.doubtful} doubtful), "
        f"{len(findings.excused)} exceptions"
    )
    assert not findings.complaints, "\n".join(findings.complaints[:200])


def check_each(tshark: Tshark, folder: str) -> Findings:
    """Compares the captures of a folder, tshark once for each."""
    findings = Findings()

    def work(path: Path) -> tuple[Reading, list[str]]:
        reading = tshark.read(path)
        return reading, compare(path, reading)

    paths = part_of(captures(folder), always=FILES_THAT_DIFFER)
    for path, (reading, complaints) in in_parallel(work, paths):
        judge(findings, path, reading, complaints)
    return findings


def check_joined(tshark: Tshark, folder: str) -> Findings:
    """Compares the captures of a folder, tshark once for many: it starts slowly."""
    findings = Findings()
    paths = part_of(captures(folder), always=FILES_THAT_DIFFER)
    # Several interfaces in one file could not be told from several files.
    joinable = [path for path in paths if is_pcap(path)]
    groups = list(batched(joinable, 24)) + [[path] for path in paths if path not in joinable]

    def work(group: list[Path]) -> list[tuple[Path, Reading, list[str]]]:
        readings = tshark.read_joined(group) if len(group) > 1 else [tshark.read(group[0])]
        pairs = zip(group, readings, strict=True)
        return [(path, reading, compare(path, reading)) for path, reading in pairs]

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for group in pool.map(work, groups):
            for path, reading, complaints in group:
                judge(findings, path, reading, complaints)
    return findings


def batched(paths: list[Path], size: int) -> Iterator[list[Path]]:
    rest = iter(paths)
    while group := list(islice(rest, size)):
        yield group


def test_the_demo_capture_is_what_tshark_finds(tshark: Tshark) -> None:
    reading = tshark.read(DEMO)
    assert len(reading.packets) > 4000
    assert not any(packet.marks for packet in reading.packets)
    assert compare(DEMO, reading) == []


@pytest.mark.parametrize("window_ns", [10**7, 10**9, 5 * 10**9])
def test_windows_of_the_demo_capture_are_what_tshark_finds(tshark: Tshark, window_ns: int) -> None:
    expected = Counter()
    for packet in tshark.read(DEMO).packets:
        if key := key_of(packet, "source", decapsulate=True):
            start = packet.time_ns - packet.time_ns % window_ns
            expected[str(start), *key, "packets"] += 1
            expected[str(start), *key, "bytes"] += packet.wire_len
    seen = Counter()
    window = f"{window_ns}ns"
    ran = wirelens("top", "-n", "0", "--format", "csv", "--window", window, "-r", DEMO)
    for row in ran.rows:
        for measure in ("packets", "bytes"):
            seen[row["window_start_ns"], row["src_ip"], measure] += int(row[measure])
    assert seen == expected


def test_a_comparison_notices_one_packet_and_one_byte(tshark: Tshark) -> None:
    reading = tshark.read(DEMO)
    reading.packets[100].wire_len += 1
    del reading.packets[200]
    complaints = compare(DEMO, reading)
    assert any("info: packets" in complaint for complaint in complaints)
    for by in KEYS:
        assert any(complaint.startswith(f"by {by}") for complaint in complaints)


@pytest.mark.wide
@pytest.mark.parametrize("folder", ["formats", "malformed"])
def test_every_odd_capture_is_what_tshark_finds(tshark: Tshark, folder: str) -> None:
    findings = check_each(tshark, folder)
    known = {name for name in FILES_THAT_DIFFER if name.startswith(f"{folder}/")}
    links = {name for name in findings.excused if name.startswith("link ")}
    assert links <= {f"link {name}" for name in LINKS_UNKNOWN_TO_TSHARK}, links
    report(findings)
    assert findings.excused - links == known, "exceptions that excuse nothing any more"


@pytest.mark.wide
@pytest.mark.parametrize("folder", ["services", "devices", "attacks", "latency"])
def test_real_traffic_is_what_tshark_finds(tshark: Tshark, folder: str) -> None:
    findings = check_joined(tshark, folder)
    report(findings)
    known = {name for name in FILES_THAT_DIFFER if name.startswith(f"{folder}/")}
    assert findings.excused == known, "exceptions that excuse nothing any more"


def ip_places(protocols: list[str]) -> list[int]:
    """Where the IP headers stand that belong to the packet, not to what a message quotes."""
    end = next((i for i, name in enumerate(protocols) if name in ("icmp", "icmpv6")), None)
    return [i for i, name in enumerate(protocols[:end]) if name in ("ip", "ipv6")]


@pytest.mark.wide
def test_what_is_left_closed_is_known(tshark: Tshark) -> None:
    """With all of Wireshark at work, more IP is found only behind layers that are listed."""
    known = CLOSED_TUNNELS.keys() | CLOSED_LINKS.keys()
    always = {f"formats/{name}" for name in (CLOSED_TUNNELS | CLOSED_LINKS).values()}
    met: set[str] = set()
    complaints = []

    def work(path: Path) -> list[tuple[list[str], list[str]]]:
        ours = [packet.protocols for packet in tshark.read(path).packets]
        return list(zip(tshark.layers_in_full(path), ours, strict=True))

    for path, pairs in in_parallel(work, part_of(captures("formats"), always=always)):
        for full, ours in pairs:
            places = ip_places(full)
            if len(places) <= len(ip_places(ours)):
                continue
            behind = known & set(full[: places[-1]])
            met |= behind
            if not behind:
                complaints.append(f"{short(path)}: {':'.join(full)}")
    assert not complaints, "\n".join(complaints[:50])
    assert met == known, f"never met: {known - met}"
