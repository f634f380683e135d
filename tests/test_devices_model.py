"""The model of devices that ships: what its card says, and what comes of it in another home."""

import re
import sys
from collections import Counter
from pathlib import Path

import pytest
from command import ROOT, WIDE_DATA, wirelens

sys.path.insert(0, str(ROOT / "bench/evaluation/classify"))
from rewrite import rewrite  # noqa: E402

MODEL = ROOT / "models/devices"
SENTINEL = WIDE_DATA / "devices/sentinel"
# Of the flows of a foreign home at most so many get a name.
FOREIGN_MAX = 0.1
FOREIGN = "sprout-uci__monitoring_2023-6-13_1[19]_*.cap"


def labels(*captures: Path) -> Counter[str]:
    """How many flows have which label."""
    args = [word for path in captures for word in ("-r", path)]
    found = wirelens("classify", "-q", *args, "--model", MODEL, "--format", "csv")
    assert found.status == 0, found.stderr
    return Counter(row["label"] for row in found.rows)


def test_no_stage_reads_what_names_a_unit() -> None:
    for path in sorted(MODEL.glob("*.trees.jsonl")):
        with path.open(encoding="utf-8") as lines:
            assert '"identity":"masked"' in next(lines), path.name


def test_the_card_says_what_a_stranger_gets() -> None:
    card = (MODEL / "card.md").read_text(encoding="utf-8")
    assert re.search("## (Strangers'|Held-out) traffic\n", card) and "without identity" in card
    named, right = re.findall(r"\| this cascade \| (0\.\d+) .*?\| (0\.\d+) ", card)[0]
    assert float(named) >= 0.88 and float(right) >= 0.98


@pytest.mark.wide
def test_few_flows_of_a_foreign_home_get_a_name() -> None:
    found = labels(*sorted((WIDE_DATA / "devices/madea").glob(FOREIGN)))
    assert found.total() > 300
    assert 1 - found["unknown"] / found.total() <= FOREIGN_MAX


@pytest.mark.wide
def test_the_same_set_ups_in_another_home_get_the_same_names(tmp_path: Path) -> None:
    named = total = 0
    for folder in sorted(SENTINEL.iterdir()):
        source = min(folder.glob("*.pcap"))
        other = tmp_path / f"{folder.name}.pcap"
        rewrite(source, other, 11)
        plain, elsewhere = labels(source), labels(other)
        assert plain == elsewhere, folder.name
        named += plain.total() - plain["unknown"]
        total += plain.total()
    assert named / total >= 0.85
