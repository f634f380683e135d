"""Loads through `wirelens classify --pace`: how long after its frame does a verdict come?

    bash bench/speed/run.sh --only own    makes loads and models, and says what a core can do
    .venv/bin/python bench/speed/paced.py OUTPUT

Of each load the last tenth of its packets is left out: no new flow comes with them. One line of
JSON a run is written to OUTPUT/paced.jsonl, and a table to OUTPUT/paced.md.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

WIRELENS = Path("target/release/wirelens")
OWN = Path("bench/data/own")
NAMES = ["many-services", "devices", "services"]
# How fast the load of 20,000 new flows a second is replayed.
FACTORS = [0.25, 0.5, 1.0, 2.0, 4.0]
FLOWS_PER_S = 20_000
ROUNDS = 3
LATENCY = re.compile(
    r"latency of (?P<verdicts>\d+) verdicts decided by a frame:"
    r" p50 (?P<p50_us>[\d.]+) µs, p99 (?P<p99_us>[\d.]+) µs, max (?P<max_us>[\d.]+) µs"
)
FIRST = re.compile(r"\((?P<share>[\d.]+) %\) at the first packet")


def packet_count(capture: Path) -> int:
    told = subprocess.run(
        [WIRELENS, "info", "-r", capture, "--format", "jsonl"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return int(json.loads(told.stdout)["packets"])


def replay(name: str, factor: float, packets: int) -> dict[str, object]:
    capture = OWN / name / "first.pcap"
    # Slow replays are cut, or they would take minutes.
    count = int(packets * 0.9 * min(1.0, 1.2 * factor))
    command = [WIRELENS, "classify", "-r", capture, "--model", OWN / name / "model"]
    command += ["--pace", str(factor), "-c", str(count), "-o", OWN / "verdicts.csv", "--force"]
    load_before = os.getloadavg()[0]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    latency, first = LATENCY.search(told), FIRST.search(told)
    if not latency or not first:
        raise SystemExit(f"{name}: no latency in what was told:\n{told}")
    found = {key: float(value) for key, value in latency.groupdict().items()}
    row: dict[str, object] = {"cascade": name, "flows_per_s": round(FLOWS_PER_S * factor)}
    return row | found | {"first_packet_percent": float(first["share"]), "load": load_before}


def main() -> None:
    output = Path(sys.argv[1])
    output.mkdir(parents=True, exist_ok=True)
    packets = {name: packet_count(OWN / name / "first.pcap") for name in NAMES}
    # Rounds take turns.
    runs = [(name, factor) for _ in range(ROUNDS) for factor in FACTORS for name in NAMES]
    rows = [replay(name, factor, packets[name]) for name, factor in runs]
    lines = [json.dumps(row) for row in rows]
    (output / "paced.jsonl").write_text("\n".join(lines) + "\n")
    table = ["| cascade | new flows a second | p50 | p99, each round |", "|---|---:|---:|---:|"]
    for name in NAMES:
        for factor in FACTORS:
            rate = round(FLOWS_PER_S * factor)
            same = [r for r in rows if (r["cascade"], r["flows_per_s"]) == (name, rate)]
            middle = sorted(str(r["p50_us"]) for r in same)[len(same) // 2]
            tails = ", ".join(str(r["p99_us"]) for r in same)
            table.append(f"| {name} | {rate:,} | {middle} µs | {tails} µs |")
    (output / "paced.md").write_text("\n".join(table) + "\n")
    print("\n".join(table))


if __name__ == "__main__":
    main()
