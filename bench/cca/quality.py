"""How well networks name congestion controls in runs that they never saw.

    .venv/bin/python bench/cca/quality.py OUT.jsonl --kept DIR --train RUN... --test NAME RUN...
    .venv/bin/python bench/cca/quality.py OUT.jsonl          prints the table

A row is one network, trained with one seed on intervals of one length, judged on the runs of one
test set; a network of 1 s also on longer intervals, by votes of the seconds in them. Every network
of a seed sees the same intervals. Rows that are in OUT are not made again; what is drawn from runs
is kept in DIR.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import drawn
import numpy
from drawn import DURATIONS, PACKETS, SINGLE, Place
from wirelens.cca import learn
from wirelens.cca.card import card
from wirelens.cca.intervals import Array, Intervals
from wirelens.cca.model import MODEL_FILE, Model, mean_votes
from wirelens.cca.reading import load
from wirelens.cca.train import parts
from wirelens.classify.metrics import class_f1, confusion, macro_f1
from wirelens.classify.progress import Progress

Row = dict[str, Any]
SHARE_WATCHED = 0.2
# Intervals of each length to train on: what two cores bear. The paper has 1,050.
TRAIN_MAX = {"10ms": 16_000, "100ms": 16_000, "1s": 8_000, "10s": 2_500, "60s": 600}
TEST_MAX = 4_000
UNKNOWN_BELOW = 0.5
VOTES_MAX = 60
SAMPLED = "10s"
"""The length at which packets are left out by chance, as in the paper's Figure 7."""
VOTES = {"1s": ("10s", "60s")}
"""Of the lengths of networks, those of intervals that are told by their votes, too."""


@dataclass(frozen=True)
class Kind:
    """A network and what it reads."""

    name: str
    inputs: tuple[str, ...]
    schedule: Any = learn.FASTER
    is_deepcci: bool = False

    def train(
        self, sides: "Sides", asked: argparse.Namespace, seed: int, show: Any
    ) -> learn.Trained:
        options: dict[str, Any] = {
            "schedule": self.schedule, "seed": seed, "threads": asked.threads, "show": show,
        }  # fmt: skip
        columns = sides.columns(self.inputs)
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

    inputs: tuple[str, ...]
    train: Intervals
    watched: Intervals
    controls: list[str]

    def columns(self, inputs: Sequence[str]) -> list[int]:
        return [self.inputs.index(name) for name in inputs]


def sides(asked: argparse.Namespace, duration: str, seed: int, inputs: tuple[str, ...]) -> Sides:
    place = training(asked)
    found = drawn.load(place, asked.kept, duration, inputs)
    kept, watched = parts(place.runs, SHARE_WATCHED, seed)
    most = TRAIN_MAX[duration]
    return Sides(
        inputs,
        found.of_runs(kept).thinned(most, seed),
        found.of_runs(watched).thinned(most // 4, seed),
        sorted(set(found.controls)),
    )


def voted(trained: learn.Trained, intervals: Intervals, slots: int) -> Array:
    """Of each interval the control that its parts of so many slots tell together."""
    def scores(values: Array) -> Array:
        return trained.scores(replace(intervals, values=values))

    return mean_votes(scores, slots, intervals.values).argmax(axis=1)


def judged(trained: learn.Trained, intervals: Intervals, slots: int) -> Iterator[Row]:
    """F1 over all, and by how many flows competed."""
    told = voted(trained, intervals, slots)
    truth = learn.labels(intervals, trained.controls)
    background = numpy.array(intervals.background)
    yield {"background": "any", **found(truth, told, trained.controls)}
    counts = sorted(set(intervals.background))
    for count in counts if len(counts) > 1 else []:
        rows = background == count
        yield {"background": count, **found(truth[rows], told[rows], trained.controls)}


def found(truth: Array, told: Array, controls: Any) -> Row:
    counts = confusion(truth, told, len(controls))
    most = int(counts.sum(axis=1).argmax())
    return {
        "intervals": len(truth),
        "f1": round(macro_f1(counts), 4),
        "f1_each": dict(zip(controls, class_f1(counts).round(4).tolist(), strict=True)),
        "f1_of_guessing": round(macro_f1(confusion(truth, told * 0 + most, len(controls))), 4),
    }


def training(asked: argparse.Namespace) -> Place:
    """What networks are trained on."""
    return Place("train", asked.train, drawn.BACKGROUND_MAX)


def places(asked: argparse.Namespace) -> list[Place]:
    """What networks are judged by."""
    whole = [Place(name, [Path(run) for run in runs]) for name, *runs in asked.test]
    return whole + [Place(whole[0].name, whole[0].runs, share=share) for share in asked.shares]


def make(asked: argparse.Namespace, progress: Progress) -> None:
    for place in [training(asked), *places(asked)]:
        drawn.draw_missing(place, asked.kept, reading(progress, place))
    done = {(row["network"], row["votes_of"], row["seed"]) for row in read_rows(asked.output)}
    for seed in asked.seeds:
        for duration in asked.durations:
            wanted = [kind for kind in asked.kinds if (kind, duration, seed) not in done]
            if not wanted:
                continue
            inputs = tuple(dict.fromkeys(one for kind in wanted for one in KINDS[kind].inputs))
            both = sides(asked, duration, seed, inputs)
            tests = [
                (place, length, test(asked, place, length, seed, inputs))
                for length in (duration, *VOTES.get(duration, ()))
                for place in places(asked)
                if place.share == 1 or length == SAMPLED
            ]
            for name in wanted:
                one(asked, KINDS[name], both, tests, (duration, seed), progress)


def test(
    asked: argparse.Namespace, place: Place, length: str, seed: int, inputs: tuple[str, ...]
) -> Intervals:
    return drawn.load(place, asked.kept, length, inputs).thinned(TEST_MAX, seed)


def one(
    asked: argparse.Namespace, kind: Kind, both: Sides, tests: list[tuple[Place, str, Intervals]],
    what: tuple[str, int], progress: Progress,
) -> None:  # fmt: skip
    duration, seed = what
    began = time.process_time()
    epochs: list[float] = []

    def show(epoch: int, _: float, f1: float) -> None:
        epochs.append(f1)
        text = f"{kind.name}, {duration}, seed {seed}: F1 {max(epochs):.3f} of runs held out"
        progress.show(epoch + 1, kind.schedule.epochs, text)

    trained = kind.train(both, asked, seed, show)
    facts = {
        "network": kind.name, "inputs": kind.inputs, "seed": seed,
        "trained_on": len(both.train), "epochs": len(epochs),
        "train_cpu_s": round(time.process_time() - began, 1),
    }  # fmt: skip
    rows = [
        {"duration": length, "votes_of": duration, **facts, "test": place.name,
         "share": place.share, **row}
        for place, length, intervals in tests
        for row in judged(trained, intervals, both.train.values.shape[1])
    ]  # fmt: skip
    first = f"F1 {rows[0]['f1']:.3f} of {rows[0]['test']}"
    progress.tell(f"{kind.name}, {duration}, seed {seed}: {first}")
    if asked.save and kind == KINDS["dragonfly"] and seed == asked.seeds[0]:
        save(asked, trained, both, duration)
    with asked.output.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def save(asked: argparse.Namespace, trained: learn.Trained, both: Sides, duration: str) -> None:
    """Puts the network beside those of other lengths that are in the model already."""
    known = load(asked.save) if (asked.save / MODEL_FILE).exists() else None
    network = learn.calibrated(trained, both.watched, UNKNOWN_BELOW)
    networks = {one.slots: one for one in [*(known.networks if known else []), network]}
    scores = known.training["f1_of_runs_held_out"] if known else {}
    scores = {**scores, duration: trained.f1(both.watched)}
    made = {
        "command": "bash models/make.sh cca RUNS",
        "runs": len(asked.train),
        "f1_of_runs_held_out": {one: scores[one] for one in DURATIONS if one in scores},
        "seed": asked.seeds[0],
    }
    ordered = [networks[slots] for slots in sorted(networks)]
    voting = known.voting if known else None
    if duration in VOTES:
        length, slots = VOTES[duration][0], both.train.values.shape[1]
        place = training(asked)
        longer = drawn.load(place, asked.kept, length, DEFAULT)
        _, watched = parts(place.runs, SHARE_WATCHED, asked.seeds[0])
        voting = learn.voting(networks[slots], longer.of_runs(watched), trained.controls, VOTES_MAX)
    model = Model(
        trained.controls, DEFAULT, 1_000_000, "highest", ordered, made, voting=voting
    )
    text = card(model, [run.name for run in asked.train], asked.note)
    model.save(asked.save, text, force=True)


def reading(progress: Progress, place: Place) -> drawn.Show:
    return lambda done, total: progress.show(done, total, f"reading runs of {place.name}")


def read_rows(path: Path) -> list[Row]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def table(rows: list[Row]) -> str:
    """Mean F1 and spread over seeds, by test set, network and length."""
    durations = [one for one in DURATIONS if any(row["duration"] == one for row in rows)]
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
        for name in dict.fromkeys(row_name(row) for row in of_group):
            cells = [cell(of_group, name, duration, "f1") for duration in durations]
            text += f"| {name} | {' | '.join(cells)} |\n"
        cells = [guessing(of_group, duration) for duration in durations]
        text += f"| always the same | {' | '.join(cells)} |\n\n"
    return text


def row_name(row: Row) -> str:
    """The network, and of how long parts it counts votes."""
    is_whole = row["votes_of"] == row["duration"]
    return row["network"] if is_whole else f"{row['network']}, votes of {row['votes_of']}"


def guessing(rows: list[Row], duration: str) -> str:
    """F1 of whoever always tells the most frequent control."""
    values = [row["f1_of_guessing"] for row in rows if row["duration"] == duration]
    return f"{sum(values) / len(values):.3f}" if values else "–"


def cell(rows: list[Row], name: str, duration: str, field: str) -> str:
    values = [row[field] for row in rows if (row_name(row), row["duration"]) == (name, duration)]
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
    add("--kept", type=Path)
    add("--train", type=Path, nargs="+", metavar="RUN")
    add("--test", nargs="+", action="append", default=[], metavar="NAME RUN")
    add("--shares", type=lambda text: [float(one) for one in text.split(",")], default=[])
    add("--durations", type=lambda text: text.split(","), default=list(DURATIONS))
    add("--kinds", type=lambda text: text.split("; "), default=["dragonfly", "deepcci"],
        help=f"some of: {'; '.join(KINDS)}")  # fmt: skip
    add("--seeds", type=lambda text: [int(one) for one in text.split(",")], default=[1, 2, 3])
    add("--save", type=Path, metavar="DIR", help="keep the first seed's networks as a model here")
    add("--note", default="", help="a paragraph for the model's card")
    add("--threads", type=int, default=1)
    asked = parser.parse_args()
    if asked.train is not None:
        progress = Progress()
        make(asked, progress)
        progress.finish()
    print(table(read_rows(asked.output)))


if __name__ == "__main__":
    main()
