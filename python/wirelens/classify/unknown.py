"""What a trained cascade says once its answers are calibrated, and which of them are `unknown`."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy

from wirelens.classify import calibration
from wirelens.classify.calibration import UNKNOWN, Choice, Line
from wirelens.learn.metrics import Array

# Flows of one family of captures and one class count as so many at most: one place that asks the
# same again and again is not many places.
_ALIKE_MAX = 16


@dataclass(frozen=True)
class Settings:
    """What is promised of names."""

    # A probability that is asked for; None chooses one by the two promises.
    below: float | None = None
    # Of flows of no class, so many get a name at most; of names so many are right.
    foreign_max: float = 0.1
    right_min: float = 0.9


@dataclass(frozen=True)
class UnknownCalibration:
    """A line of points for each stage, and below which probability the answer is `unknown`."""

    lines: list[Line] = field(default_factory=list)
    choice: Choice = field(default_factory=lambda: Choice(0.0, "no flow is left without a class"))


@dataclass(frozen=True)
class Answers:
    """What is said of some flows, row by row."""

    # The likeliest class, and the likeliest that names something.
    labels: Array
    guesses: Array
    confidences: Array
    is_unknown: Array

    def of(self, rows: Array) -> "Answers":
        """Some of them."""
        parts = (self.labels, self.guesses, self.confidences, self.is_unknown)
        return Answers(*(part[rows] for part in parts))


@dataclass(frozen=True)
class Raw:
    """Best guesses before they are calibrated, with the stage that decided."""

    labels: Array
    guesses: Array
    raw: Array
    stages: Array
    # Flows of a protocol that no class has, of which nothing is believed.
    is_unlisted: Array

    @classmethod
    def of(
        cls,
        scores: Sequence[Array],
        stages: Array,
        classes: Sequence[str],
        unlisted: Sequence[Array] = (),
    ) -> "Raw":
        """Of the probabilities of each stage, those of the one that decided; `unlisted` says by
        stage which flows are of no class by their names.
        """
        is_unlisted = numpy.zeros(len(stages), dtype=bool)
        for index, one in enumerate(unlisted):
            is_unlisted |= (stages == index) & one
        count = len(stages)
        found = [numpy.zeros(count, dtype=numpy.int64) for _ in range(2)]
        raw = numpy.zeros(count)
        for index, one in enumerate(scores):
            mine = numpy.flatnonzero(stages == index)
            labels, guesses, values = calibration.best_guess(one[mine], classes)
            found[0][mine], found[1][mine], raw[mine] = labels, guesses, values
        return cls(found[0], found[1], raw, stages, is_unlisted)

    def confidences(self, lines: Sequence[Line]) -> Array:
        """Calibrated by the line of the stage that decided."""
        found = self.raw.copy()
        for index, line in enumerate(lines):
            mine = self.stages == index
            found[mine] = calibration.apply(line, found[mine])
        found[self.is_unlisted] = 0.0
        return found

    def answers(self, calibrated: UnknownCalibration, classes: Sequence[str]) -> Answers:
        """What is said of them."""
        confidences = self.confidences(calibrated.lines)
        is_none = numpy.array([name == UNKNOWN for name in classes])[self.labels]
        is_unknown = is_none | (confidences < calibrated.choice.below)
        return Answers(self.labels, self.guesses, confidences, is_unknown)


def flow_weights(families: Array, truth: Array) -> Array:
    """Weights of flows: those of one family and class weigh `_ALIKE_MAX` together at most."""
    pairs = [f"{family}|{label}" for family, label in zip(families, truth, strict=True)]
    _, index, counts = numpy.unique(pairs, return_inverse=True, return_counts=True)
    weights: Array = numpy.minimum(1.0, _ALIKE_MAX / counts[index])
    return weights


def calibrate(
    found: Raw,
    truth: Array,
    families: Array,
    folds: Sequence[Array],
    classes: Sequence[str],
    settings: Settings,
) -> UnknownCalibration:
    """Lines and threshold of flows that models and stages were chosen by.

    The threshold is chosen on confidences of each fold by lines of the others.
    """
    weights = flow_weights(families, truth)
    is_right = found.guesses == truth
    stage_count = int(found.stages.max(initial=0)) + 1

    def lines(rows: Array) -> list[Line]:
        fitted = []
        for index in range(stage_count):
            mine = rows[(found.stages[rows] == index) & ~found.is_unlisted[rows]]
            line = calibration.fit(found.raw[mine], is_right[mine], weights[mine])
            fitted.append(calibration.settled(line))
        return fitted

    everything = numpy.arange(len(truth))
    final = lines(everything)
    if settings.below is not None:
        return UnknownCalibration(final, Choice(settings.below, "as was asked for"))
    honest = found.confidences(final)
    if len(folds) > 1:
        for rows in folds:
            honest[rows] = found.confidences(lines(numpy.delete(everything, rows)))[rows]
    is_unknown = numpy.array([name == UNKNOWN for name in classes])
    choice = calibration.choose_below(
        honest,
        is_right,
        is_unknown[truth],
        ~is_unknown[found.labels],
        weights,
        foreign_max=settings.foreign_max,
        right_min=settings.right_min,
    )
    return UnknownCalibration(final, choice)
