"""Confidence that means what it says, and the threshold below which a flow is `unknown`."""

from pathlib import Path

import numpy
import pytest
from wirelens.classify import calibration
from wirelens.classify.dataset import Source, renamed, together
from wirelens.classify.labels import FlowLabel, LabelTable
from wirelens.learn.sealing import is_sealed


def drawn(count: int, seed: int):
    """Answers of a model that is too sure: of those it gives p, only p² are right."""
    dice = numpy.random.default_rng(seed)
    raw = dice.uniform(0.2, 1.0, count)
    return raw, dice.uniform(size=count) < raw**2


def test_calibrated_answers_are_right_as_often_as_they_say():
    raw, is_right = drawn(4000, 1)
    line = calibration.settled(calibration.fit(raw, is_right))
    assert all(a[0] < b[0] and a[1] <= b[1] for a, b in zip(line, line[1:], strict=False))
    fresh, is_right = drawn(20_000, 2)
    before = calibration.expected_error(fresh, is_right)
    after = calibration.expected_error(calibration.apply(line, fresh), is_right)
    assert before > 0.15 > 0.03 > after
    for one in calibration.reliability(calibration.apply(line, fresh), is_right):
        assert abs(one.right - one.confidence) < 0.05, one


def test_few_flows_make_no_certainty_and_equal_answers_are_one():
    assert calibration.fit(numpy.full(10, 0.9), numpy.ones(10)) == []
    ((raw, share),) = calibration.fit(
        numpy.full(60, 0.9), numpy.r_[numpy.ones(40), numpy.zeros(20)]
    )
    assert raw == pytest.approx(0.9) and share == pytest.approx(40 / 60)
    # Without a point nothing is changed; beyond the ends it is level.
    assert calibration.apply([], numpy.array([0.3])).tolist() == [0.3]
    line = [(0.2, 0.1), (0.6, 0.5)]
    found = calibration.apply(line, numpy.array([0.0, 0.2, 0.4, 0.6, 1.0]))
    assert found.tolist() == pytest.approx([0.1, 0.1, 0.3, 0.5, 0.5])


def test_the_threshold_keeps_foreign_flows_without_a_name():
    dice = numpy.random.default_rng(3)
    own, foreign = dice.uniform(0.6, 1.0, 900), dice.uniform(0.3, 0.95, 100)
    confidences = numpy.r_[own, foreign]
    is_foreign = numpy.r_[numpy.zeros(900, bool), numpy.ones(100, bool)]
    is_right = numpy.r_[dice.uniform(size=900) < 0.97, numpy.zeros(100, bool)]
    named, weights = numpy.ones(1000, bool), numpy.ones(1000)
    choice = calibration.choose_below(
        confidences, is_right, is_foreign, named, weights, foreign_max=0.1, right_min=0.9
    )
    assert (foreign >= choice.below).mean() <= 0.1 < (foreign >= choice.below - 0.02).mean()
    assert (own >= choice.below).mean() > 0.2
    # What cannot be kept is said, and names are then still right more often than not.
    none = calibration.choose_below(
        confidences, ~is_right, is_foreign, named, weights, foreign_max=0.1, right_min=0.9
    )
    assert none.below == 0.5 and "none satisfies both" in none.why


def test_a_threshold_that_names_no_flow_keeps_no_promise():
    dice = numpy.random.default_rng(7)
    confidences, named = dice.uniform(0.5, 0.7, 1000), numpy.ones(1000, bool)
    is_right, is_foreign = dice.uniform(size=1000) < 0.7, numpy.zeros(1000, bool)
    choice = calibration.choose_below(
        confidences, is_right, is_foreign, named, numpy.ones(1000), foreign_max=0.1, right_min=0.9
    )
    assert choice.below == 0.5 and "none satisfies both" in choice.why


def test_the_best_guess_is_never_the_class_of_foreign_flows():
    scores = numpy.array([[0.1, 0.3, 0.6], [0.5, 0.3, 0.2]])
    labels, guesses, raw = calibration.best_guess(scores, ["dns", "web", "unknown"])
    assert labels.tolist() == [2, 0]
    assert guesses.tolist() == [1, 0]
    assert raw.tolist() == [0.3, 0.5]


def test_families_are_sealed_by_their_names_alone():

    names = [f"family {number}" for number in range(2000)]
    sealed = {name for name in names if is_sealed(name, 0.2)}
    assert 340 < len(sealed) < 460
    assert sealed == {name for name in reversed(names) if is_sealed(name, 0.2)}
    assert {name for name in names if is_sealed(name, 0.1)} < sealed


def test_labels_are_called_as_a_table_says():

    def source(*labels: str) -> Source:
        rows = [FlowLabel(line, None, None, label) for line, label in enumerate(labels, 2)]
        return Source([Path("a.pcap")], LabelTable("t", rows), ["a"])

    both = together(source("TLS.Google", "DNS", "Odd.TLS"), source("dash", "TLS.SMTPS"))
    assert len({row.line for row in both.labels.rows}) == 5
    table = {"TLS": "tls", "TLS.SMTPS": "smtp", "DNS": "dns", "dash": "-"}
    named = [row.label for row in renamed(both, table).labels.rows]
    assert named == ["tls", "dns", "unknown", "smtp"]
