"""Training a network on intervals, and what it says of others."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy

from wirelens.cca import networks
from wirelens.cca.intervals import Array, Intervals, normalised
from wirelens.cca.model import Network, Voting, votes_of
from wirelens.learn import networks as learning
from wirelens.learn.metrics import confusion, macro_f1, softmax

PAPER = learning.Schedule(
    epochs=100, batch_rows=32, learning_rate=1e-4, weight_decay=0.0, patience=100, decay_every=25,
    decay=0.9,
)  # fmt: skip
"""Batches of 32, Adam, steps of the learning rate, 100 epochs (§III-E, and the authors' code)."""

FASTER = learning.Schedule(
    epochs=40, batch_rows=128, learning_rate=2e-3, weight_decay=1e-4, patience=8, decay_every=8,
    decay=0.5,
)  # fmt: skip
"""Twenty times the rate at first, in larger batches, and an end where nothing gets better."""

FEW = 8000
_OF_FEW = replace(FASTER, batch_rows=32, learning_rate=1e-3)

DEEPCCI = learning.Schedule(
    epochs=50, batch_rows=32, learning_rate=1e-3, weight_decay=0.0, patience=6, decay_every=5,
    decay=0.5,
)  # fmt: skip
"""As DeePCCI's published code trains."""


def faster(intervals: int) -> learning.Schedule:
    """`FASTER`, in smaller batches where there are few intervals: it takes steps, not epochs."""
    return FASTER if intervals >= FEW else _OF_FEW


Show = Callable[[int, float, float], None]
_PARTS = numpy.linspace(0, 1, 101).round(2)


@dataclass(frozen=True)
class TrainedNetwork:
    """A network that was trained, and what it was trained to tell."""

    network: Any
    controls: Sequence[str]
    reads: Callable[[Array], Array]

    def scores(self, intervals: Intervals) -> Array:
        """A score for each control of each interval."""
        return learning.outputs(self.network, self.reads(intervals.values))

    def f1(self, intervals: Intervals) -> float:
        """The mean F1 of the controls that are there."""
        return macro_f1(self.confusion(intervals))

    def confusion(self, intervals: Intervals) -> Array:
        """Intervals by true control and the one that was told."""
        told = self.scores(intervals).argmax(axis=1)
        return confusion(labels(intervals, self.controls), told, len(self.controls))


def labels(intervals: Intervals, controls: Sequence[str]) -> Array:
    """Controls as numbers."""
    return numpy.array([list(controls).index(control) for control in intervals.controls], dtype=int)


def examples(
    intervals: Intervals, controls: Sequence[str], reads: Callable[[Array], Array]
) -> learning.Examples:
    """Intervals as training takes them, each control as heavy as any other."""
    truth = labels(intervals, controls)
    counts = numpy.bincount(truth, minlength=len(controls))
    weights = len(truth) / (numpy.maximum(counts, 1) * max((counts > 0).sum(), 1))
    return learning.Examples(reads(intervals.values), truth, weights[truth])


def dragonfly(
    train: Intervals,
    watched: Intervals,
    controls: Sequence[str],
    *,
    schedule: learning.Schedule | None = None,
    reads: Callable[[Array], Array] = normalised,
    seed: int = 1,
    threads: int = 1,
    show: Show | None = None,
) -> TrainedNetwork:
    """Trains the paper's network on what `reads` makes of rows, `faster` unless told otherwise."""
    slots = train.values.shape[1]
    learning.torch.manual_seed(seed)
    network = networks.Dragonfly(reads(train.values[:1]).shape[2], len(controls), slots)
    learning.fit(
        network, examples(train, controls, reads), examples(watched, controls, reads),
        schedule or faster(len(train)), seed=seed, threads=threads, progress=show,
    )  # fmt: skip
    return TrainedNetwork(network, controls, reads)


def deepcci(
    train: Intervals,
    watched: Intervals,
    controls: Sequence[str],
    column: int,
    *,
    schedule: learning.Schedule = DEEPCCI,
    seed: int = 1,
    threads: int = 1,
    show: Show | None = None,
) -> TrainedNetwork:
    """Trains DeePCCI on packets a slot, the input at `column`."""

    def reads(values: Array) -> Array:
        return values[:, :, [column]]

    learning.torch.manual_seed(seed)
    network = networks.Deepcci(len(controls))
    learning.fit(
        network, examples(train, controls, reads), examples(watched, controls, reads), schedule,
        seed=seed, threads=threads, progress=show,
        extra_loss=network.loss_of_steps, parameters=_clipped(network),
    )  # fmt: skip
    return TrainedNetwork(network, controls, reads)


def _clipped(network: Any) -> Any:
    """Each element of a gradient is cut to ±10, as DeePCCI's code does."""
    for parameter in network.parameters():
        parameter.register_hook(lambda gradient: gradient.clamp(-10, 10))
    return list(network.parameters())


def temperature(scores: Array, truth: Array) -> float:
    """Divided by it, scores make intervals that were not trained on most likely."""

    def surprise(temperature: float) -> float:
        return _surprise(scores / temperature, truth)

    return float(min(numpy.geomspace(0.25, 8, 101), key=surprise))


def calibrated(
    trained: TrainedNetwork, watched: Intervals, unknown_below: float, row_slots: int = 1
) -> Network:
    """As a file has it: with its temperature, and without batch normalisation."""
    blocks, head = trained.network.folded()
    slots = watched.values.shape[1] * row_slots
    pool = trained.network.pool_len
    scores = trained.scores(watched).astype(float)
    found = temperature(scores, labels(watched, trained.controls))
    return Network(slots, pool, blocks, head, found, unknown_below, row_slots, trained.reads)


def correlation(
    network: Network, watched: Intervals, controls: Sequence[str], most: int
) -> float:
    """How far intervals of a network err together that follow each other: with it, those of
    several that were not trained on, slot by slot, are most likely."""
    return _correlation(
        votes_of([network], watched.values), labels(watched, controls), most
    )


def _correlation(votes: Sequence[tuple[Array, int]], truth: Array, most: int) -> float:
    def surprise(correlation: float) -> float:
        return _surprise(Voting(most, correlation).together(votes), truth)

    return float(min(_PARTS, key=surprise))


def voting(
    networks: Sequence[Network], watched: Intervals, controls: Sequence[str], most: int
) -> Voting:
    """With the correlation of the first network's intervals, and with the part at which they are
    most likely with longer ones beside."""
    truth = labels(watched, controls)
    votes = votes_of(networks, watched.values)
    alone = Voting(most, _correlation(votes[:1], truth, most))
    if len(votes) == 1:
        return alone
    both = alone.together(votes)
    part = float(min(_PARTS[1:], key=lambda part: _surprise(both * part, truth)))
    return replace(alone, part=part)


def _surprise(scores: Array, truth: Array) -> float:
    """The mean of how unlikely what is true was held to be, as the logarithm."""
    told = softmax(scores)[numpy.arange(len(truth)), truth]
    return float(-numpy.log(numpy.maximum(told, 1e-12)).mean())


def expected_calibration_error(scores: Array, truth: Array, bins: int = 10) -> float:
    """How far probabilities are from how often they turn out right, over bins of equal width."""
    told = softmax(scores.astype(float))
    highest, right = told.max(axis=1), told.argmax(axis=1) == truth
    error = 0.0
    for low in numpy.arange(bins) / bins:
        inside = (highest > low) & (highest <= low + 1 / bins)
        if inside.any():
            error += inside.mean() * abs(highest[inside].mean() - right[inside].mean())
    return float(error)
