"""Trees that begin with a count: the prior by a direct reading, and what is served."""

import numpy
import pytest
from wirelens import _wirelens
from wirelens.classify.boosted_counts import BoostedCounts, CountPrior
from wirelens.classify.families import Rows, Training
from wirelens.classify.windows import WindowFeatures
from wirelens.trees import load, score

BOUNDS = [3.0, 6.0, 9.0, 12.0]
CLASSES = ["0-3", "3-6", "6-9", "9-12", "12+"]
NUMBERS = ["main_rtp_markers", "main_packets"]


def rows_of(seed, count=900):
    """Counts that are off by little, and now and then by as much as packets tell."""
    dice = numpy.random.default_rng(seed)
    values = dice.uniform(0, 15, count)
    is_late = dice.random(count) < 0.3
    counts = numpy.maximum(numpy.round(values + dice.normal(0, 0.5, count) - 3 * is_late), 0)
    packets = 10 * counts + 200 * is_late + dice.integers(0, 9, count)
    labels = numpy.searchsorted(BOUNDS, values, side="right")
    matrix = numpy.stack([counts, packets], axis=1).astype(numpy.float32)
    rows = Rows(matrix, NUMBERS, labels, numpy.ones(count), numpy.arange(count) // 90)
    return rows, values


def test_the_prior_is_how_far_off_the_count_was_where_it_was_about_as_great():
    rows, values = rows_of(1)
    counts = rows.values[:, 0].astype(float)
    prior = CountPrior.fit(NUMBERS[0], counts, values, BOUNDS, width=2.0, floor=0.01)
    assert len(prior.frequencies) == counts.max() + 1
    for count in (0, 4, 11):
        wanted, total = [0.0] * 5, 0.0
        for own, value in zip(counts.tolist(), values.tolist(), strict=True):
            weight = numpy.exp(-(((own - count) / 2) ** 2) / 2) + 1e-6
            here = max(count + value - own, 0.0)
            wanted[sum(here >= bound for bound in BOUNDS)] += weight
            total += weight
        said = [share / total * (1 - 5 * 0.01) + 0.01 for share in wanted]
        assert prior.frequencies[count] == pytest.approx(said)
    # A count beyond what was seen is the greatest, one that is absent the least.
    few = Rows(numpy.array([[99, 0], [-1, 0]]), NUMBERS, numpy.zeros(2), numpy.ones(2))
    assert numpy.exp(prior.scores(few)) == pytest.approx(prior.frequencies[[-1, 0]])


@pytest.mark.train
def test_what_is_served_says_the_same_and_beats_the_count(tmp_path):
    rows, values = rows_of(2)
    kind, training = BoostedCounts(NUMBERS[0], BOUNDS), Training(CLASSES)
    model = kind.fit(rows, values, training)
    others, _ = rows_of(3)
    own = kind.predict(model, others)
    features = WindowFeatures(packets=1, numbers=NUMBERS).header_bits()
    trees = kind.trees(model, NUMBERS, CLASSES, features)
    # No header bit is read: records of nothing.
    size = len(_wirelens.header_columns(trees.head["blocks"], 0)) // 8
    records = bytes((size + -(-size // 8)) * len(own))
    numbers = others.values.astype(numpy.float64)
    trees.save(tmp_path / "slow.trees.jsonl")
    forest = load(tmp_path / "slow.trees.jsonl")
    served = numpy.asarray(score(forest, records, numbers=numbers))
    assert abs(served - own).max() <= 1e-5
    counted = numpy.searchsorted(BOUNDS, others.values[:, 0], side="right")
    right = (own.argmax(axis=1) == others.labels).mean()
    assert right > (counted == others.labels).mean() + 0.1
    # The same rows and seed give the same model.
    again = kind.predict(kind.fit(rows, values, training), others)
    assert (again == own).all()
