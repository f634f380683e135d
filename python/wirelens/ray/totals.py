"""Totals of `top` over captures that were read apart: sums by key, in the order of the command."""

import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wirelens import compat, written

# Keys whose packets are counted whatever came before them in the stream.
SUMMED = ("source", "destination", "pair", "port", "protocol")
_MEASURES = ("packets", "bytes")


def add_up(parts: Sequence[Path], into: Path, sort: str, n: int, max_keys: int) -> bool:
    """Writes the totals of complete rankings; False where there are more keys than may be counted.

    Which keys a single run would then count depends on its table, so it has to be run.
    """
    arrow = compat.need("pyarrow", "wirelens.ray")
    parquet = compat.need("pyarrow.parquet", "wirelens.ray")
    tables = [parquet.read_table(part, partitioning=None) for part in parts]
    schema = tables[0].schema
    keys = [name for name in schema.names if name not in _MEASURES]
    sums = arrow.concat_tables(tables).group_by(keys).aggregate([(m, "sum") for m in _MEASURES])
    if sums.num_rows > max_keys:
        return False
    sums = sums.rename_columns([*keys, *_MEASURES]).select(schema.names).cast(schema)
    content = arrow.BufferOutputStream()
    parquet.write_table(_first(sums, keys, sort, n), content)
    written.rows(into, content.getvalue().to_pybytes())
    return True


def row_count(part: Path) -> int:
    """Rows of a file."""
    count: int = compat.need("pyarrow.parquet", "wirelens.ray").read_metadata(part).num_rows
    return count


def _first(sums: Any, keys: list[str], sort: str, n: int) -> Any:
    """The first `n` rows: by the measure, then by the other one, then by key."""
    other = next(name for name in _MEASURES if name != sort)
    ordered = sums.sort_by([(sort, "descending"), (other, "descending")])
    if n and n < ordered.num_rows:
        # Rows that are alike in both measures: which of them is first is for their keys to say.
        last = ordered.slice(n - 1, 1).to_pylist()[0]
        end = n
        while end < ordered.num_rows:
            row = ordered.slice(end, 1).to_pylist()[0]
            if (row[sort], row[other]) != (last[sort], last[other]):
                break
            end += 1
        ordered = ordered.slice(0, end)
    rows = ordered.to_pylist()
    rows.sort(key=lambda row: (-row[sort], -row[other], *(_rank(row[key]) for key in keys)))
    return ordered.from_pylist(rows[:n] if n else rows, schema=ordered.schema)


def _rank(value: Any) -> Any:
    """As the command orders keys: addresses as numbers, IPv4 first."""
    if not isinstance(value, str):
        return value
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        return value
    return address.version, address.packed
