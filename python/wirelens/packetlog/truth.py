"""Labelled captures: what each packet truly is, as the testbed or whoever captured it knows."""

import csv
import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy

from wirelens.errors import OptionError
from wirelens.found import readable_captures
from wirelens.learn import sealing
from wirelens.learn.metrics import Array
from wirelens.learn.testbed_runs import is_complete
from wirelens.questions import packets

BENIGN = "benign"
# Roles of packets that an attack is made of. What the other side answers belongs to it: whoever
# looks into an attack wants to know what came of it. Intercepted packets are left out of
# everything: they are benign ones that took a detour, and nothing in them tells.
ANOMALOUS_ROLES = ("attacker", "response", "reflected")
CONGESTED = "congested"
# Of waiting in a queue: what CoDel takes for a standing queue (RFC 8289, section 4.3).
CONGESTED_WAIT_NS = 5_000_000

_RUN_FILE = "run.json"
_MANIFEST = "MANIFEST.tsv"
_PACKETS = "packets.tsv.gz"
_ATTACKS = "attacks.tsv"
# By kind of run, the capture that is read. That of a link is the one behind its queue, where
# marks are to be seen.
_CAPTURES = {"attacks": "lan", "services": "lan", "congestion": "after"}
_ENDINGS = (".pcapng", ".pcapng.gz")


@dataclass(frozen=True)
class Capture:
    """A capture and where it is told what its packets are."""

    path: Path
    name: str
    # Captures that were made together, and are never on two sides of a split.
    family: str
    # Of a run its kind, else "file".
    kind: str
    # Of all packets, where each has none of its own.
    label: str = BENIGN
    packets: Path | None = None

    @property
    def place(self) -> str:
        """Where it is from: the data set of a run, or the owner of the repository."""
        return self.family.partition("/")[0]

    @property
    def fold_group(self) -> str:
        """Captures that are in one fold: runs are alike by design, captures of a place are not."""
        return self.family if self.kind != "file" else self.place

    def is_sealed(self, share: float) -> bool:
        """Whether it is of such a part of the places, which trains nothing; no run is."""
        return self.kind == "file" and sealing.is_sealed(self.place, share)


@dataclass(frozen=True)
class Truth:
    """What the packets of a capture are."""

    # Labels, the first of them benign.
    labels: list[str]
    # Of each packet the index of its label; −1: left out.
    codes: Array
    # Of each packet its role, as an index of `roles`.
    role_codes: Array
    roles: list[str]
    # Of labels the family, where it has another name.
    families: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.codes)


def captures(places: Sequence[Path], benign: Sequence[Path] = ()) -> list[Capture]:
    """Runs of the testbed, folders of runs, and folders of captures with a manifest.

    Of `benign` captures every packet is, whatever a manifest calls them; these need none.
    """
    found: list[Capture] = []
    for place in places:
        found += _captures_at(place)
    for place in benign:
        found += _benign_at(place)
    names = [capture.name for capture in found]
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"{name}: given twice; wanted: each capture once")
    return found


def _captures_at(place: Path) -> list[Capture]:
    if (place / _RUN_FILE).is_file():
        return [_run(place)]
    if (place / _MANIFEST).is_file():
        return list(_listed(place))
    if not place.is_dir():
        raise OptionError(f"{place}: not a folder; wanted: a testbed run, or a folder of runs")
    runs = sorted(path.parent for path in place.glob(f"*/{_RUN_FILE}"))
    runs = [run for run in runs if is_complete(run)]
    if not runs:
        raise OptionError(
            f"{place}: neither {_RUN_FILE} nor {_MANIFEST} in it or below; wanted: a run of the "
            "testbed, a folder of runs, or captures with a table of labels"
        )
    return [_run(run) for run in runs]


def _benign_at(place: Path) -> list[Capture]:
    if (place / _MANIFEST).is_file():
        return [replace(capture, label=BENIGN) for capture in _listed(place)]
    paths = [Path(path) for path in readable_captures([place], stacklevel=2)]
    names = [str(path.relative_to(place)) if path != place else path.name for path in paths]
    return [Capture(path, name, name, "file") for path, name in zip(paths, names, strict=True)]


def _run(folder: Path) -> Capture:
    head = json.loads((folder / _RUN_FILE).read_text(encoding="utf-8"))
    kind = head.get("kind")
    if kind not in _CAPTURES:
        known = ", ".join(_CAPTURES)
        raise OptionError(f"{folder}: a run of kind {kind!r}; wanted: one of {known}")
    names = [_CAPTURES[kind] + ending for ending in _ENDINGS]
    there = [folder / name for name in names if (folder / name).is_file()]
    if not there:
        raise OptionError(f"{folder}: no {names[0]} in it; wanted: a complete run")
    packets = folder / _PACKETS
    # Two data sets number their runs alike.
    name = f"{folder.resolve().parent.name}/{folder.resolve().name}"
    has_packets = kind != "services"
    if has_packets and not packets.is_file():
        raise OptionError(f"{packets}: missing; wanted: a label for each packet")
    return Capture(there[0], name, name, kind, packets=packets if has_packets else None)


def _listed(place: Path) -> Iterator[Capture]:
    """Captures as a manifest lists them; captures of one source are a family."""
    on_disk = {str(path.relative_to(place)): path for path in place.rglob("*") if path.is_file()}
    by_name = {path.name: path for path in on_disk.values()}
    with (place / _MANIFEST).open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines, delimiter="\t")
        seen = rows.fieldnames or ()
        if not {"file", "label"} <= set(seen):
            raise OptionError(
                f"{place / _MANIFEST}: it has the columns {', '.join(seen) or 'none'}; wanted: file "
                "and label, tabs between them, and a line of names first"
            )
        for row in rows:
            path = on_disk.get(row["file"]) or by_name.get(Path(row["file"]).name)
            if path is None:
                raise OptionError(f"{place / _MANIFEST}: {row['file']}: no such file below")
            family = row.get("source_repo") or path.name
            yield Capture(path, row["file"], family, "file", label=row["label"])


def read(capture: Capture) -> Truth:
    """What the packets of a capture are, in order; packets are counted where none is told."""
    if capture.packets is None:
        labels = [BENIGN] if capture.label == BENIGN else [BENIGN, capture.label]
        count = packet_count(capture.path)
        codes = numpy.full(count, len(labels) - 1, dtype=numpy.int16)
        return Truth(labels, codes, numpy.zeros(count, dtype=numpy.int8), ["any"])
    with gzip.open(capture.packets, "rt", encoding="utf-8") as lines:
        header = next(lines).rstrip("\n").split("\t")
        rows = [line.rstrip("\n").split("\t") for line in lines]
    if capture.kind == "congestion":
        return _congestion(header, rows)
    return _attacks(header, rows, _families(capture.packets.parent / _ATTACKS))


def _families(table: Path) -> dict[str, str]:
    """Of each attack of a run its family."""
    if not table.is_file():
        return {}
    with table.open(encoding="utf-8", newline="") as lines:
        return {row["name"]: row["family"] for row in csv.DictReader(lines, delimiter="\t")}


def _attacks(
    header: Sequence[str], rows: Sequence[Sequence[str]], families: dict[str, str]
) -> Truth:
    label_at, role_at = header.index("label"), header.index("role")
    labels = [BENIGN, *sorted({row[label_at] for row in rows} - {BENIGN})]
    roles = sorted({row[role_at] for row in rows})
    label_of = {label: index for index, label in enumerate(labels)}
    role_of = {role: index for index, role in enumerate(roles)}
    codes = numpy.array([label_of[row[label_at]] for row in rows], dtype=numpy.int16)
    role_codes = numpy.array([role_of[row[role_at]] for row in rows], dtype=numpy.int8)
    counted = [role_of[role] for role in (BENIGN, *ANOMALOUS_ROLES) if role in role_of]
    codes[~numpy.isin(role_codes, counted)] = -1
    return Truth(labels, codes, role_codes, roles, families)


def _congestion(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Truth:
    """A packet is congested that waited long in the queue; those that were dropped never came.

    Packets leave the queue in the order in which they came to it.
    """
    came_at, left_at = header.index("time_ns"), header.index("departed_ns")
    waits = [int(row[left_at]) - int(row[came_at]) for row in rows if row[left_at]]
    codes = (numpy.array(waits, dtype=numpy.int64) > CONGESTED_WAIT_NS).astype(numpy.int16)
    role_codes = numpy.zeros(len(codes), dtype=numpy.int8)
    return Truth([BENIGN, CONGESTED], codes, role_codes, ["any"])


def packet_count(path: Path) -> int:
    """Packets of a capture."""
    return sum(len(batch) for batch in packets(path, batch_size=65_536).batches())
