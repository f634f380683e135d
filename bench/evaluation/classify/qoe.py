"""Trains and tests models of video frame rate on the testbed's calls, second by second.

    python bench/evaluation/classify/qoe.py train RUNS OUT [FOLD …]   models by fold; resumes
    python bench/evaluation/classify/qoe.py leaky RUNS OUT            some with a call on both sides
    python bench/evaluation/classify/qoe.py report RUNS OUT RESULTS   tables and rows of them
    python bench/evaluation/classify/qoe.py artifact RUNS OUT CAPTURES FOLDER RESULTS [OTHERS …]
                                                    a cascade of all calls, with its card and rows

RUNS is the folder of `wirelens testbed make testbed/datasets/calls.toml`, CAPTURES one of captures
without calls, from which the cascade learns what it has no answer to; OTHERS are more of them, that
train nothing and are judged. Calls are never
divided: each is held out in one of five folds, and the others train. These choose thresholds as
well, by what models say of each call that were trained without it.
"""

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy
from qoe_data import CLASSES, TIER_FPS, Call, load, tier
from wirelens.classify.boosted_counts import BoostedCounts
from wirelens.classify.families import Rows, Training, family
from wirelens.classify.recipe import Recipe, Sifter, packet_of
from wirelens.classify.split import folds
from wirelens.classify.weights import class_weights
from wirelens.classify.windows import WindowFeatures, window_numbers

Array = Any

FOLD_COUNT = 5
PACKETS = 20
WHOLE = "whole"
FEATURES = WindowFeatures(
    packets=PACKETS, numbers=window_numbers(PACKETS, whole=True, rtp=True), blocks=("ipv4", "udp")
)
# Left out beside what the recipe leaves out: ports of a call are drawn at random.
PORTS = ("udp_sport", "udp_dport")
# Smaller than the paper's: 2,400 seconds are soon learnt by heart.
CHANGED: dict[str, dict[str, Any]] = {
    "lightgbm": {
        "num_boost_round": 60, "learning_rate": 0.1, "num_leaves": 16, "min_data_in_leaf": 10,
    },
    "xgboost": {"num_boost_round": 50, "max_depth": 4},
}  # fmt: skip
TREES, ALL = ("decision-tree", "lightgbm"), (
    "decision-tree", "lightgbm", "xgboost", "random-forest",
)  # fmt: skip
SMALL, COUNTS = "lightgbm-small", "boosted-counts"
# Where tiers are rare the macro-average is made: the same trees, smaller, rare tiers weighing more.
CHANGED[SMALL] = {
    "num_boost_round": 40, "learning_rate": 0.1, "num_leaves": 6, "min_data_in_leaf": 20,
    "feature_fraction": 0.3, "lambda_l2": 5.0,
}  # fmt: skip
WEIGHTED = (SMALL, COUNTS)
# The count that trees begin with: of the second, or of the one before.
COUNTED = {WHOLE: "main_rtp_markers", 1: "previous_main_rtp_markers"}
BOUNDS = [float(TIER_FPS * (index + 1)) for index in range(len(CLASSES) - 1)]
# The stages of the cascade: what they read, how many packets, and who learns it.
STAGES: tuple[tuple[str, int | str, str], ...] = (
    ("rtp", 1, "decision-tree"), ("rtp", 1, COUNTS), ("rtp", WHOLE, COUNTS),
)  # fmt: skip
# What is read, how many packets of the window (or all of it), and which families learn it.
MODELS = [
    *(("numbers", depth, ALL) for depth in (1, WHOLE)),
    *(("rtp", depth, (*ALL, SMALL, COUNTS)) for depth in (1, WHOLE)),
    *(("bits", depth, TREES) for depth in (1, 5, 10)),
    *(("numbers", depth, TREES) for depth in (5, 10, 20)),
    *(("rtp", depth, TREES) for depth in (5, 10, 20)),
]
LEAKY_MODELS = [
    *(("rtp", depth, ("lightgbm",)) for depth in (1, WHOLE)),
    *(("numbers", depth, ("lightgbm",)) for depth in (1, 10, WHOLE)),
    *(("bits", depth, TREES) for depth in (1, 10)),
]


def bit_names() -> list[str]:
    """Header bits that mean the same in another call."""
    recipe = Recipe(blocks=FEATURES.blocks)
    names = [name for name in FEATURES.bit_columns() if packet_of(name) < 10]
    return [n for n in names if not recipe.is_dropped(n) and not any(p in n for p in PORTS)]


def read(runs: Path, out: Path) -> list[Call]:
    """All calls, kept beside the results."""
    kept = out / "calls.pickle"
    if not kept.exists():
        names = bit_names()
        calls = [load(folder, FEATURES, names) for folder in sorted(runs.glob("[0-9]*[0-9]"))]
        kept.write_bytes(pickle.dumps(calls))
    found: list[Call] = pickle.loads(kept.read_bytes())
    return found


def is_read(name: str, what: str, depth: int | str) -> bool:
    """Whether a number is among those that such a model reads."""
    is_packet = name.startswith("pkt")
    if is_packet:
        return depth != WHOLE and packet_of(name) < int(depth)
    if "_rtp_" in name and what != "rtp":
        return False
    return name.startswith("previous_") or depth == WHOLE


def matrix(calls: list[Call], what: str, depth: int | str) -> tuple[Array, list[str]]:
    """The values that such a model reads, of all calls, and their names."""
    if what == "bits":
        names = bit_names()
        chosen = [i for i, name in enumerate(names) if packet_of(name) < int(depth)]
        values = numpy.concatenate([call.bits[:, chosen] for call in calls])
    else:
        names = list(FEATURES.numbers)
        chosen = [i for i, name in enumerate(names) if is_read(name, what, depth)]
        values = numpy.concatenate([call.numbers[:, chosen] for call in calls])
    return values.astype(numpy.float32), [names[i] for i in chosen]


def calls_of(calls: list[Call]) -> Array:
    """Each second's call."""
    return numpy.concatenate([[i] * len(call.fps) for i, call in enumerate(calls)])


def sides(calls: list[Call], fold: int) -> tuple[Array, Array]:
    """Rows that train, and rows that test in a fold."""
    call_of = calls_of(calls)
    labels = numpy.concatenate([tier(call.fps) for call in calls])
    test = folds(labels, call_of, FOLD_COUNT, seed=1)[fold]
    return numpy.setdiff1d(numpy.arange(len(labels)), test), test


def leaky_sides(calls: list[Call]) -> tuple[Array, Array]:
    """The paper's shares, 50 and 40 of a hundred, of seconds in any order: what it looks like
    where seconds of one call train and test. The tenth between was its validation."""
    order = numpy.random.default_rng(1).permutation(sum(len(call.fps) for call in calls))
    return order[: len(order) // 2], order[len(order) * 6 // 10 :]


class Learner:
    """A model of one kind, trained on some seconds and asked about others."""

    def __init__(self, calls: list[Call], what: str, depth: int | str, name: str) -> None:
        self.values, self.columns = matrix(calls, what, depth)
        self.labels = numpy.concatenate([tier(call.fps) for call in calls])
        self.fps = numpy.concatenate([call.fps for call in calls])
        self.call_of, self.name = calls_of(calls), name
        self.training = Training(CLASSES, seed=1, threads=1, changed=CHANGED.get(name, {}))
        counted = COUNTED[depth] if name == COUNTS else ""
        self.kind: Any = family(name.removesuffix("-small")) if name != COUNTS else BoostedCounts(
            counted, BOUNDS
        )  # fmt: skip

    def fit(self, chosen: Array) -> tuple[Any, list[str]]:
        """The model, and the columns that it reads."""
        kept = Sifter().keep(self.values[chosen], self.columns)
        rows = self.rows(chosen, kept)
        if self.name == COUNTS:
            return self.kind.fit(rows, self.fps[chosen], self.training), kept
        return self.kind.fit(rows, self.training), kept

    def rows(self, chosen: Array, kept: list[str]) -> Rows:
        """Seconds as models see them."""
        places = [self.columns.index(name) for name in kept]
        weighting = "root" if self.name in WEIGHTED else "none"
        weights = class_weights(self.labels[chosen], len(CLASSES), weighting)
        values = self.values[numpy.ix_(chosen, places)]
        return Rows(values, kept, self.labels[chosen], weights, self.call_of[chosen])

    def said(self, training: Array, asked: Array) -> Array:
        """Probabilities of seconds by a model of others."""
        model, kept = self.fit(training)
        return numpy.asarray(self.kind.predict(model, self.rows(asked, kept)))

    def held_out(self, chosen: Array) -> Array:
        """Probabilities of each of these seconds by a model of the other calls among them."""
        scores = numpy.zeros((len(chosen), len(CLASSES)))
        for held in folds(self.labels[chosen], self.call_of[chosen], FOLD_COUNT, seed=1):
            scores[held] = self.said(numpy.delete(chosen, held), chosen[held])
        return scores


def train(calls: list[Call], out: Path, fold: int | str) -> None:
    """All models of a fold; what they say of the seconds that they have not learnt."""
    is_leaky = isinstance(fold, str)
    rest, test = leaky_sides(calls) if isinstance(fold, str) else sides(calls, fold)
    for what, depth, names in LEAKY_MODELS if is_leaky else MODELS:
        for name in names:
            path = out / f"{what}-{depth}-{name}-{fold}.npz"
            if path.exists():
                continue
            learner = Learner(calls, what, depth, name)
            kept = {"test": learner.said(rest, test)}
            if (what, depth, name) in STAGES and not is_leaky:
                kept["held_out"] = learner.held_out(rest)
            numpy.savez(path, **kept)
            right = (kept["test"].argmax(axis=1) == learner.labels[test]).mean()
            print(f"{path.stem}: accuracy {right:.3f}", flush=True)


def main() -> None:
    """The command line above."""
    what, runs, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    out.mkdir(parents=True, exist_ok=True)
    calls = read(runs, out)
    if what == "train":
        for fold in map(int, sys.argv[4:] or range(FOLD_COUNT)):
            train(calls, out, fold)
    elif what == "leaky":
        train(calls, out, "leaky")
    elif what == "artifact":
        from qoe_artifact import artifact

        artifact(calls, *map(Path, sys.argv[4:]))
    else:
        from qoe_report import report

        report(calls, out, Path(sys.argv[4]))


if __name__ == "__main__":
    main()
