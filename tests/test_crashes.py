"""`kill -9` at random moments, again and again, for every output: what was complete is there and no
row twice, what was not is marked by its name, and the next run starts without any repair.

`WIRELENS_CRASH_ROUNDS=50` kills more often. Single operations on the disk and power cuts are in
`crates/packetlog/tests/log/power.rs`, `crates/sink/tests/power.rs` and
`crates/history/tests/history/power.rs`.
"""

import json
import os
import random
import re
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from captures import read_pcapng
from command import ENVIRONMENT, PROGRAM, TIME_MAX_S, Ran, wirelens
from packetlog_model import write_model

ROUNDS = int(os.environ.get("WIRELENS_CRASH_ROUNDS", "4"))
START_S = 1_795_253_400
FLOWS_MAX = 1 << 22
HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65_535, 1)


def packets(numbers: range) -> bytes:
    """A packet of a flow of its own for each number, a millisecond apart. Its source address is the
    number."""
    parts = []
    for number in numbers:
        ip = struct.pack(
            ">BBHHHBBHII", 0x45, 0, 28, 0, 0, 64, 17, 0, 0x0A000000 + number, 0xC0000201
        )
        frame = bytes(12) + b"\x08\x00" + ip + struct.pack(">HHHH", 40_000, 53, 8, 0)
        seconds, nanoseconds = divmod(number * 1_000_000, 1_000_000_000)
        stamp = struct.pack("<II", START_S + seconds, nanoseconds)
        parts.append(stamp + struct.pack("<II", len(frame), len(frame)) + frame)
    return b"".join(parts)


def capture(numbers: range) -> bytes:
    return HEADER + packets(numbers)


def source(address: str) -> int:
    """The number of a packet."""
    return int.from_bytes(bytes(map(int, address.split(".")))) - 0x0A000000


@contextmanager
def fed(
    words: list[str | Path], cwd: Path, first: int
) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """A run that reads packets from a pipe until it is killed, and the number of the next packet."""
    process = subprocess.Popen(
        [PROGRAM, *words], cwd=cwd, env=ENVIRONMENT,
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    sent = [first]

    def feed() -> None:
        assert process.stdin is not None
        with suppress(BrokenPipeError, ValueError):
            process.stdin.write(HEADER)
            while sent[0] < FLOWS_MAX:
                numbers = range(sent[0], sent[0] + 2000)
                # Before: a part of them may be read, and the next run is to get others.
                sent[0] = numbers.stop
                process.stdin.write(packets(numbers))

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    try:
        yield process, sent
    finally:
        process.kill()
        process.wait(TIME_MAX_S)
        feeder.join(TIME_MAX_S)
        for pipe in (process.stdin, process.stderr):
            with suppress(BrokenPipeError):
                pipe.close()


def state(folder: Path, pattern: str) -> list[tuple[str, int, int]]:
    """What is there of the files of a name."""
    found = []
    for path in sorted(folder.glob(pattern)):
        with suppress(FileNotFoundError):
            found.append((path.name, path.stat().st_size, path.stat().st_mtime_ns))
    return found


def killed(
    words: list[str | Path], cwd: Path, first: int, begun: str, draws: random.Random
) -> int:
    """Kills a run a moment after it has written to files of this name; the number of the next
    packet."""
    before = state(cwd, begun)
    with fed(words, cwd, first) as (process, sent):
        patience = time.monotonic() + 3 * TIME_MAX_S
        while state(cwd, begun) in ([], before):
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < patience, f"{begun} is not begun"
            time.sleep(0.005)
        time.sleep(draws.uniform(0.1, 0.6))
        assert process.poll() is None, "it ended by itself"
    return sent[0]


def fine(ran: Ran) -> Ran:
    assert ran.status == 0, ran.stderr
    return ran


ROWS = {
    "flows": ["flows", "-q", "-r", "-", "--idle-timeout", "1s"],
    "top": ["top", "-q", "-r", "-", "--by", "source", "--window", "1s"],
}
COLUMNS = {"flows": ("src_ip",), "top": ("window_start_ns", "src_ip")}


def keys(path: Path, command: str) -> list[tuple[str, ...]]:
    """What names a row, of each row of a file."""
    polars = pytest.importorskip("polars")
    read = {".csv": polars.read_csv, ".jsonl": polars.read_ndjson, ".parquet": polars.read_parquet,
            ".arrow": polars.read_ipc}[path.suffix]  # fmt: skip
    table = read(path)
    wanted = [name for name in COLUMNS[command] if name in table.columns]
    assert wanted, table.columns
    return table.select(wanted).rows()


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "arrow"])
@pytest.mark.parametrize("command", ROWS)
def test_rows_of_a_killed_run_are_marked_and_recovered(
    command: str, suffix: str, tmp_path: Path
) -> None:
    draws = random.Random(f"{command} {suffix}")
    out, partial = tmp_path / f"out.{suffix}", tmp_path / f"out.{suffix}.partial"
    saved = tmp_path / f"saved.{suffix}"
    words = [*ROWS[command], "-o", out]
    recovered = 0
    for _ in range(ROUNDS):
        killed(words, tmp_path, 0, partial.name, draws)
        assert not out.exists(), "what is not complete has no name that says so"
        ran = wirelens("recover", partial, "-o", saved, "--force")
        if "what is recovered stays csv" in ran.stderr:
            # Of a file without its first bytes the format is not known.
            continue
        assert ran.status in (0, 1) and "panicked" not in ran.stderr, ran.stderr
        if ran.status == 0:
            found = keys(saved, command)
            assert len(set(found)) == len(found) > 0, "a row is there twice"
            recovered += 1
        else:
            assert "no complete row" in ran.stderr or "cannot" in ran.stderr, ran.stderr
    fine(wirelens(*words, stdin=capture(range(5000))))
    assert not partial.exists()
    found = keys(out, command)
    assert len(set(found)) == len(found) > 0
    # Other rows wait for a row group, or for 64 KiB.
    assert recovered or command != "flows" or suffix in {"parquet", "arrow"}


def numbers_in(log: Path, folder: Path) -> list[int]:
    """The numbers of all packets of a log."""
    written = folder / "found.pcapng"
    ran = wirelens("packetlog", "query", "-q", "-l", log, "-w", written, "--force")
    assert ran.status in (0, 3) and "panicked" not in ran.stderr, ran.stderr
    return [int.from_bytes(frame.data[26:30]) - 0x0A000000 for frame in read_pcapng(written)]


LOGS = {
    "plain": [],
    "compressed": ["--compress"],
    "compact": ["--encoding", "compact"],
    "synchronised": ["--sync"],
    "small": ["--keep-bytes", "1M", "--when-full", "overwrite"],
}


@pytest.mark.parametrize("kind", LOGS)
def test_a_log_of_killed_recorders_is_continued_and_verified(kind: str, tmp_path: Path) -> None:
    draws = random.Random(kind)
    model = write_model(tmp_path / "model")
    log = tmp_path / "log"
    words = ["packetlog", "record", "-q", "-r", "-", "-o", log, "--model", model, "--mode",
             "log-all", "--fixed-mode", "--block-bytes", "64K", "--file-bytes", "256K",
             "--flush", "20ms", "--anchor", tmp_path / "heads", *LOGS[kind]]  # fmt: skip
    first, before = 0, set()
    for _ in range(ROUNDS):
        first = killed(words, tmp_path, first, "log/ledger-*.jsonl", draws)
        found = numbers_in(log, tmp_path)
        assert len(set(found)) == len(found), "a packet is there twice"
        assert kind == "small" or before <= set(found), "packets of earlier runs are gone"
        before = set(found)
    fine(wirelens(*words, stdin=capture(range(first, first + 1000))))
    found = numbers_in(log, tmp_path)
    assert len(set(found)) == len(found) and set(range(first, first + 1000)) <= set(found)
    assert kind == "small" or before <= set(found)
    said = fine(
        wirelens("packetlog", "verify", "--log", log, "--anchor", tmp_path / "heads")
    ).stdout.decode()
    unclean = re.search(r"(\d+) recorders? did not end properly", said)
    # A recorder that was killed before its first record left nothing to say so.
    assert "which is anchored" in said and unclean and 0 < int(unclean[1]) <= ROUNDS, said
    stats = fine(wirelens("packetlog", "stats", "--log", log)).stdout.decode()
    assert "panicked" not in stats


SETTINGS = """
[input]
read = "-"
[run]
seed = 1
[flows]
output = "flows.csv"
format = "csv"
idle-timeout = "1s"
[traffic]
output = "traffic.jsonl"
format = "jsonl"
[packetlog]
output = "log"
mode = "log-all"
fixed-mode = true
[history]
[[alert]]
name = "each"
table = "flows"
when = "bytes > 0"
key = ["src_ip"]
[[notify]]
kind = "jsonl"
to = "alerts.jsonl"
"""
# With it, a run goes on after its input.
PAGE = '[page]\nlisten = "127.0.0.1:0"\n'


def json_lines(path: Path) -> list[dict[str, object]]:
    """The lines of a file; a killed run may have left half of one, and the next begins a new one."""
    parsed, torn = [], 0
    for line in path.read_text().splitlines():
        try:
            parsed.append(json.loads(line))
        except json.JSONDecodeError:
            torn += 1
    assert torn <= ROUNDS, "only the last line of a run can be torn"
    return parsed


def test_a_run_with_all_its_outputs_is_killed_and_starts_again(tmp_path: Path) -> None:
    draws = random.Random("run")
    (tmp_path / "wirelens.toml").write_text(SETTINGS + PAGE)
    words = ["run", "-q", "-c", "wirelens.toml"]
    first = 0
    for _ in range(ROUNDS):
        first = killed(words, tmp_path, first, "alerts.jsonl", draws)
        assert not (tmp_path / "flows.csv").exists()
    (tmp_path / "wirelens.toml").write_text(SETTINGS)
    fine(wirelens(*words, stdin=capture(range(first, first + 5000)), cwd=tmp_path))
    polars = pytest.importorskip("polars")
    rows = polars.read_csv(tmp_path / "flows.csv")["src_ip"].to_list()
    assert sorted(map(source, rows)) == list(range(first, first + 5000))
    stored = polars.read_parquet(tmp_path / "history/flows/**/*.parquet")["src_ip"].to_list()
    assert len(set(stored)) == len(stored) and set(rows) <= set(stored)
    fired = [alert for alert in json_lines(tmp_path / "alerts.jsonl") if alert["state"] == "firing"]
    hosts = [alert["labels"]["src_ip"] for alert in fired]
    assert len(set(hosts)) == len(hosts) > 0, "an alert fired twice"
    kinds = [event["event"] for event in json_lines(tmp_path / "log/events.jsonl")]
    assert 1 < kinds.count("begin") <= ROUNDS + 1 and kinds[-1] == "end", kinds
    found = numbers_in(tmp_path / "log", tmp_path)
    assert len(set(found)) == len(found)
    fine(wirelens("packetlog", "verify", "--log", tmp_path / "log"))
