"""No family of captures is on two sides, and classes have their shares."""

import numpy
import pytest
from wirelens import OptionError
from wirelens.classify import strangers
from wirelens.classify.copies import joined_families
from wirelens.classify.split import (
    TEST,
    TRAINING,
    VALIDATION,
    absent_classes,
    folds,
    parse_shares,
    split,
)
from wirelens.learn import metrics


def made_up(seed, families=120, classes=6):
    """Labels and families: some classes live in few families, and sizes differ a lot."""
    dice = numpy.random.default_rng(seed)
    labels, of = [], []
    for family in range(families):
        mine = dice.choice(classes, size=dice.integers(1, 4), p=numpy.arange(1, classes + 1) / 21)
        size = int(dice.pareto(1.2) * 5) + 1
        labels += dice.choice(mine, size=min(size, 200)).tolist()
        of += [f"family-{family}"] * min(size, 200)
    return numpy.array(labels), numpy.array(of)


@pytest.mark.parametrize("seed", range(5))
def test_a_family_is_on_one_side_and_classes_have_their_shares(seed):
    labels, families = made_up(seed)
    parts = split(labels, families, seed=seed)
    for family in set(families):
        assert len(set(parts.sides[families == family])) == 1
    for side, share in ((TRAINING, 0.5), (VALIDATION, 0.1), (TEST, 0.4)):
        assert not absent_classes(labels, parts.rows(side), [str(c) for c in range(6)])
        assert (parts.sides == side).mean() == pytest.approx(share, abs=0.08)
    again = split(labels, families, seed=seed)
    assert (again.sides == parts.sides).all()


def test_a_side_that_is_not_wanted_stays_empty():
    labels, families = made_up(9)
    parts = split(labels, families, (0.7, 0.0, 0.3))
    assert not (parts.sides == VALIDATION).any()


def test_too_few_families_are_refused():
    with pytest.raises(OptionError, match="2 families of captures; wanted: at least 3"):
        split(numpy.array([0, 1, 0]), numpy.array(["a", "b", "b"]))


@pytest.mark.parametrize("count", [2, 5, 10])
def test_folds_hold_each_flow_once_and_no_family_twice(count):
    labels, families = made_up(3)
    held_out = folds(labels, families, count)
    assert sorted(numpy.concatenate(held_out).tolist()) == list(range(len(labels)))
    seen = [set(families[rows]) for rows in held_out]
    assert all(seen) and sum(map(len, seen)) == len(set(families))
    with pytest.raises(OptionError, match="500 folds of 120 families"):
        folds(labels, families, 500)


def test_as_many_folds_as_families_leave_one_out():
    held_out = folds(numpy.array([0, 0, 0, 1]), numpy.array(["a", "b", "c", "c"]), 3)
    assert sorted(map(len, held_out)) == [1, 1, 2]


def test_families_that_meet_in_a_capture_are_one():
    families = ["b", "a", "c", "d", "c", "e"]
    captures = ["1", "1", "2", "3", "3", "4"]
    assert joined_families(families, captures) == ["a", "a", "c", "c", "c", "e"]
    # A copy of a capture is the same capture.
    assert joined_families(["x.pcap", "copy.pcap", "y.pcap"], ["1", "1", "2"]) == [
        "copy.pcap",
        "copy.pcap",
        "y.pcap",
    ]


def test_shares_are_parts_of_their_sum():
    assert parse_shares("50/10/40") == (0.5, 0.1, 0.4)
    assert parse_shares("3/0/1") == (0.75, 0.0, 0.25)
    for wrong in ("50/50", "a/b/c", "0/50/50", "-1/1/1", "inf/1/1"):
        with pytest.raises(OptionError, match="such as 50/10/40"):
            parse_shares(wrong)


def test_f1_is_counted_by_hand():
    truth = numpy.array([0, 0, 0, 1, 1, 2])
    told = numpy.array([0, 0, 1, 1, 0, 3])
    counts = metrics.confusion(truth, told, 4)
    # Class 0: 2 right of 3 true, 3 told; class 1: 1 of 2 and 2; class 2: 0; class 3 is not there.
    assert metrics.class_f1(counts).tolist() == [4 / 6, 2 / 4, 0, 0]
    assert metrics.macro_f1(counts) == pytest.approx((4 / 6 + 2 / 4 + 0) / 3)
    assert metrics.weighted_f1(counts) == pytest.approx((3 * 4 / 6 + 2 * 2 / 4) / 6)
    assert metrics.accuracy(counts) == 0.5
    result = metrics.class_results(counts, ["a", "b", "c", "d"])[1]
    assert (result.flows, result.precision, result.recall, result.f1) == (2, 0.5, 0.5, 0.5)


def test_an_interval_holds_its_value_and_knows_a_clear_difference():
    dice = numpy.random.default_rng(2)
    truth = dice.integers(0, 3, 900)
    families = numpy.repeat(numpy.arange(60), 15)
    good = numpy.where(dice.random(900) < 0.9, truth, (truth + 1) % 3)
    poor = numpy.where(dice.random(900) < 0.5, truth, (truth + 1) % 3)
    found = metrics.family_interval(truth, good, families, 3, draws=500)
    assert found.low < found.value < found.high
    assert found.value == metrics.macro_f1(metrics.confusion(truth, good, 3))
    clear = metrics.family_interval(truth, good, families, 3, beside=poor, draws=500)
    assert clear.low > 0.2
    none = metrics.family_interval(truth, good, families, 3, beside=good, draws=500)
    assert none.low == none.value == none.high == 0


def test_an_interval_is_of_the_families_that_have_such_flows():
    """Draws of families without them say nothing: they are no share of 0."""
    families = numpy.repeat(numpy.arange(10), 5)
    is_foreign = families == 3
    found = strangers._interval(families, numpy.ones(50, dtype=bool), is_foreign)
    assert (found.low, found.value, found.high) == (1.0, 1.0, 1.0)
    assert strangers._interval(families, is_foreign, numpy.zeros(50, dtype=bool)) is None
