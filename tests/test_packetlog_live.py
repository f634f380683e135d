"""A recorder on an interface: modes changed while it runs, and what happens when things run short.

Links are of the tests' own, in network namespaces; see lab.py. Without root they are skipped.
"""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import wirelens
from lab import Link, bring_up, ip, new_link, wait_until
from packetlog_lab import (
    ANOMALOUS,
    BENIGN,
    HEADERS,
    PAYLOAD,
    accounted,
    events,
    frames,
    query,
    recording,
    seen,
    status,
    switches,
)
from packetlog_model import write_model


@pytest.fixture
def link() -> Iterator[Link]:
    with new_link() as made:
        yield made


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "ports")


def test_modes_change_while_packets_come_and_none_is_lost(
    tmp_path: Path, model: Path, link: Link
) -> None:
    log = tmp_path / "log"
    with recording(tmp_path, log, model) as run:
        link.send(frames(800) + frames(80, ANOMALOUS))
        seen(log, 880)
        told = wirelens("packetlog", "mode", "log-minimum", "--log", log)
        assert (told.status, told.stderr) == (0, "mode log-minimum\n")
        link.send(frames(800) + frames(80, ANOMALOUS))
        seen(log, 1760)
        refused = wirelens("log", "mode", "log-some", "--log", log)
        assert refused.status == 2 and "wanted: one of default" in refused.stderr
        told = wirelens("packetlog", "mode", "log-all", "--log", log)
        assert (told.status, told.stderr) == (0, "mode log-all\n")
        link.send(frames(80))
        seen(log, 1840)
        metrics = wirelens("packetlog", "status", "--log", log, "--format", "prometheus")
        assert "wirelens_packetlog_packets_seen_total 1840\n" in metrics.stdout.decode()
        assert 'mode_info{mode="log-all"} 1' in metrics.stdout.decode()
        ran = run.end()
    assert ran.status == 0, ran.stderr
    assert accounted(ran) == {"seen": 1840, "kept": 1140, "passed over": 700, "lost": 0}
    operator = [("default", "log-minimum", "operator"), ("log-minimum", "log-all", "operator")]
    assert switches(log) == operator
    assert all("took_us" in event for event in events(log) if event["event"] == "mode")
    assert not (log / "control.sock").exists()
    assert query(log, "-w", tmp_path / "all.pcapng") == 1140
    fields = ["-T", "fields", "-e", "frame.cap_len", "-e", "udp.dstport"]
    shown = subprocess.run(
        ["tshark", "-r", tmp_path / "all.pcapng", *fields], check=True, capture_output=True,
        text=True,
    ).stdout.split("\n")  # fmt: skip
    whole = HEADERS + PAYLOAD
    assert shown.count(f"{whole}\t{ANOMALOUS}") == 80
    assert shown.count(f"{HEADERS + 128}\t{ANOMALOUS}") == 80
    assert shown.count(f"{HEADERS}\t{BENIGN}") == 800 + 100
    assert shown.count(f"{whole}\t{BENIGN}") == 80


def test_events_of_a_log_have_a_limit_and_those_that_are_deleted_are_counted(
    tmp_path: Path, model: Path, link: Link
) -> None:
    log = tmp_path / "log"
    log.mkdir(mode=0o700)
    old = [json.dumps({"event": "old", "time_ns": number}) + "\n" for number in range(1000)]
    (log / "events.jsonl.1").write_text("".join(old[:10]))
    # Room for the event of the start, so that the file is begun again under way.
    room = (16 << 10) - 500
    (log / "events.jsonl").write_text("".join(old[10:])[:room].rsplit("\n", 1)[0] + "\n")
    with recording(tmp_path, log, model, "--keep-bytes", "1M") as run:
        link.send(frames(10))
        seen(log, 10)
        for mode in ("log-minimum", "log-all") * 4:
            assert wirelens("packetlog", "mode", mode, "--log", log).status == 0
        now = status(log)
        assert (now["events_lost"], now["events_deleted"]) == (0, 10)
        metrics = wirelens("packetlog", "status", "--log", log, "--format", "prometheus")
        assert "wirelens_packetlog_events_deleted_total 10\n" in metrics.stdout.decode()
        ran = run.end()
    assert ran.status == 0, ran.stderr
    before, after = events(log / "events.jsonl.1"), events(log)
    assert before[0]["time_ns"] == 10 and "begin" in (event["event"] for event in before)
    assert after[0]["event"] == "rotate" and after[0]["events_deleted"] == 10
    kinds = [event["event"] for event in before + after]
    assert kinds.count("mode") == 8 and kinds[-1] == "end"
    held = sum(path.stat().st_size for path in log.glob("events.jsonl*"))
    ran = wirelens("packetlog", "stats", "--log", log)
    assert f"{held:,} of events" in ran.stdout.decode() + ran.stderr, ran


def test_a_ring_that_overflows_is_answered_by_keeping_less(
    tmp_path: Path, model: Path, link: Link
) -> None:
    log = tmp_path / "log"
    with recording(tmp_path, log, model, "-B", "64") as run:
        link.send(frames(10))
        seen(log, 10)
        run.signal(signal.SIGSTOP)
        link.send(frames(2000))
        run.signal(signal.SIGCONT)
        wait_until(lambda: ("default", "log-sampled", "ring_loss") in switches(log), "it switches")
        short = [event for event in events(log) if event["event"] == "shortage"]
        assert short[0]["resource"] == "ring_loss" and short[0]["seen"] > 0
        now = status(log)
        assert now["mode"] == "log-sampled" and now["chosen"] == "default"
        waits = wirelens("packetlog", "mode", "log-all", "--log", log)
        assert "until ring_loss has recovered" in waits.stderr
        ran = run.end()
    dropped = int(re.search(r"(\d+) packets dropped by the kernel", ran.stderr)[1])
    assert dropped > 0 and accounted(ran)["seen"] + dropped == 2010


def test_a_mode_that_people_fixed_stays(tmp_path: Path, model: Path, link: Link) -> None:
    log = tmp_path / "log"
    with recording(tmp_path, log, model, "-B", "64", "--fixed-mode") as run:
        run.signal(signal.SIGSTOP)
        link.send(frames(2000))
        run.signal(signal.SIGCONT)
        wait_until(lambda: "ring_loss" in status(log)["shortages"], "it is warned of")
        assert status(log)["mode"] == "default" and switches(log) == []
        run.end()


def test_a_disk_that_fills_is_answered_and_what_is_lost_is_counted(
    tmp_path: Path, model: Path, link: Link
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", disk], check=True)
    try:
        log = disk / "log"
        small = ("--block-bytes", "64K", "--flush", "50ms", "--mode", "log-all")
        events_at = ("--events", str(tmp_path / "events.jsonl"))
        with recording(tmp_path, log, model, *small, *events_at) as run:
            sent = 0
            while sent < 20_000 and not status(log)["log"]["lost"]["disk_full"]:
                link.send(frames(1000, ANOMALOUS))
                sent += 1000
                seen(log, sent)
            wait_until(lambda: status(log)["log"]["lost"]["disk_full"] > 0, "the disk is full")
            wait_until(lambda: "disk" in status(log)["shortages"], "the disk is watched")
            assert status(log)["mode"] == "log-sampled"
            ran = run.end()
        assert ran.status == 1 and "No space left on device" in ran.stderr, ran.stderr
        assert re.search(r"packetlog: \d+ packets lost: disk_full", ran.stderr), ran.stderr
        # All that was written before can be read, and nothing is missing without being counted.
        counts = accounted(ran)
        assert query(log) == counts["kept"] > 0
        told = wirelens("packetlog", "stats", "--log", log, "--format", "csv").rows
        assert sum(int(row["lost_packets"]) for row in told) == counts["lost"] > 0
        assert sum(int(row["seen_packets"]) for row in told) == counts["seen"]
        causes = (tmp_path / "events.jsonl").read_text()
        assert '"resource":"disk"' in causes
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_recorder_that_is_killed_leaves_a_log_that_can_be_read(
    tmp_path: Path, model: Path, link: Link
) -> None:
    log = tmp_path / "log"
    small = ("--block-bytes", "64K", "--flush", "20ms", "--mode", "log-all")
    written = 0
    for _ in range(3):
        with recording(tmp_path, log, model, *small) as run:
            link.send(frames(600))
            seen(log, 600)
            wait_until(lambda: status(log)["log"]["packets_written"] >= 300, "blocks are written")
            written += status(log)["log"]["packets_written"]
            run.signal(signal.SIGKILL)
            run.process.wait()
        # What was acknowledged is there, whether or not anybody put it right.
        assert query(log) >= written
    with recording(tmp_path, log, model, *small) as run:
        link.send(frames(10))
        seen(log, 10)
        second = wirelens("packetlog", "record", "-i", "wl0", "-o", log, "--model", model)
        assert second.status == 1 and "another recorder" in second.stderr
        run.end()
    assert query(log) >= written + 10


def test_a_folder_that_goes_away_is_named_and_counted(
    tmp_path: Path, model: Path, link: Link
) -> None:
    log = tmp_path / "log"
    small = ("--block-bytes", "64K", "--flush", "20ms", "--mode", "log-all")
    events_at = ("--events", str(tmp_path / "events.jsonl"))
    with recording(tmp_path, log, model, *small, *events_at) as run:
        link.send(frames(300))
        seen(log, 300)
        time.sleep(0.2)
        for path in log.glob("p*"):
            os.unlink(path)
        link.send(frames(300))
        seen(log, 600)
        wait_until(lambda: status(log)["log"]["files_gone"] > 0, "it is noticed")
        link.send(frames(300))
        seen(log, 900)
        # Each packet is in one of the counts, also one that was in the log before it was lost.
        found = status(log)["packets"]
        assert found["lost"] == 300
        assert found["seen"] == sum(
            found[part] for part in ("kept", "waiting", "passed_over", "lost")
        )
        ran = run.end()
    assert ran.status == 1 and "do not change the files of a log" in ran.stderr, ran.stderr
    counts = accounted(ran)
    assert counts["seen"] == 900 and query(log) == counts["kept"] > 0 and counts["lost"] == 300


def test_an_interface_that_goes_down_comes_back(tmp_path: Path, model: Path, link: Link) -> None:
    log = tmp_path / "log"
    with recording(tmp_path, log, model) as run:
        link.send(frames(20))
        seen(log, 20)
        ip("link set wl0 down")
        bring_up("wl0")
        link.send(frames(20))
        seen(log, 40)
        ran = run.end()
    assert ran.status == 0 and accounted(ran)["kept"] == 40, ran.stderr
    assert "times the interface went down" in ran.stderr


def test_an_interface_that_is_removed_ends_a_run_whose_log_is_whole(
    tmp_path: Path, model: Path, link: Link
) -> None:
    log = tmp_path / "log"
    with recording(tmp_path, log, model) as run:
        link.send(frames(50))
        seen(log, 50)
        ip("link delete wl0")
        ran = run.wait()
    assert ran.status == 3 and "wl0: the interface was removed" in ran.stderr, ran
    assert accounted(ran)["kept"] == 50 == query(log)
    assert not (log / "control.sock").exists()
