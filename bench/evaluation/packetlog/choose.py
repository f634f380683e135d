"""Which features the packet log's forests should have: recall at the same false alarms, by folds.

    .venv/bin/python bench/evaluation/packetlog/choose.py OUT.jsonl RUNS...
    .venv/bin/python bench/evaluation/packetlog/choose.py OUT.jsonl          prints the table

Runs are those of testbed/datasets/attacks.toml and services.toml; held-out runs must not be among
them. A row a setting: of attacks the mean recall, attacks known to the forest or not, at the
threshold at which as many benign packets are marked (captures counting the same). OUT.jsonl
grows; settings that it has are left out, so that a run that was cut off goes on.
"""

import json
import sys
import time
from pathlib import Path

import numpy
from wirelens.learn.progress import Progress
from wirelens.packetlog import folds, netbeacon, rows, train, truth
from wirelens.packetlog.forest import Shape
from wirelens.packetlog.snapshots import SnapshotOptions

ALARMS = (0.005, 0.01, 0.02, 0.03, 0.05)
ROWS_MAX = 100_000
SEEDS = (1, 2)
FLOW, SOURCE, BOTH = "flow", "flow,source", "flow,source,destination"
PAPER = Shape()


def settings():
    """Each setting: features, window, keys, ports, shape; the most telling ones first."""
    for window in ("10ms", "1s", "4s", "100ms", "10s"):
        for keys in (FLOW, SOURCE, BOTH):
            yield "exact", window, keys, False, PAPER
        if window == "1s":
            yield "sketch", "1s", SOURCE, False, PAPER
            yield "exact", "1s", SOURCE, True, PAPER
            yield "netbeacon", "flow", FLOW, False, PAPER
        if window == "10ms":
            yield "sketch", "10ms", FLOW, False, PAPER
            yield "exact", "10ms", FLOW, True, PAPER
    yield "sketch", "4s", SOURCE, False, PAPER
    for shape in (Shape(3, 7, 0.14), Shape(3, 10), Shape(10, 7), Shape(30, 7), Shape(30, 12)):
        yield "exact", "1s", SOURCE, False, shape
    yield "netbeacon", "flow", FLOW, False, Shape(30, 7)


def thresholds(drawn, scores):
    """The thresholds at which so many benign packets are marked."""
    benign = numpy.unique(scores[~drawn.is_anomalous])
    steps = benign[:: max(len(benign) // 400, 1)]
    alarms = numpy.array([folds.false_alarms(drawn, scores > step) for step in steps])
    return [float(steps[int(numpy.argmax(alarms <= wanted))]) if (alarms <= wanted).any() else 1.0
            for wanted in ALARMS]  # fmt: skip


def judged(drawn, shape, judge):
    """Of each way and rate of false alarms the recall of each attack, mean over seeds."""
    plan = folds.plan(drawn, 3, 4, 1)
    found = {"known": {}, "unseen": {}}
    for seed in SEEDS:
        crossed = folds.cross(drawn, plan, 1.0, shape, seed, judged=judge)
        for way, of_way in found.items():
            scores = getattr(crossed, way)
            for wanted, at in zip(ALARMS, thresholds(drawn, scores), strict=True):
                for label, recall in folds.recalls(drawn, scores > at).items():
                    by_label = of_way.setdefault(str(wanted), {})
                    by_label[label] = by_label.get(label, 0) + recall / len(SEEDS)
    return found


def table(found):
    """The rows as a table; of attacks the mean recall, and how many are found to 0.85."""
    print("| features | window | sums of | ports | forest | known, 1 % | known, 3 % | "
          "unseen, 1 % | unseen, 3 % |")  # fmt: skip
    print("|---|---|---|---|---|---:|---:|---:|---:|")
    order = {"exact": 0, "sketch": 1, "netbeacon": 2}
    windows = ["10ms", "100ms", "1s", "4s", "10s", "flow"]
    found.sort(
        key=lambda row: (
            order[row["features"]], row["trees"] * 2 ** row["depth"],
            windows.index(row["window"]), row["ports"], row["keys"],
        )
    )  # fmt: skip
    for row in found:
        cells = [row["features"], row["window"], row["keys"].replace(",", ", "),
                 "yes" if row["ports"] else "no", f"{row['trees']} × {row['depth']}"]  # fmt: skip
        if row["columns_part"] != PAPER.columns_part:
            cells[-1] += f", {row['columns_part']:g} of columns"
        for way in ("known", "unseen"):
            for alarms in ("0.01", "0.03"):
                recalls = list(row[way][alarms].values())
                above = sum(recall >= 0.85 for recall in recalls)
                cells.append(f"{numpy.mean(recalls):.3f} ({above})")
        print(f"| {' | '.join(cells)} |")


def main():
    """Goes through the settings."""
    output, places = Path(sys.argv[1]), [Path(place) for place in sys.argv[2:]]
    if not places:
        table([json.loads(line) for line in output.read_text().splitlines()])
        return
    captures = truth.captures(places)
    progress = Progress()
    done = set()
    if output.exists():
        done = {json.loads(line)["name"] for line in output.read_text().splitlines()}
    for features, window, keys, has_ports, shape in settings():
        name = f"{features} {window} {keys}{' ports' if has_ports else ''}"
        name += f" {shape.trees}x{shape.depth} {shape.columns_part:g}"
        if name in done:
            continue
        started_s = time.monotonic()
        if features == "netbeacon":
            drawn, judge = netbeacon.load(captures, ROWS_MAX, 1, progress.show), netbeacon.judged
        else:
            options = SnapshotOptions(source=features, window=window, keys=keys.split(","))
            left_out = () if has_ports else train.PORTS
            names = [column for column in options.columns() if column not in left_out]
            drawn, judge = rows.load(captures, options, names, ROWS_MAX, 1, progress.show), None
        found = judged(drawn, shape, judge)
        row = {
            "name": name, "features": features, "window": window, "keys": keys,
            "ports": has_ports, "trees": shape.trees, "depth": shape.depth,
            "columns_part": shape.columns_part, "captures": len(captures), "rows": len(drawn),
            "attacks": len(found["known"][str(ALARMS[0])]), **found,
        }  # fmt: skip
        with output.open("a") as lines:
            lines.write(json.dumps(row) + "\n")
        told = []
        for way, of_way in found.items():
            recalls = list(of_way["0.03"].values())
            above = sum(recall >= 0.85 for recall in recalls)
            told.append(f"{way} {numpy.mean(recalls):.3f} ({above} of {len(recalls)})")
        progress.tell(f"{name}: at 3 %: {', '.join(told)}; {time.monotonic() - started_s:.0f} s")


main()
