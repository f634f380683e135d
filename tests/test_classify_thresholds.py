"""Thresholds of a cascade are those of a direct reading of the paper's two algorithms."""

from fractions import Fraction
from itertools import pairwise
from math import floor, log

import numpy
import pytest
from wirelens import OptionError
from wirelens.classify import curves, thresholds
from wirelens.classify.thresholds import (
    ENTROPY,
    LEAST_CONFIDENCE,
    Assignment,
    assigned_by,
    normalized_area,
    per_class_points,
    quantile_values,
    uncertainty,
    universal_points,
)
from wirelens.learn.metrics import confusion, macro_f1, weighted_f1

HUNDREDTHS = [Fraction(n, 100) for n in range(1, 100)]


def naive_algorithm_1(unsure, quantiles=HUNDREDTHS):
    """GETUNIVERSALTHRESHOLDS, line by line."""
    u = []
    for data_point in unsure:
        u.append(data_point)
    u.sort()
    t = []
    for q in quantiles:
        index = floor(q * len(u))
        t.append(u[index])
    return t


def naive_slopes(unsure, predicted, is_correct, label):
    """GETPERCLASSSLOPE of one class: thresholds from the top with slope and size of each step."""
    rows = [i for i in range(len(unsure)) if predicted[i] == label]
    if not rows:
        return None
    mine = [unsure[i] for i in rows]
    levels = sorted({max(mine), *naive_algorithm_1(mine)}, reverse=True)
    result = []
    for above, below in pairwise(levels):
        added = [i for i in rows if unsure[i] > below and not unsure[i] > above]
        incorrect = sum(1 for i in added if not is_correct[i])
        result.append((below, Fraction(incorrect, len(added)), len(added)))
    return max(mine), result


def naive_algorithm_2(unsure, predicted, is_correct, class_count):
    """GETPERCLASSTHRESHOLDS: lists scanned, no heap."""
    found = {c: naive_slopes(unsure, predicted, is_correct, c) for c in range(class_count)}
    td = {c: found[c][0] if found[c] else max(unsure) for c in range(class_count)}
    r = {c: list(found[c][1]) if found[c] else [] for c in range(class_count)}
    all_assigned = 0
    points = [([td[c] for c in range(class_count)], 0.0)]
    while True:
        msq = [(c, r[c][0]) for c in range(class_count) if r[c]]
        if not msq:
            return points
        c, (threshold, _, size) = max(msq, key=lambda item: (item[1][1], -item[0]))
        td[c] = threshold
        all_assigned += size
        points.append(([td[k] for k in range(class_count)], all_assigned / len(unsure)))
        r[c].pop(0)


def random_case(seed):
    dice = numpy.random.default_rng(seed)
    count, classes = int(dice.integers(1, 400)), int(dice.integers(2, 7))
    # Rounded, so that uncertainties are met again, as leaves of a tree make them.
    unsure = numpy.round(dice.random(count), int(dice.integers(1, 4)))
    predicted = dice.integers(0, classes, count)
    is_correct = dice.random(count) > unsure * dice.random()
    return unsure, predicted, is_correct, classes


def test_least_confidence_and_entropy_are_the_papers():
    scores = numpy.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0], [0.2, 0.2, 0.6]])
    assert uncertainty(scores, LEAST_CONFIDENCE).tolist() == [0.5, 0.0, 0.4]
    wanted = [-(0.5 * log(0.5) + 0.5 * log(0.25)), 0.0, -(0.4 * log(0.2) + 0.6 * log(0.6))]
    assert uncertainty(scores, ENTROPY) == pytest.approx(wanted, abs=1e-15)
    with pytest.raises(OptionError, match="wanted: least-confidence or entropy"):
        uncertainty(scores, "margin")


def test_quantiles_of_ten_values_are_those_counted_by_hand():
    values = [0.9, 0.1, 0.5, 0.3, 0.7, 0.2, 0.8, 0.4, 0.6, 0.0]
    # ⌊0.1 · 10⌋ = 1, ⌊0.29 · 10⌋ = 2, ⌊0.5 · 10⌋ = 5, ⌊0.99 · 10⌋ = 9.
    assert quantile_values(values, [0.1, 0.29, 0.5, 0.99]) == [0.1, 0.2, 0.5, 0.9]
    hundred = list(range(100))
    # 0.29 · 100 is 28.999… in binary.
    assert quantile_values(hundred, [0.29]) == [29.0]


def test_universal_points_of_four_flows():
    unsure = numpy.array([0.1, 0.4, 0.2, 0.3])
    points = universal_points(unsure, numpy.array([0, 1, 0, 1]), 2)
    assert [point.thresholds for point in points] == [(t, t) for t in (0.4, 0.3, 0.2, 0.1)]
    assert [point.assigned for point in points] == [0, 0.25, 0.5, 0.75]


def test_per_class_points_take_the_steepest_class_first():
    # Class 0: its two most uncertain are wrong. Class 1: only its least uncertain is wrong.
    unsure = numpy.array([0.9, 0.8, 0.1, 0.6, 0.5, 0.4])
    predicted = numpy.array([0, 0, 0, 1, 1, 1])
    is_correct = numpy.array([False, False, True, True, True, False])
    points = per_class_points(unsure, predicted, is_correct, 2)
    # (0.9, 0.6) assigns nothing; class 0 down twice with slope 1; then class 1 with slope 0.
    wanted = [(0.9, 0.6), (0.8, 0.6), (0.1, 0.6), (0.1, 0.5), (0.1, 0.4)]
    assert [point.thresholds for point in points] == wanted
    assert [point.assigned * 6 for point in points] == pytest.approx([0, 1, 2, 3, 4])


@pytest.mark.parametrize("seed", range(40))
def test_algorithm_1_is_its_direct_reading(seed):
    unsure, predicted, _, classes = random_case(seed)
    assert quantile_values(unsure) == naive_algorithm_1(unsure.tolist())
    points = universal_points(unsure, predicted, classes)
    wanted = sorted({max(unsure.tolist()), *naive_algorithm_1(unsure.tolist())}, reverse=True)
    assert [point.thresholds[0] for point in points] == wanted
    assert all(point.is_universal for point in points)


@pytest.mark.parametrize("seed", range(40))
def test_algorithm_2_is_its_direct_reading(seed):
    unsure, predicted, is_correct, classes = random_case(seed)
    points = per_class_points(unsure, predicted, is_correct, classes)
    naive = naive_algorithm_2(unsure.tolist(), predicted.tolist(), is_correct.tolist(), classes)
    assert [(list(point.thresholds), point.assigned) for point in points] == naive


@pytest.mark.parametrize("seed", range(40))
def test_looking_ahead_takes_as_many_steps_as_are_steepest(seed):
    unsure, predicted, is_correct, classes = random_case(seed)
    found = {}
    for label in range(classes):
        steps = naive_slopes(unsure.tolist(), predicted.tolist(), is_correct.tolist(), label)
        rest, long = list(steps[1]) if steps else [], []
        while rest:
            sizes = [sum(size for _, _, size in rest[: n + 1]) for n in range(len(rest))]
            wrong = [sum(s * size for _, s, size in rest[: n + 1]) for n in range(len(rest))]
            slopes = [w / size for w, size in zip(wrong, sizes, strict=True)]
            best = max(range(len(rest)), key=lambda n: (slopes[n], n))
            long.append((rest[best][0], slopes[best], sizes[best]))
            rest = rest[best + 1 :]
        found[label] = long
    limits = [max(unsure[predicted == c], default=max(unsure)) for c in range(classes)]
    wanted, assigned = [(tuple(limits), 0.0)], 0
    while any(found.values()):
        label = max((c for c in found if found[c]), key=lambda c: (found[c][0][1], -c))
        limits[label], _, size = found[label].pop(0)
        assigned += size
        wanted.append((tuple(limits), assigned / len(unsure)))
    points = per_class_points(unsure, predicted, is_correct, classes, looks_ahead=True)
    assert [(point.thresholds, point.assigned) for point in points] == wanted


@pytest.mark.parametrize("algorithm", (*thresholds.ALGORITHMS, thresholds.PER_CLASS_AHEAD))
@pytest.mark.parametrize("seed", range(10))
def test_what_is_assigned_grows_and_is_what_points_say(algorithm, seed):
    unsure, predicted, is_correct, classes = random_case(seed)
    points = thresholds.points_of(algorithm, unsure, predicted, is_correct, classes)
    before = numpy.zeros(len(unsure), dtype=bool)
    for point in points:
        mask = assigned_by(point, unsure, predicted)
        assert mask.mean() == pytest.approx(point.assigned)
        assert not (before & ~mask).any()
        before = mask


def test_no_flows_give_no_points():
    nothing = numpy.zeros(0)
    for algorithm in thresholds.ALGORITHMS:
        assert thresholds.points_of(algorithm, nothing, nothing.astype(int), nothing, 3) == []
    with pytest.raises(OptionError, match="universal or per-class"):
        thresholds.points_of("magic", nothing, nothing, nothing, 2)


def test_curves_lie_between_random_and_oracle():
    dice = numpy.random.default_rng(5)
    truth = dice.integers(0, 4, 3000)
    unsure = dice.random(3000)
    is_wrong = dice.random(3000) < unsure * 0.6
    first = numpy.where(is_wrong, (truth + 1) % 4, truth)
    second = numpy.where(dice.random(3000) < 0.95, truth, (truth + 2) % 4)
    pair = Assignment(truth, first, second, 4)
    oracle, random = pair.oracle(), pair.random()
    for algorithm in thresholds.ALGORITHMS:
        points = thresholds.points_of(algorithm, unsure, first, pair.is_correct, 4)
        curve = pair.of_points(algorithm, points, unsure)
        assert (numpy.diff(curve.assigned) >= 0).all()
        assert curve.assigned[[0, -1]].tolist() == [0, 1]
        assert curve.caught[[0, -1]].tolist() == [0, 1]
        assert normalized_area(random, oracle) < normalized_area(curve, oracle) < 1
    # The oracle has caught all errors once it has assigned as many flows as are wrong.
    wrong = (~pair.is_correct).mean()
    assert oracle.caught[numpy.searchsorted(oracle.assigned, wrong)] == pytest.approx(1)
    # Of flows in random order as many errors are caught as flows are assigned.
    assert numpy.abs(random.caught - random.assigned).max() < 0.03
    assert normalized_area(oracle, oracle) == 1


def probabilities(predicted, dice, classes):
    """Of each row: most for what is predicted, how much is drawn."""
    scores = numpy.full((len(predicted), classes), 0.0)
    sure = 0.4 + 0.6 * dice.random(len(predicted))
    scores += ((1 - sure) / (classes - 1))[:, None]
    scores[numpy.arange(len(predicted)), predicted] = sure
    return scores


def test_a_curve_of_carried_thresholds_is_that_of_a_direct_reading():
    dice = numpy.random.default_rng(3)
    truth = dice.integers(0, 3, 400)
    first = numpy.where(dice.random(400) < 0.6, truth, dice.integers(0, 3, 400))
    second = numpy.where(dice.random(400) < 0.9, truth, dice.integers(0, 3, 400))
    scores = probabilities(first, dice, 3), probabilities(second, dice, 3)
    halves = numpy.arange(200), numpy.arange(200, 400)
    groups = [
        curves.Fold(mine, truth[rest], scores[0][rest]) for mine, rest in (halves, halves[::-1])
    ]
    pair = curves.curves_of(("a", "b"), truth, scores, 3, groups)
    assert [way.name for way in pair.ways][1] == "least-confidence, per-class"
    unsure = uncertainty(scores[0], LEAST_CONFIDENCE).round(10)
    found = []
    for step in range(101):
        goes_on = numpy.zeros(400, dtype=bool)
        for mine, rest in (halves, halves[::-1]):
            naive = naive_algorithm_2(
                unsure[rest].tolist(),
                first[rest].tolist(),
                (first == truth)[rest].tolist(),
                3,
            )
            limits, _ = [one for one in naive if one[1] <= step / 100 + 1e-9][-1]
            goes_on[mine] = unsure[mine] > numpy.array(limits)[first[mine]]
        if step == 0:
            goes_on[:] = False
        counts = confusion(truth, numpy.where(goes_on, second, first), 3)
        found.append((goes_on.mean(), macro_f1(counts), weighted_f1(counts)))
    way = pair.ways[1]
    # Before the first point nothing goes on, behind the last everything.
    inner = numpy.stack([way.assigned, way.f1, way.weighted], axis=1)[1:-1]
    assert inner == pytest.approx(numpy.array(found))
    assert curves.at(way, 1, way.caught) == 1 and curves.at(way, 0, way.caught) == 0


def test_nothing_to_gain_is_no_number():
    truth = numpy.array([0, 1, 0, 1])
    pair = Assignment(truth, truth, truth, 2)
    assert numpy.isnan(normalized_area(pair.random(), pair.oracle()))
