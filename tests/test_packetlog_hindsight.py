"""`packetlog record --hindsight`: flows and hosts that are marked late are stored from their
beginning. What waits is tested packet by packet in `crates/packetlog/src/hindsight/tests.rs`."""

import json
import os
import re
import signal
import subprocess
import time
from collections import defaultdict
from pathlib import Path

import pytest
from captures import Frame, write_pcap
from command import DEMO, PROGRAM, ROOT, wirelens
from lab import datagram
from packetlog_model import PORT, write_model

ATTACKS = ROOT / "testdata/testbed/attacks/lan.pcapng.gz"
SECOND = 1_000_000_000
HEADERS, WHOLE = 42, 742


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that marks packets to a port, and none of the answers."""
    return write_model(tmp_path_factory.mktemp("model") / "port", "destination_port")


def sent(seconds: float, host: int, port: int, to: int) -> Frame:
    frame = datagram((f"198.18.0.{host}", port), ("198.19.0.1", to), 700)
    return Frame(1_700_000_000 * SECOND + int(seconds * SECOND), frame, len(frame))


def answer(seconds: float, host: int, port: int, to: int) -> Frame:
    frame = datagram(("198.19.0.1", to), (f"198.18.0.{host}", port), 700)
    return Frame(1_700_000_000 * SECOND + int(seconds * SECOND), frame, len(frame))


def lengths(log: Path) -> list[int]:
    out = log / "found.pcap"
    ran = wirelens("packetlog", "query", "--log", log, "-w", out, "--force")
    assert ran.status == 0, ran.stderr
    found = subprocess.run(
        ["tshark", "-r", out, "-T", "fields", "-e", "frame.cap_len"],
        check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return [int(line) for line in found.stdout.split()]


def record(log: Path, capture: Path, *arguments: str | Path) -> str:
    ran = wirelens("packetlog", "record", "-r", capture, "-o", log, *arguments)
    assert ran.status == 0, ran.stderr
    return ran.stderr


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """The server's answer is no anomaly to the model, and comes before what is one."""
    path = tmp_path / "late.pcap"
    frames = [
        sent(0.0, 1, 4000, 80),  # another flow of the host
        answer(0.5, 1, 4001, PORT),  # of a flow that will be marked
        answer(0.6, 2, 4001, PORT),  # of one that will not
        sent(1.0, 1, 4001, PORT),  # the mark
        answer(1.5, 1, 4001, PORT),  # after it
        sent(9.0, 3, 4000, 80),
    ]
    write_pcap(path, frames)
    return path


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ((), [HEADERS, HEADERS, HEADERS, WHOLE, HEADERS, HEADERS]),
        (("--hindsight", "2s"), [HEADERS, WHOLE, HEADERS, WHOLE, WHOLE, HEADERS]),
        (
            ("--hindsight", "2s", "--hindsight-reach", "host"),
            [WHOLE, WHOLE, HEADERS, WHOLE, WHOLE, HEADERS],
        ),
        (("--hindsight", "100ms"), [HEADERS, HEADERS, HEADERS, WHOLE, HEADERS, HEADERS]),
    ],
)
def test_what_is_marked_late_is_stored_from_its_beginning(
    tmp_path: Path, model: Path, capture: Path, arguments: tuple[str, ...], wanted: list[int]
) -> None:
    told = record(tmp_path / "log", capture, "--model", model, *arguments)
    assert lengths(tmp_path / "log") == wanted
    raised = sum(wanted) - 5 * HEADERS - WHOLE
    if arguments:
        assert f"stored at greater length by hindsight, {raised} bytes more" in told
    assert "6 seen = 6 stored + 0 skipped by the mode + 0 lost" in told


def test_of_real_attacks_each_marked_flow_is_whole(tmp_path: Path) -> None:
    """The longest hindsight holds the whole capture: a flow is in full, or not at all."""
    record(tmp_path / "plain", ATTACKS)
    told = record(tmp_path / "whole", ATTACKS, "--hindsight", "60s", "--hindsight-bytes", "1G")
    assert "waited less" not in told
    out = tmp_path / "all.pcap"
    cut: dict[str, set[bool]] = defaultdict(set)
    for log in (tmp_path / "plain", tmp_path / "whole"):
        cut.clear()
        assert wirelens("packetlog", "query", "--log", log, "-w", out, "--force").status == 0
        found = subprocess.run(
            ["tshark", "-r", out, "-T", "fields", "-e", "communityid", "-e", "frame.cap_len",
             "-e", "frame.len", "--enable-protocol", "communityid"],
            check=True, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        for line in found.stdout.splitlines():
            flow, kept, whole = line.split("\t")
            if flow:
                cut[flow].add(kept == whole)
        if log.name == "plain":
            assert any(len(kinds) == 2 for kinds in cut.values())
    # Packets without payload are as long as their headers, and so always whole.
    marked = [flow for flow, kinds in cut.items() if kinds == {True}]
    assert len(marked) > 10
    plain, whole = stored(tmp_path / "plain"), stored(tmp_path / "whole")
    assert plain[0] == whole[0]
    assert plain[1] < whole[1]


def stored(log: Path) -> tuple[int, int]:
    """Packets and bytes in a log."""
    ran = wirelens("packetlog", "stats", "--log", log, "--format", "jsonl")
    assert ran.status == 0, ran.stderr
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    return sum(row["stored_packets"] for row in rows), sum(row["kept_bytes"] for row in rows)


def test_memory_that_is_full_shortens_the_time_of_the_oldest_and_is_counted(
    tmp_path: Path, model: Path
) -> None:
    """The beginning of a flow leaves before its mark comes where other packets fill the memory."""
    path = tmp_path / "full.pcap"
    others = [sent(1 + number / 1000, 2, 4000 + number, 80) for number in range(2000)]
    flow = [answer(0.0, 1, 4001, PORT), answer(4.0, 1, 4001, PORT), sent(5.0, 1, 4001, PORT)]
    write_pcap(path, [flow[0], *others, *flow[1:]])
    waits = ("--model", model, "--hindsight", "60s")
    ample = record(tmp_path / "ample", path, *waits)
    assert "waited less" not in ample and lengths(tmp_path / "ample").count(WHOLE) == 3
    full = record(tmp_path / "full", path, *waits, "--hindsight-bytes", "1M")
    assert "2003 seen = 2003 stored + 0 skipped by the mode + 0 lost" in full
    early = re.search(r"packetlog: (\d+) packets waited less than --hindsight", full)
    assert early and 500 < int(early[1]) < 2000, full
    kept = lengths(tmp_path / "full")
    assert kept[0] == HEADERS and kept[-2:] == [WHOLE, WHOLE] and kept.count(WHOLE) == 2


def test_clocks_that_step_end_the_waiting_and_are_counted(tmp_path: Path, model: Path) -> None:
    """An hour forth and back again: no packet waits for a time that does not come."""
    path = tmp_path / "steps.pcap"
    late = [
        answer(0.0, 1, 4001, PORT),  # of the flow that is marked
        answer(3600.0, 1, 4001, PORT),  # an hour forth: the one before has waited long enough
        answer(1.0, 1, 4001, PORT),  # and back: so has this one
        sent(1.5, 1, 4001, PORT),  # the mark
        answer(0.5, 1, 4001, PORT),  # back by less than the hindsight: late
        sent(9.0, 3, 4000, 80),
    ]
    write_pcap(path, late)
    told = record(tmp_path / "log", path, "--model", model, "--hindsight", "2s")
    assert "packetlog: 1 steps back of the clock ended hindsight" in told
    assert "6 seen = 6 stored + 0 skipped by the mode + 0 lost" in told
    assert sorted(lengths(tmp_path / "log")) == [HEADERS] * 3 + [WHOLE] * 3


@pytest.mark.parametrize(
    ("arguments", "seen", "wanted"),
    [
        (("--hindsight", "2m"), "--hindsight: 120 s", "at most 60s"),
        (("--hindsight", "0s"), "'0s' for '--hindsight", "at least 1us"),
        (("--hindsight", "2s", "--hindsight-bytes", "64K"), "65536 bytes", "1M to 32G"),
        (("--hindsight", "2s", "--hindsight-bytes", "33G"), "35433480192 bytes", "1M to 32G"),
    ],
)
def test_a_hindsight_that_makes_no_sense_is_refused(
    tmp_path: Path, arguments: tuple[str, ...], seen: str, wanted: str
) -> None:
    ran = wirelens("packetlog", "record", "-r", DEMO, "-o", tmp_path / "log", *arguments)
    assert ran.status == 2 and seen in ran.stderr and wanted in ran.stderr, ran.stderr
    assert not (tmp_path / "log").exists()


def test_what_waits_at_a_kill_is_not_in_the_log_and_the_rest_is(
    tmp_path: Path, model: Path
) -> None:
    """A pipe that stays open: the last two seconds wait when the recorder is killed."""
    log = tmp_path / "log"
    path = tmp_path / "even.pcap"
    write_pcap(path, [sent(number / 10, 1, 4000, 80) for number in range(400)])
    command = [PROGRAM, "packetlog", "record", "-r", "-", "-o", log, "--model", model,
               "--hindsight", "2s", "--mode", "log-all", "--block-bytes", "64K", "-q"]  # fmt: skip
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(path.read_bytes())
        process.stdin.flush()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and not any(log.glob("*.pcapng*")):
            time.sleep(0.1)
        time.sleep(1)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(10)
    ran = wirelens("packetlog", "recover", "--log", log)
    assert ran.status in (0, 3), ran.stderr
    # Arrival at 37.9 s is the last that 39.9 s releases; of these, blocks that are full.
    assert 100 < len(lengths(log)) <= 380
