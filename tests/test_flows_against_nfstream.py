"""Flows of TCP and UDP are those of NFStream, wherever both mean the same by a flow.

docs/guide/flows-and-other-tools.md says where they do not. A 5-tuple is compared if each of its
packets is plain: TCP or UDP in IP, no tag, tunnel or fragment, sound headers. The flows of a
tuple are added up on both sides, because NFStream does not end a flow at FIN or RST; where each
side has one flow, who began it and all of its statistics must agree as well. What is not compared
is counted by its cause.

NFStream is one of the peers of `make bench` and is installed with them; without it these tests
are skipped.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from captures import overflowing_stamps
from command import DEMO, captures, short, wirelens
from flows_reference import Tuple
from reference import Packet, Reading, Tshark

nfstream = pytest.importorskip("nfstream", reason="NFStream: not installed, see tools/setup.sh")

SEED = 20261122
# Captures compared in each folder: NFStream takes a second for the smallest.
COUNTS = {"services": 30, "devices": 15, "attacks": 8, "formats": 25}
# NFStream takes 18 µs for a packet, tshark more.
SIZE_MAX = 4 << 20

# Columns that a flow table without link addresses cannot have, and those that are numbers of
# NFStream's own.
NO_COLUMNS = ("src_mac", "src_oui", "dst_mac", "dst_oui")
OWN_NUMBERS = ("id", "expiration_id")

End = tuple[str, int]
Row = dict[str, object]


@pytest.fixture(scope="module")
def tshark() -> Iterator[Tshark]:
    reference = Tshark()
    yield reference
    reference.close()


def streamer(path: Path) -> object:
    """NFStream without a look at payload. GTP, CAPWAP and TZSP stay closed; it opens IP in IP
    in any case."""
    return nfstream.NFStreamer(
        source=str(path), statistical_analysis=True, n_dissections=0, decode_tunnels=False,
        n_meters=1,
    )  # fmt: skip


def their_rows(path: Path) -> list[Row]:
    return [dict(zip(flow.keys(), flow.values(), strict=True)) for flow in streamer(path)]


def our_rows(path: Path) -> list[Row]:
    ran = wirelens(
        "flows", "-q", "-r", path, "--format", "csv", "--names", "nfstream"
    )  # fmt: skip
    assert ran.status in (0, 3), ran.stderr
    return [{name: value_of(text) for name, text in row.items()} for row in ran.rows]


def value_of(text: str) -> object:
    """What a cell holds; 0 stands in NFStream for what does not exist."""
    for kind in (int, float):
        try:
            return kind(text or "0")
        except ValueError:
            pass
    return text


# --- What can be compared -------------------------------------------------------------------


def why_not(packet: Packet) -> str | None:
    """Why NFStream may see this packet with other eyes."""
    at = packet.network(decapsulate=True)
    if packet.marks:
        return "malformed"
    if packet.vlan is not None or not {"vlan", "ieee8021ad"}.isdisjoint(packet.protocols):
        return "VLAN"
    if len(packet.networks) > 1 or packet.protocols.count("eth") > 1:
        return "tunnel"
    if at.is_fragment:
        return "fragment"
    if at.protocol not in (6, 17) or not at.ports:
        return "neither TCP nor UDP"
    if at.name == "ipv6" and packet.captured_len < packet.wire_len:
        return "IPv6 cut by snaplen"
    if packet.wire_len > 1600:
        # A network card that segments for its host is given an IPv4 length of 0, in which
        # NFStream finds no packet; tshark does not tell. Its own lengths have 16 bits.
        return "perhaps IPv4 of length 0"
    return None


def causes(reading: Reading) -> dict[tuple, str | None]:
    """Every tuple of a capture, and why it cannot be compared, if it cannot."""
    found: dict[tuple, str | None] = {}
    for packet in reading.packets:
        seen = Tuple.of(packet, decapsulate=True)
        if seen is not None:
            key = (seen.protocol, *sorted((seen.source, seen.destination)))
            found[key] = found.get(key) or why_not(packet)
    return found


def key_of(row: Row) -> tuple:
    ends = sorted(((row["src_ip"], row["src_port"]), (row["dst_ip"], row["dst_port"])))
    return (row["protocol"], *ends)


def by_tuple(rows: list[Row]) -> dict[tuple, list[Row]]:
    found = defaultdict(list)
    for row in rows:
        found[key_of(row)].append(row)
    return found


# --- Comparing ------------------------------------------------------------------------------


def added_up(rows: list[Row]) -> dict[End, tuple[int, int]]:
    """Packets and bytes that each end sent."""
    sums: dict[End, Counter] = defaultdict(Counter)
    for row in rows:
        for side, way in (("src", "src2dst"), ("dst", "dst2src")):
            end = sums[row[f"{side}_ip"], row[f"{side}_port"]]
            end.update(packets=row[f"{way}_packets"], bytes=row[f"{way}_bytes"])
    return {end: (n["packets"], n["bytes"]) for end, n in sums.items()}


def span(rows: list[Row]) -> tuple[int, int]:
    first = min(row["bidirectional_first_seen_ms"] for row in rows)
    return first, max(row["bidirectional_last_seen_ms"] for row in rows)


def difference(ours: Row, theirs: Row, in_order: bool) -> Iterator[str]:
    """Of two flows, column by column."""
    for name, value in theirs.items():
        if name in (*NO_COLUMNS, *OWN_NUMBERS):
            continue
        if not in_order and name.endswith("_ms"):
            # NFStream lifts a stamp to the latest before it.
            continue
        seen = ours[name]
        if isinstance(seen, str) or isinstance(value, str):
            is_equal = seen == value
        else:
            # Its gaps are of stamps cut to milliseconds: each may be off by one, and two
            # in opposite ways.
            tolerance = 2 if "piat" in name else 1e-6 if isinstance(value, float) else 0
            is_equal = abs(seen - value) <= tolerance
        if not is_equal:
            yield f"{name} {seen}; NFStream: {value}"


def compare(reading: Reading, ours: list[Row], theirs: list[Row], counts: Counter) -> Iterator[str]:
    stamps = [packet.time_ns or 0 for packet in reading.packets if packet.networks]
    in_order = all(a <= b for a, b in zip(stamps, stamps[1:], strict=False))
    counts["captures with stamps that run backwards"] += not in_order
    our_flows, their_flows = by_tuple(ours), by_tuple(theirs)
    for key, cause in causes(reading).items():
        if cause:
            counts[f"not compared: {cause}"] += 1
            continue
        mine, yours = our_flows.get(key, []), their_flows.get(key, [])
        counts["tuples compared"] += 1
        counts["more flows than NFStream"] += len(mine) > len(yours)
        counts["fewer flows than NFStream"] += len(mine) < len(yours)
        if not mine or not yours:
            yield f"{key}: {len(mine)} flows; NFStream: {len(yours)}"
        elif added_up(mine) != added_up(yours):
            yield f"{key}: {added_up(mine)}; NFStream: {added_up(yours)}"
        elif in_order and span(mine) != span(yours):
            yield f"{key}: {span(mine)} ms; NFStream: {span(yours)}"
        elif len(mine) == len(yours) == 1:
            counts["flows compared in every column"] += 1
            found = list(difference(mine[0], yours[0], in_order))
            if found:
                yield f"{key}: {'; '.join(found[:4])}"


def check(tshark: Tshark, paths: list[Path]) -> None:
    counts, complaints = Counter(), []
    for path in paths:
        reading = tshark.read(path)
        if reading.complaint:
            # NFStream reads on behind what libpcap calls an error.
            counts["damaged captures, not compared"] += 1
            continue
        found = compare(reading, our_rows(path), their_rows(path), counts)
        complaints += [f"{short(path)}: {complaint}" for complaint in found]
    print(f"{len(paths)} captures, {dict(counts)}")
    assert counts["tuples compared"]
    assert not complaints, "\n".join(complaints[:100])


@pytest.mark.wide
def test_columns_are_those_of_nfstream_in_their_order() -> None:
    (flow, *_) = streamer(DEMO)
    ran = wirelens("flows", "-q", "-r", DEMO, "--format", "csv", "--names", "nfstream")
    assert list(ran.rows[0]) == [name for name in flow.keys() if name not in NO_COLUMNS]


@pytest.mark.wide
def test_the_demo_capture_has_the_flows_of_nfstream(tshark: Tshark) -> None:
    check(tshark, [DEMO])


@pytest.mark.wide
@pytest.mark.parametrize("folder", COUNTS)
def test_real_traffic_has_the_flows_of_nfstream(tshark: Tshark, folder: str) -> None:
    paths = [path for path in captures(folder) if is_fit(path)]
    check(tshark, random.Random(SEED).sample(paths, min(COUNTS[folder], len(paths))))


def is_fit(path: Path) -> bool:
    """Whether NFStream, which reads by libpcap, can read a capture in a few seconds."""
    readable = path.suffix in (".pcap", ".cap", ".pcapng")
    return readable and path.stat().st_size <= SIZE_MAX and not overflowing_stamps(path)
