"""Latencies of a sender's packets as compact columns: the testbed's, kept small enough to commit.

A run of the testbed's kind `latency` records both ends and writes what happened to each data packet
(`packets.tsv.gz`). `pack` keeps of that what a latency model reads, in whole microseconds:
`docs/specs/latency-columns.md`.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wirelens import compat, written
from wirelens.errors import TraceError

FORMAT = "wirelens-latencies 1"
# Each column with its Arrow type; a time is null where it never was.
COLUMNS = {
    "sent_us": "int64",
    "one_way_us": "int32",
    "ack_us": "int32",
    "size": "uint16",
    "flow": "uint16",
    "copy": "uint8",
}
_READ = ("sent_ns", "owd_us", "ack_latency_us", "size_bytes", "flow", "copy")
_MAGIC = b"PAR1"


def read_latencies(path: str | os.PathLike[str]) -> Any:
    """All data packets of such a file, in the order in which they were sent.

    Returns
    -------
    pyarrow.Table
        Columns `sent_us` since the first packet, `one_way_us` to the receiver, null where the
        packet was lost, `ack_us` to its acknowledgement, null where none covered it, `size` in
        bytes on the link, `flow` from 1, and `copy`: 1, or more for a retransmission.
        `schema.metadata` has what the run was, as JSON under `wirelens`.

    Raises
    ------
    TraceError
        If the file is no such file.
    MissingPackageError
        If pyarrow is not installed.
    """
    parquet = compat.need("pyarrow.parquet", "read_latencies()")
    path = Path(path)
    with path.open("rb") as file:
        head = file.read(len(_MAGIC))
    if head != _MAGIC:
        raise TraceError(f"{path}: no Parquet file (starts with {head!r})")
    table = parquet.read_table(path)
    found = json.loads((table.schema.metadata or {}).get(b"wirelens", b"{}")).get("format")
    if found != FORMAT:
        raise TraceError(f"{path}: format {found!r}; wanted: {FORMAT!r}")
    return table


def pack(
    packets: str | os.PathLike[str], output: str | os.PathLike[str], about: Mapping[str, Any]
) -> int:
    """Writes the compact columns of a run's `packets.tsv.gz`; the size of the file in bytes.

    Raises `TraceError` where the table has other columns, `OutputError` where the file cannot be
    written.
    """
    arrow, compute, csv, parquet = (
        compat.need(name, "pack()")
        for name in ("pyarrow", "pyarrow.compute", "pyarrow.csv", "pyarrow.parquet")
    )
    try:
        read = csv.read_csv(
            os.fspath(packets),
            parse_options=csv.ParseOptions(delimiter="\t"),
            convert_options=csv.ConvertOptions(include_columns=_READ),
        )
    except (arrow.ArrowInvalid, KeyError) as error:
        raise TraceError(f"{packets}: no packets.tsv.gz of a latency run ({error})") from error
    # Stamps of a capture may be some microseconds out of order.
    read = read.sort_by("sent_ns")
    sent = read["sent_ns"].cast("int64")
    begun = compute.min(sent)
    since = compute.divide(compute.add(compute.subtract(sent, begun), 500), 1000)
    columns = [
        since,
        *(compute.round(read[name]).cast("int32") for name in ("owd_us", "ack_latency_us")),
        *(read[name] for name in ("size_bytes", "flow", "copy")),
    ]
    table = arrow.table(
        [column.cast(kind) for column, kind in zip(columns, COLUMNS.values(), strict=True)],
        names=list(COLUMNS),
        metadata={"wirelens": json.dumps({"format": FORMAT, **about})},
    )
    sink = arrow.BufferOutputStream()
    parquet.write_table(
        table, sink, compression="zstd", compression_level=19, use_dictionary=["size", "copy"],
        column_encoding={
            name: "DELTA_BINARY_PACKED" for name in ("sent_us", "one_way_us", "ack_us")
        },
        write_statistics=False, row_group_size=1 << 20,
    )  # fmt: skip
    data = sink.getvalue().to_pybytes()
    written.data(Path(output), data)
    return len(data)
