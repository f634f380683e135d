"""`wirelens run` with two taps of captures: rows are those of the single commands, other
applications count one tap, and settings that make no sense are explained."""

import csv
import gzip
import re
import subprocess
from pathlib import Path

import pytest
from command import ROOT, Ran, wirelens
from run_settings import SEED, run, written

RUN = ROOT / "testdata/testbed/congestion"
BEFORE, AFTER = RUN / "before.pcapng.gz", RUN / "after.pcapng.gz"

Table = dict[str, object]
Tables = dict[str, Table]

# Settings of cca, and the same as options.
CCA: dict[str, tuple[Table, tuple[str, ...]]] = {
    "plain": ({}, ()),
    "all rows": ({"every": "100ms", "rows": 0}, ("--every", "100ms", "-n", "0")),
    "model": ({"model": "cca", "every": "500ms"}, ("--model", "cca", "--every", "500ms")),
    "sample": ({"sample": 0.5, "rows": 3}, ("--sample", "0.5", "-n", "3")),
    "first": ({"passed": "first", "slot": "2ms"}, ("--passed", "first", "--slot", "2ms")),
    "offset": ({"egress-offset": "-3ms"}, ("--egress-offset", "-3ms")),
    "few flows": ({"max-flows": 2}, ("--max-flows", "2")),
}  # fmt: skip


def tables(folder: Path, cca: Table, egress: object = AFTER) -> Tables:
    """Three applications, of which one looks at two taps."""
    return {
        "input": {"read": BEFORE},
        "run": {"seed": SEED},
        "top": {"by": "flow", "rows": 0, "window": "1s", "output": folder / "top.csv"},
        "flows": {"stats": True, "output": folder / "flows.csv"},
        "cca": {"egress": egress, "output": folder / "cca.csv"} | cca,
    }


def command_rows(*words: str | Path) -> bytes:
    ran = wirelens(*words, "-q", "--format", "csv", "--seed", str(SEED))
    assert ran.status == 0, ran.stderr
    return ran.stdout


def rows_of_run(folder: Path, asked: Tables, *words: str) -> tuple[Ran, dict[str, bytes]]:
    ran = run(folder, written(asked), *words)
    found = {path.stem: path.read_bytes() for path in folder.glob("*.csv")}
    for path in folder.glob("*.csv"):
        path.unlink()
    return ran, found


@pytest.mark.parametrize("kind", CCA)
def test_rows_of_two_taps_are_those_of_the_commands(tmp_path: Path, kind: str) -> None:
    settings, options = CCA[kind]
    wanted = {
        "cca": command_rows("cca", "-r", BEFORE, "--egress", AFTER, *options),
        "flows": command_rows("flows", "-r", BEFORE, "--stats"),
        "top": command_rows("top", "-r", BEFORE, "--by", "flow", "-n", "0", "--window", "1s"),
    }
    assert wanted["cca"].count(b"\n") > 3
    for threads in ("1", "2", "5"):
        ran, found = rows_of_run(tmp_path, tables(tmp_path, settings), "--threads", threads)
        assert ran.status == 0, ran.stderr
        differ = [name for name in wanted if found[name] != wanted[name]]
        assert not differ, (threads, differ)


def test_every_packet_of_both_taps_is_accounted_for(tmp_path: Path) -> None:
    ran, _ = rows_of_run(tmp_path, tables(tmp_path, {}))
    of_command = wirelens("cca", "-r", BEFORE, "--egress", AFTER, "--format", "csv").stderr
    said = [line for line in of_command.splitlines() if " received = " in line]
    assert len(said) == 2 and said[0] != said[1]
    lines = ran.stderr.splitlines()
    assert [line for line in lines if line.startswith("cca: ") and " received = " in line] == said
    # Others count the tap upstream of the queue alone.
    upstream = said[0].removeprefix("cca: ").split()[0]
    assert f"flows: {upstream} received" in ran.stderr, ran.stderr
    assert str(AFTER) in ran.stderr


def test_other_rows_are_the_same_with_and_without_the_downstream_tap(tmp_path: Path) -> None:
    asked = tables(tmp_path, {})
    _, two = rows_of_run(tmp_path, asked)
    del asked["cca"]
    _, none = rows_of_run(tmp_path, asked)
    assert none == {name: rows for name, rows in two.items() if name != "cca"}


def test_clocks_that_differ_are_corrected_and_reported(tmp_path: Path) -> None:
    """The downstream tap's stamps are an hour behind."""
    late = tmp_path / "late.pcap"
    shifted(AFTER, late, -3600)
    ran, found = rows_of_run(tmp_path, tables(tmp_path, {}, late), "--threads", "2")
    assert ran.status == 0 and "clocks differ; +3" in ran.stderr, ran.stderr
    assert found["cca"] == command_rows("cca", "-r", BEFORE, "--egress", late)


def shifted(capture: Path, to: Path, seconds: int) -> None:
    command = ["editcap", "-F", "nsecpcap", "-t", str(seconds), capture, to]
    subprocess.run(command, check=True, timeout=60, capture_output=True)


def test_taps_of_several_captures_are_read_in_order_of_time(tmp_path: Path) -> None:
    """The downstream tap as a folder of rotated files, and as a list."""
    folder = tmp_path / "after"
    folder.mkdir()
    command = ["editcap", "-c", "2000", AFTER, folder / "part.pcapng"]
    subprocess.run(command, check=True, timeout=60, capture_output=True)
    parts = sorted(folder.iterdir())
    assert len(parts) > 2
    wanted = command_rows("cca", "-r", BEFORE, "--egress", AFTER)
    for egress in (folder, parts[::-1]):
        ran, found = rows_of_run(tmp_path, tables(tmp_path, {}, egress))
        assert ran.status == 0, ran.stderr
        assert found["cca"] == wanted


def test_a_damaged_downstream_tap_ends_with_the_status_of_damage(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcapng"
    content = gzip.decompress(AFTER.read_bytes())
    cut.write_bytes(content[: len(content) // 2])
    single = wirelens("cca", "-r", BEFORE, "--egress", cut, "--format", "csv", "-q")
    ran, found = rows_of_run(tmp_path, tables(tmp_path, {}, cut))
    assert ran.status == single.status == 3, ran.stderr
    assert "cut.pcapng" in ran.stderr
    assert found["cca"] == single.stdout
    assert found["flows"] == command_rows("flows", "-r", BEFORE, "--stats")


MISTAKES: dict[str, tuple[Tables, str, str]] = {
    "nothing there": ({"cca": {"egress": "nowhere.pcap"}}, "egress", "no such file"),
    "the same capture": ({"cca": {"egress": BEFORE}}, "egress", "upstream of the queue as well"),
    "no capture": ({"cca": {"egress": __file__}}, "egress", "which is not a capture"),
    "an interface": ({"cca": {"egress": "lo"}}, "egress", "is an interface"),
    "standard input twice": (
        {"input": {"read": "-"}, "cca": {"egress": "-"}}, "egress", "only once",
    ),
    "an interface with captures": (
        {"input": {"interface": "lo"}, "cca": {"egress": AFTER}}, "egress", "is a file",
    ),
    "two interfaces downstream": (
        {"input": {"interface": "lo"}, "cca": {"egress": ["a0", "b0"]}}, "egress", "one interface",
    ),
    "one interface for both": (
        {"input": {"interface": "lo"}, "cca": {"egress": "lo"}}, "egress", "xmit:lo",
    ),
    "an upstream interface of captures": ({"cca": {"ingress": "lo"}}, "ingress", "no effect"),
    "a share of one tap": ({"cca": {"sample": 0.5, "egress": []}}, "sample", "no effect"),
    "an offset of interfaces": (
        {"input": {"interface": "lo"}, "cca": {"egress": "a0", "egress-offset": "1ms"}},
        "egress-offset", "no effect",
    ),
    "packets of captures": ({"cca": {"each-packet": True}}, "each-packet", "no effect"),
    "uneven periods": ({"cca": {"every": "3ms", "slot": "2ms"}}, "every", "not a whole number"),
    "a model of one slot": ({"cca": {"model": "cca", "slot": "2ms"}}, "model", "trained on"),
}  # fmt: skip


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_is_explained_with_its_line(tmp_path: Path, kind: str) -> None:
    changes, key, wanted = MISTAKES[kind]
    asked = tables(tmp_path, {})
    for name, change in changes.items():
        asked[name] = change if name == "input" else asked[name] | change
    text = written(asked)
    ran = run(tmp_path, text, "--check")
    assert ran.status == 2 and wanted in ran.stderr, ran.stderr
    number = 1 + next(at for at, line in enumerate(text.splitlines()) if line.startswith(f"{key} "))
    assert f"wirelens.toml:{number}: [cca] {key}: " in ran.stderr, ran.stderr
    assert not list(tmp_path.glob("*.csv*"))


def test_rules_do_not_choose_flows_of_two_taps(tmp_path: Path) -> None:
    ran = run(tmp_path, written(tables(tmp_path, {}), [{"bytes": "1M", "cca": True}]), "--check")
    assert ran.status == 2, ran.stderr
    assert "[[rule]] cca: two taps of captures report all" in ran.stderr, ran.stderr


def test_rows_do_not_take_the_place_of_the_downstream_tap(tmp_path: Path) -> None:
    after = tmp_path / "after.csv"
    after.write_bytes(AFTER.read_bytes())
    asked = tables(tmp_path, {}, after)
    asked["flows"] |= {"output": after, "force": True}
    ran = run(tmp_path, written(asked), "--check")
    assert ran.status == 2 and "would overwrite" in ran.stderr, ran.stderr
    assert after.read_bytes() == AFTER.read_bytes()


def test_a_check_reads_nothing(tmp_path: Path) -> None:
    ran = run(tmp_path, written(tables(tmp_path, {})), "--check")
    assert ran.status == 0 and "valid: top, flows, cca" in ran.stderr, ran.stderr
    assert not list(tmp_path.glob("*.csv*"))


def test_one_tap_has_the_columns_of_one_tap(tmp_path: Path) -> None:
    asked = tables(tmp_path, {})
    del asked["cca"]["egress"]
    _, found = rows_of_run(tmp_path, asked)
    names = next(csv.reader(found["cca"].decode().splitlines()))
    assert "cbiq_bytes" not in names
    assert found["cca"] == command_rows("cca", "-r", BEFORE)


def test_settings_of_the_guide_are_taken(tmp_path: Path) -> None:
    guide = (ROOT / "docs/guide/run.md").read_text()
    [block] = [
        block for block in re.findall(r"```toml\n(.*?)```", guide, re.DOTALL) if "after" in block
    ]
    text = block.replace("before.pcapng", str(BEFORE)).replace("after.pcapng", str(AFTER))
    ran = run(tmp_path, re.sub(r'"(\w+\.parquet)"', rf'"{tmp_path}/\1"', text), "-q")
    assert ran.status == 0, ran.stderr
    assert {path.name for path in tmp_path.glob("*.parquet")} == {"flows.parquet", "cca.parquet"}
