"""`wirelens eval cca` on a model of one tap: on runs that it was not trained on, compared with the
majority class."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy

from wirelens.cca.intervals import Array
from wirelens.cca.model import Model, Network
from wirelens.cca.onetap.captures import find_sets
from wirelens.cca.onetap.rows import Run
from wirelens.cca.onetap.splits import is_held_out
from wirelens.cca.onetap.windows import Windows, labelled, last_windows
from wirelens.errors import OptionError
from wirelens.learn.metrics import class_f1, confusion, macro_f1, softmax
from wirelens.learn.progress import Progress

TOP = 3
SCORED_AT_ONCE = 64


@dataclass(frozen=True)
class Request:
    """What is to be judged."""

    model: Model
    places: Sequence[Path]
    held_out: bool
    """Only the runs that training holds out, by their names."""
    output: Path | None


@dataclass(frozen=True)
class Row:
    """The scores on windows of one length. Shares are of all windows."""

    data: str
    """The data set."""
    rows: int
    runs: int
    windows: int
    f1: float
    top_three: float
    """Windows whose control is among the three most probable."""
    inside: float
    """Windows inside the range of training."""
    named: float
    """Windows inside it whose most probable control is not below `unknown_below`."""
    precision: float
    """Of the named windows, those that are named right."""
    calibration_error: float
    majority_f1: float
    """Of the control that most windows have, always named."""
    majority_share: float
    each: dict[str, float]
    """F1 of each control that there is."""
    places: dict[str, float]
    """F1 at each tap."""


def evaluate(request: Request, progress: Progress) -> list[Row]:
    """Judges each network of the model.

    Raises
    ------
    OptionError
        If there are no runs, or none is held out.
    """
    sets = find_sets(request.places, lambda done, total: progress.show(done, total, "reading runs"))
    progress.finish()
    found = []
    for data in sets:
        runs = [run for run in data.runs if is_held_out(run.name) or not request.held_out]
        found += judged(request.model, data.name, runs)
    if not found:
        raise OptionError("no run with a flow that is long enough; wanted: more or longer ones")
    return found


def judged(model: Model, data: str, runs: Sequence[Run]) -> list[Row]:
    """A row for each network that has windows."""
    flows = labelled(runs, model.controls)
    networks = sorted(model.networks, key=lambda network: network.slots)
    windows = [(network, last_windows(flows, network.slots)) for network in networks]
    return [
        _row(model, network, found, data, len(runs)) for network, found in windows if len(found)
    ]


def scores(network: Network, windows: Windows) -> Array:
    """As the file has the network, a score for each control, divided by the temperature."""
    return numpy.concatenate([
        network.scores_of_channels(windows.channels(slice(first, first + SCORED_AT_ONCE)))
        for first in range(0, len(windows), SCORED_AT_ONCE)
    ])  # fmt: skip


def inside(model: Model, windows: Windows) -> Array:
    """Which windows are inside the range of training, where the model has one."""
    if model.trained_on is None:
        return numpy.ones(len(windows), bool)
    rate, rtt = model.trained_on["rate_bit"], model.trained_on["rtt_s"]
    rates, rtts = windows.rate_bit(), windows.rtt_s()
    return (rate[0] <= rates) & (rates <= rate[1]) & (rtt[0] <= rtts) & (rtts <= rtt[1])


def _row(model: Model, network: Network, windows: Windows, data: str, runs: int) -> Row:
    count, truth = len(model.controls), windows.labels
    found = scores(network, windows).astype(float)
    told, probable = found.argmax(axis=1), softmax(found)
    highest, right = probable.max(axis=1), told == truth
    within = inside(model, windows)
    named = within & (highest >= network.unknown_below)
    counts = confusion(truth, told, count)
    of_control = counts.sum(axis=1)
    always = confusion(truth, told * 0 + int(of_control.argmax()), count)
    places = numpy.array(windows.places)
    top = numpy.argsort(-found, axis=1)[:, :TOP]
    return Row(
        data=data,
        rows=network.slots,
        runs=runs,
        windows=len(windows),
        f1=macro_f1(counts),
        top_three=float((top == truth[:, None]).any(axis=1).mean()),
        inside=float(within.mean()),
        named=float(named.mean()),
        precision=float(right[named].mean()) if named.any() else 0.0,
        calibration_error=_calibration_error(highest, right),
        majority_f1=macro_f1(always),
        majority_share=float(of_control.max() / of_control.sum()),
        each={
            control: float(f1)
            for control, f1, wanted in zip(
                model.controls, class_f1(counts), of_control, strict=True
            )
            if wanted
        },
        places={
            str(place): macro_f1(confusion(truth[places == place], told[places == place], count))
            for place in sorted(set(windows.places))
        },
    )


def _calibration_error(highest: Array, right: Array, bins: int = 10) -> float:
    error = 0.0
    for low in numpy.arange(bins) / bins:
        some = (highest > low) & (highest <= low + 1 / bins)
        if some.any():
            error += some.mean() * abs(highest[some].mean() - right[some].mean())
    return float(error)


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown: overall, by tap, and by control."""
    head = (
        "data", "window", "runs", "windows", "F1", "among the first three", "in range", "named",
        "precision of named", "calibration error", "majority class, F1", "majority class, right",
    )  # fmt: skip
    cells = [
        [
            row.data, f"{row.rows} rows", f"{row.runs:,}", f"{row.windows:,}", f"{row.f1:.3f}",
            f"{row.top_three:.3f}", f"{row.inside:.1%}", f"{row.named:.1%}", f"{row.precision:.1%}",
            f"{row.calibration_error:.3f}", f"{row.majority_f1:.3f}", f"{row.majority_share:.3f}",
        ]
        for row in rows
    ]  # fmt: skip
    text = _lines(head, cells)
    for name, of in (("F1 by tap", "places"), ("F1 by control", "each")):
        found = [getattr(row, of) for row in rows]
        names = sorted({key for each in found for key in each})
        text += "\n" + _lines(
            (name, *(f"{row.data}, {row.rows} rows" for row in rows)),
            [
                [key, *(f"{each[key]:.3f}" if key in each else "" for each in found)]
                for key in names
            ],
        )
    return text


def _lines(head: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    # Numbers are right-aligned.
    marks = ["---", *["---:"] * (len(head) - 1)]
    return "".join(f"| {' | '.join(line)} |\n" for line in [head, marks, *cells])
