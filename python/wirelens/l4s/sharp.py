"""Sharp changes of latency, and how well they are predicted (SwiftQueue, sections 4.1 and 6).

A sharp change is one of at least 20 ms and 20 % from a packet to the next. What is predicted is
compared with what was predicted of the packet before: a prediction that follows what was measured
would else be given the change for nothing.
"""

from dataclasses import dataclass
from typing import Any

import numpy

Array = Any
LEAST_MS, LEAST_SHARE = 20.0, 0.2
# Which packet is the one before: of the sender, of its flow, of its flow in the same queue.
WITHIN = ("sender", "flow", "queue")


@dataclass(frozen=True)
class Score:
    """How well sharp changes were predicted. `changes` are those there were."""

    changes: int
    predicted: int
    right: int

    @property
    def precision(self) -> float:
        """Share of predicted changes that came, in their direction."""
        return self.right / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Share of changes that were predicted."""
        return self.right / self.changes if self.changes else 0.0

    @property
    def f1(self) -> float:
        """Their harmonic mean; 0 where nothing was right."""
        return 2 * self.right / (self.changes + self.predicted) if self.right else 0.0

    def __add__(self, other: "Score") -> "Score":
        return Score(
            self.changes + other.changes, self.predicted + other.predicted, self.right + other.right
        )


def before(within: str, flow: Array, queue: Array, latency_ms: Array) -> Array:
    """For each packet the place of the one before it that has a latency; −1 where none has."""
    has = ~numpy.isnan(latency_ms)
    keys = {
        "sender": numpy.zeros(len(flow), dtype=numpy.int64),
        "flow": flow.astype(numpy.int64) * 2,
        "queue": flow.astype(numpy.int64) * 2 + queue,
    }[within]
    places = numpy.full(len(flow), -1, dtype=numpy.int64)
    chosen = numpy.flatnonzero(has)
    order = chosen[numpy.argsort(keys[chosen], kind="stable")]
    is_same = keys[order[1:]] == keys[order[:-1]]
    places[order[1:][is_same]] = order[:-1][is_same]
    return places


def changes(latency_ms: Array, places: Array) -> Array:
    """1 where latency rises sharply from the packet at its place, −1 where it falls, else 0."""
    latency = numpy.asarray(latency_ms, dtype=numpy.float64)
    found = numpy.zeros(len(latency), dtype=numpy.int8)
    at = numpy.flatnonzero(places >= 0)
    was, now = latency[places[at]], latency[at]
    change = now - was
    with numpy.errstate(invalid="ignore"):
        is_sharp = (abs(change) >= LEAST_MS) & (abs(change) >= LEAST_SHARE * abs(was))
    found[at] = numpy.where(is_sharp, numpy.sign(change), 0)
    return found


def score(latency_ms: Array, predicted_ms: Array, places: Array, judged: Array) -> Score:
    """Predicted changes against those there were, over packets that are `judged`."""
    is_judged = judged & (places >= 0)
    true = changes(latency_ms, places)[is_judged]
    told = changes(predicted_ms, places)[is_judged]
    return Score(
        int((true != 0).sum()), int((told != 0).sum()), int(((true != 0) & (true == told)).sum())
    )
