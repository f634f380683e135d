"""Traces of an L4S network are read as docs/specs/l4s-trace.md says."""

import struct
from pathlib import Path

import pytest
from wirelens.errors import TraceError
from wirelens.l4s import read_trace

HEAD = b"WLL4S\0\0\x01"
NEVER = 2**64 - 1
NAMES = [
    "sent_ns", "entered_ns", "left_ns", "received_ns", "acked_ns", "sequence", "flow", "size",
    "found_l4s", "found_classic", "sender", "receiver", "ecn_sent", "ecn_left", "queue", "outcome",
    "mark", "flags",
]  # fmt: skip


def record(*values: int) -> bytes:
    return struct.pack("<6Q4I2H6B6x", *values)


def test_each_field_is_a_column_and_never_is_null(tmp_path: Path) -> None:
    sent = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 1, 3, 0, 0, 2, 3)
    dropped = (NEVER, 2, 3, NEVER, NEVER, NEVER, *range(10, 22))
    path = tmp_path / "trace"
    path.write_bytes(HEAD + record(*sent) + record(*dropped))
    table = read_trace(path)
    assert table.column_names == NAMES
    first, second = table.to_pylist()
    assert tuple(first.values()) == sent
    times = {name for name, value in second.items() if value is None}
    assert times == {"sent_ns", "received_ns", "acked_ns"}
    assert second["sequence"] == NEVER
    assert (str(table.schema.field("flow").type), len(read_trace(str(path)))) == ("uint32", 2)


def test_a_trace_without_packets_is_an_empty_table(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(HEAD)
    assert (read_trace(path).num_rows, read_trace(path).num_columns) == (0, len(NAMES))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no trace"),
        (b"\xd4\xc3\xb2\xa1 a capture", "no trace of an L4S network"),
        (HEAD[:-1] + b"\x02", "version 2; wanted: version 1"),
        (HEAD + record(*range(18)) + b"abc", "ends 3 bytes into a record"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "trace"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=said):
        read_trace(path)


def test_a_file_that_is_not_there_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_trace(tmp_path / "nothing")
