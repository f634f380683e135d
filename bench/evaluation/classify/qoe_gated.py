"""The stages that ship: tiers of frame rate, and `unknown` for windows of other traffic.

A stage is the boosted trees of `qoe.py`, trained on calls alone, with a gate beside them that was
trained on windows of captures without calls as well. Folds divide calls and families of captures.
"""

from dataclasses import dataclass
from typing import Any

import numpy
from qoe import COUNTS, FEATURES, FOLD_COUNT, WHOLE, Learner, sides
from qoe_data import CLASSES, Call
from qoe_foreign import Foreign
from wirelens.classify.calibration import UNKNOWN, best_guess, fit, settled
from wirelens.classify.families import Rows, Training
from wirelens.classify.operate import Operation, StageScores, decide
from wirelens.classify.split import folds
from wirelens.classify.steps import written
from wirelens.classify.unknown import Raw
from wirelens.classify.window_cascade import where_it_works
from wirelens.classify.window_gate import WindowGate, gated
from wirelens.learn.metrics import Array, confusion, macro_f1

NAMES = [*CLASSES, UNKNOWN]
COUNT = len(NAMES)
UNKNOWN_INDEX = COUNT - 1
# In the order in which they are asked: by the second before, or by the whole second.
STAGES: tuple[tuple[str, int | str], ...] = (("fast", 1), ("slow", WHOLE))
# The gate reads what RTP headers show and how much payload there is. More of each may only speak
# for a call: calls at a greater rate than those of training are calls, too.
GATE_COUNTS = ("rtp_packets", "rtp_timestamps", "rtp_markers", "rtp_streams", "payload_bytes")
# Of windows at the beginning of a flow the stage of the second before knows nothing, and traffic
# without RTP looks the same to it: it never says `unknown`, but hands the window on.
NEVER = -1.0


def gate_numbers(depth: int | str) -> list[str]:
    """What the gate of a stage reads."""
    before = ["", "previous_"] if depth == WHOLE else ["previous_"]
    return [f"{b}{way}_{what}" for b in before for way in ("main", "back") for what in GATE_COUNTS]


def columns_of(numbers: Array, names: list[str]) -> Array:
    """Some of the numbers of windows, by name."""
    places = [list(FEATURES.numbers).index(name) for name in names]
    return numbers[:, places].astype(numpy.float32)


@dataclass(frozen=True)
class FittedStage:
    """A stage that was trained: the tiers' model with its columns, and the gate."""

    model: Any
    columns: list[str]
    gate: Any


class Stage:
    """How one stage is trained and asked."""

    def __init__(self, calls: list[Call], foreign: Foreign, name: str, depth: int | str) -> None:
        self.name, self.depth = name, depth
        self.learner = Learner(calls, "rtp", depth, COUNTS)
        self.numbers = numpy.concatenate([call.numbers for call in calls])
        self.early = [call.unlabelled for call in calls]
        self.foreign, self.gate = foreign, WindowGate(gate_numbers(depth))

    def fit(self, own: Array, others: Array) -> FittedStage:
        """Trained on these seconds of calls and these windows of other traffic."""
        model, columns = self.learner.fit(own)
        calls = numpy.unique(self.learner.call_of[own])
        # Seconds without a label are of a call all the same.
        seen = [self.numbers[own], *(self.early[call] for call in calls)]
        seen.append(self.foreign.numbers[others])
        values = columns_of(numpy.concatenate(seen), list(self.gate.numbers))
        weights = self.foreign.weights()[others]
        own_count = len(values) - len(others)
        # Both sides weigh the same.
        weights = numpy.concatenate(
            [numpy.ones(own_count), weights * (own_count / max(weights.sum(), 1e-9))]
        )
        is_foreign = numpy.arange(len(values)) >= own_count
        training = Training(["own", UNKNOWN], seed=1, threads=1)
        return FittedStage(model, columns, self.gate.fit(values, is_foreign, weights, training))

    def said(self, fitted: FittedStage, numbers: Array) -> Array:
        """Probabilities of tiers and of `unknown`, of windows with all of their numbers."""
        values = columns_of(numbers, fitted.columns)
        rows = Rows(values, fitted.columns, numpy.zeros(0), numpy.zeros(0))
        own = fitted.model.prior.scores(rows) + fitted.model.booster.predict(
            values, raw_score=True, num_threads=1
        )
        seen = columns_of(numbers, list(self.gate.numbers))
        return gated(own, self.gate.scores(fitted.gate, seen))

    def held_out(self, own: Array, others: Array) -> Array:
        """Probabilities of seconds by stages of the other calls among them."""
        labels, call_of = self.learner.labels[own], self.learner.call_of[own]
        scores = numpy.zeros((len(own), COUNT))
        for held in folds(labels, call_of, FOLD_COUNT, seed=1):
            fitted = self.fit(numpy.delete(own, held), others)
            scores[held] = self.said(fitted, self.numbers[own[held]])
        return scores


@dataclass(frozen=True)
class Choice:
    """Which stages there are, when they decide, and how far their probabilities are believed."""

    kept: list[int]
    operation: Operation
    thresholds: list[tuple[float, ...]]
    lines: list[list[tuple[float, float]]]
    reasons: list[str]

    def raw(self, scores: list[Array]) -> Raw:
        """What the stages together say, before calibration; `scores` are those of all stages."""
        asked = [scores[place] for place in self.kept]
        measures = [rule.measure for rule in self.operation.rules]
        return Raw.of(asked, decide(asked, measures, self.thresholds).stages, NAMES)


def choose(truth: Array, call_of: Array, held: list[Array]) -> Choice:
    """Stages and thresholds, by what stages said of calls that had not trained them."""
    stages = [
        (name, StageScores(f"{COUNTS} ({depth})", said, 1.0, float(depth == WHOLE)))
        for (name, depth), said in zip(STAGES, held, strict=True)
    ]
    kept, operation, reasons = where_it_works(truth, call_of, stages, COUNT)
    thresholds = [(*limits[:UNKNOWN_INDEX], NEVER) for limits in written(operation)]
    lines = []
    for place in kept:
        _, guesses, raw = best_guess(held[place], NAMES)
        lines.append(settled(fit(raw, guesses == truth)))
    return Choice(kept, operation, thresholds, lines, reasons)


@dataclass(frozen=True)
class Answers:
    """What is said of windows: class, best guess and its confidence, and which stage did."""

    labels: Array
    confidences: Array
    stages: Array

    @classmethod
    def empty(cls, count: int) -> "Answers":
        """Of windows that will be judged fold by fold."""
        return cls(
            numpy.zeros(count, dtype=numpy.int64), numpy.zeros(count),
            numpy.zeros(count, dtype=numpy.int64),
        )  # fmt: skip

    def put(self, rows: Array, chosen: Choice, scores: list[Array]) -> None:
        """What a cascade says of some rows."""
        raw = chosen.raw(scores)
        self.labels[rows] = raw.labels
        self.confidences[rows] = raw.confidences(chosen.lines)
        self.stages[rows] = numpy.asarray(chosen.kept)[raw.stages]


@dataclass(frozen=True)
class QoeResult:
    """All that was said of windows whose call or capture trained nothing."""

    calls: list[Call]
    foreign: Foreign
    fps: Array
    truth: Array
    call_of: Array
    test_of_fold: list[Array]
    of_calls: Answers
    of_foreign: Answers
    # Each stage alone, and the slow one without its gate.
    alone: list[Array]
    ungated: Array
    # Of each call's windows without a label how many there are, and how many are `unknown`.
    early: Array
    folds: list[list[object]]


def cross_validated(calls: list[Call], foreign: Foreign) -> QoeResult:
    """Trains and chooses on four fifths of calls and families, judges the rest, five times."""
    stages = [Stage(calls, foreign, *stage) for stage in STAGES]
    learner = stages[0].learner
    truth, everything = learner.labels, len(learner.labels)
    family_of = foreign.family_of
    outside = folds(numpy.zeros(len(family_of), dtype=numpy.int64), family_of, FOLD_COUNT, seed=1)
    of_calls, of_foreign = Answers.empty(everything), Answers.empty(len(family_of))
    alone = [numpy.zeros(everything, dtype=numpy.int64) for _ in STAGES]
    ungated = numpy.zeros(everything, dtype=numpy.int64)
    early, rows, tests = numpy.zeros((len(calls), 2), dtype=numpy.int64), [], []
    for fold in range(FOLD_COUNT):
        own, test = sides(calls, fold)
        others = numpy.setdiff1d(numpy.arange(len(family_of)), outside[fold])
        chosen = choose(
            truth[own], learner.call_of[own], [stage.held_out(own, others) for stage in stages]
        )
        fitted = [stage.fit(own, others) for stage in stages]

        def said(numbers: Array, fitted: list[FittedStage] = fitted) -> list[Array]:
            return [stage.said(one, numbers) for stage, one in zip(stages, fitted, strict=True)]

        scores = said(stages[0].numbers[test])
        of_calls.put(test, chosen, scores)
        of_foreign.put(outside[fold], chosen, said(foreign.numbers[outside[fold]]))
        for place, one in enumerate(scores):
            alone[place][test] = one.argmax(axis=1)
        ungated[test] = scores[-1][:, :UNKNOWN_INDEX].argmax(axis=1)
        for call in numpy.unique(learner.call_of[test]):
            windows = calls[call].unlabelled
            found = Answers.empty(len(windows))
            found.put(numpy.arange(len(windows)), chosen, said(windows))
            early[call] = len(windows), (found.labels == UNKNOWN_INDEX).sum()
        tests.append(test)
        rows.append([fold, *_of_fold(of_calls, alone[-1], truth, test, chosen)])
    fps = numpy.concatenate([call.fps for call in calls])
    return QoeResult(
        calls, foreign, fps, truth, learner.call_of, tests, of_calls, of_foreign, alone, ungated,
        early, rows,
    )  # fmt: skip


def _of_fold(
    answers: Answers, slow: Array, truth: Array, test: Array, chosen: Choice
) -> list[object]:
    """What a fold decided where, by which rule, and how well."""
    parts = numpy.bincount(answers.stages[test], minlength=len(STAGES)) / len(test)
    rules = [f"{rule.measure}, {rule.algorithm}" for rule in chosen.operation.rules] or ["-"]
    own, alone = (
        macro_f1(confusion(truth[test], said[test], COUNT)) for said in (answers.labels, slow)
    )
    return [*parts.tolist(), *rules, chosen.operation.macro_f1, own, alone]
