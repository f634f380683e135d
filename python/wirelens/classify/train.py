"""From labelled captures to a cascade: what `wirelens train classify` does, step by step."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
from wirelens.classify import artifact, card, plots, report
from wirelens.classify import matrix as matrices
from wirelens.classify.cascade import load as load_cascade
from wirelens.classify.dataset import WAIT_NS, Dataset, Source
from wirelens.classify.dataset import load as load_dataset
from wirelens.classify.metrics import Array, confusion, macro_f1, weighted_f1
from wirelens.classify.operate import (
    Aim,
    Operation,
    Rule,
    StageScores,
    Verdicts,
    decide,
    operate,
    rules_of,
    settled,
    smallest_portion,
)
from wirelens.classify.place import Candidate, Margins, Placement, pareto_front, place
from wirelens.classify.pool import PORT_TABLE, Plan, Pool, PoolSettings, Trained
from wirelens.classify.progress import Progress
from wirelens.classify.recipe import Recipe
from wirelens.classify.split import (
    SHARES,
    SIDE_NAMES,
    TEST,
    TRAINING,
    VALIDATION,
    absent_classes,
    folds,
    split,
)
from wirelens.classify.thresholds import ALGORITHMS, UNCERTAINTIES, Assignment
from wirelens.errors import InternalError, OptionError

# Points of a curve that the artifact keeps.
_CURVE_POINTS = 21
# A stage that decides less than this part of flows is not worth its place.
_DECIDED_MIN = 0.05


@dataclass(frozen=True)
class Request:
    """What was asked for."""

    source: Source
    output: Path
    name: str
    pool: PoolSettings
    recipe: Recipe = field(default_factory=Recipe)
    margins: Margins = field(default_factory=Margins)
    aim: Aim = field(default_factory=Aim)
    shares: tuple[float, float, float] = SHARES
    # Models are chosen by so many folds of training and validation flows; 0 by the latter.
    folds: int = 0
    flows_min: int = 20
    wait_ns: int = WAIT_NS
    measures: Sequence[str] = UNCERTAINTIES
    algorithms: Sequence[str] = ALGORITHMS
    # Stages by hand, as (stage, family, packets), in place of the rules.
    placed: Sequence[tuple[str, str, int]] = ()
    work: Path | None = None
    plots: Path | None = None
    report: Path | None = None
    force: bool = False
    # The line that was typed, for the card.
    command: str = ""


@dataclass
class Outcome:
    """What a training run found."""

    dataset: Dataset
    plan: Plan
    split_told: str
    trained: list[Trained]
    placement: Placement
    operation: Operation
    # Of the test flows, or where there are none of those that models were chosen by.
    judged_on: str
    evidence: report.Evidence
    verdicts: Verdicts
    singles: list[report.Judged]
    matrix: matrices.Matrix

    def stage_models(self) -> list[tuple[str, Trained]]:
        """Stages with their models."""
        by_name = {model.name: model for model in self.trained}
        return [(stage, by_name[chosen.name]) for stage, chosen in self.placement.stages]


def train(request: Request, progress: Progress) -> Outcome:
    """Trains, chooses and writes a cascade."""
    artifact.check_name(request.name)
    artifact.check_free(request.output, request.force)
    depth = max(request.pool.depths)
    count = len(request.source.captures)
    progress.tell(f"reading {count} captures, the first {depth} packets of each flow")
    dataset = load_dataset(
        request.source,
        request.recipe,
        depth,
        flows_min=request.flows_min,
        wait_ns=request.wait_ns,
    )
    for message in [*dataset.matching.messages(), *dataset.warnings]:
        progress.warn(message)
    progress.tell(f"{len(dataset)} flows of {len(dataset.classes)} classes have labels")
    plan, told = _plan(request, dataset, progress)
    progress.tell(told)
    matrix = matrices.build(dataset.sample, request.recipe, depth, plan.training)
    progress.tell(
        f"{len(matrix.bit_columns)} bits and {len(matrix.number_columns)} numbers are kept; "
        f"{matrix.constant} columns are constant, {matrix.duplicate} the same as another"
    )
    work = request.work or request.output.with_name(request.output.name + ".work")
    pool = Pool(dataset, request.recipe, matrix, plan, request.pool, work, progress)
    trained = pool.train()
    chooser = _Chooser(request, dataset.labels[plan.checked], len(dataset.classes), trained)
    placement, operation = chooser.choose()
    for reason in placement.reasons:
        progress.tell(reason)
    outcome = _judge(request, dataset, plan, told, trained, placement, operation, matrix)
    _write(request, outcome, progress)
    return outcome


def _plan(request: Request, dataset: Dataset, progress: Progress) -> tuple[Plan, str]:
    """Sides by family of captures, and a sentence about them."""
    shares = request.shares
    if request.folds:
        # Training and validation are one: each of its flows is both, in turn.
        shares = (shares[0] + shares[1], 0.0, shares[2])
    elif shares[1] <= 0:
        raise OptionError(
            "a split without validation, by which models would be chosen; wanted: a part for it, "
            "such as 50/10/40, or --folds 5"
        )
    seed = request.pool.seed
    parts = split(dataset.labels, dataset.families, shares, seed)
    training, test = parts.rows(TRAINING), parts.rows(TEST)
    told = parts.describe()
    if request.folds:
        held = folds(dataset.labels[training], dataset.families[training], request.folds, seed)
        checks = [(numpy.delete(training, rows), training[rows]) for rows in held]
        told += f"; models are chosen by {request.folds} folds of the training flows"
    else:
        checks = [(training, parts.rows(VALIDATION))]
    for side, rows in ((TRAINING, training), (VALIDATION, checks[-1][1]), (TEST, test)):
        absent = absent_classes(dataset.labels, rows, dataset.classes)
        if not absent or len(rows) == 0 or (request.folds and side == VALIDATION):
            continue
        few = f"no flow of {', '.join(absent)} in {SIDE_NAMES[side]}"
        if side == TRAINING:
            raise OptionError(
                f"{few}, so it cannot be learned; wanted: captures of three families or more for "
                "each class; leave it out of the labels, or try another --seed"
            )
        progress.warn(f"{few}: too few families of captures have it; nothing is known of it there")
    return Plan(training, checks, test), told


class _Chooser:
    """Chooses stages and where they work, on the flows that models are chosen by."""

    def __init__(
        self,
        request: Request,
        truth: Array,
        class_count: int,
        trained: list[Trained],
        rows: Array | None = None,
    ) -> None:
        self.request, self.class_count = request, class_count
        # Of the flows that models are chosen by, those that are looked at.
        self.rows = numpy.arange(len(truth)) if rows is None else rows
        self.truth = truth[self.rows]
        self.models = {model.name: model for model in trained}
        self.profiles = [model.profile for model in trained]
        self.best_f1 = max(
            macro_f1(confusion(self.truth, self._stage(p).predicted, class_count))
            for p in self.profiles
        )

    def _rule(self, first: Candidate, second: Candidate) -> Rule:
        rules = rules_of(
            self.truth,
            self._stage(first),
            self._stage(second),
            self.class_count,
            self.request.measures,
            self.request.algorithms,
        )
        return rules[0]

    def _stage(self, profile: Candidate) -> StageScores:
        scores = self.models[profile.name].check_scores[self.rows]
        return StageScores(profile.name, scores, profile.batch_us, profile.waiting_us)

    def _portion_needed(self, fast: Candidate, slow: Candidate) -> float:
        wanted = self.best_f1 - self.request.aim.f1_margin
        first, second = (self._stage(profile).predicted for profile in (fast, slow))
        rule = self._rule(fast, slow)
        return smallest_portion(self.truth, first, second, rule, wanted, self.class_count)

    def choose(self) -> tuple[Placement, Operation]:
        """Stages by the rules, or by hand, without those that turn out to decide nothing."""
        if self.request.placed:
            placement = self._by_hand()
            return placement, self.operate(placement)
        placement = place(self.profiles, self.request.margins, self._portion_needed)
        operation = self.operate(placement)
        while len(placement.stages) > 1:
            # The last stage may decide as little as it likes: that is the aim.
            idle = [
                index for index, part in enumerate(operation.decided[:-1]) if part < _DECIDED_MIN
            ]
            if operation.decided[-1] == 0:
                idle.append(len(placement.stages) - 1)
            if not idle:
                break
            stage, model = placement.stages.pop(idle[0])
            placement.reasons.append(
                f"{stage} omitted: {model.name} decides {operation.decided[idle[0]]:.1%} of flows"
            )
            operation = self.operate(placement)
        return placement, operation

    def _by_hand(self) -> Placement:
        found = Placement()
        for stage, family, packets in self.request.placed:
            model = self.models.get(f"{family}/{packets}")
            if model is None:
                raise OptionError(
                    f"{stage}={family}/{packets}: not in the pool; wanted: one of "
                    f"{', '.join(self.models)}"
                )
            found.stages.append((stage, model.profile))
            found.reasons.append(f"{stage}: {model.name}, as was asked for")
        return found

    def operate(self, placement: Placement) -> Operation:
        """Where these stages work."""
        chosen = [profile for _, profile in placement.stages]
        pairs = list(zip(chosen, chosen[1:], strict=False))
        stages = [self._stage(profile) for profile in chosen]
        rules = [self._rule(first, second) for first, second in pairs]
        aim, count = self.request.aim, self.class_count
        operation = operate(self.truth, stages, rules, self.best_f1, aim, count)
        for first, second in pairs:
            found = rules_of(self.truth, self._stage(first), self._stage(second), count)
            operation.areas.append({rule.curve.name: rule.area for rule in found})
        return operation


def _judge(
    request: Request,
    dataset: Dataset,
    plan: Plan,
    told: str,
    trained: list[Trained],
    placement: Placement,
    operation: Operation,
    matrix: matrices.Matrix,
) -> Outcome:
    """The cascade and every single model on the test flows, which chose nothing."""
    has_test = len(plan.test) > 0
    rows = plan.test if has_test else plan.checked
    scores = {m.name: m.test_scores if has_test else m.check_scores for m in trained}
    evidence = report.Evidence(dataset.labels[rows], dataset.families[rows], dataset.classes)
    chosen = [scores[profile.name] for _, profile in placement.stages]
    if has_test or len(plan.checks) == 1:
        verdicts = decide(chosen, [rule.measure for rule in operation.rules], written(operation))
    else:
        verdicts = _cross_decided(request, plan, dataset, trained, placement)
    singles = [
        report.Judged(model.name, scores[model.name].argmax(axis=1), model.profile.batch_us)
        for model in trained
    ]
    held_out = "flows, each judged by models and thresholds of the folds that it is not in"
    judged_on = "test flows" if has_test else held_out
    if not has_test and len(plan.checks) == 1:
        judged_on = "validation flows, by which models and thresholds were chosen"
    return Outcome(
        dataset, plan, told, trained, placement, operation, judged_on, evidence, verdicts,
        singles, matrix,
    )  # fmt: skip


def _cross_decided(
    request: Request, plan: Plan, dataset: Dataset, trained: list[Trained], placement: Placement
) -> Verdicts:
    """What the cascade says of flows where all of them train: of each fold with the thresholds
    that the others would have had. The stages' models are those of the whole.
    """
    truth, count = dataset.labels[plan.checked], len(dataset.classes)
    ends = numpy.cumsum([len(rows) for _, rows in plan.checks])
    by_name = {model.name: model for model in trained}
    chosen = [by_name[profile.name].check_scores for _, profile in placement.stages]
    labels = numpy.zeros(len(truth), dtype=numpy.int64)
    stages = numpy.zeros(len(truth), dtype=numpy.int64)
    for first, last in zip([0, *ends[:-1]], ends, strict=True):
        mine = numpy.arange(first, last)
        rest = numpy.delete(numpy.arange(len(truth)), mine)
        operation = _Chooser(request, truth, count, trained, rest).operate(placement)
        found = decide(
            [scores[mine] for scores in chosen],
            [rule.measure for rule in operation.rules],
            written(operation),
        )
        labels[mine], stages[mine] = found.labels, found.stages
    return Verdicts(labels, stages)


def written(operation: Operation) -> list[tuple[float, ...]]:
    """Thresholds of all stages but the last, as the artifact has them."""
    return [
        settled(point, rule.unsure, rule.predicted)
        for rule, point in zip(operation.rules, operation.points, strict=True)
    ]


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
    )
    artifact.write(parts, request.output, force=request.force, progress=progress)
    rows = outcome.plan.test
    if len(rows):
        found = load_cascade(request.output).predict(outcome.dataset.sample.of(rows))
        if (found.labels != outcome.verdicts.labels).any():
            raise InternalError(
                f"{request.output}: read back, it says something else of "
                f"{int((found.labels != outcome.verdicts.labels).sum())} flows; please report it"
            )
    if request.report is not None:
        request.report.parent.mkdir(parents=True, exist_ok=True)
        request.report.write_text(report_text(request, outcome), encoding="utf-8")
        progress.tell(f"wrote {request.report}")
    if request.plots is not None:
        for path in draw(outcome, request.plots):
            progress.tell(f"wrote {path}")


def port_reference(outcome: Outcome) -> report.Judged | None:
    """The table of ports among single models, if it was trained."""
    return next((one for one in outcome.singles if one.name.startswith(PORT_TABLE)), None)


def report_text(request: Request, outcome: Outcome) -> str:
    """The report of a run, in Markdown."""
    names = [(stage, model.name) for stage, model in outcome.placement.stages]
    cascade = report.Judged("cascade", outcome.verdicts.labels, outcome.operation.service_us)
    tables = report.sections(
        outcome.evidence,
        cascade,
        outcome.verdicts.stages,
        names,
        outcome.singles,
        port_reference(outcome),
    )
    made = f"```console\n$ {request.command}\n```\n\n" if request.command else ""
    return f"# {request.name}: {outcome.judged_on}\n\n{made}{outcome.split_told}.\n\n{tables}"


def draw(outcome: Outcome, folder: Path) -> list[Path]:
    """All pictures of a run."""
    profiles = [model.profile for model in outcome.trained]
    made = [plots.front(profiles, outcome.placement, folder)]
    truth = outcome.dataset.labels[outcome.plan.checked]
    stages = outcome.stage_models()
    class_count = len(outcome.dataset.classes)
    for index, ((stage, first), (following, second)) in enumerate(
        zip(stages, stages[1:], strict=False)
    ):
        one, other = (StageScores(m.name, m.check_scores, 0, 0) for m in (first, second))
        pair = Assignment(truth, one.predicted, other.predicted, class_count)
        rules = rules_of(truth, one, other, class_count)
        curves = [pair.oracle(), *(rule.curve for rule in rules), pair.random()]
        title = f"{stage} ({first.name}) to {following} ({second.name}), validation"
        assigned = outcome.operation.points[index].assigned
        made.append(plots.assignment(title, curves, assigned, folder, f"{stage}-{following}.png"))
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
    return {
        "fingerprint": dataset.fingerprint,
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


def _short(value: float) -> float:
    """Digits that mean something."""
    return float(f"{float(value):.5g}")
