"""How good two models are together where the first hands on a quarter of all flows.

    python bench/evaluation/classify/quarter.py FIRST SECOND OUT.tsv
        train OPTIONS OF wirelens train classify

Which quarter is told by families that it is not of: by one threshold, by Algorithm 2, by
Algorithm 2 where a prediction counts as incorrect only if the second model mends it, or by a
forest that learned from the first model's probabilities what the second gains. The oracle knows
what it gains. A row of OUT a way.
"""

import sys
from pathlib import Path

import numpy
from points import pool_of
from sklearn.ensemble import RandomForestRegressor
from wirelens.classify.thresholds import (
    PER_CLASS,
    UNCERTAINTIES,
    UNIVERSAL,
    assigned_by,
    points_of,
    uncertainty,
)
from wirelens.learn.metrics import Array, confusion, macro_f1

PART = 0.25
COLUMNS = ("first", "second", "seed", "way", "decided_by_first", "macro_f1", "macro_f1_best",
           "difference", "first_wrong", "mended", "spoilt")  # fmt: skip


class Pair:
    """Two models' scores of flows whose truth is known."""

    def __init__(self, truth: Array, scores: list[Array], count: int) -> None:
        self.truth, self.scores, self.count = truth, scores[0], count
        self.first, self.second = (one.argmax(axis=1) for one in scores)
        self.mended = (self.first != truth) & (self.second == truth)
        self.spoilt = (self.first == truth) & (self.second != truth)

    def f1(self, goes_on: Array, rows: Array) -> float:
        """Macro-F1 of some flows."""
        said = numpy.where(goes_on, self.second[rows], self.first[rows])
        return macro_f1(confusion(self.truth[rows], said, self.count))

    def by_thresholds(self, algorithm: str, errors: Array, rest: Array, rows: Array) -> Array:
        """Which of `rows` go on; the measure is that which is better on the rest."""
        found = []
        for measure in UNCERTAINTIES:
            unsure = uncertainty(self.scores, measure).round(10)
            points = points_of(algorithm, unsure[rest], self.first[rest], ~errors[rest], self.count)
            point = min(points, key=lambda one: abs(one.assigned - PART))
            own = assigned_by(point, unsure[rest], self.first[rest])
            goes_on = assigned_by(point, unsure[rows], self.first[rows])
            found.append((self.f1(own, rest), goes_on))
        return max(found, key=lambda one: one[0])[1]

    def by_forest(self, rest: Array, rows: Array) -> Array:
        """By the gain that is expected, an error of a rare class counting more."""
        often = numpy.maximum(numpy.bincount(self.truth[rest], minlength=self.count), 1)
        weight = (len(rest) / often / self.count) ** 0.5
        gain = weight[self.truth] * (self.mended.astype(float) - self.spoilt)
        seen = [uncertainty(self.scores, measure) for measure in UNCERTAINTIES]
        values = numpy.column_stack([self.scores, *seen, self.first])
        forest = RandomForestRegressor(
            200, min_samples_leaf=10, max_features=0.3, random_state=1, oob_score=True
        ).fit(values[rest], gain[rest])
        return forest.predict(values[rows]) > numpy.quantile(forest.oob_prediction_, 1 - PART)


def main() -> None:
    """The command line above."""
    names, out, typed = sys.argv[1:3], Path(sys.argv[3]), sys.argv[4:]
    request, dataset, plan, pool = pool_of(typed)
    rows, count = plan.checked, len(dataset.classes)
    scores = {model.name: model.check_scores for model in pool}
    pair = Pair(dataset.labels[rows], [scores[name] for name in names], count)
    everything = numpy.arange(len(rows))
    best = max(
        macro_f1(confusion(pair.truth, said.argmax(axis=1), count)) for said in scores.values()
    )
    wrong = pair.first != pair.truth
    ways = {
        "one threshold": lambda *parts: pair.by_thresholds(UNIVERSAL, wrong, *parts),
        "by class": lambda *parts: pair.by_thresholds(PER_CLASS, wrong, *parts),
        "by class, errors that are mended": (
            lambda *parts: pair.by_thresholds(PER_CLASS, pair.mended, *parts)
        ),
        "forest": pair.by_forest,
    }
    ends = numpy.cumsum([len(held) for _, held in plan.checks])
    goes_on = {name: numpy.zeros(len(rows), dtype=bool) for name in ways}
    for held in numpy.split(everything, ends[:-1]):
        for name, way in ways.items():
            goes_on[name][held] = way(numpy.delete(everything, held), held)
    goes_on["oracle"] = pair.mended
    if not out.exists():
        out.write_text("\t".join(COLUMNS) + "\n", encoding="utf-8")
    for name, mask in goes_on.items():
        value = pair.f1(mask, everything)
        shares = [wrong.mean(), pair.mended.mean(), pair.spoilt.mean()]
        figures = [1 - mask.mean(), value, best, value - best, *shares]
        told = [*names, request.pool.seed, name, *(f"{float(figure):.4f}" for figure in figures)]
        with out.open("a", encoding="utf-8") as file:
            file.write("\t".join(map(str, told)) + "\n")


if __name__ == "__main__":
    main()
