"""Loads of new flows on systems that name them: counterparts of ServeFlow's Figures 7 and 8,
Tables 6 and 7.

    bash bench/run.sh --only serve-loads [--output DIR] [--testbed DIR] [--loads 200,4000]

Held-out flows of the testbed's services are drawn anew, each a flow of its own with its own gaps,
200 to 60,000 a second for 60 s of event time, and sent through emulated systems (systems.py) whose
consumers take the measured processor time of each model (loads_models.py, which trains them first).
Writes runs.jsonl (a line for each system and load), costs.json, environment.json, table.md and
pictures into a folder of results.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy

# The parent folder has what all benchmarks tell of the machine.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import environment
import loads_models
import loads_table
import systems
from loads_models import DEPTH, DEPTHS, Chain, Flows, Models
from wirelens.classify.metrics import macro_f1, weighted_f1

LOADS = (200, 1_000, 4_000, 15_000, 30_000, 60_000)
# The load at which the paper looks at latency.
SHOWN = 4_000
SEED = 1
TESTBED = Path("../data/services/services")
_PACKAGES = ("lightgbm", "scikit-learn", "onnxruntime", "torch")


def judged(
    system: systems.System, flows: Flows, load: systems.Load, depth: int
) -> dict[str, Any]:
    """Emulates one load on one system, and what the paper tells of it."""
    began_s = time.process_time()
    times = systems.emulate(system, flows, load, SEED)
    has = numpy.isfinite(times.verdict)
    latency = (times.verdict - load.first_us)[has]
    in_time = times.verdict[has] / 1e6
    counted = (in_time >= systems.WARM_S) & (in_time < systems.EVENT_S)
    rows = load.rows[has]
    size = len(flows.classes)
    pairs = flows.labels[rows] * size + system.chain.labels[rows]
    counts = numpy.bincount(pairs, minlength=size * size).reshape(size, size)
    decided = numpy.bincount(
        system.chain.decided[rows], minlength=len(system.chain.stages)
    )
    busy = times.worked[has].sum() / 1e6 / systems.EVENT_S / system.consumers
    return {
        "system": system.name,
        "depth": depth,
        "consumers": system.consumers,
        "flows_per_s": load.per_s,
        "flows": len(load.rows),
        "service_rate": float(counted.sum() / (systems.EVENT_S - systems.WARM_S)),
        "missed": float(1 - has.mean()),
        "latency_mean_us": float(latency.mean()),
        "latency_median_us": float(numpy.median(latency)),
        "latency_p99_us": float(numpy.percentile(latency, 99)),
        "macro_f1": float(macro_f1(counts)),
        "weighted_f1": float(weighted_f1(counts)),
        "packets_mean_us": float(times.packets[has].mean()),
        "queued_mean_us": float(times.queued[has].mean()),
        "worked_mean_us": float(times.worked[has].mean()),
        "busy": float(busy),
        "decided": (decided / decided.sum()).round(4).tolist(),
        "latency_percentiles_us": numpy.percentile(latency, range(1, 101))
        .round(2)
        .tolist(),
        "emulated_in_s": round(time.process_time() - began_s, 2),
    }


def all_systems(models: Models) -> Iterator[systems.System]:
    """Those that are compared, one consumer each; those that need more packages come last."""
    ours = models.cascade(DEPTH)
    slow = loads_models.slow_alone(ours)
    yield systems.System("ours", ours, True)
    yield systems.System("queueing", slow, True)
    yield systems.System("best effort", slow, False)
    more: tuple[tuple[str, Callable[[], Chain]], ...] = (
        ("ours in ONNX Runtime", lambda: models.in_onnx(ours)),
        ("LEXNet", lambda: models.reference("lexnet")),
        ("FastTraffic", lambda: models.reference("fasttraffic")),
    )
    for name, made in more:
        try:
            yield systems.System(name, made(), name.startswith("ours"))
        except ImportError as error:
            models.progress.warn(f"{name}: left out: {error}")


def costs(chain: Chain) -> list[dict[str, float]]:
    """What each model's call takes."""
    return [
        {
            "packets": stage.packets,
            "alone_mean_us": round(float(stage.alone_us.mean()), 3),
            "alone_median_us": round(float(numpy.median(stage.alone_us)), 3),
            "alone_p99_us": round(float(numpy.percentile(stage.alone_us, 99)), 3),
            "batch_mean_us": round(float(stage.batch_us.mean()), 3),
        }
        for stage in chain.stages
    ]


def tries(
    models: Models, loads: Sequence[int], told: dict[str, Any]
) -> Iterator[tuple[systems.System, int, int]]:
    """Systems, loads and depths; `told` gets what their models take."""
    by_depth = {depth: models.cascade(depth) for depth in DEPTHS}
    for depth, chain in by_depth.items():
        told[f"ours, depth {depth}"] = costs(chain)
    for system in all_systems(models):
        told[system.name] = costs(system.chain)
        for per_s in loads:
            yield system, per_s, DEPTH
        if system.name == "ours":
            for depth, chain in by_depth.items():
                deep = systems.System("ours, by depth", chain, True)
                yield deep, SHOWN, depth
                yield deep, max(loads), depth
        if system.name in ("ours", "queueing"):
            yield (
                systems.System(system.name, system.chain, True, consumers=2),
                max(loads),
                DEPTH,
            )


def run(models: Models, output: Path, loads: Sequence[int]) -> None:
    """Everything, a line as soon as it is known."""
    flows = models.flows()
    told: dict[str, Any] = {"extraction_us_a_packet": round(flows.extraction_us, 4)}
    told["flows"] = {
        "held_out": len(flows.labels),
        "classes": len(flows.classes),
        "short": {str(d): round(float((flows.packets < d).mean()), 4) for d in DEPTHS},
    }
    with (output / "runs.jsonl").open("w", encoding="utf-8") as file:
        for system, per_s, depth in tries(models, loads, told):
            (output / "costs.json").write_text(
                json.dumps(told, indent=1) + "\n", encoding="utf-8"
            )
            load = systems.make_load(per_s, len(flows.labels), SEED)
            row = judged(system, flows, load, depth)
            file.write(json.dumps(row) + "\n")
            file.flush()
            models.progress.tell(
                f"{system.name}, {system.consumers} consumers, {per_s} a second: "
                f"{row['service_rate']:.0f} served, {row['missed']:.4f} missed, "
                f"median {row['latency_median_us']:.0f} µs"
            )


def main() -> None:
    """Measures, or draws what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--testbed", type=Path, default=TESTBED, help="runs with labelled flows"
    )
    parser.add_argument("--output", type=Path, help="folder for the results")
    parser.add_argument(
        "--loads", default=",".join(map(str, LOADS)), help="new flows a second"
    )
    parser.add_argument(
        "--draw", action="store_true", help="table and pictures of --output only"
    )
    asked = parser.parse_args()
    name = f"{time.strftime('%Y-%m-%d', time.gmtime())}-{environment.cpu_slug()}-classify-loads"
    output = asked.output or Path("bench/results") / name
    output.mkdir(parents=True, exist_ok=True)
    loads_models.FOLDER.mkdir(parents=True, exist_ok=True)
    if not asked.draw:
        facts = environment.facts([], 1)
        versions: Any = facts["versions"]
        versions |= {
            package: environment.python_version(package) for package in _PACKAGES
        }
        run(
            Models(asked.testbed),
            output,
            [int(text) for text in asked.loads.split(",")],
        )
        facts["load_after"] = os.getloadavg()
        (output / "environment.json").write_text(json.dumps(facts, indent=2) + "\n")
    loads_table.write(output)


if __name__ == "__main__":
    main()
