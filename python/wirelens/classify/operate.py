"""Where a cascade works: which of the thresholds' points its stages have.

Points come from the validation set by Algorithm 1 or 2 (thresholds.py). Which of them is a
matter of what is wanted: a bound on latency, a service rate, a part of flows that may wait for
the slow stage, an F1. Unless told, the cascade is to be as good as the best single model but for
a margin, and as few flows as possible are handed on. Where families of captures are told, what a
point does is measured on flows whose families had no part in its thresholds, and the margin is
to hold for most draws of families (promise.py).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy

from wirelens.classify.promise import Promise, parted
from wirelens.classify.thresholds import (
    ALGORITHMS,
    UNCERTAINTIES,
    Assignment,
    Curve,
    Point,
    assigned_by,
    normalized_area,
    points_of,
    uncertainty,
)
from wirelens.errors import OptionError
from wirelens.learn.metrics import Array, confusion, macro_f1, macro_f1_of_many

# Uncertainties that differ by less are the same: trees give the same leaves again and again, and
# which way the last bit of a logarithm is rounded must decide nothing.
_DIGITS = 10
# Points of a stage that are tried, by themselves and in pairs with those of the next.
_POINTS_MAX = 60
# What a difference of two sums may be off by.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class StageScores:
    """A stage on the validation set, and what it costs."""

    name: str
    # Probabilities by row and class, as served.
    scores: Array
    # A row's part of a batch, and mean time until the stage has its packets.
    batch_us: float
    waiting_us: float

    @property
    def predicted(self) -> Array:
        """The class of each row: the first of the most probable."""
        return self.scores.argmax(axis=1)


@dataclass(frozen=True)
class Rule:
    """How a stage's thresholds are set: the measure, the algorithm, and the points it gives."""

    measure: str
    algorithm: str
    points: list[Point]
    # Of the validation set's rows: how unsure the stage is, and what it says.
    unsure: Array
    predicted: Array
    curve: Curve
    # Normalized area of F1, as in the paper's Table 5.
    area: float
    # Rows by fold of families, with the points that the other families give.
    held: Sequence[tuple[Array, list[Point]]] = ()

    def goes_on(self, point: Point) -> Array:
        """Which rows a point hands on, each by thresholds that its family had no part in.

        Of the points that the other families give it is the one that assigns as much. Without
        families it is the point itself.
        """
        if not self.held or point.assigned in (0.0, 1.0):
            return assigned_by(point, self.unsure, self.predicted)
        found = numpy.zeros(len(self.unsure), dtype=bool)
        for rows, points in self.held:
            nearest = min(points, key=lambda other: abs(other.assigned - point.assigned))
            found[rows] = assigned_by(nearest, self.unsure[rows], self.predicted[rows])
        return found


@dataclass(frozen=True)
class Aim:
    """What is wanted of the operating point; at most one of the first four."""

    latency_us: float | None = None
    service_rate: float | None = None
    assigned: float | None = None
    f1: float | None = None
    # Otherwise: at most this much below the best single model ...
    f1_margin: float = 0.01
    # ... in this part of draws of families; 0 asks only what is so of the flows at hand.
    sure: float = 0.9

    def __post_init__(self) -> None:
        named = [self.latency_us, self.service_rate, self.assigned, self.f1]
        given = [value for value in named if value is not None]
        if len(given) > 1:
            raise OptionError(
                "several aims; wanted: one of --latency, --service-rate, --assigned and --f1"
            )
        if any(not value > 0 or math.isinf(value) for value in given) or self.f1_margin < 0:
            raise OptionError("an aim of 0 or less; wanted: a positive number")
        if not 0 <= self.sure < 1:
            raise OptionError(f"sure {self.sure:g}; wanted: a fraction from 0 to less than 1")


@dataclass
class Operation:
    """The chosen point, and what it does on the validation set."""

    # For each stage but the last.
    rules: list[Rule]
    points: list[Point]
    macro_f1: float
    # Part of all flows that each stage decides.
    decided: list[float]
    # Of flows that reach a stage, the part it hands on; for each but the last.
    handed_on: list[float]
    service_us: float
    latency_us: float
    why: str
    # Normalized area of every rule that was tried, by stage.
    areas: list[dict[str, float]] = field(default_factory=list)


def rules_of(
    truth: Array,
    stage: StageScores,
    following: StageScores,
    class_count: int,
    measures: Sequence[str] = UNCERTAINTIES,
    algorithms: Sequence[str] = ALGORITHMS,
    aim: Aim | None = None,
    families: Array | None = None,
) -> list[Rule]:
    """Every way to set a stage's thresholds, the best first.

    The best has to assign the fewest flows to bring both stages within the aim's margin of the
    next one's F1, in hundredths of all flows; without an aim, and of equals, it has the greatest
    normalized area. Where nothing is to be gained all are as good, and the first measure and
    algorithm come first.
    """
    predicted, second = stage.predicted, following.predicted
    pair = Assignment(truth, predicted, second, class_count)
    oracle = pair.oracle()
    is_right = pair.is_correct
    parts = parted(truth, families)
    rules = []
    for measure in measures:
        unsure = uncertainty(stage.scores, measure).round(_DIGITS)
        for algorithm in algorithms:
            points = points_of(algorithm, unsure, predicted, is_right, class_count)
            curve = pair.of_points(f"{measure}, {algorithm}", points, unsure)
            area = normalized_area(curve, oracle)
            held = [
                (rows, points_of(algorithm, unsure[o], predicted[o], is_right[o], class_count))
                for rows, o in parts
            ]
            rules.append(Rule(measure, algorithm, points, unsure, predicted, curve, area, held))
    promise = None if aim is None else Promise(truth, second, class_count, families, aim.sure)

    def order(rule: Rule) -> tuple[float, float]:
        area = -rule.area if rule.area == rule.area else 0.0
        if promise is None or aim is None:
            return 0.0, area
        return round(smallest_portion(rule, second, promise, aim.f1_margin), 2), area

    return sorted(rules, key=order)


def smallest_portion(rule: Rule, second: Array, promise: Promise, margin: float) -> float:
    """The smallest assigned portion with which two models keep a promise; 1 where none does."""
    for point in _thinned(rule.points):
        told = numpy.where(rule.goes_on(point), second, rule.predicted)
        if promise.gap(told) >= -margin - _ROUNDING:
            return point.assigned
    return 1.0


def _thinned(points: list[Point]) -> list[Point]:
    """At most so many points, spread over portions."""
    if len(points) <= _POINTS_MAX:
        return points
    portions = numpy.array([point.assigned for point in points])
    wanted = numpy.linspace(portions[0], portions[-1], _POINTS_MAX)
    return [points[index] for index in numpy.unique(numpy.searchsorted(portions, wanted))]


def _with_all(points: list[Point], class_count: int) -> list[Point]:
    """These and, behind them, one that hands on everything.

    An algorithm ends where the next stage gains nothing more, but the stage after that may.
    """
    if points and points[-1].assigned >= 1:
        return points
    return [*points, Point((-1.0,) * class_count, 1.0)]


class _Grid:
    """All combinations of the stages' points with their F1 and costs."""

    def __init__(
        self, truth: Array, stages: list[StageScores], rules: list[Rule], class_count: int
    ) -> None:
        self.points = [_with_all(_thinned(rule.points), class_count) for rule in rules]
        shape = [len(points) for points in self.points]
        predicted = [stage.predicted for stage in stages]
        goes_on = [
            [rule.goes_on(point) for point in points]
            for rule, points in zip(rules, self.points, strict=True)
        ]
        self._predicted, self._goes_on = predicted, goes_on
        self.f1 = numpy.zeros(shape)
        # Of all flows, the part that reaches each stage after the first.
        self.reach = numpy.zeros([*shape, len(rules)])
        size = class_count * class_count
        offsets = numpy.arange(shape[-1])[:, None] * size + numpy.asarray(truth) * class_count
        # The last stage but one's points all at once, for each choice of those before.
        choices = numpy.stack(goes_on[-1])
        for place in numpy.ndindex(*shape[:-1]):
            reaches = numpy.ones(len(truth), dtype=bool)
            told = predicted[0]
            for index, choice in enumerate(place):
                reaches = reaches & goes_on[index][choice]
                told = numpy.where(reaches, predicted[index + 1], told)
                self.reach[place][:, index] = reaches.mean()
            reaches = choices & reaches
            self.reach[place][:, -1] = reaches.mean(axis=1)
            cells = offsets + numpy.where(reaches, predicted[-1], told)
            counts = numpy.bincount(cells.ravel(), minlength=shape[-1] * size)
            self.f1[place] = macro_f1_of_many(counts.reshape(-1, class_count, class_count))
        costs = numpy.array([stage.batch_us for stage in stages])
        waits = numpy.array([stage.waiting_us for stage in stages])
        self.service_us = costs[0] + self.reach @ costs[1:]
        # A flow that reaches a stage has waited for it once: of the last it reaches.
        self.latency_us = self.service_us + waits[0] + self.reach @ numpy.diff(waits)

    def gaps(self, promise: Promise, margin: float) -> Array:
        """By how much each combination is above the promise's model; far below where it is more
        than the margin below it on these flows already.
        """
        found = numpy.full(self.f1.shape, -numpy.inf)
        for place in numpy.argwhere(self.f1 >= promise.f1 - margin - _ROUNDING):
            said = self._predicted[0]
            reaches = numpy.ones(len(said), dtype=bool)
            for index, choice in enumerate(place):
                reaches = reaches & self._goes_on[index][choice]
                said = numpy.where(reaches, self._predicted[index + 1], said)
            found[tuple(place)] = promise.gap(said)
        return found

    def best(self, allowed: Array, order: Sequence[Array]) -> tuple[int, ...] | None:
        """Of what is allowed, that which is least by the first of `order`, then the next."""
        places = numpy.argwhere(allowed)
        if len(places) == 0:
            return None
        keys = [key[tuple(places.T)].round(9) for key in order]
        return tuple(places[numpy.lexsort(keys[::-1])[0]].tolist())


def operate(
    truth: Array,
    stages: list[StageScores],
    rules: list[Rule],
    best: Promise,
    aim: Aim,
    class_count: int,
) -> Operation:
    """The operating point. `rules` has one for each stage but the last; `best` is to be as good
    as the best single model on the validation set.
    """
    if not rules:
        alone = stages[0]
        value = macro_f1(confusion(truth, alone.predicted, class_count))
        latency_us = alone.waiting_us + alone.batch_us
        return Operation([], [], value, [1.0], [], alone.batch_us, latency_us, "a single stage")
    grid = _Grid(truth, stages, rules, class_count)
    place, why = _choose(grid, best, aim)
    reach = [1.0, *grid.reach[place].tolist(), 0.0]
    return Operation(
        rules=rules,
        points=[points[choice] for points, choice in zip(grid.points, place, strict=True)],
        macro_f1=float(grid.f1[place]),
        decided=[before - after for before, after in zip(reach, reach[1:], strict=False)],
        handed_on=[
            after / before if before else 0.0
            for before, after in zip(reach[:-2], reach[1:-1], strict=True)
        ],
        service_us=float(grid.service_us[place]),
        latency_us=float(grid.latency_us[place]),
        why=why,
    )


def _choose(grid: _Grid, best: Promise, aim: Aim) -> tuple[tuple[int, ...], str]:
    """Indices of points, and a sentence that tells why."""
    last = grid.reach[..., -1] if grid.reach.shape[-1] else numpy.zeros(grid.f1.shape)
    total = grid.reach.sum(axis=-1)
    for value, costs, what in (
        (aim.latency_us, grid.latency_us, "a mean latency of at most {:g} µs"),
        (
            None if aim.service_rate is None else 1e6 / aim.service_rate,
            grid.service_us,
            "at most {:g} µs of scoring a flow",
        ),
        (aim.assigned, last, "at most {:g} of flows to the last stage"),
    ):
        if value is None:
            continue
        place = grid.best(costs <= value, [-grid.f1, last, total])
        told = what.format(value)
        if place is None:
            raise OptionError(
                f"{told}: not possible with these models, {costs.min():.3g} is the minimum; "
                "lower the aim, or train cheaper families"
            )
        return place, f"the best macro-F1 with {told}"
    if aim.f1 is None:
        margin = aim.f1_margin
        wanted, gaps = best.f1 - margin, grid.gaps(best, margin)
        told = f"macro-F1 {wanted:.3f} or more, {margin:g} below the best single model"
        told += f" ({best.f1:.3f})"
        if best.is_drawn:
            told += f", in {best.sure:.0%} of random samples of families"
    else:
        wanted, gaps, margin = aim.f1, grid.f1 - aim.f1, 0.0
        told = f"macro-F1 {wanted:.3f} or more"
    room = margin if aim.f1 is None else max(0.0, best.f1 - wanted)
    place = _cheapest(grid, gaps + margin, room / 2, last, total)
    if place is not None:
        return place, f"the fewest flows passed on with {told}"
    place = grid.best(numpy.ones(grid.f1.shape, dtype=bool), [-grid.f1, last, total])
    assert place is not None
    if aim.f1 is not None:
        raise OptionError(
            f"{told}: not possible with these models, {grid.f1[place]:.3f} is the maximum on "
            "the validation set; lower the aim, or train other families and depths"
        )
    return place, f"the best possible macro-F1, as no point has {told}"


def _cheapest(
    grid: _Grid, above: Array, half: float, last: Array, total: Array
) -> tuple[int, ...] | None:
    """The fewest flows to the last stage, then to the one before it, of points that are `above`
    what is wanted.

    With two thresholds the last would spend the whole margin, and the first stage would have to
    be without fault. So the last stage's portion is that which is needed with half of the margin
    and no first stage at work; the rest of the margin is the first's.
    """
    enough = above >= -_ROUNDING
    if above.ndim < 2:
        return grid.best(enough, [last, total])
    for strict in (half, 0.0):
        # Where the first stage hands on all it can.
        hands_on_most = above[-1] >= strict - _ROUNDING
        if not hands_on_most.any():
            continue
        bound = float(last[-1, int(numpy.flatnonzero(hands_on_most)[0])])
        place = grid.best(enough & (last <= bound + 1e-12), [total, -grid.f1])
        if place is not None:
            return place
    return grid.best(enough, [last, total])


def settled(point: Point, unsure: Array, predicted: Array) -> tuple[float, ...]:
    """Thresholds as they are written: a little above those of the validation set.

    Half way to the next greater uncertainty of the class, but no more than a billionth: the same
    flows go on, and a runtime whose logarithm differs in the last bit hands on the same, too.
    """
    written = []
    for index, threshold in enumerate(point.thresholds):
        mine = unsure[predicted == index]
        above = mine[mine > threshold]
        room = float(above.min() - threshold) / 2 if len(above) else 1e-9
        written.append(threshold + min(room, 1e-9))
    if point.is_universal and written:
        # One threshold stays one.
        written = [min(written)] * len(written)
    return tuple(written)


@dataclass(frozen=True)
class Verdicts:
    """What stages together say of flows whose scores are known."""

    labels: Array
    # Index of the stage that decided.
    stages: Array


def decide(
    scores: Sequence[Array], measures: Sequence[str], thresholds: Sequence[Sequence[float]]
) -> Verdicts:
    """Stages in order: what each is unsure of goes on. Measures and thresholds are of all but
    the last.
    """
    labels = scores[0].argmax(axis=1)
    stages = numpy.zeros(len(labels), dtype=numpy.int64)
    reaches = numpy.ones(len(labels), dtype=bool)
    for index, (measure, limits) in enumerate(zip(measures, thresholds, strict=True)):
        own = scores[index].argmax(axis=1)
        reaches = reaches & (uncertainty(scores[index], measure) > numpy.asarray(limits)[own])
        labels = numpy.where(reaches, scores[index + 1].argmax(axis=1), labels)
        stages[reaches] = index + 1
    return Verdicts(labels, stages)
