"""The model that ships, steering packets in ns-3 and in the simulator: SwiftQueue's default and the
ends of its axes (section 6.2), 60 s each.

    make ns3 && .venv/bin/python bench/evaluation/l4s/ns3_marking.py ROWS.jsonl [--seeds N]

The simulator finds losses as ns-3 does (`dupacks`). Rows are appended; what is there is not run
again. About 45 minutes on one core.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from wirelens import l4s
from wirelens.l4s.controls import ROUTERS, SCENARIOS, Setting

ROOT = Path(__file__).resolve().parents[3]
MODEL = ROOT / "models/l4s"
SIMULATOR, NS3 = "simulator", "ns-3"
CONTROLS = {"none": "none", "state-informed": "state:1ms", "predicted": "predicted:3ms:0.8"}
# The default, and ends of axes.
SETTINGS = (("flows", 10), ("flows", 100), ("queue", 2), ("queue", 20), ("delay", 200))
SECONDS, WARMUP_S = 60.0, 5.0
FIRST_SEED = 301


def networks() -> dict[tuple[str, str], l4s.Scenario]:
    """By name and router."""

    def plain(scenario: str, router: str) -> l4s.Scenario:
        return l4s.Scenario(
            SCENARIOS[scenario], router=ROUTERS[router], duration_s=SECONDS, warmup_s=WARMUP_S,
            recovery="dupacks",
        )  # fmt: skip

    found = {
        ("websearch", router): plain("websearch", router)
        for router in ("dualpi2", "partitioned-20")
    }
    for axis, value in SETTINGS:
        setting = Setting(axis, value)
        of = setting.applied(plain("sensitivity", "partitioned-20"))
        found[f"sensitivity, {setting.text()}", "partitioned-20"] = of
    return found


def simulate(world: str, scenario: l4s.Scenario) -> l4s.Summary:
    """The summary of one run."""
    is_predicted = scenario.control.startswith("predicted")
    model = MODEL if is_predicted else None
    if world == SIMULATOR:
        return l4s.simulate(scenario, model=model)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(scenario.text())
        file.flush()
        words = [str(ROOT / "target/ns3/l4s"), file.name]
        words += ["--model", str(MODEL)] if is_predicted else []
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"ns-3: {done.stderr.strip()}")
    return l4s.Summary.read(done.stdout)


def row(
    key: tuple[str, str, str, str, int], scenario: l4s.Scenario, text: str | None = None
) -> dict[str, Any]:
    """The outcome of one run for the L4S flows of sender 1, and for others. The control's text is
    that of its name unless given."""
    world, network, router, control, seed = key
    found = simulate(world, scenario.having(control=text or CONTROLS[control], seed=seed))
    steered = found.groups[0]
    others = [group for group in found.groups if group.sender != steered.sender]
    packets = max(steered.delays.packets + steered.dropped, 1)
    return {
        "world": world, "scenario": network, "router": router, "control": control, "seed": seed,
        "p90_ms": steered.delays.p90_ms, "p99_ms": steered.delays.p99_ms,
        "remarked": steered.remarked / packets, "dropped": steered.dropped / packets,
        "reordered": steered.reordered / packets, "throughput_mbps": steered.throughput_bps / 1e6,
        "cross_p99_ms": others[0].delays.p99_ms if others else None,
    }  # fmt: skip


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="The model that ships, in ns-3 and the simulator.")
    parser.add_argument("rows", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args(arguments)
    kept = asked.rows.read_text().splitlines() if asked.rows.exists() else []
    names = ("world", "scenario", "router", "control", "seed")
    done = {tuple(json.loads(line)[name] for name in names) for line in kept}
    todo = [
        ((world, network, router, control, seed), scenario)
        for (network, router), scenario in networks().items()
        for seed in range(FIRST_SEED, FIRST_SEED + asked.seeds)
        for control in CONTROLS
        for world in (SIMULATOR, NS3)
    ]
    todo = [one for one in todo if one[0] not in done]
    with asked.rows.open("a") as rows, ThreadPoolExecutor(asked.jobs) as pool:
        for number, made in enumerate(pool.map(lambda one: row(*one), todo), 1):
            print(json.dumps(made), file=rows, flush=True)
            print(f"{number} of {len(todo)}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
