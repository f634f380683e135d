"""What the packet log costs: packets to files on each way, and a host looked for in a large log.

    .venv/bin/python bench/speed/packetlog_log.py CAPTURE SCRATCH
        [--rounds 3] [--log-bytes 10000000000] [--output FOLDER]

SCRATCH is a folder on the disk that is measured; what is made there is deleted again. As root, so
that the page cache can be emptied before a query. Results go to
FOLDER, or bench/results/DATE-CPU-packetlog-log: a line a run, a table, and where it was.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from environment import commit, cpu_slug

BENCH = Path("target/release/wirelens-bench")
WAYS = [("nowhere", False), ("plain", False), ("plain", True), ("direct", False), ("direct", True)]
# Bytes that a run writes, about.
RUN_BYTES = 1_000_000_000
# Of how many packets one is looked for whose source is asked for.
RANK = 2000


def measured(arguments: list[str]) -> list[dict[str, Any]]:
    """What the bench program prints of one run."""
    done = subprocess.run([BENCH, "packetlog", *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr.strip())
    load = os.getloadavg()[0]
    return [json.loads(line) | {"load": round(load, 2)} for line in done.stdout.splitlines()]


def record(
    capture: Path, folder: Path, keep: str, way: str, sync: bool, rounds: int, shift: bool = False
) -> dict[str, Any]:
    shutil.rmtree(folder, ignore_errors=True)
    options = ["--keep", keep, "--way", way, "--rounds", str(rounds)]
    options += ["--sync"] * sync + ["--shift"] * shift
    return measured(["record", "--capture", str(capture), "--folder", str(folder), *options])[0]


def bytes_of(run: dict[str, Any]) -> int:
    return int(run["name"].rsplit(", ", 1)[1].split()[0])


def empty_page_cache() -> None:
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")


def a_host(capture: Path) -> str:
    """A source of the capture that is neither busy nor rare; shifted as the log's rounds are."""
    fields = ["-T", "fields", "-e", "ip.src", "-c", "100000"]
    done = subprocess.run(["tshark", "-n", "-r", capture, *fields], capture_output=True, text=True)
    counts: dict[str, int] = {}
    for address in done.stdout.split():
        counts[address] = counts.get(address, 0) + 1
    ranked = sorted(counts, key=lambda address: (-counts[address], address))
    octets = ranked[min(RANK, len(ranked) - 1)].split(".")
    octets[1] = str(int(octets[1]) ^ 7)
    return ".".join(octets)


def query(folder: Path, host: str, rounds: int) -> list[dict[str, Any]]:
    runs = []
    for index in range(rounds):
        for cache in ["cold", "warm"]:
            if cache == "cold":
                empty_page_cache()
            told = measured(["query", "--folder", str(folder), "--host", host, "--cache", cache])
            runs += [run | {"round": index} for run in told]
    return runs


def table(runs: list[dict[str, Any]], sizes: dict[str, int]) -> list[str]:
    """Medians, by name without the bytes, which differ by what sections say."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        groups.setdefault(run["name"].split(" bytes")[0].rsplit(", ", 1)[0], []).append(run)
        if run["name"].startswith("query"):
            groups.setdefault(run["name"], []).append(run)
    lines = [
        "| record | M packets/s | ns CPU a packet | MB/s | ns CPU a KiB |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, group in groups.items():
        if not name.startswith("record"):
            continue
        wall = statistics.median(run["wall_s"] for run in group)
        cpu = statistics.median(run["cpu_s"] for run in group)
        items, size = group[0]["items"], bytes_of(group[0])
        numbers = [items / wall / 1e6, cpu / items * 1e9, size / wall / 1e6, cpu / size * 1024e9]
        lines.append(f"| {name} | " + " | ".join(f"{number:,.1f}" for number in numbers) + " |")
    told = f"{sizes['chunks']:,} bytes of chunks, {sizes['keys']:,} of hashes"
    told += f", {sizes['index']:,} of index"
    lines += ["", f"A host in a log of {told}:", "", "| query | ms | ms CPU |", "|---|--:|--:|"]
    for name, group in groups.items():
        if name.startswith("query ") and name.endswith(" cache"):
            wall, cpu = (statistics.median(run[of] for run in group) for of in ("wall_s", "cpu_s"))
            lines.append(f"| {name} | {wall * 1e3:,.0f} | {cpu * 1e3:,.0f} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("capture", type=Path)
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--log-bytes", type=int, default=10_000_000_000)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    folder, capture = arguments.scratch / "packetlog-bench", arguments.capture
    before, runs = os.getloadavg()[0], []
    try:
        for index in range(arguments.rounds):
            for keep in ["headers", "full"]:
                # The first tells how much a round of the capture is.
                size = bytes_of(record(capture, folder, keep, "nowhere", False, 1))
                rounds = max(1, RUN_BYTES // size)
                order = WAYS if index % 2 == 0 else WAYS[::-1]
                for way, sync in order:
                    run = record(capture, folder, keep, way, sync, rounds)
                    runs.append(run | {"round": index})
        size = bytes_of(record(capture, folder, "headers", "nowhere", False, 1))
        record(capture, folder, "headers", "direct", False, -(-arguments.log_bytes // size), True)
        endings = {"chunks": ".pcapng", "keys": ".keys", "index": ".idx"}
        sizes = {
            what: sum(path.stat().st_size for path in folder.glob(f"*{ending}"))
            for what, ending in endings.items()
        }
        runs += query(folder, a_host(capture), arguments.rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    now = datetime.now(UTC)
    usual = Path(f"bench/results/{now.date()}-{cpu_slug()}-packetlog-log")
    results = arguments.output or usual
    results.mkdir(parents=True, exist_ok=True)
    (results / "runs.jsonl").write_text("".join(json.dumps(run) + "\n" for run in runs))
    where = f"{now.isoformat(timespec='seconds')}, commit {commit()}, {arguments.rounds} rounds."
    load = f"Load average {before:.2f} before, {os.getloadavg()[0]:.2f} after; two cores."
    head = ["# The packet log: packets to files, a host in a log", "", f"{where} {load}", ""]
    (results / "table.md").write_text("\n".join([*head, *table(runs, sizes)]) + "\n")
    print((results / "table.md").read_text())


if __name__ == "__main__":
    main()
