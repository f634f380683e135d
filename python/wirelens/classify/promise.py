"""How well a promise about F1 is kept by captures that had no part in it.

Thresholds that were chosen on some flows look better there than elsewhere, and the more of them
are chosen the more so. So what a point of thresholds does is measured on flows whose families
of captures had no part in setting it (`parted`), and the margin has to hold not only for these
families but for most draws of them (`Promise`).
"""

import numpy

from wirelens.classify.split import folds
from wirelens.learn.metrics import Array, confusion, macro_f1_of_many

# Folds of families: each one's flows go on by thresholds of the others.
_FOLDS = 5
# Draws of families. The tenth of the lowest are twenty.
_DRAWS = 200


def parted(truth: Array, families: Array | None) -> list[tuple[Array, Array]]:
    """Pairs of rows: whose thresholds are asked for, and whose families set them.

    Nothing where families are not told, or where there is one alone.
    """
    if families is None or len(truth) == 0:
        return []
    count = min(_FOLDS, len(numpy.unique(families)))
    if count < 2:
        return []
    everything = numpy.arange(len(truth))
    return [
        (rows, numpy.delete(everything, rows)) for rows in folds(truth, families, count, seed=1)
    ]


class Promise:
    """Whether predictions are at most a margin below others, on the same flows."""

    def __init__(
        self,
        truth: Array,
        beside: Array,
        class_count: int,
        families: Array | None = None,
        sure: float = 0.0,
    ) -> None:
        self.truth, self.class_count, self.sure = numpy.asarray(truth), class_count, sure
        self.f1 = self._f1(beside)
        self._families = None
        if families is None or sure <= 0 or len(self.truth) == 0:
            return
        _, self._families = numpy.unique(numpy.asarray(families), return_inverse=True)
        count = int(self._families.max()) + 1
        dice = numpy.random.default_rng(1)
        self._draws = dice.multinomial(count, numpy.full(count, 1 / count), size=_DRAWS)
        self._truth = self._drawn(self.truth)
        self._beside = self._drawn_f1(beside)

    @property
    def is_drawn(self) -> bool:
        """Whether families are drawn."""
        return self._families is not None

    def _f1(self, said: Array) -> float:
        counts = confusion(self.truth, said, self.class_count)
        return float(macro_f1_of_many(counts[None])[0])

    def _drawn(self, classes: Array, chosen: Array | None = None) -> Array:
        """In each draw, how many flows of each class there are; of some flows where told."""
        assert self._families is not None
        cells = self._families * self.class_count + classes
        size = int(self._families.max() + 1) * self.class_count
        counts = numpy.bincount(cells if chosen is None else cells[chosen], minlength=size)
        return self._draws @ counts.reshape(-1, self.class_count)

    def _drawn_f1(self, said: Array) -> Array:
        """Macro-F1 in each draw, over the classes that the draw has."""
        right = self._drawn(self.truth, said == self.truth)
        both = self._truth + self._drawn(said)
        f1 = numpy.where(both > 0, 2 * right / numpy.maximum(both, 1), 0.0)
        is_there = self._truth > 0
        return (f1 * is_there).sum(axis=1) / numpy.maximum(is_there.sum(axis=1), 1)

    def gap(self, said: Array) -> float:
        """Macro-F1 less the others': of these flows, or what so many draws of families exceed
        as is wanted, whichever is less.
        """
        gap = self._f1(said) - self.f1
        if self._families is None:
            return gap
        return min(gap, float(numpy.quantile(self._drawn_f1(said) - self._beside, 1 - self.sure)))
