"""What each queue came to in runs of the testbed's router, in the rows of worlds.py.

    sudo wirelens testbed run testbed/scenarios/l4s.toml --set router.delay_ms=20 \\
        --set duration_s=12 --seed N -o RUNS
    .venv/bin/python bench/evaluation/l4s/kernel.py RUNS/* >> ROWS.jsonl

Delays are read from traces and leave out the first 5 s, as in worlds.py.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy
from wirelens.l4s import read_trace

WARMUP_NS = 5_000_000_000
SENT = 0


def rows(run: Path) -> Iterator[dict[str, Any]]:
    """A row for each queue of a run."""
    trace = read_trace(run / "trace.l4s")
    entered, left = (trace[name].to_numpy() for name in ("entered_ns", "left_ns"))
    queue, outcome = (trace[name].to_numpy() for name in ("queue", "outcome"))
    late = entered >= entered.min() + WARMUP_NS
    for number, name in enumerate(("l4s", "classic")):
        mine = late & (queue == number)
        waits_ms = (left - entered)[mine & (outcome == SENT)] / 1e6
        ranked = {f"p{share}_ms": numpy.percentile(waits_ms, share) for share in (50, 90, 99)}
        yield {
            "world": "kernel",
            "scenario": "default",
            "seed": int(run.name.rpartition("-")[2]),
            "queue": name,
            "packets": len(waits_ms),
            **{key: round(float(value), 6) for key, value in ranked.items()},
            "dropped": int((mine & (outcome != SENT)).sum()),
        }


def main(runs: Sequence[str]) -> None:
    for run in runs:
        for row in rows(Path(run)):
            print(json.dumps(row))


if __name__ == "__main__":
    main(sys.argv[1:])
