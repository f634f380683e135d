"""Loads of new flows on systems that name them: counterparts of ServeFlow's Figures 7 and 8,
Tables 6 and 7.

    bash bench/speed/run.sh --only serve-loads [--task services] [--output DIR] [--testbed DIR]

Held-out flows are drawn anew, each a flow of its own with its own gaps, 200 to 60,000 a second for
60 s of event time and more than that for 20 s, and sent through emulated systems (systems.py) whose
consumers take the measured time of each model (loads_models.py, which trains them first). Tasks are
services (the testbed's) and devices. Writes runs.jsonl (a line for each system and load),
costs.json, environment.json, table.md and pictures into a folder of results. loads_live.py replays
such loads through the program itself.
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
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "evaluation/classify"))

import environment
import loads_table
import loads_tasks
import systems
from loads_models import DEPTH, DEPTHS, Chain, Flows, Models
from wirelens.learn.metrics import macro_f1, weighted_f1

LOADS = (200, 1_000, 4_000, 15_000, 30_000, 60_000, 120_000, 240_000, 480_000)
# The load at which the paper looks at latency.
SHOWN = 4_000
# More than any depth bears, one by one.
DEPTHS_MOST = 240_000
SEED = 1
TESTBED = Path("../data/services/services")
_PACKAGES = ("lightgbm", "scikit-learn", "onnxruntime", "torch")
# What serves less than this part of a load is sent no greater one, the paper's loads apart.
_SERVED_LEAST = 0.95


def judged(system: systems.System, flows: Flows, load: systems.Load, depth: int) -> dict[str, Any]:
    """Emulates one load on one system, and what the paper tells of it."""
    began_s = time.process_time()
    times = systems.emulate(system, flows, load, SEED)
    has = numpy.isfinite(times.verdict)
    latency = (times.verdict - load.first_us)[has]
    in_time = times.verdict[has] / 1e6
    counted = (in_time >= systems.WARM_S) & (in_time < load.event_s)
    rows = load.rows[has]
    size = len(flows.classes)
    pairs = flows.labels[rows] * size + system.chain.labels[rows]
    counts = numpy.bincount(pairs, minlength=size * size).reshape(size, size)
    decided = numpy.bincount(system.chain.decided[rows], minlength=len(system.chain.stages))
    busy = times.spent.sum() / 1e6 / load.event_s / system.consumers
    return {
        "system": system.name,
        "depth": depth,
        "consumers": system.consumers,
        "in_batches": system.in_batches,
        "flows_per_s": load.per_s,
        "flows": len(load.rows),
        "service_rate": float(counted.sum() / (load.event_s - systems.WARM_S)),
        "missed": float(1 - has.mean()),
        "latency_mean_us": float(latency.mean()),
        "latency_median_us": float(numpy.median(latency)),
        "latency_p99_us": float(numpy.percentile(latency, 99)),
        "macro_f1": float(macro_f1(counts)),
        "weighted_f1": float(weighted_f1(counts)),
        "packets_mean_us": float(times.packets[has].mean()),
        "queued_mean_us": float(times.queued[has].mean()),
        "worked_mean_us": float(times.worked[has].mean()),
        "spent_mean_us": float(times.spent[has].mean()),
        "busy": float(busy),
        "decided": (decided / decided.sum()).round(4).tolist(),
        "latency_percentiles_us": numpy.percentile(latency, range(1, 101)).round(2).tolist(),
        "emulated_in_s": round(time.process_time() - began_s, 2),
    }


def all_systems(models: Models, has_references: bool) -> Iterator[systems.System]:
    """Those that are compared, one consumer each; those that need more packages come last."""
    for kind, name in (
        ("shipped", "ours, as shipped"),
        ("chosen", "ours, chosen"),
        (f"paper-{DEPTH}", "ours, paper's shape"),
    ):
        chain = models.chain(models.folder(kind))
        yield systems.System(name, chain, True)
        yield systems.System(f"{name}, in batches", chain, True, in_batches=True)
    slow = models.slow_alone(models.folder(f"paper-{DEPTH}"))
    yield systems.System("queueing", slow, True)
    yield systems.System("queueing, in batches", slow, True, in_batches=True)
    yield systems.System("best effort", slow, False)
    more: tuple[tuple[str, Callable[[], Chain]], ...] = (
        ("ours, as shipped, in ONNX Runtime", lambda: models.chain(models.in_onnx("shipped"))),
        (
            "ours, paper's shape, in ONNX Runtime",
            lambda: models.chain(models.in_onnx(f"paper-{DEPTH}")),
        ),
        ("LEXNet", lambda: models.slow_alone(models.lexnet())),
        ("FastTraffic", models.fasttraffic),
    )
    for name, made in more if has_references else ():
        try:
            yield systems.System(name, made(), name.startswith("ours"))
        except ImportError as error:
            models.progress.warn(f"{name}: left out: {error}")


def costs(chain: Chain) -> list[dict[str, Any]]:
    """What each model's call takes."""
    names = chain.told.split(", ")
    return [
        {
            "model": name,
            "packets": stage.packets,
            "alone_mean_us": round(float(stage.alone_us.mean()), 3),
            "alone_median_us": round(float(numpy.median(stage.alone_us)), 3),
            "alone_p99_us": round(float(numpy.percentile(stage.alone_us, 99)), 3),
            "batch_mean_us": round(stage.batch_us, 3),
        }
        for name, stage in zip(names, chain.stages, strict=True)
    ]


class Run:
    """Systems and loads one after the other, a line as soon as it is known."""

    def __init__(
        self, models: Models, output: Path, loads: Sequence[int], has_references: bool
    ) -> None:
        self.models, self.output, self.loads = models, output, loads
        self.has_references = has_references
        self.flows = models.flows()
        self.told: dict[str, Any] = {
            "task": models.task.title,
            "packet_us": round(self.flows.packet_us, 4),
            "flows": {
                "held_out": len(self.flows.labels),
                "classes": len(self.flows.classes),
                "short": {
                    str(depth): round(float((self.flows.packets < depth).mean()), 4)
                    for depth in DEPTHS
                },
            },
        }

    def all(self) -> None:
        """Everything."""
        (self.output / "runs.jsonl").unlink(missing_ok=True)
        # Asked at one time, as far as that goes.
        for kind in ("shipped", "chosen", *(f"paper-{depth}" for depth in reversed(DEPTHS))):
            self.models.chain(self.models.folder(kind))
        for system in all_systems(self.models, self.has_references):
            self._tell_costs(system.name, system.chain)
            for per_s in self.loads:
                if system.in_batches and per_s < systems.PAPER_MOST:
                    # Hardly two flows are ready at once.
                    continue
                row = self._one(system, per_s, DEPTH)
                is_behind = row["service_rate"] < _SERVED_LEAST * per_s
                if per_s >= systems.PAPER_MOST and is_behind:
                    break
            if system.name in ("ours, as shipped", "queueing"):
                two = systems.System(system.name, system.chain, True, consumers=2)
                self._one(two, max(self.loads), DEPTH)
        self._by_depth()

    def _by_depth(self) -> None:
        """The paper's shape, and the slow model alone, with slow models of other depths."""
        for depth in DEPTHS:
            place = self.models.folder(f"paper-{depth}")
            chain, slow = self.models.chain(place), self.models.slow_alone(place)
            self._tell_costs(f"ours, paper's shape, depth {depth}", chain)
            for name, one in (("ours, by depth", chain), ("queueing, by depth", slow)):
                for per_s in (SHOWN, DEPTHS_MOST):
                    self._one(systems.System(name, one, True), per_s, depth)

    def _tell_costs(self, name: str, chain: Chain) -> None:
        self.told[name] = costs(chain)
        text = json.dumps(self.told, indent=1) + "\n"
        (self.output / "costs.json").write_text(text, encoding="utf-8")

    def _one(self, system: systems.System, per_s: int, depth: int) -> dict[str, Any]:
        load = systems.make_load(per_s, len(self.flows.labels), SEED)
        row = judged(system, self.flows, load, depth)
        with (self.output / "runs.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        self.models.progress.tell(
            f"{system.name}, {system.consumers} consumers, {per_s} a second: "
            f"{row['service_rate']:.0f} served, {row['missed']:.4f} missed, "
            f"median {row['latency_median_us']:.1f} µs, F1 {row['macro_f1']:.3f}"
        )
        return row


def main() -> None:
    """Measures, or draws what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--testbed", type=Path, default=TESTBED, help="runs with labelled flows")
    parser.add_argument("--task", choices=loads_tasks.TASKS, default="services")
    parser.add_argument("--output", type=Path, help="folder for the results")
    parser.add_argument("--loads", default=",".join(map(str, LOADS)), help="new flows a second")
    parser.add_argument(
        "--ours-alone", action="store_true", help="without ONNX Runtime, LEXNet and FastTraffic"
    )
    parser.add_argument("--draw", action="store_true", help="table and pictures of --output only")
    asked = parser.parse_args()
    name = f"{time.strftime('%Y-%m-%d', time.gmtime())}-{environment.cpu_slug()}-classify-loads"
    if asked.task != "services":
        name += f"-{asked.task}"
    output = asked.output or Path("bench/results") / name
    output.mkdir(parents=True, exist_ok=True)
    loads_tasks.FOLDER.mkdir(parents=True, exist_ok=True)
    if not asked.draw:
        facts = environment.facts([], 1)
        versions: Any = facts["versions"]
        versions |= {package: environment.python_version(package) for package in _PACKAGES}
        models = Models(loads_tasks.TASKS[asked.task], asked.testbed)
        loads = [int(text) for text in asked.loads.split(",")]
        Run(models, output, loads, not asked.ours_alone).all()
        facts["load_after"] = os.getloadavg()
        (output / "environment.json").write_text(json.dumps(facts, indent=2) + "\n")
    loads_table.write(output)


if __name__ == "__main__":
    main()
