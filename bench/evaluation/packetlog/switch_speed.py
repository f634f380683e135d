"""How many packets the simulated switch takes in a second of one core.

    .venv/bin/python bench/evaluation/packetlog/switch_speed.py OUT --capture CAPTURE
        [--times 43] [--rounds 9]

Needs `cargo build --release`, and editcap, capinfos and mergecap. The capture is repeated so often,
each time later by its own length, since of a short one the start of the program is most of the
time. At 400 Gbit/s each packet is in four streams, and counts four times. Writes to the folder OUT:
`speed.jsonl`, `table.md` and `environment.json`.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import environment

WIRELENS = Path("target/release/wirelens")
GBPS = 400
# What classifies.
KINDS: dict[str, list[str | Path]] = {
    "exact arithmetic": [],
    "whole numbers": ["--integer", "--model", "models/packetlog-kernel"],
}


def run(*words: str | Path) -> str:
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout


def longer(capture: Path, times: int, folder: Path) -> Path:
    """The capture after itself, so often."""
    seconds = float(run("capinfos", "-T", "-r", "-u", capture).split("\t")[1])
    parts = []
    for number in range(times):
        part = folder / f"{number}.pcap"
        run("editcap", "-F", "nsecpcap", "-t", f"{number * (seconds + 1):.9f}", capture, part)
        parts.append(part)
    whole = folder / "whole.pcap"
    run("mergecap", "-a", "-F", "nsecpcap", "-w", whole, *parts)
    for part in parts:
        part.unlink()
    return whole


def cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure(capture: Path, rounds: int) -> list[dict[str, Any]]:
    found = []
    words = [WIRELENS, "simulate", "packetlog", "--gbps", str(GBPS), "--format", "jsonl"]
    for round_ in range(rounds):
        for kind, more in KINDS.items():
            before = cpu_s()
            row = json.loads(run(*words, "-r", capture, "-q", *more))
            spent = cpu_s() - before
            line = {"round": round_, "classifier": kind, "packets": row["packets"]}
            found.append({**line, "cpu_s": round(spent, 3)})
            print(json.dumps(found[-1]), file=sys.stderr, flush=True)
    return found


def table(rows: list[dict[str, Any]], facts: dict[str, Any], name: str, times: int) -> str:
    out = [
        "# Packets that the simulated switch takes",
        "",
        f"{facts['date']}, commit {facts['commit']}. {facts['cpu']}, Linux {facts['kernel']}. Load"
        f" average {facts['load_before'][0]:.2f} before. `{name}`, {times} times, at {GBPS} Gbit/s;"
        " the start of the program is included. Wanted: 2 million in a second of one core.",
        "",
        "| classifier | packets | in a second of one core: median | least | most |",
        "|---|---:|---:|---:|---:|",
    ]
    for kind in KINDS:
        same = [row for row in rows if row["classifier"] == kind]
        rates = [row["packets"] / row["cpu_s"] / 1e6 for row in same]
        cells = f"{median(rates):.2f} M | {min(rates):.2f} M | {max(rates):.2f} M"
        out.append(f"| {kind} | {same[0]['packets']:,} | {cells} |")
    return "\n".join(out) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--capture", type=Path, required=True)
    parser.add_argument("--times", type=int, default=43)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    facts = environment.facts([], given.rounds)
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(longer(given.capture, given.times, Path(folder)), given.rounds)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (given.out / "speed.jsonl").write_text(text)
    (given.out / "environment.json").write_text(json.dumps(facts, indent=2) + "\n")
    name = "/".join(given.capture.parts[-2:])
    (given.out / "table.md").write_text(table(rows, facts, name, given.times))
    print((given.out / "table.md").read_text())


if __name__ == "__main__":
    main()
