"""How good predictions are: confusion, F1 of classes, and how sure one can be of a difference.

Classes and predictions are indices. A macro-average is over the classes that the truth has: a
class that is absent from a small side of a split would else count as 0 or as 1 by one flow.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy

# An array of numpy, whose types mypy does not follow here.
Array = Any


def confusion(truth: Array, predicted: Array, class_count: int) -> Array:
    """Flows by true class (rows) and predicted class (columns)."""
    cells = numpy.asarray(truth) * class_count + numpy.asarray(predicted)
    counts = numpy.bincount(cells, minlength=class_count * class_count)
    return counts.reshape(class_count, class_count)


def floor_for(class_count: int, most: float) -> float:
    """The least probability of a class: `most`, or less with so many classes that these floors
    would leave a model no more than half of the probability.
    """
    return min(most, 0.5 / class_count)


def class_f1(counts: Array) -> Array:
    """F1 of each class of a confusion; 0 of a class that is nowhere."""
    right = numpy.diagonal(counts, axis1=-2, axis2=-1)
    both = counts.sum(axis=-1) + counts.sum(axis=-2)
    return numpy.where(both > 0, 2 * right / numpy.maximum(both, 1), 0.0)


def macro_f1(counts: Array) -> float:
    """The mean F1 of the classes that the truth has; 0 where it has none."""
    return float(macro_f1_of_many(counts[None])[0])


def macro_f1_of_many(counts: Array) -> Array:
    """The same for many confusions, the first axis counting them."""
    is_there = counts.sum(axis=-1) > 0
    total = (class_f1(counts) * is_there).sum(axis=-1)
    return total / numpy.maximum(is_there.sum(axis=-1), 1)


def weighted_f1(counts: Array) -> float:
    """The mean F1 of classes, each weighted by its flows in the truth."""
    return float(weighted_f1_of_many(counts[None])[0])


def weighted_f1_of_many(counts: Array) -> Array:
    """The same for many confusions, the first axis counting them."""
    flows = counts.sum(axis=-1)
    total = (class_f1(counts) * flows).sum(axis=-1)
    return total / numpy.maximum(flows.sum(axis=-1), 1)


def accuracy(counts: Array) -> float:
    """The share of flows that are predicted right."""
    return float(numpy.trace(counts) / max(counts.sum(), 1))


@dataclass(frozen=True)
class ClassResult:
    """What became of one class."""

    name: str
    flows: int
    precision: float
    recall: float
    f1: float


def class_results(counts: Array, classes: list[str]) -> list[ClassResult]:
    """Precision, recall and F1 of each class, in the order of the classes."""
    f1 = class_f1(counts)
    results = []
    for index, name in enumerate(classes):
        flows, told = int(counts[index].sum()), int(counts[:, index].sum())
        right = int(counts[index, index])
        precision, recall = right / max(told, 1), right / max(flows, 1)
        results.append(ClassResult(name, flows, precision, recall, float(f1[index])))
    return results


@dataclass(frozen=True)
class Interval:
    """A figure, and between which bounds it is in 95 of 100 draws of families."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def family_interval(
    truth: Array,
    predicted: Array,
    families: Array,
    class_count: int,
    *,
    beside: Array | None = None,
    measure: Callable[[Array], Array] = macro_f1_of_many,
    draws: int = 2000,
    seed: int = 1,
) -> Interval:
    """The macro-F1 with its 95 % interval over families of captures.

    Families are drawn with replacement, as many as there are, since flows of one family are no
    independent evidence. With `beside`, other predictions of the same flows, it is the difference
    to theirs, both measured on the same draws.
    """
    _, index = numpy.unique(numpy.asarray(families), return_inverse=True)
    count = int(index.max()) + 1 if len(index) else 1

    def by_family(guesses: Array) -> Array:
        cells = (index * class_count + truth) * class_count + guesses
        sums = numpy.bincount(cells, minlength=count * class_count * class_count)
        return sums.reshape(count, -1)

    sides = [by_family(predicted)] + ([] if beside is None else [by_family(beside)])
    dice = numpy.random.default_rng(seed)
    weights = dice.multinomial(count, numpy.full(count, 1 / count), size=draws)
    weights = numpy.vstack([numpy.ones((1, count), dtype=weights.dtype), weights])
    found = [measure((weights @ side).reshape(-1, class_count, class_count)) for side in sides]
    values = found[0] if beside is None else found[0] - found[1]
    low, high = numpy.percentile(values[1:], [2.5, 97.5])
    return Interval(float(values[0]), float(low), float(high))


def softmax(scores: Array) -> Array:
    """Probabilities whose logarithms these are, but for what a row has in common."""
    powers = numpy.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
