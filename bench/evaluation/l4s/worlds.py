"""Runs the same scenarios in the simulator and in ns-3, and keeps what each queue came to.

    make ns3 && .venv/bin/python bench/evaluation/l4s/worlds.py ROWS.jsonl [--seeds N]

Rows are appended; what is there already is not run again. The table of them is made by
`bench/pages/page_l4s.py`.
"""

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
SCENARIOS = ROOT / "testbed/scenarios"
SIMULATOR, NS3 = "simulator", "ns-3"
# Slow start is over by then; what it leaves in the queues differs most between worlds.
WARMUP_NS = 5_000_000_000


def command(world: str, scenario: Path, seed: int) -> list[str]:
    """The command line of a run."""
    if world == SIMULATOR:
        words = [str(ROOT / "target/release/wirelens"), "testbed", "simulate", str(scenario)]
        return [*words, "--set", f"seed={seed}", "--set", f"warmup_ns={WARMUP_NS}"]
    words = [str(ROOT / "target/ns3/l4s"), str(scenario)]
    return [*words, "--set", f"seed {seed}", "--set", f"warmup_ns {WARMUP_NS}"]


def cpu_s() -> float:
    """Processor time of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(world: str, scenario: Path, seed: int) -> Iterator[dict[str, Any]]:
    """A row for each queue."""
    before = cpu_s()
    done = subprocess.run(
        command(world, scenario, seed), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{world}, {scenario.name}: {done.stderr.strip()}")
    took_s = cpu_s() - before
    found = json.loads(done.stdout)
    name = scenario.stem.removeprefix("l4s-")
    for queue, of_queue in found["queues"].items():
        yield {
            "world": world,
            "scenario": name,
            "seed": seed,
            "queue": queue,
            **{key: of_queue[key] for key in ("packets", "p50_ms", "p90_ms", "p99_ms")},
            "dropped": sum(of_queue[f"dropped_{cause}"] for cause in ("full", "early", "late")),
            "cpu_s": round(took_s, 4),
            "simulated_s": found["seconds"] + WARMUP_NS / 1e9,
        }


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="Compares worlds of an L4S network.")
    parser.add_argument("rows", type=Path)
    parser.add_argument("--seeds", type=int, default=8)
    asked = parser.parse_args(arguments)
    kept = asked.rows.read_text().splitlines() if asked.rows.exists() else []
    done = {tuple(json.loads(row)[key] for key in ("world", "scenario", "seed")) for row in kept}
    with asked.rows.open("a") as rows:
        for scenario in sorted(SCENARIOS.glob("l4s-*.txt")):
            for world in (SIMULATOR, NS3):
                for seed in range(1, asked.seeds + 1):
                    if (world, scenario.stem.removeprefix("l4s-"), seed) in done:
                        continue
                    for row in run(world, scenario, seed):
                        print(json.dumps(row), file=rows, flush=True)
                    print(f"{world}, {scenario.stem}, seed {seed}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
