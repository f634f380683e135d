"""What applications in Python return: rows that become a table."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from wirelens import _wirelens
from wirelens._wirelens import Batch, RowBatches
from wirelens._wirelens import Run as Running
from wirelens.errors import OptionError

# Bytes that a short value of Python takes, more or less: what memory for rows is charged.
_VALUE_BYTES = 64


class ReturnedRows:
    """The rows of one application, within what a run keeps in memory.

    Rows for which there is no room are dropped and counted.
    """

    def __init__(self, name: str, running: Running) -> None:
        self._name = name
        self._running = running
        self._arrow: list[RowBatches] = []
        self._columns: dict[str, list[Any]] = {}
        self.dropped = 0

    def take(self, rows: Any) -> None:
        """Takes what a call returned: None, Arrow of any package, or rows."""
        if rows is None:
            return
        is_arrow = isinstance(rows, Batch) or hasattr(rows, "__arrow_c_stream__")
        if self._columns if is_arrow else self._arrow:
            raise OptionError(f"{self._name}: returns rows and Arrow; wanted: one of them")
        if is_arrow:
            self._take_arrow(_wirelens.made_of_arrow(rows))
        elif isinstance(rows, Iterable) and not isinstance(rows, str | bytes | Mapping):
            for row in rows:
                self._take_row(row)
        else:
            raise OptionError(
                f"{self._name}: returns {type(rows).__name__}; wanted: an Arrow table, a list of "
                "rows (dictionaries, named tuples or dataclasses), or None"
            )

    def _take_arrow(self, part: RowBatches) -> None:
        if self._running.charge(part.byte_count):
            self._arrow.append(part)
        else:
            self.dropped += len(part)

    def _take_row(self, row: Any) -> None:
        values = self._values(row)
        if not self._columns:
            self._columns = {name: [] for name in values}
        if values.keys() != self._columns.keys():
            raise OptionError(
                f"{self._name}: a row with the columns {', '.join(values)}; wanted: those of the "
                f"first row, {', '.join(self._columns)}"
            )
        if not self._running.charge(sum(map(_charged, values.values()))):
            self.dropped += 1
            return
        for name, value in values.items():
            self._columns[name].append(value)

    def _values(self, row: Any) -> Mapping[str, Any]:
        values: Mapping[str, Any] | None = None
        if isinstance(row, Mapping):
            values = row
        elif isinstance(row, tuple) and hasattr(row, "_asdict"):
            values = row._asdict()
        elif dataclasses.is_dataclass(row) and not isinstance(row, type):
            values = {one.name: getattr(row, one.name) for one in dataclasses.fields(row)}
        if not values or not all(isinstance(name, str) for name in values):
            raise OptionError(
                f"{self._name}: a row of type {type(row).__name__}; wanted: a dictionary with "
                "names of columns, a named tuple or a dataclass"
            )
        return values

    def collected(self) -> RowBatches | None:
        """All rows; None where none were returned."""
        if self._arrow:
            return self._arrow[0].joined(self._arrow[1:])
        if self._columns:
            return _wirelens.made_of_columns(list(self._columns), list(self._columns.values()))
        return None


def _charged(value: Any) -> int:
    return max(_VALUE_BYTES, len(value)) if isinstance(value, str | bytes) else _VALUE_BYTES
