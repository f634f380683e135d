"""Events of a recorder where their file cannot be written: full, read-only, gone."""

import json
import subprocess
import time
from pathlib import Path

import pytest
from command import DEMO, ENVIRONMENT, PROGRAM, TIME_MAX_S, Ran, wirelens
from disks import run
from packetlog_model import write_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "ports")


def recording(log: Path, model: Path, events: Path, capture: Path | str = DEMO) -> list[str | Path]:
    words: list[str | Path] = ["packetlog", "record", "-q", "-r", capture, "-o", log]
    return [*words, "--model", model, "--events", events]


def refused(ran: Ran, path: Path, *said: str) -> None:
    assert ran.status == 1 and "panicked" not in ran.stderr, ran
    (line,) = ran.stderr.splitlines()
    assert line.startswith(f"wirelens: {path}: ") and all(part in line for part in said), line


def kinds(path: Path) -> list[str]:
    return [json.loads(line)["event"] for line in path.read_text().splitlines()]


def test_a_full_disk_is_an_error_and_the_log_is_whole(
    tmp_path: Path, model: Path, mounts: None
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", disk)
    (disk / "ballast").write_bytes(bytes(4096))
    for number, events in enumerate([disk / "events.jsonl", Path("/dev/full")]):
        log = tmp_path / f"log-{number}"
        ran = wirelens(*recording(log, model, events))
        refused(ran, events, "2 events", "No space left on device", "free some space", "--events")
        ran = wirelens("packetlog", "stats", "--log", log, "--format", "csv")
        assert ran.status == 0 and ran.rows, "packets were recorded all the same"


def test_a_line_that_did_not_fit_spoils_no_other(tmp_path: Path, model: Path, mounts: None) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", disk)
    events = disk / "events.jsonl"
    # Room for the beginning of a line.
    events.write_bytes(b" " * 4075 + b"\n")
    refused(wirelens(*recording(tmp_path / "log", model, events)), events, "2 events")
    assert events.stat().st_size == 4096
    run("mount", "-o", "remount,size=64k", disk)
    ran = wirelens(*recording(tmp_path / "log", model, events))
    assert ran.status == 0, ran
    _, torn, *whole = events.read_text().splitlines()
    assert torn.startswith('{"') and not torn.endswith("}")
    assert [json.loads(line)["event"] for line in whole] == ["begin", "end"]


def test_a_name_that_cannot_be_written_ends_the_run_before_there_is_a_log(
    tmp_path: Path, model: Path, mounts: None
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    run("mount", "-t", "tmpfs", "-o", "ro,size=4k", "tmpfs", disk)
    log = tmp_path / "log"
    for events, said in [
        (disk / "events.jsonl", ("Read-only file system", "that you may write to")),
        (tmp_path / "none/events.jsonl", ("No such file or directory", "mkdir -p")),
        (tmp_path, ("Is a directory", "--events")),
    ]:
        refused(wirelens(*recording(log, model, events)), events, *said)
        assert not log.exists()


def wait_for(happened) -> None:
    patience = time.monotonic() + TIME_MAX_S
    while not happened():
        assert time.monotonic() < patience
        time.sleep(0.01)


@pytest.mark.parametrize("folder_goes", [False, True])
def test_a_file_that_is_removed_is_begun_again(
    folder_goes: bool, tmp_path: Path, model: Path
) -> None:
    folder = tmp_path / "events"
    folder.mkdir()
    events, capture = folder / "events.jsonl", DEMO.read_bytes()
    running = subprocess.Popen(
        [PROGRAM, *recording(tmp_path / "log", model, events, "-")],
        stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT,
    )  # fmt: skip
    try:
        running.stdin.write(capture[: len(capture) // 2])
        running.stdin.flush()
        wait_for(lambda: events.exists() and kinds(events) == ["begin"])
        events.unlink()
        if folder_goes:
            folder.rmdir()
        _, said = running.communicate(capture[len(capture) // 2 :], timeout=TIME_MAX_S)
    finally:
        running.kill()
        running.wait()
    ran = Ran(running.returncode, b"", said.decode())
    if folder_goes:
        refused(ran, events, "1 events could not be written", "No such file or directory")
    else:
        assert ran.status == 0, ran
        assert kinds(events) == ["end"]
