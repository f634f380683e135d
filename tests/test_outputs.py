"""Outputs of every command where they cannot be written: full, read-only, gone, a closed pipe.

Each run ends with an error in a line that names the output, and says nothing of it that is not so.
Disks are mounted in a namespace of the test's own; without root those cases are skipped.
"""

import os
import re
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from command import DEMO, ENVIRONMENT, PROGRAM, ROOT, TIME_MAX_S, Ran, wirelens
from disks import run
from packetlog_model import write_model

Words = Callable[[Path, Path], list[str | Path]]

CAPTURE = ("-q", "-r", DEMO)
# What makes an output: the folder of prepared things, and the file.
OUTPUTS: dict[str, Words] = {
    "top": lambda _, out: ["top", *CAPTURE, "-o", out, "--format", "csv"],
    "top-windows": lambda _, out: [
        "top", *CAPTURE, "--window", "1s", "-o", out, "--format", "jsonl",
    ],
    "flows-parquet": lambda _, out: ["flows", *CAPTURE, "-o", out, "--format", "parquet"],
    "flows-arrow": lambda _, out: ["flows", *CAPTURE, "-o", out, "--format", "arrow"],
    "nprint": lambda _, out: ["nprint", *CAPTURE, "-4", "-o", out, "--format", "csv"],
    "classify": lambda _, out: [
        "classify", *CAPTURE, "--model", "services", "-o", out, "--format", "csv",
    ],
    "info": lambda _, out: ["info", *CAPTURE, "-o", out, "--format", "jsonl"],
    "cca": lambda _, out: [
        "cca", "-r", DEMO, "--egress", DEMO, "-o", out, "--format", "csv",
    ],
    "query": lambda ready, out: ["packetlog", "query", "--log", ready / "log", "-w", out],
    "stats": lambda ready, out: [
        "packetlog", "stats", "--log", ready / "log", "-o", out, "--format", "csv",
    ],
    "why": lambda ready, out: [
        "packetlog", "stats", "--log", ready / "marked", "--why", "-o", out, "--format", "csv",
    ],
    "recover": lambda ready, out: ["recover", ready / "left.csv.partial", "-o", out],
    "report": lambda _, out: ["report", *CAPTURE, "-o", out],
}  # fmt: skip
# The same on standard output.
PRINTED: dict[str, Words] = {
    "top-table": lambda *_: ["top", *CAPTURE],
    "top": lambda *_: ["top", *CAPTURE, "--format", "csv"],
    "flows-table": lambda *_: ["flows", *CAPTURE],
    "flows": lambda *_: ["flows", *CAPTURE, "--format", "jsonl"],
    "flows-arrow": lambda *_: ["flows", *CAPTURE, "--format", "arrow"],
    "flows-parquet": lambda *_: ["flows", *CAPTURE, "--format", "parquet"],
    "nprint": lambda *_: ["nprint", *CAPTURE, "-4", "--format", "csv"],
    "classify-table": lambda *_: ["classify", *CAPTURE, "--model", "services"],
    "classify": lambda *_: ["classify", *CAPTURE, "--model", "services", "--format", "eve"],
    "info": lambda *_: ["info", *CAPTURE],
    "cca-table": lambda *_: ["cca", "-r", DEMO, "--egress", DEMO],
    "cca": lambda *_: ["cca", "-r", DEMO, "--egress", DEMO, "--format", "csv"],
    "devices": lambda *_: ["devices"],
    "modes": lambda *_: ["packetlog", "modes"],
    "stats-table": lambda ready, _: ["packetlog", "stats", "--log", ready / "log"],
    "stats": lambda ready, _: ["packetlog", "stats", "--log", ready / "log", "--format", "csv"],
    "why-table": lambda ready, _: ["packetlog", "stats", "--log", ready / "marked", "--why"],
    "why": lambda ready, _: [
        "packetlog", "stats", "--log", ready / "marked", "--why", "--format", "csv",
    ],
    "query": lambda ready, _: ["packetlog", "query", "--log", ready / "log", "-w", "-"],
    "version": lambda *_: ["--version"],
    "help": lambda *_: ["--help"],
}


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log, and what a run left that was killed."""
    folder = tmp_path_factory.mktemp("ready")
    model = write_model(folder / "model")
    ran = wirelens("packetlog", "record", "-r", DEMO, "-o", folder / "log", "--model", model)
    assert ran.status == 0, ran.stderr
    # The model that ships marks some of it, so that there are reasons.
    ran = wirelens("packetlog", "record", "-r", DEMO, "-o", folder / "marked")
    assert ran.status == 0, ran.stderr
    ran = wirelens("flows", *CAPTURE, "--format", "csv")
    (folder / "left.csv.partial").write_bytes(ran.stdout + b"torn")
    return folder


def refused(ran: Ran, path: Path) -> None:
    """An error in one line that names the output, and no panic."""
    assert ran.status == 1, ran
    said = [line for line in ran.stderr.splitlines() if line.startswith("wirelens: ")]
    assert len(said) == 1 and str(path) in said[0], ran.stderr
    assert "panicked" not in ran.stderr


def mount(folder: Path, options: str) -> Path:
    place = folder / "disk"
    place.mkdir()
    run("mount", "-t", "tmpfs", "-o", options, "tmpfs", place)
    return place


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_full_disk_is_an_error_that_names_the_output(
    name: str, ready: Path, tmp_path: Path, mounts: None
) -> None:
    disk = mount(tmp_path, "size=4k")
    (disk / "ballast").write_bytes(bytes(4096))
    ran = wirelens(*OUTPUTS[name](ready, disk / "out"))
    refused(ran, disk / "out")
    assert "No space left on device" in ran.stderr and ran.stderr.count("free some space") == 1
    assert "standard output" not in ran.stderr
    assert [path.name for path in disk.iterdir()] == ["ballast"], "no half of it is left"


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_read_only_disk_is_an_error_that_says_what_to_try(
    name: str, ready: Path, tmp_path: Path, mounts: None
) -> None:
    disk = mount(tmp_path, "ro,size=4k")
    ran = wirelens(*OUTPUTS[name](ready, disk / "out"))
    refused(ran, disk / "out")
    assert "Read-only file system" in ran.stderr
    assert "choose a folder that you may write to" in ran.stderr


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_device_that_takes_nothing_is_an_error(name: str, ready: Path) -> None:
    full = Path("/dev/full")
    ran = wirelens(*OUTPUTS[name](ready, full))
    refused(ran, full)
    assert full.is_char_device()


PACED = ("top", "top-windows", "flows-parquet", "flows-arrow", "nprint", "classify")


@pytest.mark.parametrize("name", PACED)
def test_a_folder_that_vanishes_takes_the_output_and_that_is_said(
    name: str, ready: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    words = [("-" if word == DEMO else word) for word in OUTPUTS[name](ready, folder / "out")]
    capture = DEMO.read_bytes()
    running = subprocess.Popen(
        [PROGRAM, *words], stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    )
    try:
        running.stdin.write(capture[: len(capture) // 2])
        running.stdin.flush()
        patience = time.monotonic() + TIME_MAX_S
        while not (folder / "out.partial").exists():
            assert running.poll() is None and time.monotonic() < patience
            time.sleep(0.01)
        shutil.rmtree(folder)
        _, said = running.communicate(capture[len(capture) // 2 :], timeout=TIME_MAX_S)
    finally:
        running.kill()
        running.wait()
    ran = Ran(running.returncode, b"", said.decode())
    refused(ran, folder / "out")
    assert "it is complete in" not in ran.stderr, "nothing is there"


@pytest.mark.parametrize("name", PACED)
def test_a_write_that_fails_is_not_called_an_interruption(name: str, ready: Path) -> None:
    words = [word for word in OUTPUTS[name](ready, Path("/dev/full")) if word != "-q"]
    ran = wirelens(*words)
    refused(ran, Path("/dev/full"))
    assert "interrupted" not in ran.stderr


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "arrow"])
def test_rows_before_a_disk_was_full_are_kept_and_can_be_recovered(
    suffix: str, tmp_path: Path, mounts: None
) -> None:
    whole = tmp_path / f"whole.{suffix}"
    capture = tmp_path / "long.pcap"
    capture.write_bytes(many_flows(300_000))
    words = ["flows", "-q", "-r", capture, "--idle-timeout", "1s", "-o"]
    assert wirelens(*words, whole).status == 0
    size_kib = whole.stat().st_size // 1024
    disk = mount(tmp_path, f"size={size_kib - 512}k")
    out = disk / f"flows.{suffix}"
    ran = wirelens(*words, out)
    refused(ran, out)
    partial = disk / f"flows.{suffix}.partial"
    assert f"the previous rows are in `{partial}`" in ran.stderr, ran.stderr
    saved = tmp_path / f"saved.{suffix}"
    ran = wirelens("recover", partial, "-o", saved)
    assert ran.status == 0, ran.stderr
    rows = int(re.search(r"partial: (\d+),", ran.stderr)[1])
    assert 100_000 < rows < 300_000
    if suffix in {"csv", "jsonl"}:
        assert whole.read_bytes().startswith(saved.read_bytes())
    refused(wirelens(*words, out), out)
    assert partial.exists(), "the next run began it again, and its disk is as full"


@pytest.mark.parametrize("name", ["eve", "zeek", "parts"])
def test_records_and_parts_before_a_disk_was_full_are_kept_too(
    name: str, tmp_path: Path, mounts: None
) -> None:
    more = ("--partition", "minute", "--format", "csv") if name == "parts" else ("--format", name)
    capture = tmp_path / "long.pcap"
    capture.write_bytes(many_flows(100_000))
    words = ["flows", "-q", "-r", capture, "--idle-timeout", "1s", *more, "-o"]
    assert wirelens(*words, tmp_path / "whole").status == 0
    whole = tmp_path / "whole"
    files = [path for path in [whole, *whole.rglob("*")] if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    disk = mount(tmp_path, f"size={size * 3 // 4 // 1024}k")
    ran = wirelens(*words, disk / "out")
    assert ran.status == 1 and "No space left on device" in ran.stderr, ran.stderr
    assert "panicked" not in ran.stderr
    left = [path for path in disk.rglob("*") if path.is_file()]
    partials = [path for path in left if path.suffix == ".partial"]
    assert any(f"the previous rows are in `{path}`" in ran.stderr for path in partials), ran.stderr
    for number, partial in enumerate(partials):
        saved = tmp_path / f"saved-{number}"
        assert wirelens("recover", "-q", partial, "-o", saved).status == 0
        left[left.index(partial)] = saved
    rows = [line for path in left for line in path.read_bytes().splitlines(keepends=True)]
    assert sum(len(row) for row in rows) > size // 2, (ran.stderr, left)
    assert all(row.endswith(b"\n") for row in rows)


def many_flows(count: int) -> bytes:
    """A capture of so many flows of a packet each, a millisecond apart."""
    ethernet = bytes(12) + b"\x08\x00"
    parts = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65_535, 1)]
    for number in range(count):
        ip = struct.pack(
            ">BBHHHBBHII", 0x45, 0, 28, 0, 0, 64, 17, 0, 0x0A000000 + number, 0xC0000201
        )
        frame = ethernet + ip + struct.pack(">HHHH", 40_000, 53, 8, 0)
        seconds, nanoseconds = divmod(number * 1_000_000, 1_000_000_000)
        parts.append(struct.pack("<IIII", seconds, nanoseconds, len(frame), len(frame)) + frame)
    return b"".join(parts)


def printed(words: list[str | Path], stdout: int) -> Ran:
    done = subprocess.run(
        [PROGRAM, *words], stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE,
        timeout=TIME_MAX_S, env=ENVIRONMENT, check=False,
    )  # fmt: skip
    return Ran(done.returncode, b"", done.stderr.decode())


@pytest.mark.parametrize("name", PRINTED)
def test_standard_output_that_takes_nothing_is_an_error(name: str, ready: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        ran = printed(PRINTED[name](ready, ready), full.fileno())
    assert ran.status == 1 and "panicked" not in ran.stderr, ran
    said = [line for line in ran.stderr.splitlines() if line.startswith("wirelens: ")]
    assert len(said) == 1 and "No space left on device" in said[0], ran.stderr
    assert "standard output" in said[0], ran.stderr


@pytest.mark.parametrize("name", PRINTED)
def test_a_reader_that_has_seen_enough_is_no_error(name: str, ready: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ran = printed(PRINTED[name](ready, ready), writing)
    finally:
        os.close(writing)
    assert ran.status == 0 and "panicked" not in ran.stderr, ran
    assert not re.search("^wirelens: ", ran.stderr, re.MULTILINE), ran.stderr


@pytest.mark.parametrize(
    ("where", "said"), [("full", "No space left"), ("ro", "Read-only"), ("none", "no folder")]
)
def test_python_tables_are_whole_or_an_error(
    where: str, said: str, tmp_path: Path, mounts: None
) -> None:
    disk = mount(tmp_path, "ro,size=4k" if where == "ro" else "size=4k")
    if where == "full":
        (disk / "ballast").write_bytes(bytes(4096))
    path = disk / ("none/out.parquet" if where == "none" else "out.parquet")
    program = "import sys, wirelens; wirelens.flows(sys.argv[1]).to_parquet(sys.argv[2])"
    done = subprocess.run(
        [sys.executable, "-c", program, DEMO, path], capture_output=True, text=True,
        timeout=TIME_MAX_S, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 1 and "OutputError" in done.stderr, done
    assert said in done.stderr and str(path) in done.stderr
    assert not list(disk.glob("out*"))
