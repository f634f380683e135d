"""How well networks name congestion controls in runs that they never saw.

    .venv/bin/python bench/cca/quality.py OUT.jsonl --train DIR --test DIR [--test DIR ...]
    .venv/bin/python bench/cca/quality.py OUT.jsonl          prints the table

A row is one network, trained with one seed on intervals of one length, judged on the runs of one
test set. Every network of a seed sees the same intervals. Rows that are in OUT are not made again.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
from wirelens.cca import learn
from wirelens.cca.intervals import Array, Intervals, Reading, draw
from wirelens.cca.runs import Run, find_runs
from wirelens.cca.train import parts, slots_of
from wirelens.classify.metrics import class_f1, confusion, macro_f1
from wirelens.classify.progress import Progress

SINGLE = ("cbiq_bytes", "ingress_bytes", "egress_bytes", "drops", "source_gap_ticks",
          "arrival_gap_ns")  # fmt: skip
PACKETS = "ingress_packets"
INPUTS = (*SINGLE, PACKETS)
DURATIONS = ("10ms", "100ms", "500ms", "1s", "10s", "60s")
SHARE_WATCHED = 0.2
# Intervals to train on, by their slots: what two cores bear.
TRAIN_MAX = ((200, 16_000), (2_000, 6_000), (20_000, 2_000), (100_000, 1_000))
PER_FLOW = 20
BACKGROUND_MAX = 6


@dataclass(frozen=True)
class Kind:
    """A network and what it reads."""

    name: str
    inputs: tuple[str, ...]
    schedule: Any = learn.FASTER
    is_deepcci: bool = False

    def train(self, sides: "Sides", seed: int, threads: int, show: learn.Show) -> learn.Trained:
        options: dict[str, Any] = {
            "schedule": self.schedule, "seed": seed, "threads": threads, "show": show,
        }  # fmt: skip
        columns = [INPUTS.index(name) for name in self.inputs]
        if self.is_deepcci:
            return learn.deepcci(sides.train, sides.watched, sides.controls, columns[0], **options)
        return learn.dragonfly(
            sides.train, sides.watched, sides.controls, columns=columns, **options
        )


DEFAULT = ("cbiq_bytes", "ingress_bytes")
KINDS = {
    kind.name: kind
    for kind in (
        Kind("dragonfly", DEFAULT),
        Kind("dragonfly, the paper's recipe", DEFAULT, learn.PAPER),
        Kind("deepcci", (PACKETS,), learn.DEEPCCI, is_deepcci=True),
        *(Kind(f"{name} alone", (name,)) for name in SINGLE),
    )
}


@dataclass
class Sides:
    """Intervals of one length."""

    train: Intervals
    watched: Intervals
    tests: dict[str, Intervals]
    controls: list[str]


def sides(asked: argparse.Namespace, duration: str, seed: int, progress: Progress) -> Sides:
    reading = Reading(slots_of(duration, "1ms"), INPUTS, share=asked.share, passed="highest")

    def read(runs: list[Run], background_max: int, what: str) -> Intervals:
        def show(done: int, total: int) -> None:
            progress.show(done, total, f"{duration}, seed {seed}: reading {what}")

        (found,) = draw(runs, [reading], PER_FLOW, seed, show, background_max=background_max)
        return found

    runs = find_runs(asked.train)
    drawn = read(runs, BACKGROUND_MAX, "runs to train on")
    kept, watched = parts(runs, SHARE_WATCHED, seed)
    most = next(count for slots, count in TRAIN_MAX if reading.slots < slots)
    tests = {place.name: read(find_runs([place]), 0, place.name) for place in asked.test}
    return Sides(
        drawn.of_runs(kept).thinned(most, seed),
        drawn.of_runs(watched).thinned(most // 2, seed),
        tests,
        sorted(set(drawn.controls)),
    )


def judged(trained: learn.Trained, intervals: Intervals) -> Iterator[dict[str, Any]]:
    """F1 over all, and by how many flows competed."""
    told = trained.scores(intervals).argmax(axis=1)
    truth = learn.labels(intervals, trained.controls)
    background = numpy.array(intervals.background)
    yield {"background": "any", **found(truth, told, trained.controls)}
    for count in sorted(set(intervals.background)):
        rows = background == count
        yield {"background": count, **found(truth[rows], told[rows], trained.controls)}


def found(truth: Array, told: Array, controls: Any) -> dict[str, Any]:
    counts = confusion(truth, told, len(controls))
    most = int(counts.sum(axis=1).argmax())
    return {
        "intervals": len(truth),
        "f1": round(macro_f1(counts), 4),
        "f1_each": dict(zip(controls, class_f1(counts).round(4).tolist(), strict=True)),
        "f1_of_guessing": round(macro_f1(confusion(truth, told * 0 + most, len(controls))), 4),
    }


def make(asked: argparse.Namespace, progress: Progress) -> None:
    done = {key(row) for row in read_rows(asked.output)}
    for seed in asked.seeds:
        for duration in asked.durations:
            wanted = [
                kind for kind in asked.kinds if (kind, duration, seed, asked.share) not in done
            ]
            if not wanted:
                continue
            intervals = sides(asked, duration, seed, progress)
            for name in wanted:
                one(asked, KINDS[name], intervals, duration, seed, progress)


def one(
    asked: argparse.Namespace, kind: Kind, intervals: Sides, duration: str, seed: int,
    progress: Progress,
) -> None:  # fmt: skip
    began, total = time.process_time(), kind.schedule.epochs
    show = telling(progress, f"{kind.name}, {duration}, seed {seed}", total)
    trained = kind.train(intervals, seed, asked.threads, show)
    facts = {
        "network": kind.name, "inputs": kind.inputs, "duration": duration, "seed": seed,
        "share": asked.share, "trained_on": len(intervals.train),
        "train_cpu_s": round(time.process_time() - began, 1),
    }  # fmt: skip
    with asked.output.open("a", encoding="utf-8") as file:
        for place, tested in intervals.tests.items():
            for row in judged(trained, tested):
                file.write(json.dumps({**facts, "test": place, **row}) + "\n")


def telling(progress: Progress, what: str, epochs: int) -> Callable[[int, float, float], None]:
    def show(epoch: int, _: float, f1: float) -> None:
        progress.show(epoch + 1, epochs, f"{what}: F1 {f1:.3f} of runs held out")

    return show


def key(row: dict[str, Any]) -> tuple[str, str, int, float]:
    return row["network"], row["duration"], row["seed"], row["share"]


def read_rows(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def table(rows: list[dict[str, Any]]) -> str:
    """Mean F1 and spread over seeds, by test set, network and length."""
    durations = [
        duration for duration in DURATIONS if any(row["duration"] == duration for row in rows)
    ]
    text = ""
    groups = dict.fromkeys((row["test"], row["background"], row["share"]) for row in rows)
    for test, background, share in groups:
        of_group = [
            row for row in rows
            if (row["test"], row["background"], row["share"]) == (test, background, share)
        ]  # fmt: skip
        looked_at = "" if share == 1 else f", {share:.0%} of packets looked at"
        text += f"## {test}, {background} flows beside{looked_at}\n\n| |"
        text += "".join(f" {duration} |" for duration in durations)
        text += "\n|---|" + "---:|" * len(durations) + "\n"
        for name in dict.fromkeys(row["network"] for row in of_group):
            cells = [cell(of_group, name, duration, "f1") for duration in durations]
            text += f"| {name} | {' | '.join(cells)} |\n"
        first = of_group[0]["network"]
        cells = [cell(of_group, first, duration, "f1_of_guessing") for duration in durations]
        text += f"| always the same | {' | '.join(cells)} |\n\n"
    return text


def cell(rows: list[dict[str, Any]], name: str, duration: str, field: str) -> str:
    values = [row[field] for row in rows if (row["network"], row["duration"]) == (name, duration)]
    if not values:
        return "–"
    low, high = min(values), max(values)
    mean = sum(values) / len(values)
    return f"{mean:.3f}" if len(values) == 1 else f"{mean:.3f} ({low:.3f}–{high:.3f})"


def main() -> None:
    """The command line above."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("output", type=Path)
    add("--train", type=Path, action="append")
    add("--test", type=Path, action="append", default=[])
    add("--durations", type=lambda text: text.split(","), default=list(DURATIONS))
    add("--kinds", type=lambda text: text.split("; "), default=["dragonfly", "deepcci"],
        help=f"some of: {'; '.join(KINDS)}")  # fmt: skip
    add("--seeds", type=lambda text: [int(one) for one in text.split(",")], default=[1, 2, 3])
    add("--share", type=float, default=1.0)
    add("--threads", type=int, default=1)
    asked = parser.parse_args()
    if asked.train is not None:
        progress = Progress(quiet=False)
        make(asked, progress)
        progress.finish()
    print(table(read_rows(asked.output)))


if __name__ == "__main__":
    main()
