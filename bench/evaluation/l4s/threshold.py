"""How often the classic queue has to be predicted to be faster before any packet is re-marked: the
threshold of verdict `rare`, on networks with seeds that no other table reports.

    make ns3 && .venv/bin/python bench/evaluation/l4s/threshold.py ROWS.jsonl [--ns3 N] [--seeds N]

Web search and Hadoop messages on SwiftQueue's topology in the simulator, recovery as in Linux, 20 s
each; web search on DualPI2 in ns-3, 60 s each. `random` at 0.1 and 0.2 % shows by how much P99
differs by chance where next to nothing is re-marked. Rows are appended; what is there is not run
again. About 25 minutes on one core, half of them in ns-3.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ns3_marking
from ns3_marking import NS3, SIMULATOR
from wirelens import l4s
from wirelens.l4s.controls import ROUTERS, SCENARIOS

THRESHOLDS = (0.02, 0.03, 0.04)
FIXED = {
    "none": "none", "state-informed": "state:1ms", "random 0.1 %": "random:0.001",
    "random 0.2 %": "random:0.002",
}  # fmt: skip
FIRST_SIMULATED, FIRST_NS3 = 101, 311


def controls(router: str) -> dict[str, str]:
    """By name: its text."""
    found = {f"predicted {share}": f"predicted:3ms:0.8:{share}" for share in THRESHOLDS}
    few = ("none", "state-informed") if router != "dualpi2" else tuple(FIXED)
    return {**{name: FIXED[name] for name in few}, **found}


def networks(asked: argparse.Namespace) -> Iterator[tuple[str, str, str, l4s.Scenario]]:
    """World, network and router of each run, without its control."""
    for router in ("dualpi2", "partitioned-20"):
        for name in ("websearch", "hadoop"):
            for seed in range(FIRST_SIMULATED, FIRST_SIMULATED + asked.seeds):
                plain = l4s.Scenario(
                    SCENARIOS[name], router=ROUTERS[router], duration_s=20.0, warmup_s=2.0,
                    recovery="rack", seed=seed,
                )  # fmt: skip
                yield SIMULATOR, name, router, plain
    ours = ns3_marking.networks()["websearch", "dualpi2"]
    for seed in range(FIRST_NS3, FIRST_NS3 + asked.ns3):
        yield NS3, "websearch", "dualpi2", ours.having(seed=seed)


def runs(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Those that are not there yet."""
    lines = asked.rows.read_text().splitlines() if asked.rows.exists() else []
    names = ("world", "scenario", "router", "control", "seed")
    there = {tuple(json.loads(line)[name] for name in names): json.loads(line) for line in lines}
    for world, name, router, plain in networks(asked):
        rates: list[float] = []
        for control, text in controls(router).items():
            key = (world, name, router, control, plain.seed)
            row = there.get(key) or ns3_marking.row(key, plain, text)
            rates.append(row["remarked"])
            if key not in there:
                yield row
        # As often as the first threshold.
        key = (world, name, router, "random, same rate", plain.seed)
        rate = rates[list(controls(router)).index(f"predicted {THRESHOLDS[0]}")]
        if router != "dualpi2" and key not in there:
            yield ns3_marking.row(key, plain, f"random:{rate:.6f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Thresholds of the marker.")
    parser.add_argument("rows", type=Path)
    parser.add_argument("--ns3", type=int, default=5, help="seeds in ns-3")
    parser.add_argument("--seeds", type=int, default=48, help="seeds in the simulator")
    asked = parser.parse_args()
    for number, row in enumerate(runs(asked), 1):
        with asked.rows.open("a") as file:
            print(json.dumps(row), file=file)
        print(number, row["world"], row["router"], row["control"], file=sys.stderr)


if __name__ == "__main__":
    main()
