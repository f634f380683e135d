"""Folds: packets are judged by forests that saw neither their capture nor, if asked, their attack.

A forest that knows an attack says little of the next attack. So besides folds of
captures there are sets of attacks, spread over families: of each, forests are grown without
all of its attacks, and judge these alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy

from wirelens.learn.metrics import Array
from wirelens.packetlog import forest
from wirelens.packetlog.forest import Shape
from wirelens.packetlog.rows import Rows
from wirelens.packetlog.truth import BENIGN
from wirelens.packetlog.unknown import DRAWN

# With fewer, a forest of a fold would know half of what there is, or less.
_FOLDS_MIN = 3
# Scores of rows that are asked for, by forests grown on rows that are used: rows, which are used,
# which are asked for, and weight, shape and seed.
Judge = Callable[[Rows, Array, Array, tuple[float, Shape, int]], Array]


@dataclass(frozen=True)
class Plan:
    """Which rows are judged together, and which attacks are taken out together."""

    # Of each row its fold.
    fold_of: Array
    fold_count: int
    # Sets of codes of attacks.
    left_out: list[list[int]]
    # There are too few captures: folds are parts of each, in time.
    is_by_time: bool


def plan(rows: Rows, fold_count: int, set_count: int, seed: int) -> Plan:
    """Folds of places and runs, and sets of attacks, one of each family if there are.

    There are fewer folds than asked for where there are fewer places. Where there are too few
    captures, each is cut in time. That flatters: parts of a capture are more alike than captures.
    """
    groups = _group_count(rows)
    by_time = groups < _FOLDS_MIN
    fold_count = fold_count if by_time else min(fold_count, groups)
    fold_of = _in_time(rows, fold_count) if by_time else _by_family(rows, fold_count, seed)
    by_family = sorted(
        (rows.families[label], label) for label in rows.labels if label not in (BENIGN, DRAWN)
    )
    # Without the one attack that there is nothing would be left to learn.
    set_count = min(set_count, len(by_family)) if len(by_family) > 1 else 0
    sets: list[list[int]] = [[] for _ in range(set_count)]
    for index, (_, label) in enumerate(by_family):
        if sets:
            sets[index % len(sets)].append(rows.labels.index(label))
    return Plan(fold_of, fold_count, sets, by_time)


def _group_count(rows: Rows) -> int:
    """Into how many folds captures can be cut, so that all have benign packets, and attacks."""
    counts = [
        len({rows.captures[int(at)].fold_group for at in numpy.unique(rows.capture_of[is_mine])})
        for is_mine in (rows.is_anomalous, ~rows.is_anomalous)
        if is_mine.any()
    ]
    return min(counts, default=0)


def _in_time(rows: Rows, fold_count: int) -> Array:
    """Of each row its fold: each capture is cut into as many parts, in order of time."""
    found = numpy.zeros(len(rows), dtype=numpy.int64)
    for capture in numpy.unique(rows.capture_of):
        mine = numpy.flatnonzero(rows.capture_of == capture)
        found[mine] = numpy.arange(len(mine)) * fold_count // len(mine)
    return found


def _by_family(rows: Rows, fold_count: int, seed: int) -> Array:
    """Of each row the fold of its run, or of its place; each data set is spread evenly."""
    random = numpy.random.default_rng([seed, fold_count])
    families = sorted({capture.fold_group for capture in rows.captures})
    drawn = [families[int(at)] for at in random.permutation(len(families))]
    drawn.sort(key=lambda family: family.partition("/")[0])
    fold_of = {family: index % fold_count for index, family in enumerate(drawn)}
    groups = [fold_of[capture.fold_group] for capture in rows.captures]
    return numpy.array(groups)[rows.capture_of]


def packet_weights(rows: Rows, weight: float, is_used: Array | None = None) -> Array:
    """What each packet counts in training.

    Benign packets count as in `benign_weights`, so that neither one large download nor a testbed of
    many runs fills the forest. Attacks count the same, so that a scan of thirty packets counts as a
    flood does. All anomalous packets together count `weight` times the benign ones.
    """
    used = numpy.ones(len(rows), dtype=bool) if is_used is None else is_used
    found = benign_weights(rows, used)
    anomalous = rows.is_anomalous
    codes, counts = rows.codes[anomalous], numpy.where(used, rows.counts, 0.0)[anomalous]
    sums = numpy.bincount(codes, weights=counts)
    there = max(int((sums > 0).sum()), 1)
    found[anomalous] = weight * counts / numpy.maximum(sums, 1e-300)[codes] / there
    # Thresholds do not depend on the scale, and rounding not on how many rows there are.
    return found * len(rows) / max(found.sum(), 1e-300)


def grown(rows: Rows, is_used: Array, weight: float, shape: Shape, seed: int) -> forest.Forest:
    """A forest that tells benign from anomalous, over the packets that are used."""
    weights = packet_weights(rows, weight, is_used)[is_used]
    found = forest.grow(
        rows.values[is_used],
        rows.is_anomalous[is_used].astype(numpy.int64),
        weights, 2, shape, seed,
    )  # fmt: skip
    return forest.exported(found)


@dataclass(frozen=True)
class CrossValidation:
    """Of each row the probability that it is anomalous, by a forest that did not see it."""

    # Its attack was seen in other captures.
    known: Array
    # Its attack was not seen at all; of benign packets, the mean of those forests. Nothing where
    # there is one attack alone.
    unseen: Array | None


def cross(
    rows: Rows,
    folds: Plan,
    weight: float,
    shape: Shape,
    seed: int,
    tell: Callable[[int, int, str], None] = lambda done, total, text: None,
    judged: Judge | None = None,
) -> CrossValidation:
    """Judges every row by forests that were grown without it."""
    judge = judged or _judged
    total = folds.fold_count * (len(folds.left_out) + 1)
    done = 0
    seen = numpy.zeros(len(rows))
    unseen = numpy.zeros(len(rows))
    benign = ~rows.is_anomalous
    for fold in range(folds.fold_count):
        mine = folds.fold_of == fold
        tell(done, total, f"fold {fold + 1}, known attacks")
        done += 1
        seen[mine] = judge(rows, ~mine, mine, (weight, shape, seed))
        for attacks in folds.left_out:
            tell(done, total, f"fold {fold + 1}, unseen attacks")
            done += 1
            is_out = numpy.isin(rows.codes, attacks)
            asked = mine & (is_out | benign)
            found = numpy.zeros(len(rows))
            found[asked] = judge(rows, ~mine & ~is_out, asked, (weight, shape, seed))
            unseen += numpy.where(benign, found / len(folds.left_out), found)
    return CrossValidation(seen, unseen if folds.left_out else None)


def _judged(
    rows: Rows, is_used: Array, asked: Array, how: tuple[float, Shape, int]
) -> Array:
    weight, shape, seed = how
    return grown(rows, is_used, weight, shape, seed).probabilities(rows.values[asked])[:, 1]


def recalls(rows: Rows, is_marked: Array, codes: Sequence[int] | None = None) -> dict[str, float]:
    """Of each attack the part of its packets that was marked."""
    found = {}
    for code, label in enumerate(rows.labels):
        mine = rows.codes == code
        if code and mine.any() and (codes is None or code in codes):
            found[label] = float(numpy.average(is_marked[mine], weights=rows.counts[mine]))
    return found


def benign_weights(rows: Rows, is_used: Array | None = None) -> Array:
    """Of each benign packet what it counts: places the same, and so do the captures of each.

    A place is a data set of runs, or whoever made the captures. Fifty runs of one testbed say
    less of the next network than three captures of three networks do.
    """
    used = ~rows.is_anomalous if is_used is None else ~rows.is_anomalous & is_used
    weights = numpy.where(used, rows.counts, 0.0)
    of_captures = numpy.bincount(rows.capture_of, weights=weights, minlength=len(rows.captures))
    has_benign = of_captures > 0
    names, place_of = numpy.unique(rows.places, return_inverse=True)
    captures = numpy.bincount(place_of, weights=has_benign, minlength=len(names))
    shares = has_benign / numpy.maximum(captures, 1)[place_of] / max(int((captures > 0).sum()), 1)
    parts: Array = weights * (shares / numpy.maximum(of_captures, 1e-300))[rows.capture_of]
    return parts


def false_alarms(rows: Rows, is_marked: Array) -> float:
    """The part of benign packets that was marked, by `benign_weights`."""
    return float(benign_weights(rows)[is_marked].sum())


def false_alarms_by_place(rows: Rows, is_marked: Array) -> dict[str, float]:
    """The part of benign packets that was marked, of each place that has any."""
    places = numpy.array(rows.places)[rows.capture_of]
    weights = benign_weights(rows)
    found = {}
    for place in dict.fromkeys(rows.places):
        mine = places == place
        total = weights[mine].sum()
        if total > 0:
            found[place] = float(weights[mine & is_marked].sum() / total)
    return found


def threshold(rows: Rows, scores: Array, false_alarms_max: float) -> float:
    """The score above which as much is marked as may be, by `false_alarms`.

    It lies between two scores of benign packets, so that rounding decides nothing.
    """
    benign = ~rows.is_anomalous
    if not benign.any():
        return 0.5
    found, place = numpy.unique(scores[benign], return_inverse=True)
    parts = numpy.bincount(place, weights=benign_weights(rows)[benign])
    # Of each score the part of benign packets that have a higher one.
    above = numpy.append(numpy.cumsum(parts[::-1])[::-1][1:], 0.0)
    at = int(numpy.argmax(above <= false_alarms_max))
    return float((found[at] + (found[at + 1] if at + 1 < len(found) else 1.0)) / 2)
