"""Names as evidence: what a list says of the names of flows, and what that weighs.

A model of ports and first bytes gives each class a probability; names change it:

    score(class) = a[state] · log p(class) + Σ k[kind] of evidence for this class + b(class)

where `p` is raised so that no class is below a floor, and softmax of the scores is the answer.
`docs/specs/cascade.md` has kinds and states; evidence is read by the code that serves.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy

from wirelens import _wirelens
from wirelens.classify.features import FirstPacketsTable
from wirelens.classify.tables import read_captures
from wirelens.errors import ModelError
from wirelens.learn.metrics import Array, floor_for, softmax

if TYPE_CHECKING:
    from wirelens._wirelens import EvidenceOptions

KINDS, STATES = (tuple(words) for words in _wirelens.evidence_words())
# What the list is called in an artifact.
LIST_FILE = "names.tsv"
# No class is less probable to a model of ports and first bytes: what it never saw it rates badly.
FLOOR = 0.03
# How firmly weights are held to 1 (of the model), and to 0 (of evidence and of classes).
_HELD = 1.0
_HELD_CLASS = 0.5
_ROUNDS_MAX = 300
# A port from here on is one that hosts draw.
_DRAWN_PORT = 10_000


@dataclass(frozen=True)
class NameList:
    """A list of names, and for how many packets of a flow names are awaited."""

    path: Path
    packets: int = 10

    def depth(self, packets: int) -> int:
        """For how many packets a model of so many awaits names: one of the first packet alone is
        there to decide without waiting.
        """
        return 1 if packets == 1 else max(packets, self.packets)


@dataclass(frozen=True)
class Evidence:
    """What names say of some flows, row by row."""

    # By row, kind and class.
    kinds: Array
    # Whether the protocol is identified and of no class of the list.
    is_unlisted: Array

    def of(self, rows: Array) -> "Evidence":
        """Of some of these flows, by index."""
        return Evidence(self.kinds[rows], self.is_unlisted[rows])

    @property
    def states(self) -> Array:
        """The strongest kind of evidence, by its index in `STATES`."""
        has = self.kinds.any(axis=2)
        found = numpy.zeros(len(has), dtype=numpy.int64)
        for state, name in enumerate(STATES):
            if name in KINDS:
                found[has[:, KINDS.index(name)]] = state
        return found


def read_evidence(
    table: FirstPacketsTable, path: Path, classes: Sequence[str], depths: Sequence[int],
    wait_ns: int,
) -> dict[int, Evidence]:  # fmt: skip
    """Evidence of the flows of a table after these numbers of packets, by number.

    The table's captures are read again, each with names of its own.

    Raises
    ------
    OptionError
        If the list cannot be read or has other classes.
    """
    told = list(dict.fromkeys(depths))
    options: EvidenceOptions = {
        "list": path,
        "classes": list(classes),
        "depths": told,
        "wait_ns": wait_ns,
        "inner": table.features.headers == "innermost",
    }
    rows, *_ = read_captures(
        lambda inputs, _, first: _wirelens.name_evidence(inputs, options, first),
        table.files, table.features, filter=None, snaplen=None, seed=None, **table.timeouts,
    )  # fmt: skip
    cells = [value for batch in rows.batches() for value in batch.column("evidence")]
    words = numpy.frombuffer(b"".join(cells), dtype=numpy.uint64)
    by_depth = words.reshape(len(cells), len(told), len(KINDS) + 1)
    bits = numpy.arange(len(classes), dtype=numpy.uint64)
    found = {}
    for place, depth in enumerate(told):
        kinds = by_depth[:, place, : len(KINDS), None] >> bits & numpy.uint64(1)
        found[depth] = Evidence(kinds.astype(bool), by_depth[:, place, -1] > 0)
    return found


@dataclass(frozen=True)
class StageNames:
    """What a stage makes of names: what evidence weighs, and for how many packets it is awaited."""

    packets: int
    floor: float
    # By state, by kind, by class.
    model: Array
    kinds: Array
    classes: Array

    def mixed(self, scores: Array, evidence: Evidence) -> Array:
        """Probabilities by a model's and by evidence."""
        return softmax(_total(*self._inputs(scores, evidence), self._vector()))

    def _vector(self) -> Array:
        return numpy.concatenate([self.model, self.kinds, self.classes])

    def _inputs(self, scores: Array, evidence: Evidence) -> tuple[Array, Array]:
        # Flows that are judged may be of more classes than the model's.
        kinds = evidence.kinds[:, :, : scores.shape[1]].astype(float)
        return _by_state(scores, evidence, self.floor), kinds

    def told(self, classes: Sequence[str]) -> dict[str, Any]:
        """As `cascade.json` has it."""
        return {
            "packets": self.packets,
            "floor": self.floor,
            "a": dict(zip(STATES, self.model.tolist(), strict=True)),
            "k": dict(zip(KINDS, self.kinds.tolist(), strict=True)),
            "b": dict(zip(classes, self.classes.tolist(), strict=True)),
        }

    @classmethod
    def read(cls, told: dict[str, Any], classes: Sequence[str]) -> "StageNames":
        """From what `cascade.json` has."""
        try:
            parts = [[float(told[part][name]) for name in names]
                     for part, names in (("a", STATES), ("k", KINDS), ("b", classes))]  # fmt: skip
            return cls(
                int(told["packets"]),
                float(told["floor"]),
                *(numpy.array(part) for part in parts),
            )
        except KeyError as error:
            raise ModelError(f"names: {error} is missing; train again") from error


def _by_state(scores: Array, evidence: Evidence, floor: float) -> Array:
    """Logarithms of a model's probabilities by state, row and class; 0 in other states."""
    logs = numpy.log(scores * (1 - scores.shape[1] * floor) + floor)
    states = numpy.eye(len(STATES))[evidence.states]
    return states.T[:, :, None] * logs


def _total(logs: Array, kinds: Array, vector: Array) -> Array:
    a, k, b = numpy.split(vector, [len(STATES), len(STATES) + len(KINDS)])
    total: Array = numpy.tensordot(a, logs, 1) + numpy.einsum("nkc,k->nc", kinds, k) + b
    return total


def row_weights(families: Array, truth: Array, ports: Array, evidence: Evidence) -> Array:
    """Weights of flows that train: those of one family of captures, class, port and protocol weigh
    the root of their number together, so that one place that asks again and again is not many.
    """
    ports = numpy.minimum(ports, _DRAWN_PORT)
    protocols = evidence.kinds.any(axis=2)
    keys = list(zip(families.tolist(), truth.tolist(), ports.tolist(),
                    map(bytes, protocols), strict=True))  # fmt: skip
    counts = Counter(keys)
    return numpy.array([counts[key] ** -0.5 for key in keys])


def fit(
    scores: Array, evidence: Evidence, truth: Array, weights: Array, packets: int
) -> StageNames:
    """Weights of the highest likelihood, held to what changes nothing; evidence never counts
    against its class. `scores` are of models that the flows did not train.
    """
    from scipy.optimize import minimize

    count = scores.shape[1]
    floor = floor_for(count, FLOOR)
    logs, kinds = _by_state(scores, evidence, floor), evidence.kinds.astype(float)
    own, free = len(STATES) + len(KINDS), count
    start = numpy.concatenate([numpy.ones(len(STATES)), numpy.zeros(len(KINDS) + count)])
    held = numpy.concatenate([numpy.full(own, _HELD), numpy.full(free, _HELD_CLASS)])
    is_true = numpy.eye(count)[truth]
    scaled = weights / weights.mean()

    def cost(vector: Array) -> tuple[float, Array]:
        shares = softmax(_total(logs, kinds, vector))
        likely = numpy.log(numpy.maximum((shares * is_true).sum(axis=1), 1e-300))
        off = (shares - is_true) * scaled[:, None]
        slope = numpy.concatenate([
            numpy.einsum("snc,nc->s", logs, off), numpy.einsum("nkc,nc->k", kinds, off),
            off.sum(axis=0),
        ])  # fmt: skip
        away = vector - start
        value = -(scaled * likely).sum() + (held * away**2).sum() / 2
        return float(value), slope + held * away

    # What the bytes identify outweighs the port: beside evidence the model never counts for more
    # than its probabilities say.
    of_model = [(0, None if state == "none" else 1) for state in STATES]
    bounds = [*of_model, *[(0, None)] * len(KINDS), *[(None, None)] * free]
    found = minimize(cost, start, jac=True, method="L-BFGS-B", bounds=bounds,
                     options={"maxiter": _ROUNDS_MAX})  # fmt: skip
    model, of_kinds, of_classes = numpy.split(found.x.round(6), [len(STATES), own])
    return StageNames(packets, floor, model, of_kinds, of_classes)
