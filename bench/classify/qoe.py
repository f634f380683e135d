"""Trains and tests models of video frame rate on the testbed's calls, second by second.

    python bench/classify/qoe.py train RUNS OUT [FOLD …]   models by fold, resumed where it was left
    python bench/classify/qoe.py leaky RUNS OUT            some with seconds of a call on both sides
    python bench/classify/qoe.py report RUNS OUT RESULTS   tables and rows of them
    python bench/classify/qoe.py artifact RUNS OUT FOLDER  a cascade of all calls

RUNS is the folder of `wirelens testbed make testbed/datasets/calls.toml`. Calls are never
divided: each is held out in one of five folds, and of those that are left two choose thresholds
and the rest train.
"""

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy
from qoe_data import CLASSES, Call, load, tier
from wirelens.classify.families import Rows, Training, family
from wirelens.classify.recipe import Recipe, Sifter, packet_of
from wirelens.classify.split import folds
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
# What is read, how many packets of the window (or all of it), and which families learn it.
MODELS = [
    *(("numbers", depth, ALL) for depth in (1, WHOLE)),
    *(("rtp", depth, ALL) for depth in (1, WHOLE)),
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


def sides(calls: list[Call], fold: int) -> tuple[Array, Array, Array]:
    """Rows that train, that choose thresholds and that test in a fold."""
    call_of = numpy.concatenate([[i] * len(call.fps) for i, call in enumerate(calls)])
    labels = numpy.concatenate([tier(call.fps) for call in calls])
    held_out = folds(labels, call_of, FOLD_COUNT, seed=1)
    test = held_out[fold]
    # Two calls of the next fold.
    choosing = numpy.unique(call_of[held_out[(fold + 1) % FOLD_COUNT]])[:2]
    chooses = numpy.flatnonzero(numpy.isin(call_of, choosing))
    rest = numpy.setdiff1d(numpy.arange(len(labels)), numpy.concatenate([test, chooses]))
    return rest, chooses, test


def leaky_sides(calls: list[Call]) -> tuple[Array, Array, Array]:
    """The paper's shares, 50, 10 and 40 of a hundred, of seconds in any order: what it looks like
    where seconds of one call train and test."""
    order = numpy.random.default_rng(1).permutation(sum(len(call.fps) for call in calls))
    first, second = len(order) // 2, len(order) * 6 // 10
    return order[:first], order[first:second], order[second:]


def train(calls: list[Call], out: Path, fold: int | str) -> None:
    """All models of a fold; what they say of the seconds that they have not learnt."""
    labels = numpy.concatenate([tier(call.fps) for call in calls])
    is_leaky = isinstance(fold, str)
    rest, chooses, test = leaky_sides(calls) if isinstance(fold, str) else sides(calls, fold)
    for what, depth, names in LEAKY_MODELS if is_leaky else MODELS:
        values, columns = matrix(calls, what, depth)
        kept = Sifter().keep(values[rest], columns)
        places = [columns.index(name) for name in kept]
        values = values[:, places]
        for name in names:
            path = out / f"{what}-{depth}-{name}-{fold}.npz"
            if path.exists():
                continue
            kind = family(name)
            training = Training(CLASSES, seed=1, threads=1, changed=CHANGED.get(name, {}))
            rows = Rows(values[rest], kept, labels[rest], numpy.ones(len(rest)))
            model = kind.fit(rows, training)
            said = [
                kind.predict(model, Rows(values[s], kept, labels[s], numpy.ones(len(s))))
                for s in (chooses, test)
            ]
            numpy.savez(path, chooses=said[0], test=said[1], columns=len(kept))
            right = (said[1].argmax(axis=1) == labels[test]).mean()
            print(f"{path.stem}: {len(kept)} columns, accuracy {right:.3f}", flush=True)


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

        artifact(calls, Path(sys.argv[4]))
    else:
        from qoe_report import report

        report(calls, out, Path(sys.argv[4]))


if __name__ == "__main__":
    main()
