"""A recorder whose disk grows slow, fills, fails or goes away: told, counted, and survived.

Disks and links are of the tests' own, by the kernel itself; see disks.py and lab.py. Without root
they are skipped.
"""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command import wirelens
from disks import Disk, new_brake, new_mounts
from lab import Link, new_link, wait_until
from packetlog_lab import (
    ANOMALOUS,
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

MIB = 1 << 20
SMALL = ("--block-bytes", "64K", "--flush", "50ms", "--mode", "log-all")
# For all that comes in a test, and for a tenth of it.
ROOMY, TIGHT = ("--blocks", "64"), ("--blocks", "8")


@pytest.fixture
def link() -> Iterator[Link]:
    with new_link() as made:
        yield made


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with new_mounts():
        yield Disk(tmp_path, 64 * MIB)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "ports")


def lost(stderr: str) -> dict[str, int]:
    found = re.findall(r"(\d+) packets lost: (\w+)", stderr)
    return {cause: int(count) for count, cause in found}


def ran_short(log: Path) -> set[str]:
    return {event["resource"] for event in events(log) if event["event"] == "shortage"}


def test_a_slow_disk_is_answered_by_keeping_less_until_it_is_fast_again(
    tmp_path: Path, model: Path, link: Link, disk: Disk
) -> None:
    log = disk.path / "log"
    settings = tmp_path / "soon.toml"
    names = ("copy", "queue", "log_loss")
    settings.write_text("".join(f"[manager.{name}]\nhold = '500ms'\n" for name in names))
    arguments = (*SMALL, *TIGHT, "--settings", str(settings))
    with new_brake() as brake, recording(tmp_path, log, model, *arguments) as run:
        brake.hold(run.process.pid)
        link.send(frames(500))
        seen(log, 500)
        assert status(log)["shortages"] == [] and switches(log) == []

        brake.limit(disk, MIB // 4)
        sent = 500
        while not {"queue", "copy", "log_loss"} <= ran_short(log):
            assert sent < 100_000, events(log)
            link.send(frames(200, ANOMALOUS))
            sent += 200
        slow = status(log)
        assert slow["mode"] != "log-all" == slow["chosen"]
        # What was acknowledged by now can be read, however much still waits.
        assert query(log) >= slow["log"]["packets_written"] > 0

        brake.limit(disk, None)
        wait_until(lambda: status(log)["shortages"] == [], "the disk has recovered", 20)
        assert status(log)["mode"] == "log-all"
        link.send(frames(300))
        seen(log, sent + 300)
        ran = run.end()
    assert ran.status == 1, ran.stderr
    assert "packets that should be stored are lost (writer_behind" in ran.stderr, ran.stderr
    counts = accounted(ran)
    assert counts["seen"] == sent + 300
    # No packet waited for the disk in vain: what there was no room for is all that is missing.
    assert lost(ran.stderr) == {"writer_behind": counts["lost"]} != {}
    assert query(log) == counts["kept"]
    first, *_, last = switches(log)
    assert first[0] == last[1] == "log-all", switches(log)
    assert first[2] in {"queue", "copy"} and last[2].endswith(" recovered"), switches(log)


@pytest.mark.parametrize(
    ("how", "cause", "said"),
    [
        (Disk.pull, "write_failed", "Input/output error"),
        (Disk.break_down, "read_only", "Read-only file system"),
    ],
    ids=["pulled out", "read-only"],
)
def test_a_disk_that_fails_is_named_and_what_is_lost_is_counted(
    tmp_path: Path, model: Path, link: Link, disk: Disk,
    how: Callable[[Disk], None], cause: str, said: str,
) -> None:  # fmt: skip
    log = disk.path / "log"
    told = tmp_path / "events.jsonl"
    arguments = (*SMALL, *ROOMY, "--sync", "--events", str(told))
    with recording(tmp_path, log, model, *arguments) as run:
        link.send(frames(600))
        seen(log, 600)
        wait_until(lambda: status(log)["log"]["packets_written"] == 600, "all is written")
        how(disk)
        link.send(frames(600))
        wait_until(lambda: status(log)["log"]["lost"][cause] == 600, "losses are counted")
        assert said in status(log)["log"]["last_error"]
        wait_until(lambda: "log_loss" in status(log)["shortages"], "losses are answered")
        assert status(log)["mode"] == "log-sampled"
        ran = run.end()
    assert ran.status == 1 and said in ran.stderr.splitlines()[-1], ran.stderr
    counts = accounted(ran)
    assert counts == {"seen": 1200, "kept": 600, "passed over": 0, "lost": 600}
    assert lost(ran.stderr) == {cause: 600}
    of_loss = [event for event in events(told) if event.get("resource") == "log_loss"]
    assert said in of_loss[0]["error"] and of_loss[0]["lost"].keys() == {cause}, of_loss
    # What was acknowledged is on the disk itself, and nothing in a cache was relied on.
    disk.mount_again()
    assert query(log) == 600


def test_a_disk_that_is_unmounted_takes_what_was_begun(
    tmp_path: Path, model: Path, link: Link, disk: Disk
) -> None:
    log = disk.path / "log"
    arguments = (*SMALL, *ROOMY, "--events", str(tmp_path / "told"))
    with recording(tmp_path, log, model, *arguments) as run:
        link.send(frames(600))
        seen(log, 600)
        disk.unmount()
        link.send(frames(600))
        # Nobody can ask it any more: the socket went with its folder.
        assert wirelens("packetlog", "status", "--log", log).status == 1
        ran = run.end()
    assert ran.status == 0 and lost(ran.stderr) == {}, ran.stderr
    assert accounted(ran)["kept"] == 1200 and list(disk.path.iterdir()) == []
    disk.mount_again()
    assert query(log) == 1200


def test_a_folder_that_is_removed_does_not_keep_a_recorder_from_ending(
    tmp_path: Path, model: Path, link: Link
) -> None:
    log = tmp_path / "log"
    arguments = (*SMALL, *ROOMY, "--events", str(tmp_path / "told"))
    with recording(tmp_path, log, model, *arguments) as run:
        link.send(frames(600))
        seen(log, 600)
        shutil.rmtree(log)
        link.send(frames(600))
        ran = run.end()
    assert ran.status == 1 and lost(ran.stderr).keys() == {"gone"}, ran.stderr
    # What went with the folder is gone, and the rest is in one of the same name.
    assert 0 < query(log) == accounted(ran)["kept"] < 1200
