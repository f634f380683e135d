"""Slots of flows at two taps, against what each packet did in the queue."""

import csv
import gzip
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import pytest
from command import ROOT
from wirelens import OptionError
from wirelens.cca import tap_slots, windows
from wirelens.cca.slots import FlowWay, TapFlow

RUN = ROOT / "testdata/testbed/congestion"
TAPS = (RUN / "before.pcapng.gz", RUN / "after.pcapng.gz")
BUFFER_BYTES = 100_000
SLOT_NS = 1_000_000
# Ethernet, IPv4, and TCP with time stamps.
HEADERS_LEN = 66
# The first packet of a connection has no data, but more options.
SYN_LEN = 74
Passed = Literal["first", "highest"]


@pytest.fixture(scope="module")
def taps() -> list[dict[FlowWay, TapFlow]]:
    return tap_slots(TAPS)


def flow_rows() -> list[dict[str, str]]:
    with (RUN / "flows.tsv").open() as file:
        return list(csv.DictReader(file, delimiter="\t"))


def way_of(row: dict[str, str]) -> FlowWay:
    source, destination = (
        (row["src_ip"], int(row["src_port"])),
        (row["dst_ip"], int(row["dst_port"])),
    )
    return FlowWay(*source, *destination)


def rows(flow: int) -> Iterator[tuple[int, dict[str, str]]]:
    """Bytes of data of each packet of a flow that has any, and what became of it."""
    with gzip.open(RUN / "packets.tsv.gz", "rt") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            data = int(row["bytes"]) - HEADERS_LEN
            if int(row["flow"]) == flow and data > 0 and int(row["bytes"]) != SYN_LEN:
                yield data, row


def packets(flow: int) -> list[tuple[int, bool]]:
    return [(data, row["dropped"] == "1") for data, row in rows(flow)]


def queue_bytes(flow: int, start: int, slots: int) -> np.ndarray:
    """Bytes of data that a flow has in the queue at the end of each slot."""
    change = np.zeros(slots + 1)
    for data, row in rows(flow):
        if row["dropped"] == "0":
            for time_ns, sign in ((int(row["time_ns"]), 1), (int(row["departed_ns"]), -1)):
                slot = time_ns // SLOT_NS - start
                change[min(max(slot, 0), slots)] += sign * data
    return np.cumsum(change)[:slots]


def flows(taps: list[dict[FlowWay, TapFlow]]) -> Iterator[tuple[dict[str, str], TapFlow, TapFlow]]:
    before, after = taps
    for row in flow_rows():
        way = way_of(row)
        yield row, before[way], after[way]


@pytest.mark.parametrize(
    ("passed", "skipped", "most"),
    # By the paper's rule what is sent again puts a tap back, and in the second in which flows
    # begin there is much of it.
    [("highest", 0, 0.02), ("highest", 1000, 0.005), ("first", 0, 0.03), ("first", 1000, 0.01)],
)
def test_cbiq_is_what_the_flow_has_in_the_queue(
    taps: list[dict[FlowWay, TapFlow]], passed: Passed, skipped: int, most: float
) -> None:
    for row, before, after in flows(taps):
        start, slots = before.first_slot, before.last_slot - before.first_slot
        true = queue_bytes(int(row["flow"]), start, slots)[skipped:]
        found = windows(before, after, [start + skipped], slots - skipped, passed=passed)
        cbiq = np.asarray(found.values)[0, :, 0]
        error = np.abs(cbiq - true).mean() / BUFFER_BYTES
        assert found.missing == (None,)
        assert error <= most, (row["label"], error)
        # Else nothing but zeros would do.
        assert true.max() > BUFFER_BYTES / 20


def test_bytes_are_those_of_the_packets(taps: list[dict[FlowWay, TapFlow]]) -> None:
    for row, before, after in flows(taps):
        start, slots = before.first_slot, after.last_slot - before.first_slot + 1
        names = ("ingress_bytes", "egress_bytes", "ingress_segments", "egress_segments")
        found = windows(before, after, [start], slots, inputs=names)
        sums = np.asarray(found.values)[0].sum(axis=0)
        came = [data for data, _ in packets(int(row["flow"]))]
        left = [data for data, dropped in packets(int(row["flow"])) if not dropped]
        assert sums.tolist() == [sum(came), sum(left), len(came), len(left)]


def test_half_of_the_packets_tell_nearly_the_same(taps: list[dict[FlowWay, TapFlow]]) -> None:
    sampled = tap_slots(TAPS, share=0.5, seed=3)
    for (row, before, after), (_, few_before, few_after) in zip(
        flows(taps), flows(sampled), strict=True
    ):
        start, slots = before.first_slot + 1000, before.last_slot - before.first_slot - 1000
        all_of_it = windows(before, after, [start], slots)
        rules: dict[str, Any] = {"empty": "line", "throughput": "sequence"}
        half = windows(few_before, few_after, [start], slots, **rules)
        cbiq = np.asarray(all_of_it.values)[0, :, 0], np.asarray(half.values)[0, :, 0]
        assert np.abs(cbiq[0] - cbiq[1]).mean() / BUFFER_BYTES < 0.02, row["label"]


def test_what_cannot_be_is_refused(taps: list[dict[FlowWay, TapFlow]]) -> None:
    _, before, after = next(flows(taps))
    for words, arguments in {
        "inputs: `queue`": {"inputs": ["queue"]},
        "passed: `last`": {"passed": "last"},
        "slots: `0`": {"slots": 0},
    }.items():
        asked: dict[str, Any] = {"starts": [0], "slots": 10, **arguments}
        with pytest.raises(OptionError, match=words):
            windows(before, after, **asked)
    with pytest.raises(OptionError, match="share: `0`"):
        tap_slots(TAPS, share=0)
    found = windows(before, after, [before.first_slot - 100], 10)
    assert found.missing == ("ingress",)
    assert not np.asarray(found.values).any()
