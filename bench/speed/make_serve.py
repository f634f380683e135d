"""Makes the cascades that `wirelens-bench serve` measures, of what bench/speed/train_trees.py made.

    .venv/bin/python bench/speed/make_serve.py CAPTURE

A decision tree, then LightGBM on one packet, then LightGBM on ten. Thresholds are set so that of
the capture's flows half go on to the second model and 24 in a hundred to the third, as in the
paper; or all of them to all. These models were trained on other traffic, so what they say of these
flows means nothing. Written to bench/data/serve/portions and bench/data/serve/all: an artifact
each (docs/specs/cascade.md), and of each stage STAGE.onnx and STAGE.columns.
"""

import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy
from train_trees import FOLDER as MODELS
from wirelens import trees
from wirelens.classify.features import FlowFeatures, first_packets

FOLDER = Path("bench/data/serve")
RECORD_LEN = 144
# Stage, family, the model's name, and the share of all flows of which it is not sure.
STAGES: list[tuple[str, str, str, float]] = [
    ("fastest", "decision-tree", "tree", 0.5),
    ("fast", "lightgbm", "lightgbm", 0.24),
    ("slow", "lightgbm", "lightgbm-10", 0.0),
]


def thresholds(forests: list[trees.Forest], records: Any) -> list[float]:
    """How unsure each model but the last may be, one behind the other."""
    found, left = [], numpy.arange(len(records))
    for forest, (stage, _, _, share) in zip(forests[:-1], STAGES, strict=False):
        rows = numpy.ascontiguousarray(records[left, : forest.packet_count])
        unsure = 1 - numpy.asarray(trees.score(forest, rows.tobytes())).max(axis=1)
        kept = round(share * len(records))
        # Leaves of one tree are few, so many flows are as unsure as each other.
        values = numpy.unique(unsure)
        above = [abs(int((unsure > value).sum()) - kept) for value in values]
        threshold = float(values[int(numpy.argmin(above))])
        left = left[unsure > threshold]
        print(f"{stage}: {len(left) / len(records):.3f} of the flows go on")
        found.append(threshold)
    return found


def write_cascade(folder: Path, forests: list[trees.Forest], limits: list[float | None]) -> None:
    """What docs/specs/cascade.md wants beside the models."""
    stages = []
    for (stage, family, _, _), forest, limit in zip(STAGES, forests, limits, strict=True):
        told: dict[str, Any] = {"stage": stage, "family": family, "packets": forest.packet_count}
        told["file"] = f"{stage}.trees.jsonl"
        if limit is not None:
            told |= {"uncertainty": "least-confidence", "threshold": limit}
        stages.append(told)
    cascade = {
        "format": "wirelens cascade",
        "version": 1,
        "name": f"bench-{folder.name}",
        "kind": "flows",
        "classes": forests[0].classes,
        "flows": {"idle_timeout_ns": 120 * 10**9, "active_timeout_ns": 1_800 * 10**9},
        "wait_ns": 10 * 10**9,
        "segmentation": "single",
        "stages": stages,
    }
    (folder / "cascade.json").write_text(json.dumps(cascade, indent=1) + "\n")
    names = ["cascade.json", *(f"{stage}.trees.jsonl" for stage, *_ in STAGES)]
    sums = [(hashlib.sha256((folder / name).read_bytes()).hexdigest(), name) for name in names]
    (folder / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for digest, name in sums))


def main() -> None:
    """Writes both cascades."""
    forests = [trees.load(MODELS / f"{model}.trees.jsonl") for _, _, model, _ in STAGES]
    depth = max(forest.packet_count for forest in forests)
    table = first_packets(sys.argv[1], FlowFeatures(packets=depth))
    records = numpy.frombuffer(table.records, numpy.uint8).reshape(len(table), depth, RECORD_LEN)
    limits = thresholds(forests, records)
    for name, chosen in (("portions", limits), ("all", [-1.0] * len(limits))):
        folder = FOLDER / name
        folder.mkdir(parents=True, exist_ok=True)
        for stage, _, model, _ in STAGES:
            for suffix in (".trees.jsonl", ".onnx", ".columns"):
                shutil.copyfile(MODELS / f"{model}{suffix}", folder / f"{stage}{suffix}")
        write_cascade(folder, forests, [*chosen, None])


if __name__ == "__main__":
    main()
