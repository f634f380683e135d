"""What ServeFlow's Tables 1, 2, 3, 5 and Figures 2, 3, 5, 9, 10, 12 are of a pool of ours.

    python bench/evaluation/classify/paper_tables.py FOLDER --fast MODEL --slow MODEL
        -- TRAIN OPTIONS

TRAIN OPTIONS are those of `wirelens train classify`; with its --work models that are there are
not trained again. MODEL is a name such as lightgbm/1. Into FOLDER go

    models.tsv   each model: F1, microseconds of scoring, and how long flows wait for its packets
    areas.tsv    normalized areas: each one-packet model to --fast, and each to --slow
    curves.tsv   assigned portion, caught errors, F1 and latency, of the same pairs
    waiting.tsv  when packets come after a flow's first

and front.png, with a picture of each of the pairs that --draw names, such as
decision-tree/1:lightgbm/1.
"""

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
from wirelens.classify import arguments, curves, matrix, plots, recipe_file, steps
from wirelens.classify.place import Placement
from wirelens.classify.pool import Plan, Pool, PoolModel
from wirelens.classify.thresholds import (
    ALGORITHMS,
    PER_CLASS_AHEAD,
    UNCERTAINTIES,
    uncertainty,
)
from wirelens.learn.metrics import class_f1, confusion, macro_f1, weighted_f1
from wirelens.learn.progress import Progress

Array = Any
Row = list[object]
# The paper's algorithms, and the second of them when it looks further than a step.
_WAYS = (*ALGORITHMS, PER_CLASS_AHEAD)
_PACKETS = (2, 3, 5, 10)
_QUANTILES = (5, 10, 25, 50, 75, 90, 95, 99, 100)
# Portions that curves are kept at.
_PORTIONS = numpy.linspace(0, 1, 41)


class PaperResult:
    """A pool with the flows that judge it, and those that choose its thresholds."""

    def __init__(self, dataset: Any, plan: Plan, trained: list[PoolModel]) -> None:
        self.has_test = len(plan.test) > 0
        self.rows = plan.test if self.has_test else plan.checked
        self.truth = dataset.labels[self.rows]
        self.sample = dataset.sample.of(self.rows)
        self.count = len(dataset.classes)
        self.models = {model.name: model for model in trained}
        self._checked = dataset.labels[plan.checked]
        self._ends = numpy.cumsum([len(rows) for _, rows in plan.checks])

    def scores(self, name: str) -> Array:
        """Probabilities of the flows that judge."""
        model = self.models[name]
        return model.test_scores if self.has_test else model.check_scores

    def carried(self, name: str) -> list[curves.Fold]:
        """Who chooses thresholds of whom: validation of test flows, other folds of a fold."""
        scores, every = self.models[name].check_scores, numpy.arange(len(self.truth))
        if self.has_test:
            return [curves.Fold(every, self._checked, scores)]
        groups = []
        for mine in numpy.split(every, self._ends[:-1]):
            rest = numpy.delete(every, mine)
            groups.append(curves.Fold(mine, self._checked[rest], scores[rest]))
        return groups

    def pair(self, first: str, second: str, *, is_own: bool = False) -> curves.PairCurves:
        """Curves of two models; `is_own` where thresholds are chosen on the flows that judge."""
        carried = None if is_own else self.carried(first)
        scores = self.scores(first), self.scores(second)
        names = (first, second)
        return curves.curves_of(names, self.truth, scores, self.count, carried, _WAYS)

    def waits_us(self, first: str, second: str) -> dict[str, tuple[Array, Array, Array]]:
        """By way to assign: portions, and the mean and median latency that they have."""
        one, other = self.models[first].profile, self.models[second].profile
        scores = self.scores(first)
        told = scores.argmax(axis=1)
        waiting = self.sample.waiting_us(other.packets)
        found = {}
        for measure in UNCERTAINTIES:
            unsure = uncertainty(scores, measure).round(10)
            for algorithm in _WAYS:
                masks = numpy.zeros((101, len(told)), dtype=bool)
                for group in self.carried(first):
                    rows = group.judged
                    masks[:, rows] = curves.carried_masks(
                        group, measure, algorithm, unsure[rows], told[rows], self.count
                    )
                late = masks * (waiting + other.alone_us) + one.alone_us
                found[f"{measure}, {algorithm}"] = (
                    masks.mean(axis=1), late.mean(axis=1), numpy.median(late, axis=1),
                )  # fmt: skip
        return found


def write(path: Path, titles: Sequence[str], rows: Sequence[Row]) -> None:
    """A table, figures with as many digits as mean something."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(titles)
        for row in rows:
            writer.writerow([f"{cell:.4g}" if isinstance(cell, float) else cell for cell in row])


def models_of(judged: PaperResult) -> list[Row]:
    """Tables 1, 2 and 3: F1 by family and packets, scoring, waiting."""
    rows = []
    for name, model in judged.models.items():
        counts = confusion(judged.truth, judged.scores(name).argmax(axis=1), judged.count)
        profile = model.profile
        waiting = judged.sample.waiting_us(profile.packets) / 1e3
        rows.append([
            profile.family, profile.packets, len(judged.truth), macro_f1(counts),
            weighted_f1(counts), int((class_f1(counts) == 0).sum()), profile.alone_us,
            profile.batch_us, float(numpy.median(waiting)), float(waiting.mean()), model.training_s,
            model.difference,
        ])  # fmt: skip
    return rows


def areas_of(pairs: dict[str, list[tuple[curves.PairCurves, curves.PairCurves]]]) -> list[Row]:
    """Table 5: normalized areas by what varies."""
    rows: list[Row] = []
    for part, found in pairs.items():
        for pair, own in found:
            for curve, same in zip(pair.curves[1:], own.curves[1:], strict=True):
                rows.append([
                    part, pair.first, pair.second, curve.name, pair.area(curve),
                    pair.area(curve, is_weighted=True), own.area(same),
                    own.area(same, is_weighted=True), pair.oracle.area(),
                ])  # fmt: skip
    return rows


def curves_rows(judged: PaperResult, pairs: Sequence[curves.PairCurves]) -> list[Row]:
    """Figures 2, 9, 10, 12: what comes of each portion."""
    rows: list[Row] = []
    for pair in pairs:
        waits = judged.waits_us(pair.first, pair.second)
        for curve in pair.curves:
            for portion in _PORTIONS.tolist():
                values = [
                    curves.at(curve, portion, of) for of in (curve.caught, curve.f1, curve.weighted)
                ]
                late: list[object] = ["", ""]
                portions, mean, median = waits.get(curve.name, (None, None, None))
                if portions is not None and portion <= portions[-1]:
                    late = [
                        float(numpy.interp(portion, portions, of)) / 1e3 for of in (mean, median)
                    ]
                rows.append([pair.first, pair.second, curve.name, portion, *values, *late])
    return rows


def waiting_of(arrivals_ns: Array) -> list[Row]:
    """Figure 3: when the n-th packet comes, of flows that have so many."""
    rows = []
    for count in _PACKETS:
        if count > arrivals_ns.shape[1]:
            continue
        came = arrivals_ns[:, count - 1]
        came = came[numpy.isfinite(came)] / 1e6
        part = len(came) / len(arrivals_ns)
        rows.append([count, part, *map(float, numpy.percentile(came, _QUANTILES))])
    return rows


def read(options: Sequence[str]) -> tuple[Any, Plan, list[PoolModel]]:
    """Flows, sides and models, as `wirelens train classify` has them."""
    parser = arguments.parser()
    asked = parser.parse_args(["train", *options])
    if asked.recipe is not None:
        asked = parser.parse_args(["train", *recipe_file.options(asked.recipe), *options])
    request = arguments.train_request(asked, options)
    progress = Progress(False)
    dataset = steps.read_flows(request, progress)
    plan, told = steps.plan_of(request, dataset, progress)
    progress.tell(told)
    depth = max(request.pool.depths)
    built = matrix.build(dataset.sample, request.recipe, depth, plan.training)
    work = request.work or request.output.with_name(request.output.name + ".work")
    trained = Pool(dataset, request.recipe, built, plan, request.pool, work, progress).train()
    return dataset, plan, trained


def main() -> None:
    """Writes the tables of one pool."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fastest")
    parser.add_argument("--fast", required=True)
    parser.add_argument("--slow", required=True)
    parser.add_argument("--draw", action="append", default=[])
    parser.add_argument("options", nargs="+")
    asked = parser.parse_args()
    dataset, plan, trained = read(asked.options)
    judged = PaperResult(dataset, plan, trained)
    asked.folder.mkdir(parents=True, exist_ok=True)
    write(
        asked.folder / "models.tsv",
        (
            "family", "packets", "flows", "macro_f1", "weighted_f1", "classes_never_right",
            "alone_us", "batch_us", "waiting_median_ms", "waiting_mean_ms", "training_s",
            "difference",
        ),
        models_of(judged),
    )  # fmt: skip
    singles = [name for name, m in judged.models.items() if m.profile.packets == 1]
    pairs = {
        part: [
            (judged.pair(name, second), judged.pair(name, second, is_own=True))
            for name in singles
            if name != second
        ]
        for part, second in (("to fast", asked.fast), ("to slow", asked.slow))
    }
    write(
        asked.folder / "areas.tsv",
        (
            "part", "from", "to", "way", "area_macro", "area_weighted", "own_area_macro",
            "own_area_weighted", "oracle_gain_macro",
        ),
        areas_of(pairs),
    )  # fmt: skip
    flat = [pair for found in pairs.values() for pair, _ in found]
    titles = (
        "from", "to", "way", "assigned", "caught", "macro_f1", "weighted_f1", "latency_mean_ms",
        "latency_median_ms",
    )  # fmt: skip
    write(asked.folder / "curves.tsv", titles, curves_rows(judged, flat))
    write(
        asked.folder / "waiting.tsv",
        ("packets", "part_of_flows", *(f"p{q}_ms" for q in _QUANTILES)),
        waiting_of(dataset.sample.arrivals_ns),
    )
    stages = {"fastest": asked.fastest, "fast": asked.fast, "slow": asked.slow}
    draw(trained, stages, flat, asked)


def draw(
    trained: list[PoolModel],
    stages: dict[str, str | None],
    pairs: Sequence[curves.PairCurves],
    asked: argparse.Namespace,
) -> None:
    """The front, and the pairs that are wanted."""
    profiles = {model.name: model.profile for model in trained}
    placed = [(stage, profiles[name]) for stage, name in stages.items() if name is not None]
    plots.front(list(profiles.values()), Placement(placed), asked.folder)
    by_name = {f"{pair.first}:{pair.second}": pair for pair in pairs}
    for name in asked.draw:
        pair = by_name[name]
        file = f"{pair.first}-{pair.second}.png".replace("/", "-")
        plots.assignment(pair.name, pair.curves, None, asked.folder, file)


if __name__ == "__main__":
    main()
