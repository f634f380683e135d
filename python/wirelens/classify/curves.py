"""What handing flows on brings, from nothing to everything: ServeFlow's Figures 9, 10 and Table 5.

A curve through thresholds that were chosen on the flows on which it is measured flatters: steps
of Algorithm 2 are ordered by which of these very flows are wrong. So thresholds are carried over:
chosen on some flows, they say of others which go on.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy

from wirelens import written
from wirelens.classify.thresholds import (
    ALGORITHMS,
    UNCERTAINTIES,
    Assignment,
    Curve,
    assigned_by,
    normalized_area,
    points_of,
    uncertainty,
)
from wirelens.learn.metrics import Array

# Portions that thresholds are asked for.
_STEPS = 100
# Uncertainties that differ by less are the same, as operating points have it.
_DIGITS = 10


@dataclass(frozen=True)
class Fold:
    """Flows, and those that choose their thresholds."""

    # Indices of flows.
    judged: Array
    # Of the flows that choose: what they are, and the first model's probabilities.
    truth: Array
    scores: Array


@dataclass(frozen=True)
class PairCurves:
    """Two stages, and every way to hand flows on from one to the other."""

    first: str
    second: str
    oracle: Curve
    random: Curve
    ways: list[Curve]

    @property
    def name(self) -> str:
        """From which model to which."""
        return f"{self.first} to {self.second}"

    @property
    def curves(self) -> list[Curve]:
        """All of them, the oracle first and chance last."""
        return [self.oracle, *self.ways, self.random]

    def area(self, curve: Curve, *, is_weighted: bool = False) -> float:
        """Normalized area, of macro-F1 or of weighted F1."""
        return normalized_area(curve, self.oracle, is_weighted=is_weighted)


def curves_of(
    names: tuple[str, str],
    truth: Array,
    scores: tuple[Array, Array],
    class_count: int,
    carried: Sequence[Fold] | None = None,
    algorithms: Sequence[str] = ALGORITHMS,
) -> PairCurves:
    """All ways to hand flows on from a model to the next.

    `scores` are both models' probabilities of the flows. Unless they are `carried`, thresholds
    are chosen on the flows themselves.
    """
    first, second = (one.argmax(axis=1) for one in scores)
    pair = Assignment(truth, first, second, class_count)
    groups = carried or [Fold(numpy.arange(len(truth)), truth, scores[0])]
    ways = []
    for measure in UNCERTAINTIES:
        unsure = uncertainty(scores[0], measure).round(_DIGITS)
        for algorithm in algorithms:
            masks = numpy.zeros((_STEPS + 1, len(truth)), dtype=bool)
            for group in groups:
                rows = group.judged
                own = unsure[rows], first[rows]
                masks[:, rows] = carried_masks(group, measure, algorithm, *own, class_count)
            ways.append(pair.of_masks(f"{measure}, {algorithm}", list(masks)))
    return PairCurves(*names, pair.oracle(), pair.random(), ways)


def carried_masks(
    group: Fold, measure: str, algorithm: str, unsure: Array, predicted: Array, class_count: int
) -> Array:
    """For each portion, which of the judged flows go on by thresholds that assign no more than it
    of the flows that chose them.
    """
    told = group.scores.argmax(axis=1)
    own = uncertainty(group.scores, measure).round(_DIGITS)
    points = points_of(algorithm, own, told, told == group.truth, class_count)
    portions = numpy.array([point.assigned for point in points])
    masks = numpy.zeros((_STEPS + 1, len(unsure)), dtype=bool)
    for step in range(1, _STEPS + 1):
        place = int(numpy.searchsorted(portions, step / _STEPS + 1e-9, side="right")) - 1
        if place >= 0:
            masks[step] = assigned_by(points[place], unsure, predicted)
    return masks


def at(curve: Curve, portion: float, values: Array) -> float:
    """A value of a curve where this portion is assigned; between its points it is a line."""
    return float(numpy.interp(portion, curve.assigned, values))


def write(pairs: Sequence[PairCurves], path: Path) -> Path:
    """A table of all points, for whoever draws them otherwise."""
    file = io.StringIO()
    writer = csv.writer(file, delimiter="\t", lineterminator="\n")
    writer.writerow(["from", "to", "way", "assigned", "caught", "macro_f1", "weighted_f1"])
    for pair in pairs:
        for curve in pair.curves:
            columns = (curve.assigned, curve.caught, curve.f1, curve.weighted)
            for point in zip(*columns, strict=True):
                cells = [f"{value:.4f}" for value in point]
                writer.writerow([pair.first, pair.second, curve.name, *cells])
    written.text(path, file.getvalue())
    return path
