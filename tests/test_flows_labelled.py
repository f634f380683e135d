"""`flows --model --stats`: one flow, its statistics and its label in one row."""

from pathlib import Path

import pytest
from command import DEMO, WIDE_DATA, wirelens

LABELS = ("label", "confidence", "guess", "guess_confidence", "stage", "packets_used", "model")
# Time-outs of the models that ship; flows are ended by them.
TIMEOUTS = ("--idle-timeout", "120s", "--active-timeout", "1800s")


def rows_of(*arguments: str | Path) -> list[dict[str, str]]:
    ran = wirelens("flows", "-q", "--format", "csv", *arguments)
    assert ran.status == 0, ran.stderr
    return ran.rows


def check(*source: str | Path, model: str) -> int:
    both = rows_of(*source, "--stats", "--model", model)
    labelled = rows_of(*source, "--model", model)
    statistics = rows_of(*source, "--stats", *TIMEOUTS)
    assert [{name: row[name] for name in labelled[0]} for row in both] == labelled
    without = [{name: value for name, value in row.items() if name not in LABELS} for row in both]
    assert without == statistics
    return len(both)


@pytest.mark.parametrize("model", ["services", "devices"])
def test_labels_and_statistics_are_those_of_each_alone(model: str, tmp_path: Path) -> None:
    assert check("-r", DEMO, model=model) > 300
    (tmp_path / "demo.pcapng").symlink_to(DEMO)
    assert check("-r", tmp_path, model=model) > 300


def test_columns_stand_in_one_order() -> None:
    names = list(rows_of("-r", DEMO, "--stats", "--model", "services")[0])
    assert names[0] == "community_id" and len(names) == 75
    assert names.index("both_size_min") < names.index("dst_cwr_packets") < names.index("label")


def test_windows_and_other_names_are_refused_with_a_model() -> None:
    for option in (("--window", "1s"), ("--names", "nfstream"), ("--idle-timeout", "9s")):
        ran = wirelens("flows", "-r", DEMO, "--model", "services", "--format", "csv", *option)
        assert ran.status == 2 and option[0] in ran.stderr, ran.stderr


@pytest.mark.wide
def test_captures_of_other_places_agree() -> None:
    captures = sorted((WIDE_DATA / "services").glob("*.pcap*"))[::9]
    assert captures
    assert sum(check("-r", capture, model="services") for capture in captures) > 500
