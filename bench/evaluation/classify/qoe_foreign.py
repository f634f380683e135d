"""Windows of captures that hold no call: what a model of calls should not give a tier."""

import csv
import hashlib
import warnings
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
from wirelens.classify.windows import WindowFeatures, windows
from wirelens.errors import WirelensError

Array = Any

MANIFEST = "MANIFEST.tsv"
SUFFIXES = (".pcap", ".pcapng", ".cap")
# What the manifest calls captures of voice and video of other programs: some of them are calls.
REAL_TIME = "rtc"
UDP = "udp"


@dataclass(frozen=True)
class Foreign:
    """Windows of some captures, a row each."""

    names: list[str]
    families: list[str]
    hashes: list[str]
    # Of each window the index of its capture, and whether its flow is UDP.
    capture_of: Array
    is_udp: Array
    numbers: Array

    @property
    def family_of(self) -> Array:
        """Each window's family of captures, as a number."""
        _, family_of = numpy.unique(self.families, return_inverse=True)
        return family_of[self.capture_of]

    def weights(self, alike_max: int = 16) -> Array:
        """Windows of one capture weigh as much as so many: one that repeats itself is no more."""
        counts = numpy.bincount(self.capture_of, minlength=len(self.names))
        return numpy.minimum(1.0, alike_max / numpy.maximum(counts, 1))[self.capture_of]


def captures_of(folder: Path, *, real_time: bool = False) -> list[tuple[Path, str]]:
    """Captures of a folder with the families that its manifest names, in order of name.

    Without a manifest each capture is a family. Captures that the manifest calls real-time
    communication are left out; with `real_time` there are only these.
    """
    named: dict[str, dict[str, str]] = {}
    if (folder / MANIFEST).exists():
        with (folder / MANIFEST).open(encoding="utf-8") as lines:
            named = {row["file"]: row for row in csv.DictReader(lines, delimiter="\t")}
    found = []
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.suffix not in SUFFIXES:
            continue
        name = str(path.relative_to(folder))
        row = named.get(name, {})
        if (row.get("label") == REAL_TIME) == real_time:
            note = row.get("note") or ""
            family = note.removeprefix("family=") if note.startswith("family=") else name
            found.append((path, family))
    return found


def read(
    captures: list[tuple[Path, str]], features: WindowFeatures, known: Collection[str] = ()
) -> Foreign:
    """All windows of captures, but of those whose content has one of these hashes."""
    names, families, hashes, rows, places, is_udp = [], [], [], [], [], []
    for path, family in captures:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest in known or digest in hashes:
            continue
        try:
            with warnings.catch_warnings():
                # A damaged capture has windows up to the damage.
                warnings.simplefilter("ignore")
                table = windows(path, features)
        except WirelensError:
            continue
        names.append(path.name)
        families.append(family)
        hashes.append(digest)
        if len(table):
            rows.append(numpy.asarray(table.numbers).astype(numpy.float32))
            places.append(numpy.full(len(table), len(names) - 1))
            is_udp.append(numpy.asarray(table.keys()["protocol"]) == UDP)
    return Foreign(
        names, families, hashes, numpy.concatenate(places), numpy.concatenate(is_udp),
        numpy.concatenate(rows),
    )  # fmt: skip
