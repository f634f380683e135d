"""Flows in windows of time: every number counted again from packets."""

import json
from pathlib import Path

import pytest
from command import wirelens
from naive_windows import windows as counted_again
from wirelens import classify_flows
from wirelens.classify.window_cascade import WindowCascade, WindowStage
from wirelens.classify.windows import (
    PACKET_NUMBERS,
    SECOND_NS,
    WindowFeatures,
    WindowTable,
    window_numbers,
    windows,
)
from wirelens.errors import ModelError, OptionError, OutputExistsError
from wirelens.trees import HeaderBits, Trees

numpy = pytest.importorskip("numpy")

REPOSITORY = Path(__file__).parents[1]
CALL = REPOSITORY / "testdata/testbed/calls/receiver.pcapng.gz"
EVERYTHING = WindowFeatures(packets=20, numbers=window_numbers(20, whole=True, rtp=True))


def names_of(table: WindowTable) -> list[tuple[tuple[object, ...], int]]:
    """What the plain counting calls each row."""
    keys = table.keys()
    names = ("src_ip", "dst_ip", "src_port", "dst_port", "protocol")
    flow = zip(*(keys[name] for name in names), strict=True)
    return list(zip(flow, keys["window_start_ns"], strict=True))


@pytest.mark.parametrize("every_ns", [SECOND_NS, 300_000_000, 10 * SECOND_NS])
def test_every_number_is_what_packets_say(every_ns):
    features = WindowFeatures(every_ns=every_ns, packets=20, numbers=EVERYTHING.numbers)
    table = windows(CALL, features)
    again = counted_again(CALL, every_ns)
    numbers = numpy.asarray(table.numbers)
    assert sorted(names_of(table)) == sorted(again)
    for row, name in zip(numbers, names_of(table), strict=True):
        wanted = again[name]
        seen = dict(zip(features.numbers, row.tolist(), strict=True))
        assert {k: v for k, v in seen.items() if k in wanted} == wanted
        # Packets that are not there.
        absent = {k: v for k, v in seen.items() if k not in wanted}
        assert set(absent.values()) <= {0.0, -1.0}


def test_a_row_of_fewer_packets_is_the_beginning_of_one_of_more():
    few = WindowFeatures(packets=2, numbers=window_numbers(2))
    table, all_of_it = windows(CALL, few), windows(CALL, EVERYTHING)
    places = [EVERYTHING.numbers.index(name) for name in few.numbers]
    assert (numpy.asarray(table.numbers) == numpy.asarray(all_of_it.numbers)[:, places]).all()
    row_len, few_len = len(all_of_it.records) // len(table), len(table.records) // len(table)
    assert few_len * 10 == row_len
    assert table.records[:few_len] == all_of_it.records[:few_len]
    bits = ["pkt0_udp_len_15", "pkt1_ipv4_ttl_1"]
    assert numpy.array_equal(table.bits(bits), all_of_it.bits(bits))


def test_frames_are_those_that_the_browser_showed():
    """Seconds in which nothing was lost or sent again."""
    lines = (CALL.parent / "receiver.tsv").read_text().splitlines()
    titles = lines[0].split("\t")
    labels = [dict(zip(titles, line.split("\t"), strict=True)) for line in lines[1:]]
    flow = json.loads((CALL.parent / "run.json").read_text())["kind"]
    assert flow == "calls"
    names = [f"main_{what}" for what in ("rtp_timestamps", "rtp_markers", "frames_by_size")]
    table = windows(CALL, WindowFeatures(numbers=names))
    frames = dict(
        zip(table.keys()["window_start_ns"], numpy.asarray(table.numbers).tolist(), strict=True)
    )
    checked = 0
    for label in labels[2:11]:
        end = round(int(label["time_ns"]) / SECOND_NS) * SECOND_NS
        shown = float(label["frames_per_second"])
        assert all(abs(count - shown) <= 3 for count in frames[end - SECOND_NS][:2])
        checked += 1
    assert checked == 9


def test_the_schema_is_that_of_its_header_bits():
    features = WindowFeatures(packets=3, numbers=["main_packets", "pkt2_offset_ns"])
    assert features.header_bits().hash() == features.hash()
    assert features.schema().startswith("wirelens features 1\nlayout window ns=1000000000\n")
    other = HeaderBits(features.header_bits().columns, 3, numbers=features.numbers)
    assert other.hash() != features.hash()
    assert len(features.bit_columns()) == 3 * 544


def test_what_cannot_be_is_refused():
    with pytest.raises(OptionError, match="windows of 0 ns; wanted: longer than 0"):
        WindowFeatures(every_ns=0)
    with pytest.raises(OptionError, match="'main_size' is none|\"main_size\" is none"):
        WindowFeatures(numbers=["main_size"])
    with pytest.raises(OptionError, match="is of a packet that is not read"):
        WindowFeatures(packets=1, numbers=["pkt1_offset_ns"])
    assert len(window_numbers(2, previous=False)) == 2 * len(PACKET_NUMBERS)


def stage(name: str, features: WindowFeatures, tests: list[str], leaves: list[list[float]]):
    """A tree by hand: each test's right side is a leaf, its left side the next test.

    Breadth first, leaves are those of the tests in order, and then what no test is true of.
    """
    nodes = [0] if len(tests) == 1 else [0, 1, -1]
    bits = features.header_bits()
    head = {
        "format": "wirelens trees", "version": 1, "kind": "mean", "classes": list(CLASSES),
        "schema": features.hash(), "headers": "innermost", "blocks": bits.blocks(),
        "payload_bytes": 0, "packets": features.packets, "numbers": list(features.numbers),
    }  # fmt: skip
    tree = {"nodes": [*nodes, -1, -1], "leaves": leaves}
    return WindowStage(name, "other", Trees(head, tests, [tree]), "least-confidence", [0.25] * 3)


CLASSES = ("still", "slow", "fluent")


def test_the_command_and_the_package_say_what_trees_say(tmp_path):
    """The cascade of two trees, asked here by hand and by `wirelens classify --every`."""
    first = WindowFeatures(numbers=["previous_main_rtp_timestamps", "pkt0_gap_ns"])
    whole = WindowFeatures(numbers=["main_rtp_timestamps"])
    tests = ["previous_main_rtp_timestamps > 25", "previous_main_rtp_timestamps > 5"]
    stages = [
        stage("fastest", first, tests, [[0.0, 0.1, 0.9], [0.3, 0.4, 0.3], [0.5, 0.3, 0.2]]),
        stage("slow", whole, ["main_rtp_timestamps > 10"], [[0.8, 0.1, 0.1], [0.1, 0.3, 0.6]]),
    ]
    WindowCascade("by-hand", CLASSES, stages).write(tmp_path / "by-hand", "# By hand\n")
    ran = wirelens(
        "classify", "-r", CALL, "--model", tmp_path / "by-hand", "--every", "1s", "--format", "csv"
    )
    assert ran.status == 0, ran.stderr
    said = {int(row["window_start_ns"]): row for row in ran.rows}
    before, now = (
        dict(zip(table.keys()["window_start_ns"], numpy.asarray(table.numbers)[:, 0], strict=True))
        for table in (windows(CALL, features) for features in (first, whole))
    )
    assert set(said) == set(now)
    deciders = set()
    for start, row in said.items():
        label, name = ("fluent", "fastest") if before[start] > 25 else (None, "slow")
        if label is None:
            label = "fluent" if now[start] > 10 else "still"
        assert (row["label"], row["stage"]) == (label, name)
        assert row["packets_used"] == "1" or name == "slow"
        deciders.add(name)
        wait_ns = int(row["wait_ns"])
        assert wait_ns == SECOND_NS if name == "slow" else wait_ns < SECOND_NS
    assert deciders == {"fastest", "slow"}
    from wirelens.classify.cascade import load

    model = tmp_path / "by-hand"
    verdicts = classify_flows(CALL, model, every=1)
    assert [(row.window_start_ns, row.label, row.confidence, row.wait_ns) for row in verdicts] == [
        (start, row["label"], float(row["confidence"]), int(row["wait_ns"]))
        for start, row in said.items()
    ]
    with pytest.raises(OptionError, match="every: `None`: the model was trained on windows"):
        classify_flows(CALL, model)
    with pytest.raises(OptionError, match="consumers: `2`: windows are reported by one thread"):
        classify_flows(CALL, model, every=1, consumers=2)
    counted = wirelens("classify", "-q", "-r", CALL, "--model", model, "--every", "1s").stdout
    assert counted.split()[:2] == [b"label", b"windows"]
    with pytest.raises(ModelError, match="a model of windows; wanted: one of flows"):
        load(model)


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ([], "was trained on windows of 1 s; give --every 1s"),
        (["--every", "2s"], "was trained on windows of 1 s; give --every 1s"),
        (["--every", "1s", "--format", "eve"], "--format: not with --every"),
        (["--every", "1s", "--consumers", "2"], "--consumers: not with --every"),
    ],
)
def test_windows_are_those_of_training(tmp_path, arguments, wanted):
    whole = WindowFeatures(numbers=["main_rtp_timestamps"])
    one = [stage("slow", whole, ["main_rtp_timestamps > 10"], [[0.8, 0.1, 0.1], [0.1, 0.3, 0.6]])]
    WindowCascade("by-hand", CLASSES, one).write(tmp_path / "by-hand", "# By hand\n")
    ran = wirelens("classify", "-r", CALL, "--model", tmp_path / "by-hand", *arguments)
    assert ran.status == 2
    assert wanted in ran.stderr
    with pytest.raises(OutputExistsError):
        WindowCascade("by-hand", CLASSES, one).write(tmp_path / "by-hand", "")
