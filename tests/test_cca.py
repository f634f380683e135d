"""Slots of flows at two taps, against what each packet did in the queue."""

import csv
import gzip
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from captures import Frame, write_pcap
from command import ROOT, Ran, wirelens
from lab import datagram
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
    found = windows(before, after, [], 10)
    assert found.missing == () and np.asarray(found.values).tolist() == []


def cca(*arguments: str | Path) -> Ran:
    return wirelens("cca", "-r", TAPS[0], "--egress", TAPS[1], *arguments)


def told(*arguments: str | Path) -> list[dict[str, Any]]:
    ran = cca("--format", "jsonl", "-q", *arguments)
    assert ran.status == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_the_command_tells_who_fills_the_queue() -> None:
    rows = told("--every", "100ms")
    of_flow = {row["src_port"]: int(row["flow"]) for row in map(renamed, flow_rows())}
    for row in rows:
        start = row["start_ns"] // SLOT_NS
        begun = start - 10_000
        true = queue_bytes(of_flow[row["src_port"]], begun, 10_100)[10_000:]
        assert abs(row["cbiq_bytes"] - true.mean()) < BUFFER_BYTES / 20, row
    for start in {row["start_ns"] for row in rows}:
        shares = [row["queue_share"] for row in rows if row["start_ns"] == start]
        total = sum(share or 0 for share in shares)
        assert total == pytest.approx(1) or not any(shares)
    # The buffer holds 40 ms at this rate.
    assert 0.03 < max(row["delay_max_s"] or 0 for row in rows) < 0.05


def renamed(row: dict[str, str]) -> dict[str, Any]:
    return {"src_port": int(row["src_port"]), "flow": row["flow"]}


def test_losses_are_told_about_as_many_as_there_were() -> None:
    rows = told()
    for row in map(renamed, flow_rows()):
        seen = sum(told["drops"] or 0 for told in rows if told["src_port"] == row["src_port"])
        lost = sum(dropped for _, dropped in packets(int(row["flow"])))
        assert lost * 0.7 <= seen <= lost, row


def test_sampled_packets_give_no_estimate_of_losses() -> None:
    rows = told("--sample", "0.5")
    assert any(row["cbiq_bytes"] for row in rows)
    assert all(row["drops"] is None for row in rows)
    # In the table, bytes in the queue and their share follow rate and delay.
    table = cca("--sample", "0.5", "-q").stdout.decode()
    assert re.search(r"5001 +[\d.]+ +[\d.]+ +[\d,]+ +[\d.]+ %", table), table


def test_periods_add_up_whatever_their_length() -> None:
    sums = []
    for every in ("10ms", "100ms", "1s"):
        rows = told("--every", every, "-n", "0")
        sums.append(sum(row["ingress_bytes"] for row in rows))
    everything = sum(data for row in flow_rows() for data, _ in packets(int(row["flow"])))
    assert sums == [everything] * 3


def test_clocks_that_differ_are_put_right_and_told(tmp_path: Path) -> None:
    plain = told("--every", "1s")
    for shift in ("-0.5", "+3600"):
        late = tmp_path / f"after{shift}.pcapng"
        subprocess.run(["editcap", "-t", shift, TAPS[1], late], check=True)
        command = ("cca", "-r", TAPS[0], "--egress", late, "--every", "1s", "--format", "jsonl")
        ran = wirelens(*command)
        assert ran.status == 0
        assert "clocks differ" in ran.stderr, ran.stderr
        for row, wanted in zip(map(json.loads, ran.stdout.splitlines()), plain, strict=True):
            # What waited least is taken for one that did not wait.
            assert row["cbiq_bytes"] == pytest.approx(wanted["cbiq_bytes"], rel=0.1, abs=1500)


def later_by(seconds: str, begin: str, path: Path) -> Path:
    """The downstream capture from a moment on, its clock ahead by so much."""
    cut = path.with_suffix(".cut.pcapng")
    subprocess.run(["editcap", "-A", begin, TAPS[1], cut], check=True)
    subprocess.run(["editcap", "-t", seconds, cut, path], check=True)
    return path


def test_clocks_are_compared_where_one_capture_begins_later(tmp_path: Path) -> None:
    """The capture begins 2.5 s after the other, and its clock is half a second slow."""
    late = later_by("-0.5", "2026-11-22T05:31:36.9Z", tmp_path / "late.pcapng")
    command = ("cca", "-r", TAPS[0], "--egress", late, "--every", "100ms", "--format", "jsonl")
    ran = wirelens(*command)
    assert ran.status == 0 and "clocks differ; +0.4" in ran.stderr, ran.stderr
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    assert max(row["delay_max_s"] or 0 for row in rows) < 0.05


def test_clocks_that_cannot_be_compared_are_reported(tmp_path: Path) -> None:
    """One capture has ended when the other begins."""
    late = later_by("+3600", "2026-11-22T05:31:36.9Z", tmp_path / "late.pcapng")
    early = tmp_path / "early.pcapng"
    subprocess.run(["editcap", "-B", "2026-11-22T05:31:35.5Z", TAPS[0], early], check=True)
    ran = wirelens("cca", "-r", early, "--egress", late, "--every", "1s")
    assert ran.status == 0, ran.stderr
    assert "clocks of the taps were not compared" in ran.stderr, ran.stderr
    for seen in ("upstream at 2026-11-22T05:31:34", "downstream at 2026-11-22T06:31:36"):
        assert seen in ran.stderr, ran.stderr
    assert "--egress-offset" in ran.stderr
    quiet = wirelens("cca", "-r", early, "--egress", late, "-q", "--egress-offset", "0ms")
    assert (quiet.status, quiet.stderr) == (0, "")


def test_what_is_missing_at_one_tap_is_named(tmp_path: Path) -> None:
    other = tmp_path / "other.pcap"
    frame = datagram(("192.0.2.1", 5), ("192.0.2.2", 5))
    write_pcap(other, [Frame(time, frame, len(frame)) for time in range(3)])
    ran = wirelens("cca", "-r", TAPS[0], "--egress", other, "--format", "jsonl")
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    assert rows and {row["missing"] for row in rows} == {"egress"}
    assert all(row["cbiq_bytes"] is None for row in rows)
    assert "3 without TCP data" in ran.stderr


def test_wrong_arguments_say_what_is_wanted() -> None:
    for words, arguments in {
        "not a whole number of slots": ("--every", "1500us"),
        "wanted at least 1us": ("--slot", "10ns"),
    }.items():
        ran = cca(*arguments)
        assert ran.status == 2 and words in ran.stderr, ran.stderr
    # Without it there is one tap.
    ran = wirelens("cca", "-r", TAPS[0], "--egress-offset", "1ms")
    assert ran.status == 2 and "--egress" in ran.stderr
