"""Congestion controls: networks are trained, and serving finds what training found."""

import csv
import json
import re
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from cca_runs import RUN, TAPS, three_runs
from command import Ran, wirelens
from sealing import seal

pytestmark = pytest.mark.train

SLOTS, EVERY_NS = 200, 500_000_000


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return three_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def model(runs: Path) -> Path:
    folder = runs.parent / "model"
    options = ("--durations", "200ms", "--per-flow", "40", "--threads", "1", "-q")
    ran = wirelens("train", "cca", "-r", runs, "-o", folder, *options, time_max_s=300)
    assert ran.status == 0, ran.stderr
    # Three flows of three controls, and intervals that all have seen.
    told = re.search(r"F1 on the validation runs .*?(\d\.\d+)", ran.stdout.decode())
    assert told, ran.stdout
    f1 = float(told[1])
    assert f1 > 0.9, ran.stdout
    return folder


def told(model: Path, every: str = "500ms", *more: str) -> list[dict]:
    words = ("--model", model, "--every", every, "--format", "jsonl", "-q", *more)
    ran = wirelens("cca", *TAPS, *words)
    assert ran.status == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_serving_finds_what_training_found(model: Path) -> None:
    from wirelens.cca import tap_slots, windows
    from wirelens.cca.model import together
    from wirelens.cca.reading import load
    from wirelens.learn.metrics import softmax

    read = load(model)
    network = read.networks[0]
    assert network.slots == SLOTS and read.voting is not None
    # Of two runs one was held out, so that not even 0.99 can be claimed.
    assert read.confidence_max is not None and 0.5 < read.confidence_max < 0.99
    assert read.trained_on is not None and list(read.trained_on["rate_bit"]) == [20e6, 20e6]
    before, after = tap_slots([TAPS[1], TAPS[3]])
    rows = [row for row in told(model) if row["control"] is not None]
    assert len(rows) > 10
    for row in rows:
        (way,) = (way for way in before if way.src_port == row["src_port"])
        end = (row["start_ns"] + EVERY_NS) // 1_000_000
        # As many intervals as were known, one after the other, vote.
        count = round(row["interval_s"] / 0.2)
        assert row["interval_s"] == pytest.approx(0.2 * count) and count >= 1
        # They begin at multiples of their length, but for one that stands alone.
        lasts = {end // SLOTS * SLOTS} | ({end} if count == 1 else set())
        found = []
        for last in sorted(lasts):
            starts = [last - SLOTS * back for back in range(count, 0, -1)]
            seen = windows(before[way], after[way], starts, SLOTS, passed="highest")
            assert seen.missing == (None,) * count
            values = np.asarray(seen.values).reshape(1, count * SLOTS, -1)
            probabilities = softmax(together(network, values) * read.voting.worth(count))[0]
            sure = min(probabilities.max(), read.confidence_max)
            found.append((read.controls[probabilities.argmax()], sure))
        close = pytest.approx(row["confidence"], abs=1e-4)
        assert any(name == row["control"] and sure == close for name, sure in found), (row, found)
    assert max(row["interval_s"] for row in rows) >= 1


def test_the_table_says_who_fills_the_queue(model: Path) -> None:
    ran = wirelens("cca", *TAPS, "--model", model, "-q")
    assert ran.status == 0, ran.stderr
    assert "queue by congestion control: bbr" in ran.stdout.decode()


def test_runs_are_judged_beside_guessing(model: Path, runs: Path) -> None:
    ran = wirelens("eval", "cca", "--model", model, "-r", runs, "--per-flow", "10", "-q")
    assert ran.status == 0, ran.stderr
    cells = [cell.strip() for cell in ran.stdout.decode().splitlines()[2].split("|")]
    assert cells[1] == "200 ms" and float(cells[3]) > 0.9 and float(cells[-2]) < 0.3


def test_flows_of_which_few_packets_are_seen_take_a_model_that_knows_it(
    model: Path, runs: Path, tmp_path: Path
) -> None:
    options = ("--durations", "200ms", "--per-flow", "40", "--threads", "1", "--shares", "1,20%")
    ran = wirelens("train", "cca", "-r", runs, "-o", tmp_path / "some", *options, time_max_s=300)
    assert ran.status == 0, ran.stderr

    def f1(model: Path) -> float:
        words = ("-r", runs, "--per-flow", "20", "--share", "20%", "-q")
        judged = wirelens("eval", "cca", "--model", model, *words)
        assert judged.status == 0, judged.stderr
        return float(judged.stdout.decode().splitlines()[2].split("|")[3])

    assert f1(tmp_path / "some") > max(0.8, f1(model))
    rows = told(tmp_path / "some", "500ms", "--sample", "0.2")
    named = [row for row in rows if row["control"]]
    with (RUN / "flows.tsv").open() as file:
        controls = {row["src_ip"]: row["label"] for row in csv.DictReader(file, delimiter="\t")}
    right = [row for row in named if row["control"] == controls[row["src_ip"]]]
    for known, is_said in ((model, True), (tmp_path / "some", False)):
        ran = wirelens("cca", *TAPS, "--model", known, "--sample", "0.2")
        assert ran.status == 0 and ("--shares" in ran.stderr) == is_said, ran.stderr
    # A third would be chance; how flows begin is in there, which nothing was trained on.
    assert len(named) > 10 and len(right) > 0.6 * len(named), rows


def changed(model: Path, tmp_path: Path, **said: object) -> Ran:
    content = (model / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    own = json.loads(header["__metadata__"]["wirelens"])
    header["__metadata__"]["wirelens"] = json.dumps(own | said)
    text = json.dumps(header).encode()
    folder = tmp_path / "changed"
    folder.mkdir(exist_ok=True)
    (folder / "model.safetensors").write_bytes(
        struct.pack("<Q", len(text)) + text + content[8 + length :]
    )
    seal(folder)
    return wirelens("cca", *TAPS, "--model", folder, "-q")


def test_a_model_that_cannot_be_says_why(model: Path, tmp_path: Path) -> None:
    for words, said in {
        "wirelens-cca 1": {"format": "wirelens-cca 2"},
        "is none that there is": {"inputs": ["queue", "ingress_bytes"]},
        "wanted: one for each score": {"controls": ["reno"]},
        "first or highest": {"passed": "last"},
        "--slot": {"slot_ns": 2_000_000},
    }.items():
        ran = changed(model, tmp_path, **said)
        assert ran.status in (1, 2) and words in ran.stderr, ran.stderr
    ran = wirelens("cca", *TAPS, "--model", tmp_path)
    assert ran.status == 1 and "train cca" in ran.stderr
    (tmp_path / "model.safetensors").write_bytes(b"no model")
    seal(tmp_path)
    ran = wirelens("cca", *TAPS, "--model", tmp_path)
    assert ran.status == 1 and "wanted: a model" in ran.stderr


def test_longer_intervals_vote_beside_those_that_make_them(runs: Path, tmp_path: Path) -> None:
    from wirelens.cca import tap_slots, windows
    from wirelens.cca.reading import load
    from wirelens.learn.metrics import softmax

    options = ("--slot", "1ms", "--durations", "100ms,1200ms", "--per-flow", "30", "-q")
    ran = wirelens("train", "cca", "-r", runs, "-o", tmp_path / "both", *options, time_max_s=300)
    assert ran.status == 0, ran.stderr
    model = load(tmp_path / "both")
    assert [network.row_slots for network in model.networks] == [1, 2]
    card = (tmp_path / "both/card.md").read_text()
    assert "those of 1200 ms, in rows of 2 ms" in card
    # No runs are held out of all of training here, and the card says so in place of a figure.
    assert "This card has no F1: no held-out runs were given." in card
    assert "wirelens eval cca" in card
    assert not re.search(r"\b0\.\d{3}\b", card)
    before, after = tap_slots([TAPS[1], TAPS[3]])
    compared = 0
    for row in told(tmp_path / "both", "100ms"):
        count = round((row["interval_s"] or 0) / 0.1)
        if row["start_ns"] // 100_000_000 % 10 or count < 12:
            continue
        (way,) = (way for way in before if way.src_port == row["src_port"])
        end = (row["start_ns"] + 100_000_000) // 1_000_000 // 100 * 100
        # As they were read, window by window.
        starts = [end - 100 * back for back in range(count, 0, -1)]
        seen = windows(before[way], after[way], starts, 100, passed="highest")
        values = np.asarray(seen.values).reshape(1, count * 100, -1)
        sure = softmax(model.voted(values))[0].max()
        # No answer is surer than the runs that ended training allow.
        assert row["confidence"] == pytest.approx(min(sure, model.confidence_max), abs=1e-4), row
        compared += 1
    assert compared >= 3


def test_how_short_intervals_count_together_does_not_depend_on_longer_ones(
    runs: Path, tmp_path: Path
) -> None:
    from wirelens.cca.reading import load

    # 1200 slots in rows of two are as many rows as 600 slots.
    found = []
    for durations in ("20ms,600ms", "20ms,600ms,1200ms"):
        folder = tmp_path / durations
        options = ("--durations", durations, "--per-flow", "10", "--threads", "1", "-q")
        ran = wirelens("train", "cca", "-r", runs, "-o", folder, *options, time_max_s=300)
        assert ran.status == 0, ran.stderr
        short, *_ = load(folder).networks
        found.append((short.slots, short.temperature, short.correlation))
    assert found[0] == found[1], found


def test_too_little_to_train_on_is_named(runs: Path, tmp_path: Path) -> None:
    for words, arguments in {
        "at least two": ("-r", runs / "one"),
        "no flow is that long": ("-r", runs, "--slot", "10ms", "--durations", "9s"),
        "beside others": ("-r", runs, "--durations", "9s"),
        "a whole number of times": ("-r", runs, "--durations", "200ms,3s"),
        "up to --votes 5": ("-r", runs, "--durations", "200ms,2s", "--votes", "5"),
        "10 or more": ("-r", runs, "--durations", "5ms"),
        "15.5 slots of 1ms": ("-r", runs, "--durations", "15500us"),
        "one length twice": ("-r", runs, "--durations", "100ms,0.1s"),
        "argument --durations: '10'": ("-r", runs, "--durations", "10"),
        "argument --durations: ''": ("-r", runs, "--durations", ""),
        "argument --slot: '0ms'": ("-r", runs, "--slot", "0ms"),
        "--inputs 'queue'": ("-r", runs, "--inputs", "queue"),
        "--inputs ''": ("-r", runs, "--inputs", ""),
        "cbiq_bytes twice": ("-r", runs, "--inputs", "cbiq_bytes,cbiq_bytes"),
        "not a run of a congestion": ("-r", tmp_path),
        "one is in -r as well": ("-r", runs, "--evaluate", runs / "one"),
    }.items():
        ran = wirelens("train", "cca", "-o", tmp_path / "model", "-q", *arguments)
        assert ran.status in (1, 2) and words in ran.stderr, ran.stderr


def test_an_evaluation_of_nothing_is_no_table(model: Path, runs: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(next(runs.iterdir()), run)
    head, *_ = (run / "flows.tsv").read_text().splitlines()
    (run / "flows.tsv").write_text(f"{head}\n")
    ran = wirelens("eval", "cca", "--model", model, "-r", run, "-q")
    assert ran.status == 2 and "long enough" in ran.stderr and not ran.stdout, ran.stderr


def test_a_flow_is_named_once_it_is_known_for_long_enough(model: Path) -> None:
    rows = told(model, "100ms")
    first = min(row["start_ns"] for row in rows)
    early = [row for row in rows if row["start_ns"] == first]
    assert early and all(row["confidence"] is None for row in early)
    assert all(row["confidence"] for row in rows if row["start_ns"] > first + 300_000_000)
