"""Measures the packet log's classifier: how fast it judges, and how far its sketch is from exact.

    .venv/bin/python bench/speed/packetlog/classifier.py OUT [--speed CAPTURE]...
        [--error CAPTURE]... [--rounds 5] [--model FILE] [--tuned PROGRAM] [--more-buckets CAPTURE]
        [--scale CAPTURE]...

Needs `cargo build --release`. Writes to the folder OUT: `speed.jsonl`, `errors.jsonl` and
`scale.jsonl` (what a switch would log at higher rates, with the model that ships unless another is
given), a line a measurement, `environment.json` and `table.md`. The tuned loop is `tuned.cpp` of
the yardsticks, compiled; it and ours take turns, so that both have the same share of a busy
machine.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import environment

BENCH = Path("target/release/wirelens-bench")
SIZES = ("size_sum", "size_max", "size_min", "size_mean", "size_variance")
GAPS = ("gap_sum", "gap_max", "gap_min", "gap_mean", "gap_variance")
TUNED = "tuned loop, flow table of the capture"


def rows(command: list[str | Path]) -> list[dict[str, Any]]:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def speed(options: argparse.Namespace) -> list[dict[str, Any]]:
    found = []
    for number in range(options.rounds):
        for capture in options.speed:
            command: list[str | Path] = [BENCH, "packetlog", "features", "--repetitions", "1"]
            command += ["--capture", capture]
            if options.model:
                command += ["--model", options.model]
            runs = rows(command)
            if options.tuned:
                before = cpu_of_children()
                tuned: list[str | Path] = [options.tuned, capture, "2", "1"]
                subprocess.run(tuned, check=True, capture_output=True)
                cpu_s = cpu_of_children() - before
                runs.append({"name": TUNED, "items": runs[0]["items"], "cpu_s": cpu_s})
            load = os.getloadavg()[0]
            for run in runs:
                told = {"round": number, "capture": capture.stem, "load": round(load, 2)}
                found.append({**told, **run})
    return found


def errors(options: argparse.Namespace) -> list[dict[str, Any]]:
    command: list[str | Path] = [BENCH, "packetlog", "sketch-error"]
    found = []
    for capture in options.error:
        found += [{**row, "buckets": 1 << 16} for row in rows([*command, "--capture", capture])]
    for capture in options.more_buckets:
        for bits in (18, 19, 20):
            flows = ["--flows", "295000,590000,1180000", "--windows", "2"]
            more = [*command, "--capture", capture, *flows, "--bucket-bits", str(bits)]
            found += [{**row, "buckets": 1 << bits} for row in rows(more)]
    return found


def scale(options: argparse.Namespace) -> list[dict[str, Any]]:
    command: list[str | Path] = [BENCH, "packetlog", "scale"]
    command += ["--model", options.model or Path("models/packetlog/model.json")]
    return [row for capture in options.scale for row in rows([*command, "--capture", capture])]


def speed_lines(found: list[dict[str, Any]]) -> list[str]:
    lines = ["| capture | what | M packets a core-second | ns a packet |", "|---|---|---|---|"]
    names = dict.fromkeys((run["capture"], run["name"]) for run in found)
    for capture, name in names:
        runs = [r for r in found if (r["capture"], r["name"]) == (capture, name)]
        rates = [run["items"] / run["cpu_s"] / 1e6 for run in runs]
        middle = statistics.median(rates)
        span = f"{middle:.2f} ({min(rates):.2f} to {max(rates):.2f})"
        lines.append(f"| {capture} | {name} | {span} | {1e3 / middle:.0f} |")
    return lines


def error_lines(found: list[dict[str, Any]], attributes: tuple[str, ...]) -> list[str]:
    head = ["capture", "active flows", "rule", "buckets", "MiB", "coverage", *attributes]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row in found:
        size = f"{row['size_bytes'] / 2**20:.1f}"
        told = [row["trace"], f"{row['active_flows']:,}", row["rule"], f"2 × {row['buckets']:,}"]
        told += [size, f"{row['coverage']:.4f}", *(f"{row[name]:.1e}" for name in attributes)]
        lines.append(f"| {' | '.join(told)} |")
    return lines


def table(speeds: list[dict[str, Any]], found: list[dict[str, Any]], facts: dict[str, Any]) -> str:
    loads = [run["load"] for run in speeds]
    text = ["# The packet log's classifier", ""]
    text += [f"{facts['cpu']}, {facts['cores']} cores, commit {facts['commit']}."]
    if loads:
        text += [
            f"While speeds were measured {min(loads):.1f} to {max(loads):.1f} processes wanted the "
            "cores: medians of processor time, with the least and the most.",
            "",
            "## Packets judged",
            "",
            *speed_lines(speeds),
        ]
    if found:
        text += [
            "",
            "## Average relative error at the end of a window",
            "",
            "Over all flows that were active in it; a flow that is not held has an error of 1, and "
            "so has an estimate of what is truly 0. Gaps: of flows with two packets at least. The "
            "paper's rule has counters as wide as ours, so its own are no better.",
            "",
            *error_lines(found, SIZES),
            "",
            *error_lines(found, GAPS),
        ]
    return "\n".join(text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--speed", type=Path, action="append", default=[])
    parser.add_argument("--error", type=Path, action="append", default=[])
    parser.add_argument("--more-buckets", type=Path, action="append", default=[])
    parser.add_argument("--scale", type=Path, action="append", default=[])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--tuned", type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    facts = environment.facts([], options.rounds)
    kept = {}
    for name, measured in (("speed", speed), ("errors", errors), ("scale", scale)):
        path = options.out / f"{name}.jsonl"
        found = measured(options)
        if found or not path.exists():
            path.write_text("".join(json.dumps(row) + "\n" for row in found))
        kept[name] = [json.loads(line) for line in path.read_text().splitlines()]
    (options.out / "environment.json").write_text(json.dumps(facts, indent=2) + "\n")
    (options.out / "table.md").write_text(table(kept["speed"], kept["errors"], facts))


if __name__ == "__main__":
    main()
