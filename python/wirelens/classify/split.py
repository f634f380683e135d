"""Sides of a split: training, validation and test, by capture or by family of captures.

Flows of one capture resemble each other in ways that have nothing to do with their class (hosts,
clocks, one version of one program), so a capture is never on two sides. A family says of several
captures that they were made together, and is never on two sides either.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy

from wirelens.errors import OptionError
from wirelens.learn.metrics import Array

TRAINING, VALIDATION, TEST = 0, 1, 2
SIDE_NAMES = ("training", "validation", "test")
# The paper's (section 5.1).
SHARES = (0.5, 0.1, 0.4)
_TRIES = 40
# How many of these are made better family by family, and how often all are gone through.
_REFINED = 3
_PASSES = 4
# What it costs that a class is absent from a side that it could be on: more than any imbalance.
_ABSENT = 4.0


@dataclass(frozen=True)
class Split:
    """The side of each flow."""

    sides: Array
    shares: tuple[float, float, float]
    seed: int
    families: int

    def rows(self, *sides: int) -> Array:
        """Indices of the flows on these sides."""
        return numpy.flatnonzero(numpy.isin(self.sides, sides))

    def describe(self) -> str:
        """How flows were divided, in a sentence."""
        counts = [int((self.sides == side).sum()) for side in range(3)]
        parts = ", ".join(f"{count} {name}" for count, name in zip(counts, SIDE_NAMES, strict=True))
        return f"{self.families} families of captures, none on two sides: flows {parts}"


def parse_shares(text: str) -> tuple[float, float, float]:
    """Three shares such as 50/10/40; parts of their sum."""
    try:
        parts = [float(part) for part in text.split("/")]
    except ValueError:
        parts = []
    if len(parts) != 3 or min(parts) < 0 or parts[0] <= 0 or not sum(parts) < float("inf"):
        raise OptionError(
            f"split {text!r}; wanted: shares for training, validation and test, such as 50/10/40"
        )
    total = sum(parts)
    return parts[0] / total, parts[1] / total, parts[2] / total


def _counts(labels: Array, families: Array) -> tuple[Array, Array]:
    """Flows by family (rows) and class (columns), and the family of each flow."""
    _, index = numpy.unique(numpy.asarray(families), return_inverse=True)
    class_count = int(labels.max()) + 1
    counts = numpy.bincount(
        index * class_count + labels, minlength=(int(index.max()) + 1) * class_count
    )
    return counts.reshape(-1, class_count), index


def _costs(sides: Array, wanted: Array, totals: Array, families_of: Array) -> Array:
    """How far sides, in the last two axes side by class, are from what is wanted."""
    off = (sides - wanted) / totals
    could_be_there = (families_of >= 3) & (wanted > 0)
    is_absent = (sides == 0) & could_be_there
    return (off**2).sum(axis=(-1, -2)) + _ABSENT * is_absent.sum(axis=(-1, -2))


def _greedy(counts: Array, shares: Array, order: Array) -> tuple[Array, float]:
    """Each family in this order to the side that then has least too much; and the cost."""
    totals = numpy.maximum(counts.sum(axis=0), 1)
    wanted = shares[:, None] * totals
    placed = numpy.zeros_like(wanted)
    chosen = numpy.zeros(len(counts), dtype=numpy.int64)
    for family in order:
        missing = (wanted - placed) / totals
        # How much of what a side lacks this family brings, in shares of classes; what is over
        # counts against the side.
        bring = counts[family] / totals
        gains = ((missing**2) - (missing - bring) ** 2).sum(axis=1)
        gains[shares == 0] = -numpy.inf
        side = int(gains.argmax())
        chosen[family] = side
        placed[side] += counts[family]
    families_of = (counts > 0).sum(axis=0)
    return chosen, float(_costs(placed, wanted, totals, families_of))


def _refined(counts: Array, shares: Array, chosen: Array) -> tuple[Array, float]:
    """Families moved one by one to where the cost is least, until none moves."""
    totals = numpy.maximum(counts.sum(axis=0), 1)
    wanted = shares[:, None] * totals
    families_of = (counts > 0).sum(axis=0)
    chosen = chosen.copy()
    placed = numpy.stack([counts[chosen == side].sum(axis=0) for side in range(3)])
    for _ in range(_PASSES):
        moved = False
        for family, own in enumerate(counts):
            # The three placements of this family, side by side.
            trials = numpy.repeat(placed[None], 3, axis=0)
            trials[:, chosen[family]] -= own
            trials[numpy.arange(3), numpy.arange(3)] += own
            costs = _costs(trials, wanted, totals, families_of)
            costs[shares == 0] = numpy.inf
            side = int(costs.argmin())
            if costs[side] < costs[chosen[family]] - 1e-12:
                placed, chosen[family], moved = trials[side], side, True
        if not moved:
            break
    return chosen, float(_costs(placed, wanted, totals, families_of))


def split(
    labels: Array,
    families: Array,
    shares: tuple[float, float, float] = SHARES,
    seed: int = 1,
) -> Split:
    """Divides flows by family so that each class has about its share on each side.

    `labels` are class indices, `families` anything that tells families apart. Families are
    placed greedily, large ones first with some luck, `_TRIES` times; the best of these are refined.
    The same seed gives the same sides.
    """
    labels = numpy.asarray(labels)
    counts, index = _counts(labels, families)
    parts = numpy.asarray(shares, dtype=numpy.float64)
    needed = int((parts > 0).sum())
    if len(counts) < needed:
        raise OptionError(
            f"{len(counts)} families of captures; wanted: at least {needed}, one for each of "
            "training, validation and test; give more captures: captures are not divided, since "
            "flows of one capture are not independent"
        )
    dice = numpy.random.default_rng(seed)
    # A family counts by the greatest share of a class that it has: a small class's only large
    # family must be placed before there is no room for it.
    weight = (counts / numpy.maximum(counts.sum(axis=0), 1)).max(axis=1)
    tried = []
    for _ in range(_TRIES):
        order = numpy.argsort(-weight * dice.uniform(0.5, 1.5, len(weight)), kind="stable")
        tried.append(_greedy(counts, parts, order))
    tried.sort(key=lambda found: found[1])
    refined = [_refined(counts, parts, chosen) for chosen, _ in tried[:_REFINED]]
    chosen, _ = min(refined, key=lambda found: found[1])
    return Split(chosen[index], shares, seed, len(counts))


def folds(labels: Array, families: Array, count: int, seed: int = 1) -> list[Array]:
    """Grouped folds: for each, the indices of the flows that are held out.

    Each family is in one fold, and each class is spread over folds as evenly as its families
    allow.
    """
    labels = numpy.asarray(labels)
    counts, index = _counts(labels, families)
    if not 2 <= count <= len(counts):
        raise OptionError(
            f"{count} folds of {len(counts)} families of captures; wanted: 2 to {len(counts)}"
        )
    totals = numpy.maximum(counts.sum(axis=0), 1)
    dice = numpy.random.default_rng(seed)
    weight = (counts / totals).max(axis=1) * dice.uniform(0.9, 1.1, len(counts))
    placed = numpy.zeros((count, counts.shape[1]))
    sizes = numpy.zeros(count, dtype=numpy.int64)
    fold_of = numpy.zeros(len(counts), dtype=numpy.int64)
    for family in numpy.argsort(-weight, kind="stable"):
        share = counts[family] / totals
        costs = ((placed + share) ** 2 - placed**2).sum(axis=1)
        # Of folds that are as good, the one with the fewest families; so none stays empty.
        fold = int(numpy.lexsort((sizes, costs.round(9)))[0])
        fold_of[family] = fold
        placed[fold] += share
        sizes[fold] += 1
    for empty in numpy.flatnonzero(sizes == 0):
        # A family of the fullest fold that leaves it others.
        donor = int(sizes.argmax())
        moved = int(numpy.flatnonzero(fold_of == donor)[-1])
        fold_of[moved] = empty
        sizes[donor] -= 1
        sizes[empty] += 1
    return [numpy.flatnonzero(fold_of[index] == fold) for fold in range(count)]


def absent_classes(labels: Array, rows: Array, classes: Sequence[str]) -> list[str]:
    """Classes of which no flow is among these."""
    seen = set(numpy.unique(numpy.asarray(labels)[rows]).tolist())
    return [name for index, name in enumerate(classes) if index not in seen]
