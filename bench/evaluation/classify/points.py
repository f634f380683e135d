"""What ways to choose a point of thresholds promise, and what they keep on other families.

    python bench/evaluation/classify/points.py FIRST SECOND OUT.tsv
        train OPTIONS OF wirelens train classify

FIRST and SECOND are models of the pool, such as lightgbm/1 and lightgbm/10. Each fifth of the
families goes on by thresholds that a way chooses on the others; a row of OUT a way. Models are
trained unless they are in the work folder.
"""

import sys
from pathlib import Path

import numpy
from wirelens.classify import arguments, recipe_file
from wirelens.classify import matrix as matrices
from wirelens.classify.dataset import Dataset
from wirelens.classify.operate import (
    Rule,
    StageScores,
    decide,
    rules_of,
    settled,
    smallest_portion,
)
from wirelens.classify.pool import Plan, Pool, PoolModel
from wirelens.classify.promise import Promise
from wirelens.classify.split import folds
from wirelens.classify.steps import Request, plan_of, read_flows
from wirelens.classify.thresholds import ALGORITHMS, PER_CLASS, UNIVERSAL
from wirelens.learn.metrics import Array, confusion, macro_f1
from wirelens.learn.progress import Progress

MARGIN = 0.01
# Name, algorithms, whether points are measured on other families, and in which part of draws.
WAYS = (
    ("as the paper", ALGORITHMS, False, 0.0),
    ("as the paper, one threshold", (UNIVERSAL,), False, 0.0),
    ("as the paper, by class", (PER_CLASS,), False, 0.0),
    ("held out", ALGORITHMS, True, 0.0),
    ("held out, 80 % of draws", ALGORITHMS, True, 0.8),
    ("held out, 90 % of draws", ALGORITHMS, True, 0.9),
)
COLUMNS = ("first", "second", "seed", "split", "way", "decided_by_first", "macro_f1",
           "macro_f1_best", "difference")  # fmt: skip
# Splits of families to choose and to be judged by, beside that of the pool.
SPLITS = 2


def chosen(
    rules: list[Rule], second: Array, promise: Promise
) -> tuple[Rule, tuple[float, ...], float]:
    """The rule that hands on the fewest flows with the margin kept, and its thresholds."""
    found = []
    for index, rule in enumerate(rules):
        part = smallest_portion(rule, second, promise, MARGIN)
        found.append((part, index))
    part, index = min(found)
    rule = rules[index]
    point = min(rule.points, key=lambda one: abs(one.assigned - part))
    if part >= 1 > point.assigned:
        return rule, (-1.0,) * len(point.thresholds), part
    return rule, settled(point, rule.unsure, rule.predicted), part


def judged(truth: Array, families: Array, scores: list[Array], best: Array, parts: list[Array],
           count: int) -> list[tuple[str, float, float]]:  # fmt: skip
    """By way: which part the first model decides, and macro-F1, each fold by the others."""
    said = {way: numpy.zeros(len(truth), dtype=numpy.int64) for way, *_ in WAYS}
    stage = {way: numpy.zeros(len(truth), dtype=numpy.int64) for way, *_ in WAYS}
    for rows in parts:
        rest = numpy.delete(numpy.arange(len(truth)), rows)
        first, second = (StageScores("", one[rest], 1.0, 0.0) for one in scores)
        rules = {
            is_held: rules_of(
                truth[rest], first, second, count, families=families[rest] if is_held else None
            )
            for is_held in (False, True)
        }
        for way, algorithms, is_held, sure in WAYS:
            promise = Promise(truth[rest], best[rest], count, families[rest], sure)
            some = [rule for rule in rules[is_held] if rule.algorithm in algorithms]
            rule, thresholds, _ = chosen(some, second.predicted, promise)
            found = decide([one[rows] for one in scores], [rule.measure], [thresholds])
            said[way][rows], stage[way][rows] = found.labels, found.stages
    return [
        (way, float((stage[way] == 0).mean()), macro_f1(confusion(truth, said[way], count)))
        for way, *_ in WAYS
    ]


def pool_of(typed: list[str]) -> tuple[Request, Dataset, Plan, list[PoolModel]]:
    """The flows and the models of a line of `wirelens train classify`."""
    parser = arguments.parser()
    asked = parser.parse_args(typed)
    if asked.recipe is not None:
        asked = parser.parse_args([typed[0], *recipe_file.options(asked.recipe), *typed[1:]])
    request, progress = arguments.train_request(asked, typed[1:]), Progress(asked.quiet)
    dataset = read_flows(request, progress)
    plan, _ = plan_of(request, dataset, progress)
    matrix = matrices.build(dataset.sample, request.recipe, max(request.pool.depths), plan.training)
    work = request.work or request.output.with_name(request.output.name + ".work")
    pool = Pool(dataset, request.recipe, matrix, plan, request.pool, work, progress)
    return request, dataset, plan, pool.train()


def main() -> None:
    """The command line above."""
    names, out, typed = sys.argv[1:3], Path(sys.argv[3]), sys.argv[4:]
    request, dataset, plan, pool = pool_of(typed)
    rows, count = plan.checked, len(dataset.classes)
    truth, families = dataset.labels[rows], dataset.families[rows]
    scores = {model.name: model.check_scores for model in pool}
    predicted = [said.argmax(axis=1) for said in scores.values()]
    best = max(predicted, key=lambda said: macro_f1(confusion(truth, said, count)))
    of_best = macro_f1(confusion(truth, best, count))
    ends = numpy.cumsum([len(held) for _, held in plan.checks])
    splits = [numpy.split(numpy.arange(len(truth)), ends[:-1])]
    splits += [folds(truth, families, len(ends), seed=100 + extra) for extra in range(SPLITS)]
    if not out.exists():
        out.write_text("\t".join(COLUMNS) + "\n", encoding="utf-8")
    for split, parts in enumerate(splits):
        both = [scores[name] for name in names]
        for way, decided, value in judged(truth, families, both, best, parts, count):
            told = [*names, request.pool.seed, split, way]
            told += [f"{v:.4f}" for v in (decided, value, of_best, value - of_best)]
            with out.open("a", encoding="utf-8") as file:
                file.write("\t".join(map(str, told)) + "\n")


if __name__ == "__main__":
    main()
