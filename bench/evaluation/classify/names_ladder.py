"""Rungs of the ladder: what each sees, trained on some flows and asked about others."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightgbm
import numpy
from names_evidence import KINDS, STATES, Evidence, NameList, evidence
from names_flows import PACKETS, RECIPE, ROOT, Flows
from names_model import LogOdds, logarithm
from wirelens.classify import calibration
from wirelens.classify.families import Rows, Training, family, lightgbm_task
from wirelens.classify.port_table import read_known_ports
from wirelens.classify.split import folds
from wirelens.learn.metrics import Array

LIST = ROOT / "models/recipes/services-names.tsv"
PORTS = ROOT / "models/recipes/known-ports.tsv"
BASES = {
    "port list": ("port-table", {}),
    "known ports": ("port-prior", {}),
    # Smaller steps than models/recipes/services-ndpi.toml has: chosen by cross-validation.
    "ports and first bytes": ("boosted-ports", {"num_boost_round": 60, "learning_rate": 0.05,
                                                "min_data_in_leaf": 20}),
}
BYTES = "ports and first bytes"
# Bases, whether the list is used, the penalty on the weights of words (0: none are learned).
MIXED = {
    "names alone, no list": ((), False, 10.0),
    "names alone": ((), True, 0.0),
    "all, no list": ((BYTES,), False, 10.0),
    "all": ((BYTES,), True, 0.0),
    "all, and weights of words": ((BYTES,), True, 10.0),
    "all, from known ports": (("known ports",), True, 0.0),
    "all, from both models": ((BYTES, "known ports"), True, 0.0),
}
TREES = "all, LightGBM"
RUNGS = (*BASES, *MIXED, TREES)
# A port from here on is drawn by hosts.
_DRAWN = 10_000
# A name is right in so many of 100 cases, of the flows that choose the threshold.
RIGHT_MIN = 0.9
# A state with fewer flows is calibrated as all are.
_STATE_MIN = 100
_UNLISTED = "unlisted"


@dataclass(frozen=True)
class KnownNames:
    """All that training needs, beside flows."""

    classes: list[str]
    listed: NameList
    ports: dict[tuple[int, int], Array]

    @staticmethod
    def of(classes: Sequence[str], without: str = "") -> "KnownNames":
        """Knowledge of these classes; of none of the one that is left out."""
        kept = [name for name in classes if name != without]
        return KnownNames(kept, NameList(LIST, without), read_known_ports(Path(PORTS), kept))


@dataclass(frozen=True)
class Answers:
    """Probabilities of flows that were asked about, how they are calibrated, and the threshold."""

    scores: Array
    confidences: Array
    below: float
    lines: dict[str, Any]

    @property
    def guesses(self) -> Array:
        return self.scores.argmax(axis=1)


def shares(flows: Flows, labels: Array) -> Array:
    """Weights: flows of one family, class, protocol and port share that of the root of their
    number."""
    ports = numpy.minimum(flows.values[:, flows.columns.index("server_port")], _DRAWN)
    keys = list(zip(flows.families.tolist(), labels.tolist(),
                    (said["app_protocol"] for said in flows.names), ports.tolist(),
                    strict=True))  # fmt: skip
    counts = Counter(keys)
    return numpy.array([counts[key] ** -0.5 for key in keys])


class NamesTask:
    """Flows that train and flows that are asked about; each base is fitted once."""

    def __init__(self, training: Flows, labels: Array, asked: Flows, known: KnownNames,
                 inner: int = 5, seed: int = 1) -> None:  # fmt: skip
        self.training, self.labels, self.asked, self.known = training, labels, asked, known
        self.weights = shares(training, labels)
        self._parts = folds(labels, training.families, inner, seed)
        self._bases: dict[str, tuple[Array, Array]] = {}
        self.with_list(known.listed)
        self.parameters: dict[str, dict[str, dict[str, float]]] = {}

    def _fitted(self, name: str, rows: Array, asked: Array) -> Array:
        kind, changed = BASES[name]
        made = family(kind)
        told = Training(self.known.classes, 1, 1, dict(changed), self.known.ports)
        columns, groups = self.training.columns, self.training.families[rows]
        ones = numpy.ones(len(rows))
        own = Rows(self.training.values[rows], columns, self.labels[rows], ones, groups)
        model = made.fit(own, told)
        return made.predict(model, Rows(asked, columns, numpy.zeros(len(asked), dtype=int),
                                        numpy.ones(len(asked))))  # fmt: skip

    def save(self, name: str, path: Path) -> None:
        """Writes the trees of a base, trained on all that trains."""
        kind, changed = BASES[name]
        made, training = family(kind), self.training
        told = Training(self.known.classes, 1, 1, dict(changed), self.known.ports)
        own = Rows(training.values, training.columns, self.labels,
                   numpy.ones(len(training)), training.families)  # fmt: skip
        features = RECIPE.features(PACKETS, training.columns).header_bits()
        made.save(made.fit(own, told), path, own, told, features)

    def with_list(self, listed: NameList) -> None:
        """Another list, or part of it."""
        self._evidence = [[evidence(said, listed) for said in flows.names]
                          for flows in (self.training, self.asked)]  # fmt: skip

    def base(self, name: str) -> tuple[Array, Array]:
        """What a model of ports or bytes says of training flows that it did not see, and of those
        that are asked about."""
        if name not in self._bases:
            count = len(self.training)
            unseen = numpy.zeros((count, len(self.known.classes)))
            for rows in self._parts:
                rest = numpy.delete(numpy.arange(count), rows)
                unseen[rows] = self._fitted(name, rest, self.training.values[rows])
            everything = numpy.arange(count)
            self._bases[name] = (unseen, self._fitted(name, everything, self.asked.values))
        return self._bases[name]

    def _mixed(self, name: str) -> tuple[Array, Array]:
        bases, uses_list, penalty = MIXED[name]
        found = [self.base(base) for base in bases]
        model = LogOdds(self.known.classes, uses_list=uses_list, word_penalty=penalty)
        own, asked = self._evidence
        model.fit(own, [one for one, _ in found], self.labels, self.training.families, self.weights)
        self.parameters[name] = model.parameters(len(bases))
        return (model.predict(own, [one for one, _ in found]),
                model.predict(asked, [other for _, other in found]))  # fmt: skip

    def _matrix(self, flows: Flows, found: Sequence[Evidence], base: Array) -> Array:
        kinds = numpy.zeros((len(flows), len(KINDS) * len(self.known.classes)))
        for row, one in enumerate(found):
            for kind, name in one.known:
                place = KINDS.index(kind) * len(self.known.classes)
                kinds[row, place + self.known.classes.index(name)] = 1
        return numpy.hstack([logarithm(base, 0.003), kinds, flows.values])

    def _trees(self) -> tuple[Array, Array]:
        own, asked = self.base("known ports")
        data = lightgbm.Dataset(self._matrix(self.training, self._evidence[0], own), self.labels,
                                weight=self.weights)  # fmt: skip
        settings = {**lightgbm_task(Training(self.known.classes)), "learning_rate": 0.05,
                    "num_leaves": 15, "min_data_in_leaf": 10, "feature_fraction": 0.4,
                    "lambda_l2": 5.0}  # fmt: skip
        model = lightgbm.train(settings, data, num_boost_round=120)
        told = model.predict(self._matrix(self.asked, self._evidence[1], asked))
        # Calibrated by nothing: of flows that trained the trees they are too sure.
        return own, told

    def answers(self, name: str) -> Answers:
        """A rung's answers."""
        if name == TREES:
            told = self._trees()[1]
            return Answers(told, told.max(axis=1), 0.5, {})
        own, asked = self.base(name) if name in BASES else self._mixed(name)
        has_states = name in MIXED and MIXED[name][1]
        is_right = own.argmax(axis=1) == self.labels
        states = [self._states(found, has_states) for found in self._evidence]
        lines = _lines(own.max(axis=1), is_right, self.weights, states[0])
        confidences = _calibrated(lines, own.max(axis=1), states[0])
        everything = numpy.ones(len(own), dtype=bool)
        choice = calibration.choose_below(
            confidences, is_right, ~everything, everything, self.weights,
            foreign_max=1.0, right_min=RIGHT_MIN,
        )  # fmt: skip
        told = _calibrated(lines, asked.max(axis=1), states[1])
        return Answers(asked, told, choice.below, lines)

    def _states(self, found: Sequence[Evidence], has_states: bool) -> Array:
        """What calibrates each flow; nothing where its protocol is of no class of the list."""
        if not has_states:
            return numpy.array(["none"] * len(found))
        return numpy.array([_UNLISTED if one.is_unlisted else one.state for one in found])


def _lines(raw: Array, is_right: Array, weights: Array, states: Array) -> dict[str, Any]:
    """A calibration for each state that has enough flows, else that of all."""
    every = calibration.fit(raw, is_right, weights)
    found = {}
    for state in sorted(set(states.tolist()) - {_UNLISTED}):
        mine = states == state
        enough = int(mine.sum()) >= _STATE_MIN
        found[state] = (calibration.fit(raw[mine], is_right[mine], weights[mine])
                        if enough else every)  # fmt: skip
    return {**dict.fromkeys(("none", *STATES), every), **found}


def _calibrated(lines: dict[str, Any], raw: Array, states: Array) -> Array:
    """Confidences; none where the protocol is of no class."""
    found = numpy.zeros(len(raw))
    for state in set(states.tolist()) - {_UNLISTED}:
        mine = states == state
        found[mine] = calibration.apply(lines[state], raw[mine])
    return found
