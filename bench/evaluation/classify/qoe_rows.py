"""Figures of what was said of held-out calls and of other traffic, and the rows that are kept."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy
from qoe_data import CLASSES, TIER_MIDDLES, tier
from qoe_foreign import Foreign
from qoe_gated import COUNT, NAMES, STAGES, UNKNOWN_INDEX, Answers, QoeResult, columns_of
from qoe_report import write
from wirelens.classify.calibration import expected_error, reliability
from wirelens.learn.metrics import (
    Interval,
    accuracy,
    class_results,
    confusion,
    family_interval,
    macro_f1,
)

Array = Any
# What is compared, in the order of the tables.
SYSTEMS = (
    "majority class", "frames by RTP markers", "slow stage without its gate", "slow stage alone",
    "this model",
)  # fmt: skip
DRAWS = 2000
OTHER_CALLS = "voice and video of other programs"


class Figures:
    """What one system did on the held-out seconds."""

    def __init__(self, judged: QoeResult, name: str) -> None:
        self.name, self.labels = name, answers_of(judged, name)
        truth, fps = judged.truth, judged.fps
        is_tier = self.labels != UNKNOWN_INDEX
        counts = confusion(truth, self.labels, COUNT)
        self.seconds = len(truth)
        self.accuracy = accuracy(counts)
        self.macro_f1 = family_interval(truth, self.labels, judged.call_of, COUNT)
        near = is_tier & (abs(self.labels - truth) <= 1)
        self.within_one = interval(near, judged.call_of)
        self.unknown = float(1 - is_tier.mean())
        told = TIER_MIDDLES[numpy.minimum(self.labels, len(CLASSES) - 1)]
        if name == "frames by RTP markers":
            told = markers(judged)
        self.error = interval(abs(told - fps)[is_tier], judged.call_of[is_tier])

    def row(self) -> list[object]:
        """As kept."""
        parts = (self.macro_f1, self.within_one, self.error)
        return [
            self.name, self.seconds, self.accuracy,
            *(value for one in parts for value in one_row(one)), self.unknown,
        ]  # fmt: skip


def one_row(found: Interval) -> tuple[float, float, float]:
    """A value with its interval."""
    return found.value, found.low, found.high


def interval(values: Array, groups: Array) -> Interval:
    """The mean of rows, with the interval over draws of their groups."""
    _, index = numpy.unique(groups, return_inverse=True)
    count = int(index.max()) + 1
    sums = numpy.bincount(index, numpy.asarray(values, dtype=float), minlength=count)
    sizes = numpy.bincount(index, minlength=count)
    dice = numpy.random.default_rng(1)
    weights = dice.multinomial(count, numpy.full(count, 1 / count), size=DRAWS)
    drawn = (weights @ sums) / numpy.maximum(weights @ sizes, 1)
    low, high = numpy.percentile(drawn, [2.5, 97.5])
    return Interval(float(sums.sum() / sizes.sum()), float(low), float(high))


def markers(judged: QoeResult) -> Array:
    """Frames of each second by RTP marker bits."""
    numbers = numpy.concatenate([call.numbers for call in judged.calls])
    return columns_of(numbers, ["main_rtp_markers"])[:, 0]


def answers_of(judged: QoeResult, name: str) -> Array:
    """The class of each held-out second, by one system."""
    if name == "majority class":
        said = numpy.zeros(len(judged.truth), dtype=numpy.int64)
        for test in judged.test_of_fold:
            rest = numpy.delete(judged.truth, test)
            said[test] = numpy.bincount(rest, minlength=COUNT).argmax()
        return said
    found: dict[str, Callable[[], Array]] = {
        "frames by RTP markers": lambda: tier(markers(judged)),
        "slow stage without its gate": lambda: judged.ungated,
        "slow stage alone": lambda: judged.alone[-1],
        "this model": lambda: judged.of_calls.labels,
    }
    return found[name]()


def over_markers(judged: QoeResult) -> Interval:
    """By how much the model's macro-F1 is above that of the count of markers."""
    count = answers_of(judged, "frames by RTP markers")
    return family_interval(
        judged.truth, judged.of_calls.labels, judged.call_of, COUNT, beside=count
    )


def foreign_groups(foreign: Foreign) -> list[tuple[str, Array]]:
    """Windows of other traffic by what they look like."""
    counts = columns_of(foreign.numbers, ["main_rtp_packets", "back_rtp_packets"])
    has_rtp = (counts > 0).any(axis=1)
    return [
        ("all", numpy.ones(len(has_rtp), dtype=bool)),
        ("with packets that look like RTP", has_rtp),
        ("UDP, none that looks like RTP", foreign.is_udp & ~has_rtp),
        ("other protocols", ~foreign.is_udp & ~has_rtp),
    ]


def foreign_rows(traffic: str, foreign: Foreign, said: Answers) -> list[list[object]]:
    """Of each group of windows how many get a tier, with intervals over families."""
    named = said.labels != UNKNOWN_INDEX
    rows: list[list[object]] = []
    for name, chosen in foreign_groups(foreign):
        if chosen.any():
            found = interval(named[chosen], foreign.family_of[chosen])
            captures = len(numpy.unique(foreign.capture_of[chosen]))
            rows.append([traffic, name, captures, int(chosen.sum()), *one_row(found)])
    return rows


def classes_rows(judged: QoeResult) -> list[list[object]]:
    """Of each tier how often it is found and right."""
    counts = confusion(judged.truth, judged.of_calls.labels, COUNT)
    return [
        [one.name, one.flows, one.precision, one.recall, one.f1]
        for one in class_results(counts, NAMES)[:UNKNOWN_INDEX]
    ]


def confidence_rows(judged: QoeResult) -> tuple[float, list[list[object]]]:
    """How far confidence can be believed: the expected error, and a row a bin."""
    named = judged.of_calls.labels != UNKNOWN_INDEX
    is_right = (judged.of_calls.labels == judged.truth)[named]
    confidences = judged.of_calls.confidences[named]
    rows: list[list[object]] = [
        [f"{one.low:.2f} to {one.high:.2f}", one.flows, one.confidence, one.right]
        for one in reliability(confidences, is_right)
    ]
    return expected_error(confidences, is_right), rows


def call_rows(judged: QoeResult) -> list[list[object]]:
    """Of each call what it was, and how its seconds were judged when it was held out."""
    rows: list[list[object]] = []
    labels = judged.of_calls.labels
    for index, call in enumerate(judged.calls):
        mine = judged.call_of == index
        said, truth = labels[mine], judged.truth[mine]
        near = (said != UNKNOWN_INDEX) & (abs(said - truth) <= 1)
        rows.append([
            call.name, call.seed, call.codec, "yes" if call.audio else "no", int(mine.sum()),
            float((said == truth).mean()), float(near.mean()),
            macro_f1(confusion(truth, said, COUNT)), *map(int, judged.early[index]),
        ])  # fmt: skip
    return rows


def write_rows(
    results: Path, judged: QoeResult, elsewhere: Sequence[tuple[str, Foreign, Answers]]
) -> None:
    """All tables; `elsewhere` is traffic that trained nothing, with what was said of it."""
    results.mkdir(parents=True, exist_ok=True)
    figures, bounds = ("macro_f1", "within_one", "error_fps"), ("", "_low", "_high")
    three = [f"{name}{bound}" for name in figures for bound in bounds]
    write(
        results / "models.tsv", ("model", "seconds", "accuracy", *three, "unknown"),
        [Figures(judged, name).row() for name in SYSTEMS],
    )  # fmt: skip
    more = over_markers(judged)
    write(
        results / "beside.tsv", ("model", "than", "macro_f1_more", "low", "high"),
        [["this model", "frames by RTP markers", *one_row(more)]],
    )  # fmt: skip
    write(
        results / "cascade.tsv",
        ("fold", "fast", "slow", "rule", "macro_f1_choosing", "macro_f1", "macro_f1_slow_alone"),
        judged.folds,
    )
    write(
        results / "foreign.tsv",
        ("traffic", "windows_of", "captures", "windows", "with_tier", "low", "high"),
        [
            *foreign_rows("held-out families", judged.foreign, judged.of_foreign),
            *(row for one in elsewhere for row in foreign_rows(*one)),
        ],
    )
    write(results / "classes.tsv", ("tier", "seconds", "precision", "recall", "f1"),
          classes_rows(judged))  # fmt: skip
    write(results / "confidence.tsv", ("confidence", "seconds", "mean", "right"),
          confidence_rows(judged)[1])  # fmt: skip
    write(
        results / "calls.tsv",
        ("call", "seed", "codec", "audio", "seconds", "accuracy", "within_one", "macro_f1",
         "unlabelled", "unlabelled_unknown"), call_rows(judged),
    )  # fmt: skip
    write_seconds(results / "seconds.tsv", judged)


def write_seconds(path: Path, judged: QoeResult) -> None:
    """A row a second."""
    numbers = numpy.concatenate([call.numbers for call in judged.calls])
    counts = columns_of(numbers, ["main_rtp_timestamps", "main_rtp_markers"]).astype(int)
    windows = numpy.concatenate([call.window_ns for call in judged.calls])
    said = judged.of_calls
    write(
        path,
        ("call", "codec", "window_ns", "frames_per_second", "rtp_timestamps", "rtp_markers",
         "label", "confidence", "stage"),
        [
            [judged.calls[call].name, judged.calls[call].codec, int(window), round(float(fps), 2),
             *map(int, count), NAMES[label], float(confidence), STAGES[stage][0]]
            for call, window, fps, count, label, confidence, stage in zip(
                judged.call_of, windows, judged.fps, counts, said.labels, said.confidences,
                said.stages, strict=True,
            )
        ],
    )  # fmt: skip
