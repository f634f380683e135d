"""Verdicts on flows: from captures, which are classified, or from tables of verdicts."""

import csv
import itertools
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from wirelens import compat
from wirelens.errors import OptionError
from wirelens.questions import classify_flows

# Protocols whose ports are ports; of others, verdicts have types and codes in their place.
PORT_PROTOCOLS = frozenset({"tcp", "udp", "dccp", "sctp", "udplite"})
# As in training: a client's port is seldom below, a server's seldom above.
_CLIENT_PORTS_MIN = 10_000
_MADE_BY = "wirelens classify"


class Verdict(NamedTuple):
    """A verdict of which a choice is made. The names are those of the columns of verdicts."""

    community_id: str
    protocol: str
    src_ip: str
    src_port: int
    dst_ip: str
    dst_port: int
    first_ns: int | None
    label: str
    guess: str
    guess_confidence: float
    stage: str
    packets_used: int
    cause: str
    model: str
    capture: str | None = None
    server_name: str | None = None

    @property
    def uncertainty(self) -> float:
        """How likely the guess is wrong."""
        return 1.0 - self.guess_confidence

    @property
    def server(self) -> tuple[str, int]:
        """Address and port of the server: of the end that was sent the first packet, unless the
        ports show that this was an answer. The port is 0 where the protocol has none.
        """
        if self.protocol not in PORT_PROTOCOLS:
            return self.dst_ip, 0
        if self.src_port < _CLIENT_PORTS_MIN <= self.dst_port:
            return self.src_ip, self.src_port
        return self.dst_ip, self.dst_port

    @property
    def alike_key(self) -> tuple[str, str, int, str]:
        """What flows have in common of which few are enough: no client's address is in it."""
        return (self.protocol, *self.server, self.guess)

    @property
    def group(self) -> tuple[str, str, int, str]:
        """What takes turns: guess, protocol, server port (10,000 and more are one) and the domain
        of the server's name.
        """
        port = min(self.server[1], _CLIENT_PORTS_MIN)
        return self.guess, self.protocol, port, domain_of(self.server_name or "")

    @property
    def flow(self) -> str:
        """What names the flow among all."""
        return f"{self.community_id} {self.first_ns} {self.capture or ''}"


_REQUIRED = tuple(name for name in Verdict._fields if name not in ("capture", "server_name"))
_WHOLE = ("src_port", "dst_port", "packets_used")


def domain_of(name: str) -> str:
    """The domain that is likely registered: the last two labels of a name, or three such as of
    `shop.example.co.uk`; an address stays.
    """
    labels = name.rstrip(".").lower().split(".")
    if all(label.isdigit() for label in labels) or ":" in name:
        return name
    is_deep = len(labels) > 2 and len(labels[-1]) == 2 and len(labels[-2]) <= 3
    return ".".join(labels[-3 if is_deep else -2 :])


@dataclass
class Reading:
    """Verdicts while they are read, and what was seen of them at the end."""

    rows: Iterator[Verdict]
    seen: int = 0
    # Named by their IP protocol: no model was asked.
    by_protocol: int = 0
    # Of other models.
    foreign: int = 0
    unknown: int = 0
    unanswered: int = 0

    def asked(self, identity: str | None) -> Iterator[Verdict]:
        """The verdicts of the model; the others are counted."""
        for verdict in self.rows:
            self.seen += 1
            if identity is not None and verdict.model != identity:
                self.foreign += 1
            elif verdict.cause == "protocol":
                self.by_protocol += 1
            else:
                self.unknown += verdict.label == "unknown"
                self.unanswered += verdict.cause == "unanswered"
                yield verdict


def of_captures(read: Sequence[Path], model: str) -> Iterator[Verdict]:
    """Classifies captures."""
    pick = attrgetter(*_REQUIRED)
    for row in classify_flows([os.fspath(path) for path in read], model):
        yield Verdict._make((*pick(row), getattr(row, "capture", None), None))


def of_tables(paths: Sequence[Path]) -> Iterator[Verdict]:
    """Reads tables of verdicts, row by row; all are there before the first is read."""
    for path in paths:
        if not path.is_file():
            raise OptionError(f"{path}: no such file; wanted: a table that `{_MADE_BY}` wrote")
        if path.suffix not in _READERS:
            raise OptionError(f"{path}: suffix {path.suffix!r}; wanted: .jsonl, .csv or .parquet")
    return itertools.chain.from_iterable(map(_of_table, paths))


def _of_table(path: Path) -> Iterator[Verdict]:
    try:
        for line, row in enumerate(_READERS[path.suffix](path), start=1):
            if line == 1:
                _check_columns(path, row)
            yield _verdict(path, line, row)
    except UnicodeDecodeError as error:
        raise OptionError(f"{path}: not UTF-8; wanted: a table that `{_MADE_BY}` wrote") from error


def _check_columns(path: Path, row: Mapping[str, Any]) -> None:
    missing = [name for name in _REQUIRED if name not in row]
    if missing:
        raise OptionError(
            f"{path}: no column {missing[0]} (it has {', '.join(map(str, row))}); wanted: "
            f"verdicts on flows, such as `{_MADE_BY} -o` writes"
        )
    if "window_start_ns" in row:
        raise OptionError(f"{path}: verdicts on windows; wanted: verdicts on flows")


def _json_rows(path: Path) -> Iterator[Mapping[str, Any]]:
    with path.open(encoding="utf-8") as text:
        for line, content in enumerate(text, start=1):
            try:
                row = json.loads(content)
            except ValueError as error:
                raise OptionError(
                    f"{path}: row {line}: not JSON ({error}); wanted: one object per line"
                ) from error
            if not isinstance(row, dict):
                raise OptionError(f"{path}: row {line}: not an object; wanted: one per line")
            yield row


def _csv_rows(path: Path) -> Iterator[Mapping[str, Any]]:
    with path.open(newline="", encoding="utf-8-sig") as text:
        try:
            yield from csv.DictReader(text)
        except csv.Error as error:
            raise OptionError(f"{path}: {error}; wanted: CSV with a header line") from error


def _parquet_rows(path: Path) -> Iterator[Mapping[str, Any]]:
    parquet = compat.need("pyarrow.parquet", "a Parquet file of verdicts")
    arrow = compat.need("pyarrow", "a Parquet file of verdicts")
    try:
        with parquet.ParquetFile(path) as file:
            there = file.schema_arrow.names
            wanted = [name for name in (*Verdict._fields, "window_start_ns") if name in there]
            # A table without the columns is refused by those it has.
            chosen = wanted if set(_REQUIRED) <= set(wanted) else None
            for batch in file.iter_batches(columns=chosen):
                columns = [
                    column.cast(arrow.int64()) if arrow.types.is_timestamp(column.type) else column
                    for column in batch.columns
                ]
                yield from arrow.RecordBatch.from_arrays(columns, batch.schema.names).to_pylist()
    except (ValueError, OSError) as error:
        if isinstance(error, OptionError):
            raise
        raise OptionError(f"{path}: {error}; wanted: a Parquet file of verdicts") from error


_READERS: dict[str, Callable[[Path], Iterator[Mapping[str, Any]]]] = {
    ".jsonl": _json_rows, ".csv": _csv_rows, ".parquet": _parquet_rows,
}  # fmt: skip


def _verdict(path: Path, line: int, row: Mapping[str, Any]) -> Verdict:
    values: dict[str, Any] = {name: row.get(name) for name in Verdict._fields}
    try:
        for name in _WHOLE:
            values[name] = int(values[name])
        # Captures without timestamps have none.
        has_time = values["first_ns"] not in ("", None)
        values["first_ns"] = int(values["first_ns"]) if has_time else None
        values["guess_confidence"] = float(values["guess_confidence"])
    except (TypeError, ValueError, OverflowError) as error:
        raise OptionError(
            f"{path}: row {line}: {error}; wanted: whole numbers in {', '.join(_WHOLE)} and "
            "first_ns, and a probability in guess_confidence"
        ) from error
    if not 0 <= values["guess_confidence"] <= 1 or math.isnan(values["guess_confidence"]):
        raise OptionError(
            f"{path}: row {line}: guess_confidence {values['guess_confidence']}; wanted: 0 to 1"
        )
    texts: Iterable[str] = set(_REQUIRED) - {*_WHOLE, "first_ns", "guess_confidence"}
    for name in texts:
        if not isinstance(values[name], str):
            raise OptionError(f"{path}: row {line}: {name} {values[name]!r}; wanted: text")
    for name in ("capture", "server_name"):
        values[name] = None if values[name] in ("", None) else str(values[name])
    return Verdict(**values)
