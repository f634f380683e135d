"""From labelled captures to a cascade: what `wirelens train classify` does, step by step."""

from pathlib import Path
from typing import Any

import numpy

from wirelens import written
from wirelens.classify import artifact, card, curves, plots, report
from wirelens.classify.cascade import load as load_cascade
from wirelens.classify.dataset import Dataset
from wirelens.classify.operate import Rule
from wirelens.classify.place import pareto_front
from wirelens.classify.pool import PORT_TABLE
from wirelens.classify.steps import Outcome, Request, choose, fitted, plan_of, read_flows
from wirelens.errors import InternalError
from wirelens.learn.metrics import Array, confusion, macro_f1, weighted_f1
from wirelens.learn.progress import Progress

# Points of a curve that the artifact keeps.
_CURVE_POINTS = 21


def train(request: Request, progress: Progress) -> Outcome:
    """Trains, chooses and writes a cascade."""
    artifact.check_name(request.name)
    artifact.check_free(request.output, request.force)
    written.check(request.output, request.work_folder, request.report, request.plots)
    dataset = read_flows(request, progress)
    request = fitted(request, dataset)
    plan, told = plan_of(request, dataset, progress)
    progress.tell(told)
    outcome = choose(request, dataset, plan, told, progress)
    for reason in outcome.placement.reasons:
        progress.tell(reason)
    _write(request, outcome, progress)
    return outcome


def _write(request: Request, outcome: Outcome, progress: Progress) -> None:
    """The artifact, asked once more about the test flows; then pictures and the report."""
    stages = outcome.stage_models()
    in_use = {model.name for _, model in stages}
    ports = [m for m in outcome.trained if m.profile.family == PORT_TABLE]
    parts = artifact.Parts(
        name=request.name,
        dataset=outcome.dataset,
        stages=stages,
        operation=outcome.operation,
        ports=ports[0] if ports and ports[0].name not in in_use else None,
        profile=profile_of(outcome),
        training=training_of(request, outcome),
        card=card.text(request, outcome),
        calibrated=outcome.calibrated,
        names_protocols=request.names_protocols,
        names_list=request.pool.names.path if request.pool.names else None,
        memory=request.memory,
    )
    artifact.write(parts, request.output, force=request.force, progress=progress)
    rows = outcome.plan.test
    if len(rows):
        found = load_cascade(request.output).predict(outcome.dataset.sample.of(rows))
        is_other = found.is_unknown != outcome.answers.is_unknown
        if ((found.labels != outcome.verdicts.labels) | is_other).any():
            raise InternalError(
                f"{request.output}: read back, it classifies differently "
                f"{int(((found.labels != outcome.verdicts.labels) | is_other).sum())} flows; "
                "please report it"
            )
    if request.report is not None:
        written.text(request.report, report_text(request, outcome))
        progress.tell(f"wrote {request.report}")
    if request.plots is not None:
        for path in draw(outcome, request.plots):
            progress.tell(f"wrote {path}")


def port_reference(outcome: Outcome) -> report.System | None:
    """The table of ports among single models, if it was trained."""
    return next((one for one in outcome.singles if one.name.startswith(PORT_TABLE)), None)


def report_text(request: Request, outcome: Outcome) -> str:
    """The report of a run, in Markdown."""
    names = [(stage, model.name) for stage, model in outcome.placement.stages]
    cascade = report.System("cascade", outcome.verdicts.labels, outcome.operation.service_us)
    tables = report.sections(
        outcome.evidence,
        cascade,
        outcome.verdicts.stages,
        names,
        outcome.singles,
        port_reference(outcome),
    )
    pairs = curve_pairs(outcome)
    if pairs:
        told = f"Of {outcome.judged_on}; thresholds of other flows, those that choose models."
        tables += "\n" + report.assignment_section(pairs, told)
    made = f"```console\n$ {request.command}\n```\n\n" if request.command else ""
    return f"# {request.name}: {outcome.judged_on}\n\n{made}{outcome.split_told}.\n\n{tables}"


def curve_pairs(outcome: Outcome) -> list[curves.PairCurves]:
    """What handing on from stage to stage brings, of the flows that judge the cascade."""
    plan, labels = outcome.plan, outcome.dataset.labels
    has_test = len(plan.test) > 0
    checked = labels[plan.checked]
    found = []
    models = [model for _, model in outcome.stage_models()]
    for first, second in zip(models, models[1:], strict=False):
        choosing = first.check_scores
        if has_test:
            groups = [curves.Fold(numpy.arange(len(plan.test)), checked, choosing)]
        else:
            groups = _folds(outcome, checked, choosing)
        scores = [
            model.test_scores if has_test else model.check_scores for model in (first, second)
        ]
        names = (first.name, second.name)
        truth = outcome.evidence.truth
        class_count = len(outcome.dataset.classes)
        found.append(curves.curves_of(names, truth, (scores[0], scores[1]), class_count, groups))
    return found


def _folds(outcome: Outcome, truth: Array, scores: Array) -> list[curves.Fold]:
    """Each fold with the others; of one side, that side with itself."""
    if len(outcome.plan.checks) == 1:
        return [curves.Fold(numpy.arange(len(truth)), truth, scores)]
    ends = numpy.cumsum([len(rows) for _, rows in outcome.plan.checks])[:-1]
    every = numpy.arange(len(truth))
    groups = []
    for mine in numpy.split(every, ends):
        rest = numpy.delete(every, mine)
        groups.append(curves.Fold(mine, truth[rest], scores[rest]))
    return groups


def draw(outcome: Outcome, folder: Path) -> list[Path]:
    """All pictures of a run, and the table of their curves."""
    profiles = [model.profile for model in outcome.trained]
    made = [plots.front(profiles, outcome.placement, folder)]
    stages = [stage for stage, _ in outcome.placement.stages]
    pairs = curve_pairs(outcome)
    for index, pair in enumerate(pairs):
        title = f"{stages[index]} ({pair.first}) to {stages[index + 1]} ({pair.second})"
        assigned = outcome.operation.points[index].assigned
        name = f"{stages[index]}-{stages[index + 1]}.png"
        made.append(plots.assignment(title, pair.curves, assigned, folder, name))
    if pairs:
        made.append(curves.write(pairs, folder / "assignment.tsv"))
    counts = outcome.evidence.counts(outcome.verdicts.labels)
    title = f"cascade on {len(outcome.evidence.truth)} {outcome.judged_on}"
    made.append(plots.confusion(counts, outcome.dataset.classes, title, folder))
    return made


def profile_of(outcome: Outcome) -> dict[str, Any]:
    """What `cascade.json` tells readers of the models and of the operating point."""
    operation, truth = outcome.operation, outcome.dataset.labels[outcome.plan.checked]
    judged = {one.name: outcome.evidence.counts(one.predicted) for one in outcome.singles}
    front = {profile.name for profile in pareto_front([m.profile for m in outcome.trained])}
    counts = outcome.evidence.counts(outcome.verdicts.labels)
    decided = numpy.bincount(outcome.verdicts.stages, minlength=len(outcome.placement.stages))
    found: dict[str, Any] = {
        "judged_on": outcome.judged_on,
        "macro_f1": _short(macro_f1(counts)),
        "weighted_f1": _short(weighted_f1(counts)),
        "stages": {},
        "operating_point": {
            "why": operation.why,
            "validation_macro_f1": _short(operation.macro_f1),
            "validation_decided": [_short(part) for part in operation.decided],
            "validation_handed_on": [_short(part) for part in operation.handed_on],
            "scoring_us": _short(operation.service_us),
            "latency_us": _short(operation.latency_us),
        },
        "placement": outcome.placement.reasons,
        "curves": [_curve(rule, operation.areas[i]) for i, rule in enumerate(operation.rules)],
        "pool": [],
    }
    for index, (stage, profile) in enumerate(outcome.placement.stages):
        found["stages"][stage] = {
            "model": profile.name,
            "macro_f1": _short(macro_f1(judged[profile.name])),
            "weighted_f1": _short(weighted_f1(judged[profile.name])),
            "alone_us": _short(profile.alone_us),
            "batch_us": _short(profile.batch_us),
            "waiting_us": _short(profile.waiting_us),
            "decided": _short(decided[index] / max(len(outcome.evidence.truth), 1)),
        }
    for model in outcome.trained:
        checked = confusion(truth, model.check_scores.argmax(axis=1), len(outcome.dataset.classes))
        found["pool"].append(
            {
                "model": model.name,
                "validation_macro_f1": _short(macro_f1(checked)),
                "macro_f1": _short(macro_f1(judged[model.name])),
                "weighted_f1": _short(weighted_f1(judged[model.name])),
                "alone_us": _short(model.profile.alone_us),
                "batch_us": _short(model.profile.batch_us),
                "waiting_us": _short(model.profile.waiting_us),
                "front": model.name in front,
                "difference": float(f"{model.difference:.2g}"),
                "training_s": model.training_s,
            }
        )
    return found


def _curve(rule: Rule, areas: dict[str, float]) -> dict[str, Any]:
    """Assigned portion against caught errors and F1, on the validation set."""
    count = len(rule.curve.assigned)
    chosen = numpy.unique(numpy.linspace(0, count - 1, min(count, _CURVE_POINTS)).round()).astype(
        int
    )
    return {
        "uncertainty": rule.measure,
        "algorithm": rule.algorithm,
        "normalized_area": {name: _short(area) for name, area in areas.items() if area == area},
        "assigned": [_short(value) for value in rule.curve.assigned[chosen]],
        "caught": [_short(value) for value in rule.curve.caught[chosen]],
        "macro_f1": [_short(value) for value in rule.curve.f1[chosen]],
    }


def training_of(request: Request, outcome: Outcome) -> dict[str, Any]:
    """What `cascade.json` tells of the data and of how it was trained."""
    dataset = outcome.dataset
    captures = len(numpy.unique(dataset.capture_of))
    chose = numpy.concatenate([outcome.plan.training, outcome.plan.checked])
    return {
        "fingerprint": dataset.fingerprint,
        "sealed": request.sealed,
        "capture_sha256": capture_hashes(dataset, chose),
        "captures": captures,
        "families": len(set(dataset.families.tolist())),
        "flows": len(dataset),
        "flows_by_class": dataset.flows_by_class(),
        "trained_on": len(outcome.plan.training),
        "chosen_by": len(outcome.plan.checked),
        "judged_on": len(outcome.evidence.truth),
        "seed": request.pool.seed,
        "split": outcome.split_told,
        "class_weights": request.pool.weighting,
        "dropped": list(request.recipe.dropped),
        "parameters": {model.name: model.parameters for _, model in outcome.stage_models()},
        "libraries": sorted({model.library for model in outcome.trained}),
    }


def capture_hashes(dataset: Dataset, rows: Array) -> list[str]:
    """SHA-256 of the captures of some flows: of the content, and of the file where that differs."""
    hashes = [dataset.hashes[file] for file in numpy.unique(dataset.capture_of[rows]).tolist()]
    return sorted({text for one in hashes for text in (one.content, one.stored)})


def _short(value: float) -> float:
    """Digits that mean something."""
    return float(f"{float(value):.5g}")
