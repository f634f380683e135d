"""Trains the systems that ServeFlow is compared with, and tells what each gets right.

    .venv/bin/python bench/evaluation/classify/train_references.py [--tasks services,devices]
        [--systems cnn,lexnet,fasttraffic] [--packets 10] [--seeds 1,2,3] [--tune]

Each is trained on the same sides of the same flows as our own models: half of the families of
captures train, a tenth tells when to end and which settings are best, the rest judge. A seed
draws the sides and the first weights. With --tune the settings in GRID are tried on the first
seed's sides and told; without, those in BEST are used, which that gave. PyTorch is needed.

Written to bench/data/classify: TASK-SYSTEM.onnx of the first seed, beside it TASK-SYSTEM.json with
the names of its input's columns and what it scored, and results.tsv, a line a run.
"""

import argparse
import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import fasttraffic
import lexnet
import numpy
import tasks
from wirelens.classify import cnn, matrix
from wirelens.classify import weights as weighting
from wirelens.classify.recipe import Recipe
from wirelens.classify.split import TEST, TRAINING, VALIDATION
from wirelens.learn import networks
from wirelens.learn.metrics import confusion, macro_f1, weighted_f1

FOLDER = Path("bench/data/classify")
# What the convolutional network sees: header bits, and numbers beside them.
RECIPE = Recipe(
    blocks=("ipv4", "ipv6", "tcp", "udp", "icmp"),
    payload_bytes=fasttraffic.PAYLOAD_BYTES,
    numbers=(
        "protocol",
        "server_port",
        "size_bytes",
        "direction",
        "gap_ns",
        "payload_bytes",
    ),
)


@dataclass(frozen=True)
class Try:
    """Settings of one training run."""

    weighting: str
    settings: Any


@dataclass
class Side:
    """Rows of one side, as one system sees them."""

    values: Any
    labels: Any


@dataclass(frozen=True)
class Reference:
    """A network and what it gets right."""

    network: Any
    columns: list[str]
    watched_f1: float
    macro_f1: float
    weighted_f1: float
    epochs: int
    seconds: float


def rows_of(system: str, task: tasks.Task, packets: int) -> tuple[list[str], Any]:
    """Columns that a system sees, and their values for all flows."""
    sample = task.dataset.sample
    if system == "lexnet":
        names = lexnet.columns(packets)
        return names, sample.values(names)
    if system == "fasttraffic":
        raw = numpy.frombuffer(sample.records(packets), dtype=numpy.uint8)
        return fasttraffic.columns(packets), fasttraffic.tokens(raw, RECIPE, packets)
    found = matrix.build(sample, RECIPE, packets, task.sides.rows(TRAINING))
    return found.columns(packets), found.values(packets, numpy.arange(len(task.dataset)))


def train(
    system: str,
    task: tasks.Task,
    columns: list[str],
    values: Any,
    tried: Try,
    packets: int,
    seed: int,
) -> Reference:
    """Trains one system and judges it."""
    labels, classes = task.dataset.labels, task.dataset.classes
    sides = [task.sides.rows(side) for side in (TRAINING, VALIDATION, TEST)]
    weights = numpy.ones(len(labels))
    for rows in sides[:2]:
        weights[rows] = weighting.class_weights(labels[rows], len(classes), tried.weighting)
    fitting, watched = (
        networks.Examples(values[rows], labels[rows], weights[rows]) for rows in sides[:2]
    )
    began = time.process_time()
    known: dict[str, Any] = {"seed": seed, "threads": 1}
    if system == "lexnet":
        network, history = lexnet.fit(
            fitting, watched, packets, len(classes), tried.settings, **known
        )
    elif system == "fasttraffic":
        network, history = fasttraffic.fit(
            fitting, watched, packets, len(classes), tried.settings, **known
        )
    else:
        network, history = cnn.fit(fitting, watched, columns, len(classes), tried.settings, **known)
    seconds = time.process_time() - began

    def judged(rows: Any) -> Any:
        predicted = networks.probabilities(network, values[rows]).argmax(axis=1)
        return confusion(labels[rows], predicted, len(classes))

    of_watched, of_test = judged(sides[1]), judged(sides[2])
    return Reference(
        network,
        columns,
        macro_f1(of_watched),
        macro_f1(of_test),
        weighted_f1(of_test),
        len(history.trained),
        seconds,
    )


def grid(system: str) -> list[Try]:
    """Settings that are tried."""
    if system == "lexnet":
        base: Any = lexnet.Settings()
        changes: list[dict[str, Any]] = [
            {},
            {"prototypes": 4},
            {"features_rate": 3e-3, "prototypes": 4},
            {"features_rate": 3e-3, "prototypes_rate": 1e-2},
        ]
    elif system == "fasttraffic":
        base = fasttraffic.Settings()
        changes = [{}, {"learning_rate": 1e-3}, {"learning_rate": 8e-3}]
    else:
        base = networks.Schedule(**cnn.family().parameters)
        changes = [{}, {"learning_rate": 3e-4}, {"learning_rate": 3e-3}]
    return [
        Try(weighting, replace(base, **change))
        for change in changes
        for weighting in ("none", "root")
    ]


# What --tune gave: of each system on each task the weighting, and changes of its settings.
BEST: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {
    ("services", "lexnet"): ("root", {"features_rate": 3e-3, "prototypes_rate": 1e-2}),
    ("devices", "lexnet"): ("root", {"features_rate": 3e-3, "prototypes_rate": 1e-2}),
    ("testbed", "lexnet"): ("root", {"features_rate": 3e-3, "prototypes_rate": 1e-2}),
    ("testbed", "fasttraffic"): ("none", {}),
}


def best(task: str, system: str) -> Try:
    """The settings that tuning found."""
    weighting, changes = BEST.get((task, system), ("root", {}))
    first = grid(system)[0]
    return Try(weighting, replace(first.settings, **changes))


def tell(task: str, system: str, packets: int, seed: int, tried: Try, found: Reference) -> None:
    """A line for people and for the table."""
    figures = {
        "task": task,
        "system": system,
        "packets": packets,
        "seed": seed,
        "weighting": tried.weighting,
        "settings": json.dumps(asdict(tried.settings)),
        "watched_f1": round(found.watched_f1, 4),
        "macro_f1": round(found.macro_f1, 4),
        "weighted_f1": round(found.weighted_f1, 4),
        "parameters": sum(p.numel() for p in found.network.parameters()),
        "epochs": found.epochs,
        "cpu_s": round(found.seconds, 1),
    }
    table = FOLDER / "results.tsv"
    is_new = not table.exists()
    with table.open("a", encoding="utf-8") as lines:
        if is_new:
            lines.write("\t".join(figures) + "\n")
        lines.write("\t".join(map(str, figures.values())) + "\n")
    print(" ".join(f"{name}={value}" for name, value in figures.items()), flush=True)


def keep(task: tasks.Task, system: str, packets: int, found: Reference, values: Any) -> None:
    """Writes the model, and probabilities of some test flows to hold a runtime's against."""
    stem = FOLDER / f"{task.name}-{system}"
    networks.export(found.network, f"{stem}.onnx", len(found.columns))
    rows = task.sides.rows(TEST)[:256]
    told = {
        "classes": task.dataset.classes,
        "packets": packets,
        "columns": found.columns,
        "input": networks.INPUT,
        "output": networks.OUTPUT,
        "macro_f1": found.macro_f1,
        "weighted_f1": found.weighted_f1,
    }
    Path(f"{stem}.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    scores = networks.probabilities(found.network, values[rows])
    numpy.savez_compressed(f"{stem}.npz", rows=values[rows], scores=scores)


def main() -> None:
    """Trains what was named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", default=",".join(tasks.NAMES))
    parser.add_argument("--systems", default="cnn,lexnet,fasttraffic")
    parser.add_argument("--packets", type=int, default=10)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--tune", action="store_true")
    asked = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    seeds = [int(seed) for seed in asked.seeds.split(",")]
    for name in asked.tasks.split(","):
        for seed in seeds[:1] if asked.tune else seeds:
            task = tasks.load_task(name, RECIPE, asked.packets, seed)
            print("\n".join(tasks.described(task)), flush=True)
            for system in asked.systems.split(","):
                columns, values = rows_of(system, task, asked.packets)
                for tried in grid(system) if asked.tune else [best(name, system)]:
                    found = train(system, task, columns, values, tried, asked.packets, seed)
                    tell(name, system, asked.packets, seed, tried, found)
                    if seed == seeds[0] and not asked.tune:
                        keep(task, system, asked.packets, found, values)


if __name__ == "__main__":
    main()
