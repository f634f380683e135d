"""Models are placed by the paper's rules, and the operating point is what was asked for."""

import numpy
import pytest
from wirelens import OptionError
from wirelens.classify.operate import (
    Aim,
    StageScores,
    operate,
    rules_of,
    settled,
    smallest_portion,
)
from wirelens.classify.place import Candidate, Margins, pareto_front, place
from wirelens.classify.promise import Promise
from wirelens.classify.thresholds import assigned_by
from wirelens.learn import metrics


def candidate(family, packets, f1, alone_us, waiting_us=None):
    waiting_us = (packets - 1) * 1e4 if waiting_us is None else waiting_us
    return Candidate(family, packets, f1, f1, alone_us, alone_us / 2, waiting_us)


POOL = [
    candidate("port-table", 1, 0.30, 0.05),
    candidate("decision-tree", 1, 0.60, 0.1),
    candidate("random-forest", 1, 0.66, 8.0),
    candidate("lightgbm", 1, 0.70, 30.0),
    candidate("decision-tree", 5, 0.65, 0.1),
    candidate("lightgbm", 5, 0.795, 30.0),
    candidate("lightgbm", 10, 0.80, 30.0),
    candidate("xgboost", 10, 0.78, 20.0),
]


def needed(fast, slow):
    return 1 - fast.macro_f1


def names(placement):
    return [(stage, model.name) for stage, model in placement.stages]


def test_the_front_holds_what_nothing_beats_in_both():
    assert [c.name for c in pareto_front(POOL)] == [
        "port-table/1",
        "decision-tree/1",
        "random-forest/1",
        "lightgbm/1",
        "lightgbm/5",
        "lightgbm/10",
    ]


def test_three_stages_where_each_is_worth_it():
    found = place(POOL, Margins(), needed)
    # 0.795 is within 0.01 of 0.80, so five packets are enough; 0.30 is not acceptable.
    assert names(found) == [
        ("fastest", "decision-tree/1"),
        ("fast", "lightgbm/1"),
        ("slow", "lightgbm/5"),
    ]
    assert all(any(r.startswith(s) for r in found.reasons) for s in ("fastest", "fast:", "slow"))


def test_the_depth_at_which_f1_stops_improving_is_a_margin():
    found = place(POOL, Margins(depth_gain=0.001), needed)
    assert found.get("slow").name == "lightgbm/10"


def test_the_slow_stage_is_omitted_where_packets_add_nothing():
    flat = [c for c in POOL if c.packets == 1] + [candidate("lightgbm", 5, 0.703, 30.0)]
    found = place(flat, Margins(), needed)
    assert names(found) == [("fastest", "decision-tree/1"), ("fast", "lightgbm/1")]
    assert any("slow omitted" in reason for reason in found.reasons)


def test_the_fastest_stage_is_omitted_where_it_relieves_nothing():
    close = [candidate("decision-tree", 1, 0.60, 9.0), candidate("random-forest", 1, 0.70, 10.0)]
    found = place([*close, candidate("lightgbm", 5, 0.8, 30.0)], Margins(), needed)
    assert names(found) == [("fast", "random-forest/1"), ("slow", "lightgbm/5")]
    alone = place([candidate("decision-tree", 1, 0.60, 0.1)], Margins(), needed)
    assert names(alone) == [("fast", "decision-tree/1")]
    with pytest.raises(OptionError, match="at least one family"):
        place([], Margins(), needed)


def stages_of(seed, count=1500, classes=5):
    """A poor, a better and a good model, each unsure where it is wrong."""
    dice = numpy.random.default_rng(seed)
    truth = dice.integers(0, classes, count)
    stages = []
    for name, skill, cost, wait in (("a", 1.0, 0.1, 0), ("b", 2.0, 30, 0), ("c", 4.0, 30, 5e4)):
        logits = dice.normal(size=(count, classes))
        logits[numpy.arange(count), truth] += skill
        scores = numpy.exp(2 * logits)
        scores /= scores.sum(axis=1, keepdims=True)
        stages.append(StageScores(name, scores, cost, wait))
    return truth, stages


def alone(truth, stage, classes=5):
    return metrics.macro_f1(metrics.confusion(truth, stage.predicted, classes))


def choose(seed, aim, count=3):
    truth, stages = stages_of(seed)
    stages = stages[-count:]
    rules = [rules_of(truth, a, b, 5)[0] for a, b in zip(stages, stages[1:], strict=False)]
    best = max(stages, key=lambda stage: alone(truth, stage))
    found = operate(truth, stages, rules, Promise(truth, best.predicted, 5), aim, 5)
    return found, alone(truth, best), truth, stages


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("count", [2, 3])
def test_by_default_the_cascade_is_within_the_margin_of_the_best_model(seed, count):
    found, best, _, _ = choose(seed, Aim(), count)
    assert found.macro_f1 >= best - 0.01
    assert sum(found.decided) == pytest.approx(1)
    # Not everything is handed on, else there would be no need of a cascade.
    assert found.decided[-1] < 0.9
    assert "the fewest flows passed on" in found.why


def test_a_looser_margin_hands_on_fewer_flows():
    tight, loose = choose(1, Aim(f1_margin=0.005))[0], choose(1, Aim(f1_margin=0.05))[0]
    assert loose.decided[-1] < tight.decided[-1]


def test_aims_are_kept():
    assert choose(1, Aim(latency_us=5_000))[0].latency_us <= 5_000
    assert choose(1, Aim(service_rate=100_000))[0].service_us <= 10
    assert choose(1, Aim(assigned=0.1))[0].decided[-1] <= 0.1
    assert choose(1, Aim(f1=0.8))[0].macro_f1 >= 0.8


def test_what_cannot_be_reached_is_an_error():
    with pytest.raises(OptionError, match="0.999 or more: not possible"):
        choose(1, Aim(f1=0.999))
    with pytest.raises(OptionError, match="not possible with these models, 0.1 is the minimum"):
        choose(1, Aim(service_rate=1e9))
    with pytest.raises(OptionError, match="one of --latency"):
        Aim(f1=0.5, assigned=0.1)
    with pytest.raises(OptionError, match="a positive number"):
        Aim(latency_us=0)
    with pytest.raises(OptionError, match="a fraction from 0 to less than 1"):
        Aim(sure=1.0)


def test_a_stage_alone_decides_everything():
    found, best, _, _ = choose(1, Aim(), 1)
    assert (found.decided, found.handed_on, found.macro_f1) == ([1.0], [], best)


def test_better_models_hand_on_less():
    truth, (poor, better, good) = stages_of(4)
    portions = []
    for first in (poor, better):
        rule = rules_of(truth, first, good, 5)[0]
        promise = Promise(truth, good.predicted, 5)
        portions.append(smallest_portion(rule, good.predicted, promise, 0.01))
    assert portions[1] < portions[0] < 1


@pytest.mark.parametrize("seed", range(5))
def test_thresholds_as_written_hand_on_the_same_flows(seed):
    truth, (first, second, _) = stages_of(seed)
    first = StageScores("a", numpy.round(first.scores, 2), 1, 0)
    for rule in rules_of(truth, first, second, 5):
        for point in rule.points[::7]:
            written = numpy.array(settled(point, rule.unsure, first.predicted))
            assert (written > numpy.array(point.thresholds)).all()
            goes_on = rule.unsure > written[first.predicted]
            assert (goes_on == assigned_by(point, rule.unsure, first.predicted)).all()
            if point.is_universal:
                assert len(set(written.tolist())) == 1
