"""Speed and quality of one and the same model that ships, on the sealed flows that judge it.

    .venv/bin/python bench/speed/classify/ships.py FLOWS OUTPUT --model NAME=FOLDER[=PROGRAM]...

FLOWS is the folder that `models/make.sh` lays out (`lay_out_devices` of models/devices_data.sh):
captures in `data` and `foreign`, labels in `devices.tsv`. Each sealed flow is drawn again and again
under an address of its own, 20,000 new flows a second for 5 s, as packets in memory; PROGRAM
(`wirelens-bench`) serves them with each packet answered before the next comes, and in batches, and
scores rows alone and 64 together. Models take turns. OUTPUT gets rows.jsonl and environment.json.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy

# The parent folder has what all benchmarks tell of the machine.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import environment
import load_capture
from wirelens.classify import arguments, recipe_file, steps
from wirelens.classify.cascade import Cascade
from wirelens.classify.cascade import load as load_cascade
from wirelens.classify.dataset import Dataset
from wirelens.classify.strangers import OpenSet, figures
from wirelens.learn.metrics import confusion, macro_f1
from wirelens.learn.progress import Progress

Array = Any
Row = dict[str, Any]

RECIPE = Path(__file__).resolve().parents[3] / "models/recipes/devices.toml"
PER_S, SECONDS, SEED = 20_000, 5.0, 1
# Of each frame: headers and the bytes of payload that the recipe reads, with room for options.
WIDTH, PACKETS = 256, 10
BATCHES = {"one by one": 1, "in batches": 4096}


def sealed_flows() -> tuple[Dataset, Array]:
    """All labelled flows of this folder, and the rows of those that are sealed."""
    typed = ["train", *recipe_file.options(RECIPE), "--read=data", "--read=foreign"]
    # As many packets as a model of any age reads.
    typed += ["--flows=devices.tsv", "--output=none", f"--depths=1,{PACKETS}"]
    request = arguments.train_request(arguments.parser().parse_args(typed), typed[1:])
    progress = Progress(False)
    dataset = steps.read_flows(request, progress)
    plan, told = steps.plan_of(request, dataset, progress)
    progress.tell(told)
    return dataset, plan.test


def of_devices(dataset: Dataset, rows: Array) -> Array:
    """Without foreign flows, some of whose captures have no Ethernet."""
    is_own = [dataset.captures[at].parts[0] == "data" for at in dataset.capture_of[rows].tolist()]
    return rows[is_own]


def quality(cascade: Cascade, dataset: Dataset, rows: Array) -> Row:
    """How right a model is on some flows, and how many its first stage decides."""
    sample, truth = dataset.sample.of(rows), dataset.labels[rows]
    told, size = cascade.predict(sample), len(dataset.classes)
    judged = OpenSet(truth, dataset.families[rows], dataset.classes, told)
    found = figures(judged, judged.names())
    last = cascade.alone(sample, len(cascade.stages) - 1).argmax(axis=1)
    return {
        "flows": len(rows),
        "macro_f1": float(macro_f1(confusion(truth, told.labels, size))),
        "macro_f1_last": float(macro_f1(confusion(truth, last, size))),
        "named_own": found.named,
        "right_of_named": found.right_of_named,
        "first_stage": float((told.stages == 0).mean()),
    }


def scored(cascade: Cascade, folder: Path, program: Path, dataset: Dataset, rows: Array) -> Row:
    """Microseconds of each stage's model for a row, alone and of 64 together."""
    sample = dataset.sample.of(rows)
    found: Row = {}
    with tempfile.TemporaryDirectory() as place:
        for stage in cascade.stages:
            names = cascade.declared(stage)["numbers"]
            stem = Path(place) / stage.name
            stem.with_suffix(".records").write_bytes(sample.records(stage.packets))
            stem.with_suffix(".numbers").write_bytes(sample.numbers(names).tobytes())
        typed = [program, "asks", "--model", folder, "--rows", place]
        done = subprocess.run(typed, check=True, capture_output=True, text=True)
    for line in map(json.loads, done.stdout.splitlines()):
        mean_us = float(numpy.mean(line["ns"])) / 1e3 / line["together"]
        found[f"{line['stage']}_{'alone' if line['together'] == 1 else 'batch'}_us"] = mean_us
    return found


def served(folder: Path, program: Path, capture: Path, batch: int) -> Row:
    """Flows of the load through the classifier, and what they took."""
    typed = [program, "serve", "--model", folder, "--capture", capture, "--batch", str(batch)]
    done = subprocess.run(typed, check=True, capture_output=True, text=True)
    told = json.loads(done.stdout.splitlines()[0])
    return {"flows": told["items"], "cpu_s": told["cpu_s"], "check": told["check"]}


def main() -> None:
    """Writes the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("flows", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--model", action="append", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    parts = [text.split("=") for text in asked.model]
    models = [
        (name, Path(at).resolve(), Path(*own or [load_capture.BENCH]).resolve())
        for name, at, *own in parts
    ]
    output, load_capture.BENCH = asked.output.resolve(), load_capture.BENCH.resolve()
    # Names of captures, by which families are sealed, are those of training.
    os.chdir(asked.flows)
    dataset, rows = sealed_flows()
    before = environment.facts([], asked.rounds)
    output.mkdir(parents=True, exist_ok=True)
    lines: list[Row] = []
    with tempfile.TemporaryDirectory() as place:
        capture = Path(place) / "load.pcap"
        frames = load_capture.read(dataset, of_devices(dataset, rows), PACKETS, WIDTH)
        load = load_capture.write(frames, capture, PER_S, SECONDS, SEED)
        for name, folder, _ in models:
            told = quality(load_cascade(folder), dataset, rows)
            lines.append({"model": name, "what": "quality", **told})
        for number in range(asked.rounds):
            for name, folder, program in models if number % 2 == 0 else models[::-1]:
                cascade = load_cascade(folder)
                told = scored(cascade, folder, program, dataset, rows)
                lines.append({"model": name, "what": "scored", "round": number, **told})
                for way, batch in BATCHES.items():
                    told = served(folder, program, capture, batch)
                    told["packets"] = load.packets
                    line = {"model": name, "what": "served", "way": way, "round": number, **told}
                    lines.append(line)
                    print(json.dumps(line), file=sys.stderr)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (output / "rows.jsonl").write_text(text, encoding="utf-8")
    text = json.dumps(before, indent=1) + "\n"
    (output / "environment.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
