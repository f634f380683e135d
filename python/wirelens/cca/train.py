"""`wirelens train cca`: from runs of the testbed to a model that names congestion controls."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wirelens.cca import learn
from wirelens.cca.card import card
from wirelens.cca.intervals import Intervals, Reading, draw
from wirelens.cca.model import Model, Network, Voting
from wirelens.cca.runs import Run, find_runs
from wirelens.classify.progress import Progress
from wirelens.classify.typed import time_us
from wirelens.errors import OptionError

SLOTS_MIN = 10
VOTES_JUDGED = 10
SHARE_HELD = 0.2
"""Runs on which training is watched and probabilities are calibrated."""


@dataclass(frozen=True)
class Request:
    """What is to be trained."""

    places: Sequence[Path]
    output: Path
    durations: Sequence[str]
    inputs: Sequence[str]
    slot: str
    passed: str
    per_flow: int
    recipe: str
    unknown_below: float
    seed: int
    threads: int
    force: bool
    command: str
    note: str = ""
    background_max: int = 6
    """Flows of each run that are there for others to compete with and are trained on, too."""
    intervals_max: int = 20_000
    """Intervals of each length to train on; of more, some are drawn."""
    votes: int = 60
    """Intervals of the longest duration that count together."""

    def reading(self, duration: str) -> Reading:
        """How intervals of this length are read."""
        slots = slots_of(duration, self.slot)
        inputs = tuple(self.inputs)
        return Reading(slots, inputs, self.slot, passed=self.passed, per_flow=self.per_flow)


@dataclass(frozen=True)
class Outcome:
    """What came out."""

    model: Model
    f1: dict[str, float]
    """Of each duration the mean F1 of controls on the runs held out."""


def parts(runs: Sequence[Run], share: float, seed: int) -> tuple[list[int], list[int]]:
    """Numbers of runs to train on, and of those held out: whole runs, drawn."""
    order = list(range(len(runs)))
    random.Random(seed).shuffle(order)
    held = max(1, round(share * len(order)))
    return sorted(order[held:]), sorted(order[:held])


def slots_of(duration: str, slot: str) -> int:
    """Slots of an interval."""
    count = round(time_us(duration) / time_us(slot))
    if count < SLOTS_MIN:
        raise OptionError(f"--durations {duration}: {count} slots; wanted: {SLOTS_MIN} or more")
    return count


def controls_of(drawn: Sequence[Intervals]) -> list[str]:
    """Controls in the order of their names; two at least."""
    controls = sorted({control for intervals in drawn for control in intervals.controls})
    if len(controls) < 2:
        raise OptionError(f"controls {controls}; wanted: flows of two or more that differ")
    return controls


def _reading(progress: Progress) -> Callable[[int, int], None]:
    return lambda done, total: progress.show(done, total, "reading runs")


def _training(progress: Progress, duration: str, epochs: int) -> learn.Show:
    def show(epoch: int, _: float, f1: float) -> None:
        progress.show(epoch + 1, epochs, f"{duration}: F1 {f1:.3f} of runs held out")

    return show


def train(request: Request, progress: Progress) -> Outcome:
    """Trains a network for each duration, and writes the model.

    Raises
    ------
    OptionError
        Where runs are too few, or a duration is too short or too long for their flows.
    """
    runs = find_runs(request.places)
    if len(runs) < 2:
        raise OptionError(f"{len(runs)} run; wanted: two at least, one is held out")
    drawn = draw(
        runs, [request.reading(duration) for duration in request.durations], request.seed,
        _reading(progress), background_max=request.background_max,
    )  # fmt: skip
    train_runs, held_runs = parts(runs, SHARE_HELD, request.seed)
    for duration, intervals in zip(request.durations, drawn, strict=True):
        if not len(intervals):
            raise OptionError(f"--durations {duration}: no flow is as long; wanted: shorter ones")
    controls = controls_of(drawn)
    networks, found = [], {}
    for duration, intervals in zip(request.durations, drawn, strict=True):
        trained_on = intervals.of_runs(train_runs).thinned(request.intervals_max, request.seed)
        held = intervals.of_runs(held_runs).thinned(request.intervals_max, request.seed)
        if not len(trained_on) or not len(held):
            raise OptionError(f"--durations {duration}: too few flows are as long; wanted: more")
        network, f1 = _one(request, controls, trained_on, held, duration, progress)
        networks.append(network)
        found[duration] = f1
        progress.tell(f"{duration}: F1 {f1:.3f} on {len(held)} intervals held out")
    judging = [runs[number] for number in held_runs]
    voting = _voting(request, networks, judging, controls, progress)
    training: dict[str, Any] = {
        "command": request.command,
        "runs": len(runs),
        "f1_of_runs_held_out": found,
        "seed": request.seed,
    }
    slot_ns = round(time_us(request.slot) * 1000)
    model = Model(
        controls, request.inputs, slot_ns, request.passed, networks, training, voting=voting
    )
    text = card(model, [run.path.name for run in runs], request.note)
    model.save(request.output, text, force=request.force)
    return Outcome(model, found)


def _voting(
    request: Request, networks: Sequence[Network], runs: Sequence[Run], controls: Sequence[str],
    progress: Progress,
) -> Voting | None:  # fmt: skip
    """How intervals of the longest network count together, by intervals of ten of them."""
    if request.votes == 1:
        return None
    network = max(networks, key=lambda network: network.slots)
    reading = Reading(
        network.slots * min(request.votes, VOTES_JUDGED), tuple(request.inputs), request.slot,
        passed=request.passed, per_flow=request.per_flow,
    )  # fmt: skip
    (found,) = draw(
        runs, [reading], request.seed, _reading(progress), background_max=request.background_max
    )
    if not len(found):
        progress.warn("--votes: flows held out are too short to see how intervals err together")
        return None
    return learn.voting(network, found, controls, request.votes)


def _one(
    request: Request, controls: Sequence[str], trained_on: Intervals, held: Intervals,
    duration: str, progress: Progress,
) -> tuple[Network, float]:  # fmt: skip
    schedule = {"paper": learn.PAPER, "faster": learn.FASTER}[request.recipe]
    trained = learn.dragonfly(
        trained_on, held, controls, schedule=schedule, seed=request.seed,
        threads=request.threads, show=_training(progress, duration, schedule.epochs),
    )  # fmt: skip
    return learn.calibrated(trained, held, request.unknown_below), trained.f1(held)
