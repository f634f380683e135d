"""Which flows a stage hands on: thresholds of uncertainty, as ServeFlow sets them (section 3.2).

A flow goes on where its uncertainty is *greater* than the threshold of its predicted class. Both
algorithms of the paper give a list of points, each with thresholds and with what they assign on
the validation set; the operating point is one of them. Points are in the order of growing
portions, and nothing that an earlier point assigns is kept back by a later one.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy

from wirelens.errors import OptionError
from wirelens.learn.metrics import (
    Array,
    confusion,
    macro_f1_of_many,
    weighted_f1_of_many,
)

LEAST_CONFIDENCE = "least-confidence"
ENTROPY = "entropy"
UNCERTAINTIES = (LEAST_CONFIDENCE, ENTROPY)
UNIVERSAL = "universal"
PER_CLASS = "per-class"
ALGORITHMS = (UNIVERSAL, PER_CLASS)
# Algorithm 2 that looks further than one step; to compare with, not chosen by training.
PER_CLASS_AHEAD = "per-class-ahead"

# The paper's example of quantiles, from 0.01 to 0.99.
QUANTILES = tuple(index / 100 for index in range(1, 100))
# How many orders a random assignment is averaged over.
_RANDOM_ORDERS = 32


def uncertainty(scores: Array, measure: str) -> Array:
    """How unsure each row's probabilities are.

    Least confidence is 1 − max p; entropy is −Σ p ln p, where 0 ln 0 is 0.
    """
    scores = numpy.asarray(scores, dtype=numpy.float64)
    if measure == LEAST_CONFIDENCE:
        return 1 - scores.max(axis=1)
    if measure == ENTROPY:
        # Terms are added one by one in the order of the classes, as the runtime does it; the sum
        # of numpy has another order, and the last bit may decide.
        total = numpy.zeros(len(scores))
        for column in scores.T:
            total -= numpy.where(column > 0, column * numpy.log(numpy.maximum(column, 1e-300)), 0.0)
        return total
    raise OptionError(f"uncertainty {measure!r}; wanted: {' or '.join(UNCERTAINTIES)}")


@dataclass(frozen=True)
class Point:
    """Thresholds, one for each class, and what they assign on the validation set."""

    thresholds: tuple[float, ...]
    # Flows that go on, of all flows.
    assigned: float

    @property
    def is_universal(self) -> bool:
        """Whether all classes have one threshold."""
        return len(set(self.thresholds)) == 1


def assigned_by(point: Point, unsure: Array, predicted: Array) -> Array:
    """Which flows go on, as booleans."""
    return unsure > numpy.asarray(point.thresholds)[predicted]


def _point(thresholds: Sequence[float], unsure: Array, predicted: Array) -> Point:
    values = tuple(float(value) for value in thresholds)
    goes_on = unsure > numpy.asarray(values)[predicted]
    return Point(values, float(goes_on.mean()) if len(unsure) else 0.0)


def quantile_values(values: Array, quantiles: Sequence[float] = QUANTILES) -> list[float]:
    """Algorithm 1's list: of the values in ascending order, the one at ⌊q · length⌋ for each q."""
    ordered = numpy.sort(numpy.asarray(values, dtype=numpy.float64))
    if len(ordered) == 0:
        return []
    # A product such as 0.29 · 100 falls short of a whole number by rounding alone.
    places = [int(q * len(ordered) + 1e-9) for q in quantiles]
    return [float(ordered[min(place, len(ordered) - 1)]) for place in places]


def universal_points(
    unsure: Array,
    predicted: Array,
    class_count: int,
    quantiles: Sequence[float] = QUANTILES,
) -> list[Point]:
    """Algorithm 1: one threshold for all classes, at quantiles of the uncertainty.

    The first point has the greatest uncertainty as threshold and assigns nothing. Equal
    thresholds are one point.
    """
    if len(unsure) == 0:
        return []
    values = {float(numpy.max(unsure)), *quantile_values(unsure, quantiles)}
    falling = sorted(values, reverse=True)
    return [_point([value] * class_count, unsure, predicted) for value in falling]


@dataclass(frozen=True)
class _Step:
    """One class's threshold lowered by one quantile: what that adds."""

    threshold: float
    incorrect: int
    correct: int

    @property
    def slope(self) -> float:
        return self.incorrect / (self.incorrect + self.correct)


def _class_steps(unsure: Array, is_correct: Array, quantiles: Sequence[float]) -> list[_Step]:
    """The steps of one class, from its greatest uncertainty down (GETPERCLASSSLOPE)."""
    greatest = float(numpy.max(unsure))
    falling = sorted({greatest, *quantile_values(unsure, quantiles)}, reverse=True)
    right, wrong = numpy.sort(unsure[is_correct]), numpy.sort(unsure[~is_correct])
    steps = []
    for above, below in zip(falling, falling[1:], strict=False):
        # Uncertainties within (below, above]: what the lower threshold assigns in addition.
        bounds = [below, above]
        correct = int(numpy.diff(numpy.searchsorted(right, bounds, side="right"))[0])
        incorrect = int(numpy.diff(numpy.searchsorted(wrong, bounds, side="right"))[0])
        steps.append(_Step(below, incorrect, correct))
    return steps


def _merged(steps: list[_Step]) -> list[_Step]:
    """Steps of which none is steeper than the one before: those that are go with it.

    A class whose most uncertain flows are right else keeps back the errors behind them.
    """
    merged: list[_Step] = []
    for step in steps:
        merged.append(step)
        while len(merged) > 1 and merged[-1].slope >= merged[-2].slope:
            last, before = merged.pop(), merged.pop()
            counts = before.incorrect + last.incorrect, before.correct + last.correct
            merged.append(_Step(last.threshold, *counts))
    return merged


def per_class_points(
    unsure: Array,
    predicted: Array,
    is_correct: Array,
    class_count: int,
    quantiles: Sequence[float] = QUANTILES,
    *,
    looks_ahead: bool = False,
) -> list[Point]:
    """Algorithm 2: thresholds for each predicted class, the steepest class lowered first.

    All thresholds begin at the greatest uncertainty of their class. Of each class's next step
    the one with the greatest Δincorrect / (Δincorrect + Δcorrect) is taken, over and over; of
    equals the class that comes first. A class that is never predicted keeps the greatest
    uncertainty of all: nothing is known of how unsure its predictions are.

    With `looks_ahead` a class's next step is of as many quantiles as make it the steepest, which
    the paper's is not.
    """
    if len(unsure) == 0:
        return []
    greatest = float(numpy.max(unsure))
    thresholds = [greatest] * class_count
    steps: list[list[_Step]] = [[] for _ in range(class_count)]
    for index in range(class_count):
        is_class = predicted == index
        if is_class.any():
            thresholds[index] = float(unsure[is_class].max())
            own = _class_steps(unsure[is_class], is_correct[is_class], quantiles)
            steps[index] = _merged(own) if looks_ahead else own
    queue = [(-s[0].slope, index, 0) for index, s in enumerate(steps) if s]
    heapq.heapify(queue)
    assigned = 0
    points = [Point(tuple(thresholds), 0.0)]
    while queue:
        _, index, place = heapq.heappop(queue)
        step = steps[index][place]
        thresholds[index] = step.threshold
        assigned += step.incorrect + step.correct
        points.append(Point(tuple(thresholds), assigned / len(unsure)))
        if place + 1 < len(steps[index]):
            heapq.heappush(queue, (-steps[index][place + 1].slope, index, place + 1))
    return points


def points_of(
    algorithm: str, unsure: Array, predicted: Array, is_correct: Array, class_count: int
) -> list[Point]:
    """The points of the algorithm that is named."""
    if algorithm == UNIVERSAL:
        return universal_points(unsure, predicted, class_count)
    if algorithm == PER_CLASS:
        return per_class_points(unsure, predicted, is_correct, class_count)
    if algorithm == PER_CLASS_AHEAD:
        return per_class_points(unsure, predicted, is_correct, class_count, looks_ahead=True)
    raise OptionError(f"thresholds {algorithm!r}; wanted: {' or '.join(ALGORITHMS)}")


@dataclass(frozen=True)
class Curve:
    """What assigning a growing portion of flows brings, from nothing to everything."""

    name: str
    assigned: Array
    # Of all flows that the first model predicts wrong, how many are assigned; 0 to 1.
    caught: Array
    # Macro-F1 of both models together, and weighted F1.
    f1: Array
    weighted: Array

    def area(self, *, is_weighted: bool = False) -> float:
        """Area between F1 and the first model's own, over the portion."""
        values = self.weighted if is_weighted else self.f1
        return float(numpy.trapezoid(values - values[0], self.assigned))


class Assignment:
    """Two models on the validation set, the second for what the first hands on."""

    def __init__(self, truth: Array, first: Array, second: Array, class_count: int) -> None:
        self.truth = numpy.asarray(truth)
        self.first = numpy.asarray(first)
        self.second = numpy.asarray(second)
        self.class_count = class_count
        self.is_correct = self.first == self.truth

    def of_masks(self, name: str, masks: list[Array]) -> Curve:
        """A curve through sets of assigned flows; begins with none and ends with all."""
        everything = numpy.ones(len(self.truth), dtype=bool)
        masks = [~everything, *masks, everything]
        wrong = max(int((~self.is_correct).sum()), 1)
        counts = [
            confusion(self.truth, numpy.where(mask, self.second, self.first), self.class_count)
            for mask in masks
        ]
        every = numpy.stack(counts)
        return Curve(
            name,
            numpy.array([mask.mean() for mask in masks]),
            numpy.array([(mask & ~self.is_correct).sum() / wrong for mask in masks]),
            macro_f1_of_many(every),
            weighted_f1_of_many(every),
        )

    def of_points(self, name: str, points: Sequence[Point], unsure: Array) -> Curve:
        """The curve of thresholds. Where they end, the rest is assigned at random: a line."""
        return self.of_masks(name, [assigned_by(point, unsure, self.first) for point in points])

    def _of_order(self, name: str, order: Array) -> Curve:
        count, size = len(order), self.class_count * self.class_count
        steps = numpy.unique(numpy.round(numpy.linspace(0, count, 101)).astype(numpy.int64))
        # Flows by the step that assigns them: each takes one off a cell and adds one to another.
        step_of = numpy.searchsorted(steps, numpy.arange(count), side="right")
        before, after = (
            numpy.bincount(
                step_of * size + (self.truth * self.class_count + predicted)[order],
                minlength=len(steps) * size,
            ).reshape(len(steps), size)
            for predicted in (self.first, self.second)
        )
        counts = before.sum(axis=0) + numpy.cumsum(after - before, axis=0)
        wrong = numpy.bincount(step_of, ~self.is_correct[order], minlength=len(steps))
        every = counts.reshape(-1, self.class_count, self.class_count)
        return Curve(
            name,
            steps / count,
            numpy.cumsum(wrong) / max(wrong.sum(), 1),
            macro_f1_of_many(every),
            weighted_f1_of_many(every),
        )

    def _of_orders(self, name: str, is_oracle: bool, seed: int) -> Curve:
        dice = numpy.random.default_rng(seed)
        curves = []
        for _ in range(_RANDOM_ORDERS):
            order = dice.permutation(len(self.truth))
            if is_oracle:
                order = order[numpy.argsort(self.is_correct[order], kind="stable")]
            curves.append(self._of_order(name, order))
        caught = numpy.mean([curve.caught for curve in curves], axis=0)
        f1 = numpy.mean([curve.f1 for curve in curves], axis=0)
        weighted = numpy.mean([curve.weighted for curve in curves], axis=0)
        return Curve(name, curves[0].assigned, caught, f1, weighted)

    def oracle(self, seed: int = 1) -> Curve:
        """Wrong predictions first, which needs the truth; the mean of random orders of these."""
        return self._of_orders("oracle", True, seed)

    def random(self, seed: int = 1) -> Curve:
        """Flows in random order, the mean of some."""
        return self._of_orders("random", False, seed)


def normalized_area(curve: Curve, oracle: Curve, *, is_weighted: bool = False) -> float:
    """Area of a curve over the oracle's absolute area, as in the paper's Table 5.

    1 is as good as knowing which predictions are wrong; not a number where the oracle gains
    nothing, since there is nothing to be had.
    """
    reference = abs(oracle.area(is_weighted=is_weighted))
    return curve.area(is_weighted=is_weighted) / reference if reference > 1e-12 else float("nan")
