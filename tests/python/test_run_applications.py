"""Applications in Python: flows as Arrow, once each and in one order, and rows that come back."""

import importlib.util
import itertools
import os
import pickle
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import polars
import pyarrow
import pytest
import wirelens
from captures import Frame, write_pcap
from command import DEMO, ENVIRONMENT, ROOT
from test_run import many_flows, udp

EXAMPLE = ROOT / "python/examples/beacons.py"


class Gathers:
    """Keeps what it is given."""

    name = "gathers"

    def __init__(self, settings: dict[str, Any] | None = None) -> None:
        self.settings = settings or {}
        self.batches: list[wirelens.Batch] = []
        self.ends = 0

    def on_flows(self, batch: wirelens.Batch) -> None:
        self.batches.append(batch)

    def on_end(self) -> None:
        self.ends += 1

    def table(self) -> pyarrow.Table:
        return pyarrow.Table.from_batches([pyarrow.record_batch(batch) for batch in self.batches])


class Returns:
    """Returns what a function makes of each batch."""

    name = "returns"

    def __init__(self, make: Any, at_end: Any = None) -> None:
        self.make, self.at_end = make, at_end

    def on_flows(self, batch: wirelens.Batch) -> Any:
        return self.make(batch)

    def on_end(self) -> Any:
        return self.at_end


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("many") / "many.pcap"
    write_pcap(path, many_flows())
    return path


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("settings", [{}, {"stats": True}, {"window": "1s"}], ids=str)
def test_it_gets_every_flow_once_in_the_order_of_flows(
    many: Path, threads: int, settings: dict[str, Any]
) -> None:
    gathers = Gathers(settings)
    result = wirelens.run({"flows": settings}, read=many, applications=[gathers], threads=threads)
    table = gathers.table()
    assert table.num_rows == 30_000
    assert table == result.tables["flows"].to_arrow()
    assert gathers.ends == 1
    assert "gathers" in result.closings and "gathers" not in result.tables


def test_batches_do_not_depend_on_threads(many: Path) -> None:
    sizes = []
    for threads in (1, 5):
        gathers = Gathers()
        wirelens.run({}, read=many, applications=[gathers], threads=threads, batch_size=1000)
        sizes.append([len(batch) for batch in gathers.batches])
    assert sizes[0] == sizes[1] and max(sizes[0]) <= 1024


def test_it_runs_beside_others_and_is_cut_as_they_want() -> None:
    one, other = Gathers(), Gathers({"stats": True})
    other.name = "other"
    result = wirelens.run(
        {"flows": {"window": "10s"}, "unanswered": {}}, read=DEMO, applications=[one, other]
    )
    flows = result.tables["flows"].to_arrow()
    assert one.table() == flows
    assert other.table().num_rows == flows.num_rows
    assert "packets_size_mean" in other.table().column_names or other.table().num_columns > 60
    assert list(result.closings) == ["flows", "unanswered", "gathers", "other"]


def test_flows_cut_in_two_ways_are_refused_with_both_names() -> None:
    with pytest.raises(wirelens.SettingsError, match=r"\[flows\] wants .* \[gathers\] wants 5 s"):
        wirelens.run({"flows": {}}, read=DEMO, applications=[Gathers({"idle-timeout": "5s"})])


class Pair(NamedTuple):
    a: str
    n: int | None


@dataclass
class Both:
    a: str
    n: float


@pytest.mark.parametrize(
    ("rows", "types"),
    [
        ([{"a": "x", "n": 1}, {"a": "y", "n": None}], ["string", "int64"]),
        ([Pair("x", 1), Pair("y", 2)], ["string", "int64"]),
        ([Both("x", 1.5), Both("y", 2)], ["string", "double"]),
        ([{"b": True, "d": b"\0", "e": None}] * 2, ["bool", "binary", "string"]),
    ],
    ids=["dict", "namedtuple", "dataclass", "kinds"],
)
def test_rows_come_out_as_its_table(rows: list[Any], types: list[str]) -> None:
    table = wirelens.run({}, read=DEMO, applications=[Returns(lambda _: rows)]).tables["returns"]
    arrow = table.to_arrow()
    assert [str(field.type) for field in arrow.schema] == types
    assert len(table) == 2
    assert table[0] == tuple(table.to_polars().row(0))
    assert list(table.to_pandas().columns) == table.columns == arrow.column_names


def test_columns_may_have_any_name() -> None:
    """Of names that Python cannot have as attributes, rows have the places."""
    rows = [{"class": "x", "src ip": 1, "_n": 2, "n": 3}]
    table = wirelens.run({}, read=DEMO, applications=[Returns(lambda _: rows)]).tables["returns"]
    assert table.columns == ["class", "src ip", "_n", "n"]
    assert table.column("class") == ["x"] and table[0] == ("x", 1, 2, 3)
    assert (table[0]._0, table[0].n) == ("x", 3)
    again = pickle.loads(pickle.dumps(table[0]))
    assert again == table[0] and again._fields == table[0]._fields


def test_a_frame_of_pandas_keeps_its_index() -> None:
    def large(batch: wirelens.Batch) -> Any:
        frame = pyarrow.table(pyarrow.record_batch(batch)).select(["src_bytes"]).to_pandas()
        return frame[frame["src_bytes"] > 1000]

    table = wirelens.run({}, read=DEMO, applications=[Returns(large)]).tables["returns"]
    assert "src_bytes" in table.columns and len(table) == len(list(table)) > 0


def test_arrow_of_any_package_comes_out_as_its_table(tmp_path: Path) -> None:
    def with_pyarrow(batch: wirelens.Batch) -> pyarrow.Table:
        return pyarrow.table(pyarrow.record_batch(batch)).select(["src_ip", "src_bytes"])

    def with_polars(batch: wirelens.Batch) -> polars.DataFrame:
        return polars.DataFrame(batch).group_by("protocol", maintain_order=True).len()

    for make in (with_pyarrow, with_polars, lambda batch: batch):
        result = wirelens.run(
            {"flows": {}}, read=DEMO, applications=[Returns(make)], batch_size=1024
        )
        table = result.tables["returns"]
        assert len(table) > 0 and table[0][0]
        table.to_parquet(tmp_path / "made.parquet", overwrite=True)
        read = pyarrow.parquet.read_table(tmp_path / "made.parquet")
        assert read.num_rows == len(table)
        with pytest.raises(wirelens.OutputExistsError):
            table.to_parquet(tmp_path / "made.parquet")


def test_rows_of_many_batches_are_one_table(many: Path) -> None:
    def count(batch: wirelens.Batch) -> list[dict[str, int]]:
        return [{"flows": len(batch)}]

    end = [{"flows": 0}]
    result = wirelens.run({}, read=many, applications=[Returns(count, end)], batch_size=4096)
    counts = result.tables["returns"].column("flows")
    assert sum(counts) == 30_000 and len(counts) > 5 and counts[-1] == 0


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (3, "returns: returns int; wanted: an Arrow table"),
        ([3], "returns: a row of type int; wanted: a dictionary"),
        ([{"a": 1}, {"b": 1}], "returns: a row with the columns b; wanted: those of the first"),
        ([{"a": 1}, {"a": "x"}], "column a: values of several types"),
        ([{"a": []}], "column a: <class 'list'>; wanted bool, int"),
        ([{"a": 2**64}], "column a: "),
        ([{"a": 2**2000}, {"a": 0.5}], "column a: "),
        ([{"a": "\ud800"}], "column a: "),
    ],
)
def test_what_is_no_table_is_refused(returned: Any, told: str) -> None:
    with pytest.raises(wirelens.OptionError) as raised:
        wirelens.run({}, read=DEMO, applications=[Returns(lambda _: returned)])
    assert str(raised.value).startswith(told)


def test_an_exception_ends_the_run_with_its_traceback(many: Path, tmp_path: Path) -> None:
    def fail(batch: wirelens.Batch) -> None:
        raise KeyError("a fault of the application")

    with pytest.raises(KeyError, match="a fault of the application") as raised:
        wirelens.run({}, read=many, applications=[Returns(fail)])
    assert raised.traceback[-1].name == "fail"
    # Nothing of it goes on.
    assert len(wirelens.run({"flows": {}}, read=DEMO).tables["flows"]) == 312


def test_ctrl_c_on_captures_interrupts(many: Path, tmp_path: Path) -> None:
    """And files of others have their names by then."""
    seen = []

    def press(batch: wirelens.Batch) -> None:
        seen.append(len(batch))
        if len(seen) == 1:
            os.kill(os.getpid(), signal.SIGINT)

    output = tmp_path / "unanswered.csv"
    with pytest.raises(KeyboardInterrupt):
        wirelens.run(
            {"unanswered": {"output": output}}, read=many, applications=[Returns(press)],
            batch_size=1000,
        )  # fmt: skip
    assert len(seen) == 1 and output.exists()


@pytest.mark.parametrize("name", ["Mine", "", "flows", "a b", None, "x" * 65])
def test_a_name_that_cannot_be_is_refused(name: Any) -> None:
    gathers = Gathers()
    gathers.name = name
    with pytest.raises(wirelens.OptionError, match="^name: "):
        wirelens.run({}, read=DEMO, applications=[gathers])


def test_settings_of_an_application_are_explained() -> None:
    for settings, told in [
        ({"idle": "5s"}, r"\[gathers\] has no key `idle`; did you mean"),
        ({"names": "nfstream", "window": "5s"}, r"\[gathers\] window: NFStream's columns"),
        ({"output": "x.csv"}, r"\[gathers\] has no key `output`"),
    ]:
        with pytest.raises(wirelens.SettingsError, match=told):
            wirelens.run({}, read=DEMO, applications=[Gathers(settings)])
    with pytest.raises(wirelens.OptionError, match="it has no method on_flows"):
        wirelens.run({}, read=DEMO, applications=[type("Bare", (), {"name": "bare"})()])


def test_rows_returned_share_the_bound_on_memory(many: Path) -> None:
    def rows(batch: wirelens.Batch) -> list[dict[str, str]]:
        return [{"a": source} for source in batch.column("src_ip")]

    with pytest.raises(wirelens.LossError, match="returns: [0-9]+ rows were dropped") as raised:
        wirelens.run({}, read=many, applications=[Returns(rows)], keep_max="64K")
    result = raised.value.result
    kept, lost = len(result.tables["returns"]), result.closings["returns"]["dropped_rows"]
    assert kept == (64 << 10) // 64 and kept + lost == 30_000


@pytest.mark.parametrize("value", [b"\0" * 100_000, "x" * 100_000], ids=["bytes", "text"])
def test_long_values_count_with_their_length(value: bytes | str) -> None:
    def rows(batch: wirelens.Batch) -> list[dict[str, bytes | str]]:
        return [{"a": value} for _ in range(len(batch))]

    with pytest.raises(wirelens.LossError, match="returns: [0-9]+ rows were dropped") as raised:
        wirelens.run({}, read=DEMO, applications=[Returns(rows)], keep_max="1M")
    assert len(raised.value.result.tables["returns"]) == (1 << 20) // 100_000


def test_the_example_finds_what_reports_at_regular_times(tmp_path: Path) -> None:
    """Whole: as a program, and as a class."""
    second = 10**9
    regular = (udp(at * 60 * second, (1, 2000 + at), (9, 443), 20) for at in range(20))
    gaps = itertools.accumulate([7, 90, 33, 61, 48, 250, 5, 120, 77, 35, 41, 88])
    random = (udp(at * second, (2, 3000 + at), (9, 443), 20) for at in gaps)
    frames: list[Frame] = sorted([*regular, *random], key=lambda frame: frame.time_ns)
    path = tmp_path / "beacons.pcap"
    write_pcap(path, frames)
    spec = importlib.util.spec_from_file_location("beacons", EXAMPLE)
    assert spec and spec.loader
    beacons = importlib.util.module_from_spec(spec)
    sys.modules["beacons"] = beacons
    spec.loader.exec_module(beacons)
    table = wirelens.run({}, read=path, applications=[beacons.Beacons()]).tables["beacons"]
    assert [tuple(row) for row in table] == [("0.0.0.1", "0.0.0.9", 443, 20, 60.0, 0.0)]
    done = subprocess.run(
        [sys.executable, EXAMPLE, path], check=True, capture_output=True, text=True, env=ENVIRONMENT
    )
    assert done.stdout == f"{table}\n"
    assert len(EXAMPLE.read_text().splitlines()) <= 150
