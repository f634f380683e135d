"""RTTs and retransmissions of `wirelens latency` are tshark's and tcptrace's, value by value.

Where definitions differ the class of the difference is named here, and explained in
`docs/guide/latency.md`; a value in a class that is not named fails.
"""

import gzip
import shutil
from pathlib import Path

import pytest
from command import DEMO, WIDE_DATA
from latency_reference import compare_places, compare_rtts, packets, tcptrace, tshark

# Where tshark has a round trip and we have another or none, and the other way round.
CLASSES = {
    "equal",
    # Karn's rule: tshark takes the first copy that was sent.
    "ambiguous",
    # The timestamp says that a copy was acknowledged; tshark takes the first one.
    "lost",
    # tshark does not look at SACK: a packet that it covers waits for the gap before it.
    "differs (sack)",
    "ours alone (sack)",
    # The packet that fills a gap is the one that is acknowledged, not the last one in order.
    "ours alone (ack, late)",
    # The copy that the timestamp says was acknowledged.
    "ours alone (ack+timestamp)",
    # The timestamp says that an earlier copy was acknowledged.
    "needless",
    # The ACK of a retransmission covers what waited for it.
    "blocked",
    # A byte that was sent to ask whether the peer is alive is no data.
    "no row (keep_alive)",
}
# What tshark calls a packet by time, and we by whether its bytes were seen.
PLACES = {
    ("new", "new"),
    ("retransmission", "retransmission"),
    ("spurious_retransmission", "retransmission"),
    # Within 3 ms, or the first round trip, of the packet before.
    ("out_of_order", "retransmission"),
    ("out_of_order", "late"),
    # A gap that is filled later than that.
    ("retransmission", "late"),
    ("keep_alive", "none"),
    # A gap that the number of an ACK without data shows, which is not looked at here.
    ("retransmission", "new"),
    # Of several copies of a SYN the last one has a row.
    ("retransmission", "none"),
}

CAPTURES = sorted((WIDE_DATA / "latency").rglob("*.pcap.gz"))


def test_round_trips_of_the_demo_are_those_of_tshark() -> None:
    found = compare_rtts(tshark(DEMO), packets(DEMO))
    assert set(found) <= CLASSES, found
    assert found["equal"] == 1569, found
    assert sum(found[name] for name in ("ambiguous", "lost", "differs (sack)")) <= 71, found


def test_retransmissions_of_the_demo_are_those_of_tshark() -> None:
    found = compare_places(tshark(DEMO), packets(DEMO))
    assert set(found) <= PLACES, found
    assert found["new", "new"] == 2161, found
    assert found["retransmission", "retransmission"] == 39, found


def test_a_class_that_is_not_named_would_be_seen() -> None:
    reference, ours = tshark(DEMO), packets(DEMO)
    key = next(iter(reference.rtts))
    reference.rtts[key] += 1
    assert set(compare_rtts(reference, ours)) - CLASSES == {"differs (handshake)"}


def compare_with_tcptrace(path: Path) -> tuple[int, int]:
    """Directions of connections with as many samples, whose least and largest are the same, and
    others."""
    traced, ours = tcptrace(path), packets(path)
    answered: dict[tuple[str, str], list[int]] = {}
    for row in ours.values():
        if row["answered"] == "1" and row["method"] in ("ack", "handshake"):
            sides = (f"{row['src_ip']}:{row['src_port']}", f"{row['dst_ip']}:{row['dst_port']}")
            answered.setdefault(sides, []).append(int(row["latency_ns"]))
    agree, differ = 0, 0
    for sides, trace in traced.items():
        samples = answered.get(sides, [])
        if trace.samples != len(samples):
            differ += 1
            continue
        agree += 1
        if samples:
            assert abs(min(samples) / 1e6 - trace.min_ms) <= 0.06, (sides, trace)
            assert abs(max(samples) / 1e6 - trace.max_ms) <= 0.06, (sides, trace)
    return agree, differ


@pytest.mark.wide
@pytest.mark.skipif(shutil.which("tcptrace") is None, reason="tcptrace is not installed")
def test_round_trips_are_those_of_tcptrace(tmp_path: Path) -> None:
    """With as many samples in 97 of 100 directions: tcptrace takes no gap that is filled, and no
    connection of which the tap sees each packet twice."""
    assert compare_with_tcptrace(DEMO) == (130, 0)
    agree, differ = 0, 0
    for path in CAPTURES:
        plain = tmp_path / path.stem
        plain.write_bytes(gzip.decompress(path.read_bytes()))
        found = compare_with_tcptrace(plain)
        agree, differ = agree + found[0], differ + found[1]
    assert differ <= 0.03 * (agree + differ), (agree, differ)


@pytest.mark.wide
@pytest.mark.skipif(not CAPTURES, reason="no captures in ../shared/data/latency")
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name.removesuffix(".pcap.gz"))
def test_round_trips_of_captures_are_those_of_tshark(path: Path) -> None:
    reference, ours = tshark(path), packets(path)
    found = compare_rtts(reference, ours)
    assert set(found) <= CLASSES, found
    assert set(compare_places(reference, ours)) <= PLACES
