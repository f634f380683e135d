"""The model of video frame rate that ships: found by name, sealed, and what it says of traffic."""

import csv
import re
import shutil
import tomllib
from pathlib import Path

import pytest
import wirelens as package
from command import DEMO, ROOT, WIDE_DATA, wirelens

MODEL = ROOT / "models/video-rate"
# A call that trained nothing: another run than those of testbed/datasets/calls.toml.
CALL = ROOT / "testdata/testbed/calls"
NAMES = ROOT / "testdata/names.pcap"
UNKNOWN = "unknown"
SECOND_NS = 1_000_000_000
# Seconds in which nothing was lost or retransmitted, and the link was not overrun.
STEADY = slice(2, 11)
# Of windows of other traffic at most so many get a tier.
FOREIGN_MAX = 0.02


def verdicts(*captures: Path, model: Path | str = "video-rate") -> list[dict[str, str]]:
    """A row a window."""
    args = [word for path in captures for word in ("-r", path)]
    ran = wirelens("classify", "-q", *args, "--model", model, "--every", "1s", "--format", "csv")
    assert ran.status == 0, ran.stderr
    return ran.rows


def shown() -> dict[int, float]:
    """Frames that the browser showed, by the start of the second."""
    with (CALL / "receiver.tsv").open() as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))[STEADY]
    seconds = [round(int(row["time_ns"]) / SECOND_NS) * SECOND_NS - SECOND_NS for row in rows]
    return dict(zip(seconds, (float(row["frames_per_second"]) for row in rows), strict=True))


def tier(name: str) -> int:
    """The number of a tier by its name."""
    return int(re.split(r"[-+]", name)[0]) // 3


def test_it_is_found_by_name_and_names_itself() -> None:
    rows = verdicts(CALL / "receiver.pcapng.gz")
    assert len(rows) == 20
    assert {row["model"].partition("@")[0] for row in rows} == {"video-rate"}
    by_path = verdicts(CALL / "receiver.pcapng.gz", model=MODEL)
    assert rows == by_path


def test_the_package_says_the_same() -> None:
    rows = verdicts(CALL / "receiver.pcapng.gz")
    said = package.classify_flows(CALL / "receiver.pcapng.gz", "video-rate", every=1)
    assert [(row.window_start_ns, row.label) for row in said] == [
        (int(row["window_start_ns"]), row["label"]) for row in rows
    ]


def test_it_is_sealed(tmp_path: Path) -> None:
    for name in ("cascade.json", "slow.trees.jsonl"):
        model = tmp_path / name.partition(".")[0]
        shutil.copytree(MODEL, model)
        text = (model / name).read_text(encoding="utf-8")
        (model / name).write_text(text.replace("1", "2", 1), encoding="utf-8")
        ran = wirelens(
            "classify", "-r", CALL / "receiver.pcapng.gz", "--model", model, "--every", "1s"
        )
        assert ran.status != 0 and "was changed after training" in ran.stderr, ran.stderr


def test_steady_seconds_of_a_held_out_call_get_their_tier_or_a_neighbour() -> None:
    said = {
        int(row["window_start_ns"]): row["label"] for row in verdicts(CALL / "receiver.pcapng.gz")
    }
    frames = shown()
    assert len(frames) == 9
    assert all(
        abs(tier(said[start]) - min(int(rate // 3), 10)) <= 1 for start, rate in frames.items()
    )


@pytest.mark.parametrize("capture", [DEMO, NAMES], ids=lambda path: path.stem)
def test_what_is_no_call_is_unknown(capture: Path) -> None:
    rows = verdicts(capture)
    named = [row for row in rows if row["label"] != UNKNOWN]
    assert len(rows) > 30 and len(named) / len(rows) <= FOREIGN_MAX, named


def test_the_first_stage_says_no_unknown() -> None:
    """Of a flow's first window the second before tells nothing."""
    rows = verdicts(DEMO, CALL / "receiver.pcapng.gz")
    assert {row["stage"] for row in rows if row["label"] == UNKNOWN} == {"slow"}


def test_no_stage_reads_an_address_or_a_port() -> None:
    for path in sorted(MODEL.glob("*.trees.jsonl")):
        with path.open(encoding="utf-8") as lines:
            next(lines)
            tests = next(lines)
        assert " is " not in tests and "port" not in tests and "byte_" not in tests, path.name


def test_the_card_says_what_a_stranger_gets() -> None:
    card = (MODEL / "card.md").read_text(encoding="utf-8")
    for heading in ("Held-out calls", "Other traffic", "Stages", "Data", "Limits"):
        assert f"## {heading}\n" in card
    for system in ("majority class", "frames by RTP markers", "this model"):
        assert f"| {system} |" in card
    (near,) = re.findall(r"\| this model \| .*? \| .*? \| (\d+\.\d) % ", card)
    assert float(near) >= 95
    # Each seed of the data is on the card.
    seeds = set(re.findall(r"\| (\d{6,10}) \|", card))
    assert len(seeds) >= 12


def test_every_model_that_ships_travels_in_the_package() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    carried = {entry["path"] for entry in settings["tool"]["maturin"]["include"]}
    for card in (ROOT / "models").glob("*/card.md"):
        assert f"python/wirelens/models/{card.parent.name}/*" in carried, card.parent.name


@pytest.mark.wide
def test_few_windows_of_homes_get_a_tier() -> None:
    """Devices of other places, which trained nothing."""
    captures = sorted((WIDE_DATA / "devices/sentinel").glob("*/*.pcap"))[:60]
    rows = verdicts(*captures)
    named = sum(row["label"] != UNKNOWN for row in rows)
    assert len(rows) > 2_000 and named / len(rows) <= FOREIGN_MAX
