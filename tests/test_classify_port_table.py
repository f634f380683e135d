"""A table of ports, as one tree, says what the table says; late packets are not there."""

import classify_flows
import numpy
import pytest
from wirelens.classify.dataset import Source, captures_of, load
from wirelens.classify.features import FlowFeatures
from wirelens.classify.labels import read_labels
from wirelens.classify.matrix import build
from wirelens.classify.port_table import PortTable
from wirelens.classify.recipe import PORT_NUMBERS, Recipe, Sifter
from wirelens.trees import load as load_trees
from wirelens.trees import score

CLASSES = ["a", "b", "c"]


def table_of(seed, count=300):
    dice = numpy.random.default_rng(seed)
    protocols = dice.choice([1, 6, 17, 132], count)
    ports = numpy.where(dice.random(count) < 0.6, dice.choice([22, 53, 80, 443, 65535], count),
                        dice.integers(0, 65536, count))  # fmt: skip
    ports = numpy.where(protocols == 1, -1, ports)
    labels = (ports + dice.integers(0, 2, count)) % 3
    return PortTable.fit(protocols, ports, labels, 3, weights=dice.random(count) + 0.5)


@pytest.mark.parametrize("seed", range(5))
def test_the_tree_says_what_the_table_says(seed, tmp_path):
    table = table_of(seed)
    features = FlowFeatures(packets=1, numbers=PORT_NUMBERS)
    table.trees(CLASSES, features.header_bits()).save(tmp_path / "ports.trees.jsonl")
    forest = load_trees(tmp_path / "ports.trees.jsonl")
    asked = [(p, port) for p in (0, 1, 2, 5, 6, 7, 17, 131, 132, 255)
             for port in (-1, 0, 1, 21, 22, 23, 53, 54, 80, 443, 444, 65534, 65535)]  # fmt: skip
    numbers = numpy.array(asked, dtype=numpy.float64)
    records = bytes(forest.record_len * len(asked))
    found = numpy.asarray(score(forest, records, 1, numbers))
    assert found == pytest.approx(table.predict(numbers[:, 0], numbers[:, 1]), abs=1e-12)
    assert found.sum(axis=1) == pytest.approx(1)


def test_few_flows_are_drawn_towards_their_protocol():
    protocols, ports = numpy.full(10, 6), numpy.array([80] * 6 + [443] * 2 + [5, 6])
    labels = numpy.array([0] * 6 + [1] * 2 + [1, 2])
    table = PortTable.fit(protocols, ports, labels, 3, smoothing=1.0)
    # The prior of everything: (counts + 1/3) / 11; of the only protocol: once more with that.
    overall = (numpy.array([6, 3, 1]) + 1 / 3) / 11
    of_tcp = (numpy.array([6, 3, 1]) + overall) / 11
    assert table.predict([6], [80])[0] == pytest.approx((numpy.array([6, 0, 0]) + of_tcp) / 7)
    # Ports of one flow are others, as are ports that were never seen.
    others = (numpy.array([0, 1, 1]) + of_tcp) / 3
    assert table.predict([6, 6], [5, 9999]) == pytest.approx(numpy.array([others, others]))
    assert table.predict([17], [80])[0] == pytest.approx(overall)


def test_columns_that_say_nothing_new_are_left_out():
    sifter = Sifter()
    values = numpy.array([[0, 1, 1, 0, 5], [0, 0, 0, 1, 5], [0, 1, 1, 0, 5]], dtype=numpy.int8)
    assert sifter.keep(values, ["flat", "one", "same", "other", "five"]) == ["one", "other"]
    # Also where the same stands in a later packet, or as a number.
    assert sifter.keep(values[:, 1:2].astype(float), ["again"]) == []
    assert (sifter.constant, sifter.duplicate) == (2, 2)


def test_bytes_of_payload_are_named_by_ranges():
    recipe = Recipe(numbers=("byte:1", "byte:34-35@1-2", "byte:3-3@0"))
    assert recipe.number_names(2) == [
        "pkt0_byte_0", "pkt0_byte_3", "pkt1_byte_0", "pkt1_byte_34", "pkt1_byte_35",
    ]  # fmt: skip
    assert recipe.number_names(1) == recipe.number_names(2)[:2]


def test_columns_that_seldom_differ_may_be_left_out():
    values = numpy.zeros((10, 2))
    values[:3, 0], values[:4, 1] = 1, 2
    assert Sifter(rare_max=3).keep(values, ["seldom", "often"]) == ["often"]


def test_what_is_left_out_is_left_out():
    recipe = Recipe(numbers=("server_port", "size_bytes", "byte:2", "pkt1_gap_ns"))
    assert recipe.number_names(2) == [
        "server_port", "pkt0_size_bytes", "pkt0_byte_0", "pkt0_byte_1", "pkt1_size_bytes",
        "pkt1_byte_0", "pkt1_byte_1", "pkt1_gap_ns",
    ]  # fmt: skip
    # A depth has the numbers of its packets, which begin those of a greater one.
    assert recipe.number_names(1) == recipe.number_names(2)[:4]
    assert recipe.is_dropped("pkt3_tcp_seq_31") and not recipe.is_dropped("pkt3_tcp_dprt_0")
    assert recipe.bit_column_count() == 1024 - 64 - 48 - 16 - 64


@pytest.fixture(scope="module")
def flows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flows")
    table = classify_flows.make(folder / "captures", captures=3)
    captures = captures_of([folder / "captures"])
    return Source(captures, read_labels(table, "app"), ["x", "y", "y"])


def test_packets_that_come_too_late_are_not_there(flows):
    recipe = Recipe(numbers=("size_bytes", "payload_bytes", "gap_ns"))
    whole = load(flows, recipe, 5, flows_min=1)
    short = load(flows, recipe, 5, flows_min=1, wait_ns=20_000_000)
    counts = short.sample.packet_counts
    assert (counts < whole.sample.packet_counts).any() and (counts >= 1).all()
    late = counts < whole.sample.packet_counts
    arrived = whole.sample.arrivals_ns
    for row in numpy.flatnonzero(late)[:20]:
        assert arrived[row, counts[row]] >= 20_000_000 > arrived[row, counts[row] - 1]
    # A row is what that of a flow of fewer packets is: the same as for one that has no more.
    sizes = short.sample.numbers([f"pkt{k}_size_bytes" for k in range(5)])
    assert ((sizes == 0) == (numpy.arange(5) >= counts[:, None])).all()
    lengths = short.sample.numbers([f"pkt{k}_payload_bytes" for k in range(5)])
    assert (lengths[numpy.arange(5) >= counts[:, None]] == -1).all()
    bits = short.sample.bits([f"pkt{k}_ipv4_ver_1" for k in range(5)])
    assert (bits == numpy.where(numpy.arange(5) >= counts[:, None], -1, 1)).all()
    records = numpy.frombuffer(short.sample.records(5), dtype=numpy.uint8)
    records = records.reshape(len(short), 5, -1)
    assert (records.any(axis=2) == (numpy.arange(5) < counts[:, None])).all()
    assert short.sample.waiting_us(5).max() == 20_000


def test_columns_are_chosen_by_training_flows_alone(flows):
    recipe = Recipe()
    data = load(flows, recipe, 2, flows_min=1)
    udp = numpy.flatnonzero(data.sample.numbers(["protocol"])[:, 0] == 17)
    matrix = build(data.sample, recipe, 2, udp)
    assert "protocol" not in matrix.columns(2)
    assert not [name for name in matrix.columns(2) if "_tcp_" in name]
    assert matrix.columns(1) == [name for name in matrix.columns(2) if "pkt1" not in name]
    assert matrix.values(1, udp).shape == (len(udp), len(matrix.columns(1)))
    assert data.families.tolist().count("x") == 30
