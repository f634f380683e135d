"""Flows with what names say of them: for `bench/evaluation/classify/names.py`.

A flow has the numbers that models of first packets see, and the columns of
`wirelens flows --read-names`. Captures are read one by one, so that a name that one capture
resolved is not known in another.
"""

import csv
import hashlib
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy
from wirelens.classify.dataset import Source, capture_families, captures_of, load
from wirelens.classify.labels import (
    FlowLabel,
    LabelTable,
    flow_key,
    match,
    protocol_number,
    read_families,
    read_labels,
)
from wirelens.classify.recipe import Recipe
from wirelens.learn.metrics import Array
from wirelens.learn.sealing import is_sealed

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "target/release/wirelens"
SEALED = 0.2
PACKETS = 3
# As models/recipes/services-ndpi.toml has it.
RECIPE = Recipe(
    payload_bytes=24,
    numbers=("protocol", "server_port", "client_port", "size_bytes", "direction",
             "payload_bytes", "byte:0-23"),
)  # fmt: skip
NAMES = ("app_protocol", "server_name", "resolved_name", "dns_query", "alpn")
Said = dict[str, str]


@dataclass(frozen=True)
class Flows:
    """Flows of some captures, in one order."""

    captures: list[str]
    families: Array
    origins: list[str]
    # Class and nDPI's label; empty where there is none.
    classes: list[str]
    labels: list[str]
    columns: list[str]
    values: Array
    names: list[Said]

    def __len__(self) -> int:
        return len(self.captures)

    def of(self, rows: Iterable[int]) -> "Flows":
        """Some of these flows."""
        chosen = list(rows)
        lists = (self.captures, self.origins, self.classes, self.labels, self.names)
        captures, origins, classes, labels, names = ([one[i] for i in chosen] for one in lists)
        return Flows(captures, self.families[chosen], origins, classes, labels, self.columns,
                     self.values[chosen], names)  # fmt: skip


def _said(capture: Path) -> list[Said]:
    """Rows of `wirelens flows --read-names`."""
    command = [str(PROGRAM), "flows", "-q", "--read-names", "-r", str(capture), "--format", "csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # 3: a capture is damaged, or of a link type that is not read.
    if done.returncode not in (0, 3):
        raise SystemExit(f"{capture}: {done.stderr.strip()}; wanted: a capture")
    return list(csv.DictReader(done.stdout.splitlines()))


def _read(captures: Sequence[Path], families: Sequence[str], tables: Sequence[LabelTable],
          origin_of: dict[str, str]) -> Flows:  # fmt: skip
    """All flows of these captures; the tables give classes and labels."""
    said: list[Said] = []
    rows = []
    for capture in captures:
        for row in _said(capture):
            ends = [row["src_ip"], int(row["src_port"] or 0), row["dst_ip"],
                    int(row["dst_port"] or 0)]  # fmt: skip
            key = flow_key(protocol_number(row["protocol"]), *ends)
            first = int(row["first_ns"] or 0)
            rows.append(FlowLabel(len(rows), str(capture), key, str(len(said)), first, first))
            said.append(row)
    own = LabelTable("flows", rows, 0)
    source = Source(list(captures), own, list(families))
    found = load(source, RECIPE, PACKETS, flows_min=1)
    columns = RECIPE.number_names(PACKETS)
    places = [int(found.classes[label]) for label in found.labels]
    told = [
        match(
            table,
            list(captures),
            zip(found.capture_of.tolist(), found.keys, found.first_ns, strict=True),
            [("", "")] * len(found),
        ).labels
        for table in tables
    ]
    classes, labels = ([label or "" for label in column] for column in told)
    files = [captures[file].name for file in found.capture_of.tolist()]
    return Flows(
        files,
        found.families,
        [origin_of.get(name, "") for name in files],
        classes,
        labels,
        columns,
        numpy.asarray(found.sample.numbers(columns), dtype=numpy.float32),
        [{name: said[place][name] for name in NAMES} for place in places],
    )


def of_services(folder: Path, sealed: bool) -> Flows:
    """Flows of the families that are sealed, or of the others."""
    manifest = folder / "MANIFEST.tsv"
    family_of = read_families(manifest)
    with manifest.open(encoding="utf-8") as text:
        origin_of = {r["file"]: r["source_repo"] for r in csv.DictReader(text, delimiter="\t")}
    chosen = [name for name in sorted(family_of) if is_sealed(family_of[name], SEALED) == sealed]
    captures = [folder / name for name in chosen]
    tables = [_only(read_labels(folder / "flows.tsv", column, None), set(chosen))
              for column in ("class", "ndpi_proto")]  # fmt: skip
    return _read(captures, capture_families(captures, family_of), tables, origin_of)


def _only(table: LabelTable, names: set[str]) -> LabelTable:
    rows = [row for row in table.rows if Path(row.file or "").name in names]
    return LabelTable(table.path, rows, table.blank)


def of_others(folder: Path, table: Path, without: Path) -> Flows:
    """Flows of other captures, with nDPI's labels by `ndpi_labels.py`; no class is known yet."""
    seen = {_digest(path) for path in without.rglob("*.*cap*")}
    captures = []
    for path in captures_of([folder]):
        if (content := _digest(path)) not in seen:
            seen.add(content)
            captures.append(path)
    labels = read_labels(table, "ndpi_proto", None)
    return _read(captures, [str(path) for path in captures], [labels, labels], {})


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
