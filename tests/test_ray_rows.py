"""Rows of runs over Ray, tried without Ray: how they are read, replaced and resumed."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
import wirelens
from command import DEMO
from wirelens.errors import OptionError, OutputExistsError
from wirelens.ray import asking, tasks, totals
from wirelens.ray.parts import Folder, Rows
from wirelens.ray.sets import sets_of
from wirelens.ray.tasks import UNFINISHED, Report


def rows_of(folder: Path, sensors: Mapping[str | None, Mapping[str, list[Any]]]) -> Rows:
    """Rows as tasks leave them: a file for each sensor."""
    reports, whole = [], Folder(folder, False, False)
    for sensor, columns in sensors.items():
        part = whole.part(sensor, 0, 1)
        part.parent.mkdir(parents=True, exist_ok=True)
        fields = [
            pyarrow.field(name, pyarrow.array(of).type, False) for name, of in columns.items()
        ]
        table = pyarrow.table(dict(columns), schema=pyarrow.schema(fields))
        pyarrow.parquet.write_table(table, part)
        reports.append(Report(str(part), sensor, None, table.num_rows, {}, [], 0.1, 1, 1))
    return Rows(folder, reports)


@pytest.mark.parametrize("names", [("7", "007", "10"), ("1e3", "true", "2026-11-30")], ids=str)
def test_sensors_that_look_like_numbers_keep_their_names(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    rows = rows_of(tmp_path / "a=b" / "rows", {name: {"n": [1, 2]} for name in names})
    table = rows.to_arrow()
    assert table.column_names == ["n", "sensor"]
    assert sorted(table["sensor"].to_pylist()) == sorted([*names, *names])
    assert rows.to_polars().shape == (6, 2)


def test_rows_without_sensors_have_no_such_column(tmp_path: Path) -> None:
    assert rows_of(tmp_path / "sensor=x", {None: {"n": [1]}}).to_arrow().column_names == ["n"]


@pytest.mark.parametrize("order", [("folder", "file"), ("file", "folder")], ids=str)
def test_rows_of_a_folder_keep_their_captures_next_to_those_of_one_capture(
    tmp_path: Path, order: tuple[str, ...]
) -> None:
    parts = {"folder": {"n": [1], "capture": ["a.pcap"]}, "file": {"n": [2]}}
    table = rows_of(tmp_path / "rows", {name: parts[name] for name in order}).to_arrow()
    captures = dict(zip(table["n"].to_pylist(), table["capture"].to_pylist(), strict=True))
    assert captures == {1: "a.pcap", 2: None}
    # What says that no value may be missing cannot be written.
    pyarrow.parquet.write_table(table, tmp_path / "again.parquet")


def test_rows_are_replaced_when_the_run_that_does_begins(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    rows_of(folder, {None: {"n": [1]}})
    (folder / "_wirelens.json").write_text(json.dumps({"asked": {}, "chosen": {"seed": 1}}))
    replaced = Folder(folder, False, True)
    # The seed of what is replaced is none of the new run's.
    assert replaced.kept("seed") is None
    assert list(folder.glob("*.parquet"))
    replaced.begin({"question": "flows"}, {})
    assert [path.name for path in folder.iterdir()] == ["_wirelens.json"]


def test_a_run_that_is_refused_leaves_the_rows_that_it_would_replace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "rows"
    rows_of(folder, {None: {"n": [1]}})
    (folder / "_wirelens.json").write_text(json.dumps({"asked": {}, "chosen": {"seed": 1}}))

    def unreachable(*_: Any) -> None:
        raise OptionError("address: no such cluster")

    monkeypatch.setattr(asking.Cluster, "connect", unreachable)
    with pytest.raises(OptionError, match="no such cluster"):
        asking.ask("flows", DEMO, {"output": folder, "overwrite": True})
    assert list(folder.glob("*.parquet"))


def test_a_run_is_not_resumed_under_other_names_of_its_captures(tmp_path: Path) -> None:
    captures = tmp_path / "captures"
    captures.mkdir()
    names = [shutil.copy(DEMO, captures / name) for name in ("a.pcapng", "b.pcapng")]

    def begin(source: Any, resume: bool) -> None:
        about = asking._about("flows", {}, sets_of(source), None)
        Folder(tmp_path / "rows", resume, False).begin(about, {})

    begin(captures, resume=False)
    begin(captures, resume=True)
    for source in (names, [captures]):
        with pytest.raises(OutputExistsError, match="differs from its run: names of captures;"):
            begin(source, resume=True)


def test_a_run_of_a_capture_is_not_resumed_as_one_of_a_list(tmp_path: Path) -> None:
    for at, (first, second) in enumerate([(DEMO, [DEMO]), ([DEMO], DEMO)]):
        folder = tmp_path / str(at)
        Folder(folder, False, False).begin(asking._about("flows", {}, sets_of(first), None), {})
        with pytest.raises(OutputExistsError, match="differs from its run: names of captures;"):
            about = asking._about("flows", {}, sets_of(second), None)
            Folder(folder, True, False).begin(about, {})


def test_totals_are_private_and_whole_as_other_rows(tmp_path: Path) -> None:
    parts = [tmp_path / f"{at}.parquet" for at in range(2)]
    for part in parts:
        wirelens.top(DEMO, by="pair", n=0).to_parquet(part)
    into = tmp_path / "sum.parquet"
    assert totals.add_up(parts, into, "bytes", 5, 1000)
    assert into.stat().st_mode & 0o777 == parts[0].stat().st_mode & 0o777 == 0o600
    one = pyarrow.parquet.read_table(parts[0]).slice(0, 5).to_pylist()
    twice = [row | {"packets": 2 * row["packets"], "bytes": 2 * row["bytes"]} for row in one]
    assert pyarrow.parquet.read_table(into).to_pylist() == twice
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.parquet", "1.parquet", into.name]


def test_the_summary_of_nprint_is_no_damage(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcapng"
    cut.write_bytes(DEMO.read_bytes()[:-100])
    (captures,) = sets_of(cut)
    task = tasks.Task(
        question="nprint",
        arguments={"options": ["--ipv4"]},
        captures=captures,
        source=captures.source,
        share=None,
        threads=1,
        part=str(tmp_path / "rows.parquet"),
        version=wirelens.__version__,
    )
    (damage,) = tasks.run(task).damages
    assert damage.startswith(str(cut))


def test_two_runs_do_not_fill_one_folder(tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    about = asking._about("flows", {}, sets_of(DEMO), None)
    filling = Folder(rows, False, False)
    with filling.cleaned():
        filling.begin(about, {})
        growing = rows / f"{UNFINISHED}1-part-00000-of-00001.parquet.partial"
        growing.touch()
        for resume in (True, False):
            second = Folder(rows, resume, not resume)
            with pytest.raises(OutputExistsError, match="another run fills it"), second.cleaned():
                second.begin(about, {})
        assert growing.exists()
    assert not growing.exists()
    growing.touch()
    third = Folder(rows, True, False)
    third.begin(about, {})
    assert not growing.exists(), "of a program that was killed"
