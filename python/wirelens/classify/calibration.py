"""From a model's probability to how often it is right, and when an answer is `unknown`.

A stage's answers are calibrated by isotonic regression on flows that trained no model that scored
them: points (probability, share right), straight between them. A cascade calls a flow `unknown`
where the calibrated probability of its best guess is below a threshold, or where the likeliest
class is the one of that name, which flows of no other class had in training.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy

from wirelens.learn.metrics import Array

# The class of flows that are of no other.
UNKNOWN = "unknown"
# A point of a calibration stands for so many flows at least, and for so much of them all.
_FLOWS_MIN = 25
_BINS_MAX = 20
# Flows that a bin is taken to have seen besides, right as often as all are: a few right answers do
# not make certainty.
_PRIOR_FLOWS = 2.0
_STEPS = 100

# Points (probability, share right), each further right and none lower than the one before.
Line = list[tuple[float, float]]


def best_guess(scores: Array, classes: Sequence[str]) -> tuple[Array, Array, Array]:
    """The likeliest class of each row, whether that is `unknown`, and the likeliest that names
    something with its probability: label, guess, probability of the guess.
    """
    labels = scores.argmax(axis=1)
    names = scores
    if UNKNOWN in classes:
        names = scores.copy()
        names[:, list(classes).index(UNKNOWN)] = -numpy.inf
    guesses = names.argmax(axis=1)
    return labels, guesses, scores[numpy.arange(len(scores)), guesses]


def fit(raw: Array, is_right: Array, weights: Array | None = None) -> Line:
    """Isotonic regression of `is_right` on `raw`, in bins that are wide enough to be believed.

    Empty where there are too few flows for one bin: then probabilities stay as they are.
    """
    count = len(raw)
    if count < _FLOWS_MIN:
        return []
    order = numpy.argsort(raw, kind="stable")
    values, right = numpy.asarray(raw)[order], numpy.asarray(is_right, dtype=float)[order]
    weight = numpy.ones(count) if weights is None else numpy.asarray(weights)[order]
    overall = float((right * weight).sum() / weight.sum())
    size = max(_FLOWS_MIN, -(-count // _BINS_MAX))
    bins: list[list[float]] = []
    first = 0
    while first < count:
        last = min(first + size, count)
        # What is left at the end goes with the last; equal probabilities are never parted.
        last = count if count - last < _FLOWS_MIN else last
        last = int(numpy.searchsorted(values, values[last - 1], side="right"))
        mine = weight[first:last]
        flows = float(mine.sum())
        hits = float((right[first:last] * mine).sum()) + _PRIOR_FLOWS * overall
        bins.append([float((values[first:last] * mine).sum()), hits, flows])
        first = last
        # Pool adjacent violators.
        while len(bins) > 1 and _share(bins[-2]) >= _share(bins[-1]):
            top = bins.pop()
            bins[-1] = [one + other for one, other in zip(bins[-1], top, strict=True)]
            # What was taken to be seen besides counts once.
            bins[-1][1] -= _PRIOR_FLOWS * overall
    return [(total / flows, _share([total, hits, flows])) for total, hits, flows in bins]


def _share(one: Sequence[float]) -> float:
    return one[1] / (one[2] + _PRIOR_FLOWS)


def apply(line: Sequence[Sequence[float]], raw: Array) -> Array:
    """The calibrated probabilities, by the operations of the runtime in their order."""
    raw = numpy.asarray(raw, dtype=numpy.float64)
    if not line:
        return raw
    points = numpy.asarray(line, dtype=numpy.float64)
    after = numpy.searchsorted(points[:, 0], raw, side="right")
    low, high = numpy.maximum(after - 1, 0), numpy.minimum(after, len(points) - 1)
    (x0, y0), (x1, y1) = points[low].T, points[high].T
    width = numpy.where(x1 > x0, x1 - x0, 1.0)
    between = y0 + (y1 - y0) * ((raw - x0) / width)
    return numpy.where(after == 0, y1, numpy.where(after == len(points), y0, between))


def settled(line: Line) -> Line:
    """The points as the artifact has them: decimals that every reader gives the same number."""
    found: Line = []
    for raw, share in line:
        point = (round(raw, 9), round(min(max(share, 0.0), 1.0), 6))
        if not found or point[0] > found[-1][0]:
            found.append(point)
    return found


@dataclass(frozen=True)
class Choice:
    """A threshold below which the answer is `unknown`, and what it does to the flows that chose
    it.
    """

    below: float
    why: str


def choose_below(
    confidences: Array,
    is_right: Array,
    is_foreign: Array,
    is_named: Array,
    weights: Array,
    *,
    foreign_max: float,
    right_min: float,
) -> Choice:
    """The least threshold with which at most `foreign_max` of the foreign flows get a name and
    `right_min` of the names of other flows are right.

    Where none does both, 0.5; answers that are more likely wrong than right are never told.
    """
    own, others = is_named & ~is_foreign, is_named & is_foreign
    foreign_total = max(float(weights[is_foreign].sum()), 1e-9)
    for step in range(_STEPS // 2, _STEPS):
        below = step / _STEPS
        told = own & (confidences >= below)
        share = float(weights[others & (confidences >= below)].sum()) / foreign_total
        mine = weights[told]
        # A threshold above all confidences keeps no promise: it gives every flow away.
        right = float((is_right[told] * mine).sum() / mine.sum()) if told.any() else 0.0
        if share <= foreign_max and right >= right_min:
            why = (
                f"the least of {_STEPS // 2 / _STEPS} and more with which at most "
                f"{foreign_max:.0%} of the foreign flows used to choose it get a label "
                f"and {right_min:.0%} of the labels of the others are right"
            )
            return Choice(below, why)
    return Choice(0.5, "0.5, as none satisfies both: labels are more often right than wrong")


@dataclass(frozen=True)
class Bin:
    """Answers of about the same confidence."""

    low: float
    high: float
    flows: int
    confidence: float
    right: float


_EDGES = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)


def reliability(confidences: Array, is_right: Array) -> list[Bin]:
    """How often answers of each confidence were right."""
    bins = []
    for low, high in zip(_EDGES, _EDGES[1:], strict=False):
        is_last = high == _EDGES[-1]
        chosen = (confidences >= low) & ((confidences <= high) if is_last else (confidences < high))
        if chosen.any():
            mean = float(confidences[chosen].mean())
            right = float(numpy.asarray(is_right)[chosen].mean())
            bins.append(Bin(low, high, int(chosen.sum()), mean, right))
    return bins


def expected_error(confidences: Array, is_right: Array) -> float:
    """The expected calibration error: how far confidence and share right are apart, by flows."""
    bins = reliability(confidences, is_right)
    total = sum(one.flows for one in bins)
    return sum(one.flows * abs(one.confidence - one.right) for one in bins) / max(total, 1)
