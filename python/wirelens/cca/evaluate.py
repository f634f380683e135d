"""`wirelens eval cca`: a model on runs that it was not trained on, beside guessing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from wirelens.cca import learn
from wirelens.cca.intervals import OTHER, Reading, draw
from wirelens.cca.model import Model, Network, voters_of
from wirelens.cca.runs import find_runs
from wirelens.learn.metrics import class_f1, confusion, macro_f1, softmax
from wirelens.learn.progress import Progress

SOME_VOTES = 10


@dataclass(frozen=True)
class Request:
    """What is to be judged."""

    model: Model
    places: Sequence[Path]
    per_flow: int = 20
    share: float = 1.0
    seed: int = 1
    output: Path | None = None


@dataclass(frozen=True)
class Row:
    """What was found of one length of interval."""

    duration_ms: float
    intervals: int
    f1: float
    each: dict[str, float]
    unknown: float
    calibration_error: float
    trivial: float
    """Of whoever always tells the control that is the most frequent."""


def evaluate(request: Request, progress: Progress) -> list[Row]:
    """Judges each network of the model.

    Raises
    ------
    OptionError
        If there are no runs.
    """
    model, found = request.model, []
    runs = find_runs(request.places)
    slot = f"{model.slot_ns}ns"
    judged = _shorter(model)
    if model.voting:
        # The most that count, and some.
        counts = {min(SOME_VOTES, model.voting.most), model.voting.most}
        windows = voters_of(model.networks)[0]
        judged += [(windows, count) for count in sorted(counts)]
    readings = [
        Reading(
            network.slots * count, tuple(model.inputs), slot, request.share, model.passed,
            request.per_flow, with_sums=model.queue_shares,
        )
        for network, count in judged
    ]  # fmt: skip
    drawn = draw(runs, readings, request.seed, _reading(progress))
    for (network, count), intervals in zip(judged, drawn, strict=True):
        span = network.slots * count * model.slot_ns / 1e6
        if OTHER in model.controls:
            intervals = intervals.named(model.controls)
        intervals = intervals.taken(
            [at for at, name in enumerate(intervals.controls) if name in model.controls]
        )
        if not len(intervals):
            progress.warn(f"{span:g} ms: no flow is that long")
            continue
        scores = model.voted_by(network, intervals.values)
        truth = learn.labels(intervals, model.controls)
        told = scores.argmax(axis=1)
        counts = confusion(truth, told, len(model.controls))
        most = int(counts.sum(axis=1).argmax())
        guess = confusion(truth, told * 0 + most, len(model.controls))
        highest = softmax(scores.astype(float)).max(axis=1)
        found.append(
            Row(
                span,
                len(intervals),
                macro_f1(counts),
                dict(zip(model.controls, class_f1(counts).tolist(), strict=True)),
                float((highest < network.unknown_below).mean()),
                learn.expected_calibration_error(scores, truth),
                macro_f1(guess),
            )
        )
    progress.finish()
    return found


def _shorter(model: Model) -> list[tuple[Network, int]]:
    """Networks of single slots, each with one interval and with as many as count together before
    the next network reads them whole."""
    single = [network for network in model.networks if network.row_slots == 1]
    single.sort(key=lambda network: network.slots)
    found = [(single[0], 1)]
    for network, longer in pairwise(single):
        most = (longer.slots - 1) // network.slots
        if network.correlation is not None and most > 1:
            found.append((network, most))
        found.append((longer, 1))
    return found


def _reading(progress: Progress) -> Callable[[int, int], None]:
    return lambda done, total: progress.show(done, total, "reading runs")


def table(rows: Sequence[Row], controls: Sequence[str]) -> str:
    """The rows as Markdown."""
    head = "".join(f" {control} |" for control in controls)
    text = (
        f"| interval | intervals | F1 |{head} unknown | calibration error | majority class |\n"
        f"|---|---:|---:|{'---:|' * len(controls)}---:|---:|---:|\n"
    )
    for row in rows:
        each = "".join(f" {row.each[control]:.3f} |" for control in controls)
        text += (
            f"| {row.duration_ms:g} ms | {row.intervals:,} | {row.f1:.3f} |{each} "
            f"{row.unknown:.1%} | {row.calibration_error:.3f} | {row.trivial:.3f} |\n"
        )
    return text
