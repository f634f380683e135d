"""Rules of `wirelens run` by which flows are classified again at a later stage of the model."""

import csv
from pathlib import Path

import pytest
from command import ROOT
from run_settings import Settings, run, written
from sealing import forgetting

DEMO = ROOT / "testdata/demo.pcapng"
UNKNOWN_AGAIN: dict[str, object] = {"device": "unknown", "classify-again": True}


def devices(folder: Path) -> Settings:
    """By a model that remembers no host: else what is classified again changes what follows."""
    model = forgetting(ROOT / "models/devices", folder)
    return {
        "input": {"read": DEMO},
        "classify": {"model": model, "output": folder / "devices.csv", "force": True},
    }


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.open()))


def flow_of(row: dict[str, str]) -> tuple[str, str]:
    return row["community_id"], row["first_ns"]


@pytest.mark.parametrize("threads", [1, 2])
def test_flows_of_unknown_devices_are_classified_again_at_five_packets(
    tmp_path: Path, threads: int
) -> None:
    ran = run(tmp_path, written(devices(tmp_path)), "-q", "--threads", str(threads))
    assert ran.status == 0, ran.stderr
    before = {flow_of(row): row for row in rows(tmp_path / "devices.csv")}
    again = run(tmp_path, written(devices(tmp_path), [UNKNOWN_AGAIN]), "--threads", str(threads))
    assert again.status == 0, again.stderr
    after = {flow_of(row): row for row in rows(tmp_path / "devices.csv")}
    assert before.keys() == after.keys()
    early = {
        flow
        for flow, row in before.items()
        if (row["label"], row["cause"]) == ("unknown", "confident")
    }
    assert len(early) > 30
    assert f"classify: {len(early)} flows were classified again" in again.stderr
    for flow, row in after.items():
        if flow not in early:
            assert row == before[flow]
        else:
            assert row["stage"] == "slow"
            assert int(row["packets_used"]) == 5 or row["cause"] in ("ended", "waited")
    assert any(int(after[flow]["packets_used"]) == 5 for flow in early)


def test_the_first_label_holds_until_the_second_is_there(tmp_path: Path) -> None:
    """Packets 2 to 5 are stored by what the first stage said of their flow: with a rule about
    unknown devices nearly as many are stored as where nothing is classified again: a flow that
    gets a name at its fifth packet is stored up to there. All have one seed: where two hosts share
    a cell of the log's sketch depends on it."""
    keep: dict[str, object] = {"device": "unknown", "keep": "full"}
    stored = {}
    for name, rules in (("none", []), ("plain", [keep]), ("again", [UNKNOWN_AGAIN, keep])):
        tables = devices(tmp_path)
        tables["run"] = {"seed": 1}
        tables["packetlog"] = {"output": tmp_path / name, "mode": "log-minimum"}
        ran = run(tmp_path, written(tables, rules))
        assert ran.status == 0, ran.stderr
        assert (" were classified again" in ran.stderr) == (name == "again")
        line = next(line for line in ran.stderr.splitlines() if " seen = " in line)
        stored[name] = int(line.partition(" = ")[2].partition(" stored")[0])
    assert {row["label"] for row in rows(tmp_path / "devices.csv")} >= {"unknown"}
    assert stored["plain"] - 5 <= stored["again"] <= stored["plain"]
    assert stored["none"] != stored["plain"]


@pytest.mark.parametrize(
    ("tables", "rule", "reported"),
    [
        ({}, {"device": "unknown"}, "or classify-again = true"),
        ({}, {"device": "unknown", "classify-again": False}, "has no action"),
        ({}, {"device": "icmp", "classify-again": True}, "without a model"),
        ({}, {"bytes": "1M", "classify-again": True}, "a rule about service or device"),
    ],
)
def test_what_cannot_be_classified_again_is_refused(
    tmp_path: Path, tables: Settings, rule: dict[str, object], reported: str
) -> None:
    ran = run(tmp_path, written(devices(tmp_path) | tables, [rule]), "--check")
    assert ran.status == 2
    assert reported in ran.stderr and f"{tmp_path}/wirelens.toml:" in ran.stderr


def test_a_class_and_a_missing_class_of_one_word_are_both_meant(tmp_path: Path) -> None:
    """The model `devices` has a class `unknown`, and calls flows unknown that it is unsure of."""
    tables = devices(tmp_path)
    tables["packetlog"] = {"output": tmp_path / "log", "mode": "log-minimum"}
    ran = run(tmp_path, written(tables, [{"device": "unknown", "keep": "none"}]))
    assert ran.status == 0, ran.stderr
    kept = next(line for line in ran.stderr.splitlines() if " seen = " in line)
    every = run(tmp_path, written(tables | {"packetlog": {"output": tmp_path / "b"}}))
    assert kept not in every.stderr
