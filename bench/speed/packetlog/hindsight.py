"""What hindsight costs: `hindsight.py OUT.jsonl CAPTURE... [--frames BYTES] [--rounds N]`.

Each capture is recorded with the shipped model without hindsight and with 2 s of it, in turns: CPU
time, memory, packets stored at greater length, bytes of log. In the mode `default` more is stored
with hindsight, which costs time as well; in `headers` and `log-all` the same is stored with and
without it, so that the difference is hindsight alone. `--frames` adds a capture of frames of so
many bytes at 1 Gbit/s, made next to OUT.jsonl and removed. `--before PROGRAM` measures another
build in the same turns. Prints a table of medians. `environment.json` is written next to OUT.jsonl,
the log to OUT.log, which is removed.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import environment  # noqa: E402

WIRELENS = Path("target/release/wirelens")
SECONDS = (0, 2)
MODES = ("default", "headers", "log-all")
# So that memory is what the time takes.
HINDSIGHT_BYTES = "4G"
HEADERS = '[modes.headers]\npurpose = "headers"\nbenign = "header"\nanomalous = "header"\n'
RATE_BYTES_PER_S = 125_000_000
MADE_S = 4
FLOWS = 50_000


@dataclass(frozen=True)
class Case:
    """One recording."""

    build: str
    program: Path
    mode: str
    seconds: int


def make(path: Path, size: int) -> Path:
    """TCP segments of so many bytes, of many flows of which few have most packets."""
    random = numpy.random.default_rng(size)
    count = RATE_BYTES_PER_S * MADE_S // size
    frames = numpy.zeros((count, 16 + size), dtype=numpy.uint8)
    us = (numpy.arange(count) * size * 1e6 / RATE_BYTES_PER_S).astype(numpy.int64)
    stamps = numpy.column_stack([1_700_000_000 + us // 1_000_000, us % 1_000_000])
    sizes = numpy.full((count, 2), size)
    head = numpy.hstack([stamps, sizes]).astype("<u4")
    frames[:, :16] = head.view(numpy.uint8)
    flow = (FLOWS * random.random(count) ** 3).astype(numpy.uint32)
    ends = numpy.column_stack([0x0A000000 + flow // 8, 0x0A800000 + flow % 1009]).astype(">u4")
    ports = numpy.column_stack([1024 + flow % 60_000, numpy.full(count, 443)]).astype(">u2")
    is_answer = random.random(count) < 0.4
    ends[is_answer], ports[is_answer] = ends[is_answer, ::-1], ports[is_answer, ::-1]
    fixed = bytes.fromhex("020000000002020000000001080045000000000040004006") + bytes(10)
    frames[:, 16 : 16 + len(fixed)] = numpy.frombuffer(fixed, dtype=numpy.uint8)
    frames[:, 32:34] = numpy.frombuffer(struct.pack(">H", size - 14), dtype=numpy.uint8)
    frames[:, 42:50] = ends.view(numpy.uint8)
    frames[:, 50:54] = ports.view(numpy.uint8)
    frames[:, 62:64] = (0x50, 0x10)
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        frames.tofile(file)
    return path


def anonymous_kb(process: int) -> int:
    """Memory of a process but for the capture, which is mapped."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"^RssAnon:\s+(\d+) kB", status, re.MULTILINE)
    return int(found[1]) if found else 0


def record(capture: Path, case: Case, folder: Path) -> dict[str, object]:
    shutil.rmtree(folder, ignore_errors=True)
    settings = folder.with_suffix(".toml")
    settings.write_text(HEADERS)
    command = [case.program, "packetlog", "record", "-r", capture, "-o", folder, "--seed", "1",
               "--model", "packetlog", "--settings", settings, "--mode", case.mode]  # fmt: skip
    if case.seconds:
        command += ["--hindsight", f"{case.seconds}s", "--hindsight-bytes", HINDSIGHT_BYTES]
    said = folder.with_suffix(".txt")
    memory_kb = 0
    with said.open("w") as file, subprocess.Popen(command, stderr=file) as process:
        while True:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            memory_kb = max(memory_kb, anonymous_kb(process.pid))
            time.sleep(0.01)
        process.returncode = os.waitstatus_to_exitcode(status)
    text = said.read_text()
    said.unlink()
    settings.unlink()
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: {text}")
    size = sum(path.stat().st_size for path in folder.glob("p*"))
    shutil.rmtree(folder)

    def number(pattern: str) -> int:
        found = re.search(pattern, text)
        return int(found[1]) if found else 0

    return {
        "capture": capture.name,
        "build": case.build,
        "mode": case.mode,
        "seconds": case.seconds,
        "packets": number(r"packetlog: (\d+) seen"),
        "wire_bytes": number(r"% of (\d+) on the wire"),
        "anomalous": number(r"packetlog: anomalous: \d+ packets of (\d+) stored"),
        "raised": number(r"packetlog: (\d+) packets stored at greater length"),
        "early": number(r"packetlog: (\d+) packets waited less"),
        "log_bytes": size,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "memory_bytes": memory_kb * 1024,
    }


def table(rows: list[dict[str, object]]) -> str:
    lines = [
        "| capture | bytes a packet | mode | build | CPU ns per packet, without | with 2 s | "
        "median difference (extremes) | memory for hindsight, MB | stored at greater length | "
        "bytes of log, without | with |",
        "|---|---:|---|---|" + "---:|" * 7,
    ]
    for key in dict.fromkeys((row["capture"], row["mode"], row["build"]) for row in rows):
        capture, mode, build = key
        same = [row for row in rows if (row["capture"], row["mode"], row["build"]) == key]
        rounds = [[row for row in same if row["seconds"] == seconds] for seconds in SECONDS]

        def median(name: str, of: int, rounds: list[list[dict[str, object]]] = rounds) -> float:
            return statistics.median(float(str(row[name])) for row in rounds[of])

        packets, wire_bytes = median("packets", 0), median("wire_bytes", 0)
        ns = [[float(str(row["cpu_s"])) / packets * 1e9 for row in of] for of in rounds]
        more = [late / plain - 1 for plain, late in zip(*ns, strict=True)]
        memory = median("memory_bytes", 1) - median("memory_bytes", 0)
        cells = [
            str(capture),
            f"{wire_bytes / packets:.0f}",
            str(mode),
            str(build) or "this",
            *(f"{statistics.median(of):.0f}" for of in ns),
            f"{statistics.median(more):+.0%} ({min(more):+.0%} to {max(more):+.0%})",
            f"{memory / 1e6:.0f}",
            f"{median('raised', 1) / packets:.1%}",
            *(f"{median('log_bytes', of) / wire_bytes:.1%}" for of in (0, 1)),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


@contextlib.contextmanager
def made(output: Path, sizes: list[int]) -> Iterator[list[Path]]:
    """Captures of frames of these sizes, while they are measured."""
    paths = [output.with_name(f"frames-{size}.pcap") for size in sizes]
    try:
        yield [make(path, size) for path, size in zip(paths, sizes, strict=True)]
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, help="rows, as JSON lines")
    parser.add_argument("captures", type=Path, nargs="*")
    parser.add_argument("--frames", type=int, action="append", default=[])
    parser.add_argument("--before", type=Path, help="another build of the program")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    output: Path = arguments.output
    output.parent.mkdir(parents=True, exist_ok=True)
    builds = [("", WIRELENS), *([("before", arguments.before)] if arguments.before else [])]
    rows: list[dict[str, object]] = []
    with made(output, arguments.frames) as frames:
        captures = [*arguments.captures, *frames]
        for done in range(1, arguments.rounds + 1):
            for capture in captures:
                capture.read_bytes()  # so that each recording finds it in the page cache
                rows += [
                    record(capture, Case(build, program, mode, seconds), output.with_suffix(".log"))
                    for mode in MODES
                    for build, program in builds
                    for seconds in SECONDS
                ]
            keep(output, rows, done)
    print(output.with_name("table.md").read_text(), end="")


def keep(output: Path, rows: list[dict[str, object]], rounds: int) -> None:
    """After each round, so that a run that is ended early has what it measured."""
    facts = environment.facts([], rounds)
    output.with_name("environment.json").write_text(json.dumps(facts, indent=2) + "\n")
    output.write_text("".join(json.dumps(row) + "\n" for row in rows))
    output.with_name("table.md").write_text(table(rows) + "\n")


if __name__ == "__main__":
    main()
