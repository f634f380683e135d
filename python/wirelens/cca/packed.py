"""Slots of labelled runs, and the compact file that keeps them.

Of each run there are stretches of slots: of some of its flows every input, and the sums over all of
its flows. Intervals are drawn from them as from captures. A file is xz: a line of JSON, then the
numbers, column after column. Nothing is rounded; a file takes about a thousandth of the bytes of
the captures, as packets are full and a queue grows by what comes and shrinks by what leaves.
"""

import json
import lzma
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy

from wirelens import written
from wirelens.errors import OptionError
from wirelens.learn.typed import time_us

if TYPE_CHECKING:
    from wirelens.cca.intervals import Reading

Array = Any

FORMAT = "wirelens-cca-slots 1"
SLOT, PASSED = "1ms", "highest"
INPUTS = ("cbiq_bytes", "ingress_bytes", "egress_bytes", "ingress_packets")
SEGMENT_BYTES = 1448
ROW_LEN = 2 * len(INPUTS) * 4
"""Bytes of a slot before they are compressed."""


@dataclass(frozen=True)
class Member:
    """A flow of a run."""

    control: str
    role: str
    """``measured``, or ``background``: it is there for others to compete with."""
    rtt_ms: float
    """Its round trip without the queue."""

    @property
    def is_background(self) -> bool:
        """It is there for others to compete with."""
        return self.role == "background"


@dataclass(frozen=True)
class Stretch:
    """Slots that follow each other."""

    flows: Array
    """Flows × slots × `INPUTS`, whole numbers."""
    sums: Array
    """Slots × `INPUTS`: those of all flows of the run."""
    spans: Sequence[Sequence[int]]
    """Of each flow the slots in which it is past its start and before its end: the first, and the
    one behind the last. There may be none."""


@dataclass(frozen=True)
class PackedRun:
    """A run without its packets."""

    path: Path
    """The file, and in it the run's name."""
    rate_mbit: float
    buffer_bytes: int
    members: Sequence[Member]
    kept: Sequence[Member]
    """Flows of which there are slots."""
    stretches: Sequence[Stretch]

    @property
    def background(self) -> int:
        """Flows that are there for others to compete with."""
        return sum(member.is_background for member in self.members)

    def drawn(
        self, reading: "Reading", chance: random.Random, background_max: int
    ) -> list[tuple[Member, Array]]:
        """Intervals of its flows, each start as likely as any other.

        Raises
        ------
        OptionError
            If slots were kept otherwise than `reading` wants them.
        """
        columns = self._columns(reading)
        background = [at for at, flow in enumerate(self.kept) if flow.is_background]
        chance.shuffle(background)
        unwanted = set(background[background_max:])
        return [
            (member, self._of_flow(at, reading, columns, chance))
            for at, member in enumerate(self.kept)
            if at not in unwanted
        ]

    def _columns(self, reading: "Reading") -> list[int]:
        wrong = [name for name in reading.inputs if name not in INPUTS]
        has_slots = time_us(reading.slot) == time_us(SLOT) and reading.passed == PASSED
        if wrong or not has_slots or reading.share < 1:
            raise OptionError(
                f"{self.path.parent}: has no {wrong[0] if wrong else 'such slots'}; wanted: "
                f"{', '.join(INPUTS)} of all packets, in slots of {SLOT}, passed {PASSED}; give "
                "captures for others"
            )
        return [INPUTS.index(name) for name in reading.inputs]

    def _of_flow(
        self, at: int, reading: "Reading", columns: list[int], chance: random.Random
    ) -> Array:
        ranges = [
            (number, first, end - reading.slots)
            for number, stretch in enumerate(self.stretches)
            for first, end in [stretch.spans[at]]
        ]
        places = [(number, first, last) for number, first, last in ranges if last >= first]
        found = []
        for number, begin in _starts(places, reading, chance):
            stretch, span = self.stretches[number], slice(begin, begin + reading.slots)
            of_all = [stretch.sums[span][:, columns]] if reading.with_sums else []
            found.append(numpy.concatenate([stretch.flows[at, span][:, columns], *of_all], axis=1))
        width = len(columns) * (2 if reading.with_sums else 1)
        return numpy.array(found, numpy.float32).reshape(-1, reading.slots, width)


def _starts(
    places: Sequence[tuple[int, int, int]], reading: "Reading", chance: random.Random
) -> list[tuple[int, int]]:
    """Stretches and slots in them, out of those from which on intervals can begin."""
    counts = [last - first + 1 for _, first, last in places]
    if not places:
        return []
    # More would be nearly the same again: they share three quarters and more.
    distinct = sum(1 + 4 * (count - 1) // reading.slots for count in counts)
    chosen = chance.choices(places, counts, k=min(reading.per_flow, distinct))
    return [(number, chance.randint(first, last)) for number, first, last in chosen]


def write(path: Path, runs: Sequence[PackedRun]) -> None:
    """Keeps runs in a file.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    about, of_flows, of_all = [], [], []
    for run in runs:
        about.append({
            "name": run.path.name, "rate_mbit": run.rate_mbit, "buffer_bytes": run.buffer_bytes,
            "members": [asdict(member) for member in run.members],
            "kept": [asdict(member) for member in run.kept],
            "stretches": [
                {"slots": len(stretch.sums), "spans": stretch.spans}
                for stretch in run.stretches
            ],
        })  # fmt: skip
        for stretch in run.stretches:
            of_flows += list(stretch.flows)
            of_all.append(stretch.sums)
    head = {"format": FORMAT, "inputs": INPUTS, "slot": SLOT, "passed": PASSED, "runs": about}
    line = json.dumps(head, separators=(",", ":")).encode() + b"\n"
    data = _coded(of_flows) + _coded(of_all)
    written.files(path.parent, {path.name: lzma.compress(line + data, preset=9)})


def read(path: Path) -> list[PackedRun]:
    """The runs of a file.

    Raises
    ------
    OptionError
        If it is none, or damaged.
    """
    try:
        line, data = lzma.decompress(path.read_bytes()).split(b"\n", 1)
        head = dict(json.loads(line))
        if (head.get("format"), tuple(head.get("inputs", ()))) != (FORMAT, INPUTS):
            raise OptionError(
                f"{path}: format {head.get('format')!r}, inputs {head.get('inputs')}; wanted: "
                f"{FORMAT!r} with {', '.join(INPUTS)}"
            )
        lengths = [stretch["slots"] for run in head["runs"] for stretch in run["stretches"]]
        of_flows = [
            stretch["slots"] for run in head["runs"] for stretch in run["stretches"]
            for _ in run["kept"]
        ]  # fmt: skip
        size = ROW_LEN * sum(of_flows)
        if len(data) != size + ROW_LEN * sum(lengths):
            raise ValueError(f"{len(data)} bytes of numbers, of which the first line says others")
        flows, sums = iter(_decoded(data[:size], of_flows)), iter(_decoded(data[size:], lengths))
        return [_run(path, run, flows, sums) for run in head["runs"]]
    except OptionError:
        raise
    except (lzma.LZMAError, EOFError, ValueError, KeyError, TypeError, OSError) as error:
        raise OptionError(f"{path}: {error}; wanted: a file of models/cca_slots.py") from error


def _run(path: Path, about: dict[str, Any], flows: Any, sums: Any) -> PackedRun:
    members, kept = (
        [Member(**member) for member in about[name]] for name in ("members", "kept")
    )  # fmt: skip
    stretches = []
    for stretch in about["stretches"]:
        empty = numpy.zeros((0, stretch["slots"], len(INPUTS)), numpy.int32)
        own = numpy.stack([next(flows) for _ in kept]) if kept else empty
        stretches.append(Stretch(own, next(sums), stretch["spans"]))
    return PackedRun(
        path / about["name"], about["rate_mbit"], about["buffer_bytes"], members, kept, stretches
    )


def _coded(pieces: Sequence[Array]) -> bytes:
    """Column after column the bytes of what can hardly be predicted, high bytes apart.

    A queue holds what it held, what came and what did not leave; what came is full segments, of
    which packets are counted. What is over is 0 nearly everywhere.
    """
    empty = numpy.zeros((0, 2 * len(INPUTS)), numpy.int64)
    columns = numpy.concatenate([empty, *(_predicted(piece) for piece in pieces)]).T
    planes = columns.astype("<i4").copy().view(numpy.uint8).reshape(len(columns), -1, 4)
    return planes.transpose(0, 2, 1).tobytes()


def _predicted(values: Array) -> Array:
    cbiq, came, left, packets = values.astype(numpy.int64).T
    over = numpy.diff(cbiq, prepend=0) - came + left
    columns = [over, came, left, packets - _segments(came)]
    return numpy.stack([part for column in columns for part in divmod(column, SEGMENT_BYTES)], 1)


def _decoded(data: bytes, lengths: Sequence[int]) -> list[Array]:
    planes = numpy.frombuffer(data, numpy.uint8).reshape(2 * len(INPUTS), 4, -1)
    columns = planes.transpose(0, 2, 1).copy().view("<i4")[:, :, 0]
    parts = columns[0::2] * SEGMENT_BYTES + columns[1::2]
    found, at = [], 0
    for length in lengths:
        over, came, left, packets = parts[:, at : at + length]
        cbiq = numpy.cumsum(over + came - left)
        found.append(numpy.stack([cbiq, came, left, packets + _segments(came)], 1, dtype="i4"))
        at += length
    return found


def _segments(size: Array) -> Array:
    return -(-size // SEGMENT_BYTES)
