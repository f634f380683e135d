"""Traces of an L4S network, as `docs/specs/l4s-trace.md` lays them out."""

import os
from pathlib import Path
from typing import Any

from wirelens import compat
from wirelens.errors import TraceError

MAGIC = b"WLL4S\0\0\x01"
_RECORD_LEN = 80
# Each field with its type, in the order of the file.
_FIELDS = [
    *((name, "u8") for name in ("sent_ns", "entered_ns", "left_ns", "received_ns", "acked_ns")),
    ("sequence", "u8"),
    *((name, "u4") for name in ("flow", "size", "found_l4s", "found_classic")),
    *((name, "u2") for name in ("sender", "receiver")),
    *((name, "u1") for name in ("ecn_sent", "ecn_left", "queue", "outcome", "mark", "flags")),
]
_NEVER = 2**64 - 1


def read_trace(path: str | os.PathLike[str]) -> Any:
    """All packets of a trace.

    Returns
    -------
    pyarrow.Table
        One row a packet, in the order in which they arrived at the router, and one column a field
        of the specification. A time that never was is null.

    Raises
    ------
    TraceError
        If the file is no trace, or ends within a record.
    MissingPackageError
        If pyarrow or numpy is not installed.
    """
    arrow = compat.need("pyarrow", "read_trace()")
    numpy = compat.need("numpy", "read_trace()")
    with open(path, "rb") as file:
        _check(Path(path), file.read(len(MAGIC)), os.fstat(file.fileno()).st_size)
        kind = numpy.dtype([(name, f"<{code}") for name, code in _FIELDS] + [("", "V6")])
        records = numpy.fromfile(file, kind)
    columns = {}
    for name, _ in _FIELDS:
        values = numpy.ascontiguousarray(records[name])
        mask = values == _NEVER if name.endswith("_ns") else None
        columns[name] = arrow.array(values, mask=mask)
    return arrow.table(columns)


def _check(path: Path, head: bytes, size: int) -> None:
    if head[:-1] != MAGIC[:-1]:
        raise TraceError(f"{path}: no trace of an L4S network (starts with {head!r})")
    if head != MAGIC:
        raise TraceError(f"{path}: version {head[-1]}; wanted: version {MAGIC[-1]}")
    rest = (size - len(MAGIC)) % _RECORD_LEN
    if rest:
        raise TraceError(
            f"{path}: ends {rest} bytes into a record of {_RECORD_LEN}; "
            "wanted: a complete trace"
        )
