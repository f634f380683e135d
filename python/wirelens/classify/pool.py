"""The pool: families × packet depths, trained, scored as served, and kept so that a rerun goes on.

Each model is kept in the work folder under a key of all that it depends on: the data's
fingerprint, the flows it was trained on, columns, parameters, library, seed. A rerun trains what
is not there; changed data or settings find nothing and train anew.
"""

import hashlib
import json
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy

from wirelens import written
from wirelens.classify import names, parameters
from wirelens.classify.dataset import Dataset
from wirelens.classify.families import (
    PORT_FAMILIES,
    Family,
    Rows,
    Training,
    family,
    library_version,
)
from wirelens.classify.features import FlowFeatures
from wirelens.classify.matrix import Matrix, first_numbers
from wirelens.classify.names import NameList, StageNames
from wirelens.classify.place import Candidate
from wirelens.classify.port_table import KnownPorts, read_known_ports
from wirelens.classify.recipe import PORT_NUMBERS, Recipe
from wirelens.classify.served import (
    Cost,
    LoadedModel,
    cost_of,
    read_model,
    scores_of,
    told_features,
)
from wirelens.classify.weights import Groups, class_weights
from wirelens.errors import ModelError, OptionError
from wirelens.learn.metrics import Array, confusion, macro_f1, weighted_f1
from wirelens.learn.progress import Progress

PORT_TABLE = "port-table"
# Scores of the file that is served and of the library that trained it are the same but for this.
_DIFFERENCE_MAX = 1e-5
_VERSION = 5
# As families of networks name them.
ONNX_NAMES = {"input": "row", "output": "probabilities"}


@dataclass(frozen=True)
class Plan:
    """Which flows train, which choose, which judge."""

    # Trains the model that is served.
    training: Array
    # Flows that models are chosen by, with the flows that train the model that scores them.
    # One pair is a validation set; several are folds, each scored by a model of the others.
    checks: list[tuple[Array, Array]]
    test: Array

    @property
    def checked(self) -> Array:
        """The flows that models are chosen by, in the order of their scores."""
        return numpy.concatenate([rows for _, rows in self.checks])


@dataclass(frozen=True)
class PoolSettings:
    """What is trained, and how."""

    families: Sequence[str]
    depths: Sequence[int]
    seed: int = 1
    threads: int = 1
    weighting: str = "none"
    # By family, parameters in place of its own.
    changed: dict[str, dict[str, Any]] = field(default_factory=dict)
    # A table of what is known of ports beforehand.
    known_ports: Path | None = None
    groups: Groups = Groups()
    # Names as evidence, by a list.
    names: NameList | None = None


@dataclass(frozen=True)
class PoolModel:
    """A model of the pool."""

    profile: Candidate
    file: Path
    features: FlowFeatures
    columns: list[str]
    library: str
    parameters: dict[str, Any]
    # Probabilities by row and class: of the plan's checked flows, and of the test flows.
    check_scores: Array
    test_scores: Array
    # Greatest difference to the library's own probabilities.
    difference: float
    training_s: float
    # Of an ONNX file: its input and output.
    details: dict[str, Any]
    # What evidence of names weighs, which the scores include.
    names: StageNames | None = None

    @property
    def name(self) -> str:
        """Family and depth."""
        return self.profile.name


class Pool:
    """Trains models of a data set, or finds them trained."""

    def __init__(
        self,
        dataset: Dataset,
        recipe: Recipe,
        matrix: Matrix,
        plan: Plan,
        settings: PoolSettings,
        work: Path,
        progress: Progress,
    ) -> None:
        self.dataset, self.recipe, self.matrix, self.plan = dataset, recipe, matrix, plan
        self.settings, self.work, self.progress = settings, work, progress
        self._flows = flows_hash(dataset)
        path = settings.known_ports
        self._known = {} if path is None else read_known_ports(path, dataset.classes)
        self._waiting_us = {
            depth: float(dataset.sample.of(plan.checked).waiting_us(depth).mean())
            for depth in settings.depths
        }

    def members(self) -> list[tuple[str, int]]:
        """Families and depths; tables of ports have one, since more packets tell them nothing."""
        return [
            (name, depth)
            for name, depths in asked_depths(self.settings.families, self.settings.depths).items()
            for depth in depths
            if name not in PORT_FAMILIES or depth == min(self.settings.depths)
        ]

    def train(self) -> list[PoolModel]:
        """All members, in order."""
        members = self.members()
        with written.naming(self.work):
            self.work.mkdir(parents=True, exist_ok=True)
        trained = []
        for index, (name, depth) in enumerate(members):
            self.progress.show(index, len(members), f"{name}, {depth} packets")
            with written.naming(self.work):
                trained.append(self._member(family(name), depth))
            model = trained[-1]
            self.progress.tell(
                f"{model.name:<20} macro-F1 {model.profile.macro_f1:.3f}, "
                f"{model.profile.alone_us:7.2f} µs alone, {model.profile.batch_us:7.2f} in "
                f"batches ({model.training_s:.1f} s)"
            )
        self.progress.finish()
        return trained

    def _port_columns(self) -> list[str]:
        """What tables of ports look at: the client's port where it is among the numbers."""
        asked = self.recipe.number_names(1)
        return [*PORT_NUMBERS, *(name for name in ("client_port",) if name in asked)]

    def _ports(self, rows: Array) -> Array:
        return first_numbers(self.dataset.sample.of(rows), PORT_NUMBERS)

    def _trained_on(self, kind: Family, rows: Array) -> Array:
        """Of some flows those that train: of flows that are alike as many as was said."""
        if kind.name in PORT_FAMILIES:
            return rows
        labels, families = self.dataset.labels[rows], self.dataset.families[rows]
        seed = self.settings.seed
        return rows[self.settings.groups.chosen(self._ports(rows), labels, families, seed)]

    def _rows(self, kind: Family, depth: int, rows: Array) -> Rows:
        labels, groups = self.dataset.labels[rows], self.dataset.families[rows]
        if kind.name in PORT_FAMILIES:
            names, size = self._port_columns(), len(self.dataset.classes)
            weights = class_weights(labels, size, self.settings.weighting)
            values = first_numbers(self.dataset.sample.of(rows), names)
            return Rows(values, names, labels, weights, groups)
        given = self.settings.groups.weights(self._ports(rows), labels, groups)
        weights = class_weights(labels, len(self.dataset.classes), self.settings.weighting, given)
        values, columns = self.matrix.values(depth, rows), self.matrix.columns(depth)
        return Rows(values, columns, labels, weights, groups)

    def _features(self, kind: Family, depth: int) -> FlowFeatures:
        is_ports = kind.name in PORT_FAMILIES
        numbers = self._port_columns() if is_ports else self.matrix.numbers_of(depth)
        return self.recipe.features(depth, numbers)

    def _key(self, kind: Family, depth: int, features: FlowFeatures) -> str:
        is_ports = kind.name in PORT_FAMILIES
        columns = self._port_columns() if is_ports else self.matrix.columns(depth)
        told = {
            "version": _VERSION,
            "data": self.dataset.fingerprint,
            "flows": self._flows,
            "classes": self.dataset.classes,
            "plan": _plan_hash(self.plan),
            "family": kind.name,
            "library": library_version(kind),
            "parameters": {**kind.parameters, **self.settings.changed.get(kind.name, {})},
            "weighting": self.settings.weighting,
            "groups": [self.settings.groups.flows_max, self.settings.groups.weighting],
            "packets": depth,
            "schema": features.hash(),
            "columns": hashlib.sha256("\n".join(columns).encode()).hexdigest(),
            "known ports": hashlib.sha256(repr(sorted_ports(self._known)).encode()).hexdigest(),
            "wait": self.dataset.sample.wait_ns,
            "seed": self.settings.seed,
        }
        text = json.dumps(told, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    def _member(self, kind: Family, depth: int) -> PoolModel:
        features = self._features(kind, depth)
        stem = self.work / f"{kind.name}-{depth}-{self._key(kind, depth, features)}"
        kept = stem.with_suffix(".json")
        if not kept.is_file():
            self._train(kind, depth, features, stem)
        told, check_scores, test_scores = _read_kept(stem)
        weighed = None
        if self.settings.names is not None:
            weighed, check_scores, test_scores = self._with_names(depth, check_scores, test_scores)
        truth = self.dataset.labels[self.plan.checked]
        counts = confusion(truth, check_scores.argmax(axis=1), len(self.dataset.classes))
        return PoolModel(
            profile=Candidate(
                kind.name,
                depth,
                macro_f1(counts),
                weighted_f1(counts),
                told["alone_us"],
                told["batch_us"],
                self._waiting_us[depth],
            ),
            file=stem.with_name(told["file"]),
            features=features,
            columns=told["columns"],
            library=told["library"],
            parameters=told["parameters"],
            check_scores=check_scores,
            test_scores=test_scores,
            difference=told["difference"],
            training_s=told["training_s"],
            details=told["details"],
            names=weighed,
        )

    def _with_names(
        self, depth: int, check_scores: Array, test_scores: Array
    ) -> tuple[StageNames, Array, Array]:
        """What evidence weighs, and scores with it: of checked flows by weights that other folds
        gave.
        """
        assert self.settings.names is not None
        packets = self.settings.names.depth(depth)
        checked, test = self.plan.checked, self.plan.test
        evidence = self.dataset.sample.of(checked).evidence(packets)
        truth, families = self.dataset.labels[checked], self.dataset.families[checked]
        weights = names.row_weights(families, truth, self._ports(checked)[:, 1], evidence)
        scores = check_scores.copy()
        ends = numpy.cumsum([len(rows) for _, rows in self.plan.checks])
        everything = numpy.arange(len(checked))
        for mine in numpy.split(everything, ends[:-1]):
            rest = numpy.delete(everything, mine) if len(ends) > 1 else everything
            weighed = names.fit(
                check_scores[rest], evidence.of(rest), truth[rest], weights[rest], packets
            )
            scores[mine] = weighed.mixed(check_scores[mine], evidence.of(mine))
        weighed = names.fit(check_scores, evidence, truth, weights, packets)
        if len(test) == 0:
            return weighed, scores, test_scores
        asked = self.dataset.sample.of(test).evidence(packets)
        return weighed, scores, weighed.mixed(test_scores, asked)

    def _train(self, kind: Family, depth: int, features: FlowFeatures, stem: Path) -> None:
        """Trains a member, and keeps it; what is kept last makes it complete."""
        began_s = time.monotonic()
        file = stem.with_name(stem.name + kind.suffix)
        check_scores: list[Array] = []
        difference = 0.0
        is_one = len(self.plan.checks) == 1
        for number, (training, checked) in enumerate(self.plan.checks):
            self.progress.show(
                number, len(self.plan.checks), f"{kind.name}, {depth} packets: fold {number + 1}"
            )
            # One check's model is the one that is served.
            place = file if is_one else stem.with_name(f"{stem.name}.fold{kind.suffix}")
            scores, off = self._fit(kind, depth, features, training, checked, place)
            check_scores.append(scores)
            difference = max(difference, off)
        if is_one:
            test_scores = self._score(file, kind, depth, self.plan.test)
        else:
            test_scores, off = self._fit(
                kind, depth, features, self.plan.training, self.plan.test, file
            )
            difference = max(difference, off)
            stem.with_name(f"{stem.name}.fold{kind.suffix}").unlink()
        cost = self._cost(file, kind, depth)
        columns = self._rows(kind, depth, self.plan.training[:1]).columns
        numpy.savez(
            stem.with_suffix(".npz"), check=numpy.concatenate(check_scores), test=test_scores
        )
        told = {
            "file": file.name,
            "columns": list(columns),
            "library": library_version(kind),
            "parameters": {**kind.parameters, **self.settings.changed.get(kind.name, {})},
            "alone_us": cost.alone_us,
            "batch_us": cost.batch_us,
            "difference": difference,
            "training_s": round(time.monotonic() - began_s, 3),
            "details": _details(kind),
        }
        written.text(stem.with_suffix(".json"), json.dumps(told))

    def _fit(
        self,
        kind: Family,
        depth: int,
        features: FlowFeatures,
        training: Array,
        asked: Array,
        place: Path,
    ) -> tuple[Array, float]:
        """Trains on some flows and writes the file; its scores of others, and how far off it is."""
        rows = self._rows(kind, depth, self._trained_on(kind, training))
        settings = Training(
            self.dataset.classes,
            self.settings.seed,
            self.settings.threads,
            self.settings.changed.get(kind.name, {}),
            self._known,
        )
        model = _fitted(kind, rows, settings)
        kind.save(model, place, rows, settings, features.header_bits())
        scores, difference = self._score(place, kind, depth, asked), 0.0
        if len(asked):
            own = numpy.asarray(kind.predict(model, self._rows(kind, depth, asked)))
            difference = float(numpy.abs(own - scores).max())
        if not difference <= _DIFFERENCE_MAX:
            raise ModelError(
                f"{kind.name}, {depth} packets: served probabilities differ from "
                f"{library_version(kind)}'s by {difference:.3g}; wanted: {_DIFFERENCE_MAX} at "
                "most; please report it, and leave this family out with --families"
            )
        return scores, difference

    def _score(self, place: Path, kind: Family, depth: int, flows: Array) -> Array:
        if len(flows) == 0:
            return numpy.zeros((0, len(self.dataset.classes)))
        sample = self.dataset.sample.of(flows)
        return scores_of(self._served(place, kind, depth), sample)

    def _cost(self, place: Path, kind: Family, depth: int) -> Cost:
        sample = self.dataset.sample.of(self.plan.checked)
        return cost_of(self._served(place, kind, depth), sample)

    def _served(self, place: Path, kind: Family, depth: int) -> LoadedModel:
        told = {
            "features": told_features(self._features(kind, depth)),
            "columns": self.matrix.columns(depth),
            **_details(kind),
        }
        return read_model(place, told, len(self.dataset.classes))


def asked_depths(families: Sequence[str], depths: Sequence[int]) -> dict[str, list[int]]:
    """Families with the depths that are trained of them: `lightgbm` of all, `lightgbm/3` of 3."""
    found: dict[str, set[int]] = {}
    for text in families:
        name, _, depth = text.partition("/")
        found.setdefault(name, set()).update([int(depth)] if depth else depths)
    return {name: sorted(some) for name, some in found.items()}


def sorted_ports(known: KnownPorts) -> list[tuple[tuple[int, int], list[float]]]:
    """The same in an order that does not depend on the table's."""
    return sorted((key, weights.tolist()) for key, weights in known.items())


def _details(kind: Family) -> dict[str, str]:
    """What the input and the output of an ONNX file are called."""
    return dict(ONNX_NAMES) if kind.suffix == ".onnx" else {}


def flows_hash(dataset: Dataset) -> str:
    """Flows in their order, which scores that are kept have, and which of them are of one family,
    by which some models weigh them. The fingerprint depends on neither.
    """
    places: dict[Any, int] = {}
    families = [places.setdefault(name, len(places)) for name in dataset.families.tolist()]
    flows = zip(dataset.keys, dataset.first_ns, dataset.labels.tolist(), families, strict=True)
    digest = hashlib.sha256()
    for flow in flows:
        digest.update(repr(flow).encode())
    return digest.hexdigest()


def _plan_hash(plan: Plan) -> str:
    digest = hashlib.sha256()
    for rows in [plan.training, plan.test, *(side for pair in plan.checks for side in pair)]:
        digest.update(numpy.ascontiguousarray(rows, dtype=numpy.int64).tobytes())
        digest.update(b"|")
    return digest.hexdigest()


def _fitted(kind: Family, rows: Rows, settings: Training) -> Any:
    """A trained model; where its library refuses what `--set` says, in our words."""
    if not settings.changed:
        return kind.fit(rows, settings)
    parameters.check(kind.name, kind.library, kind.parameters, settings.changed)
    try:
        return kind.fit(rows, settings)
    except Exception as error:
        # Each library has errors of its own kinds.
        told = ", ".join(f"{name}={value}" for name, value in settings.changed.items())
        why = " ".join(str(error).split())
        raise OptionError(f"--set: {kind.name} refuses {told}: {why}") from error


def _read_kept(stem: Path) -> tuple[dict[str, Any], Array, Array]:
    """What is kept of a trained model: what is told of it, and its scores."""
    try:
        told: dict[str, Any] = json.loads(stem.with_suffix(".json").read_text(encoding="utf-8"))
        with numpy.load(stem.with_suffix(".npz")) as arrays:
            return told, arrays["check"], arrays["test"]
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise ModelError(
            f"{stem}.json and .npz: cannot be read ({error}); remove them, and they are created again"
        ) from error
