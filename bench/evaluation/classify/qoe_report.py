"""Tables of what was said of the calls' seconds, and the rows that they are made of."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy
from qoe import FEATURES, FOLD_COUNT, LEAKY_MODELS, MODELS, STAGES, WHOLE, leaky_sides, sides
from qoe_data import CLASSES, TIER_MIDDLES, Call, tier
from wirelens.classify.operate import StageScores, decide, rules_of
from wirelens.classify.steps import written
from wirelens.classify.thresholds import Assignment, normalized_area
from wirelens.classify.window_cascade import STAGE_NAMES, where_it_works
from wirelens.learn.metrics import accuracy, confusion, family_interval, macro_f1, weighted_f1

Array = Any
COUNT = len(CLASSES)
# Which packets of a second are waited for, and how the waiting is told.
WAITED = (2, 3, 5, 10, 20)
QUANTILES = (5, 10, 25, 50, 75, 90, 95, 99, 100)
COLUMNS = (
    "reads", "packets", "model", "seconds", "accuracy", "weighted_f1", "macro_f1", "macro_f1_low",
    "macro_f1_high", "within_one_tier", "error_fps", "accuracy_folds_min", "accuracy_folds_max",
)  # fmt: skip


class QoeEvidence:
    """What models said of every second when its call was held out."""

    def __init__(self, calls: list[Call], out: Path) -> None:
        self.calls, self.out = calls, out
        self.fps = numpy.concatenate([call.fps for call in calls])
        self.truth = tier(self.fps)
        self.call_of = numpy.concatenate([[i] * len(c.fps) for i, c in enumerate(calls)])
        self.sides = [sides(calls, fold) for fold in range(FOLD_COUNT)]

    def scores(self, what: str, depth: int | str, family: str, fold: int | str, side: str) -> Array:
        """Probabilities of one side of a fold."""
        with numpy.load(self.out / f"{what}-{depth}-{family}-{fold}.npz") as said:
            return said[side]

    def pooled(self, what: str, depth: int | str, family: str) -> Array:
        """Probabilities of all seconds."""
        scores = numpy.zeros((len(self.truth), COUNT))
        for fold, (_, test) in enumerate(self.sides):
            scores[test] = self.scores(what, depth, family, fold, "test")
        return scores

    def number(self, name: str) -> Array:
        """A number of every second."""
        place = list(FEATURES.numbers).index(name)
        return numpy.concatenate([call.numbers[:, place] for call in self.calls])

    def row(self, names: Sequence[object], said: Array, fps: Array | None = None) -> list[object]:
        """A row of the table: `said` are tiers, `fps` frames a second where they are told."""
        counts = confusion(self.truth, said, COUNT)
        interval = family_interval(self.truth, said, self.call_of, COUNT)
        told = TIER_MIDDLES[said] if fps is None else fps
        folds = [float((said[test] == self.truth[test]).mean()) for _, test in self.sides]
        return [
            *names, len(said), accuracy(counts), weighted_f1(counts), macro_f1(counts),
            interval.low, interval.high, float((abs(said - self.truth) <= 1).mean()),
            float(abs(told - self.fps).mean()), min(folds), max(folds),
        ]  # fmt: skip


def baselines(told: QoeEvidence) -> list[list[object]]:
    """What needs no training, or nearly none."""
    majority = numpy.zeros(len(told.truth), dtype=numpy.int64)
    for rest, test in told.sides:
        majority[test] = numpy.bincount(told.truth[rest], minlength=COUNT).argmax()
    rows = [told.row(["-", 0, "most frequent tier"], majority)]
    for name, what in (
        ("main_frames_by_size", "frames by sizes"),
        ("main_rtp_timestamps", "frames by RTP timestamps"),
        ("main_rtp_markers", "frames by RTP markers"),
    ):
        frames = told.number(name)
        rows.append(told.row(["all packets", WHOLE, what], tier(frames), frames))
    return rows


def leaky(told: QoeEvidence) -> list[list[object]]:
    """What it would look like with seconds of a call on both sides."""
    _, test = leaky_sides(told.calls)
    rows = []
    for what, depth, families in LEAKY_MODELS:
        for family in families:
            said = told.scores(what, depth, family, "leaky", "test").argmax(axis=1)
            counts = confusion(told.truth[test], said, COUNT)
            error = abs(TIER_MIDDLES[said] - told.fps[test]).mean()
            rows.append([
                what, depth, family, len(test), accuracy(counts), weighted_f1(counts),
                macro_f1(counts), float(error),
            ])  # fmt: skip
    return rows


def stage_scores(scores: Sequence[Array]) -> list[tuple[str, StageScores]]:
    """The stages of the cascade; only the whole second is waited for."""
    return [
        (name, StageScores(f"{family} ({depth})", said, 1.0, float(depth == WHOLE)))
        for name, (_, depth, family), said in zip(STAGE_NAMES, STAGES, scores, strict=True)
    ]


def cascade(told: QoeEvidence) -> tuple[list[list[object]], Array, Array]:
    """A row a fold, and what the cascade said of every second, and which stage did.

    Stages and thresholds are chosen by the calls that train, as models say that were trained
    without the call; the models that are asked were trained on all of these.
    """
    rows: list[list[object]] = []
    said = numpy.zeros(len(told.truth), dtype=numpy.int64)
    by = numpy.zeros(len(told.truth), dtype=numpy.int64)
    for fold, (rest, test) in enumerate(told.sides):
        stages = stage_scores([told.scores(*stage, fold, "held_out") for stage in STAGES])
        kept, chosen, _ = where_it_works(told.truth[rest], told.call_of[rest], stages, COUNT)
        scores = [told.scores(*STAGES[place], fold, "test") for place in kept]
        found = decide(scores, [rule.measure for rule in chosen.rules], written(chosen))
        said[test], by[test] = found.labels, numpy.asarray(kept)[found.stages]
        parts = numpy.bincount(by[test], minlength=len(STAGES)) / len(test)
        rules = dict.fromkeys(STAGE_NAMES[:-1], "-")
        for place, rule in zip(kept, chosen.rules, strict=False):
            rules[STAGE_NAMES[place]] = f"{rule.measure}, {rule.algorithm}"
        own = macro_f1(confusion(told.truth[test], said[test], COUNT))
        slow = macro_f1(confusion(told.truth[test], scores[-1].argmax(axis=1), COUNT))
        rows.append([fold, *parts.tolist(), *rules.values(), chosen.macro_f1, own, slow])
    return rows, said, by


def curves(told: QoeEvidence) -> list[list[object]]:
    """Assigned portion against caught errors and F1, of all seconds: Figures 9c and 13."""
    rows: list[list[object]] = []
    scores = [told.pooled(*stage) for stage in STAGES]
    for index, step in enumerate(("fastest to fast", "fast to slow")):
        first, second = scores[index], scores[index + 1]
        pair = Assignment(told.truth, first.argmax(axis=1), second.argmax(axis=1), COUNT)
        oracle = pair.oracle()
        measured = [rule.curve for rule in rules_of(
            told.truth, StageScores("", first, 1, 1), StageScores("", second, 1, 1), COUNT
        )]  # fmt: skip
        for curve in (oracle, pair.random(), *measured):
            area = normalized_area(curve, oracle)
            rows += [
                [step, curve.name, area, *map(float, point)]
                for point in zip(curve.assigned, curve.caught, curve.f1, strict=True)
            ]
    return rows


def beside(told: QoeEvidence, said: Array) -> list[list[object]]:
    """How much better the cascade and its slow model are than others, in macro-F1."""
    slow = told.pooled(*STAGES[-1]).argmax(axis=1)
    count = tier(told.number("main_rtp_markers"))
    rows: list[list[object]] = []
    for name, than, one, other in (
        ("cascade", "slow alone", said, slow),
        ("cascade", "frames by RTP markers", said, count),
        ("slow alone", "frames by RTP markers", slow, count),
    ):
        found = family_interval(told.truth, one, told.call_of, COUNT, beside=other)
        rows.append([name, than, found.value, found.low, found.high])
    return rows


def waiting(told: QoeEvidence) -> list[list[object]]:
    """When the n-th packet of a second comes after its first, in milliseconds: Figure 3c."""
    first_ns = told.number("pkt0_offset_ns")
    rows: list[list[object]] = []
    for packet in WAITED:
        is_there = told.number(f"pkt{packet - 1}_direction") != 0
        waits = (told.number(f"pkt{packet - 1}_offset_ns") - first_ns)[is_there] / 1e6
        found = map(float, numpy.percentile(waits, QUANTILES))
        rows.append([packet, float(is_there.mean()), *found])
    return rows


def write(path: Path, titles: Iterable[str], rows: list[list[object]]) -> None:
    """A table of rows, figures with four digits."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(titles)
        for row in rows:
            writer.writerow([f"{v:.4f}" if isinstance(v, float) else v for v in row])


def report(calls: list[Call], out: Path, results: Path) -> None:
    """Writes all tables."""
    results.mkdir(parents=True, exist_ok=True)
    told = QoeEvidence(calls, out)
    rows = baselines(told)
    for what, depth, families in MODELS:
        for family in families:
            if all((out / f"{what}-{depth}-{family}-{f}.npz").exists() for f in range(FOLD_COUNT)):
                said = told.pooled(what, depth, family).argmax(axis=1)
                rows.append(told.row([what, depth, family], said))
    folds, said, by = cascade(told)
    rows.append(told.row(["rtp", "1, 1, whole", "cascade"], said))
    write(
        results / "beside.tsv", ("model", "than", "macro_f1_more", "low", "high"),
        beside(told, said),
    )  # fmt: skip
    write(results / "models.tsv", COLUMNS, rows)
    stages = ("fastest", "fast", "slow")
    write(
        results / "cascade.tsv",
        ("fold", *stages, "fastest_rule", "fast_rule", "macro_f1_choosing", "macro_f1",
         "macro_f1_slow_alone"), folds,
    )  # fmt: skip
    titles = (
        "reads",
        "packets",
        "model",
        "seconds",
        "accuracy",
        "weighted_f1",
        "macro_f1",
        "error_fps",
    )
    if (out / "bits-10-lightgbm-leaky.npz").exists():
        write(results / "leaky.tsv", titles, leaky(told))
    write(
        results / "curves.tsv",
        ("step", "assignment", "normalized_area", "assigned", "caught", "macro_f1"), curves(told),
    )  # fmt: skip
    titles = ("packets", "part_of_seconds", *(f"p{q}_ms" for q in QUANTILES))
    write(results / "waiting.tsv", titles, waiting(told))
    windows = numpy.concatenate([call.window_ns for call in calls])
    write(
        results / "seconds.tsv",
        ("call", "codec", "window_ns", "frames_per_second", "frames_by_size", "rtp_timestamps",
         "rtp_markers", "cascade", "stage"),
        [
            [calls[call].name, calls[call].codec, int(window), round(float(fps), 2), int(s), int(t),
             int(m), CLASSES[label], stages[stage]]
            for call, window, fps, s, t, m, label, stage in zip(
                told.call_of, windows, told.fps, told.number("main_frames_by_size"),
                told.number("main_rtp_timestamps"), told.number("main_rtp_markers"), said, by,
                strict=True,
            )
        ],
    )  # fmt: skip
    for row in rows:
        print("\t".join(f"{v:.3f}" if isinstance(v, float) else str(v) for v in row))
    for row in folds:
        print(row)
