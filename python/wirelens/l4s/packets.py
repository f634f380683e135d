"""The packets of one sender, from whatever recorded them, and what a model reads of them."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

from wirelens import _wirelens, compat
from wirelens.errors import TraceError
from wirelens.l4s.latencies import read_latencies
from wirelens.l4s.trace import MAGIC, read_trace

Array = Any
NEVER = 2**64 - 1
RECORD = numpy.dtype(
    [
        *((name, "<u8") for name in ("sent_ns", "acked_ns", "latency_ns")),
        *((name, "<u4") for name in ("flow", "receiver", "size", "queue")),
    ]
)
TOKEN_LEN, TOKEN_NAMES, QUERY_LEN, QUERY_NAMES = _wirelens.latency_numbers()
L4S, CLASSIC = 0, 1
_NS_PER_US = 1_000


@dataclass(frozen=True)
class Packets:
    """Packets in the order in which they left: `records` as `RECORD` has them.

    `acked_ns` and `latency_ns` are `NEVER` where no acknowledgement came, and `latency_ns` also
    where it shows none: of retransmitted bytes nobody knows which copy it is for (Karn's rule).
    """

    name: str
    records: Array

    def __len__(self) -> int:
        return len(self.records)

    @property
    def latency_ms(self) -> Array:
        """Latencies in ms; NaN where there is none."""
        latency = self.records["latency_ns"]
        return numpy.where(latency == NEVER, numpy.nan, latency / 1e6)

    @property
    def since_s(self) -> Array:
        """When each left, in seconds since the first one."""
        sent = self.records["sent_ns"]
        return (sent - sent[:1]) / 1e9


@dataclass(frozen=True)
class Batching:
    """When packets share a prediction: so many at most, that leave within so long."""

    packets: int = 8
    span_ms: float = 2.0


BATCHING = Batching()


@dataclass(frozen=True)
class Rows:
    """What a model reads of packets, a row each; `tokens` in the order of acknowledgements.

    `known` is the number of tokens there were when a packet's batch began. Times are in ms, NaN
    where not known. Made by the code that serves models.
    """

    tokens: Array
    queries: Array
    known: Array
    base_ms: Array
    floor_ms: Array
    flow_last_ms: Array
    queue_last_ms: Array
    little_ms: Array

    @classmethod
    def of(cls, packets: Packets, batching: Batching = BATCHING) -> "Rows":
        """Reads packets as their sender would have."""
        span_ns = round(batching.span_ms * 1e6)
        memory = packets.records.tobytes()
        found = _wirelens.latency_rows(memory, batching.packets, span_ns)
        columns = {
            name: numpy.frombuffer(found[name], "u4" if name == "known" else "f4") for name in found
        }
        columns["tokens"] = columns["tokens"].reshape(-1, TOKEN_LEN)
        columns["queries"] = columns["queries"].reshape(-1, QUERY_LEN)
        return cls(**columns)


def read_packets(
    path: str | os.PathLike[str], *, sender: int = 1, one_way: bool = False
) -> Packets:
    """A sender's packets of a trace of an L4S network (`read_trace`), of compact columns
    (`read_latencies`), or of the Parquet file of `wirelens latency --by packet`.

    `sender` is that of a trace. With `one_way`, latencies are those to the receiver, which a sender
    knows where the receiver returns timestamps; else they include the way back and delayed
    acknowledgements. Either way they are known when the acknowledgement arrives.

    Raises `TraceError` for another file.
    """
    path = Path(path)
    with path.open("rb") as file:
        head = file.read(len(MAGIC))
    if head == MAGIC:
        return _of_trace(path, sender, one_way)
    if head[:4] != b"PAR1":
        raise TraceError(
            f"{path}: starts with {head!r}; wanted: a trace of an L4S network, or a Parquet file "
            "of latencies; from a capture: wirelens latency -r FILE --by packet -o FILE.parquet"
        )
    parquet = compat.need("pyarrow.parquet", "read_packets()")
    names = parquet.read_schema(path).names
    if "sent_us" in names:
        return _of_columns(path, one_way)
    if "latency_ns" in names and "community_id" in names:
        return _of_capture(path, one_way)
    raise TraceError(
        f"{path}: columns {', '.join(names[:6])} …; "
        "wanted: those of `wirelens latency --by packet`"
    )


def _of_trace(path: Path, sender: int, one_way: bool) -> Packets:
    table = read_trace(path)
    table = table.filter(table["sender"].to_numpy() == sender)
    if not len(table):
        raise TraceError(f"{path}: no packet of sender {sender}")
    columns = {name: _whole(table[name]) for name in table.column_names}
    order = numpy.argsort(columns["sent_ns"], kind="stable")
    columns = {name: values[order] for name, values in columns.items()}
    end = columns["received_ns"] if one_way else columns["acked_ns"]
    is_clear = _sent_once(columns["flow"], columns["sequence"]) & (end != NEVER)
    return _made(
        path, columns["sent_ns"], columns["acked_ns"], end - columns["sent_ns"], is_clear,
        flow=columns["flow"], receiver=columns["receiver"], size=columns["size"],
        queue=columns["queue"],
    )  # fmt: skip


def _of_columns(path: Path, one_way: bool) -> Packets:
    table = read_latencies(path)
    sent_ns = _whole(table["sent_us"]) * numpy.uint64(_NS_PER_US)
    ack_us, one_way_us = _whole(table["ack_us"]), _whole(table["one_way_us"])
    flow = _whole(table["flow"])
    acked_ns = numpy.where(ack_us == NEVER, NEVER, sent_ns + ack_us * numpy.uint64(_NS_PER_US))
    latency_us = one_way_us if one_way else ack_us
    # A first copy that is repeated later shows a latency, since the table knows which one arrived.
    is_clear = (latency_us != NEVER) & (_whole(table["copy"]) == 1)
    return _made(
        path, sent_ns, acked_ns.astype("u8"), latency_us * numpy.uint64(_NS_PER_US), is_clear,
        flow=flow, receiver=numpy.zeros_like(flow), size=_whole(table["size"]),
        queue=numpy.full(len(flow), CLASSIC),
    )  # fmt: skip


def _of_capture(path: Path, one_way: bool) -> Packets:
    if one_way:
        raise TraceError(
            f"{path}: one tap has no one-way delays; wanted: latencies of the reverse direction"
        )
    parquet, compute = (
        compat.need(name, "read_packets()") for name in ("pyarrow.parquet", "pyarrow.compute")
    )
    wanted = [
        "time_ns",
        "src_ip",
        "src_port",
        "dst_ip",
        "dst_port",
        "wire_len",
        "latency_ns",
        "queue",
    ]
    table = parquet.read_table(path, columns=wanted)
    # The sender with the most packets: whose queue is chosen.
    counted = compute.value_counts(table["src_ip"]).to_pylist()
    if not counted:
        raise TraceError(f"{path}: no packet")
    busiest = max(counted, key=lambda one: one["counts"])["values"]
    table = table.filter(compute.equal(table["src_ip"], busiest))
    sent_ns = _whole(table["time_ns"].cast("int64"))
    order = numpy.argsort(sent_ns, kind="stable")
    latency = _whole(table["latency_ns"])
    # Without a latency nothing says when the acknowledgement arrived; it counts as none.
    acked_ns = numpy.where(latency == NEVER, NEVER, sent_ns + latency).astype("u8")
    ends = [table[name].to_pylist() for name in ("src_port", "dst_ip", "dst_port")]
    flow = _numbered(list(zip(*ends, strict=True)))
    receiver = _numbered(ends[1])
    queue = numpy.array([L4S if name == "l4s" else CLASSIC for name in table["queue"].to_pylist()])
    columns = {
        "flow": flow,
        "receiver": receiver,
        "size": _whole(table["wire_len"]),
        "queue": queue,
    }
    return _made(
        path, sent_ns[order], acked_ns[order], latency[order], (latency != NEVER)[order],
        **{name: values[order] for name, values in columns.items()},
    )  # fmt: skip


def _made(
    path: Path, sent_ns: Array, acked_ns: Array, latency_ns: Array, is_clear: Array, **ends: Array
) -> Packets:
    records = numpy.zeros(len(sent_ns), RECORD)
    records["sent_ns"], records["acked_ns"] = sent_ns, acked_ns
    records["latency_ns"] = numpy.where(is_clear, latency_ns, NEVER)
    for name, values in ends.items():
        records[name] = values
    return Packets(path.stem, records)


def _whole(column: Any) -> Array:
    """A column of whole numbers; `NEVER` where there is none."""
    return column.cast("uint64").fill_null(NEVER).to_numpy().astype("u8")


def _sent_once(flow: Array, sequence: Array) -> Array:
    """Whether these bytes of the flow left once only."""
    pairs = numpy.stack([flow.astype("u8"), sequence], axis=1)
    _, index, counts = numpy.unique(pairs, axis=0, return_inverse=True, return_counts=True)
    return counts[index.reshape(-1)] == 1


def _numbered(values: list[Any]) -> Array:
    numbers: dict[Any, int] = {}
    return numpy.array([numbers.setdefault(value, len(numbers)) for value in values], dtype="u4")
