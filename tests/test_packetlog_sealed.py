"""The sealed attacks: no tool that another scenario has, and no reading that is not recorded."""

import csv
import importlib.util
import json
import shutil
import sys
import tomllib
from pathlib import Path

import pytest
from command import ROOT

sys.path.insert(0, str(ROOT / "bench/evaluation/packetlog"))

import sealed
from wirelens_testbed.attacks import plan
from wirelens_testbed.scenario import Table

# The self-check of the tools has one of each, and no model is trained or evaluated on it.
OTHERS = sorted(
    path
    for path in sealed.SCENARIOS.glob("attacks*.toml")
    if path != sealed.SEALED and path.stem != "attacks-tools-small"
)
SAMPLE = ROOT / "testdata/testbed/attacks"
MODEL = ROOT / "models/packetlog"
WORDS = ("--asked-by", "a test", "--purpose", "to try it")
LIBRARIES = ("numpy", "sklearn")


@pytest.fixture
def readings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of readings of our own: that of the repository is for real ones."""
    path = tmp_path / "readings.tsv"
    path.write_text("\t".join(sealed.COLUMNS) + "\n")
    monkeypatch.setattr(sealed, "READINGS", path)
    return path


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open() as table:
        return list(csv.DictReader(table, delimiter="\t"))


def sealed_run(folder: Path) -> Path:
    """The sample run, with its scans by nmap under the name of a sealed attack."""
    run = folder / "attacks-sealed/0000"
    shutil.copytree(SAMPLE, run)
    scenario = tomllib.loads((run / "scenario.toml").read_text())
    assert "nmap_syn" in {each["name"] for each in scenario["attack"]}
    (run / "scenario.toml").write_text('kind = "attacks"\n[[attack]]\nname = "masscan_syn"\n')
    return run


def test_sealed_attacks_share_no_tool_with_any_other_scenario() -> None:
    assert {path.stem for path in OTHERS} >= {"attacks-drawn", "attacks-heldout", "attacks-quiet"}
    names = sealed.attack_names(sealed.SEALED)
    for other in OTHERS:
        assert sealed.shared_tools(names, sealed.attack_names(other)) == set(), other.name
    # Nor does any of them run a sealed tool for another end than its packets.
    others = {name for other in OTHERS for name in sealed.attack_names(other)}
    tools = set(plan.tools({"attack": [{"name": name} for name in names]}).values())
    planned = plan.parse(Table({"attack": [{"name": name} for name in sorted(others)]})).planned
    run = {program for each in planned for program in each.attack.programs}
    assert tools & run == set()
    assert len(names) >= 10 and len(tools) >= 8


def test_a_tool_that_two_scenarios_have_is_found() -> None:
    assert sealed.shared_tools({"nmap_ack", "masscan_syn"}, {"nmap_syn"}) == {"nmap"}
    assert sealed.shared_tools({"forged_syn_scan"}, {"forged_syn_flood"}) == set()


def test_attacks_of_few_packets_are_not_those_of_other_scenarios() -> None:
    quiet = sealed.attack_names(sealed.SCENARIOS / "attacks-quiet.toml")
    for path in (*OTHERS, sealed.SEALED):
        if path.stem != "attacks-quiet":
            assert quiet & sealed.attack_names(path) == set(), path.name
    assert len(quiet) >= 4


def test_only_the_script_that_records_reads_the_sealed_runs() -> None:
    found = [
        path
        for path in [*ROOT.glob("bench/**/*"), *ROOT.glob("models/**/*"), ROOT / "Makefile"]
        if path.is_file() and path.suffix in ("", ".py", ".sh", ".toml")
        and "attacks-sealed" in path.read_text(errors="replace")
    ]  # fmt: skip
    assert found == [Path(sealed.__file__)]


def test_each_recorded_reading_says_when_what_and_who() -> None:
    rows = rows_of(ROOT / "bench/evaluation/packetlog/readings.tsv")
    header = (ROOT / "bench/evaluation/packetlog/readings.tsv").read_text().splitlines()[0]
    assert tuple(header.split("\t")) == sealed.COLUMNS
    for row in rows:
        assert None not in row and all(row.values())
        assert len(row["model_sha256"]) == 64 and row["time_utc"].endswith("Z")


def test_a_reading_is_recorded_though_the_evaluation_fails(
    tmp_path: Path, readings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = sealed_run(tmp_path)
    monkeypatch.setattr(sealed, "PYTHON", "false")
    out = tmp_path / "out.md"
    arguments = ["--model", str(MODEL), "-r", str(run.parent), "-o", str(out), *WORDS]
    assert sealed.main(arguments) == 1
    (row,) = rows_of(readings)
    known = (MODEL / "SHA256SUMS").read_text().split()[0]
    assert (row["model"], row["model_sha256"], row["runs"]) == ("packetlog", known, "1")
    assert (row["asked_by"], row["purpose"]) == ("a test", "to try it")
    assert sealed.main(arguments) == 1
    assert len(rows_of(readings)) == 2


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"-r": SAMPLE}, "wanted attacks of attacks-sealed.toml alone"),
        ({"-r": ROOT / "docs"}, "no run of the testbed"),
        ({"--model": ROOT / "docs"}, "no model of the packet log"),
        ({"--asked-by": " "}, "--asked-by is ' ', wanted some words on one line"),
        ({"--purpose": "two\nlines"}, "wanted some words on one line"),
    ],
)
def test_a_reading_that_is_refused_leaves_no_row(
    change: dict[str, Path | str],
    complaint: str,
    tmp_path: Path,
    readings: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = {
        "--model": MODEL, "-r": sealed_run(tmp_path), "--asked-by": "a test", "--purpose": "try",
        "-o": tmp_path / "out.md",
    } | change  # fmt: skip
    assert sealed.main([str(word) for option in options.items() for word in option]) == 2
    assert complaint in capsys.readouterr().err
    assert rows_of(readings) == []


@pytest.mark.train
@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in LIBRARIES),
    reason="not installed: bash tools/setup.sh train",
)
def test_a_reading_is_an_evaluation(tmp_path: Path, readings: Path) -> None:
    run = sealed_run(tmp_path)
    out, table = tmp_path / "out.md", tmp_path / "out.jsonl"
    arguments = ["--model", str(MODEL), "-r", str(run.parent), "-o", str(out), *WORDS]
    assert sealed.main([*arguments, "--", "-q", "--table", str(table)]) == 0
    assert "## Attacks" in out.read_text()
    assert all(json.loads(line) for line in table.read_text().splitlines())
    assert len(rows_of(readings)) == 1
