"""The steps of a training run: flows, sides, the pool, the choice, the judgement."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy

from wirelens.classify import matrix as matrices
from wirelens.classify import report
from wirelens.classify.dataset import WAIT_NS, Dataset, Source, load
from wirelens.classify.memory import MemoryAnswers, MemoryRule, Stages, remember
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
from wirelens.classify.place import Candidate, Margins, Placement, place
from wirelens.classify.pool import Plan, Pool, PoolModel, PoolSettings
from wirelens.classify.promise import Promise
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
from wirelens.classify.thresholds import (
    ALGORITHMS,
    UNCERTAINTIES,
    Assignment,
    normalized_area,
)
from wirelens.classify.unknown import Answers, Raw, Settings, UnknownCalibration, calibrate
from wirelens.classify.worth import stages_worth
from wirelens.errors import OptionError
from wirelens.learn.metrics import Array, confusion, macro_f1
from wirelens.learn.progress import Progress
from wirelens.learn.sealing import is_sealed

# How often thresholds are chosen again, with the memory that those before give.
_MEMORY_ROUNDS = 2


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
    # Families of captures that train and choose nothing: this share, by a hash of their names.
    sealed: float = 0.0
    # Whether flows of protocols without ports are named by their protocol.
    names_protocols: bool = False
    unknown: Settings = field(default_factory=Settings)
    flows_min: int = 20
    wait_ns: int = WAIT_NS
    # How hosts are in memory, if they are.
    memory: MemoryRule | None = None
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
    # A paragraph for the card.
    note: str = ""

    @property
    def work_folder(self) -> Path:
        """Where models of the pool are kept, so that the same command continues where it stopped."""
        return self.work or self.output.with_name(f"{self.output.name}.work")


@dataclass
class Outcome:
    """What a training run found."""

    dataset: Dataset
    plan: Plan
    split_told: str
    trained: list[PoolModel]
    placement: Placement
    operation: Operation
    # Of the test flows, or where there are none of those that models were chosen by.
    judged_on: str
    evidence: report.Evidence
    verdicts: Verdicts
    singles: list[report.System]
    matrix: matrices.Matrix
    calibrated: UnknownCalibration
    # Of the flows that judge, with the scores of each stage.
    answers: Answers

    def stage_models(self) -> list[tuple[str, PoolModel]]:
        """Stages with their models."""
        by_name = {model.name: model for model in self.trained}
        return [(stage, by_name[chosen.name]) for stage, chosen in self.placement.stages]


def read_flows(request: Request, progress: Progress) -> Dataset:
    """Flows with their labels; what did not match is told."""
    depth, count = max(request.pool.depths), len(request.source.captures)
    listed = request.pool.names
    progress.tell(f"reading {count} captures, the first {depth} packets of each flow")
    dataset = load(
        request.source,
        request.recipe,
        depth,
        flows_min=request.flows_min,
        wait_ns=request.wait_ns,
        names_protocols=request.names_protocols,
        sealed=request.sealed,
        names_list=listed.path if listed else None,
        names_depths=[listed.depth(depth) for depth in request.pool.depths] if listed else (),
    )
    given = len(set(dataset.families.tolist()))
    dataset = dataset.with_copies_joined()
    if joined := given - len(set(dataset.families.tolist())):
        progress.tell(f"{joined} of {given} families of captures have flows of others: joined")
    for message in [*dataset.matching.messages(), *dataset.warnings, *dataset.meetings()]:
        progress.warn(message)
    for pattern in request.recipe.idle_patterns(depth):
        progress.warn(f"--drop {pattern}: no column has such a name")
    progress.tell(f"{len(dataset)} flows of {len(dataset.classes)} classes have labels")
    progress.tell(dataset.oddities())
    return dataset


def fitted(request: Request, dataset: Dataset) -> Request:
    """The same with what depends on the number of classes."""
    if request.memory is None:
        return request
    return replace(request, memory=request.memory.of(len(dataset.classes)))


def choose(
    request: Request, dataset: Dataset, plan: Plan, told: str, progress: Progress
) -> Outcome:
    """Trains the pool by a plan, chooses a cascade, and judges it."""
    matrix = matrices.build(dataset.sample, request.recipe, max(request.pool.depths), plan.training)
    progress.tell(
        f"{len(matrix.bit_columns)} bits and {len(matrix.number_columns)} numbers are kept; "
        f"{matrix.constant} columns are constant, {matrix.duplicate} the same as another"
    )
    work = request.work_folder
    pool = Pool(dataset, request.recipe, matrix, plan, request.pool, work, progress)
    trained = pool.train()
    placement, operation = _chooser(request, dataset, plan, trained).choose()
    if request.memory is not None:
        trained, operation = _remembering(request, dataset, plan, trained, placement, operation)
    return _judge(request, dataset, plan, told, trained, placement, operation, matrix)


def _chooser(
    request: Request, dataset: Dataset, plan: Plan, trained: list[PoolModel]
) -> "_Chooser":
    """Who chooses among these models, on all flows that choose."""
    rows, size = plan.checked, len(dataset.classes)
    return _Chooser(request, dataset.labels[rows], size, dataset.families[rows], trained)


def _remembering(
    request: Request,
    dataset: Dataset,
    plan: Plan,
    trained: list[PoolModel],
    placement: Placement,
    operation: Operation,
) -> tuple[list[PoolModel], Operation]:
    """The models of the stages with scores as a memory of hosts makes them, and where they work.

    What is remembered depends on which stage decides, and thresholds on what is remembered: they
    are chosen again with the memory that the ones before give.
    """
    for _ in range(_MEMORY_ROUNDS):
        found = _with_memory(request, dataset, plan, trained, placement, operation)
        operation = _chooser(request, dataset, plan, found).operate(placement)
    return _with_memory(request, dataset, plan, trained, placement, operation), operation


def _with_memory(
    request: Request,
    dataset: Dataset,
    plan: Plan,
    trained: list[PoolModel],
    placement: Placement,
    operation: Operation,
) -> list[PoolModel]:
    """Models, those of the stages with scores that memory changes, by these thresholds."""
    assert request.memory is not None
    by_name = {model.name: model for model in trained}
    models = [by_name[profile.name] for _, profile in placement.stages]
    changed = dict[str, PoolModel]()
    checked = remembered(request.memory, dataset, plan.checked,
                         [model.check_scores for model in models], models, operation)  # fmt: skip
    for model, scores in zip(models, checked.scores, strict=True):
        changed[model.name] = replace(model, check_scores=scores)
    if len(plan.test):
        test = remembered(request.memory, dataset, plan.test,
                          [model.test_scores for model in models], models, operation)  # fmt: skip
        for model, scores in zip(models, test.scores, strict=True):
            changed[model.name] = replace(changed[model.name], test_scores=scores)
    return [changed.get(model.name, model) for model in trained]


def remembered(
    rule: MemoryRule,
    dataset: Dataset,
    rows: Array,
    own: Sequence[Array],
    models: Sequence[PoolModel],
    operation: Operation,
) -> MemoryAnswers:
    """What these stages say of some flows with a memory of their hosts."""
    packets = [model.profile.packets for model in models]
    measures = [rule.measure for rule in operation.rules]
    thresholds = [
        numpy.broadcast_to(numpy.asarray(some), len(dataset.classes)) for some in written(operation)
    ]
    stages = Stages(packets, measures, thresholds)
    return remember(rule, dataset.sample.of(rows), own, stages)


def _of_one_family(dataset: Dataset, rows: Array) -> list[str]:
    """Classes that no fold can both learn and be scored on."""
    pairs = set(zip(dataset.labels[rows].tolist(), dataset.families[rows].tolist(), strict=True))
    counts = numpy.bincount([label for label, _ in pairs], minlength=len(dataset.classes))
    return [dataset.classes[label] for label in numpy.flatnonzero(counts == 1)]


def sealed_flows(request: Request, dataset: Dataset) -> Array:
    """Whether each flow is of a sealed family.

    Raises
    ------
    OptionError
        If families are to be sealed, and none or all of them are.
    """
    is_held = numpy.array([is_sealed(f, request.sealed) for f in dataset.families.tolist()])
    if request.sealed and (is_held.all() or not is_held.any()):
        count = len(set(dataset.families.tolist()))
        seen, hint = ("all", "smaller") if is_held.all() else ("none", "larger")
        raise OptionError(
            f"--sealed {request.sealed:g}: {seen} of {count} families of captures are in this "
            "share, by a hash of their names; wanted: some sealed and some for training; give a "
            f"{hint} --sealed, or more captures"
        )
    return is_held


def plan_of(request: Request, dataset: Dataset, progress: Progress) -> tuple[Plan, str]:
    """Sides by family of captures, and a sentence about them."""
    shares = request.shares
    if request.folds:
        # Training and validation are one: each of its flows is both, in turn.
        shares = (shares[0] + shares[1], 0.0, shares[2])
    elif shares[1] <= 0:
        raise OptionError(
            "a split without validation, which selects models; wanted: a share for it, such "
            "as 50/10/40, or --folds 5"
        )
    seed = request.pool.seed
    held_out = sealed_flows(request, dataset)
    open_rows = numpy.flatnonzero(~held_out)
    if request.sealed:
        # Sealed families are the test; the others are shared out whole between the two other sides.
        shares = (shares[0] / sum(shares[:2]), shares[1] / sum(shares[:2]), 0.0)
    parts = split(dataset.labels[open_rows], dataset.families[open_rows], shares, seed)
    training, test = open_rows[parts.rows(TRAINING)], open_rows[parts.rows(TEST)]
    validation = open_rows[parts.rows(VALIDATION)]
    told = parts.describe()
    if request.sealed:
        test = numpy.flatnonzero(held_out)
        names = set(dataset.families[test].tolist())
        told = (
            f"{len(names)} families of captures ({len(test)} flows) are sealed by a hash of their "
            f"names: they are used only for the evaluation. Of the others, {told}"
        )
    if request.folds:
        held = folds(dataset.labels[training], dataset.families[training], request.folds, seed)
        checks = [(numpy.delete(training, rows), training[rows]) for rows in held]
        told += f"; models are selected by {request.folds} folds of the training flows"
        if alone := _of_one_family(dataset, training):
            progress.warn(
                f"only one family of captures has {', '.join(alone)}: the fold scored on its flows "
                "was trained without it, so its figures are meaningless; give more captures"
            )
    else:
        checks = [(training, validation)]
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
        progress.warn(f"{few}: too few families of captures have it; it is not evaluated there")
    return Plan(training, checks, test), told


class _Chooser:
    """Chooses stages and where they work, on the flows that models are chosen by."""

    def __init__(
        self,
        request: Request,
        truth: Array,
        class_count: int,
        families: Array,
        trained: list[PoolModel],
        rows: Array | None = None,
    ) -> None:
        self.request, self.class_count = request, class_count
        # Of the flows that models are chosen by, those that are looked at.
        self.rows = numpy.arange(len(truth)) if rows is None else rows
        self.truth, self.families = truth[self.rows], numpy.asarray(families)[self.rows]
        self.models = {model.name: model for model in trained}
        self.profiles = [model.profile for model in trained]
        best = self._stage(max(self.profiles, key=self._f1)).predicted
        sure = request.aim.sure
        self.best = Promise(self.truth, best, class_count, self.families, sure)

    def _f1(self, profile: Candidate) -> float:
        predicted = self._stage(profile).predicted
        return macro_f1(confusion(self.truth, predicted, self.class_count))

    def _rule(self, first: Candidate, second: Candidate) -> Rule:
        """The way to set thresholds with which the first needs the second least."""
        aim = self.request.aim
        is_of_f1 = aim.latency_us is None and aim.service_rate is None and aim.assigned is None
        rules = rules_of(
            self.truth,
            self._stage(first),
            self._stage(second),
            self.class_count,
            self.request.measures,
            self.request.algorithms,
            aim if is_of_f1 else None,
            self.families,
        )
        return rules[0]

    def _stage(self, profile: Candidate) -> StageScores:
        scores = self.models[profile.name].check_scores[self.rows]
        return StageScores(profile.name, scores, profile.batch_us, profile.waiting_us)

    def _portion_needed(self, fast: Candidate, slow: Candidate) -> float:
        second, margin = self._stage(slow).predicted, self.request.aim.f1_margin
        return smallest_portion(self._rule(fast, slow), second, self.best, margin)

    def choose(self) -> tuple[Placement, Operation]:
        """Stages by the rules, or by hand, without those that turn out to decide nothing."""
        if self.request.placed:
            placement = self._by_hand()
            return placement, self.operate(placement)
        placement = place(self.profiles, self.request.margins, self._portion_needed)
        stages = placement.stages
        kept, operation, reasons = stages_worth(
            [(stage, model.name) for stage, model in stages],
            lambda some: self.operate(Placement([stages[index] for index in some])),
        )
        reasons = [*placement.reasons, *reasons]
        return Placement([stages[index] for index in kept], reasons), operation

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
            found.reasons.append(f"{stage}: {model.name}, as given")
        return found

    def operate(self, placement: Placement) -> Operation:
        """Where these stages work."""
        chosen = [profile for _, profile in placement.stages]
        pairs = list(zip(chosen, chosen[1:], strict=False))
        stages = [self._stage(profile) for profile in chosen]
        rules = [self._rule(first, second) for first, second in pairs]
        aim, count = self.request.aim, self.class_count
        operation = operate(self.truth, stages, rules, self.best, aim, count)
        for first, second in pairs:
            one, other = self._stage(first), self._stage(second)
            pair = Assignment(self.truth, one.predicted, other.predicted, count)
            areas = {"random": normalized_area(pair.random(), pair.oracle())}
            found = rules_of(self.truth, one, other, count)
            operation.areas.append(areas | {rule.curve.name: rule.area for rule in found})
        return operation


def _judge(
    request: Request,
    dataset: Dataset,
    plan: Plan,
    told: str,
    trained: list[PoolModel],
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
        report.System(model.name, scores[model.name].argmax(axis=1), model.profile.batch_us)
        for model in trained
    ]
    unlisted = _unlisted(dataset, rows, trained, placement)
    raw = Raw.of(chosen, verdicts.stages, dataset.classes, unlisted)
    calibrated = _calibrated(request, dataset, plan, trained, placement, operation)
    held_out = "flows, each classified by models and thresholds of the other folds"
    judged_on = "test flows" if has_test else held_out
    if request.sealed:
        judged_on = "flows of sealed families, not used for training or model selection"
    if not has_test and len(plan.checks) == 1:
        judged_on = "validation flows, used to select models and thresholds"
    return Outcome(
        dataset, plan, told, trained, placement, operation, judged_on, evidence, verdicts,
        singles, matrix, calibrated, raw.answers(calibrated, dataset.classes),
    )  # fmt: skip


def _unlisted(
    dataset: Dataset, rows: Array, trained: list[PoolModel], placement: Placement
) -> list[Array]:
    """By stage, which of these flows are of no class by their names."""
    by_name = {model.name: model.names for model in trained}
    sample = dataset.sample.of(rows)
    weighed = [by_name[profile.name] for _, profile in placement.stages]
    return [sample.evidence(one.packets).is_unlisted for one in weighed if one is not None]


def _calibrated(
    request: Request,
    dataset: Dataset,
    plan: Plan,
    trained: list[PoolModel],
    placement: Placement,
    operation: Operation,
) -> UnknownCalibration:
    """Calibration and threshold by the flows that models are chosen by, never by test flows."""
    by_name = {model.name: model for model in trained}
    scores = [by_name[profile.name].check_scores for _, profile in placement.stages]
    found = decide(scores, [rule.measure for rule in operation.rules], written(operation))
    ends = numpy.cumsum([len(rows) for _, rows in plan.checks])
    unlisted = _unlisted(dataset, plan.checked, trained, placement)
    return calibrate(
        Raw.of(scores, found.stages, dataset.classes, unlisted),
        dataset.labels[plan.checked],
        dataset.families[plan.checked],
        numpy.split(numpy.arange(ends[-1]), ends[:-1]),
        dataset.classes,
        request.unknown,
    )


def _cross_decided(
    request: Request, plan: Plan, dataset: Dataset, trained: list[PoolModel], placement: Placement
) -> Verdicts:
    """What the cascade says where all flows train: of each fold, with the thresholds that the
    others give. Which stages there are is chosen by the whole.
    """
    truth, count = dataset.labels[plan.checked], len(dataset.classes)
    families = dataset.families[plan.checked]
    ends = numpy.cumsum([len(rows) for _, rows in plan.checks]).tolist()
    by_name = {model.name: model for model in trained}
    chosen = [by_name[profile.name].check_scores for _, profile in placement.stages]
    labels = numpy.zeros(len(truth), dtype=numpy.int64)
    stages = numpy.zeros(len(truth), dtype=numpy.int64)
    for first, last in zip([0, *ends[:-1]], ends, strict=True):
        mine = numpy.arange(first, last)
        rest = numpy.delete(numpy.arange(len(truth)), mine)
        chooser = _Chooser(request, truth, count, families, trained, rest)
        operation = chooser.operate(placement)
        scores = [one[mine] for one in chosen]
        found = decide(scores, [rule.measure for rule in operation.rules], written(operation))
        labels[mine], stages[mine] = found.labels, found.stages
    return Verdicts(labels, stages)


def written(operation: Operation) -> list[tuple[float, ...]]:
    """Thresholds of all stages but the last, as the artifact has them."""
    return [
        settled(point, rule.unsure, rule.predicted)
        for rule, point in zip(operation.rules, operation.points, strict=True)
    ]
