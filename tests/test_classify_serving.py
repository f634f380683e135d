"""`wirelens classify`: one verdict a flow, the same on every way, and live as in a capture.

The model is a few trees written by hand, `testdata/cascade`.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from command import DEMO, ROOT, WIDE_DATA, Ran, wirelens
from lab import Link, Listening, datagrams, identity, new_link

MODEL = ROOT / "testdata/cascade"
CSV = ("--format", "csv")


@pytest.fixture
def link() -> Iterator[Link]:
    with new_link() as made:
        yield made


def classify(*arguments: str | Path) -> Ran:
    return wirelens("classify", "--model", MODEL, *arguments)


def test_verdicts_do_not_depend_on_threads_seeds_or_speed() -> None:
    alone = classify("-r", DEMO, *CSV)
    assert alone.status == 0
    for way in (
        ("--threads", "1"),
        ("--seed", "7", "--threads", "3"),
        ("--consumers", "2"),
        ("--consumers", "4", "--seed", "9"),
    ):
        assert classify("-r", DEMO, *CSV, *way).stdout == alone.stdout, way
    paced = classify("-r", DEMO, *CSV, "--pace", "1000")
    assert "classify: latency of " in paced.stderr
    latencies = [row.pop("latency_ns") for row in paced.rows]
    assert all(latencies)
    without = [
        {name: value for name, value in row.items() if name != "latency_ns"} for row in alone.rows
    ]
    again = [
        {name: value for name, value in row.items() if name != "latency_ns"} for row in paced.rows
    ]
    assert again == without


def test_each_flow_has_one_verdict() -> None:
    verdicts = classify("-r", DEMO, *CSV).rows
    flows = wirelens("flows", "-r", DEMO, *CSV).rows
    assert Counter(row["community_id"] for row in verdicts) == Counter(
        row["community_id"] for row in flows
    )
    labelled = wirelens("flows", "-r", DEMO, "--model", MODEL, *CSV).rows
    columns = ("label", "confidence", "guess", "guess_confidence", "stage", "packets_used", "model")

    def told(rows: list[dict[str, str]]) -> list[tuple[str, ...]]:
        return sorted((row["community_id"], *(row[name] for name in columns)) for row in rows)

    assert told(labelled) == told(verdicts)
    plain = [
        {name: value for name, value in row.items() if name not in columns} for row in labelled
    ]
    assert plain == flows


def test_other_tools_are_told_the_same(tmp_path: Path) -> None:
    verdicts = classify("-r", DEMO, *CSV).rows
    told = [(row["community_id"], row["label"], row["cause"]) for row in verdicts]
    events = [
        json.loads(line)
        for line in classify("-r", DEMO, "--format", "eve").stdout.split(b"\n")
        if line
    ]
    assert {event["event_type"] for event in events} == {"wirelens"}
    assert [
        (event["community_id"], event["wirelens"]["label"], event["wirelens"]["cause"])
        for event in events
    ] == told
    assert len({event["flow_id"] for event in events}) == len(events)
    lines = classify("-r", DEMO, "--format", "zeek").stdout.decode().splitlines()
    names = next(line for line in lines if line.startswith("#fields")).split("\t")[1:]
    rows = [dict(zip(names, line.split("\t"), strict=True)) for line in lines if line[0] != "#"]
    assert [(row["community_id"], row["label"], row["cause"]) for row in rows] == told
    copy = tmp_path / "copy.pcapng"
    ran = classify("-r", DEMO, "--pcapng", copy)
    assert ran.status == 0
    assert copy.read_bytes().count(b"wirelens: ") == len(verdicts)
    assert wirelens("flows", "-r", copy, *CSV).rows == wirelens("flows", "-r", DEMO, *CSV).rows


@pytest.mark.parametrize(
    "line",
    [
        ("classify", "--model", MODEL, "--format", "csv", "-o"),
        ("classify", "--model", MODEL, "--format", "eve", "-o"),
        ("classify", "--model", MODEL, "--pcapng"),
        ("flows", "--model", MODEL, "--format", "csv", "-o"),
        ("flows", "--format", "csv", "-o"),
        ("top", "--format", "csv", "-o"),
        ("nprint", "--format", "csv", "-o"),
    ],
)
def test_no_output_takes_the_place_of_a_capture(line: tuple[str, ...], tmp_path: Path) -> None:
    capture = tmp_path / "own.pcapng"
    capture.write_bytes(DEMO.read_bytes())
    (tmp_path / "link").symlink_to(capture)
    ran = wirelens(line[0], "-r", capture, *line[1:], tmp_path / "link", "--force")
    assert ran.status == 2
    assert f"link: would overwrite {capture}, which is read" in ran.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "own.pcapng"]
    assert capture.read_bytes() == DEMO.read_bytes()


def test_an_interface_is_told_what_a_capture_is(link: Link, tmp_path: Path) -> None:
    ways = [(), ("--latency", "low"), ("--threads", "2"), ("--consumers", "2")]
    with ExitStack() as stack:
        runs = [
            stack.enter_context(
                Listening(tmp_path, "classify", "--model", MODEL, "-i", "wl0", *way, *CSV)
            )
            for way in ways
        ]
        for port in (53, 9000):
            link.send(datagrams(200, port))
            link.send(datagrams(200, port, is_answer=True), "wl0")
        time.sleep(0.3)
        ended = [run.end() for run in runs]
    for way, ran in zip(ways, ended, strict=True):
        assert ran.status == 0, way
        assert identity(ran)["processed"] == identity(ran)["received"] == 800
        labels = Counter((row["dst_port"], row["label"], row["stage"]) for row in ran.rows)
        assert labels == {("53", "dns", "fastest"): 200, ("9000", "other", "fast"): 200}, way
        assert all(int(row["latency_ns"]) > 0 for row in ran.rows)


@pytest.mark.wide
@pytest.mark.parametrize("folder", ["formats", "malformed"])
def test_odd_captures_get_a_verdict_a_flow(folder: str) -> None:
    captures = sorted(
        path
        for path in (WIDE_DATA / folder).rglob("*")
        if path.is_file() and path.suffix in {".pcap", ".pcapng", ".cap", ".gz"}
    )
    assert captures
    for capture in captures:
        ran = classify("-r", capture, *CSV)
        if ran.status not in {0, 3}:
            # What cannot be opened is refused by every command alike.
            assert wirelens("flows", "-r", capture, *CSV).status == ran.status, capture
            continue
        flows = wirelens("flows", "-r", capture, *CSV)
        assert len(ran.rows) == len(flows.rows), capture
