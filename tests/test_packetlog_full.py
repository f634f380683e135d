"""What a packet log says of itself where its disk is full, and of logs that somebody made up."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from command import DEMO, WIDE_DATA, Ran, wirelens
from disks import run
from packetlog_lab import accounted
from packetlog_model import write_model

SMALL = ("--block-bytes", "64K", "--mode", "log-all")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "ports")


def disk(folder: Path, size: str) -> Path:
    place = folder / "disk"
    place.mkdir()
    run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place)
    return place


def record(log: Path, model: Path, *arguments: str) -> Ran:
    words = ("packetlog", "record", "-r", DEMO, "-o", log, "--model", model)
    return wirelens(*words, *SMALL, *arguments)


def totals(log: Path) -> dict[str, int]:
    ran = wirelens("packetlog", "stats", "--log", log, "--format", "jsonl")
    assert ran.status == 0, ran.stderr
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    return {name: sum(row[name] for row in rows) for name in rows[0] if name != "class"}


def test_a_capture_that_does_not_fit_is_an_error_with_a_true_account(
    tmp_path: Path, model: Path, mounts: None
) -> None:
    log = disk(tmp_path, "400k") / "log"
    ran = record(log, model)
    assert ran.status == 1, ran.stderr
    counts = accounted(ran)
    last = ran.stderr.splitlines()[-1]
    assert last.startswith(f"wirelens: {log}: {counts['lost']} of ") and counts["lost"] > 0
    for said in ("disk_full", "No space left on device", "bytes free", "wanted", "free some space"):
        assert said in last, last
    told = totals(log)
    assert told["seen_packets"] == counts["seen"] and told["lost_packets"] == counts["lost"]
    assert told["kept_packets"] == told["stored_packets"] == counts["kept"] > 0
    query = wirelens("packetlog", "query", "--log", log)
    assert query.status == 0 and query.stderr.startswith(f"{counts['kept']} packets")
    text = wirelens("packetlog", "stats", "--log", log).stdout.decode()
    assert "that should be stored are lost: disk_full" in text, text


def test_a_disk_of_64_kib_takes_nothing_and_says_so(
    tmp_path: Path, model: Path, mounts: None
) -> None:
    log = disk(tmp_path, "64k") / "log"
    ran = wirelens("packetlog", "record", "-r", DEMO, "-o", log, "--model", model)
    assert ran.status == 1, ran.stderr
    counts = accounted(ran)
    assert counts["kept"] == 0 and counts["lost"] == counts["seen"] > 0
    assert totals(log)["lost_packets"] == counts["lost"]


def test_a_disk_without_room_for_an_account_is_refused_at_the_start(
    tmp_path: Path, model: Path, mounts: None
) -> None:
    place = disk(tmp_path, "4k")
    (place / "ballast").write_bytes(bytes(4096))
    ran = record(place / "log", model)
    assert ran.status == 1 and "packets captured" not in ran.stderr, ran.stderr
    assert "0 bytes free" in ran.stderr and "free some space" in ran.stderr


def test_what_is_overwritten_stays_in_the_account(tmp_path: Path, model: Path) -> None:
    log = tmp_path / "log"
    for count in (1, 2, 3):
        ran = record(log, model, "--keep-bytes", "1M", "--when-full", "overwrite",
                     "--file-bytes", "128K")  # fmt: skip
        assert ran.status == 0, ran.stderr
        told, each = totals(log), accounted(ran)
        assert told["seen_packets"] == count * each["seen"] and told["lost_packets"] == 0
        assert told["kept_packets"] == count * each["kept"]
        assert told["stored_packets"] + told["overwritten_packets"] == told["kept_packets"]
    assert told["overwritten_packets"] > told["stored_packets"]


def test_a_log_that_may_not_grow_is_an_error(tmp_path: Path, model: Path) -> None:
    log = tmp_path / "log"
    ran = record(log, model, "--keep-bytes", "300K")
    assert ran.status == 1 and "give a larger --keep-bytes" in ran.stderr, ran.stderr
    counts = accounted(ran)
    assert totals(log)["lost_packets"] == counts["lost"] > 0


def test_a_log_is_its_owners_and_links_in_it_are_not_followed(tmp_path: Path, model: Path) -> None:
    log = tmp_path / "log"
    assert record(log, model).status == 0
    assert log.stat().st_mode & 0o777 == 0o700
    for path in log.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600, path
    shared = tmp_path / "shared"
    assert record(shared, model, "--group-readable").status == 0
    assert shared.stat().st_mode & 0o777 == 0o750
    modes = {path.name: path.stat().st_mode & 0o777 for path in shared.iterdir()}
    # Whoever could open it could keep a recorder from starting.
    assert modes.pop("recorder.lock") == 0o600
    assert set(modes.values()) == {0o640}
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (log / "events.jsonl").unlink()
    (log / "events.jsonl").symlink_to(victim)
    ran = record(log, model)
    assert ran.status == 1 and "events.jsonl: a symbolic link" in ran.stderr, ran.stderr
    assert victim.read_text() == "mine"
    os.mkfifo(log / "p0-20261121T093000Z-000900.pcapng")
    told = wirelens("packetlog", "stats", "--log", log)
    assert told.status == 3 and "000900.pcapng: a link, a pipe or a folder" in told.stderr


def test_a_model_of_the_current_folder_is_not_taken_for_one_that_ships(
    tmp_path: Path, model: Path
) -> None:
    shutil.copytree(model, tmp_path / "packetlog")
    own, ships = tmp_path / "own", tmp_path / "ships"
    said = []
    for folder, name in ((own, "./packetlog"), (ships, "packetlog")):
        words = ("packetlog", "record", "-r", DEMO, "-o", folder, "--model", name)
        ran = wirelens(*words, cwd=tmp_path)
        assert ran.status == 0, ran.stderr
        said.append([line for line in ran.stderr.splitlines() if "anomalous" in line])
    assert said[0] != said[1]
    (tmp_path / "packetlog").rename(tmp_path / "mine")
    words = ("packetlog", "record", "-r", DEMO, "-o", own, "--model", "mine")
    ran = wirelens(*words, cwd=tmp_path)
    assert ran.status == 1 and "for the folder of this name give ./mine" in ran.stderr, ran.stderr


def test_a_model_that_was_changed_after_training_is_refused(tmp_path: Path, model: Path) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(model, changed)
    text = (changed / "model.json").read_text()
    (changed / "model.json").write_text(text.replace("0.9", "0.8"))
    ran = record(tmp_path / "log", changed)
    assert ran.status == 1 and "the file was changed after training" in ran.stderr, ran.stderr
    (changed / "SHA256SUMS").unlink()
    ran = record(tmp_path / "log", changed)
    assert ran.status == 1 and "SHA256SUMS: No such file" in ran.stderr, ran.stderr
    assert not (tmp_path / "log").exists()


@pytest.mark.wide
@pytest.mark.parametrize("name", ["log-query-flow-panics", "log-compressed-panics"])
def test_crafted_logs_are_damage_and_a_recorder_starts_on_them(
    name: str, tmp_path: Path, model: Path
) -> None:
    crafted = WIDE_DATA / "crashes" / name
    if not crafted.is_dir():
        pytest.skip(f"no crafted log at {crafted}; see CONTRIBUTING.md")
    log = tmp_path / "log"
    subprocess.run(["cp", "-r", "--no-preserve=mode", crafted, log], check=True)
    flow = ("--flow", "tcp,203.0.113.80,443,10.20.0.11,63000")
    for words in (("query",), ("query", *flow), ("query", "--host", "10.20.0.11"), ("stats",)):
        ran = wirelens("packetlog", *words, "--log", log)
        assert ran.status == 3 and f"{log}/p" in ran.stderr, (words, ran)
    again = tmp_path / "again"
    shutil.copytree(log, again)
    assert wirelens("packetlog", "recover", "--log", log).status == 0
    found = wirelens("packetlog", "query", "--log", log)
    assert found.status == 0 and found.stderr.startswith("4944 packets"), found.stderr
    ran = record(again, model)
    assert ran.status == 0, ran.stderr
    assert wirelens("packetlog", "stats", "--log", again).status == 0
