"""The compiled half: crates/python. Use the package's own names, not these."""

import os
from collections.abc import Sequence
from typing import Any, TypedDict, final

__all__ = [
    "Batch",
    "RowBatches",
    "FirstRows",
    "Forest",
    "OnnxModel",
    "PacketForests",
    "Reader",
    "Run",
    "WindowRows",
    "__version__",
    "classify_flows",
    "declared_columns",
    "evidence_words",
    "first_packets",
    "flight_inputs",
    "flight_row_slots",
    "flight_slots",
    "flight_windows",
    "flow_schema",
    "flows",
    "found_captures",
    "header_columns",
    "judgements",
    "latency",
    "latency_numbers",
    "latency_rows",
    "made_of_arrow",
    "made_of_columns",
    "name_evidence",
    "packets",
    "predict_latencies",
    "run",
    "schema_hash",
    "simulate",
    "slot_inputs",
    "slot_windows",
    "snapshot_columns",
    "snapshot_json",
    "snapshot_schema",
    "snapshots",
    "tap_slots",
    "top",
    "window_schema",
    "windows",
]

__version__: str

class InputOptions(TypedDict):
    names: Sequence[str | os.PathLike[str]]
    filter: str | None
    count: int | None
    snaplen: int | None
    decapsulate: bool
    threads: int | None
    interface: str | None
    duration: str | None
    drop_duplicates: str | None
    share: tuple[int, int] | None

class RunOptions(TypedDict):
    path: str | None
    text: str
    read: Sequence[str | os.PathLike[str]]
    interface: list[str]
    duration: str | None
    pace: float | None
    threads: int | None
    keep_max: str
    batch_size: int
    applications: Sequence[tuple[str, str]]

class TopOptions(TypedDict):
    by: str
    n: int
    sort: str
    window: str | None
    max_keys: int
    hash_names: str | None
    seed: int | None

class FlowsOptions(TypedDict):
    idle_timeout: str
    active_timeout: str
    window: str | None
    stats: bool
    macs: bool
    names: str
    max_flows: int
    read_names: bool
    hash_names: str | None
    batch_size: int
    seed: int | None

class LatencyOptions(TypedDict):
    by: str
    every: str | None
    delayed_ack: str | None
    sharp_change: str
    sharp_share: float
    egress: Sequence[str | os.PathLike[str]]
    egress_offset: str | None
    max_flows: int
    max_waiting: int
    batch_size: int
    seed: int | None

class ClassifyOptions(TypedDict):
    model: str | os.PathLike[str]
    every: str | None
    unknown_below: float | None
    consumers: int
    waiting_max: int
    max_flows: int
    by: str
    hosts_max: int
    batch_size: int
    seed: int | None

class FeatureOptions(TypedDict):
    headers: str
    blocks: Sequence[str]
    payload_bytes: int
    packets: int
    numbers: Sequence[str]
    identity: str

class FirstOptions(TypedDict):
    idle_timeout: str
    active_timeout: str
    max_flows: int
    seed: int | None

class TapOptions(TypedDict):
    """How flows are cut into slots."""

    slot: str
    max_flows: int
    share: float
    seed: int | None

class WindowOptions(TypedDict):
    """How windows are made of slots."""

    inputs: list[str]
    passed: str
    empty: str
    throughput: str

class SnapshotOptions(TypedDict):
    source: str
    window: str
    layers: int
    buckets: int
    keys: Sequence[str]
    idle_timeout: str
    max_flows: int
    states: int

class PacketOptions(TypedDict):
    batch_size: int
    frame: int
    payload: int

@final
class Batch:
    """Some rows, column by column; speaks Arrow's PyCapsule protocol."""

    def __len__(self) -> int: ...
    @property
    def names(self) -> list[str]: ...
    def columns(self, rows: int | None = None) -> list[list[Any]]: ...
    def column(self, which: int | str) -> list[Any]: ...
    def memory(self, which: int | str) -> tuple[bytes, bytes | None]: ...
    def joined(self, which: int | str) -> bytes: ...
    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class RowBatches:
    """Rows that were found, all of them."""

    def __len__(self) -> int: ...
    def batches(self) -> list[Batch]: ...
    def joined(self, others: Sequence[RowBatches]) -> RowBatches: ...
    @property
    def byte_count(self) -> int: ...
    @property
    def is_declared(self) -> bool: ...
    @property
    def fields(self) -> list[tuple[str, str, bool, str]]: ...
    def write_parquet(self, path: str | os.PathLike[str], overwrite: bool) -> None: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class Reader:
    """Results while they are being found: an iterator of batches, to be read once."""

    def __iter__(self) -> Reader: ...
    def __next__(self) -> Batch: ...
    def collect(self, rows: int | None = None) -> RowBatches: ...
    def write_parquet(self, path: str | os.PathLike[str], overwrite: bool) -> None: ...
    def stop(self) -> None: ...
    def close(self) -> None: ...
    @property
    def is_forked(self) -> bool: ...
    @property
    def fields(self) -> list[tuple[str, str, bool, str]]: ...
    @property
    def damages(self) -> list[str]: ...
    @property
    def notices(self) -> list[str]: ...
    @property
    def summary(self) -> str | None: ...
    @property
    def counts(self) -> dict[str, Any] | None: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class Run:
    """A run: an iterator of batches for applications in Python, and what is left at the end."""

    def __iter__(self) -> Run: ...
    def __next__(self) -> tuple[int, Batch]: ...
    def stop(self) -> None: ...
    def close(self) -> None: ...
    def charge(self, bytes: int) -> bool: ...
    @property
    def is_live(self) -> bool: ...
    @property
    def unused(self) -> list[str]: ...
    def tables(self) -> list[tuple[int, RowBatches, int]]: ...
    @property
    def is_interrupted(self) -> bool: ...
    @property
    def losses(self) -> list[str]: ...
    @property
    def summary(self) -> str: ...
    @property
    def damages(self) -> list[str]: ...
    @property
    def notices(self) -> list[str]: ...
    @property
    def counts(self) -> dict[str, Any]: ...
    @property
    def closings(self) -> list[tuple[str, dict[str, Any]]]: ...

@final
class Forest:
    """Trees of one file, ready to score."""

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Forest: ...
    @property
    def classes(self) -> list[str]: ...
    @property
    def schema(self) -> str: ...
    @property
    def packet_count(self) -> int: ...
    @property
    def record_len(self) -> int: ...
    @property
    def tree_count(self) -> int: ...
    @property
    def numbers(self) -> list[str]: ...
    def score(
        self, records: bytes, packet_count: int, numbers: bytes | None = None
    ) -> bytes: ...

@final
class FirstRows:
    """Rows of `first_packets`, and what their columns are."""

    def __new__(cls, rows: RowBatches, features: FeatureOptions) -> FirstRows: ...
    @property
    def keys(self) -> list[str]: ...
    @property
    def record_len(self) -> int: ...
    def records_of(self, packets: int) -> bytes: ...
    def numbers_of(self, names: Sequence[str]) -> bytes: ...
    def bits(self, columns: Sequence[str]) -> bytes: ...
    def varying(self, chosen: bytes | None = None) -> list[str]: ...

@final
class WindowRows:
    """Rows of `windows`, and what their columns are."""

    def __new__(cls, rows: RowBatches, options: FeatureOptions, every_ns: int) -> WindowRows: ...
    @property
    def keys(self) -> list[str]: ...
    def records(self) -> bytes: ...
    def numbers(self) -> bytes: ...
    def bits(self, columns: Sequence[str]) -> bytes: ...

def found_captures(
    names: Sequence[str | os.PathLike[str]],
) -> tuple[list[os.PathLike[str]], list[str]]: ...
def first_packets(
    inputs: InputOptions, features: FeatureOptions, options: FirstOptions
) -> Reader: ...
def flow_schema(features: FeatureOptions) -> tuple[str, str]: ...

class EvidenceOptions(TypedDict):
    list: str | os.PathLike[str]
    classes: Sequence[str]
    depths: Sequence[int]
    wait_ns: int
    inner: bool

def evidence_words() -> tuple[list[str], list[str]]: ...
def name_evidence(
    inputs: InputOptions, evidence: EvidenceOptions, options: FirstOptions
) -> Reader: ...
class OnnxOptions(TypedDict):
    columns: list[str]
    class_count: int
    input: str
    output: str

@final
class OnnxModel:
    """A model of one file, ready to score."""

    @staticmethod
    def load(
        path: str | os.PathLike[str], features: FeatureOptions, options: OnnxOptions
    ) -> OnnxModel: ...
    @property
    def class_count(self) -> int: ...
    def score(self, records: bytes, numbers: bytes, together: int = 64) -> bytes: ...

def header_columns(blocks: Sequence[str], payload_len: int) -> list[str]: ...
def schema_hash(
    columns: Sequence[str],
    packets: int | None,
    innermost: bool,
    numbers: Sequence[str] = ...,
    window_ns: int | None = ...,
    identity: str = ...,
) -> str: ...
def declared_columns() -> list[tuple[str, list[tuple[str, str, bool]]]]: ...
def window_schema(options: FeatureOptions, every_ns: int) -> tuple[str, str]: ...
def windows(
    inputs: InputOptions, asked: FeatureOptions, every_ns: int, options: FirstOptions
) -> Reader: ...
@final
class PacketForests:
    """A model of the packet log, ready to score."""

    @staticmethod
    def load(path: str | os.PathLike[str]) -> PacketForests: ...
    @property
    def classes(self) -> list[str]: ...
    @property
    def columns(self) -> list[str]: ...
    @property
    def schema(self) -> str: ...
    @property
    def features(self) -> dict[str, Any]: ...
    def score(self, values: bytes, by_flow: bool) -> bytes: ...

def judgements(
    inputs: InputOptions,
    model: str | os.PathLike[str],
    number: int | None,
    calibration: str | os.PathLike[str] | None,
) -> Reader: ...
def snapshot_columns(options: SnapshotOptions) -> list[str]: ...
def snapshot_json(options: SnapshotOptions) -> dict[str, Any]: ...
def snapshot_schema(
    options: SnapshotOptions, columns: Sequence[str] | None = None
) -> tuple[str, str]: ...
def snapshots(
    inputs: InputOptions,
    options: SnapshotOptions,
    columns: Sequence[str] | None,
    number: int | None,
) -> Reader: ...
def flight_inputs() -> list[str]: ...
def flight_slots(inputs: InputOptions, options: TapOptions) -> Reader: ...
def flight_row_slots(slots: bytes, end: int, slot: str, rows_per_rtt: int) -> int | None: ...
def flight_windows(
    slots: bytes, starts: Sequence[int], len: int, row_slots: int, inputs: Sequence[str]
) -> tuple[bytes, list[str | None]]: ...
def slot_inputs() -> list[str]: ...
def latency_numbers() -> tuple[int, list[str], int, list[str]]: ...
def latency_rows(packets: bytes, batch_packets: int, batch_span_ns: int) -> dict[str, bytes]: ...
def predict_latencies(
    model: bytes | tuple[bytes, bytes], packets: bytes, *,
    tune: tuple[int, int, int] | None = None
) -> bytes: ...
def simulate(
    scenario: str, *, trace: str | os.PathLike[str] | None = None,
    journal: str | os.PathLike[str] | None = None, model: bytes | tuple[bytes, bytes] | None = None,
    tune_ns: int | None = None,
) -> str: ...
def slot_windows(
    taps: tuple[bytes, bytes], starts: Sequence[int], len: int, asked: WindowOptions
) -> tuple[bytes, list[str | None]]: ...
def tap_slots(inputs: InputOptions, options: TapOptions) -> Reader: ...
def made_of_arrow(rows: object) -> RowBatches: ...
def made_of_columns(names: Sequence[str], columns: Sequence[list[Any]]) -> RowBatches: ...
def run(options: RunOptions) -> Run: ...
def top(inputs: InputOptions, options: TopOptions) -> Reader: ...
def latency(inputs: InputOptions, options: LatencyOptions) -> Reader: ...
def classify_flows(inputs: InputOptions, options: ClassifyOptions) -> Reader: ...
def flows(inputs: InputOptions, options: FlowsOptions) -> Reader: ...
def packets(inputs: InputOptions, options: PacketOptions) -> Reader: ...
