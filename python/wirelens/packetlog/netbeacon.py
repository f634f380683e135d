"""NetBeacon's way to judge packets, as a baseline (Zhou et al., USENIX Security 2023).

A flow is judged when its 2nd, 4th, 8th, 32nd, 256th, 512th and 2048th packet comes, by a model
for that count, and keeps the verdict until the next; before, and without a flow, a model of the
packet alone judges. Here each model is a forest of the same shape as ours, where theirs is one
tree; every flow has a place, where theirs must win one; and variance is exact. Left out are the
hop limit and DSCP: in a testbed they tell machines apart, and ours have neither.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy

from wirelens.learn.metrics import Array
from wirelens.packetlog import folds, forest, truth
from wirelens.packetlog.forest import Forest, Shape
from wirelens.packetlog.rows import HASH_SEED, Rows, strata_most
from wirelens.packetlog.snapshots import SnapshotOptions, snapshots
from wirelens.packetlog.truth import BENIGN, Capture
from wirelens.questions import packets

PHASES = (2, 4, 8, 32, 256, 512, 2048)
_PACKET_COLUMNS = (
    "protocol", "ip_bytes", "transport_header_bytes", "tcp_window", "payload_bytes",
)  # fmt: skip
_FLOW_COLUMNS = (
    "flow_size_max_bytes", "flow_size_min_bytes", "flow_size_mean_bytes",
    "flow_size_variance_bytes2", "flow_gap_min_ns",
)  # fmt: skip
# Of lengths in these the packets so far are counted.
_BINS = ((48, 64), (80, 96))
_COUNT = "flow_packets"
_KEY = ("protocol", "src_ip", "dst_ip", "src_port", "dst_port")
_UDP = 17
_UDP_HEADER_LEN = 8


@dataclass(frozen=True)
class Units:
    """What is judged of a capture: some packets, whose verdicts hold for others."""

    # Columns of the packet, of its flow, and last the phase, 0 for the packet alone.
    values: Array
    # The packet that each unit is judged at.
    packet: Array
    # Of each packet the unit whose verdict it has.
    unit_of: Array


def _flows(capture: Capture) -> Array:
    """Of each packet a number for its 5-tuple, both directions alike."""
    ends: dict[tuple[object, ...], int] = {}
    found = []
    for batch in packets(capture.path).batches():
        protocols, sources, destinations, source_ports, destination_ports = (
            batch.column(name) for name in _KEY
        )
        for index, protocol in enumerate(protocols):
            one = (str(sources[index]), source_ports[index] or 0)
            other = (str(destinations[index]), destination_ports[index] or 0)
            key = (protocol, min(one, other), max(one, other))
            found.append(ends.setdefault(key, len(ends)))
    return numpy.array(found, dtype=numpy.int64)


def units(capture: Capture) -> Units:
    """What is judged of a capture, and for which packets it holds."""
    names = [*_PACKET_COLUMNS, *_FLOW_COLUMNS, _COUNT]
    options = SnapshotOptions(source="exact", window="0", keys=["flow"])
    values = numpy.concatenate([
        numpy.asarray(batch.values)
        for batch in snapshots(capture.path, options, columns=names, seed=HASH_SEED)
    ])  # fmt: skip
    position = values[:, names.index(_COUNT)].astype(numpy.int64)
    flow = _flows(capture)
    each = numpy.arange(len(values))
    order = numpy.lexsort((each, flow))
    # A flow that has ended begins anew with its first packet.
    begins = numpy.zeros(len(values), dtype=bool)
    begins[order] = numpy.diff(flow[order], prepend=-1) != 0
    begins |= position <= 1
    number = numpy.cumsum(begins[order]) - 1
    bins = _binned(values[:, names.index("ip_bytes")][order], number)
    phase = numpy.where(numpy.isin(position, PHASES), position, 0)
    is_unit = (phase > 0) | begins | (position < 0)
    # In the order of flows each packet has the verdict of the latest unit before it.
    latest = numpy.maximum.accumulate(numpy.where(is_unit[order], numpy.arange(len(order)), 0))
    packet_of = numpy.empty_like(order)
    packet_of[order] = order[latest]
    found = numpy.flatnonzero(is_unit)
    unit_of = numpy.searchsorted(found, packet_of)
    counted = numpy.empty((len(values), len(_BINS)), dtype=numpy.float32)
    counted[order] = bins
    is_udp = values[:, 0] == _UDP
    values[:, 4] = numpy.where(is_udp, values[:, 4] + _UDP_HEADER_LEN, -1)
    table = numpy.column_stack([values[:, :-1], counted, phase.astype(numpy.float32)])
    return Units(table[found].astype(numpy.float32), found, unit_of)


def _binned(sizes: Array, number: Array) -> Array:
    """Of each packet how many of its flow so far had a length in each bin."""
    first = numpy.flatnonzero(numpy.diff(number, prepend=-1))
    found = []
    for low, high in _BINS:
        is_in = ((sizes >= low) & (sizes < high)).astype(numpy.int64)
        total = numpy.cumsum(is_in)
        found.append(total - (total[first] - is_in[first])[number])
    return numpy.stack(found, axis=1)


def load(
    captures: Sequence[Capture],
    rows_max: int,
    seed: int,
    tell: Callable[[int, int, str], None] = lambda done, total, text: None,
) -> Rows:
    """Units of labelled captures as rows, each for as many packets as have its verdict."""
    parts = []
    for index, capture in enumerate(captures):
        tell(index, len(captures), f"flows of {capture.name}")
        found, truths = units(capture), truth.read(capture)
        codes = truths.codes[found.packet]
        held = numpy.bincount(found.unit_of, weights=truths.codes >= 0, minlength=len(codes))
        parts.append((found.values, codes, held, truths))
    labels = [BENIGN, *sorted({name for part in parts for name in part[3].labels} - {BENIGN})]
    families = {label: label for label in labels}
    for part in parts:
        families |= part[3].families
    random = numpy.random.default_rng([seed, 3])
    most = {
        is_benign: strata_most(
            [int(((part[1] == code) & (part[2] > 0)).sum())
             for part in parts for code in range(len(part[3].labels)) if (code == 0) == is_benign],
            rows_max // 2,
        )
        for is_benign in (True, False)
    }  # fmt: skip
    columns: list[list[Array]] = [[], [], [], []]
    for index, (values, codes, held, truths) in enumerate(parts):
        counts = numpy.zeros(len(codes))
        for code in range(len(truths.labels)):
            mine = numpy.flatnonzero((codes == code) & (held > 0))
            drawn = random.permutation(mine)[: most[code == 0]]
            counts[drawn] = held[drawn] * len(mine) / max(len(drawn), 1)
        is_drawn = counts > 0
        to_all = numpy.array([labels.index(label) for label in truths.labels])
        for column, of_it in zip(
            columns, (values[is_drawn], to_all[codes[is_drawn]], counts[is_drawn],
                      numpy.full(int(is_drawn.sum()), index)), strict=True,
        ):  # fmt: skip
            column.append(of_it)
    values, codes, counts, capture_of = (numpy.concatenate(column) for column in columns)
    holds_flow = values[:, -1] > 0
    return Rows(labels, families, list(captures), values, holds_flow, codes, capture_of, counts)


class NetBeacon:
    """A forest for each phase."""

    def __init__(self, forests: dict[int, Forest]) -> None:
        self.forests = forests

    @classmethod
    def grown(
        cls, rows: Rows, is_used: Array, weight: float, shape: Shape, seed: int
    ) -> "NetBeacon":
        """Forests over the rows that are used."""
        weights = folds.packet_weights(rows, weight, is_used)
        classes = rows.is_anomalous.astype(numpy.int64)
        phases = rows.values[:, -1].astype(numpy.int64)
        forests = {}
        for phase in (0, *PHASES):
            mine = is_used & (phases == phase)
            if mine.any():
                found = forest.grow(
                    rows.values[mine], classes[mine], weights[mine], 2, shape, seed
                )
                forests[phase] = forest.exported(found)
        return cls(forests)

    def scores(self, values: Array) -> Array:
        """Of units the probability that they are anomalous."""
        phases = values[:, -1].astype(numpy.int64)
        known = numpy.array(sorted(self.forests))
        # A phase of which nothing was seen in training goes on with the model before it.
        used = known[numpy.searchsorted(known, phases, side="right") - 1]
        found = numpy.zeros(len(values))
        for phase, one in self.forests.items():
            mine = used == phase
            found[mine] = one.probabilities(values[mine])[:, 1]
        return found

    def marked(self, capture: Capture, threshold: float = 0.5) -> Array:
        """Of each packet of a capture whether it is anomalous."""
        found = units(capture)
        return (self.scores(found.values) > threshold)[found.unit_of]


def judged(
    rows: Rows, is_used: Array, asked: Array, how: tuple[float, Shape, int]
) -> Array:
    """Scores of rows by forests that were grown on others: what folds want."""
    return NetBeacon.grown(rows, is_used, *how).scores(rows.values[asked])
