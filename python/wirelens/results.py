"""Results: a `Table` in memory, or a `Stream` that is read as you iterate."""

import html
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar, overload

from wirelens import frames
from wirelens._wirelens import Batch, Reader, RowBatches
from wirelens.errors import CaptureWarning, DamagedCaptureWarning

Row = TypeVar("Row")

# Rows of a table that are shown without being asked for.
_SHOWN_ROWS = 10


class Field(NamedTuple):
    """One column as it is declared."""

    name: str
    """Its name; the unit comes last."""
    type: str
    """Its Arrow type, as Arrow's Rust library writes it."""
    nullable: bool
    """Whether a row may have no value here, which is None."""
    about: str
    """What it means, in one sentence."""


class _Result(Generic[Row]):
    """What tables and streams have in common."""

    _fields: list[Field]
    _make_row: Callable[..., Row]

    def _collect(self) -> RowBatches:
        raise NotImplementedError

    def _write_parquet(self, path: str | os.PathLike[str], overwrite: bool) -> None:
        raise NotImplementedError

    def _read(self, stacklevel: int) -> Iterator[Batch]:
        # `stacklevel` tells warnings how far away the user's own line is.
        raise NotImplementedError

    def batches(self) -> Iterator[Batch]:
        """The rows as Arrow record batches.

        Yields
        ------
        Batch
            Speaks Arrow's PyCapsule protocol (``__arrow_c_array__``): hand it to
            ``pyarrow.record_batch``, ``polars.DataFrame`` or whatever else does.
        """
        return self._read(stacklevel=3)

    @property
    def fields(self) -> list[Field]:
        """The columns with their types and meanings, in order."""
        return list(self._fields)

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order."""
        return [field.name for field in self._fields]

    def _rows(self) -> Iterator[Row]:
        for batch in self._read(stacklevel=4):
            yield from map(self._make_row, *batch.columns())

    def to_pandas(self) -> Any:
        """All rows as a ``pandas.DataFrame``.

        Numbers that may be missing become pandas' own nullable types (``UInt16`` with
        ``<NA>``), timestamps become ``datetime64[ns, UTC]``. Needs pandas, not pyarrow.

        Raises
        ------
        MissingPackageError
            If pandas is not installed.
        """
        return frames.to_pandas(self._collect(), self._fields)

    def to_polars(self) -> Any:
        """All rows as a ``polars.DataFrame``.

        Raises
        ------
        MissingPackageError
            If polars is not installed.
        """
        return frames.to_polars(self._collect())

    def to_arrow(self) -> Any:
        """All rows as a ``pyarrow.Table``.

        Raises
        ------
        MissingPackageError
            If pyarrow is not installed.
        """
        return frames.to_arrow(self._collect())

    def to_parquet(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes all rows to a Parquet file, batch by batch: memory use is constant.

        The file grows under a name that ends in ``.partial`` and gets its own when it is complete.
        It is the command's own writer: no package is needed, and timestamps, counts and missing
        values keep their types.

        Parameters
        ----------
        path
            The file.
        overwrite
            Replace the file if it exists.

        Raises
        ------
        OutputExistsError
            If the file exists and was not to be replaced.
        OutputError
            If it cannot be written.
        """
        self._write_parquet(path, overwrite)


class Table(_Result[Row]):
    """Rows, all of them in memory.

    Iterating gives rows: tuples with names. ``len()`` is their number, ``table[0]`` the first.
    Anything that reads Arrow streams accepts it: ``polars.DataFrame(table)``,
    ``duckdb.sql("select * from table")``.
    """

    def __init__(
        self,
        collected: RowBatches,
        fields: list[Field],
        make_row: Callable[..., Row],
        counts: Mapping[str, Any] | None = None,
        summary: str = "",
    ) -> None:
        self._collected = collected
        self._fields = fields
        self._make_row = make_row
        self._listed: list[Row] | None = None
        self._counts = dict(counts or {})
        self._summary = summary

    def _collect(self) -> RowBatches:
        return self._collected

    def _write_parquet(self, path: str | os.PathLike[str], overwrite: bool) -> None:
        if self._collected.is_declared:
            self._collected.write_parquet(path, overwrite)
        else:
            frames.to_parquet(self._collected, path, overwrite)

    def _list(self) -> list[Row]:
        if self._listed is None:
            self._listed = list(self._rows())
        return self._listed

    @property
    def counts(self) -> dict[str, Any]:
        """Packets by outcome.

        ``received = filtered + duplicates + processed + malformed``, where ``malformed`` is a
        dictionary by cause, and ``processed = counted + without_key + cut``. ``late`` packets are
        counted in the oldest window that was open; those ``beyond_max_keys`` are in no row.
        ``undecoded`` is a dictionary of the packets whose link type is not decoded, by its name;
        they are among those ``without_key``. ``clamped_stamps`` packets have timestamps outside the
        years 1677 to 2262, clamped to this range. ``duplicates`` are packets removed by
        ``drop_duplicates``.
        """
        return dict(self._counts)

    @property
    def summary(self) -> str:
        """The summary lines that the command prints at the end."""
        return self._summary

    def _read(self, stacklevel: int) -> Iterator[Batch]:
        yield from self._collected.batches()

    def column(self, name: str) -> list[Any]:
        """The values of one column, top to bottom.

        Raises
        ------
        KeyError
            If there is no such column.
        """
        if name not in self.columns:
            raise KeyError(f"`{name}` is not a column; there are {', '.join(self.columns)}")
        return [value for batch in self.batches() for value in batch.column(name)]

    def __len__(self) -> int:
        return len(self._collected)

    def __iter__(self) -> Iterator[Row]:
        return self._rows()

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        return self._list()[index]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._collected.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._collected.__arrow_c_schema__()

    def _shown(self) -> tuple[list[list[str]], str]:
        rows: list[list[str]] = []
        for batch in self._collected.batches():
            values = zip(*batch.columns(_SHOWN_ROWS - len(rows)), strict=True)
            rows += [["" if value is None else str(value) for value in row] for row in values]
            if len(rows) == _SHOWN_ROWS:
                break
        others = len(self) - len(rows)
        # ASCII: printing has to work in every locale.
        return rows, f"... and {others} more" if others else ""

    def __repr__(self) -> str:
        rows, others = self._shown()
        lines = [self.columns, *rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self._fields))]
        is_left = [field.type == "Utf8" for field in self._fields]
        text = [
            "  ".join(
                cell.ljust(width) if left else cell.rjust(width)
                for cell, width, left in zip(line, widths, is_left, strict=True)
            ).rstrip()
            for line in lines
        ]
        return "\n".join([*text, *([others] if others else [])])

    def _repr_html_(self) -> str:
        rows, others = self._shown()
        return _html(self.columns, rows, others)


class Stream(_Result[Row]):
    """Rows read from the capture batch by batch: memory use is constant.

    Each iteration reads the capture again (standard input can be read once). A thread reads
    ahead by a few batches and waits for its consumer; leaving a loop early stops it. It may be
    handed to whatever reads Arrow streams, such as ``duckdb``; an interrupt is then seen only
    when that consumer is done, and damage is reported by `damages` only.
    """

    def __init__(
        self,
        name: str,
        start: Callable[[], Reader],
        make_row: Callable[[list[str]], Callable[..., Row]],
    ) -> None:
        self._name = name
        self._start = start
        self._row_of = make_row
        # Begun at once, so that what cannot be read is told here and not in a loop later.
        self._next: Reader | None = start()
        self._last = self._next
        self._fields = [Field(*field) for field in self._last.fields]
        self._make_row = make_row(self.columns)

    def _begin(self) -> Reader:
        reader, self._next = self._next, None
        # The thread of a reader that was begun before a fork is in the other process.
        if reader is None or reader.is_forked:
            reader = self._start()
        self._last = reader
        return reader

    def _collect(self) -> RowBatches:
        reader = self._begin()
        collected = reader.collect()
        warn_of(reader, stacklevel=4)
        return collected

    def _write_parquet(self, path: str | os.PathLike[str], overwrite: bool) -> None:
        reader = self._begin()
        try:
            reader.write_parquet(path, overwrite)
        finally:
            reader.close()
        warn_of(reader, stacklevel=4)

    def _read(self, stacklevel: int) -> Iterator[Batch]:
        reader = self._begin()
        try:
            yield from reader
        finally:
            reader.close()
        warn_of(reader, stacklevel)

    def __iter__(self) -> Iterator[Row]:
        return self._rows()

    def head(self, n: int = 5) -> Table[Row]:
        """The first rows as a table; no more than necessary is read.

        Parameters
        ----------
        n
            How many.
        """
        reader = self._begin()
        collected = reader.collect(n)
        reader.close()
        return Table(collected, self._fields, self._make_row)

    @property
    def counts(self) -> dict[str, Any] | None:
        """Frames by outcome; None before the end.

        ``received`` and ``filtered`` always; of flows also ``processed``, ``counted``,
        ``without_key``, ``cut`` and ``malformed`` as a `Table` has them, ``late`` packets,
        ``clock_steps`` (timestamps went back by the idle timeout or more), and ``ended``: flows by
        how they ended.
        """
        return self._last.counts

    @property
    def summary(self) -> str | None:
        """The lines that the command prints at the end; None before it."""
        return self._last.summary

    @property
    def damages(self) -> list[str]:
        """Why captures could not be read, or not to their ends; empty before the end."""
        return self._last.damages

    def close(self) -> None:
        """Stops reading."""
        self._last.close()
        self._next = None

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._begin().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._last.__arrow_c_schema__()

    def __getstate__(self) -> dict[str, Any]:
        # A worker process of its own reads anew: a thread cannot be sent there.
        return {"name": self._name, "start": self._start, "make_row": self._row_of}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Stream.__init__(self, **state)

    def __repr__(self) -> str:
        return (
            f"<wirelens.Stream {self._name}: {len(self._fields)} columns, read as you iterate; "
            "try .head(), .to_polars() or .batches()>"
        )

    def _repr_html_(self) -> str:
        rows = [[f.name, f.type, "yes" if f.nullable else "", f.about] for f in self._fields]
        text = f"{self._name}: read as you iterate; .head() shows rows"
        return _html(["column", "type", "may be missing", "meaning"], rows, text)


def table_of(reader: Reader, make_row: Callable[[list[str]], Callable[..., Row]]) -> Table[Row]:
    """All that a reader finds."""
    collected = reader.collect()
    warn_of(reader, stacklevel=4)
    fields = [Field(*field) for field in reader.fields]
    made = make_row([field.name for field in fields])
    return Table(collected, fields, made, reader.counts, reader.summary or "")


def warn_of(reader: Reader, stacklevel: int) -> None:
    """Warns of each capture that could not be read to its end, and of packets without use."""
    for notice in reader.notices:
        warnings.warn(notice, CaptureWarning, stacklevel=stacklevel)
    for damage in reader.damages:
        warnings.warn(damage, DamagedCaptureWarning, stacklevel=stacklevel)


def _html(titles: list[str], rows: list[list[str]], below: str) -> str:
    def line(tag: str, cells: list[str]) -> str:
        return "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    head = f"<thead><tr>{line('th', titles)}</tr></thead>"
    note = f"<p>{html.escape(below)}</p>" if below else ""
    return f"<table>{head}<tbody>{body}</tbody></table>{note}"
