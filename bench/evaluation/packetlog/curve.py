"""Recall of attacks by how many benign packets may be marked, ours beside NetBeacon's.

    .venv/bin/python bench/evaluation/packetlog/curve.py OUT.jsonl HELD-OUT TRAINING...
    .venv/bin/python bench/evaluation/packetlog/curve.py OUT.jsonl          prints the table

Both choose weight and threshold by the same folds of the training runs, for each rate that is
asked for, and are judged on the held-out runs at that threshold: nothing is chosen by these. A
row a rate, judge and seed. As many packets are drawn for both.
"""

import json
import sys
from pathlib import Path

import numpy
from wirelens.learn.progress import Progress
from wirelens.packetlog import folds, measure, netbeacon, rows, train, truth
from wirelens.packetlog.forest import Shape
from wirelens.packetlog.snapshots import SnapshotOptions

ALARMS = (0.01, 0.02, 0.03, 0.05, 0.08, 0.10)
ROWS_MAX = 100_000
SEEDS = (1, 2, 3)
OPTIONS = SnapshotOptions(window="1s", keys=["flow", "source"])
SHAPE = Shape()
OURS, NETBEACON = "ours", "netbeacon"


def chosen_by_folds(drawn, judge, seed, progress):
    """Of each rate the weight and threshold that folds choose."""
    plan = folds.plan(drawn, 3, 4, seed)
    tried = {wanted: [] for wanted in ALARMS}
    for weight in train.WEIGHTS:
        crossed = folds.cross(drawn, plan, weight, SHAPE, seed, progress.show, judge)
        for wanted, found in tried.items():
            found.append(train.told(drawn, weight, crossed, wanted))
        unseen = " ".join(f"{found[-1].mean_unseen:.3f}" for found in tried.values())
        progress.tell(f"weight {weight:g}: unseen {unseen}")
    return {wanted: train.choose(found, wanted) for wanted, found in tried.items()}


def ours(captures, seed, progress):
    """Of each rate what folds chose, and what then scores a capture."""
    names = [name for name in OPTIONS.columns() if name not in train.PORTS]
    drawn = rows.load(captures, OPTIONS, names, ROWS_MAX, seed, progress.show)
    chosen = chosen_by_folds(drawn, None, seed, progress)
    request = train.Request([], Path(), options=OPTIONS, seed=seed)
    forests = {
        one.weight: train.grow(drawn, names, request, train.Trial(one.weight, 0, {}, {}, 0))
        for one in chosen.values()
    }

    def score(capture, found):
        of_weight = {weight: numpy.zeros(len(found)) for weight in forests}
        for where, values, holds_flow in rows.each(capture, found, OPTIONS, names):
            for weight, (flow, packet) in forests.items():
                mine = numpy.empty(len(values))
                mine[holds_flow] = flow.probabilities(values[holds_flow])[:, 1]
                mine[~holds_flow] = packet.probabilities(values[~holds_flow])[:, 1]
                of_weight[weight][where] = mine
        return of_weight

    return chosen, score


def other(captures, seed, progress):
    """Likewise of NetBeacon."""
    drawn = netbeacon.load(captures, ROWS_MAX, seed, progress.show)
    chosen = chosen_by_folds(drawn, netbeacon.judged, seed, progress)
    used = numpy.ones(len(drawn), dtype=bool)
    grown = {
        one.weight: netbeacon.NetBeacon.grown(drawn, used, one.weight, SHAPE, seed)
        for one in chosen.values()
    }

    def score(capture, found):
        units = netbeacon.units(capture)
        return {weight: one.scores(units.values)[units.unit_of] for weight, one in grown.items()}

    return chosen, score


def judged(heldout, judges, progress):
    """Packets of held-out captures added up, by judge and rate."""
    made = []
    for index, capture in enumerate(heldout):
        progress.show(index, len(heldout), capture.name)
        found = truth.read(capture)
        sizes = numpy.concatenate([
            values for _, values, _ in rows.each(
                capture, found, SnapshotOptions(keys=[]), measure.SIZE_COLUMNS)
        ])  # fmt: skip
        marks = {}
        for name, (chosen, score) in judges.items():
            scores = score(capture, found)
            for wanted, one in chosen.items():
                marks[f"{name} {wanted}"] = scores[one.weight] > one.threshold
        made += measure.parts(capture, found, sizes, marks)
    return made


def row(name, seed, wanted, one, made):
    """What is kept of a judge at a rate."""
    key = f"{name} {wanted}"
    quality = measure.quality(made, key)
    return {
        "judge": name, "seed": seed, "asked": wanted, "weight": one.weight,
        "threshold": one.threshold, "folds_marked": one.false_alarms,
        "folds_known": one.mean_known, "folds_unseen": one.mean_unseen,
        "folds_unseen_found": sum(recall >= 0.85 for recall in one.unseen.values()),
        "recall": quality.mean_recall, "found": quality.found(0.85),
        "attacks": len(quality.recalls), "recall_packets": quality.recall,
        "precision": quality.precision, "precision_if_rare": quality.precision_if_rare,
        "accuracy": quality.accuracy, "benign_marked": quality.false_alarms,
        "kept_bytes": {mode: measure.kept(made, key, mode)[1] for mode in measure.MODES},
        "recalls": quality.recalls,
    }  # fmt: skip


def table(found):
    """The rows as a table: means over seeds."""
    print(
        "| asked | judge | by folds: unseen (to 0.85) | held out: mean recall | to 0.85 | "
        "precision | at 1 % | accuracy | benign marked | bytes, default | bytes, log-minimum |"
    )
    print("|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for wanted in ALARMS:
        for name in (OURS, NETBEACON):
            mine = [one for one in found if (one["asked"], one["judge"]) == (wanted, name)]
            if not mine:
                continue

            def mean(of, mine=mine):
                return numpy.mean([of(one) for one in mine])

            counts = "/".join(str(one["found"]) for one in mine)
            cells = [
                f"{wanted:.0%}", name, f"{mean(lambda one: one['folds_unseen']):.3f} "
                f"({mean(lambda one: one['folds_unseen_found']):.1f})",
                f"{mean(lambda one: one['recall']):.3f}", f"{counts} of {mine[0]['attacks']}",
                f"{mean(lambda one: one['precision']):.3f}",
                f"{mean(lambda one: one['precision_if_rare']):.3f}",
                f"{mean(lambda one: one['accuracy']):.3f}",
                f"{mean(lambda one: one['benign_marked']):.1%}",
                f"{mean(lambda one: one['kept_bytes']['default']):.1%}",
                f"{mean(lambda one: one['kept_bytes']['log-minimum']):.1%}",
            ]  # fmt: skip
            print(f"| {' | '.join(cells)} |")


def main():
    """Trains, judges and writes."""
    output, places = Path(sys.argv[1]), [Path(place) for place in sys.argv[2:]]
    if places:
        progress = Progress()
        heldout, captures = truth.captures(places[:1]), truth.captures(places[1:])
        with output.open("a") as lines:
            for seed in SEEDS:
                judges = {
                    OURS: ours(captures, seed, progress),
                    NETBEACON: other(captures, seed, progress),
                }
                made = judged(heldout, judges, progress)
                for name, (chosen, _) in judges.items():
                    for wanted, one in chosen.items():
                        lines.write(json.dumps(row(name, seed, wanted, one, made)) + "\n")
                lines.flush()
    table([json.loads(line) for line in output.read_text().splitlines()])


main()
