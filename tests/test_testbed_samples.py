"""The samples that ship: whole, true, small."""

import csv
import gzip
import json
from collections import Counter
from pathlib import Path

import pytest
from command import DEMO, ROOT, wirelens

SAMPLES = ROOT / "testdata/testbed"
KINDS = ("attacks", "calls", "congestion", "latency", "services")
SIZE_MAX_BYTES = 5 << 20


def rows(path: Path) -> list[dict[str, str]]:
    opened = gzip.open(path, "rt") if path.suffix == ".gz" else path.open()
    with opened as table:
        return list(csv.DictReader(table, delimiter="\t"))


def test_there_is_a_sample_of_each_kind_and_all_are_small() -> None:
    assert sorted(path.name for path in SAMPLES.iterdir()) == list(KINDS)
    files = [DEMO, *(path for path in SAMPLES.rglob("*") if path.is_file())]
    assert sum(path.stat().st_size for path in files) <= SIZE_MAX_BYTES


@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_is_an_accepted_run_whose_captures_are_whole(kind: str) -> None:
    report = json.loads((SAMPLES / kind / "run.json").read_text())
    assert report["kind"] == kind and report["accepted"]
    assert report["checks"] and all(check["holds"] for check in report["checks"])
    for tap in report["taps"]:
        ran = wirelens("info", "-r", SAMPLES / kind / f"{tap['file']}.gz", "--format", "jsonl")
        assert ran.status == 0, ran.stderr
        assert json.loads(ran.stdout)["packets"] == tap["packets"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_truth_of_a_sample_is_about_the_flows_of_its_capture(kind: str) -> None:
    described = rows(SAMPLES / kind / "flows.tsv")
    # What hosts say to each other about addresses and closed ports is no service.
    expression = ["tcp or udp"] if kind == "services" else []
    captures = [path for path in (SAMPLES / kind).glob("*.pcapng.gz") if "after" not in path.name]
    found = []
    for capture in captures:
        ran = wirelens("flows", "-q", "-r", capture, "--format", "csv", *expression)
        assert ran.status == 0, ran.stderr
        found.append(Counter(row["community_id"] for row in ran.rows))
    assert Counter(row["community_id"] for row in described) in found
    assert not [row for row in described if row["label"] == "unexplained"]


@pytest.mark.parametrize("kind", ["attacks", "congestion"])
def test_each_packet_of_a_sample_has_its_row(kind: str) -> None:
    report = json.loads((SAMPLES / kind / "run.json").read_text())
    numbers = [int(row["number"]) for row in rows(SAMPLES / kind / "packets.tsv.gz")]
    assert numbers == list(range(1, report["taps"][0]["packets"] + 1))
