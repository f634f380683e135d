"""Snapshots: the features of each packet on arrival, as the packet log's classifier sees them.

They are made by the same code as in `wirelens packetlog`, so that training and serving cannot
differ. `docs/specs/packetlog-features.md` defines each column.

>>> options = SnapshotOptions(keys=["flow", "source"])
>>> len(options.columns())
53
>>> batch = next(snapshots("testdata/demo.pcapng", options, columns=["ip_bytes", "flow_packets"]))
>>> batch.values[0, 0], batch.values[0, 1], len(batch)
(96.0, 1.0, 4944)
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from wirelens import _wirelens
from wirelens.found import readable_captures
from wirelens.questions import Duration, Source, _duration, _inputs
from wirelens.results import warn_of

if TYPE_CHECKING:
    from wirelens._wirelens import Batch
    from wirelens._wirelens import SnapshotOptions as SnapshotRequest

__all__ = ["SnapshotBatch", "SnapshotOptions", "snapshots"]


@dataclass(frozen=True)
class SnapshotOptions:
    """How snapshots are made; a model carries these options.

    Parameters
    ----------
    source
        Where sums of packets are stored: in a ``"sketch"`` of fixed size, in which a flow may not
        fit, or ``"exact"`` in a table of flows.
    window
        Sums are reset at each window of this length, aligned to the epoch: seconds, text such as
        ``"10ms"``, or a ``timedelta``. ``"0"``: they last as long as the flow, which needs
        ``"exact"``.
    layers, buckets
        Of each sketch its layers, and the buckets of a layer.
    keys
        Keys of the sums: ``"flow"``, ``"source"`` and ``"destination"`` host. Each has
        columns of its own.
    idle_timeout
        After this long without a packet a flow ends and a host is evicted; only for tables.
    max_flows
        Maximum number of flows, and of hosts, in a table.
    states
        Places for states of flows, and as many for pairs of hosts, clients and servers: a power of
        two, or 0 for no such columns. The oldest state is evicted for a new one.

    Raises
    ------
    OptionError
        If the options contradict each other.
    """

    source: Literal["sketch", "exact"] = "sketch"
    window: Duration = "10ms"
    layers: int = 2
    buckets: int = 65_536
    keys: Sequence[str] = ("flow",)
    idle_timeout: Duration = "120s"
    max_flows: int = 1_048_576
    states: int = 0

    def __post_init__(self) -> None:
        # Equal options are equal whatever they were given as.
        object.__setattr__(self, "keys", tuple(self.keys))
        object.__setattr__(self, "window", _duration(self.window))
        object.__setattr__(self, "idle_timeout", _duration(self.idle_timeout))
        self.columns()

    def columns(self) -> list[str]:
        """Names of all columns that there are with these keys, in order."""
        return _wirelens.snapshot_columns(self._options())

    def schema(self, columns: Sequence[str] | None = None) -> str:
        """What the numbers of such columns mean, as text: what is hashed."""
        return _wirelens.snapshot_schema(self._options(), columns)[1]

    def hash(self, columns: Sequence[str] | None = None) -> str:
        """The SHA-256 of `schema`, which a model carries."""
        return _wirelens.snapshot_schema(self._options(), columns)[0]

    def to_json(self) -> dict[str, Any]:
        """The same as a model's file has it, spans in nanoseconds."""
        return _wirelens.snapshot_json(self._options())

    def replace(self, **changes: Any) -> "SnapshotOptions":
        """These options with some of them changed."""
        return dataclasses.replace(self, **changes)

    def _options(self) -> "SnapshotRequest":
        return {
            "source": self.source,
            "window": _duration(self.window),
            "layers": self.layers,
            "buckets": self.buckets,
            "keys": list(self.keys),
            "idle_timeout": _duration(self.idle_timeout),
            "max_flows": self.max_flows,
            "states": self.states,
        }


def state_columns() -> frozenset[str]:
    """Names of the columns that are made of states, which `SnapshotOptions.states` asks for."""
    with_states = SnapshotOptions(states=1024).columns()
    return frozenset(with_states) - frozenset(SnapshotOptions().columns())


class SnapshotBatch:
    """Snapshots of some packets of one or several captures, in order.

    Everything is a ``memoryview``, which NumPy takes as it is, without a copy:
    ``numpy.asarray(batch.values)``.
    """

    def __init__(self, batch: "Batch", columns: Sequence[str], files: Sequence[str]) -> None:
        self.files = tuple(files)
        """The captures; `file` counts in them, from 0."""
        self.columns = tuple(columns)
        """Names of the columns of `values`."""
        rows = len(batch)
        values = memoryview(batch.joined("values"))
        self.values: memoryview[float] = values.cast("f", shape=[rows, len(self.columns)])
        """The snapshots, packets × columns, 32-bit floats; −1 where a packet has no such thing."""
        self.file: memoryview[int] = memoryview(batch.memory("file")[0]).cast("I")
        """Of each packet its capture, counted from 0."""
        self.packet: memoryview[int] = memoryview(batch.memory("packet")[0]).cast("Q")
        """Of each packet its number in its capture, counted from 0."""
        self.timestamps_ns: memoryview[int] = memoryview(batch.memory("time_ns")[0]).cast("q")
        """Of each packet its timestamp, in nanoseconds since the epoch; 0 if there is none."""
        self.holds_flow: memoryview[int] = memoryview(batch.memory("holds_flow")[0]).cast("b")
        """Of each packet whether there is flow state, 0 or 1: the flow forest classifies it, else
        the packet forest."""

    def __len__(self) -> int:
        return len(self.packet)


def snapshots(
    source: Source,
    options: SnapshotOptions | None = None,
    *,
    columns: Sequence[str] | None = None,
    filter: str | None = None,
    count: int | None = None,
    snaplen: int | None = None,
    seed: int | None = None,
) -> Iterator[SnapshotBatch]:
    """Takes a snapshot of every packet, in batches of at most 65,536.

    Captures are read one after the other; flows do not continue across them.

    Parameters
    ----------
    source
        A capture, a folder of captures, or a list of them.
    options
        How snapshots are made.
    columns
        Names of the columns that are wanted, in that order; all of them unless told.
    filter
        Read only frames that match this filter (pcap-filter(7)); needs libpcap. The others are
        not counted in `SnapshotBatch.packet`.
    count
        Stop after this many frames of each capture.
    snaplen
        Use only this many bytes of each frame, as if captured with this snapshot length.
    seed
        Seed of the hash that places flows in a sketch, random by default.

    Yields
    ------
    SnapshotBatch

    Raises
    ------
    CaptureNotFoundError, CaptureUnreadableError, NotACaptureError, EmptyCaptureError
        If `source` cannot be opened.
    FilterError, FilterUnavailableError
        If `filter` cannot be used.
    OptionError
        If another argument is invalid.

    Warns
    -----
    DamagedCaptureWarning
        At the end, if a capture cannot be read to its end.
    """
    options = options or SnapshotOptions()
    names = list(options.columns() if columns is None else columns)
    inputs = _inputs(source, filter, None, True, count, snaplen)
    files = readable_captures(inputs["names"], stacklevel=2)
    asked = options._options()
    reader = _wirelens.snapshots({**inputs, "names": files}, asked, names, seed)
    try:
        for batch in reader:
            yield SnapshotBatch(batch, names, files)
        warn_of(reader, stacklevel=2)
    finally:
        reader.close()
