"""Which runs train, which calibrate, and which are held out: by their names, so that the same runs
are held out by whoever splits them."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from wirelens.cca.onetap.captures import DataSet
from wirelens.cca.onetap.rows import Run

HELD_OUT, VALIDATION = 0.2, 0.08
"""Shares of runs."""


def is_held_out(name: str) -> bool:
    """Whether no training reads a run of this name."""
    return _place(name) < HELD_OUT


@dataclass(frozen=True)
class Split:
    """Runs by what they are for."""

    train: Sequence[Run]
    validation: Sequence[Run]
    """They end training and calibrate probabilities."""
    held_out: dict[str, Sequence[Run]]
    """By data set; they are not read in training."""


def split_of(sets: Sequence[DataSet]) -> Split:
    """Runs by their names; those that train, or validate, as often as they were given."""
    calibrating = HELD_OUT + VALIDATION
    runs = [(run, _place(run.name)) for data in sets for run in data.runs * data.times]
    return Split(
        [run for run, place in runs if place >= calibrating],
        [run for run, place in runs if HELD_OUT <= place < calibrating],
        {data.name: [run for run in data.runs if is_held_out(run.name)] for data in sets},
    )


def _place(name: str) -> float:
    return random.Random(f"s{name}").random()
