"""Slot files: the same numbers as in the captures, and a clear error for what is none."""

import json
import lzma
import random
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from cca_runs import RUN, TAPS
from command import ROOT, Ran, wirelens
from wirelens.cca import packed, windows
from wirelens.cca.intervals import Reading, draw
from wirelens.cca.packed import INPUTS, PASSED, Member, PackedRun, Stretch
from wirelens.cca.runs import find_runs

sys.path.append(str(ROOT / "models"))
import cca_slots

SLOTS = 2000
WANTED = cca_slots.Extent(stretches=2, slots=SLOTS, background_max=2, settled=2000)
RUNS = 3


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Slots of one run under three names."""
    folder = tmp_path_factory.mktemp("slots")
    for name in ("one", "two", "three"):
        shutil.copytree(RUN, folder / "runs" / name)
    runs = [cca_slots.pack(run, WANTED) for run in find_runs([folder / "runs"])]
    packed.write(folder / "train-0.xz", runs)
    return folder / "train-0.xz"


def test_slots_are_those_of_the_captures(file: Path) -> None:
    (run,), kept = find_runs([RUN]), packed.read(file)
    assert [one.path.name for one in kept] == ["one", "three", "two"]
    first = kept[0]
    assert first.rate_mbit == run.rate_mbit and first.members == run.members
    chance = random.Random("one")
    present = run.flows(with_background=True)
    begins = cca_slots.begins(present, WANTED, chance)
    compared = 0
    for begin, stretch in zip(begins, first.stretches, strict=True):
        sums = np.zeros((SLOTS, len(INPUTS)))
        for flow in present:
            sums += cca_slots.values(flow, begin, SLOTS)
        assert (stretch.sums == sums).all()
        for length in (10, 100, 1000):
            starts = [random.Random(length).randint(0, SLOTS - length) for _ in range(5)]
            for own, flow in zip(stretch.flows, present, strict=True):
                seen = windows(
                    flow.before, flow.after, [begin + start for start in starts], length,
                    inputs=INPUTS, passed=PASSED,
                )  # fmt: skip
                for start, wanted in zip(starts, np.asarray(seen.values), strict=True):
                    assert (own[start : start + length] == wanted).all()
                    compared += 1
    assert compared == 2 * 3 * 5 * len(present)


def test_intervals_are_drawn_from_them_with_sums_behind(file: Path) -> None:
    runs = packed.read(file)
    inputs = ("egress_bytes", "cbiq_bytes")
    reading = Reading(500, inputs, passed=PASSED, per_flow=4, with_sums=True)
    (found,) = draw(runs, [reading], 1)
    assert found.values.shape == (4 * RUNS * len(runs[0].kept), 500, 4)
    assert sorted(set(found.controls)) == ["bbr", "cubic", "reno"]
    assert set(found.runs) == {0, 1, 2} and set(found.background) == {0}
    assert (found.values[:, :, 2:] >= found.values[:, :, :2]).all()
    rows = Reading(500, INPUTS, passed=PASSED, per_flow=4, row_slots=10)
    (added,) = draw(runs, [rows], 1)
    assert added.values.shape[1:] == (50, 4)


def test_a_flow_is_read_from_its_span_alone() -> None:
    flows = np.arange(40, dtype=np.int32).reshape(2, 5, 4)
    members = [Member("reno", "measured", 10.0), Member("bbr", "background", 20.0)]
    stretch = Stretch(flows, flows.sum(axis=0), [(1, 4), (5, 5)])
    run = PackedRun(Path("f/one"), 100, 1, members, members, [stretch])
    reading = Reading(3, ("cbiq_bytes",), passed=PASSED, per_flow=9)
    (own, values), (_, none) = run.drawn(reading, random.Random(1), 1)
    assert own.control == "reno" and values.tolist() == [[[4], [8], [12]]]
    assert none.shape == (0, 3, 1)
    assert [member.control for member, _ in run.drawn(reading, random.Random(1), 0)] == ["reno"]


def test_any_whole_numbers_are_kept(tmp_path: Path) -> None:
    chance = np.random.default_rng(1)
    values = chance.integers(0, 30_000_000, (3, 50, 4), dtype=np.int32)
    members = [Member("reno", "measured", 10.0)] * 3
    stretch = Stretch(values, values[0], [(0, 50)] * 3)
    packed.write(tmp_path / "a.xz", [PackedRun(tmp_path / "x", 1, 2, members, members, [stretch])])
    (read,) = packed.read(tmp_path / "a.xz")
    (found,) = read.stretches
    assert (found.flows == values).all() and (found.sums == values[0]).all()
    assert read.path.name == "x" and read.kept == members


@pytest.mark.train
@pytest.mark.parametrize("damage", ["cut", "text", "other", "numbers", "missing"])
def test_what_is_no_slot_file_is_refused(file: Path, tmp_path: Path, damage: str) -> None:
    place, whole = tmp_path / "broken.xz", file.read_bytes()
    line, numbers = lzma.decompress(whole).split(b"\n", 1)
    head = json.loads(line)
    contents = {
        "cut": whole[: len(whole) // 2],
        "text": b"flows\n",
        "other": lzma.compress(json.dumps(head | {"format": "x 1"}).encode() + b"\n" + numbers),
        "numbers": lzma.compress(line + b"\n" + numbers[:-8]),
        "missing": lzma.compress(b"{}\n"),
    }
    place.write_bytes(contents[damage])
    ran = wirelens("eval", "cca", "--model", "cca", "-r", place)
    assert ran.status != 0 and "broken.xz" in ran.stderr and "wanted" in ran.stderr, ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.train
def test_what_a_slot_file_lacks_is_named(file: Path) -> None:
    ran = wirelens("eval", "cca", "--model", "cca", "-r", file, "--share", "10%")
    assert ran.status != 0 and "give captures" in ran.stderr, ran.stderr


@pytest.mark.train
def test_a_model_is_trained_and_evaluated_from_slot_files(file: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    words = ("--levels", "--inputs", "cbiq_bytes,ingress_bytes,egress_bytes", "--threads", "1")
    ran = wirelens(
        "train", "cca", "-r", file, "-o", tmp_path / "m", "--durations", "20ms,200ms", *words, "-q",
        time_max_s=300,
    )  # fmt: skip
    assert ran.status == 0, ran.stderr
    ran = wirelens("eval", "cca", "--model", tmp_path / "m", "-r", file.parent, "-q")
    assert ran.status == 0 and b"| 20 ms |" in ran.stdout, ran.stderr
    ran = wirelens("train", "cca", "-r", file, "-o", tmp_path / "n", "--inputs", "drops", "-q")
    assert ran.status != 0 and "has no drops" in ran.stderr, ran.stderr


@pytest.mark.train
def test_flows_of_other_controls_are_a_class_without_a_name(file: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from wirelens.cca.reading import load

    present = sorted({member.control for run in packed.read(file) for member in run.members})
    first, *rest = present
    model = tmp_path / "m"

    def train(controls: str) -> Ran:
        words = ("--durations", "20ms", "--threads", "1", "--controls", controls, "--force", "-q")
        return wirelens("train", "cca", "-r", file, "-o", model, *words, time_max_s=300)

    ran = train(first)
    assert ran.status == 0, ran.stderr
    assert load(model).controls == sorted([first, "other"])
    card = (model / "card.md").read_text()
    assert f"Identifies {first} from" in card and "is not named" in card
    # Flows of controls that the model does not name are evaluated as well.
    ran = wirelens("eval", "cca", "--model", model, "-r", file, "-q")
    assert ran.status == 0 and b"| other |" in ran.stdout, ran.stderr
    told = wirelens("cca", *TAPS, "--model", model, "--every", "20ms", "--format", "jsonl", "-q")
    rows = [json.loads(line) for line in told.stdout.splitlines()]
    others = [row for row in rows if row["unnamed"] == "other"]
    assert others and all(row["control"] is None for row in others)
    assert all(row["confidence"] >= 0.5 for row in others)
    # What cannot be is said before training.
    for controls, words in (
        ("nothing", f"wanted: some of {', '.join(present)}"),
        (f"{first},{first}", "wanted: each congestion control once"),
        (",".join(present), "wanted: without --controls"),
    ):
        ran = train(controls)
        assert ran.status == 2 and words in ran.stderr, ran.stderr
    assert rest
