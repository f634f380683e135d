"""Judges a cascade on labelled captures: what `wirelens eval classify` does."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy

from wirelens import written
from wirelens.classify import curves, plots, report, rows, strangers
from wirelens.classify.calibration import UNKNOWN
from wirelens.classify.cascade import Cascade, Predictions, load, meant
from wirelens.classify.dataset import Dataset, Source
from wirelens.classify.dataset import load as load_dataset
from wirelens.classify.pool import PORT_TABLE
from wirelens.classify.served import cost_of, read_model, scores_of
from wirelens.classify.thresholds import uncertainty
from wirelens.classify.unknown import Answers
from wirelens.errors import OptionError
from wirelens.learn.metrics import Array
from wirelens.learn.progress import Progress
from wirelens.learn.sealing import is_sealed


@dataclass(frozen=True)
class Request:
    """What was asked for."""

    source: Source
    model: Path
    output: Path | None = None
    rows: Path | None = None
    plots: Path | None = None
    sealed: float = 0.0
    known_ports: Path | None = None
    command: str = ""


@dataclass
class Outcome:
    """What an evaluation found."""

    cascade: Cascade
    dataset: Dataset
    predictions: Predictions
    evidence: report.Evidence
    text: str


def evaluate(request: Request, progress: Progress) -> Outcome:
    """Reads labelled captures, asks the cascade and each of its models, and writes what came."""
    written.check(request.output, request.rows, request.plots)
    cascade = load(request.model)
    dataset = _read(request, cascade, progress)
    of_training = _of_training(cascade, dataset).sentence(request.sealed)
    judged, known_ports = _strangers(request, cascade, dataset)
    found = [
        rows.of_model(cascade, judged, request.sealed),
        *rows.of_strangers(judged, known_ports),
    ]
    judged_text = _strangers_text(request, cascade, judged, known_ports)
    if UNKNOWN not in cascade.classes:
        # Its models cannot be right about flows of none of their classes.
        dataset = dataset.of(numpy.flatnonzero(dataset.labels < len(cascade.classes)))
        if len(dataset) == 0:
            raise OptionError(
                f"{request.source.labels.path}: no flow has a label of the classes "
                f"{', '.join(cascade.classes)}; check --label, --classes and the captures"
            )
    predictions = cascade.predict(dataset.sample)
    evidence = report.Evidence(dataset.labels, dataset.families, cascade.classes)
    scores = [cascade.alone(dataset.sample, index) for index in range(len(cascade.stages))]
    singles, ports = _singles(request.model, cascade, dataset, scores)
    names = [(s.name, f"{s.family}/{s.packets}") for s in cascade.stages]
    whole = report.System("cascade", predictions.labels, _service_us(predictions, singles))
    tables = report.sections(evidence, whole, predictions.stages, names, singles, ports)
    found += rows.of_tables(evidence, [whole, *singles], predictions, names)
    made = f"```console\n$ {request.command}\n```\n\n" if request.command else ""
    title = f"# {cascade.name} on {request.source.labels.path}"
    pairs = _pairs(cascade, dataset, scores)
    if pairs:
        told = "On these flows; thresholds are chosen on them, so those per class are optimistic."
        tables += "\n" + report.assignment_section(pairs, told)
    told = f"Model `{cascade.id}`; {dataset.oddities()}. {of_training}"
    text = f"{title}\n\n{made}{told}\n\n{judged_text}\n{tables}"
    if request.output is not None:
        written.text(request.output, text)
        progress.tell(f"wrote {request.output}")
    if request.rows is not None:
        rows.write(found, request.rows)
        progress.tell(f"wrote {request.rows}")
    if request.plots is not None:
        title = f"{cascade.id} on {len(dataset)} flows"
        counts = evidence.counts(predictions.labels)
        made_of = [plots.confusion(counts, cascade.classes, title, request.plots)]
        made_of += _draw_pairs(cascade, pairs, scores, request.plots)
        for path in made_of:
            progress.tell(f"wrote {path}")
    return Outcome(cascade, dataset, predictions, evidence, text)


def _read(request: Request, cascade: Cascade, progress: Progress) -> Dataset:
    """The flows to judge; says what did not match, and what makes figures worth less."""
    flows = cascade.head["flows"]
    if request.sealed:
        _check_share(cascade, request.sealed)
    progress.tell(f"{cascade.id}: reading {len(request.source.captures)} captures")
    dataset = load_dataset(
        request.source,
        cascade.recipe(),
        cascade.packets,
        flows_min=1,
        classes=cascade.classes,
        wait_ns=cascade.wait_ns,
        idle_timeout_ns=flows["idle_timeout_ns"],
        active_timeout_ns=flows["active_timeout_ns"],
        names_protocols=cascade.names_protocols,
        keeps_others=True,
        names_list=cascade.names_list,
        names_depths=cascade.names_depths,
    )
    if "capture_sha256" in cascade.head.get("training", {}):
        # As its training did; those before sealed families by their names alone.
        dataset = dataset.with_copies_joined()
    if request.sealed:
        dataset = _sealed(dataset, request.sealed)
    for message in [*dataset.matching.messages(), *dataset.warnings]:
        progress.warn(message)
    _check_captures(request, cascade, dataset, progress)
    progress.tell(f"{len(dataset)} flows of {len(dataset.classes)} classes have labels")
    progress.tell(dataset.oddities())
    known = [index for index, name in enumerate(cascade.classes) if name != UNKNOWN]
    if not numpy.isin(dataset.labels, known).any():
        progress.warn(
            f"no flow has a label of the classes {', '.join(cascade.classes)}: all are foreign; "
            "check --label and --classes if they should not be"
        )
    return dataset


@dataclass(frozen=True)
class _OfTraining:
    """Which captures of an evaluation trained the model or chose among models."""

    # Of the model: whether it says which captures it was trained on.
    has_record: bool
    captures: int
    names: list[str]

    def __str__(self) -> str:
        return f"{len(self.names)} of {self.captures} captures trained or selected this model"

    def sentence(self, sealed: float) -> str:
        """The same for the report."""
        if not self.has_record:
            which = "sealed in training" if sealed else "not among them"
            return (
                "The model has no record of the captures of its training: whether these were "
                f"{which} cannot be checked."
            )
        none = "None of the captures trained or selected this model."
        return f"{self}." if self.names else none


def _of_training(cascade: Cascade, dataset: Dataset) -> _OfTraining:
    """What the model's record says of the captures of these flows."""
    record = cascade.head.get("training", {}).get("capture_sha256")
    files = numpy.unique(dataset.capture_of).tolist()
    trained, hashes = set(record or ()), dataset.hashes
    is_known = [bool(trained & {hashes[file].content, hashes[file].stored}) for file in files]
    names = [str(dataset.captures[file]) for file in itertools.compress(files, is_known)]
    return _OfTraining(record is not None, len(files), names)


def _check_share(cascade: Cascade, share: float) -> None:
    """Refuses a share of sealed families that is not that of training."""
    trained = cascade.head.get("training", {}).get("sealed")
    if trained is None or trained == share:
        return
    how = f"with --sealed {trained:g}" if trained else "without --sealed"
    hint = f"--sealed {trained:g}" if trained else "captures that it did not have, and no --sealed"
    raise OptionError(
        f"--sealed {share:g}: {cascade.id} was trained {how}, so other families, or none, were "
        f"held out; wanted: {hint}"
    )


def _check_captures(
    request: Request, cascade: Cascade, dataset: Dataset, progress: Progress
) -> None:
    """Says which captures trained the model, and refuses them where they were to be held out."""
    found = _of_training(cascade, dataset)
    if found.names and request.sealed:
        raise OptionError(
            f"--sealed {request.sealed:g}: {found}, such as {found.names[0]}, whose family had "
            "another name then; wanted: paths, --family and --manifest as in training, or captures "
            "that it did not have"
        )
    memorised = (
        "figures show how well the model memorised them; the card has those of held-out captures"
    )
    if found.names:
        progress.warn(f"{found}, such as {found.names[0]}: {memorised}")
    if not found.has_record and request.sealed:
        progress.warn(found.sentence(request.sealed))
    elif not found.has_record:
        fingerprint = cascade.head.get("training", {}).get("fingerprint")
        if dataset.fingerprint == fingerprint:
            progress.warn(f"these are the captures and labels of training: {memorised}")


def _sealed(dataset: Dataset, share: float) -> Dataset:
    """Flows of the families that trained and chose nothing."""
    chosen = [is_sealed(family, share) for family in dataset.families.tolist()]
    if not any(chosen):
        count = len(set(dataset.families.tolist()))
        raise OptionError(
            f"--sealed {share:g}: none of {count} families of captures is in this share, by a hash "
            "of their names; wanted: the captures of training, with their paths and families"
        )
    return dataset.of(numpy.flatnonzero(chosen))


def _strangers(
    request: Request, cascade: Cascade, dataset: Dataset
) -> tuple[strangers.OpenSet, strangers.Names | None]:
    """What the cascade says of these flows, those of none of its classes among them, and what a
    table of known ports says.
    """
    said = cascade.predict(dataset.sample)
    answers = Answers(said.labels, said.guesses, said.confidences, said.is_unknown)
    judged = strangers.OpenSet(dataset.labels, dataset.families, dataset.classes, answers)
    if request.known_ports is None:
        return judged, None
    table = strangers.known_port_names(request.known_ports, dataset.sample, dataset.classes)
    return judged, table


def _strangers_text(
    request: Request, cascade: Cascade, judged: strangers.OpenSet, known: strangers.Names | None
) -> str:
    below = float(cascade.unknown_below.max())
    why = "the model's threshold" if below else "the model gives every flow a class"
    where = "flows of sealed families" if request.sealed else "flows"
    return strangers.section(judged, below, why, where, known)


def _pairs(cascade: Cascade, dataset: Dataset, scores: Sequence[Array]) -> list[curves.PairCurves]:
    """What handing on from stage to stage brings on these flows."""
    names = [f"{stage.family}/{stage.packets}" for stage in cascade.stages]
    return [
        curves.curves_of(
            (names[index], names[index + 1]),
            dataset.labels,
            (scores[index], scores[index + 1]),
            len(cascade.classes),
        )
        for index in range(len(cascade.stages) - 1)
    ]


def _draw_pairs(
    cascade: Cascade, pairs: Sequence[curves.PairCurves], scores: Sequence[Array], folder: Path
) -> list[Path]:
    """A picture a pair of stages, with the portion that the cascade's own thresholds assign."""
    if not pairs:
        return []
    made = [curves.write(pairs, folder / "assignment.tsv")]
    for index, pair in enumerate(pairs):
        stage, following = cascade.stages[index], cascade.stages[index + 1]
        unsure = uncertainty(scores[index], stage.measure)
        assert stage.thresholds is not None
        goes_on = unsure > stage.thresholds[scores[index].argmax(axis=1)]
        title = f"{stage.name} ({pair.first}) to {following.name} ({pair.second})"
        name = f"{stage.name}-{following.name}.png"
        portion = float(goes_on.mean())
        made.append(plots.assignment(title, pair.curves, portion, folder, name))
    return made


def _singles(
    folder: Path, cascade: Cascade, dataset: Dataset, scores: Sequence[Array]
) -> tuple[list[report.System], report.System | None]:
    """Each stage's model alone, and the table of ports among them or beside them."""
    singles, ports = [], None
    for stage, own in zip(cascade.stages, scores, strict=True):
        cost = cost_of(stage.model, dataset.sample)
        one = report.System(f"{stage.family}/{stage.packets}", own.argmax(axis=1), cost.batch_us)
        singles.append(one)
        ports = one if stage.family == PORT_TABLE else ports
    reference = cascade.head.get("reference")
    if reference is not None and ports is None:
        model = read_model(meant(folder) / reference["file"])
        predicted = scores_of(model, dataset.sample).argmax(axis=1)
        ports = report.System(PORT_TABLE, predicted, cost_of(model, dataset.sample).batch_us)
        singles.append(ports)
    return singles, ports


def _service_us(predictions: Predictions, singles: list[report.System]) -> float:
    """Mean time of scoring a flow, each stage counted for the flows reaching it."""
    reached = [
        float((predictions.stages >= index).mean()) * (one.cost_us or 0.0)
        for index, one in enumerate(singles[: int(predictions.stages.max(initial=0)) + 1])
    ]
    return float(numpy.sum(reached))
