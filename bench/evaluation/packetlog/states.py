"""What states of connections change, beside sums of a second.

    .venv/bin/python bench/evaluation/packetlog/states.py OUT CAPTURES RUNS
    .venv/bin/python bench/evaluation/packetlog/states.py OUT      prints tables of its rows.jsonl

RUNS has `attacks`, `services`, `attacks-quiet` and `attacks-heldout`: data sets of `wirelens
testbed make`. CAPTURES has `attacks`, `latency`, `services` and `devices`, captures with a
MANIFEST.tsv. Forests are trained on the first three and on benign captures of services and devices.
Folds leave out places whole, and runs; the threshold is the one at which so many benign packets of
folds are marked, places counting the same, and the captures of each. Only then the held-out runs
and the places of `places.py` are read. A row for each set of columns, shape of forest, seed and
rate.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import kept_rows
import numpy
import places
from by_capture import QUIET
from sklearn.metrics import roc_auc_score
from wirelens.learn.progress import Progress
from wirelens.packetlog import folds, forest, rows, train, truth
from wirelens.packetlog.forest import Shape
from wirelens.packetlog.rows import Rows
from wirelens.packetlog.snapshots import SnapshotOptions, state_columns
from wirelens.packetlog.truth import BENIGN, Capture

OPTIONS = SnapshotOptions(window="1s", keys=["flow", "source"], states=65_536)
ROWS_MAX = {"training": 200_000, "heldout": 80_000, "others": 80_000}
RATES = (0.02, 0.05)
SEEDS = (1, 2, 3)
SHAPES = (Shape(3, 7), Shape(10, 10))
FOLDS = 4
SUMS = ("flow_", "source_")


@dataclass(frozen=True)
class Setting:
    """What a forest may read, and whether quiet attacks are in training."""

    name: str
    columns: list[int]
    has_quiet: bool


def settings(names: Sequence[str]) -> list[Setting]:
    of_states = state_columns()
    allowed = [at for at, name in enumerate(names) if name not in train.PORTS]
    sums = [at for at in allowed if names[at] not in of_states]
    states = [at for at in allowed if names[at] in of_states or not names[at].startswith(SUMS)]
    return [
        Setting("sums", sums, False),
        Setting("states", states, False),
        Setting("sums, states", allowed, False),
        Setting("sums, quiet attacks", sums, True),
        Setting("sums, states, quiet attacks", allowed, True),
    ]


def folds_of(found: Rows, seed: int) -> numpy.ndarray:
    """Of each packet its fold; places of captures are in one fold, and so is each run."""
    groups = [capture.fold_group for capture in found.captures]
    distinct = sorted(set(groups))
    order = numpy.random.default_rng(seed).permutation(len(distinct))
    fold = {distinct[at]: number % FOLDS for number, at in enumerate(order)}
    return numpy.array([fold[group] for group in groups])[found.capture_of]


def values(found: Rows, columns: Sequence[int]) -> numpy.ndarray:
    return numpy.ascontiguousarray(found.values[:, list(columns)])


def grown(found: Rows, columns: Sequence[int], used: numpy.ndarray, how: tuple[Shape, int]):
    weights = folds.packet_weights(found, 1.0, used)[used]
    codes = found.is_anomalous[used].astype(numpy.int64)
    return forest.grow(values(found, columns)[used], codes, weights, 2, *how)


def thresholds(found: Rows, setting: Setting, used: numpy.ndarray, how: tuple[Shape, int]):
    """By rate the score above which so many benign packets of left-out places are."""
    fold = folds_of(found, how[1])
    scores = numpy.zeros(len(found))
    for number in range(FOLDS):
        mine = fold == number
        model = grown(found, setting.columns, used & ~mine, how)
        scores[mine] = model.predict_proba(values(found, setting.columns)[mine])[:, 1]
    weights = folds.benign_weights(found)
    order = numpy.argsort(-scores)
    above = numpy.cumsum(weights[order])
    return {rate: float(scores[order][numpy.searchsorted(above, rate)]) for rate in RATES}


def of_captures(found: Rows, of_packets: numpy.ndarray) -> numpy.ndarray:
    """Of each capture the mean of its packets; nothing where none was drawn."""
    counts = numpy.bincount(found.capture_of, weights=found.counts, minlength=len(found.captures))
    sums = numpy.bincount(found.capture_of, weights=found.counts * of_packets,
                          minlength=len(found.captures))  # fmt: skip
    return numpy.divide(sums, counts, out=numpy.full(len(counts), numpy.nan), where=counts > 0)


def at_others(others: Rows, scores: numpy.ndarray, threshold: float) -> dict[str, object]:
    """Places that trained nothing: benign packets marked, and areas by capture."""
    labels = numpy.array([capture.label for capture in others.captures])
    place_of = numpy.array([capture.family for capture in others.captures])
    marked, mean = of_captures(others, scores > threshold), of_captures(others, scores)
    benign = (labels == BENIGN) & ~numpy.isnan(mean)
    by_place = {str(place): float(marked[benign & (place_of == place)].mean())
                for place in dict.fromkeys(place_of[benign])}  # fmt: skip
    weights = numpy.array(
        [1 / (benign & (place_of == place)).sum() for place in place_of[benign]]
    )
    areas = {}
    for family in dict.fromkeys(labels[~benign]):
        mine = (labels == family) & ~numpy.isnan(mean)
        truths = numpy.repeat([0, 1], [benign.sum(), mine.sum()])
        each = numpy.full(mine.sum(), 1 / mine.sum())
        weight = numpy.concatenate([weights / weights.sum(), each])
        both = numpy.concatenate([mean[benign], mean[mine]])
        areas[str(family)] = float(roc_auc_score(truths, both, sample_weight=weight))
    return {"benign_by_place": by_place, "auc_by_family": areas}


def measure(captures: Path, runs: Path) -> list[dict[str, object]]:
    progress = Progress(False)
    names = OPTIONS.columns()
    def drawn(some: Sequence[Capture], kind: str) -> Rows:
        return rows.load(some, OPTIONS, names, ROWS_MAX[kind], 1, progress.show)

    training = drawn(
        truth.captures([runs / name for name in ("attacks", "services", "attacks-quiet")],
                       [captures / "services", captures / "devices"]), "training")  # fmt: skip
    is_quiet = numpy.array([place == "attacks-quiet" for place in training.places])
    quiet = is_quiet[training.capture_of]
    heldout = drawn(truth.captures([runs / "attacks-heldout"]), "heldout")
    others = drawn(
        [Capture(Path(row["path"]), row["file"], row["source_repo"], "file", label=row["label"])
         for row in places.chosen(captures)], "others")  # fmt: skip
    found = []
    for setting in settings(names):
        used = numpy.full(len(training), True) if setting.has_quiet else ~quiet
        for shape in SHAPES:
            for seed in SEEDS:
                how = (shape, seed)
                at = thresholds(training, setting, used, how)
                model = grown(training, setting.columns, used, how)
                held, other = (model.predict_proba(values(some, setting.columns))[:, 1]
                               for some in (heldout, others))  # fmt: skip
                for rate, threshold in at.items():
                    found.append({
                        "columns": setting.name, "trees": shape.trees, "depth": shape.depth,
                        "seed": seed, "rate": rate, "threshold": threshold,
                        "recalls": folds.recalls(heldout, held > threshold),
                        "heldout_benign": folds.false_alarms(heldout, held > threshold),
                        **at_others(others, other, threshold),
                    })  # fmt: skip
                    print(json.dumps(found[-1]), file=sys.stderr, flush=True)
    return found


def spread(numbers: Sequence[float], form: str) -> str:
    low, high = min(numbers), max(numbers)
    return f"{numpy.mean(numbers):{form}} ({low:{form}}–{high:{form}})"


def tables(found: Sequence[dict]) -> str:
    """Means over seeds, their extremes in brackets."""
    head = ["columns", "forest", "asked", "held out: mean recall", "to 0.85", "benign marked",
            "other places: benign marked", "quiet families: mean AUC"]  # fmt: skip
    lines = [f"| {' | '.join(head)} |", "|---|---|---:|" + "---:|" * 5]
    groups: dict[tuple, list[dict]] = {}
    for row in found:
        groups.setdefault((row["columns"], row["trees"], row["depth"], row["rate"]), []).append(row)
    for (columns, trees, depth, rate), mine in groups.items():
        recalls = [list(row["recalls"].values()) for row in mine]
        areas = [[area for family, area in row["auc_by_family"].items() if family in QUIET]
                 for row in mine]  # fmt: skip
        cells = [
            columns, f"{trees} × {depth}", f"{rate:.0%}",
            spread([numpy.mean(one) for one in recalls], ".3f"),
            "/".join(str(sum(value >= 0.85 for value in one)) for one in recalls)
            + f" of {len(recalls[0])}",
            spread([row["heldout_benign"] for row in mine], ".1%"),
            spread([numpy.mean(list(row["benign_by_place"].values())) for row in mine], ".1%"),
            spread([numpy.mean(one) for one in areas], ".2f"),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    kept_rows.show("States beside sums", tables, measure, len(SEEDS))
