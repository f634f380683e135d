"""Measures what reading names costs, compared with flows without names and with ndpiReader.

    python bench/speed/names.py OUTPUT [--rounds N]

`mix` has 5 M packets in 640,000 flows, a fifth of them real; `real` is every capture of the
services in ../shared that mergecap joins, five times over, with the years between captures left
out. Programs take turns, every second round
in reverse order; CPU time is that of whole processes. Writes runs.jsonl, environment.json and
table.md.
"""

import argparse
import json
import os
import shutil
import statistics
import struct
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).parent / "run"))
import environment
import measure
from cases import WIRELENS, Capture, Case

COPIES = 5
GAP_MAX_US = 1_000_000
FLOWS = "flows"
NAMES = "flows --read-names"
NDPI = "ndpiReader"


def make_real(path: Path) -> None:
    """The captures of Ethernet among those of services, one after the other."""
    ethernet = []
    for capture in sorted((measure.SHARED / "data/services").iterdir()):
        shown = subprocess.run(["capinfos", "-E", capture], capture_output=True, check=False)
        if b"Ethernet" in shown.stdout and b"Per packet" not in shown.stdout:
            ethernet.append(capture)
    joined = path.with_suffix(".joined")
    subprocess.run(["mergecap", "-a", "-F", "pcap", "-w", joined, *ethernet], check=True)
    with path.open("wb") as out:
        content, now_us = joined.read_bytes(), 0
        out.write(content[:24])
        for copy in range(COPIES):
            # Copies are further apart than flows wait.
            now_us += 300_000_000 * copy
            now_us = write_in_order(content, now_us, out)
    joined.unlink()


def write_in_order(content: bytes, now_us: int, out: BinaryIO) -> int:
    """Frames with their own gaps, but for those of years between captures; the last stamp."""
    at, before = 24, None
    while at + 16 <= len(content):
        seconds, us, captured, wire = struct.unpack_from("<4I", content, at)
        stamp = seconds * 1_000_000 + us
        gap = 0 if before is None else stamp - before
        now_us += gap if 0 <= gap <= GAP_MAX_US else GAP_MAX_US
        before = stamp
        out.write(struct.pack("<4I", *divmod(now_us, 1_000_000), captured, wire))
        out.write(content[at + 16 : at + 16 + captured])
        at += 16 + captured
    return now_us


def captures() -> list[Capture]:
    measure.DATA.mkdir(parents=True, exist_ok=True)
    mix, real = measure.DATA / "mix.pcap", measure.DATA / "real.pcap"
    if not mix.exists():
        measure.make_mix(mix)
    if not real.exists():
        make_real(real)
    return [Capture(path.stem, path, measure.packet_count(path)) for path in (mix, real)]


def cases(found: list[Capture]) -> list[Case]:
    todo = []
    for capture in found:
        command = [str(WIRELENS), "flows", "-r", str(capture.path), "-q", "--threads", "1"]
        of = ("names", capture.name)
        todo.append(Case(*of, FLOWS, capture.packets, command))
        todo.append(Case(*of, NAMES, capture.packets, [*command, "--read-names"]))
        if shutil.which("ndpiReader"):
            command = ["ndpiReader", "-q", "-i", str(capture.path)]
            todo.append(Case(*of, NDPI, capture.packets, command))
    return todo


def table(runs: list[dict[str, object]]) -> str:
    """Million packets per core-second, and ratios of medians."""
    lines = ["| capture | program | M packets per core-second | MiB |", "|---|---|---:|---:|"]
    rates: dict[tuple[str, str], float] = {}
    for group, name in dict.fromkeys((str(run["group"]), str(run["name"])) for run in runs):
        mine = [run for run in runs if (run["group"], run["name"]) == (group, name)]
        speeds = [float(str(run["items"])) / float(str(run["cpu_s"])) for run in mine]
        rate = statistics.median(speeds) / 1e6
        rates[group, name] = rate
        memory = statistics.median(float(str(run["rss_mib"])) for run in mine)
        lines.append(f"| {group} | {name} | {rate:.2f} | {memory:.0f} |")
    for group in dict.fromkeys(group for group, _ in rates):
        for other in (FLOWS, NDPI):
            if (group, other) in rates:
                ratio = rates[group, NAMES] / rates[group, other]
                lines.append(f"\n{group}: {NAMES} ÷ {other}: {ratio:.2f}")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    found = captures()
    facts = environment.facts([], arguments.rounds)
    scratch = measure.DATA / "scratch"
    scratch.mkdir(exist_ok=True)
    words = scratch / "words.txt"
    runs = measure.run_rounds(cases(found), arguments.rounds, arguments.output, words)
    facts["load_after"] = os.getloadavg()
    facts["inputs"] = {capture.name: capture.packets for capture in found}
    (arguments.output / "environment.json").write_text(json.dumps(facts, indent=2) + "\n")
    (arguments.output / "table.md").write_text(table(runs))
    print(table(runs))


if __name__ == "__main__":
    main()
