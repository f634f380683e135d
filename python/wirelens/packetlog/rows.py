"""Snapshots joined with what their packets are, and a sample of them that fits into memory."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy

from wirelens.errors import OptionError
from wirelens.learn.metrics import Array
from wirelens.packetlog import truth
from wirelens.packetlog.snapshots import SnapshotOptions, snapshots
from wirelens.packetlog.truth import BENIGN, Capture, Truth

# The hash that places flows in a sketch: an evaluation gives the same figures again.
HASH_SEED = 1


@dataclass
class Rows:
    """Packets: what is known of each, and what it is."""

    labels: list[str]
    # Of labels the family, which may be the label itself.
    families: dict[str, str]
    captures: list[Capture]
    values: Array
    holds_flow: Array
    codes: Array
    # Of each packet its capture.
    capture_of: Array
    # How many packets of the captures it stands for.
    counts: Array

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def places(self) -> list[str]:
        """Of each capture where it is from: the data set of runs, or who made it."""
        return [capture.place for capture in self.captures]

    @property
    def is_anomalous(self) -> Array:
        """Whether each packet is anything but benign."""
        return self.codes > 0

    def of_columns(self, indexes: Sequence[int]) -> "Rows":
        """The same packets with some of their columns."""
        return replace(self, values=numpy.ascontiguousarray(self.values[:, list(indexes)]))


def each(
    capture: Capture, found: Truth, options: SnapshotOptions, columns: Sequence[str]
) -> Iterator[tuple[slice, Array, Array]]:
    """Snapshots of a capture with the range of packets they are of, batch by batch."""
    at = 0
    for batch in snapshots(capture.path, options, columns=columns, seed=HASH_SEED):
        where = slice(at, at + len(batch))
        at += len(batch)
        if at > len(found):
            break
        yield where, numpy.asarray(batch.values), numpy.asarray(batch.holds_flow) != 0
    check_count(capture, at, len(found))


def check_count(capture: Capture, packets: int, labels: int) -> None:
    """Refuses labels of another capture."""
    if packets != labels:
        raise OptionError(
            f"{capture.path}: {packets} packets or more, and labels for {labels}; wanted: the "
            "labels of this capture"
        )


@dataclass(frozen=True)
class _Stratum:
    """Packets of a capture that are drawn from together."""

    is_benign: bool
    count: int


def _strata(found: Truth) -> tuple[Array, Array]:
    """Of each packet its stratum, label and role together; the strata's keys."""
    keys = found.codes.astype(numpy.int64) * len(found.roles) + found.role_codes
    kept = numpy.unique(keys[found.codes >= 0])
    return keys, kept


def strata_most(counts: Sequence[int], wanted: int) -> int:
    """How many of each may be taken at most, so that there are no more than wanted."""
    low, high = 1, max([*counts, 1])
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(count, middle) for count in counts) <= wanted:
            low = middle
        else:
            high = middle - 1
    return low


def load(
    captures: Sequence[Capture],
    options: SnapshotOptions,
    columns: Sequence[str],
    rows_max: int,
    seed: int,
    tell: Callable[[int, int, str], None] = lambda done, total, text: None,
) -> Rows:
    """Reads labelled captures and keeps at most so many packets, drawn.

    Half of them are benign. Of each capture as many are drawn from each label and role,
    unless there are fewer; `Rows.counts` says for how many a drawn packet stands.
    """
    truths = []
    for index, capture in enumerate(captures):
        tell(index, 2 * len(captures), f"labels of {capture.name}")
        truths.append(truth.read(capture))
    labels = [BENIGN, *sorted({label for found in truths for label in found.labels} - {BENIGN})]
    strata = []
    for found in truths:
        keys, kept = _strata(found)
        sizes = [int((keys == key).sum()) for key in kept]
        strata.append([_Stratum(key < len(found.roles), size)
                       for key, size in zip(kept, sizes, strict=True)])  # fmt: skip
    most = {
        is_benign: strata_most(
            [one.count for some in strata for one in some if one.is_benign == is_benign],
            rows_max // 2,
        )
        for is_benign in (True, False)
    }
    parts = []
    for index, (capture, found) in enumerate(zip(captures, truths, strict=True)):
        tell(len(captures) + index, 2 * len(captures), f"snapshots of {capture.name}")
        random = numpy.random.default_rng([seed, index])
        parts.append(_drawn(capture, found, (options, columns), most, random))
        # What each packet of it is, is not needed any more.
        truths[index] = replace(found, codes=found.codes[:0], role_codes=found.role_codes[:0])
        parts[-1]["codes"] = numpy.array([labels.index(label) for label in found.labels])[
            parts[-1]["codes"]
        ]
        parts[-1]["capture_of"] = numpy.full(len(parts[-1]["codes"]), index)
    joined = {name: numpy.concatenate([part[name] for part in parts]) for name in parts[0]}
    families = {label: label for label in labels}
    for found in truths:
        families |= found.families
    return Rows(labels, families, list(captures), **joined)


def _drawn(
    capture: Capture,
    found: Truth,
    wanted: tuple[SnapshotOptions, Sequence[str]],
    most: dict[bool, int],
    random: numpy.random.Generator,
) -> dict[str, Array]:
    """Drawn packets of a capture."""
    keys, kept = _strata(found)
    counts = numpy.zeros(len(found), dtype=numpy.float64)
    for key in kept:
        mine = numpy.flatnonzero(keys == key)
        drawn = min(len(mine), most[bool(key < len(found.roles))])
        counts[random.permutation(mine)[:drawn]] = len(mine) / drawn
    values, holds = [], []
    for where, snapshot, holds_flow in each(capture, found, *wanted):
        is_drawn = counts[where] > 0
        values.append(snapshot[is_drawn])
        holds.append(holds_flow[is_drawn])
    is_drawn = counts > 0
    return {
        "values": numpy.concatenate(values) if values else numpy.zeros((0, len(wanted[1]))),
        "holds_flow": numpy.concatenate(holds) if holds else numpy.zeros(0, dtype=bool),
        "codes": found.codes[is_drawn],
        "counts": counts[is_drawn],
    }
