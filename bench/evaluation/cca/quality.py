"""How well networks name congestion controls in runs that they never saw.

    .venv/bin/python bench/evaluation/cca/quality.py OUT.jsonl --train RUN... --test NAME RUN...
    .venv/bin/python bench/evaluation/cca/quality.py OUT.jsonl          prints the table

A row is one network, trained with one seed on intervals of one length, judged on the runs of one
test set; a network of 1 s also on longer intervals, by votes of the seconds in them. Every network
of a seed sees the same intervals. Rows that are in OUT are not made again. RUN is a slot file, a
folder of some, such as testbed/data/congestion/train, or a folder with captures; what is drawn from
those is kept in --kept DIR.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import drawn
import numpy
from drawn import DURATIONS, PACKETS, SINGLE, Place
from wirelens.cca import learn, levels
from wirelens.cca.intervals import Array, Intervals, in_rows, normalised
from wirelens.cca.model import Voting, votes_of
from wirelens.cca.runs import find_runs
from wirelens.cca.train import parts, row_slots_of, slots_of
from wirelens.learn.metrics import class_f1, confusion, macro_f1
from wirelens.learn.progress import Progress

Row = dict[str, Any]
SHARE_WATCHED = 0.2
# Intervals of each length to train on: what two cores bear. The paper has 1,050.
TRAIN_MAX = {"10ms": 64_000, "100ms": 48_000, "1s": 24_000, "10s": 6_000, "60s": 600}
TEST_MAX = 4_000
VOTES_MAX = 60
SAMPLED = "10s"
"""The length at which packets are not sampled, as in the paper's Figure 7."""
VOTERS = ("1s", "10s")
"""Lengths of networks whose intervals vote."""
BOTH = " and ".join(VOTERS)
VOTING = {"1s": ("10s", "60s"), "10s": ("60s",), BOTH: ("10s", "60s")}
"""Of the lengths of networks, those of intervals that are told by their votes, too."""
CORRELATION = 0.1
"""How far windows err together, as fitted for the model that ships."""


@dataclass(frozen=True)
class Kind:
    """A network and what it reads."""

    name: str
    inputs: tuple[str, ...]
    schedule: Any = None
    """`learn.faster` if there is none."""
    is_deepcci: bool = False
    reads: Callable[[Array], Array] = normalised

    def train(
        self, sides: "Sides", asked: argparse.Namespace, seed: int, show: Any
    ) -> learn.TrainedNetwork:
        options: dict[str, Any] = {
            "schedule": self.schedule, "seed": seed, "threads": asked.threads, "show": show,
        }  # fmt: skip
        columns = sides.columns(self.inputs)
        if self.is_deepcci:
            return learn.deepcci(sides.train, sides.watched, sides.controls, columns[0], **options)

        def reads(values: Array) -> Array:
            return self.reads(values[:, :, columns])

        return learn.dragonfly(sides.train, sides.watched, sides.controls, reads=reads, **options)


DEFAULT = ("cbiq_bytes", "ingress_bytes")
LEVELED = (*levels.INPUTS, *drawn.OF_ALL.values())
KINDS = {
    kind.name: kind
    for kind in (
        Kind("dragonfly", DEFAULT),
        Kind("dragonfly, the paper's recipe", DEFAULT, learn.PAPER),
        Kind("deepcci", (PACKETS,), learn.DEEPCCI, is_deepcci=True),
        *(Kind(f"{name} alone", (name,)) for name in SINGLE),
        Kind("dragonfly with egress", levels.INPUTS),
        Kind("levels", levels.INPUTS, reads=levels.with_levels),
        Kind("levels and shares", LEVELED, reads=levels.with_shares),
    )
}


@dataclass
class Sides:
    """Intervals of one length."""

    inputs: tuple[str, ...]
    row_slots: int
    train: Intervals
    watched: Intervals
    controls: list[str]

    def columns(self, inputs: Sequence[str]) -> list[int]:
        return [self.inputs.index(name) for name in inputs]


def sides(asked: argparse.Namespace, duration: str, seed: int) -> Sides:
    places, inputs = training(asked), inputs_of(asked)
    row_slots = row_slots_of(slots_of(duration, "1ms"))
    found = drawn.load(places, asked.kept, duration, inputs, row_slots)
    kept, watched = parts(asked.train, SHARE_WATCHED, seed)
    most = min(asked.train_max, TRAIN_MAX[duration]) * len(places)
    return Sides(
        inputs,
        row_slots,
        found.of_runs(kept).thinned(most, seed),
        found.of_runs(watched).thinned(most // 4, seed),
        sorted(set(found.controls)),
    )


@dataclass(frozen=True)
class Voter:
    """A network that was trained, whose probabilities are right."""

    trained: learn.TrainedNetwork
    slots: int
    row_slots: int
    temperature: float

    def scores(self, values: Array) -> Array:
        """Of intervals, slot by slot."""
        rows = Intervals(in_rows(values, self.row_slots))
        return self.trained.scores(rows) / self.temperature


def judged(voters: Sequence[Voter], intervals: Intervals) -> Iterator[Row]:
    """F1 of what networks tell together, over all and by how many flows competed."""
    voting, controls = Voting(VOTES_MAX, CORRELATION), voters[0].trained.controls
    told = voting.together(votes_of(voters, intervals.values)).argmax(axis=1)
    truth = learn.labels(intervals, controls)
    background = numpy.array(intervals.background)
    yield {"background": "any", **found(truth, told, controls)}
    counts = sorted(set(intervals.background))
    for count in counts if len(counts) > 1 else []:
        rows = background == count
        yield {"background": count, **found(truth[rows], told[rows], controls)}


def found(truth: Array, told: Array, controls: Any) -> Row:
    counts = confusion(truth, told, len(controls))
    most = int(counts.sum(axis=1).argmax())
    return {
        "intervals": len(truth),
        "f1": round(macro_f1(counts), 4),
        "f1_each": dict(zip(controls, class_f1(counts).round(4).tolist(), strict=True)),
        "f1_of_guessing": round(macro_f1(confusion(truth, told * 0 + most, len(controls))), 4),
    }


def training(asked: argparse.Namespace) -> list[Place]:
    """What networks are trained on: the same runs, with more and fewer of their packets."""
    return [
        Place("train", asked.train, drawn.BACKGROUND_MAX, share)
        if share == 1
        else Place("train", asked.train, drawn.BACKGROUND_MAX, share, asked.durations)
        for share in asked.train_shares
    ]


def places(asked: argparse.Namespace) -> list[Place]:
    """What networks are judged by."""
    whole = [Place(name, runs) for name, runs in asked.tests]
    return whole + [Place(whole[0].name, whole[0].runs, share=share) for share in asked.shares]


def make(asked: argparse.Namespace, progress: Progress) -> None:
    for place in [*training(asked), *places(asked)]:
        drawn.draw_missing(place, asked.kept, reading(progress, place))
    done = {
        (row["network"], row["votes_of"], row["seed"])
        for row in read_rows(asked.output) if shares_of(row) == asked.train_shares
    }  # fmt: skip
    steps = [*asked.durations, *([BOTH] if set(asked.durations) >= set(VOTERS) else [])]
    for seed in asked.seeds:
        missing = {
            name: [step for step in steps if (name, step, seed) not in done] for name in asked.kinds
        }
        if any(missing.values()):
            of_seed(asked, seed, missing, progress)


def of_seed(
    asked: argparse.Namespace, seed: int, missing: dict[str, list[str]], progress: Progress
) -> None:
    """Trains what is missing with a seed, and judges it."""
    voters: dict[tuple[str, str], Voter] = {}
    for duration in asked.durations:
        names = [
            name for name, steps in missing.items()
            if duration in steps or (BOTH in steps and duration in VOTERS)
        ]  # fmt: skip
        if not names:
            continue
        both = sides(asked, duration, seed)
        for name in names:
            voters[name, duration], facts = one(
                asked, KINDS[name], both, (duration, seed), progress
            )
            if duration in missing[name]:
                write_rows(asked, [voters[name, duration]], duration, facts, progress)
    for name, steps in missing.items():
        if BOTH in steps:
            facts = {"network": name, "inputs": KINDS[name].inputs, "seed": seed}
            write_rows(asked, [voters[name, voter] for voter in VOTERS], BOTH, facts, progress)


def inputs_of(asked: argparse.Namespace) -> tuple[str, ...]:
    """All that some network reads."""
    return tuple(dict.fromkeys(one for kind in asked.kinds for one in KINDS[kind].inputs))


def one(
    asked: argparse.Namespace, kind: Kind, both: Sides, what: tuple[str, int], progress: Progress
) -> tuple[Voter, Row]:
    """A network that is trained, and what is to be said of it."""
    duration, seed = what
    began = time.process_time()
    epochs: list[float] = []
    schedule = kind.schedule or learn.faster(len(both.train))

    def show(epoch: int, _: float, f1: float) -> None:
        epochs.append(f1)
        text = f"{kind.name}, {duration}, seed {seed}: F1 {max(epochs):.3f} of runs held out"
        progress.show(epoch + 1, schedule.epochs, text)

    trained = kind.train(both, asked, seed, show)
    facts = {
        "network": kind.name, "inputs": kind.inputs, "seed": seed,
        "trained_on": len(both.train), "epochs": len(epochs),
        "train_cpu_s": round(time.process_time() - began, 1),
    }  # fmt: skip
    slots = both.train.values.shape[1] * both.row_slots
    scores = trained.scores(both.watched).astype(float)
    temperature = learn.temperature(scores, learn.labels(both.watched, trained.controls))
    return Voter(trained, slots, both.row_slots, temperature), facts


def write_rows(
    asked: argparse.Namespace, voters: Sequence[Voter], votes_of: str, facts: Row,
    progress: Progress,
) -> None:  # fmt: skip
    """Judges networks that vote, on all test sets and lengths."""
    rows: list[Row] = []
    alone = (votes_of,) if len(voters) == 1 else ()
    for length in (*alone, *VOTING.get(votes_of, ())):
        for place in places(asked):
            if place.share == 1 or length == SAMPLED:
                intervals = drawn.load([place], asked.kept, length, inputs_of(asked))
                if not intervals:  # longer than these runs
                    continue
                rows += [
                    {"duration": length, "votes_of": votes_of, **facts,
                     "shares": asked.train_shares, "test": place.name, "share": place.share, **row}
                    for row in judged(voters, intervals.thinned(TEST_MAX, facts["seed"]))
                ]  # fmt: skip
    first = f"F1 {rows[0]['f1']:.3f} of {rows[0]['test']}"
    progress.tell(f"{facts['network']}, {votes_of}, seed {facts['seed']}: {first}")
    with asked.output.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


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
    is_whole, shares = row["votes_of"] == row["duration"], shares_of(row)
    name = row["network"] if is_whole else f"{row['network']}, votes of {row['votes_of']}"
    listed = ", ".join(f"{share:.0%}" for share in shares)
    return name if shares == [1.0] else f"{name}, trained on {listed} of packets"


def shares_of(row: Row) -> list[float]:
    """Of packets, the shares that a network was trained on."""
    shares: list[float] = row.get("shares", [1.0])
    return shares


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


def parser() -> argparse.ArgumentParser:
    """The command line above."""
    top = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = top.add_argument
    add("output", type=Path)
    add("--kept", type=Path, default=Path("kept"))
    add("--train", type=Path, nargs="+", metavar="RUN")
    add("--test", nargs="+", action="append", default=[], metavar="NAME RUN")
    add("--shares", type=lambda text: [float(one) for one in text.split(",")], default=[])
    add("--train-shares", type=lambda text: [float(one) for one in text.split(",")], default=[1.0],
        help="the same of runs to train on; as many intervals of each")  # fmt: skip
    add("--train-max", type=int, default=max(TRAIN_MAX.values()), metavar="N",
        help="intervals of each length to train on at most, for all kinds of networks alike")
    add("--durations", type=lambda text: text.split(","), default=list(DURATIONS))
    add("--kinds", type=lambda text: text.split("; "), default=["dragonfly", "deepcci"],
        help=f"some of: {'; '.join(KINDS)}")  # fmt: skip
    add("--seeds", type=lambda text: [int(one) for one in text.split(",")], default=[1, 2, 3])
    add("--threads", type=int, default=1)
    return top


def arguments() -> argparse.Namespace:
    """What was typed, and the runs that it names."""
    asked = parser().parse_args()
    if asked.train is not None:
        asked.train = find_runs(asked.train)
        asked.tests = [(name, find_runs([Path(run) for run in runs])) for name, *runs in asked.test]
    return asked


def main() -> None:
    """Makes what is missing, and prints the table."""
    asked = arguments()
    if asked.train is not None:
        progress = Progress()
        make(asked, progress)
        progress.finish()
    print(table(read_rows(asked.output)))


if __name__ == "__main__":
    main()
