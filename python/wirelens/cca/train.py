"""`wirelens train cca`: from runs of the testbed to a model that names congestion controls."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from wirelens import written
from wirelens.cca import evaluate, learn, levels
from wirelens.cca.card import card
from wirelens.cca.intervals import OTHER, Intervals, Reading, draw, joined
from wirelens.cca.model import MODEL_FILE, Model, Network, Voting, voters_of
from wirelens.cca.runs import AnyRun, confidence_max, find_runs, range_of
from wirelens.errors import OptionError
from wirelens.learn.progress import Progress
from wirelens.learn.typed import time_us

SLOTS_MIN = 10
ROWS_MAX = 1000
"""Rows of an interval: in a longer one slots are added up."""
VOTES_JUDGED = 10
COUNTED_MAX = 4000
"""Intervals of a length to see how far shorter ones err together: each is several of those."""
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
    intervals_max: int = 24_000
    """Intervals of each length to train on; of more, some are drawn."""
    votes: int = 60
    """Intervals of the longest duration that count together."""
    shares: Sequence[float] = (1.0,)
    """Packets that are looked at; as many intervals of each."""
    levels: bool = False
    """Networks read levels besides shapes."""
    queue_shares: bool = False
    """And the flow's shares of the queue."""
    controls: Sequence[str] = ()
    """Those that have a class of their own, the rest being one; every control if there is none."""
    evaluated_on: Sequence[Path] = ()
    """Held-out runs, of which the card gives F1 by the name of the folder or file."""

    def reading(self, slots: int, row_slots: int, share: float) -> Reading:
        """How intervals of so many slots are read."""
        inputs = tuple(self.inputs)
        return Reading(
            slots, inputs, self.slot, share, self.passed, self.per_flow, row_slots,
            self.queue_shares,
        )


@dataclass(frozen=True)
class Outcome:
    """What came out."""

    model: Model
    f1: dict[str, float]
    """Of each duration the mean F1 of controls on the runs that ended training: it flatters."""


def parts(runs: Sequence[AnyRun], share: float, seed: int) -> tuple[list[int], list[int]]:
    """Numbers of runs to train on, and of those held out: whole runs, drawn."""
    order = list(range(len(runs)))
    random.Random(seed).shuffle(order)
    held = max(1, round(share * len(order)))
    return sorted(order[held:]), sorted(order[:held])


def slots_of(duration: str, slot: str) -> int:
    """Slots of an interval."""
    exact = time_us(duration) / time_us(slot)
    count = round(exact)
    if abs(exact - count) > 1e-6 * exact:
        raise OptionError(f"--durations {duration}: {exact:g} slots of {slot}; wanted: whole slots")
    if count < SLOTS_MIN:
        raise OptionError(f"--durations {duration}: {count} slots; wanted: {SLOTS_MIN} or more")
    return count


def row_slots_of(slots: int) -> int:
    """Slots of a row of an interval."""
    return -(-slots // ROWS_MAX)


def _lengths(request: Request) -> list[tuple[int, int]]:
    """Of each duration its slots and those of a row. One may have rows of several slots: it is
    read of the windows that vote."""
    lengths = [slots_of(duration, request.slot) for duration in request.durations]
    if len(set(lengths)) < len(lengths):
        raise OptionError(
            f"--durations {','.join(request.durations)}: one length twice; wanted: each length once"
        )
    windows = max((slots for slots in lengths if row_slots_of(slots) == 1), default=0)
    longer = [slots for slots in lengths if row_slots_of(slots) > 1]
    longest = request.durations[lengths.index(max(lengths))]
    if len(longer) > 1 or (longer and not windows):
        raise OptionError(
            f"--durations {','.join(request.durations)}; wanted: one of more than {ROWS_MAX} slots "
            "at most, beside others"
        )
    for slots in longer:
        count = slots // windows
        if slots % windows or windows % row_slots_of(slots) or not 2 <= count <= request.votes:
            raise OptionError(
                f"--durations {longest}: {slots / windows:g} times the longest of {ROWS_MAX} slots "
                f"or less; wanted: a whole number of times, up to --votes {request.votes}"
            )
    return [(slots, row_slots_of(slots)) for slots in lengths]


def controls_of(drawn: Sequence[Intervals]) -> list[str]:
    """Controls in the order of their names; two at least."""
    controls = sorted({control for intervals in drawn for control in intervals.controls})
    if len(controls) < 2:
        raise OptionError(f"controls {controls}; wanted: flows of two or more that differ")
    return controls


def _check_controls(wanted: Sequence[str], runs: Sequence[AnyRun]) -> None:
    present = sorted({member.control for run in runs for member in run.members})
    for at, name in enumerate(wanted):
        if name in wanted[:at]:
            raise OptionError(f"--controls: {name} twice; wanted: each congestion control once")
        if name not in present or name == OTHER:
            raise OptionError(f"--controls {name!r}; wanted: some of {', '.join(present)}")
    if wanted and len(wanted) == len(present):
        raise OptionError(
            f"--controls {','.join(wanted)}: no run has another control; wanted: without --controls"
        )


def _reading(progress: Progress) -> Callable[[int, int], None]:
    return lambda done, total: progress.show(done, total, "reading runs")


def _training(progress: Progress, duration: str, epochs: int) -> learn.Show:
    def show(epoch: int, _: float, f1: float) -> None:
        progress.show(epoch + 1, epochs, f"{duration}: F1 {f1:.3f} on the validation runs")

    return show


def _drawn(
    request: Request, runs: Sequence[AnyRun], lengths: Sequence[tuple[int, int]], progress: Progress
) -> list[Intervals]:
    """Intervals of each length, in slots and in those of a row, of all shares of packets."""
    of_shares = [
        draw(
            runs, [request.reading(*length, share) for length in lengths], request.seed,
            _reading(progress), background_max=request.background_max,
        )
        for share in request.shares
    ]  # fmt: skip
    found = [joined(of_length) for of_length in zip(*of_shares, strict=True)]
    if not request.controls:
        return found
    return [intervals.named(request.controls) for intervals in found]


def train(request: Request, progress: Progress) -> Outcome:
    """Trains a network for each duration, and writes the model.

    Raises
    ------
    OptionError
        If runs are too few, or a duration is too short or too long for their flows.
    OutputError
        If the model cannot be written; most reasons are found before training.
    """
    written.check_free(request.output / MODEL_FILE, request.force)
    written.check(request.output)
    if request.queue_shares and not request.levels:
        raise OptionError("--queue-shares without --levels; wanted: both")
    if request.levels:
        levels.check_inputs(request.inputs)
    lengths = _lengths(request)
    runs = find_runs(request.places)
    # What is missing is said before training, not after it.
    _check_runs(request, runs)
    drawn = _drawn(request, runs, lengths, progress)
    train_runs, held_runs = parts(runs, SHARE_HELD, request.seed)
    short = [
        duration for duration, length, intervals in zip(
            request.durations, lengths, drawn, strict=True
        )
        if length[1] == 1 and not len(intervals)
    ]  # fmt: skip
    if short:
        raise OptionError(f"--durations {short[0]}: no flow is that long; wanted: shorter ones")
    controls = controls_of(drawn)
    networks, found = [], {}
    for duration, length, intervals in zip(request.durations, lengths, drawn, strict=True):
        trained_on = intervals.of_runs(train_runs).thinned(request.intervals_max, request.seed)
        held = intervals.of_runs(held_runs).thinned(request.intervals_max, request.seed)
        if not len(trained_on) or not len(held):
            text = f"--durations {duration}: too few flows are that long"
            if length[1] == 1:
                raise OptionError(f"{text}; wanted: more")
            # The others do without it.
            progress.warn(f"{text}; it is left out")
            continue
        trained = _one(request, controls, trained_on, held, duration, progress)
        networks.append(learn.calibrated(trained, held, request.unknown_below, length[1]))
        found[duration] = trained.f1(held)
        progress.tell(
            f"{duration}: F1 {found[duration]:.3f} on {len(held)} validation intervals"
        )
    held_out = [
        of_length.of_runs(held_runs).thinned(COUNTED_MAX, request.seed) for of_length in drawn
    ]
    networks = _counted_together(networks, lengths, held_out, controls)
    judging = [runs[number] for number in held_runs]
    voting = _voting(request, networks, judging, controls, progress)
    training: dict[str, Any] = {
        "command": request.command,
        "runs": len(runs),
        "f1_of_runs_that_ended_training": found,
        "seed": request.seed,
    }
    slot_ns = round(time_us(request.slot) * 1000)
    model = Model(
        controls,
        request.inputs,
        slot_ns,
        request.passed,
        networks,
        training,
        voting=voting,
        shares=request.shares,
        trained_on=range_of(runs),
        confidence_max=confidence_max(judging),
        levels=request.levels,
        queue_shares=request.queue_shares,
    )
    names = [run.path.name for run in runs]
    text = card(model, names, request.note, _held_out(request, model, progress))
    model.save(request.output, text, force=request.force)
    return Outcome(model, found)


def _check_runs(request: Request, runs: Sequence[AnyRun]) -> None:
    _check_controls(request.controls, runs)
    _check_held_out(runs, find_runs(request.evaluated_on))
    if len(runs) < 2:
        raise OptionError(f"{len(runs)} run; wanted: at least two, as one is held out")


def _check_held_out(runs: Sequence[AnyRun], held_out: Sequence[AnyRun]) -> None:
    trained = {run.path.resolve() for run in runs}
    for run in held_out:
        if run.path.resolve() in trained:
            raise OptionError(
                f"--evaluate: {run.path} is in -r as well; wanted: runs that are not trained on"
            )


def _held_out(request: Request, model: Model, progress: Progress) -> dict[str, dict[str, float]]:
    """F1 by place and length of interval."""
    found = {}
    for place in request.evaluated_on:
        asked = evaluate.Request(model, [place])
        rows = evaluate.evaluate(asked, progress)
        found[place.stem] = {f"{row.duration_ms:g}ms": row.f1 for row in rows}
    return found


def _counted_together(
    networks: Sequence[Network], lengths: Sequence[tuple[int, int]], held: Sequence[Intervals],
    controls: Sequence[str],
) -> list[Network]:  # fmt: skip
    """With the correlation of intervals that are shorter than those of the next network: until a
    flow is known for as long as that one reads, they count together."""
    # By slots, as two lengths may have as many rows.
    by_slots = {slots: of_length for (slots, _), of_length in zip(lengths, held, strict=True)}
    single = sorted((one for one in networks if one.row_slots == 1), key=lambda one: one.slots)
    found = {}
    for network, longer in pairwise(single):
        most = longer.slots // network.slots
        if most > 1:
            part = learn.correlation(network, by_slots[longer.slots], controls, most)
            found[network.slots] = replace(network, correlation=part)
    return [found.get(network.slots, network) for network in networks]


def _voting(
    request: Request, networks: Sequence[Network], runs: Sequence[AnyRun],
    controls: Sequence[str], progress: Progress,
) -> Voting | None:  # fmt: skip
    """How intervals count together, by some of ten of them or of a longer one."""
    if request.votes == 1:
        return None
    voters = voters_of(networks)
    windows, *longer = voters
    # As long as what was held out to train the longer one, so that there are some.
    slots = longer[0].slots if longer else windows.slots * min(request.votes, VOTES_JUDGED)
    (found,) = _drawn(request, runs, [(slots, 1)], progress)
    if not len(found):
        progress.warn("--votes: held-out flows are too short to estimate the correlation of errors")
        return None
    return learn.voting(voters, found, controls, request.votes)


def _one(
    request: Request, controls: Sequence[str], trained_on: Intervals, held: Intervals,
    duration: str, progress: Progress,
) -> learn.TrainedNetwork:  # fmt: skip
    schedule = learn.PAPER if request.recipe == "paper" else learn.faster(len(trained_on))
    return learn.dragonfly(
        trained_on, held, controls, schedule=schedule, seed=request.seed,
        reads=levels.read_as(request.levels, request.queue_shares), threads=request.threads,
        show=_training(progress, duration, schedule.epochs),
    )  # fmt: skip
