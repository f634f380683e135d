"""Judges a way of training: each family of captures is classified by a cascade that never saw it.

One split says how good a cascade is on the families that luck made its test. Here families are
divided into folds, and for each fold a cascade is trained, chosen and placed on the others, from
beginning to end; together their verdicts are of all flows.
"""

from dataclasses import replace

import numpy

from wirelens import written
from wirelens.classify import plots, report
from wirelens.classify.dataset import Dataset
from wirelens.classify.place import STAGES
from wirelens.classify.pool import PORT_TABLE, Plan
from wirelens.classify.split import absent_classes, folds
from wirelens.classify.steps import Outcome, Request, choose, fitted, read_flows, sealed_flows
from wirelens.errors import OptionError
from wirelens.learn.metrics import Array
from wirelens.learn.progress import Progress

# What validation is of the flows that are not held out, as in the paper's 50 to 10 parts.
_VALIDATION_FOLDS = 6


def cross_validate(request: Request, count: int, progress: Progress) -> str:
    """Trains `count` cascades and reports on their verdicts together, in Markdown."""
    written.check(request.work_folder, request.report, request.plots)
    dataset = read_flows(request, progress)
    request = fitted(request, dataset)
    is_held = sealed_flows(request, dataset)
    rows = numpy.flatnonzero(~is_held)
    left_out = ""
    if request.sealed:
        names = set(dataset.families[is_held].tolist())
        left_out = (
            f"{len(names)} sealed families of captures ({int(is_held.sum())} flows, --sealed "
            f"{request.sealed:g}) are left out: no fold is trained or evaluated on them. "
        )
        progress.tell(left_out.strip())
    # What is judged here are folds of the others.
    asked = replace(request, sealed=0.0)
    outcomes = []
    parts = folds(dataset.labels[rows], dataset.families[rows], count, request.pool.seed)
    for number, part in enumerate(parts):
        plan = _plan(asked, dataset, rows, rows[part])
        told = f"fold {number + 1} of {count}: {len(part)} flows are held out"
        progress.tell(told)
        outcomes.append(choose(asked, dataset, plan, told, progress))
    text = _report(asked, dataset, rows, outcomes, left_out)
    if request.report is not None:
        written.text(request.report, text)
        progress.tell(f"wrote {request.report}")
    return text


def _plan(request: Request, dataset: Dataset, rows: Array, held: Array) -> Plan:
    """Sides of these flows without those that are held out."""
    rest = numpy.setdiff1d(rows, held)
    absent = absent_classes(dataset.labels, rest, dataset.classes)
    if absent:
        raise OptionError(
            f"no flow of {', '.join(absent)} outside one fold; wanted: captures of two families or "
            "more for each class; leave it out of the labels, or use more folds"
        )
    parts = folds(
        dataset.labels[rest],
        dataset.families[rest],
        request.folds or _VALIDATION_FOLDS,
        request.pool.seed,
    )
    if request.folds:
        checks = [(numpy.delete(rest, rows), rest[rows]) for rows in parts]
        return Plan(rest, checks, held)
    # The first part that leaves every class something to be learned from.
    for rows in parts:
        training = numpy.delete(rest, rows)
        if not absent_classes(dataset.labels, training, dataset.classes):
            return Plan(training, [(training, rest[rows])], held)
    raise OptionError(
        "no validation set leaves training flows of every class; wanted: more families, or "
        "--folds 5"
    )


def _report(
    request: Request, dataset: Dataset, judged_rows: Array, outcomes: list[Outcome], left_out: str
) -> str:
    """All folds' verdicts on these flows as one."""
    count = len(judged_rows)
    place = numpy.full(len(dataset), -1)
    place[judged_rows] = numpy.arange(count)
    labels = numpy.zeros(count, dtype=numpy.int64)
    stages = numpy.zeros(count, dtype=numpy.int64)
    singles = {one.name: numpy.zeros(count, dtype=numpy.int64) for one in outcomes[0].singles}
    costs: dict[str, list[float]] = {name: [] for name in singles}
    used: dict[str, list[str]] = {name: [] for name in STAGES}
    for outcome in outcomes:
        rows = place[outcome.plan.test]
        labels[rows] = outcome.verdicts.labels
        names = [stage for stage, _ in outcome.placement.stages]
        stages[rows] = numpy.array([STAGES.index(name) for name in names])[outcome.verdicts.stages]
        for stage, profile in outcome.placement.stages:
            used[stage].append(profile.name)
        for one in outcome.singles:
            singles[one.name][rows] = one.predicted
            costs[one.name].append(one.cost_us or 0.0)
    truth, families = dataset.labels[judged_rows], dataset.families[judged_rows]
    evidence = report.Evidence(truth, families, dataset.classes)
    judged = [
        report.System(name, predicted, float(numpy.mean(costs[name])))
        for name, predicted in singles.items()
    ]
    service_us = float(numpy.mean([outcome.operation.service_us for outcome in outcomes]))
    cascade = report.System("cascade", labels, service_us)
    ports = next((one for one in judged if one.name.startswith(PORT_TABLE)), None)
    told = [(stage, ", ".join(dict.fromkeys(used[stage])) or "none") for stage in STAGES]
    tables = report.sections(evidence, cascade, stages, told, judged, ports)
    if request.plots is not None:
        title = f"cascades on {count} held-out flows"
        plots.confusion(evidence.counts(labels), dataset.classes, title, request.plots)
    made = f"```console\n$ {request.command}\n```\n\n" if request.command else ""
    chosen = f"{request.folds} folds" if request.folds else "a validation set"
    return (
        f"# {request.name}: {len(outcomes)} folds of families\n\n{made}Each fold was classified "
        f"by a cascade trained, and selected by {chosen}, on the others. {left_out}{tables}"
    )
