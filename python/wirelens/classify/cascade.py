"""A trained cascade: read from its artifact, asked as `wirelens classify` asks it.

>>> cascade = load("models/services")                                  # doctest: +SKIP
>>> cascade.predict(dataset.sample).labels                             # doctest: +SKIP
"""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

from wirelens.classify.dataset import Sample
from wirelens.classify.metrics import Array
from wirelens.classify.place import STAGES
from wirelens.classify.recipe import Recipe
from wirelens.classify.served import Served, ServedTrees, read_model
from wirelens.classify.thresholds import UNCERTAINTIES, uncertainty
from wirelens.errors import ModelError

FORMAT = "wirelens cascade"
VERSION = 1
CASCADE_FILE = "cascade.json"
CARD_FILE = "card.md"
SUMS_FILE = "SHA256SUMS"
_ID_DIGITS = 12
# Of the package; the same models as those of the repository.
_SHIPPED = Path(__file__).resolve().parent.parent / "models"


@dataclass(frozen=True)
class Stage:
    """A model, and when its answer is enough."""

    name: str
    family: str
    packets: int
    model: Served
    measure: str
    # By class; None of the last stage, whose answer stands.
    thresholds: Array | None


@dataclass(frozen=True)
class Predictions:
    """What a cascade says of flows, row by row."""

    # Class indices.
    labels: Array
    confidences: Array
    # Index of the stage that decided.
    stages: Array
    packets_used: Array


class Cascade:
    """Models in order of use, with the thresholds between them."""

    def __init__(self, head: dict[str, Any], stages: list[Stage], identity: str) -> None:
        self.head = head
        self.name: str = head["name"]
        self.id = identity
        self.classes: list[str] = list(head["classes"])
        self.stages = stages
        self.wait_ns: int = head["wait_ns"]

    @property
    def packets(self) -> int:
        """Packets that the last stage looks at."""
        return self.stages[-1].packets

    def declared(self, stage: Stage) -> dict[str, Any]:
        """What a stage's file, or `cascade.json` for it, tells of its features."""
        if isinstance(stage.model, ServedTrees):
            return stage.model.head
        found: dict[str, Any] = next(s for s in self.head["stages"] if s["stage"] == stage.name)
        features: dict[str, Any] = found["features"]
        return features

    def recipe(self) -> Recipe:
        """What has to be extracted for all stages."""
        first = self.declared(self.stages[0])
        numbers = [name for stage in self.stages for name in self.declared(stage)["numbers"]]
        return Recipe(
            blocks=tuple(first["blocks"]),
            payload_bytes=int(first["payload_bytes"]),
            numbers=tuple(dict.fromkeys(numbers)),
            dropped=(),
            headers=first["headers"],
        )

    def predict(self, sample: Sample) -> Predictions:
        """What the runtime says of these flows, by the same rules.

        A stage is asked about the flows that the stages before it were unsure of. A flow that has
        fewer packets than a stage looks at, or did not get them in time, is scored with those
        there are.
        """
        count = len(sample)
        found = Predictions(
            numpy.zeros(count, dtype=numpy.int64),
            numpy.zeros(count),
            numpy.zeros(count, dtype=numpy.int64),
            numpy.zeros(count, dtype=numpy.int64),
        )
        undecided = numpy.arange(count)
        for index, stage in enumerate(self.stages):
            if len(undecided) == 0:
                break
            asked = sample.of(undecided)
            scores = stage.model.score(stage.model.prepare(asked), 0, len(asked))
            labels = scores.argmax(axis=1)
            found.labels[undecided] = labels
            found.confidences[undecided] = scores[numpy.arange(len(labels)), labels]
            found.stages[undecided] = index
            found.packets_used[undecided] = numpy.minimum(asked.packet_counts, stage.packets)
            if stage.thresholds is None:
                break
            goes_on = uncertainty(scores, stage.measure) > stage.thresholds[labels]
            undecided = undecided[goes_on]
        return found

    def alone(self, sample: Sample, index: int) -> Array:
        """What one stage would say of all flows: probabilities."""
        model = self.stages[index].model
        return model.score(model.prepare(sample), 0, len(sample))


def load(path: str | os.PathLike[str]) -> Cascade:
    """Reads an artifact, and checks that nothing of it was changed.

    A name such as ``"services"`` that is no folder here is that of a model that ships.

    Raises
    ------
    ModelError
        Where a file is missing, is not what `SHA256SUMS` has, or says what cannot be meant.
    """
    folder = meant(path)
    if not folder.is_dir():
        shipped = ", ".join(sorted(file.parent.name for file in _SHIPPED.glob(f"*/{CASCADE_FILE}")))
        raise ModelError(
            f"{folder}: no such folder, and no model that ships has this name (they are "
            f"{shipped or 'not here'}); give the folder that `wirelens train classify` wrote"
        )
    sums = _read_sums(folder)
    text = _checked(folder, CASCADE_FILE, sums)
    try:
        head = json.loads(text)
    except ValueError as error:
        raise ModelError(f"{folder / CASCADE_FILE}: no JSON ({error})") from error
    told = head if isinstance(head, dict) else {}
    seen, version = told.get("format"), told.get("version")
    if seen != FORMAT or version != VERSION:
        raise ModelError(
            f"{folder / CASCADE_FILE}: format {seen!r}, version {version}; "
            f"wanted: {FORMAT!r} {VERSION}"
        )
    if told.get("kind") == "windows":
        raise ModelError(
            f"{folder}: a model of windows; wanted: one of flows; `wirelens classify --every` and "
            "`wirelens.classify_flows(..., every=...)` ask it"
        )
    try:
        stages = [
            _stage(folder, told, head["classes"], sums, index + 1 == len(head["stages"]))
            for index, told in enumerate(head["stages"])
        ]
        identity = f"{head['name']}@{hashlib.sha256(text).hexdigest()[:_ID_DIGITS]}"
        cascade = Cascade(head, stages, identity)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(
            f"{folder / CASCADE_FILE}: {type(error).__name__} {error}; wanted: what "
            "docs/specs/cascade.md describes; train again"
        ) from error
    _check_schemas(folder, cascade)
    return cascade


def meant(path: str | os.PathLike[str]) -> Path:
    """The folder that is meant: this one or, of a name that is no folder here, one that ships."""
    folder = Path(path)
    if folder.exists() or len(folder.parts) != 1:
        return folder
    shipped = _SHIPPED / folder
    return shipped if (shipped / CASCADE_FILE).is_file() else folder


def _check_schemas(folder: Path, cascade: Cascade) -> None:
    """Refuses models of features that this version reads otherwise, and stages that differ."""
    recipe = cascade.recipe()
    for stage in cascade.stages:
        declared = cascade.declared(stage)
        if declared["packets"] != stage.packets:
            raise ModelError(
                f"{folder}: stage {stage.name}: its model looks at {declared['packets']} packets, "
                f"and {CASCADE_FILE} says {stage.packets}; wanted: the same; train again"
            )
        wanted = recipe.features(stage.packets, declared["numbers"]).hash()
        if declared["schema"] != wanted:
            raise ModelError(
                f"{folder}: stage {stage.name} was trained on features with the schema "
                f"{declared['schema']}; wanted: {wanted}, which this version extracts; train again"
            )


def _read_sums(folder: Path) -> dict[str, str]:
    try:
        lines = (folder / SUMS_FILE).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ModelError(
            f"{folder / SUMS_FILE}: {error.strerror}; wanted: a folder that "
            "`wirelens train classify` wrote"
        ) from error
    return {line[66:]: line[:64] for line in lines if len(line) > 66}


def _checked(folder: Path, name: str, sums: dict[str, str]) -> bytes:
    """A file's bytes, which are those of the sums."""
    try:
        found = (folder / name).read_bytes()
    except OSError as error:
        raise ModelError(f"{folder / name}: {error.strerror}; wanted: the whole folder") from error
    if hashlib.sha256(found).hexdigest() != sums.get(name):
        raise ModelError(
            f"{folder / name}: not what {SUMS_FILE} has; wanted: the file as it was written; "
            "copy the folder again, or train again"
        )
    return found


def _stage(
    folder: Path,
    told: dict[str, Any],
    classes: Sequence[str],
    sums: dict[str, str],
    is_last: bool,
) -> Stage:
    _checked(folder, told["file"], sums)
    if told["stage"] not in STAGES:
        raise ModelError(f"{folder}: stage {told['stage']!r}; wanted: {', '.join(STAGES)}")
    thresholds = None
    if "threshold" in told:
        thresholds = numpy.full(len(classes), float(told["threshold"]))
    elif "thresholds" in told:
        thresholds = numpy.array([float(told["thresholds"][name]) for name in classes])
    if (thresholds is None) != is_last:
        raise ModelError(
            f"{folder}: stage {told['stage']}: thresholds {'there' if is_last else 'missing'}; "
            "wanted: of every stage but the last"
        )
    measure = told.get("uncertainty", UNCERTAINTIES[0])
    model = read_model(folder / told["file"], told, len(classes))
    return Stage(told["stage"], told["family"], int(told["packets"]), model, measure, thresholds)
