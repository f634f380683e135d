"""What each training flow counts: by its class, and by how many others are like it.

A capture in which one host asked the same server a thousand times is one piece of evidence, not a
thousand. A group is the flows of one family of captures, class, protocol and server port.
"""

from dataclasses import dataclass

import numpy

from wirelens.errors import OptionError
from wirelens.learn.metrics import Array

WEIGHTINGS = ("none", "balanced", "root")
GROUPINGS = ("none", "root", "once")
# Ports from here on are drawn by hosts as often as they are a service's own, and make no group.
_DRAWN_PORT_MIN = 10_000


@dataclass(frozen=True)
class Groups:
    """How much flows that are alike count together."""

    # At most so many flows of a group train, drawn; 0 for all.
    flows_max: int = 0
    # A group of n such flows weighs n, its square root, or 1.
    weighting: str = "none"

    def __post_init__(self) -> None:
        if self.flows_max < 0 or self.weighting not in GROUPINGS:
            raise OptionError(
                f"groups of {self.flows_max} flows, weights {self.weighting!r}; "
                f"wanted: 0 or more, and {', '.join(GROUPINGS)}"
            )

    def chosen(self, ports: Array, labels: Array, families: Array, seed: int) -> Array:
        """Indices of the flows that train, in order."""
        if self.flows_max == 0:
            return numpy.arange(len(labels))
        order = numpy.random.default_rng(seed).permutation(len(labels))
        index = _groups(ports, labels, families)[order]
        # Place of each flow among those of its group, in the order that was drawn.
        by_group = numpy.argsort(index, kind="stable")
        starts = numpy.r_[True, index[by_group][1:] != index[by_group][:-1]]
        first = numpy.maximum.accumulate(numpy.where(starts, numpy.arange(len(index)), 0))
        place = numpy.arange(len(index)) - first
        return numpy.sort(order[by_group[place < self.flows_max]])

    def weights(self, ports: Array, labels: Array, families: Array) -> Array:
        """A weight for each of the chosen flows."""
        power = {"none": 0.0, "root": 0.5, "once": 1.0}[self.weighting]
        index = _groups(ports, labels, families)
        return (1 / numpy.bincount(index)[index]) ** power if len(index) else numpy.ones(0)


def _groups(ports: Array, labels: Array, families: Array) -> Array:
    """The number of each flow's group."""
    protocols, numbers = numpy.asarray(ports).astype(numpy.int64)[:, :2].T
    numbers = numpy.where(numbers < _DRAWN_PORT_MIN, numbers, _DRAWN_PORT_MIN)
    _, family = numpy.unique(numpy.asarray(families), return_inverse=True)
    keys = numpy.stack([family, numpy.asarray(labels), protocols, numbers])
    return numpy.unique(keys, axis=1, return_inverse=True)[1].ravel()


def class_weights(
    labels: Array, class_count: int, weighting: str, weights: Array | None = None
) -> Array:
    """A weight for each flow: the same for all, or so that classes weigh the same.

    `balanced` gives each class the same sum of weights; `root` goes half the way, by the square
    root. They are on top of `weights`, and together have a mean of 1.
    """
    power = {"none": 0.0, "balanced": 1.0, "root": 0.5}.get(weighting)
    if power is None:
        raise OptionError(f"class weights {weighting!r}; wanted: {', '.join(WEIGHTINGS)}")
    given = numpy.ones(len(labels)) if weights is None else weights
    sums = numpy.bincount(labels, given, minlength=class_count)
    found = given * (1 / numpy.maximum(sums, 1e-9)[labels]) ** power
    return found / found.mean()
