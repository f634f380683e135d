"""Log-odds of evidence on top of what ports and first bytes say: for `names.py` beside it.

    score(class) = a[state] · log p(class) + Σ k[kind] for evidence of this class + b(class)

`p` is what a model of ports and first bytes says, no class below FLOOR; `state` is the strongest
kind of evidence that the flow has, and softmax of the scores is the answer. Words, where their
weights are learned, add a weight for each class.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy
from names_evidence import KINDS, STATES, Evidence
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from wirelens.learn.metrics import Array, softmax

# No class is less probable to a model of ports and first bytes: what it never saw it rates badly.
FLOOR = 0.03
_HELD = 1.0
_HELD_CLASS = 0.5


def logarithm(scores: Array, floor: float = FLOOR) -> Array:
    """Logarithms of probabilities of which none is below the floor."""
    return numpy.log(scores * (1 - scores.shape[1] * floor) + floor)


@dataclass(frozen=True)
class Shape:
    """How parameters lie in one vector."""

    bases: int
    classes: int
    words: int

    @property
    def bounds(self) -> list[tuple[float | None, float | None]]:
        """Evidence never counts against the class it is of."""
        free = self.classes * (1 + self.words)
        return [(0, None)] * (self.bases + len(KINDS)) + [(None, None)] * free

    def parts(self, vector: Array) -> tuple[Array, Array, Array, Array]:
        """Weights of models by state, of kinds, of classes, of words by class."""
        one, two = self.bases, self.bases + len(KINDS)
        three = two + self.classes
        return (vector[:one], vector[one:two], vector[two:three],
                vector[three:].reshape(self.words, self.classes))  # fmt: skip


class LogOdds:
    """The formula above; `bases` are models' probabilities, none to have names alone."""

    def __init__(self, classes: Sequence[str], *, uses_list: bool = True,
                 word_penalty: float = 0.0) -> None:  # fmt: skip
        self.classes = list(classes)
        self.uses_list = uses_list
        self.word_penalty = word_penalty
        self.vocabulary: dict[str, int] = {}

    def _inputs(self, found: Sequence[Evidence], bases: Sequence[Array]) -> tuple[Array, ...]:
        """Words, kinds by class, and logarithms by base and state."""
        count = len(found)
        cells = [(row, self.vocabulary[word]) for row, one in enumerate(found)
                 for word in one.words if word in self.vocabulary]  # fmt: skip
        at = numpy.array(cells, dtype=int).reshape(-1, 2)
        words = csr_matrix((numpy.ones(len(at)), (at[:, 0], at[:, 1])),
                           shape=(count, max(len(self.vocabulary), 1)))  # fmt: skip
        kinds = numpy.zeros((count, len(KINDS), len(self.classes)))
        states = numpy.zeros((count, len(STATES)))
        for row, one in enumerate(found):
            states[row, STATES.index(one.state) if self.uses_list else 0] = 1
            for kind, name in one.known if self.uses_list else ():
                kinds[row, KINDS.index(kind), self.classes.index(name)] = 1
        logs = [logarithm(base) * states[:, [at]] for base in bases for at in range(len(STATES))]
        return words, kinds, numpy.array(logs).reshape(-1, count, len(self.classes))

    def _shape(self, bases: int) -> Shape:
        return Shape(bases * len(STATES), len(self.classes), max(len(self.vocabulary), 1))

    def _scores(self, vector: Array, shape: Shape, inputs: tuple[Array, ...]) -> Array:
        words, kinds, logs = inputs
        a, k, b, w = shape.parts(vector)
        return (numpy.tensordot(a, logs, 1) + numpy.einsum("nkc,k->nc", kinds, k) + b + words @ w)

    def fit(self, found: Sequence[Evidence], bases: Sequence[Array], labels: Array, groups: Array,
            weights: Array) -> "LogOdds":  # fmt: skip
        """Maximum likelihood, held to one over the number of bases and to zero."""
        if self.word_penalty:
            seen: dict[str, set[str]] = {}
            for one, group in zip(found, groups.tolist(), strict=True):
                for word in one.words:
                    seen.setdefault(word, set()).add(group)
            kept = sorted(word for word, families in seen.items() if len(families) > 1)
            self.vocabulary = {word: place for place, word in enumerate(kept)}
        inputs = self._inputs(found, bases)
        shape = self._shape(len(bases))
        start = numpy.zeros(len(shape.bounds))
        start[: shape.bases] = 1 / max(len(bases), 1)
        held = numpy.full(len(start), self.word_penalty or 1.0)
        held[: shape.bases + len(KINDS)] = _HELD
        held[shape.bases + len(KINDS) : shape.bases + len(KINDS) + len(self.classes)] = _HELD_CLASS
        truth = numpy.eye(len(self.classes))[labels]
        scaled = weights / weights.mean()
        words, kinds, logs = inputs

        def cost(vector: Array) -> tuple[float, Array]:
            shares = softmax(self._scores(vector, shape, inputs))
            likely = numpy.log(numpy.maximum((shares * truth).sum(axis=1), 1e-300))
            off = (shares - truth) * scaled[:, None]
            slope = numpy.concatenate([
                numpy.einsum("bnc,nc->b", logs, off), numpy.einsum("nkc,nc->k", kinds, off),
                off.sum(axis=0), (words.T @ off).ravel(),
            ])  # fmt: skip
            away = vector - start
            return (float(-(scaled * likely).sum() + (held * away**2).sum() / 2),
                    slope + held * away)  # fmt: skip

        self.vector = minimize(cost, start, jac=True, method="L-BFGS-B", bounds=shape.bounds,
                               options={"maxiter": 300}).x  # fmt: skip
        return self

    def predict(self, found: Sequence[Evidence], bases: Sequence[Array]) -> Array:
        """Probabilities by flow and class."""
        shape = self._shape(len(bases))
        return softmax(self._scores(self.vector, shape, self._inputs(found, bases)))

    def parameters(self, bases: int) -> dict[str, dict[str, float]]:
        """All but the words' weights, by name."""
        a, k, b, _ = self._shape(bases).parts(self.vector)
        by_state = a.reshape(bases, len(STATES))
        named = {f"a{base}": dict(zip(STATES, by_state[base].round(6).tolist(), strict=True))
                 for base in range(bases)}  # fmt: skip
        return {**named, "k": dict(zip(KINDS, k.round(6).tolist(), strict=True)),
                "b": dict(zip(self.classes, b.round(6).tolist(), strict=True))}  # fmt: skip
