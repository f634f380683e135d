"""Collected rows as frames of other packages."""

import os
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from wirelens import compat, written
from wirelens._wirelens import Batch, RowBatches
from wirelens.errors import OutputExistsError

if TYPE_CHECKING:
    from wirelens.results import Field

# Arrow's name of a type of numbers, numpy's, and pandas' for numbers some of which are missing.
_NUMBERS = {
    "UInt64": ("uint64", "UInt64"),
    "UInt32": ("uint32", "UInt32"),
    "UInt16": ("uint16", "UInt16"),
    "UInt8": ("uint8", "UInt8"),
    "Int8": ("int8", "Int8"),
    "Int64": ("int64", "Int64"),
    "Int32": ("int32", "Int32"),
    "Int16": ("int16", "Int16"),
    "Float32": ("float32", "Float32"),
    "Float64": ("float64", "Float64"),
}


def to_pandas(collected: RowBatches, fields: Sequence["Field"]) -> Any:
    """A frame of pandas, made without pyarrow, so that types do not depend on it."""
    pandas = compat.need("pandas", "to_pandas()")
    batches = collected.batches()
    columns = {
        field.name: _pandas_column(pandas, field, index, batches)
        for index, field in enumerate(fields)
    }
    return pandas.DataFrame(columns)


def _pandas_column(pandas: Any, field: "Field", index: int, batches: list[Batch]) -> Any:
    is_time = field.type.startswith("Timestamp")
    if not is_time and field.type not in _NUMBERS:
        values = [value for batch in batches for value in batch.column(index)]
        # Before version 3 pandas kept text as objects, and its `str` made text of None.
        is_text = field.type == "Utf8" and int(pandas.__version__.partition(".")[0]) >= 3
        return pandas.Series(values, dtype="str" if is_text else "object")
    numpy = compat.need("numpy", "to_pandas()")
    numpy_type, missing_type = ("int64", "") if is_time else _NUMBERS[field.type]
    parts = [batch.memory(index) for batch in batches]
    values = numpy.concatenate(
        [numpy.zeros(0, numpy_type), *(numpy.frombuffer(part, numpy_type) for part, _ in parts)]
    )
    missing = numpy.concatenate(
        [
            numpy.zeros(0, bool),
            *(
                numpy.zeros(len(batch), bool) if gaps is None else numpy.frombuffer(gaps, bool)
                for batch, (_, gaps) in zip(batches, parts, strict=True)
            ),
        ]
    )
    if is_time:
        # What numpy calls "not a time" is the least number.
        values[missing] = numpy.iinfo("int64").min
        times = values.view("datetime64[ns]")
        return pandas.Series(pandas.DatetimeIndex(times).tz_localize("UTC"))
    if not field.nullable:
        return pandas.Series(values)
    column = pandas.Series(values).astype(missing_type)
    column[missing] = pandas.NA
    return column


def to_polars(collected: RowBatches) -> Any:
    """A frame of polars, without a copy where polars can do without."""
    return compat.need("polars", "to_polars()").DataFrame(collected)


def to_arrow(collected: RowBatches) -> Any:
    """A table of pyarrow, without a copy."""
    return compat.need("pyarrow", "to_arrow()").table(collected)


def to_parquet(collected: RowBatches, path: str | os.PathLike[str], overwrite: bool) -> None:
    """A file of rows whose columns we did not declare, which have types that our writer has not."""
    file = FilePath(path)
    if file.exists() and not overwrite:
        raise OutputExistsError(
            f"`{file}` exists already; give overwrite=True to replace it, or another name"
        )
    parquet = compat.need("pyarrow.parquet", "to_parquet() of rows of an application in Python")
    table = to_arrow(collected)
    sink = compat.need("pyarrow", "to_parquet()").BufferOutputStream()
    parquet.write_table(table, sink)
    written.rows(file, sink.getvalue().to_pybytes())
