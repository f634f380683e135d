"""Labelled flows with their first packets: what models are trained and judged on."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy

from wirelens.classify import copies
from wirelens.classify.calibration import UNKNOWN
from wirelens.classify.copies import CaptureHash, joined_families
from wirelens.classify.features import FirstPacketsTable, FlowFeatures, first_packets
from wirelens.classify.labels import (
    CaptureNames,
    FlowKey,
    FlowLabel,
    LabelTable,
    Matching,
    class_name,
    flow_key,
    match,
    read_labels,
)
from wirelens.classify.names import Evidence, read_evidence
from wirelens.classify.recipe import PORT_NUMBERS, Recipe, packet_of
from wirelens.errors import OptionError
from wirelens.found import readable_captures
from wirelens.learn.metrics import Array
from wirelens.learn.sealing import is_sealed

# When flows end, as `wirelens classify` does it with the model.
IDLE_TIMEOUT_NS = 120_000_000_000
ACTIVE_TIMEOUT_NS = 1_800_000_000_000
WAIT_NS = 10_000_000_000
_RUN_FILE = "run.json"
# −1 where a first packet's transport header could not be read.
_FIRST_PAYLOAD = "pkt0_payload_bytes"
_TCP, _UDP = 6, 17
# Of a number of a packet that is not there; of others 0.
_ABSENT = {"payload_bytes": -1.0}


class _CachedTable:
    """A table of first packets, what is asked of it more than once kept."""

    def __init__(self, table: FirstPacketsTable) -> None:
        self.table = table
        # What names say after numbers of packets, where it was read.
        self.evidence: dict[int, Evidence] = {}

    def read_names(
        self, path: Path, classes: Sequence[str], depths: Sequence[int], wait_ns: int
    ) -> None:
        """Reads names as evidence by a list, after these numbers of packets."""
        self.evidence = read_evidence(self.table, path, classes, depths, wait_ns)

    @cached_property
    def numbers(self) -> Array:
        return numpy.asarray(self.table.numbers).reshape(len(self.table), -1)

    @cached_property
    def keys(self) -> dict[str, list[Any]]:
        return self.table.keys()

    @cached_property
    def packets(self) -> Array:
        return numpy.array(self.keys["packets"])

    @cached_property
    def has_ended(self) -> Array:
        """Whether its hosts closed the flow."""
        return numpy.array([reason in ("fin", "rst") for reason in self.keys["end_reason"]])

    @cached_property
    def records(self) -> Array:
        shape = (len(self.table), self.table.features.packets, self.table.record_len)
        return numpy.frombuffer(self.table.records, dtype=numpy.uint8).reshape(shape)


class Sample:
    """Some flows, as models see them. What came later than a flow waits is not there."""

    def __init__(self, read: _CachedTable, rows: Array, wait_ns: int) -> None:
        self.features: FlowFeatures = read.table.features
        self._read = read
        self._rows = rows
        self.wait_ns = wait_ns

    def __len__(self) -> int:
        return len(self._rows)

    def of(self, rows: Array) -> "Sample":
        """Some of these flows, by index."""
        return Sample(self._read, self._rows[rows], self.wait_ns)

    def _raw(self, name: str) -> Array:
        return self._read.numbers[self._rows, self.features.numbers.index(name)]

    @cached_property
    def arrivals_ns(self) -> Array:
        """When each packet came, after the first, by row and packet; infinite if it did not."""
        depth = self.features.packets
        gaps = numpy.stack([self._raw(f"pkt{k}_gap_ns") for k in range(depth)], axis=1)
        is_there = numpy.stack([self._raw(f"pkt{k}_direction") != 0 for k in range(depth)], axis=1)
        return numpy.where(is_there, numpy.cumsum(gaps, axis=1), numpy.inf)

    @cached_property
    def packet_counts(self) -> Array:
        """Packets of each row that came before it was decided by what there was."""
        came = self.arrivals_ns < self.wait_ns
        # A first packet is always there; after one that came too late none counts.
        came[:, 0] = True
        return numpy.cumprod(came, axis=1).sum(axis=1)

    def records(self, packets: int) -> bytes:
        """Compact records of the first packets, end to end."""
        found = self._read.records[self._rows, :packets]
        is_late = numpy.arange(packets) >= self.packet_counts[:, None]
        if is_late.any():
            # A record of no packet is all zeros.
            found[is_late] = 0
        return bytes(found.tobytes())

    def numbers(self, names: Sequence[str]) -> Array:
        """Numbers by row and name, 64-bit."""
        columns = []
        for name in names:
            values = self._raw(name)
            packet, _, kind = name.partition("_")
            if packet.startswith("pkt"):
                absent = -1.0 if kind.startswith("byte_") else _ABSENT.get(kind, 0.0)
                is_late = packet_of(name) >= self.packet_counts
                values = numpy.where(is_late, absent, values)
            columns.append(values)
        shape = (len(self), len(columns))
        return numpy.stack(columns, axis=1) if columns else numpy.zeros(shape)

    def bits(self, names: Sequence[str]) -> Array:
        """Header bits by row and name: −1, 0 or 1."""
        if not names:
            return numpy.zeros((len(self), 0), dtype=numpy.int8)
        found = numpy.asarray(self._read.table.bits(names))[self._rows]
        packets = numpy.array([packet_of(name) for name in names])
        found[packets >= self.packet_counts[:, None]] = -1
        return found

    def values(self, columns: Sequence[str]) -> Array:
        """Columns of a model as 32-bit floats, bits and numbers in the order that is asked."""
        known = set(self.features.numbers)
        matrix = numpy.empty((len(self), len(columns)), dtype=numpy.float32)
        of_numbers = [index for index, name in enumerate(columns) if name in known]
        of_bits = [index for index, name in enumerate(columns) if name not in known]
        matrix[:, of_numbers] = self.numbers([columns[index] for index in of_numbers])
        matrix[:, of_bits] = self.bits([columns[index] for index in of_bits])
        return matrix

    def evidence(self, packets: int) -> Evidence:
        """What names say after so many packets, one of the numbers for which it was read."""
        return self._read.evidence[packets].of(self._rows)

    @cached_property
    def hosts(self) -> list[tuple[int, str]]:
        """Who sent each flow's first packet: its capture and address."""
        keys = self._read.keys
        return [(keys["file"][row], keys["src_ip"][row]) for row in self._rows]

    @cached_property
    def first_s(self) -> Array:
        """When each flow began."""
        return numpy.array([(self._read.keys["first_ns"][row] or 0) / 1e9 for row in self._rows])

    def bounds(self, name: str) -> list[int | None]:
        """Each flow's `first_ns` or `last_ns`; None where its capture has no times."""
        stamps = self._read.keys[name]
        return [stamps[row] for row in self._rows.tolist()]

    def waiting_us(self, packets: int) -> Array:
        """How long each flow waits until a model of so many packets can be asked.

        Until the last of them came; of a flow that has fewer, all it may wait, unless it was
        closed by its hosts: then until its last packet.
        """
        last = self.arrivals_ns[:, packets - 1]
        has_ended = self._read.has_ended[self._rows] & (self._read.packets[self._rows] < packets)
        seen = numpy.where(numpy.isfinite(self.arrivals_ns), self.arrivals_ns, 0).max(axis=1)
        ns = numpy.minimum(numpy.where(has_ended, seen, last), self.wait_ns)
        return ns / 1e3

    def varying_bits(self) -> list[str]:
        """Names of the bits that are not the same in all of these flows."""
        is_mine = numpy.zeros(len(self._read.table), dtype=bool)
        is_mine[self._rows] = True
        return self._read.table.varying_bits(is_mine)


@dataclass(frozen=True)
class Source:
    """Where labelled flows come from."""

    captures: list[Path]
    labels: LabelTable
    # Families of captures, in the order of the captures; a capture's own name unless told.
    families: list[str]
    # What makes these families doubtful.
    warnings: tuple[str, ...] = ()


def renamed(source: Source, classes: dict[str, str]) -> Source:
    """The same with labels by a table: `A.B` is looked up as such, then as `A`; a label that is
    not there is of no class, `unknown`, and one whose class is `-` has no label.
    """
    rows = []
    for row in source.labels.rows:
        known = classes.get(row.label, classes.get(row.label.partition(".")[0], UNKNOWN))
        if known != "-":
            rows.append(replace(row, label=known))
    labels = LabelTable(source.labels.path, rows, source.labels.blank)
    return replace(source, labels=labels)


def together(one: Source, other: Source) -> Source:
    """Captures and labels of both; lines of the second table count on from the first."""
    last = max((row.line for row in one.labels.rows), default=0)
    rows = [replace(row, line=row.line + last) for row in other.labels.rows]
    labels = LabelTable(
        f"{one.labels.path}, {other.labels.path}",
        [*one.labels.rows, *rows],
        one.labels.blank + other.labels.blank,
    )
    return Source(
        [*one.captures, *other.captures],
        labels,
        [*one.families, *other.families],
        (*one.warnings, *other.warnings),
    )


@dataclass
class Dataset:
    """Labelled flows. Rows are flows that have a label and a class that is kept."""

    captures: list[Path]
    classes: list[str]
    labels: Array
    families: Array
    # Index of each flow's capture.
    capture_of: Array
    sample: Sample
    fingerprint: str
    segmentation: str
    matching: Matching
    keys: list[FlowKey] = field(repr=False)
    first_ns: list[int] = field(repr=False)
    warnings: list[str] = field(default_factory=list)
    # After so long without a packet a flow ended.
    idle_timeout_ns: int = IDLE_TIMEOUT_NS
    # Of each capture that has labelled flows, by its index.
    hashes: dict[int, CaptureHash] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.labels)

    def of(self, rows: Array) -> "Dataset":
        """Some of these flows, by index."""
        return replace(
            self,
            labels=self.labels[rows],
            families=self.families[rows],
            capture_of=self.capture_of[rows],
            sample=self.sample.of(rows),
            keys=[self.keys[row] for row in rows.tolist()],
            first_ns=[self.first_ns[row] for row in rows.tolist()],
        )

    def _flows(self) -> copies.Flows:
        first, last = self.sample.bounds("first_ns"), self.sample.bounds("last_ns")
        return copies.Flows(self.keys, self.families.tolist(), first, last)

    def with_copies_joined(self) -> "Dataset":
        """The same; families that have a flow in common are one."""
        captures = [self.hashes[file].content for file in self.capture_of.tolist()]
        families = copies.families_with_copies(self._flows(), captures)
        return replace(self, families=numpy.array(families))

    def meetings(self) -> list[str]:
        """Says which flows may be in captures of several families."""
        files = self.capture_of.tolist()
        return copies.meeting_message(self._flows(), self.captures, files, self.idle_timeout_ns)

    def oddities(self) -> str:
        """How many flows are unlike what most models are made for, in a sentence."""
        protocols, first = self.sample.numbers(["protocol", _FIRST_PAYLOAD]).T
        is_usual = (protocols == _TCP) | (protocols == _UDP)
        depth = self.sample.features.packets
        short = int((self.sample.packet_counts < depth).sum())
        return (
            f"{int((~is_usual).sum())} of {len(self)} flows are neither TCP nor UDP, "
            f"{int((is_usual & (first < 0)).sum())} begin with a packet truncated within its "
            f"headers, {short} have fewer than {depth} packets in time"
        )

    def flows_by_class(self) -> dict[str, int]:
        """How many flows each class has."""
        counts = numpy.bincount(self.labels, minlength=len(self.classes))
        return dict(zip(self.classes, counts.tolist(), strict=True))


def testbed_source(folder: Path) -> Source:
    """Runs of the testbed: the folder of one, or one that holds many. Each run is a family."""
    if not folder.is_dir():
        raise OptionError(f"{folder}: no such folder; wanted: a run of the testbed, or many")
    runs = sorted(path.parent for path in folder.rglob(_RUN_FILE) if _is_accepted(path))
    if not runs:
        raise OptionError(
            f"{folder}: no accepted testbed run; wanted: a folder with "
            f"{_RUN_FILE}, or one of such folders"
        )
    captures: list[Path] = []
    rows: list[FlowLabel] = []
    families: list[str] = []
    for run in runs:
        found = sorted(run.glob("*.pcapng*"))
        table = run / "flows.tsv"
        if len(found) != 1 or not table.is_file():
            raise OptionError(
                f"{run}: {len(found)} captures and {'a' if table.is_file() else 'no'} flows.tsv; "
                "wanted: a run with labelled flows and one capture, such as of services"
            )
        captures += found
        families.append(run.name)
        name = str(Path(*found[0].parts[-2:]))
        rows += _of_capture(table, name, len(rows))
    return Source(captures, LabelTable(str(folder), rows), families)


def _is_accepted(path: Path) -> bool:
    """Whether a run's own checks held."""
    try:
        return bool(json.loads(path.read_text(encoding="utf-8"))["accepted"])
    except (ValueError, KeyError, TypeError) as error:
        raise OptionError(f"{path}: not a run of the testbed ({error}); move it away") from error


def _of_capture(table: Path, name: str, offset: int) -> list[FlowLabel]:
    """Rows of a run's own table, with the capture's name; lines count through all runs."""
    return [
        FlowLabel(offset + place, name, row.key, row.label, row.first_ns, row.last_ns)
        for place, row in enumerate(read_labels(table).rows)
    ]


def folder_source(folder: Path) -> Source:
    """A folder for each class, whose captures hold flows of this class and of no other."""
    if not folder.is_dir():
        raise OptionError(f"{folder}: no such folder; wanted: one with a folder for each class")
    folders = sorted(path for path in folder.iterdir() if path.is_dir())
    if len(folders) < 2:
        raise OptionError(f"{folder}: {len(folders)} folders; wanted: one for each of the classes")
    if any(path.is_file() for path in folder.iterdir()):
        loose = [path for path in captures_of([folder]) if path.parent == folder]
        if loose:
            raise OptionError(
                f"{loose[0]}: not in a folder of a class, like {len(loose)} captures; move them "
                "into one, or away"
            )
    captures: list[Path] = []
    rows: list[FlowLabel] = []
    for place in folders:
        class_name(place.name)
        for capture in captures_of([place]):
            name = str(capture)
            rows.append(FlowLabel(len(rows) + 1, name, None, place.name))
            captures.append(capture)
    return Source(captures, LabelTable(str(folder), rows), [str(path) for path in captures])


def captures_of(paths: Sequence[Path]) -> list[Path]:
    """Captures that these files and folders come to; warns of those that cannot be read."""
    return [Path(found) for found in readable_captures([str(path) for path in paths], 2)]


def capture_families(captures: Sequence[Path], families: dict[str, str] | None) -> list[str]:
    """The family of each capture: of the manifest, else its own path."""
    found, names = [str(path) for path in captures], CaptureNames(captures)
    for name, family in (families or {}).items():
        place = names.find(name)
        if place is not None:
            found[place] = family
    return found


def load(
    source: Source,
    recipe: Recipe,
    packets: int,
    *,
    flows_min: int = 20,
    classes: Sequence[str] | None = None,
    numbers: Sequence[str] = (),
    wait_ns: int = WAIT_NS,
    idle_timeout_ns: int = IDLE_TIMEOUT_NS,
    active_timeout_ns: int = ACTIVE_TIMEOUT_NS,
    names_protocols: bool = False,
    sealed: float = 0.0,
    keeps_others: bool = False,
    names_list: Path | None = None,
    names_depths: Sequence[int] = (),
) -> Dataset:
    """Reads captures and gives flows their labels.

    Classes with fewer than `flows_min` flows are left out, with a warning; or, where `classes`
    are told, those that are not among them. Where there is a class `unknown`, or `keeps_others`,
    they are of this class instead, and only there flows of `sealed` families do not count for
    `flows_min`. With `names_protocols` flows of protocols without ports are left out, since no
    model is asked about them. With `names_list` names are read as evidence by it, after
    `names_depths` packets.
    """
    features = _features(recipe, packets, numbers)
    table = first_packets(
        [str(path) for path in source.captures],
        features,
        idle_timeout=idle_timeout_ns / 1e9,
        active_timeout=active_timeout_ns / 1e9,
    )
    if len(table) == 0:
        raise OptionError(f"{source.labels.path}: no flow in {len(source.captures)} captures")
    read = _CachedTable(table)
    keys, protocols = read.keys, read.numbers[:, features.numbers.index("protocol")]
    flow_keys = _flow_keys(read, protocols)
    first_ns = [int(value or 0) for value in keys["first_ns"]]
    found = match(
        source.labels,
        source.captures,
        zip(keys["file"], flow_keys, first_ns, strict=True),
        zip(keys["src_mac"], keys["dst_mac"], strict=True),
        [int(value or 0) for value in keys["last_ns"]],
    )
    if names_protocols:
        _forget(found, ~numpy.isin(protocols, (_TCP, _UDP)))
    told: list[str] = []
    row_families = _families(source, found, keys["file"])
    if keeps_others or UNKNOWN in found.labels:
        told += _others_unknown(found, flows_min, classes, row_families, sealed)
        classes, flows_min = _with_unknown(classes), 1
    names, kept, warnings = _classes(found, flows_min, classes)
    if names_list is not None:
        read.read_names(names_list, names, names_depths, wait_ns)
    index = {name: place for place, name in enumerate(names)}
    labels = numpy.array([index[label] for label in found.labels if label in index], dtype=int)
    if len(labels) == 0:
        raise _no_labels(source, found, names)
    files = numpy.array(keys["file"])[kept]
    hashes = copies.hashes_of(source.captures, files)
    contents = [hashes[file].content for file in files.tolist()]
    return Dataset(
        captures=source.captures,
        classes=names,
        labels=labels,
        families=numpy.array(joined_families([row_families[row] for row in kept], contents)),
        capture_of=files,
        sample=Sample(read, kept, wait_ns),
        fingerprint=_fingerprint(hashes, files, kept, flow_keys, first_ns, found.labels),
        segmentation="merged" if numpy.array(keys["long_packets"])[kept].any() else "single",
        matching=found,
        keys=[flow_keys[row] for row in kept],
        first_ns=[first_ns[row] for row in kept],
        warnings=[*told, *warnings, *copies.opaque_message(source.captures, hashes)],
        idle_timeout_ns=idle_timeout_ns,
        hashes=hashes,
    )


def _features(recipe: Recipe, packets: int, numbers: Sequence[str]) -> FlowFeatures:
    """What models read of so many packets, and what samples need beside it."""
    steps = [f"pkt{k}_{kind}" for k in range(packets) for kind in ("gap_ns", "direction")]
    others = [*numbers, *PORT_NUMBERS, "client_port", _FIRST_PAYLOAD]
    return recipe.features(
        packets, list(dict.fromkeys([*recipe.number_names(packets), *others, *steps]))
    )


def _flow_keys(read: _CachedTable, protocols: Array) -> list[FlowKey]:
    """What names each flow, the same for both of its directions."""
    ends = zip(
        protocols.astype(int).tolist(),
        *(read.keys[name] for name in ("src_ip", "src_port", "dst_ip", "dst_port")),
        strict=True,
    )
    return [flow_key(p, src, sport or 0, dst, dport or 0) for p, src, sport, dst, dport in ends]


def _with_unknown(classes: Sequence[str] | None) -> Sequence[str] | None:
    """Classes that are told, `unknown` among them."""
    return classes if classes is None or UNKNOWN in classes else [*classes, UNKNOWN]


def _no_labels(source: Source, found: Matching, names: Sequence[str]) -> OptionError:
    """Says that no flow has a label of a class."""
    seen = sorted({label for label in found.labels if label is not None})
    return OptionError(
        f"{source.labels.path}: no flow has a label of the classes {', '.join(names)} (seen: "
        f"{', '.join(seen) or 'none'}); "
        + "; ".join([*found.messages(), "check --label and the captures"])
    )


def _forget(found: Matching, rows: Array) -> None:
    """Takes the labels of some flows away."""
    found.labels = [None if gone else label for label, gone in zip(found.labels, rows, strict=True)]


def _families(source: Source, found: Matching, files: Sequence[int]) -> list[str]:
    """The family of each flow, by its label's row or by its capture."""
    return [own or source.families[file] for own, file in zip(found.families, files, strict=True)]


def _others_unknown(
    found: Matching,
    flows_min: int,
    classes: Sequence[str] | None,
    families: Sequence[str],
    sealed: float,
) -> list[str]:
    """Makes labels of no class `unknown`: those not among `classes` or, where none are told, those
    with too few flows in families that are not sealed.
    """
    counts: dict[str, int] = {}
    for label, family in zip(found.labels, families, strict=True):
        if label is not None:
            counts[label] = counts.get(label, 0) + (not is_sealed(family, sealed))
    if classes is not None:
        kept = set(classes)
    else:
        kept = {label for label, count in counts.items() if count >= flows_min}
    gone = sorted(set(counts) - kept - {UNKNOWN})
    found.labels = [
        UNKNOWN if label is not None and label not in kept else label for label in found.labels
    ]
    if not gone:
        return []
    why = "are not the model's" if classes is not None else f"have fewer than {flows_min} flows"
    return [f"{UNKNOWN} are also flows of classes that {why}: {', '.join(gone)}"]


def _classes(
    found: Matching, flows_min: int, classes: Sequence[str] | None
) -> tuple[list[str], Array, list[str]]:
    """Names of classes, rows that have one of them, and what was left out."""
    labels = found.labels
    counts: dict[str, int] = {}
    for label in labels:
        if label is not None:
            counts[label] = counts.get(label, 0) + 1
    if classes is not None:
        names = list(classes)
        left_out = {name: count for name, count in counts.items() if name not in set(names)}
        why = "are not among the model's classes"
    else:
        names = sorted(name for name, count in counts.items() if count >= flows_min)
        left_out = {name: count for name, count in counts.items() if count < flows_min}
        why = f"have fewer than {flows_min} flows (--flows-min)"
    warnings = []
    if left_out:
        told = ", ".join(f"{name} ({count})" for name, count in sorted(left_out.items()))
        warnings.append(f"left out: classes that {why}: {told}")
    if len(names) < 2:
        seen = ", ".join(f"{name} ({count})" for name, count in sorted(counts.items())) or "none"
        raise OptionError(
            f"{len(names)} classes with at least {flows_min} flows (seen: {seen}); wanted: two or "
            "more; " + "; ".join([*found.messages(), "label more flows, or lower --flows-min"])
        )
    chosen = set(names)
    rows = numpy.array([row for row, label in enumerate(labels) if label in chosen], dtype=int)
    return names, rows, warnings


def _fingerprint(
    hashes: dict[int, CaptureHash],
    files: Array,
    rows: Array,
    keys: Sequence[FlowKey],
    first_ns: Sequence[int],
    labels: Sequence[str | None],
) -> str:
    """SHA-256 over the hashes of the captures that have labelled flows, and over the labels."""
    lines: list[Any] = sorted(
        [hashes[file].stored, list(keys[row]), first_ns[row], labels[row]]
        for file, row in zip(files.tolist(), rows.tolist(), strict=True)
    )
    text = json.dumps(lines, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
