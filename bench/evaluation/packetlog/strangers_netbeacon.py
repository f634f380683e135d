"""NetBeacon at places that trained nothing, as `strangers.py` judges the forest that ships.

    ASKED_BY=NAME PURPOSE=TEXT .venv/bin/python bench/evaluation/packetlog/strangers_netbeacon.py \
        OUT DATA
    .venv/bin/python bench/evaluation/packetlog/strangers_netbeacon.py OUT   prints the table

DATA has what `models/make.sh packetlog` reads. Two variants are trained as the model that ships is:
anomalous packets count as much as benign ones, and the threshold marks 3 % of the benign packets by
the same folds.

- netbeacon: on all captures that train the model that ships, with forests of its shape and as many
  rows
- netbeacon, runs alone: on the runs among them, with the shape and the rows of `wirelens eval
  packetlog`, whose folds chose that weight as well

`training.jsonl` has what folds say, a row a variant. `rows.jsonl` has a row a capture: of each
variant how many packets are marked, and the histogram of the probability of an attack, as
`strangers.py` has it. Sealed places are among the captures: all is trained before the first of
these is read, which is one row of `readings.tsv`, written first. The table joins these rows with
those of the forest that ships.
"""

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import by_capture
import kept_rows
import numpy
import sealed
from places import ROOT, chosen, listed, trained_on
from wirelens.learn.progress import Progress
from wirelens.packetlog import folds, netbeacon, train, truth
from wirelens.packetlog.forest import Shape
from wirelens.packetlog.netbeacon import NetBeacon
from wirelens.packetlog.truth import BENIGN, Capture

RUNS = ("attacks", "attacks-quiet", "attacks-forged", "services")
BENIGN_KINDS = ("services", "devices", "latency")
# As `models/make.sh packetlog` has them.
SEALED = 0.2
FOLDS = 5
WEIGHT = 1.0
VARIANTS = (
    (by_capture.NETBEACON, Shape(10, 10), 240_000),
    (by_capture.RUNS_ALONE, Shape(), 200_000),
)
SEED = 1
Row = dict[str, object]


def training(data: Path) -> list[Capture]:
    """The captures that train the model that ships."""
    captures = data / "captures"
    found = truth.captures(
        [data / name for name in RUNS], [captures / kind for kind in BENIGN_KINDS]
    )
    seen = {row["sha1_blob"] for kind in BENIGN_KINDS for row in listed(captures / kind)}
    for row in listed(captures / "attacks"):
        if row["label"] == BENIGN and row["sha1_blob"] not in seen:
            path = captures / "attacks" / row["file"]
            found.append(Capture(path, row["file"], row["source_repo"], "file"))
    found = [one for one in found if not one.is_sealed(SEALED)]
    places = {one.place for one in found}
    if places != trained_on():
        raise ValueError(f"trained on {places}; wanted: {trained_on()}, as in the model's card")
    return found


def trained(
    captures: Sequence[Capture], shape: Shape, rows_max: int, progress: Progress
) -> tuple[NetBeacon, Row]:
    """Forests with the threshold of folds, and what folds say."""
    found = netbeacon.load(captures, rows_max, SEED, progress.show)
    # Sets of attacks that are left out would choose a weight, and this one is given.
    plan = folds.plan(found, FOLDS, 0, SEED)
    crossed = folds.cross(found, plan, WEIGHT, shape, SEED, progress.show, netbeacon.judged)
    one = train.told(found, WEIGHT, crossed, train.FALSE_ALARMS["attacks"])
    used = numpy.ones(len(found), dtype=bool)
    grown = NetBeacon.grown(found, used, WEIGHT, shape, SEED)
    return grown, {
        "seed": SEED, "trees": shape.trees, "depth": shape.depth, "captures": len(captures),
        "packets": round(float(found.counts.sum())), "rows": len(found), "weight": WEIGHT,
        "threshold": one.threshold, "false_alarms": one.false_alarms,
        "mean_known": one.mean_known, "false_alarms_by_place": one.places,
    }  # fmt: skip


def recorded(models: Sequence[NetBeacon], captures: Sequence[dict[str, str]]) -> None:
    """Writes the row of the reading; its SHA-256 is that of all forests together."""
    trees = [
        {phase: one.to_json() for phase, one in model.forests.items()} for model in models
    ]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "netbeacon" / "model.json"
        file.parent.mkdir()
        file.write_text(json.dumps(trees))
        files = [Path(capture["path"]) for capture in captures]
        sealed.record(file, files, os.environ.get("ASKED_BY", ""), os.environ.get("PURPOSE", ""))


def judged(
    models: Sequence[NetBeacon], facts: Sequence[Row], path: Path
) -> tuple[int, list[Row]]:
    """How many packets there are, and of each model how many it marks and their histogram."""
    units = netbeacon.units(Capture(path, path.name, path.name, "file"))
    found: list[Row] = []
    for model, fact in zip(models, facts, strict=True):
        scores = model.scores(units.values)[units.unit_of]
        bins = (scores * by_capture.BINS).astype(int).clip(0, by_capture.BINS - 1)
        found.append({
            "judge": fact["judge"],
            "marked": int((scores > fact["threshold"]).sum()),
            "bins": numpy.bincount(bins, minlength=by_capture.BINS).tolist(),
        })  # fmt: skip
    return len(units.unit_of), found


def measure(data: Path) -> list[Row]:
    progress = Progress()
    learned = training(data)
    models, facts = [], []
    for variant, shape, rows_max in VARIANTS:
        is_whole = variant == by_capture.NETBEACON
        mine = [one for one in learned if is_whole or one.kind != "file"]
        progress.tell(f"{variant}: {len(mine)} captures")
        model, fact = trained(mine, shape, rows_max, progress)
        models.append(model)
        facts.append({"judge": variant, **fact})
    text = "".join(json.dumps(fact) + "\n" for fact in facts)
    (Path(sys.argv[1]) / "training.jsonl").write_text(text)
    captures = chosen(data / "captures")
    recorded(models, captures)
    found = []
    for capture in captures:
        packets, of_it = judged(models, facts, Path(capture["path"]))
        if packets:
            found.append({
                "file": f"{capture['kind']}/{capture['file']}", "source": capture["source_repo"],
                "sha1_blob": capture["sha1_blob"], "label": capture["label"], "packets": packets,
                "judged": of_it,
            })  # fmt: skip
    return found


def tables(rows: Sequence[Row]) -> str:
    return by_capture.tables(by_capture.ships(ROOT), rows)


if __name__ == "__main__":
    kept_rows.show("NetBeacon at places that trained nothing", tables, measure)
