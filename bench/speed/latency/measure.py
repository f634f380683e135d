"""Measures `wirelens latency` on captures of real TCP, compared with tshark and tcptrace.

    python bench/speed/latency/measure.py OUTPUT [--rounds N] [--copies N]

The capture is made once, under bench/data/latency: those of ../shared/data/latency that hold bulk
TCP over Wi-Fi, with all their ACKs, repeated with an hour between copies (4.1 M packets). tshark
and tcptrace read its first 206,697 packets, one copy, since tshark takes minutes for all of it.
Programs take turns, every second round in reverse order; CPU time is that of whole processes, user
and system. Writes runs.jsonl, environment.json and table.md.
"""

import argparse
import gzip
import json
import os
import statistics
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import environment

WIRELENS = "target/release/wirelens"
DATA = Path("bench/data/latency")
SOURCES = sorted(Path("../shared/data/latency").glob("heistp__[cp]*.pcap.gz"))
HOUR_S = 3600
FIELDS = ("-T", "fields", "-e", "tcp.analysis.ack_rtt", "-e", "tcp.analysis.retransmission")


@dataclass(frozen=True)
class Case:
    """A program, and how many packets it reads."""

    name: str
    command: tuple[str | Path, ...]
    packets: int


def copies(path: Path, count: int) -> int:
    """Writes copies of the captures, each an hour later; returns the packets of one."""
    per_copy = 0
    with path.open("wb") as out:
        for copy in range(count):
            per_copy = 0
            for source in SOURCES:
                data = bytearray(gzip.decompress(source.read_bytes()))
                if out.tell() == 0:
                    out.write(data[:24])
                at = 24
                while at + 16 <= len(data):
                    seconds, _, captured, _ = struct.unpack_from("<4I", data, at)
                    struct.pack_into("<I", data, at, seconds + copy * HOUR_S)
                    at += 16 + captured
                    per_copy += 1
                out.write(data[24:])
    return per_copy


def measure(case: Case, number: int) -> dict[str, object]:
    load, start = os.getloadavg()[0], time.perf_counter()
    process = subprocess.Popen(case.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{case.name}: exit status {process.returncode}")
    cpu = usage.ru_utime + usage.ru_stime
    return {
        "round": number, "name": case.name, "packets": case.packets, "cpu_s": round(cpu, 4),
        "wall_s": round(wall, 4), "rss_mib": round(usage.ru_maxrss / 1024, 1),
        "load": round(load, 2),
    }  # fmt: skip


def table(runs: list[dict[str, object]], facts: dict[str, object]) -> str:
    lines = [
        "# `wirelens latency`\n",
        f"{facts['date']}. Programs take turns; medians of CPU time of whole processes, "
        "user and system.\n",
        "| program | packets | CPU s | packets per core-second | MiB |",
        "|---|---:|---:|---:|---:|",
    ]
    for name in dict.fromkeys(str(run["name"]) for run in runs):
        own = [run for run in runs if run["name"] == name]
        cpu = statistics.median(float(str(run["cpu_s"])) for run in own)
        packets = int(str(own[0]["packets"]))
        rss = max(float(str(run["rss_mib"])) for run in own)
        rate = f"{packets / cpu:,.0f}"
        lines.append(f"| {name} | {packets:,} | {cpu:.3f} | {rate} | {rss:.0f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path, help="folder for the results")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--copies", type=int, default=20)
    arguments = parser.parse_args()
    if not SOURCES:
        raise SystemExit("no captures in ../shared/data/latency: nothing to repeat")
    DATA.mkdir(parents=True, exist_ok=True)
    arguments.output.mkdir(parents=True, exist_ok=True)
    whole, one, rows = DATA / "copies.pcap", DATA / "one.pcap", DATA / "packets.parquet"
    packets = copies(one, 1)
    copies(whole, arguments.copies)
    total = packets * arguments.copies
    latency = (WIRELENS, "latency", "-q", "-r")
    cases = [
        Case("latency", (*latency, whole), total),
        Case("latency --by destination", (*latency, whole, "--by", "destination"), total),
        Case("latency --by packet, Parquet",
             (*latency, whole, "--by", "packet", "-o", rows, "--force"), total),
        Case("latency, one copy", (*latency, one), packets),
        Case("tcptrace -lr, one copy", ("tcptrace", "-lrn", one), packets),
        Case("tshark ack_rtt, one copy", ("tshark", "-n", "-r", one, *FIELDS), packets),
    ]  # fmt: skip
    facts = environment.facts([], arguments.rounds)
    runs = []
    with (arguments.output / "runs.jsonl").open("w") as file:
        for number in range(arguments.rounds):
            for case in cases if number % 2 == 0 else reversed(cases):
                runs.append(measure(case, number))
                file.write(json.dumps(runs[-1]) + "\n")
    facts["load_after"] = os.getloadavg()
    facts["inputs"] = {"copies": total, "one": packets}
    (arguments.output / "environment.json").write_text(json.dumps(facts, indent=2) + "\n")
    names = [case.name for case in cases]
    runs.sort(key=lambda run: names.index(str(run["name"])))
    (arguments.output / "table.md").write_text(table(runs, facts))
    print((arguments.output / "table.md").read_text())


if __name__ == "__main__":
    main()
