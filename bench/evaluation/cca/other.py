"""What a model with a class for other controls says of each control, those that it never saw too.

    .venv/bin/python bench/evaluation/cca/other.py OUT.jsonl --test NAME RUN... [--model MODEL]
    .venv/bin/python bench/evaluation/cca/other.py OUT.jsonl --test NAME RUN... --train RUN... \\
        --without CONTROL [--seed N]
    .venv/bin/python bench/evaluation/cca/other.py OUT.jsonl            prints the table

A row is one set of slot files, one control of its flows and one length of interval: how many were
named right or wrong, surely so, called another control, or unsure. With --without a model is
trained first on runs from which the flows of that control are left out, though they still share the
queue with the others: the model has never seen that control.
"""

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import numpy
from foreign import KNOWN, SURE, read, weights
from wirelens.cca import packed, train
from wirelens.cca.intervals import OTHER, Reading, draw
from wirelens.cca.levels import INPUTS
from wirelens.cca.model import Model, voters_of
from wirelens.cca.packed import PackedRun
from wirelens.cca.reading import load
from wirelens.cca.runs import find_runs
from wirelens.learn.metrics import softmax
from wirelens.learn.progress import Progress
from wirelens.shipped import model_folder

COUNTS = (1, 10, 60)
"""Seconds whose intervals are combined."""
PER_FLOW = 20
Row = dict[str, Any]


def without(run: PackedRun, control: str) -> PackedRun:
    """A run whose flows of a control are not to be read."""
    read = [at for at, flow in enumerate(run.kept) if flow.control != control]
    stretches = [
        replace(one, flows=one.flows[read], spans=[one.spans[at] for at in read])
        for one in run.stretches
    ]
    return replace(run, kept=[run.kept[at] for at in read], stretches=stretches)


def trained(asked: argparse.Namespace, folder: Path) -> Model:
    """A model of runs without a control."""
    places = [folder / "slots"]
    for number, run in enumerate(find_runs(asked.train)):
        assert isinstance(run, PackedRun), f"{run.path}: wanted: slot files"
        packed.write(places[0] / f"slots-{number:03}.xz", [without(run, asked.without)])
    request = train.Request(
        places=places, output=folder / "model", durations=("1s", "10s"), inputs=INPUTS, slot="1ms",
        passed="highest", per_flow=60, recipe="faster", unknown_below=0.5, seed=asked.seed,
        threads=1, force=True, command="", controls=KNOWN, levels=True,
    )  # fmt: skip
    return train.train(request, Progress()).model


def told(model: Model, runs: Sequence[Path]) -> Iterator[Row]:
    """Answers on intervals, by control and length."""
    network = voters_of(model.networks)[0]
    slot, inputs = f"{model.slot_ns}ns", tuple(model.inputs)
    readings = [
        Reading(network.slots * count, inputs, slot, 1.0, model.passed, PER_FLOW)
        for count in COUNTS
    ]
    drawn = draw(find_runs(runs), readings, seed=1)
    for count, intervals in zip(COUNTS, drawn, strict=True):
        if not len(intervals):
            continue
        chances = softmax(model.voted_by(network, intervals.values).astype(float))
        highest, answers = chances.max(axis=1), chances.argmax(axis=1)
        names = numpy.array(model.controls)[answers]
        names[highest < network.unknown_below] = ""
        truth = numpy.array(intervals.controls)
        for control in sorted(set(intervals.controls)):
            mine = truth == control
            said, sure = names[mine], highest[mine] >= SURE
            is_named = (said != "") & (said != OTHER)
            is_wrong = is_named & (said != control)
            yield {
                "control": control, "seconds": count, "intervals": int(mine.sum()),
                "right": float((said == control).mean()), "wrong": float(is_wrong.mean()),
                "wrong_and_sure": float((is_wrong & sure).mean()),
                "other": float((said == OTHER).mean()), "unsure": float((said == "").mean()),
            }  # fmt: skip


def table(rows: Sequence[Row]) -> str:
    """Means over models of one kind."""
    text = "| trained without | runs | control | seconds | models | right | other | unsure |"
    text += " wrong | wrong with 0.9 or more |\n|---|---|---|---:|---:|---:|---:|---:|---:|---:|\n"
    groups: dict[tuple[str, str, str, int], list[Row]] = defaultdict(list)
    for row in rows:
        key = (row["without"] or "–", row["test"], row["control"], row["seconds"])
        groups[key].append(row)
    fields = ("right", "other", "unsure", "wrong", "wrong_and_sure")
    for (left_out, test, control, seconds), members in sorted(groups.items()):
        cells = " | ".join(f"{mean(row[field] for row in members):.3f}" for field in fields)
        text += f"| {left_out} | {test} | {control} | {seconds} | {len(members)} | {cells} |\n"
    return text


def main() -> None:
    """Makes rows, or prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("rows", type=Path)
    add("--model", default="cca", help="name or folder")
    add("--test", nargs="+", action="append", default=[], metavar="NAME RUN")
    add("--train", type=Path, nargs="+", default=[], metavar="RUN")
    add("--without", metavar="CONTROL")
    add("--seed", type=int, default=1)
    asked = parser.parse_args()
    rows = read(asked.rows)
    if asked.test:
        with tempfile.TemporaryDirectory() as place:
            if asked.without:
                model, about = trained(asked, Path(place)), {"seed": asked.seed}
            else:
                model = load(model_folder(asked.model, "model.safetensors", "wirelens train cca"))
                about = {"model": weights(asked.model)}
        asked.rows.parent.mkdir(parents=True, exist_ok=True)
        with asked.rows.open("a", encoding="utf-8") as out:
            for name, *runs in asked.test:
                for row in told(model, [Path(run) for run in runs]):
                    whole = {"without": asked.without, **about, "test": name, **row}
                    rows.append(whole)
                    out.write(json.dumps(whole) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
