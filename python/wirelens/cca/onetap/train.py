"""`wirelens train cca --taps 1`: from labelled runs to a model of one tap."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy

from wirelens import written
from wirelens.cca import learn
from wirelens.cca.intervals import Array
from wirelens.cca.model import MODEL_FILE, Model, Network
from wirelens.cca.onetap import fitting
from wirelens.cca.onetap.captures import DataSet, find_sets
from wirelens.cca.onetap.card import card
from wirelens.cca.onetap.evaluate import judged
from wirelens.cca.onetap.rows import INPUTS, ROWS_PER_RTT
from wirelens.cca.onetap.splits import Split, split_of
from wirelens.cca.onetap.windows import Windows, labelled, last_windows
from wirelens.errors import OptionError
from wirelens.learn.metrics import softmax
from wirelens.learn.progress import Progress

SLOT_NS = 1_000_000
PRECISION = 0.85
"""Of the windows of the validation runs that are named, those that are named right."""
RANGE_PERCENT = (0.5, 99.5)


@dataclass(frozen=True)
class Request:
    """What is to be trained."""

    places: Sequence[Path]
    output: Path
    recipe: fitting.Recipe
    force: bool
    command: str
    note: str = ""


@dataclass(frozen=True)
class Outcome:
    """The model, and F1 by rows of a window on the held-out runs; none if there are no such."""

    model: Model
    f1: dict[str, float]


def train(request: Request, progress: Progress) -> Outcome:
    """Trains a network, and writes the model.

    Raises
    ------
    OptionError
        If runs are too few, or flows too short.
    OutputError
        If the model cannot be written; most reasons are found before training.
    """
    written.check_free(request.output / MODEL_FILE, request.force)
    written.check(request.output)
    sets = find_sets(request.places, lambda done, total: progress.show(done, total, "reading runs"))
    recipe, split = request.recipe, split_of(sets)
    controls = controls_of(sets)
    _check(split, controls, max(recipe.lengths))
    progress.tell(
        f"{len(split.train)} runs train, {len(split.validation)} end training; runs that are given "
        "several times count as often"
    )
    flows, watched = (labelled(runs, controls) for runs in (split.train, split.validation))
    network = fitting.fit(flows, watched, controls, recipe, _shown(recipe, progress))
    about = {"command": request.command, "seed": recipe.seed, "epochs": recipe.epochs}
    model = packed(network, controls, split, recipe, about)
    return Outcome(model, finish(request, model, split))


def finish(request: Request, model: Model, split: Split) -> dict[str, float]:
    """Writes the model with its card; F1 on the held-out runs."""
    rows = [row for name, runs in split.held_out.items() for row in judged(model, name, runs)]
    text = card(model, split, rows, request.note)
    model.save(request.output, text, force=request.force)
    return {f"{row.rows} rows of {row.data}": row.f1 for row in rows}


def controls_of(sets: Sequence[DataSet]) -> list[str]:
    """The controls of all runs, in the order of their names."""
    return sorted({one.control for data in sets for run in data.runs for one in run.series})


def _check(split: Split, controls: Sequence[str], longest: int) -> None:
    if len(controls) < 2:
        raise OptionError(f"controls {controls}; wanted: flows of two or more that differ")
    for part, name in ((split.train, "train"), (split.validation, "validate")):
        long = [series for run in part for series in run.series if len(series.values) >= longest]
        if len(long) < 2:
            raise OptionError(
                f"{len(part)} runs to {name}, with {len(long)} flows at a tap of {longest} rows "
                f"({longest // ROWS_PER_RTT} RTTs); wanted: more runs or longer ones; names of "
                "runs decide which train, which validate and which are held out"
            )


def _shown(recipe: fitting.Recipe, progress: Progress) -> Any:
    def show(epoch: int, loss: float, surprise: float) -> None:
        text = f"loss {loss:.3f}, {surprise:.3f} on the validation runs"
        progress.show(epoch + 1, recipe.epochs, text)

    return show


def packed(
    network: Any, controls: Sequence[str], split: Split, recipe: fitting.Recipe,
    about: dict[str, Any],
) -> Model:  # fmt: skip
    """The model of a network: calibrated by windows of the validation runs."""
    flows, watched = (labelled(runs, controls) for runs in (split.train, split.validation))
    return Model(
        controls, INPUTS, SLOT_NS, "highest",
        [_calibrated(network, last_windows(watched, rows)) for rows in sorted(recipe.lengths)],
        about, rows_per_rtt=ROWS_PER_RTT, levels=True,
        trained_on=_range_of(flows, min(recipe.lengths)),
        confidence_max=min(0.99, (len(watched) + 1) / (len(watched) + 2)),
    )  # fmt: skip


def _calibrated(network: Any, watched: Windows) -> Network:
    scores = fitting.scores(network, watched).astype(float)
    temperature = learn.temperature(scores, watched.labels)
    highest = softmax(scores / temperature).max(axis=1)
    right = scores.argmax(axis=1) == watched.labels
    blocks, head = network.folded()
    rows = watched.values.shape[1]
    below = threshold(highest, right)
    return Network(rows, network.pool_len, blocks, head, temperature, below)


def threshold(highest: Array, right: Array, precision: float = PRECISION) -> float:
    """The lowest probability, in thousandths, from which on that many are right; 1 if none is."""
    for below in numpy.arange(0, 1000) / 1000:
        named = highest >= below
        if named.any() and right[named].mean() >= precision:
            return float(below)
    return 1.0


def _range_of(flows: fitting.Flows, rows: int) -> dict[str, Sequence[float]]:
    """Between which rates and RTTs nearly all windows of training are."""
    windows: list[Windows] = []
    for series, label in flows:
        # One after the other, over all that is kept of a flow.
        for end in range(len(series.values), rows - 1, -rows):
            windows.append(
                last_windows([(replace(series, values=series.values[:end]), label)], rows)
            )
    found = {
        "rate_bit": numpy.concatenate([window.rate_bit() for window in windows]),
        "rtt_s": numpy.concatenate([window.rtt_s() for window in windows]),
    }
    return {
        name: [float(f"{bound:.4g}") for bound in numpy.percentile(values, RANGE_PERCENT)]
        for name, values in found.items()
    }
