"""Judges models of the packet log on labelled captures, beside NetBeacon and two rules."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy

from wirelens import written
from wirelens.learn.metrics import Array
from wirelens.learn.progress import Progress
from wirelens.packetlog import folds, measure, model, netbeacon, plots, report, rows, truth
from wirelens.packetlog.forest import Shape
from wirelens.packetlog.judged import judgements
from wirelens.packetlog.measure import SIZE_COLUMNS, Part
from wirelens.packetlog.model import Model
from wirelens.packetlog.rows import Rows
from wirelens.packetlog.snapshots import SnapshotOptions
from wirelens.packetlog.train import FALSE_ALARMS, WEIGHTS, Trial, choose, tried_by
from wirelens.packetlog.truth import Capture, Truth

EVERYTHING = "everything"
PORT_RULE = "ports"
NETBEACON = "netbeacon"
_PORT_COLUMNS = ("protocol", "lower_port")
_PORT_MAX = 65_536


@dataclass(frozen=True)
class Request:
    """What is asked of an evaluation."""

    places: list[Path]
    models: list[Path]
    benign: list[Path] = field(default_factory=list)
    # Captures that baselines are trained on; none: no trained baseline.
    trained_on: list[Path] = field(default_factory=list)
    # Of what baselines are trained on.
    rows_max: int = 200_000
    seed: int = 1
    output: Path | None = None
    table: Path | None = None
    plots: Path | None = None
    # A file of `wirelens packetlog calibrate`, for the one model.
    calibration: Path | None = None
    command: str = ""


@dataclass(frozen=True)
class EvaluationResult:
    """What an evaluation found."""

    text: str
    parts: list[Part]


Judge = Callable[[Capture, Truth], Array]


def evaluate(request: Request, progress: Progress) -> EvaluationResult:
    """Judges, and writes what was asked for."""
    written.check(request.output, request.table, request.plots)
    folders = {_name(folder, request.models): folder for folder in request.models}
    models = {name: model.read(folder) for name, folder in folders.items()}
    judges: dict[str, Judge] = {
        name: of_model(model.file_of(folder), request.calibration)
        for name, folder in folders.items()
    }
    judges[EVERYTHING] = lambda _, found: numpy.ones(len(found), dtype=bool)
    told: dict[str, Any] = {}
    if request.trained_on:
        learned = truth.captures(request.trained_on)
        limit = _false_alarms_of(next(iter(models.values())))
        judges[PORT_RULE], told[PORT_RULE] = port_rule(learned, limit, progress)
        judges[NETBEACON], told[NETBEACON] = tuned_netbeacon(learned, limit, request, progress)
    captures = truth.captures(request.places, request.benign)
    made: list[Part] = []
    for index, capture in enumerate(captures):
        progress.show(index, len(captures), capture.name)
        found = truth.read(capture)
        sizes = values_of(capture, found, SnapshotOptions(keys=[]), SIZE_COLUMNS)
        marks = {name: judge(capture, found) for name, judge in judges.items()}
        made += measure.parts(capture, found, sizes, marks)
    progress.finish()
    text = report.text(request.command, made, models, list(judges), told)
    if request.output is not None:
        written.text(request.output, text)
    if request.table is not None:
        lines = [json.dumps(asdict(part), ensure_ascii=False) for part in made]
        written.text(request.table, "".join(f"{line}\n" for line in lines))
    if request.plots is not None:
        plots.recalls(made, list(models), [name for name in judges if name not in models],
                      request.plots)  # fmt: skip
        plots.kept(made, list(judges), request.plots)
    return EvaluationResult(text, made)


def _name(folder: Path, among: Sequence[Path]) -> str:
    name = folder.resolve().name if folder.exists() else folder.name
    same = [other for other in among if other.name == folder.name]
    return name if len(same) == 1 else str(folder)


def _false_alarms_of(one: Model) -> float:
    """What baselines may mark of benign packets, by folds: what the first model might."""
    default = FALSE_ALARMS[one.training.get("use", "attacks")]
    return float(one.training.get("false_alarms_max", default))


def values_of(
    capture: Capture, found: Truth, options: SnapshotOptions, columns: Sequence[str]
) -> Array:
    """Columns of all packets of a capture: few ones, or short captures."""
    values = numpy.empty((len(found), len(columns)), dtype=numpy.float32)
    for where, snapshot, _ in rows.each(capture, found, options, columns):
        values[where] = snapshot
    return values


def of_model(path: Path, calibration: Path | None = None) -> Judge:
    """What `wirelens packetlog` does with a model, and with its calibration if there is one."""

    def judge(capture: Capture, found: Truth) -> Array:
        classes = [
            numpy.asarray(batch.classes)
            for batch in judgements(
                capture.path, path, seed=rows.HASH_SEED, calibration=calibration
            )
        ]
        marked = numpy.concatenate([*classes, numpy.zeros(0, dtype=numpy.uint16)]) > 0
        rows.check_count(capture, len(marked), len(found))
        return marked

    return judge


def port_rule(
    learned: Sequence[Capture], limit: float, progress: Progress
) -> tuple[Judge, dict[str, Any]]:
    """Marks packets of ports that were more of attacks than others were.

    Protocol and lower port are marked in order of how anomalous their packets were, captures
    and attacks counting the same as in forests, until as many benign ones are marked as told.
    """
    options = SnapshotOptions(keys=[])
    drawn = rows.load(learned, options, _PORT_COLUMNS, 10**9, 1, progress.show)
    weights = folds.packet_weights(drawn, 1.0)
    keys = _port_keys(drawn.values)
    benign = numpy.bincount(keys, weights=weights * ~drawn.is_anomalous)
    anomalous = numpy.bincount(keys, weights=weights * drawn.is_anomalous)
    there = numpy.flatnonzero(benign + anomalous)
    odds = anomalous[there] / numpy.maximum(benign[there], 1e-300)
    order = there[numpy.argsort(-odds, kind="stable")]
    part = numpy.cumsum(benign[order]) / max(benign.sum(), 1e-300)
    marked_keys = order[part <= limit]

    def judge(capture: Capture, found: Truth) -> Array:
        values = values_of(capture, found, options, _PORT_COLUMNS)
        mine = _port_keys(values)
        # A port that nobody used in training is as suspicious as it gets.
        return numpy.isin(mine, marked_keys) | ~numpy.isin(mine, there)

    return judge, {"ports_marked": len(marked_keys), "ports_known": len(there)}


def _port_keys(values: Array) -> Array:
    shifted = values.astype(numpy.int64) + 1
    return shifted[:, 0] * (_PORT_MAX + 1) + shifted[:, 1]


def tuned_netbeacon(
    learned: Sequence[Capture], limit: float, request: Request, progress: Progress
) -> tuple[Judge, dict[str, Any]]:
    """NetBeacon with the shape of our forests, its weight and threshold chosen as ours are."""
    found: Rows = netbeacon.load(learned, request.rows_max, request.seed, progress.show)
    shape = Shape()
    tried: list[Trial] = tried_by(
        found, WEIGHTS, shape, request.seed, progress, netbeacon.judged, limit
    )
    chosen = choose(tried, limit)
    used = numpy.ones(len(found), dtype=bool)
    grown = netbeacon.NetBeacon.grown(found, used, chosen.weight, shape, request.seed)
    facts = {"weight": chosen.weight, "threshold": chosen.threshold,
             "false_alarms": chosen.false_alarms, "mean_known": chosen.mean_known,
             "mean_unseen": chosen.mean_unseen}  # fmt: skip
    return lambda capture, _: grown.marked(capture, chosen.threshold), facts

