"""What thresholds promise is kept by flows that had no part in setting them."""

import numpy
import pytest
from wirelens.classify.operate import (
    Aim,
    Operation,
    StageScores,
    decide,
    operate,
    rules_of,
    settled,
)
from wirelens.classify.promise import Promise, parted
from wirelens.classify.thresholds import assigned_by, uncertainty
from wirelens.classify.worth import stages_worth
from wirelens.errors import OptionError
from wirelens.learn import metrics

CLASSES = 12


def flows_of(seed, families=60, each=12, skill=(1.0, 3.0)):
    """Families of flows: which classes a family has, and how hard they are there, is luck."""
    dice = numpy.random.default_rng(seed)
    family = numpy.repeat(numpy.arange(families), each)
    truth = dice.integers(0, CLASSES, (families, 2))[family, dice.integers(0, 2, len(family))]
    luck = dice.normal(0, 1.5, families)[family]
    # Few classes' errors can be mended by the second model; which these are is luck, too.
    stages = []
    for name, own in zip("ab", skill, strict=True):
        logits = dice.normal(size=(len(truth), CLASSES))
        logits[numpy.arange(len(truth)), truth] += own + luck
        scores = numpy.exp(2 * logits)
        stages.append(StageScores(name, scores / scores.sum(axis=1, keepdims=True), 1, 0))
    return truth, family, stages


def f1(truth, said):
    return metrics.macro_f1(metrics.confusion(truth, said, CLASSES))


def test_every_row_goes_on_by_thresholds_of_other_families():
    truth, family, (first, second) = flows_of(1)
    pairs = parted(truth, family)
    assert sorted(numpy.concatenate([rows for rows, _ in pairs])) == list(range(len(truth)))
    for rows, others in pairs:
        assert not set(family[rows]) & set(family[others])
        assert len(rows) + len(others) == len(truth)
    for rule in rules_of(truth, first, second, CLASSES, families=family):
        point = rule.points[len(rule.points) // 3]
        said = rule.goes_on(point)
        for rows, others in pairs:
            # The same, of these rows alone: what others give does not know them.
            alone = rules_of(
                truth[others],
                StageScores("a", first.scores[others], 1, 0),
                StageScores("b", second.scores[others], 1, 0),
                CLASSES,
                (rule.measure,),
                (rule.algorithm,),
            )[0]
            nearest = min(alone.points, key=lambda one: abs(one.assigned - point.assigned))
            unsure = uncertainty(first.scores[rows], rule.measure).round(10)
            wanted = assigned_by(nearest, unsure, first.predicted[rows])
            assert (said[rows] == wanted).all()


def test_without_families_a_point_is_what_it_is():
    truth, _, (first, second) = flows_of(1)
    rule = rules_of(truth, first, second, CLASSES)[0]
    for point in rule.points[::9]:
        assert (rule.goes_on(point) == assigned_by(point, rule.unsure, rule.predicted)).all()
    assert parted(truth, numpy.zeros(len(truth))) == []


def test_a_promise_is_the_quantile_of_draws_of_families():
    truth, family, (first, second) = flows_of(2, families=9)
    one, other = first.predicted, second.predicted
    found = Promise(truth, other, CLASSES, family, 0.9).gap(one)
    dice = numpy.random.default_rng(1)
    gaps = []
    for counts in dice.multinomial(9, numpy.full(9, 1 / 9), size=200):
        rows = numpy.concatenate(
            [numpy.flatnonzero(family == f) for f in range(9) for _ in range(counts[f])]
        )
        gaps.append(f1(truth[rows], one[rows]) - f1(truth[rows], other[rows]))
    assert found == pytest.approx(numpy.quantile(gaps, 0.1), abs=1e-12)
    assert found < f1(truth, one) - f1(truth, other)
    plain = Promise(truth, other, CLASSES)
    assert plain.gap(one) == pytest.approx(f1(truth, one) - f1(truth, other))
    assert Promise(truth, one, CLASSES, family, 0.9).gap(one) == 0


def test_the_margin_holds_for_families_that_chose_nothing():
    """Over many sets of families, the rule keeps its margin more often than points that were
    chosen and measured on the same flows, and hands on more for it."""
    lost = {True: [], False: []}
    portions = {True: [], False: []}
    for seed in range(12):
        truth, family, (first, second) = flows_of(seed)
        half = family < 30
        for is_sure in (True, False):
            mine = [StageScores(s.name, s.scores[half], 1, 0) for s in (first, second)]
            families = family[half] if is_sure else None
            aim = Aim(f1_margin=0.02)
            rules = rules_of(truth[half], *mine, CLASSES, aim=aim, families=families)[:1]
            promise = Promise(truth[half], mine[1].predicted, CLASSES, families, aim.sure)
            found = operate(truth[half], mine, rules, promise, aim, CLASSES)
            written = settled(found.points[0], rules[0].unsure, rules[0].predicted)
            others = [stage.scores[~half] for stage in (first, second)]
            said = decide(others, [rules[0].measure], [written])
            lost[is_sure].append(f1(truth[~half], second.predicted[~half])
                                 - f1(truth[~half], said.labels))  # fmt: skip
            portions[is_sure].append((said.stages == 1).mean())
            assert ("samples of families" in found.why) == is_sure
    assert numpy.mean(lost[True]) <= 0.02
    assert numpy.mean(lost[True]) < numpy.mean(lost[False])
    assert (numpy.array(lost[True]) > 0.02).sum() < (numpy.array(lost[False]) > 0.02).sum()
    assert numpy.mean(portions[False]) < numpy.mean(portions[True]) < 0.9


def test_a_second_stage_that_hands_on_much_is_a_detour():
    names = [("fastest", "port-table/1"), ("fast", "decision-tree/1"), ("slow", "lightgbm/10")]
    # What each stage decides, by the stages there are.
    decided = {(0, 1, 2): [0.6, 0.28, 0.12], (0, 2): [0.7, 0.3], (1, 2): [0.82, 0.18]}

    def operation(some):
        parts = decided[tuple(some)]
        reach = [1 - sum(parts[:index]) for index in range(len(parts))]
        handed_on = [after / before for before, after in zip(reach, reach[1:], strict=False)]
        return Operation([], [], 0.6, parts, handed_on, 1, 1, "")

    kept, found, reasons = stages_worth(names, operation)
    assert (kept, found.decided[-1]) == ([1, 2], 0.18)
    assert reasons == [
        "fastest omitted: decision-tree/1 passes on 30% of its flows; without port-table/1 18.0% "
        "of all go to the last stage"
    ]
    decided[0, 2] = [0.9, 0.1]
    assert stages_worth(names, operation)[0] == [0, 2]
    decided[0, 1, 2] = [0.6, 0.32, 0.08]
    assert stages_worth(names, operation)[0] == [0, 1, 2]
    # What was asked for may need a stage: a rate that only the quickest reaches, or all of them.
    decided[0, 1, 2] = [0.6, 0.28, 0.12]
    refused = {(1, 2)}

    def within_rate(some):
        if tuple(some) in refused:
            raise OptionError("not possible with these models")
        return operation(some)

    assert stages_worth(names, within_rate)[0] == [0, 2]
    refused.add((0, 2))
    assert stages_worth(names, within_rate)[0] == [0, 1, 2]
    # What decides next to nothing goes first.
    decided[0, 1, 2] = [0.02, 0.6, 0.38]
    assert stages_worth(names, operation)[0] == [1, 2]
