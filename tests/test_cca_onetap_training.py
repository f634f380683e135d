"""Congestion controls at one tap: row files, levels, training and evaluation."""

import json
import lzma
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from captures import write_pcap
from command import ROOT, wirelens
from test_cca_onetap import RECEIVER, SENDER, segment
from wirelens import OptionError
from wirelens.learn.metrics import softmax
from wirelens.learn.progress import Progress

pytestmark = pytest.mark.train

ROWS = ROOT / "testbed/data/onetap/ns3/rows-0.xz"
QUICK = ("--taps", "1", "--filters", "8", "--epochs", "2", "--threads", "1", "-q")


@pytest.fixture(scope="module", autouse=True)
def _networks() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few of the runs that trained the model that ships."""
    from wirelens.cca.onetap import rows, splits
    from wirelens.cca.onetap.captures import DataSet

    long = [run for run in rows.read(ROWS) if any(len(one.values) >= 512 for one in run.series)]
    split = splits.split_of([DataSet("long", long)])
    path = tmp_path_factory.mktemp("kept") / "rows.xz"
    rows.write(path, [*split.train[:8], *split.validation[:3], *split.held_out["long"][:3]])
    return path


def runs_of(control_of: Any, count: int = 40, rows: int = 520) -> list[Any]:
    """Runs of one flow at one tap, whose control is `control_of` their number: a flow of "saw"
    halves what is in flight every 40 rows, one of "flat" keeps it."""
    from wirelens.cca.onetap.rows import Run, Series

    dice = np.random.default_rng(1)
    found = []
    for number in range(count):
        control, packets = control_of(number), dice.uniform(20, 40)
        turn = (np.arange(rows) + dice.integers(40)) % 40 / 40
        flight = packets * 1448 * ((1 + turn) / 2 if control == "saw" else np.ones(rows))
        flight *= dice.uniform(0.97, 1.03, rows)
        values = np.stack([flight, flight / 4, flight / 4, 0 * flight, 0.05 + 0 * flight], axis=1)
        series = Series(control, "tap", 0, 0.0125, values.astype(np.float32))
        found.append(Run(str(number), {"rate_bps": 10_000_000}, [series]))
    return found


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, kept: Path) -> Path:
    folder = tmp_path_factory.mktemp("onetap") / "model"
    ran = wirelens("train", "cca", "-r", kept, "-o", folder, *QUICK, time_max_s=120)
    assert ran.status == 0, ran.stderr
    assert re.search(r"held-out runs \d\.\d+ of 256 rows of rows, \d\.\d+ of 512", str(ran.stdout))
    return folder


def metadata(folder: Path) -> dict[str, Any]:
    from safetensors import safe_open

    with safe_open(folder / "model.safetensors", "numpy") as file:
        said: dict[str, Any] = json.loads(file.metadata()["wirelens"])
    return said


def test_a_model_says_what_it_reads_and_what_it_was_trained_on(model: Path) -> None:
    said = metadata(model)
    inputs = ["flight_max_bytes", "sent_bytes", "acked_bytes", "resent_packets", "path_rtt_s"]
    assert said["inputs"] == inputs and said["levels"] is True
    assert said["rows_per_rtt"] == 4 and said["slot_ns"] == 1_000_000
    assert [network["slots"] for network in said["networks"]] == [256, 512]
    for network in said["networks"]:
        assert network["pool_len"] == 3 and network["blocks"] == 5 and network["row_slots"] == 1
        assert 0 < network["unknown_below"] <= 1
    for low, high in said["range"].values():
        assert 0 < low < high
    assert set(said["range"]) == {"rate_bit", "rtt_s"}
    card = (model / "card.md").read_text()
    assert "wirelens train cca" in card and "F1 by control" in card and "F1 by tap" in card


def test_what_is_written_scores_as_what_was_trained(tmp_path: Path, kept: Path) -> None:
    """Folded batch normalisation, and a file between."""
    from wirelens.cca.onetap import captures, evaluate, fitting, splits, train, windows
    from wirelens.cca.reading import load

    sets = captures.find_sets([kept])
    controls, split = train.controls_of(sets), splits.split_of(sets)
    recipe = fitting.Recipe(filters=4, epochs=1)
    flows, watched = (windows.labelled(part, controls) for part in (split.train, split.validation))
    network = fitting.fit(flows, watched, controls, recipe)
    written = train.packed(network, controls, split, recipe, {"command": ""})
    written.save(tmp_path, "", force=False)
    for one in load(tmp_path).networks:
        shown = windows.last_windows(flows, one.slots)
        wanted = fitting.scores(network, shown) / one.temperature
        found = evaluate.scores(one, shown)
        assert found.shape == (len(shown), len(controls)) and len(shown) > 20
        assert found == pytest.approx(wanted, abs=1e-4)


def test_what_differs_is_learned(tmp_path: Path) -> None:
    from wirelens.cca.onetap import rows

    rows.write(tmp_path / "two.xz", runs_of(lambda number: ("flat", "saw")[number % 2]))
    folder, options = tmp_path / "model", (*QUICK, "--epochs", "30")
    ran = wirelens(
        "train", "cca", "-r", tmp_path / "two.xz", "-o", folder, *options, time_max_s=120
    )
    assert ran.status == 0, ran.stderr
    f1 = [float(number) for number in re.findall(r"(\d\.\d{3}) of", str(ran.stdout))]
    assert len(f1) == 2 and min(f1) > 0.9, ran.stdout


def test_evaluation_is_of_runs_that_did_not_train_and_agrees_with_the_card(
    model: Path, kept: Path
) -> None:
    ran = wirelens("eval", "cca", "--model", model, "-r", kept, "--held-out", time_max_s=60)
    assert ran.status == 0, ran.stderr
    card = (model / "card.md").read_text()
    assert ran.stdout.decode() in card
    every = wirelens("eval", "cca", "--model", model, "-r", kept, time_max_s=60)
    tables = [re.search(r"256 rows \| (\d+) \|", str(of.stdout)) for of in (ran, every)]
    held, whole = (int(table[1]) if table else 0 for table in tables)
    assert 0 < held < whole


def test_the_majority_class_is_what_a_model_is_compared_with() -> None:
    """Of 40 runs, 30 of one control: always named it is right in three of four."""
    from wirelens.cca.model import Model, Network
    from wirelens.cca.onetap import evaluate

    layers = [(np.zeros((2, width, 3), np.float32), np.zeros(2, np.float32)) for width in (11, 2)]
    head = (layers[1][0], np.array([1, 0], np.float32))
    model = Model(
        ["flat", "saw"], [], 1_000_000, "highest", [Network(256, 3, layers[:1], head, 1.0, 0.5)],
        {}, trained_on={"rate_bit": [0, 1e9], "rtt_s": [0, 0.01]},
    )  # fmt: skip
    (row,) = evaluate.judged(model, "all", runs_of(lambda number: ("flat", "saw")[number % 4 == 0]))
    assert (row.windows, row.runs, row.majority_share) == (40, 40, 0.75)
    # Flat is 3/4 of what is always named, saw never is.
    assert row.f1 == row.majority_f1 == pytest.approx((2 * 30 / 70) / 2)
    # All have an RTT of 50 ms.
    assert (row.inside, row.named, row.precision) == (0, 0, 0)


def test_levels_are_as_worked_out_by_hand() -> None:
    """The same numbers as in `crates/cca/src/model/levels.rs`."""
    from wirelens.cca.onetap.levels import channels
    from wirelens.learn.networks import array, tensor

    inputs = ("flight_max_bytes", "sent_bytes", "resent_packets", "path_rtt_s")
    rows = [[1448, 1448, 0, 0.003], [4344, 0, 16, 0.007], [4344, 4344, 2, 0.007]]
    found = array(channels(tensor([rows]), tensor([0.001]), inputs, 2))[0]
    # 1 packet in flight and 1 sent in half a round trip, so 2 in a whole one; 3 ms; 1 ms.
    wanted = [[1, math.log2(3), 0, 2, 1], [2, 1, 12, 3, 1], [2, 2, 3, 3, 1]]
    assert found[:, 4:] * 12 == pytest.approx(np.array(wanted), abs=1e-5)
    shapes = [[1 / 3, 1 / 3, 0, 3 / 7], [1, 0, 1, 1], [1, 1, 1 / 8, 1]]
    assert found[:, :4] == pytest.approx(np.array(shapes), abs=1e-5)


def test_the_start_of_an_interval_stands_for_a_whole_round_trip() -> None:
    from wirelens.cca.onetap.levels import channels
    from wirelens.cca.onetap.rows import INPUTS
    from wirelens.learn.networks import array, tensor

    packets = 1448 * np.array([[1, 0, 2, 1, 3, 0], [0, 0, 0, 0, 1, 2]])
    rows = np.zeros((6, len(INPUTS)))
    rows[:, 1], rows[:, 2] = packets
    found = array(channels(tensor([rows]), tensor([0.01]), INPUTS, 4))[0]
    # Sums of four rows; of fewer at the start, 4, 4 / 2 and 4 / 3 times them.
    sent, acked = [4, 2, 4, 4, 6, 6], [0, 0, 0, 0, 1, 3]
    assert found[:, 6] * 12 == pytest.approx(np.log2(1 + np.array(sent)), abs=1e-5)
    assert found[:, 7] * 12 == pytest.approx(np.log2(1 + np.array(acked)), abs=1e-5)
    assert found[:, 10] * 12 == pytest.approx(np.full(6, math.log2(11)), abs=1e-5)
    # What was nothing all the time stays nothing.
    assert not found[:, [0, 3, 4, 5, 8, 9]].any()


def test_rows_are_kept_to_a_hundredth(tmp_path: Path) -> None:
    from wirelens.cca.onetap import rows

    runs = runs_of(lambda number: "reno", count=3, rows=300)
    runs[1].series[0].values[10:20] = 0
    rows.write(tmp_path / "kept.xz", runs)
    found = rows.read(tmp_path / "kept.xz")
    assert [run.name for run in found] == ["0", "1", "2"]
    assert found[0].path == {"rate_bps": 10_000_000}
    for run, again in zip(runs, found, strict=True):
        (one,), (other,) = run.series, again.series
        assert (one.control, one.place, one.row_s) == (other.control, other.place, other.row_s)
        assert other.values == pytest.approx(one.values, rel=0.0101)
        assert not other.values[one.values == 0].any()
    # And from then on they stay.
    rows.write(tmp_path / "again.xz", found)
    assert (tmp_path / "again.xz").read_bytes() == (tmp_path / "kept.xz").read_bytes()


def test_a_damaged_row_file_is_refused(tmp_path: Path, kept: Path) -> None:
    from wirelens.cca.onetap import rows

    whole, path = kept.read_bytes(), tmp_path / "rows.xz"
    line, codes = lzma.decompress(whole).split(b"\n", 1)
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    for content, words in (
        (whole[: len(whole) // 2], "wanted: a row file"),
        (bytes(flipped), "wanted: a row file"),
        (b"not xz", "wanted: a row file"),
        (lzma.compress(line + b"\n" + codes[:-10]), "another number"),
        (lzma.compress(line + b"\n" + codes[:-3]), "wanted: a row file"),
        (lzma.compress(b"{}\n"), "wanted: 'wirelens-cca-rows 1'"),
        (lzma.compress(b"[]\n"), "wanted: a row file"),
        (lzma.compress(line.replace(b"acked_bytes", b"bytes") + b"\n" + codes), "acked_bytes"),
    ):
        path.write_bytes(content)
        with pytest.raises(OptionError, match=re.escape(words)) as raised:
            rows.read(path)
        assert str(path) in str(raised.value)


def test_what_cannot_train_says_why(
    tmp_path: Path, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # In this process: PyTorch takes seconds to load.
    from wirelens.cca.__main__ import main
    from wirelens.cca.onetap import rows

    rows.write(tmp_path / "one.xz", runs_of(lambda number: "reno"))
    rows.write(tmp_path / "few.xz", runs_of(lambda number: ("flat", "saw")[number % 2], count=3))
    (tmp_path / "none").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run/flows.tsv").write_text("src_ip\tlabel\n")
    (tmp_path / "wrong").mkdir()
    (tmp_path / "wrong/flows.tsv").write_text("src_ip\tlabel\n")
    write_pcap(tmp_path / "wrong/tap.pcap", [segment(0, 1, 100)])
    two_taps = ROOT / "testdata/testbed/congestion"
    for words, arguments in {
        "two or more that differ": (*QUICK, "-r", tmp_path / "one.xz"),
        "names of runs decide": (*QUICK, "-r", tmp_path / "few.xz"),
        "no run; wanted: a row file": (*QUICK, "-r", tmp_path / "none"),
        "no capture": (*QUICK, "-r", tmp_path / "run"),
        "no column src_port": (*QUICK, "-r", tmp_path / "wrong"),
        "no effect on a model of one tap": (*QUICK, "-r", kept, "--durations", "1s"),
        "no effect on a model of two taps": ("-r", two_taps, "--filters", "8"),
    }.items():
        status = main(["train", "-o", str(tmp_path / "model"), *map(str, arguments)])
        said = capsys.readouterr().err
        assert status in (1, 2) and words in said, said
    assert not (tmp_path / "model").exists()


def test_options_of_two_taps_are_refused_in_evaluation(
    model: Path, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from wirelens.cca.__main__ import main

    for option, value in {"--share": "50%", "--per-flow": "3", "--seed": "2"}.items():
        status = main(["eval", "--model", str(model), "-r", str(kept), option, value])
        said = capsys.readouterr().err
        assert status == 2 and f"{option}: has no effect on a model of one tap" in said, said
    two = str(ROOT / "models/cca")
    assert main(["eval", "--model", two, "-r", str(kept), "--held-out"]) == 2
    assert "--held-out: has no effect on a model of two taps" in capsys.readouterr().err


def labelled_run(folder: Path, rtt_ms: int = 20, rounds: int = 200) -> None:
    """A flow of 4 s that sends three packets each round trip, and its label."""
    folder.mkdir()
    frames = [
        segment(-2, 0, flags=0x02),
        segment(-1, 900, ack=1, back=True, flags=0x02),
    ]
    for at in range(rounds):
        begin, seq = at * rtt_ms, 1 + 3000 * at
        for number in range(3):
            frames.append(segment(begin + number * 0.1, seq + 1000 * number, 1000, ack=901))
        frames.append(segment(begin + rtt_ms - 1, 901, ack=seq + 3000, back=True))
    write_pcap(folder / "tap.pcap", frames)
    (source, source_port), (target, target_port) = SENDER, RECEIVER
    ips = [".".join(map(str, ip)) for ip in (source, target)]
    (folder / "flows.tsv").write_text(
        "src_ip\tsrc_port\tdst_ip\tdst_port\tlabel\n"
        f"{ips[0]}\t{source_port}\t{ips[1]}\t{target_port}\treno\n"
        f"{ips[0]}\t1\t{ips[1]}\t2\tcubic\n"
    )


def test_captures_of_labelled_runs_are_read_as_rows(tmp_path: Path) -> None:
    from wirelens.cca.onetap import captures

    labelled_run(tmp_path / "run-7")
    (data,) = captures.find_sets([tmp_path])
    (run,) = data.runs
    assert run.name == "run-7"
    # The flow of the other label is not in the capture.
    (series,) = run.series
    assert (series.control, series.place, series.flow) == ("reno", "tap", 0)
    # 19 ms from data to acknowledgement: a quarter is 5 slots.
    assert series.row_s == 0.005 and 256 <= len(series.values) <= 400
    flight, sent, acked, resent, rtt = series.values.T
    assert flight.max() == 3000 and not resent.any()
    assert sent.sum() == pytest.approx(len(series.values) / 4 * 3000, abs=3000)
    assert acked.sum() == pytest.approx(sent.sum(), abs=3000)
    assert rtt == pytest.approx(np.full(len(rtt), 0.019), abs=0.001)


def test_a_flow_that_is_too_short_is_left_out(tmp_path: Path) -> None:
    from wirelens.cca.onetap import captures

    labelled_run(tmp_path / "short", rounds=110)
    assert captures.read_run(tmp_path / "short").series == []


def test_a_fifth_of_runs_is_held_out_by_name() -> None:
    from wirelens.cca.onetap import splits
    from wirelens.cca.onetap.captures import DataSet
    from wirelens.cca.onetap.rows import Run

    one, other = ([Run(f"{name}{at}", {}, []) for at in range(2000)] for name in ("", "other-"))
    split = splits.split_of([DataSet("one", one), DataSet("other", other, times=3)])
    held_out = [run for runs in split.held_out.values() for run in runs]
    # What is given three times trains and validates three times, and is held out once.
    assert len(split.train) == pytest.approx(4 * 1440, abs=200)
    assert len(split.validation) == pytest.approx(4 * 160, abs=100)
    assert [len(runs) for runs in split.held_out.values()] == pytest.approx([400, 400], abs=60)
    assert len({run.name for run in [*split.train, *split.validation, *held_out]}) == 4000
    assert all(splits.is_held_out(run.name) for run in held_out)
    assert not any(splits.is_held_out(run.name) for run in [*split.train, *split.validation])


def test_a_threshold_is_the_lowest_from_which_on_enough_are_right() -> None:
    from wirelens.cca.onetap.train import threshold

    highest = np.array([0.2, 0.4, 0.6, 0.8])
    assert threshold(highest, np.array([False, False, True, True]), 0.85) == 0.401
    assert threshold(highest, np.array([False, True, True, True]), 0.75) == 0
    assert threshold(highest, np.array([False, False, False, False]), 0.5) == 1


def test_what_serves_finds_what_training_would(tmp_path: Path, model: Path) -> None:
    """The same windows of a capture, levels and network included."""
    from wirelens.cca import flight_slots, flight_windows, row_slots
    from wirelens.cca.onetap import evaluate, rows, windows
    from wirelens.cca.reading import load

    # Two seconds that are left out, and two intervals of each length.
    labelled_run(tmp_path / "run", rounds=300)
    trained = replace(
        load(model), trained_on={"rate_bit": [1e3, 1e9], "rtt_s": [1e-3, 10]}, confidence_max=None
    )
    sure = [replace(network, unknown_below=0.0) for network in trained.networks]
    replace(trained, networks=sure).save(tmp_path / "wide", "", force=False)
    capture = tmp_path / "run/tap.pcap"
    options = ("--every", "1s", "--format", "jsonl", "-q")
    ran = wirelens("cca", "-r", capture, "--model", tmp_path / "wide", *options)
    assert ran.status == 0, ran.stderr
    (tap,) = flight_slots([capture], slot="1ms")
    (flow,) = tap.values()
    compared = 0
    for told in map(json.loads, ran.stdout.splitlines()):
        if told["confidence"] is None:
            continue
        end = told["start_ns"] // 10**6 + 1000
        row = row_slots(flow, end, slot="1ms", rows_per_rtt=4)
        count = round(told["interval_s"] * 1000 / row)
        seen = flight_windows(flow, [end - count * row], count, row_slots=row, inputs=rows.INPUTS)
        window = windows.Windows(
            np.asarray(seen.values), np.array([row / 1000]), np.array([0]), ["tap"]
        )
        (network,) = (network for network in trained.networks if network.slots == count)
        chance = softmax(evaluate.scores(network, window).astype(float))[0]
        assert told["control"] == trained.controls[chance.argmax()]
        assert told["confidence"] == pytest.approx(chance.max(), abs=1e-4)
        compared += 1
    assert compared >= 3


def test_the_model_that_ships_names_runs_that_did_not_train_it() -> None:
    from wirelens.cca.onetap import evaluate
    from wirelens.cca.reading import load

    shipped = load(ROOT / "models/cca-onetap")
    request = evaluate.Request(shipped, [ROWS], True, None)
    for row in evaluate.evaluate(request, Progress(is_quiet=True)):
        assert row.windows > 300 and row.f1 > 0.5 > 5 * row.majority_f1
        assert row.precision > 0.75 and row.named > 0.4
