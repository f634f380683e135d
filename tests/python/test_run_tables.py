"""`wirelens.run`: the rows of the command in memory, its files, its mistakes and its account."""

import csv
import io
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
import wirelens
from command import DEMO
from command import wirelens as command
from run_settings import toml

ALL: dict[str, dict[str, Any]] = {
    "top": {"by": "flow", "rows": 0, "window": "1s"},
    "flows": {"stats": True},
    "classify": {"model": "services"},
    "cca": {"every": "100ms", "rows": 0},
    "unanswered": {},
}


def settings(read: Path = DEMO) -> dict[str, Any]:
    return {"input": {"read": read}, "run": {"seed": 7}, **ALL}


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.open()))


@pytest.fixture(scope="module")
def everything() -> wirelens.Run:
    return wirelens.run(settings())


def test_rows_in_memory_are_those_of_the_command(everything: wirelens.Run, tmp_path: Path) -> None:
    """The same file, byte for byte."""
    lines = [f'[input]\nread = "{DEMO}"\n[run]\nseed = 7\n']
    for name, table in ALL.items():
        output = {"output": f"{tmp_path / name}.parquet"}
        keys = (f"{key} = {toml(value)}\n" for key, value in (table | output).items())
        lines += [f"[{name}]\n", *keys]
    path = tmp_path / "wirelens.toml"
    path.write_text("".join(lines))
    ran = command("run", "-q", "-c", path)
    assert ran.status == 0, ran.stderr
    assert list(everything.tables) == list(ALL)
    for name, table in everything.tables.items():
        table.to_parquet(tmp_path / f"{name}.mine.parquet")
        wanted = (tmp_path / f"{name}.parquet").read_bytes()
        assert (tmp_path / f"{name}.mine.parquet").read_bytes() == wanted, name
        assert len(table) > 0


def test_a_file_of_settings_and_a_dictionary_give_the_same(tmp_path: Path) -> None:
    path = tmp_path / "wirelens.toml"
    path.write_text('[input]\nread = "nowhere.pcap"\n[flows]\nwindow = "10s"\n')
    by_file = wirelens.run(path, read=DEMO)
    by_values = wirelens.run({"flows": {"window": "10s"}}, read=[DEMO])
    assert list(by_file.tables["flows"]) == list(by_values.tables["flows"])
    assert by_file.tables["flows"].columns[0] == "window_start_ns"


def test_tables_with_an_output_go_to_files_and_others_to_memory(tmp_path: Path) -> None:
    output = tmp_path / "flows.csv"
    result = wirelens.run(
        {"flows": {"output": output}, "unanswered": {}, "packetlog": {"output": tmp_path / "log"}},
        read=DEMO,
    )
    assert list(result.tables) == ["unanswered"]
    assert len(rows(output)) == 312
    assert list((tmp_path / "log").iterdir())
    assert set(result.closings) == {"flows", "packetlog", "unanswered"}


def test_every_packet_is_accounted_for(everything: wirelens.Run) -> None:
    counts = everything.counts
    for name, closing in everything.closings.items():
        malformed = sum(closing["malformed"].values())
        assert counts["received"] == counts["filtered"] + closing["processed"] + malformed, name
        assert closing["dropped_rows"] == 0
    assert "flows: 312 ended" in everything.summary
    assert not everything.is_interrupted


def test_rows_have_names_and_become_frames(everything: wirelens.Run) -> None:
    table = everything.tables["flows"]
    row = table[0]
    assert row.community_id.startswith("1:") and row.end_reason
    assert table.to_pandas().shape == table.to_polars().shape == (312, len(table.columns))
    assert table.to_arrow().num_rows == len(table) == 312
    assert "312 rows" in repr(everything)


def test_rows_do_not_depend_on_threads() -> None:
    alone = wirelens.run(settings(), threads=1).tables
    several = wirelens.run(settings(), threads=5).tables
    for name, table in alone.items():
        assert table.to_arrow() == several[name].to_arrow(), name


def test_a_replay_gives_the_same_rows() -> None:
    paced = wirelens.run({"flows": {}}, read=DEMO, pace=1000.0).tables["flows"]
    assert list(paced) == list(wirelens.run({"flows": {}}, read=DEMO).tables["flows"])


def test_two_tables_of_one_application_have_names_of_their_own() -> None:
    result = wirelens.run({"top": [{"by": "port"}, {"by": "protocol"}]}, read=DEMO)
    assert list(result.tables) == list(result.closings) == ["top", "top.2"]
    assert "port" in result.tables["top"].columns
    assert "port" not in result.tables["top.2"].columns


def test_counts_of_each_table_are_its_own(tmp_path: Path) -> None:
    """Also where one of two of a name is in a file, and so not in memory."""
    bounded, free = {"by": "flow", "max-keys": 64}, {"by": "protocol"}
    both = wirelens.run({"top": [bounded, free]}, read=DEMO)
    assert both.closings["top"]["beyond_max_keys"] > 0
    for name, table in both.tables.items():
        assert table.counts["beyond_max_keys"] == both.closings[name]["beyond_max_keys"], name
    in_file = bounded | {"output": tmp_path / "top.csv", "force": True}
    for tables in ([in_file, free], [free, in_file]):
        (table,) = wirelens.run({"top": tables}, read=DEMO).tables.values()
        assert "protocol" in table.columns and table.counts["beyond_max_keys"] == 0


def test_rows_lost_to_memory_are_counted_for_their_table(tmp_path: Path) -> None:
    with pytest.raises(wirelens.LossError, match="top: [0-9]+ rows were dropped") as raised:
        tables = [{"output": tmp_path / "top.csv"}, {"by": "flow", "rows": 0}]
        wirelens.run({"top": tables}, read=DEMO, keep_max="1K")
    closings = raised.value.result.closings
    assert closings["top"]["dropped_rows"] == 0 < closings["top.2"]["dropped_rows"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[flows]\nidle-timout = '5s'\n", "{}:2: [flows] has no key `idle-timout`; did you mean"),
        ("[flow]\n", "{}:1: there is no table [flow]; did you mean `flows`?"),
        ("[flows\n", "{}:1: "),
        ("[flows]\nformat = 'csv'\n", "{}:2: [flows] format has no effect without output"),
        ("[flows]\noutput = '{}'\n", "{}:2: [flows] output: "),
        ("[input]\nsnaplen = 'x'\n[flows]\n", "{}:2: [input] snaplen: "),
        ("[classify]\nmodel = 'nothing'\n", "{}:2: [classify] model: "),
    ],
)
def test_a_mistake_in_a_file_has_its_line(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "wirelens.toml"
    path.write_text(text.replace("{}", str(path)))
    with pytest.raises(wirelens.SettingsError) as raised:
        wirelens.run(path, read=DEMO)
    assert str(raised.value).startswith(told.replace("{}", str(path)))


def test_all_mistakes_are_reported_together(tmp_path: Path) -> None:
    with pytest.raises(wirelens.SettingsError) as raised:
        wirelens.run({"flows": {"statistics": True}, "top": {"by": "colour"}}, read=DEMO)
    first, second = str(raised.value).splitlines()
    assert first.startswith("[flows] has no key `statistics`; did you mean `stats`?")
    assert second.startswith("[top] by: ")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"settings": {}}, "no application; wanted: a table such as flows"),
        ({"settings": {"flows": 3}}, "flows: a value of type int; wanted: a dictionary"),
        ({"settings": {"flows": {"stats": b"x"}}}, "[flows] stats: a value of type bytes"),
        ({"read": []}, "read: an empty list"),
        ({"interface": "eth0"}, "read, interface: captures and an interface"),
        ({"duration": "1s"}, "duration has no effect on captures"),
        ({"threads": 0}, "threads: `0`: wanted a number from 1 to 256"),
        ({"threads": 2, "pace": 2.0}, "threads has no effect on a replay"),
        ({"keep_max": "many"}, "keep_max: `many`: wanted a number of bytes"),
        ({"batch_size": 0}, "batch_size: `0`: wanted a number from 1"),
        (
            {"settings": "nowhere.toml"},
            "nowhere.toml: No such file or directory; `wirelens run --init`",
        ),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(wirelens.OptionError) as raised:
        wirelens.run(**{"settings": {"flows": {}}, "read": DEMO} | arguments)
    assert str(raised.value).startswith(told)


def test_inputs_that_cannot_be_read_have_the_usual_errors(tmp_path: Path) -> None:
    with pytest.raises(wirelens.CaptureNotFoundError):
        wirelens.run({"flows": {}}, read=tmp_path / "nothing.pcap")
    with pytest.raises(wirelens.FilterError):
        wirelens.run({"flows": {}, "input": {"filter": "no such"}}, read=DEMO)
    with pytest.raises(wirelens.OptionError, match="would overwrite"):
        wirelens.run({"flows": {"output": DEMO, "format": "csv"}}, read=DEMO)
    cut = tmp_path / "cut.pcapng"
    cut.write_bytes(DEMO.read_bytes()[:-100])
    with pytest.warns(wirelens.DamagedCaptureWarning, match="cut.pcapng"):
        assert len(wirelens.run({"flows": {}}, read=cut).tables["flows"]) > 0


def test_rows_beyond_memory_are_dropped_counted_and_reported() -> None:
    with pytest.raises(wirelens.LossError, match="flows: 312 rows were dropped") as raised:
        wirelens.run({"flows": {}, "top": {}}, read=DEMO, keep_max="20K")
    result = raised.value.result
    assert len(result.tables["flows"]) == 0
    assert result.closings["flows"]["dropped_rows"] == 312
    assert len(result.tables["top"]) == 10


def test_values_of_python_become_toml(tmp_path: Path) -> None:
    """Whatever text a path is, the command reads it."""
    import tomllib

    from wirelens import toml_text

    values = {"a": True, "b": 1, "c": 0.5, "d": 'q"\\\n\u007f\u00e9', "e": [1, 2], "f": {"g": "h"}}
    text = toml_text.tables({"x y": values | {"none": None}, "rule": [{"keep": tmp_path}, {}]})
    read = tomllib.loads(text)
    assert read == {"x y": values, "rule": [{"keep": str(tmp_path)}, {}]}
    assert io.StringIO(text).readline() == '["x y"]\n'


def test_numbers_of_numpy_are_numbers() -> None:
    import tomllib

    import numpy as np
    from wirelens import toml_text

    values = {"a": np.float64(0.5), "c": float("-inf"), "d": [np.float64(1e300)]}
    read = tomllib.loads(toml_text.table(values, "[x]"))
    assert read == {"a": 0.5, "c": float("-inf"), "d": [1e300]}


def test_a_name_that_is_not_unicode_is_refused_as_settings() -> None:
    """Which are text: what the system says of its bytes is no explanation."""
    path = Path(os.fsdecode(b"caf\xe9.pcap"))
    with pytest.raises(wirelens.SettingsError, match="not Unicode"):
        wirelens.run({"input": {"read": path}, "flows": {}})


def test_tables_that_only_the_command_acts_on_are_named() -> None:
    settings = """
    [flows]
    [page]
    listen = "127.0.0.1:0"
    [[alert]]
    name = "resets"
    table = "flows"
    when = 'end_reason == rst'
    """
    with pytest.warns(wirelens.SettingsWarning, match=r"^\[page\], \[\[alert\]\]: not used"):
        wirelens.run(tomllib.loads(settings), read=DEMO)
