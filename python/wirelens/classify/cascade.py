"""A trained cascade: read from its artifact, asked as `wirelens classify` asks it.

>>> cascade = load("models/services")                                  # doctest: +SKIP
>>> cascade.predict(dataset.sample).labels                             # doctest: +SKIP
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

from wirelens.classify import calibration
from wirelens.classify.calibration import UNKNOWN, Line
from wirelens.classify.dataset import Sample
from wirelens.classify.memory import MemoryRule, Stages, remember
from wirelens.classify.names import StageNames
from wirelens.classify.place import STAGES
from wirelens.classify.recipe import Recipe
from wirelens.classify.served import LoadedModel, ServedTrees, read_model
from wirelens.classify.thresholds import UNCERTAINTIES, uncertainty
from wirelens.errors import ModelError
from wirelens.learn.metrics import Array
from wirelens.sealed import checked, identity_of, read_sums
from wirelens.shipped import model_folder

FORMAT = "wirelens cascade"
VERSION = 2
# Version 2 added calibration, `unknown` and flows named by their protocol, version 3 names and
# a memory of hosts.
BESIDE_VERSION = 3
_VERSIONS = (1, 2, BESIDE_VERSION)
_TCP, _UDP = 6, 17
CASCADE_FILE = "cascade.json"
CARD_FILE = "card.md"


@dataclass(frozen=True)
class Stage:
    """A model, and when its answer is enough."""

    name: str
    family: str
    packets: int
    model: LoadedModel
    measure: str
    # By class; None of the last stage, whose answer stands.
    thresholds: Array | None
    # By class, points that calibrate the answer's probability; none where it stays as it is.
    calibrations: list[Line]
    # What evidence of names weighs, where the cascade has a list of them.
    names: StageNames | None = None

    def scores(self, sample: Sample) -> Array:
        """Probabilities of flows by class, what names say of them included."""
        scores = self.model.score(self.model.prepare(sample), 0, len(sample))
        if self.names is None:
            return scores
        return self.names.mixed(scores, sample.evidence(self.names.packets))


@dataclass(frozen=True)
class Predictions:
    """What a cascade says of flows, row by row."""

    # Class indices.
    labels: Array
    # The likeliest class that names something, and how likely it is right.
    guesses: Array
    confidences: Array
    # Index of the stage that decided; −1 where the protocol did.
    stages: Array
    packets_used: Array
    # Whether the guess is not likely enough to be told, or the class is `unknown`.
    is_unknown: Array

    @property
    def is_by_protocol(self) -> Array:
        """Whether a protocol without ports names the flow."""
        return self.stages < 0


class Cascade:
    """Models in order of use, with the thresholds between them."""

    def __init__(
        self,
        head: dict[str, Any],
        stages: list[Stage],
        identity: str,
        names_list: Path | None = None,
    ) -> None:
        self.head = head
        # The list of names, where they are evidence.
        self.names_list = names_list
        # How hosts are in memory, if they are.
        self.memory = MemoryRule.read(head["memory"]) if "memory" in head else None
        self.name: str = head["name"]
        self.id = identity
        self.classes: list[str] = list(head["classes"])
        self.stages = stages
        self.wait_ns: int = head["wait_ns"]
        self.names_protocols: bool = head.get("portless") == "named"
        below = head.get("unknown_below", 0.0)
        by_class = below if isinstance(below, dict) else dict.fromkeys(self.classes, below)
        self.unknown_below = numpy.array([float(by_class[name]) for name in self.classes])

    @property
    def names_depths(self) -> list[int]:
        """For how many packets each stage awaits names, where they are evidence."""
        return [stage.names.packets for stage in self.stages if stage.names is not None]

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
            identity=first.get("identity", "kept"),
        )

    def predict(self, sample: Sample) -> Predictions:
        """What the runtime says of these flows, by the same rules.

        A stage is asked about the flows that the stages before it were unsure of. A flow that has
        fewer packets than a stage looks at, or did not get them in time, is scored with those
        there are.
        """
        count = len(sample)
        zeros = numpy.zeros(count, dtype=numpy.int64)
        found = Predictions(
            zeros,
            zeros.copy(),
            numpy.ones(count),
            zeros.copy(),
            numpy.ones(count, dtype=numpy.int64),
            numpy.zeros(count, dtype=bool),
        )
        undecided = numpy.arange(count)
        with_memory = self._with_memory(sample)
        if self.names_protocols:
            is_portless = ~numpy.isin(sample.numbers(["protocol"])[:, 0], (_TCP, _UDP))
            found.stages[is_portless] = -1
            undecided = undecided[~is_portless]
        for index, stage in enumerate(self.stages):
            if len(undecided) == 0:
                break
            asked = sample.of(undecided)
            scores = with_memory[index][undecided] if with_memory else stage.scores(asked)
            labels, guesses, raw = calibration.best_guess(scores, self.classes)
            found.labels[undecided], found.guesses[undecided] = labels, guesses
            confidences = calibrated(stage.calibrations, guesses, raw)
            if stage.names is not None:
                # Of a protocol that no class has.
                confidences[asked.evidence(stage.names.packets).is_unlisted] = 0.0
            found.confidences[undecided] = confidences
            found.stages[undecided] = index
            found.packets_used[undecided] = numpy.minimum(asked.packet_counts, stage.packets)
            if stage.thresholds is None:
                break
            goes_on = uncertainty(scores, stage.measure) > stage.thresholds[labels]
            undecided = undecided[goes_on]
        is_low = found.confidences < self.unknown_below[found.guesses]
        is_none = numpy.array([name == UNKNOWN for name in self.classes])[found.labels]
        found.is_unknown[:] = (is_low | is_none) & ~found.is_by_protocol
        return found

    def _with_memory(self, sample: Sample) -> list[Array]:
        """By stage, probabilities of all flows with what is remembered of their hosts; nothing
        where nothing is remembered.
        """
        if self.memory is None:
            return []
        stages = Stages(
            [stage.packets for stage in self.stages],
            [stage.measure for stage in self.stages],
            [stage.thresholds for stage in self.stages if stage.thresholds is not None],
        )
        own = [stage.scores(sample) for stage in self.stages]
        return remember(self.memory, sample, own, stages).scores

    def alone(self, sample: Sample, index: int) -> Array:
        """What one stage would say of all flows: probabilities."""
        return self.stages[index].scores(sample)


def calibrated(lines: Sequence[Line], guesses: Array, raw: Array) -> Array:
    """Probabilities of some guesses, each by the line of its class."""
    found = numpy.asarray(raw, dtype=numpy.float64).copy()
    for place, line in enumerate(lines):
        is_mine = guesses == place
        found[is_mine] = calibration.apply(line, found[is_mine])
    return found


def load(path: str | os.PathLike[str]) -> Cascade:
    """Reads an artifact, and checks that nothing of it was changed.

    A name such as ``"services"`` is that of a model that ships; a folder is given with a
    separator, as in ``"./services"``, or as a `pathlib.Path`.

    Raises
    ------
    ModelError
        If a file is missing, is not what `SHA256SUMS` has, or says what cannot be meant.
    """
    folder = meant(path)
    if not folder.is_dir():
        raise ModelError(
            f"{folder}: no such folder; give the folder that `wirelens train classify` wrote, or "
            "the name of a shipped model"
        )
    sums = read_sums(folder, "wirelens train classify")
    text = checked(folder, CASCADE_FILE, sums)
    try:
        head = json.loads(text)
    except ValueError as error:
        raise ModelError(f"{folder / CASCADE_FILE}: not JSON ({error})") from error
    told = head if isinstance(head, dict) else {}
    seen, version = told.get("format"), told.get("version")
    if seen != FORMAT or version not in _VERSIONS:
        raise ModelError(
            f"{folder / CASCADE_FILE}: format {seen!r}, version {version}; "
            f"wanted: {FORMAT!r} {' or '.join(map(str, _VERSIONS))}"
        )
    if told.get("kind") == "windows":
        raise ModelError(
            f"{folder}: a model of windows; wanted: one of flows; use `wirelens classify --every` "
            "or `wirelens.classify_flows(..., every=...)`"
        )
    try:
        id_ = identity_of(text, head, lambda name: checked(folder, name, sums))
        stages = [
            _stage(folder, told, head["classes"], index + 1 == len(head["stages"]))
            for index, told in enumerate(head["stages"])
        ]
        listed = head.get("names")
        named = folder / listed if listed else None
        cascade = Cascade(head, stages, id_, named)
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
    """The folder that is meant: this one, or that of this name that ships."""
    return model_folder(path, CASCADE_FILE, "wirelens train classify")


def _check_schemas(folder: Path, cascade: Cascade) -> None:
    """Refuses models of features that this version reads otherwise, and stages that differ."""
    recipe = cascade.recipe()
    for stage in cascade.stages:
        declared = cascade.declared(stage)
        if declared["packets"] != stage.packets:
            raise ModelError(
                f"{folder}: stage {stage.name}: its model reads {declared['packets']} packets, but "
                f"{CASCADE_FILE} has {stage.packets}; wanted: the same; train again"
            )
        wanted = recipe.features(stage.packets, declared["numbers"]).hash()
        if declared["schema"] != wanted:
            raise ModelError(
                f"{folder}: stage {stage.name} was trained on features with the schema "
                f"{declared['schema']}; wanted: {wanted}, which this version extracts; train again"
            )


def _stage(
    folder: Path,
    told: dict[str, Any],
    classes: Sequence[str],
    is_last: bool,
) -> Stage:
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
    if "calibration" in told:
        lines: list[Line] = [told["calibration"]] * len(classes)
    elif "calibrations" in told:
        lines = [told["calibrations"][name] for name in classes]
    else:
        lines = []
    packets = int(told["packets"])
    names = StageNames.read(told["names"], classes) if "names" in told else None
    return Stage(told["stage"], told["family"], packets, model, measure, thresholds, lines, names)
