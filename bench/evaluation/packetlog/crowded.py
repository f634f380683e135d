"""A model of the packet log under ever smaller sketches: what more flows do to it (Table IX).

    .venv/bin/python bench/evaluation/packetlog/crowded.py OUT.jsonl MODEL RUNS...

As many flows in a quarter of the buckets crowd a sketch as four times the flows do. A row a size:
buckets, flows alive in a window for each bucket, how many packets found no flow, and how good the
model is. Nothing is trained anew; the file's own size is the first.
"""

import dataclasses
import json
import sys
import tempfile
from pathlib import Path

import numpy
from wirelens.packetlog import evaluate, measure, model, rows, truth
from wirelens.packetlog.snapshots import SnapshotOptions

BUCKETS = (65_536, 4096, 1024, 512, 256, 128, 64)
BEGINS = "flow_packets"


def most_alive(captures, window):
    """Flows alive in the fullest window, and the mean over captures of their fullest ones."""
    found = []
    for capture in captures:
        options = SnapshotOptions(source="exact", window=window, keys=["flow"])
        labels = truth.read(capture)
        begun = numpy.zeros(len(labels))
        for where, values, _ in rows.each(capture, labels, options, [BEGINS]):
            begun[where] = values[:, 0] == 1
        times = stamps(capture)
        windows = times // options.to_json()["window_ns"]
        found.append(numpy.bincount(windows - windows.min(), weights=begun).max())
    return max(found), float(numpy.mean(found))


def stamps(capture):
    """When each packet came."""
    from wirelens.packetlog import snapshots

    options = SnapshotOptions(keys=[])
    batches = snapshots(capture.path, options, columns=["wire_bytes"])
    return numpy.concatenate([numpy.array(batch.timestamps_ns) for batch in batches])


def judged(one, captures):
    """How good a model is, and the part of packets of flows that had no place."""
    parts, lost, total = [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        model.write(one, "", Path(folder))
        judge = evaluate.of_model(Path(folder) / model.MODEL_FILE)
        for capture in captures:
            found = truth.read(capture)
            sizes = evaluate.values_of(
                capture, found, SnapshotOptions(keys=[]), measure.SIZE_COLUMNS
            )
            parts += measure.parts(capture, found, sizes, {"model": judge(capture, found)})
            for _, values, holds_flow in rows.each(capture, found, one.options, [BEGINS]):
                lost += int((~holds_flow).sum())
                total += len(values)
    return measure.quality(parts, "model"), lost / total


def main():
    """Goes through the sizes."""
    output, folder = Path(sys.argv[1]), Path(sys.argv[2])
    captures = truth.captures([Path(place) for place in sys.argv[3:]])
    one = model.read(folder)
    window = f"{one.options.to_json()['window_ns']}ns"
    most, mean = most_alive(captures, window)
    with output.open("w") as lines:
        for buckets in BUCKETS:
            smaller = dataclasses.replace(one, options=one.options.replace(buckets=buckets))
            quality, without_flow = judged(smaller, captures)
            all_buckets = buckets * one.options.layers
            row = {
                "buckets": buckets, "layers": one.options.layers, "flows_alive_max": most,
                "flows_alive_max_mean": mean, "flows_a_bucket": mean / all_buckets,
                "without_flow": without_flow, "precision": quality.precision,
                "recall": quality.recall, "mean_recall": quality.mean_recall,
                "found": quality.found(0.85), "attacks": len(quality.recalls),
                "accuracy": quality.accuracy, "false_alarms": quality.false_alarms,
                "recalls": quality.recalls,
            }  # fmt: skip
            lines.write(json.dumps(row) + "\n")
            shown = {name: value for name, value in row.items() if name != "recalls"}
            print(json.dumps(shown), flush=True)


main()
