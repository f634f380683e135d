"""Tables and streams: rows, Arrow, frames of other packages, files."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest
import wirelens
from command import DEMO


def test_a_table_is_a_sequence_of_rows() -> None:
    table = wirelens.top(DEMO, n=5)
    rows = list(table)
    assert len(table) == len(rows) == 5
    assert table[0] == rows[0] and table[-1] == rows[-1] and table[1:3] == rows[1:3]
    assert rows[0].src_ip == "10.20.0.11" and rows[0].bytes == 1169119
    assert table.column("bytes") == [row.bytes for row in rows]
    with pytest.raises(KeyError, match="`octets` is not a column; there are src_ip,"):
        table.column("octets")


def test_a_table_shows_itself() -> None:
    table = wirelens.top(DEMO, by="pair", n=12)
    lines = repr(table).splitlines()
    assert lines[0].split() == ["src_ip", "dst_ip", "packets", "bytes"]
    assert len(lines) == 12 and lines[-1] == "... and 2 more"
    page = table._repr_html_()
    assert page.count("<tr>") == 11 and "<th>dst_ip</th>" in page


def test_a_stream_shows_itself() -> None:
    stream = wirelens.packets(DEMO)
    assert "packets of" in repr(stream) and ".head()" in repr(stream)
    assert "<td>payload_len</td>" in stream._repr_html_()
    head = stream.head(3)
    assert len(head) == 3 and list(head) == list(stream)[:3]
    assert head.to_pandas()["wire_len"].tolist() == [packet.wire_len for packet in head]


def test_a_stream_is_read_as_often_as_it_is_asked() -> None:
    stream = wirelens.packets(DEMO)
    assert stream.counts is None
    assert len(list(stream)) == len(list(stream)) == 4944
    counts = {"received": 4944, "filtered": 0, "clamped_stamps": 0, "undecoded": {}}
    assert stream.counts == counts | {"duplicates": 0}
    first, second = iter(stream), iter(stream)
    assert next(first) == next(second)


def test_frames_agree_with_rows() -> None:
    stream = wirelens.packets(DEMO, frame=14, payload=8)
    rows = [tuple(packet) for packet in stream]
    table = stream.to_arrow()
    as_ns = table.set_column(0, "time_ns", table["time_ns"].cast(pyarrow.int64()))
    assert [tuple(row.values()) for row in as_ns.to_pylist()] == rows
    frame = stream.to_polars()
    as_ns = frame.with_columns(polars.col("time_ns").dt.epoch("ns"))
    assert as_ns.rows() == rows
    frame = stream.to_pandas()
    assert frame["time_ns"].astype("int64").tolist() == [row[0] for row in rows]
    ports = [None if port is pandas.NA else port for port in frame["src_port"]]
    assert ports == [row[9] for row in rows]
    addresses = [None if isinstance(text, float) else text for text in frame["src_ip"]]
    assert addresses == [row[8] for row in rows]


def test_types_survive() -> None:
    windows = wirelens.top(DEMO, window="5s").to_pandas()
    assert str(windows.dtypes["window_start_ns"]) == "datetime64[ns, UTC]"
    assert str(windows.dtypes["bytes"]) == "uint64"
    packets = wirelens.packets(DEMO)
    assert str(packets.to_pandas().dtypes["src_port"]) == "UInt16"
    assert packets.to_polars().schema["time_ns"] == polars.Datetime("ns", "UTC")
    assert packets.to_arrow().schema.field("wire_len").type == pyarrow.uint32()


def test_whoever_speaks_arrow_understands() -> None:
    table, stream = wirelens.top(DEMO, n=0), wirelens.packets(DEMO, batch_size=1000)
    assert polars.DataFrame(table).shape == polars.DataFrame(table).shape == (20, 3)
    assert polars.DataFrame(stream).height == pyarrow.table(stream).num_rows == 4944
    assert pyarrow.schema(stream) == pyarrow.table(stream).schema
    batches = [pyarrow.record_batch(batch) for batch in stream.batches()]
    assert [batch.num_rows for batch in batches] == [1000, 1000, 1000, 1000, 944]
    reader = pyarrow.RecordBatchReader.from_stream(stream)
    assert reader.read_next_batch().num_rows == 1000
    del reader, stream


def test_a_batch_has_columns() -> None:
    (batch,) = wirelens.top(DEMO, n=3).batches()
    assert batch.names == ["src_ip", "packets", "bytes"]
    assert batch.column("bytes") == batch.column(2) == batch.columns()[2]
    assert [len(column) for column in batch.columns(2)] == [2, 2, 2]
    assert repr(batch) == "<wirelens.Batch: 3 rows of src_ip, packets, bytes>"
    with pytest.raises(KeyError, match="`octets` is not a column; the columns are src_ip"):
        batch.column("octets")
    with pytest.raises(IndexError, match="no column has the index 3"):
        batch.column(3)


def test_memory_outlives_its_owner() -> None:
    batch = next(wirelens.packets(DEMO, batch_size=10).batches())
    frame = polars.DataFrame(batch)
    rows = frame.rows()
    del batch
    assert frame.rows() == rows


def test_parquet_is_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "packets.parquet"
    stream = wirelens.packets(DEMO, batch_size=1000)
    stream.to_parquet(path)
    assert pyarrow.parquet.read_table(path).equals(stream.to_arrow())
    with pytest.raises(wirelens.OutputExistsError, match="exists already; give overwrite=True"):
        stream.to_parquet(path)
    stream = wirelens.packets(DEMO, frame=20, payload=5)
    stream.to_parquet(path, overwrite=True)
    assert pyarrow.parquet.read_table(path).equals(stream.to_arrow())
    table = wirelens.top(DEMO, by="flow", n=0, window="5s")
    table.to_parquet(path, overwrite=True)
    assert pyarrow.parquet.read_table(path).equals(table.to_arrow())
    wirelens.top(DEMO, n=3).to_parquet(path, overwrite=True)
    assert pyarrow.parquet.read_table(path).num_rows == 3
    assert os.listdir(tmp_path) == ["packets.parquet"]


def test_a_stream_goes_to_another_process() -> None:
    stream = wirelens.packets(DEMO, "tcp")
    again = pickle.loads(pickle.dumps(stream))
    assert list(again) == list(stream)


def test_a_missing_package_is_named_with_the_line_that_installs_it(tmp_path: Path) -> None:
    code = f"""
import sys
for name in ("pandas", "polars", "pyarrow", "numpy"):
    sys.modules[name] = None
import wirelens
table = wirelens.top({str(DEMO)!r})
assert len(list(table)) == 10
table.to_parquet(sys.argv[1])
for method, package, extra in (("pandas",) * 3, ("polars",) * 3, ("arrow", "pyarrow", "arrow")):
    try:
        getattr(table, f"to_{{method}}")()
    except wirelens.MissingPackageError as error:
        assert isinstance(error, ImportError) and error.name == package
        assert f"{{sys.executable}} -m pip install '.[{{extra}}]'" in str(error), error
    else:
        raise AssertionError(method)
"""
    subprocess.run([sys.executable, "-c", code, tmp_path / "top.parquet"], check=True)
