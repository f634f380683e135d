"""Packets of a sender: compact columns, what a model reads of them, and sharp changes."""

import gzip
from pathlib import Path

import numpy
import pytest
import wirelens
from wirelens.errors import OptionError, TraceError
from wirelens.l4s import Scenario, Traffic, packets, read_latencies, simulate
from wirelens.l4s.latencies import COLUMNS, pack
from wirelens.l4s.material import Material
from wirelens.l4s.predicted import describe, window_of
from wirelens.l4s.predictors import Persistence
from wirelens.l4s.rhythm import FittedPredictor, Rhythm, Row, follow, row_of
from wirelens.l4s.sharp import WITHIN, Score, before, changes, score

ROOT = Path(__file__).resolve().parents[2]
DEMO, LATENCIES = ROOT / "testdata" / "demo.pcapng", ROOT / "testbed" / "data" / "latencies"
HEAD = (
    "number\tflow\tclient_port\tseq\tsize_bytes\tpayload_bytes\tcopy\tsent_ns\treceived_ns\t"
    "owd_us\tack_ns\tack_latency_us\tack_kind\tlost\n"
)
BEGUN_NS = 1_795_572_452_984_238_285
ARRIVED = (20_100.4, 41_000.6)


def table_of(path: Path, packets: list[tuple[int, float | None, float | None, int]]) -> Path:
    """A run's `packets.tsv.gz`: µs since the first packet, two delays, and which copy it is."""
    lines = [
        f"{at}\t7\t40000\t{at}\t1514\t1448\t{copy}\t{BEGUN_NS + since * 1000}\t\t"
        f"{'' if one_way is None else one_way}\t\t{'' if ack is None else ack}\t\t0\n"
        for at, (since, one_way, ack, copy) in enumerate(packets)
    ]
    with gzip.open(path, "wt") as file:
        file.write(HEAD + "".join(lines))
    return path


@pytest.fixture
def columns(tmp_path: Path) -> Path:
    """Four packets: one that arrived, one lost, its second copy, one without an acknowledgement."""
    rows = [
        (0, *ARRIVED, 1),
        (120, None, None, 1),
        (90_000, *ARRIVED, 2),
        (95_000, 20_000.0, None, 1),
    ]
    path = tmp_path / "four.parquet"
    assert pack(table_of(tmp_path / "packets.tsv.gz", rows), path, {"scenario": "four"}) > 0
    return path


def test_compact_columns_are_what_the_run_wrote_in_microseconds(columns: Path) -> None:
    table = read_latencies(columns)
    assert {field.name: str(field.type) for field in table.schema} == COLUMNS
    assert table["sent_us"].to_pylist() == [0, 120, 90_000, 95_000]
    assert table["one_way_us"].to_pylist() == [20_100, None, 20_100, 20_000]
    assert table["ack_us"].to_pylist() == [41_001, None, 41_001, None]
    assert table["copy"].to_pylist() == [1, 1, 2, 1]
    assert b'"scenario": "four"' in table.schema.metadata[b"wirelens"]


def test_stamps_that_are_out_of_order_are_sorted(tmp_path: Path) -> None:
    rows = [(50, *ARRIVED, 1), (49, *ARRIVED, 1), (0, *ARRIVED, 1)]
    path = tmp_path / "three.parquet"
    pack(table_of(tmp_path / "packets.tsv.gz", rows), path, {})
    assert read_latencies(path)["sent_us"].to_pylist() == [0, 49, 50]


def test_a_retransmission_shows_no_latency(columns: Path) -> None:
    for one_way, expected in [
        (False, [41.001, None, None, None]),
        (True, [20.1, None, None, 20.0]),
    ]:
        found = packets.read_packets(columns, one_way=one_way)
        latency = [None if numpy.isnan(one) else round(float(one), 3) for one in found.latency_ms]
        assert latency == expected
        assert found.records["acked_ns"][1] == packets.NEVER


def test_other_files_are_refused(tmp_path: Path, columns: Path) -> None:
    other = tmp_path / "other.parquet"
    wirelens.top(DEMO).to_parquet(other)
    with pytest.raises(TraceError, match="format None; wanted: 'wirelens-latencies 1'"):
        read_latencies(other)
    with pytest.raises(TraceError, match="wanted: those of `wirelens latency --by packet`"):
        packets.read_packets(other)
    text = tmp_path / "text"
    text.write_text("no trace")
    with pytest.raises(TraceError, match="no Parquet file"):
        read_latencies(text)
    with pytest.raises(TraceError, match="wanted: a trace of an L4S network"):
        packets.read_packets(text)
    with pytest.raises(TraceError, match=r"no packets\.tsv\.gz"):
        pack(text, tmp_path / "none.parquet", {})


def test_a_capture_gives_the_packets_of_its_busiest_sender(tmp_path: Path) -> None:
    path = tmp_path / "packets.parquet"
    wirelens.latency(DEMO, by="packet").to_parquet(path)
    found = packets.read_packets(path)
    rows = wirelens.latency(DEMO, by="packet").to_arrow().to_pylist()
    senders = [row["src_ip"] for row in rows]
    busiest = max(set(senders), key=senders.count)
    mine = [row for row in rows if row["src_ip"] == busiest]
    assert len(found) == len(mine)
    known = [row["latency_ns"] for row in mine if row["latency_ns"] is not None]
    assert sorted(
        found.records["latency_ns"][found.records["latency_ns"] != packets.NEVER]
    ) == sorted(known)
    assert len(set(found.records["flow"])) == len(
        {(row["src_port"], row["dst_ip"], row["dst_port"]) for row in mine}
    )
    with pytest.raises(TraceError, match="one tap has no one-way delays"):
        packets.read_packets(path, one_way=True)


@pytest.mark.parametrize("name", ["video-steady", "video-varying", "web-steady", "web-varying"])
def test_four_traces_of_half_an_hour_are_there(name: str) -> None:
    path = LATENCIES / f"{name}.parquet"
    assert path.stat().st_size < 8_000_000
    about = describe(packets.read_packets(path))
    assert 29.9 < about["minutes"] < 30.1 and about["packets"] > 300_000
    # No packet takes less than the link's propagation delay.
    least_ms = numpy.nanmin(packets.read_packets(path, one_way=True).latency_ms)
    assert (15 if name == "web-varying" else 20) <= least_ms < 21


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("l4s") / "trace"
    traffic = [Traffic("prague", 3), Traffic("cubic", 2), Traffic("prague", 2, sender=2)]
    simulate(Scenario(traffic, control="random:0.05", duration_s=4, seed=5), trace=path)
    return path


def test_a_trace_gives_one_senders_packets_in_order(trace: Path) -> None:
    found = packets.read_packets(trace)
    one_way = packets.read_packets(trace, one_way=True)
    assert (numpy.diff(found.records["sent_ns"].astype("i8")) >= 0).all()
    assert set(found.records["queue"]) == {packets.L4S, packets.CLASSIC}
    assert len(set(found.records["flow"])) == 5
    both = ~numpy.isnan(found.latency_ms) & ~numpy.isnan(one_way.latency_ms)
    # Acknowledgements come back in 20 ms, the propagation delay.
    back = (found.latency_ms - one_way.latency_ms)[both]
    assert (abs(back - 20) < 1e-3).all()
    with pytest.raises(TraceError, match="no packet of sender 9"):
        packets.read_packets(trace, sender=9)


def test_rows_hold_no_acknowledgement_that_came_later(trace: Path) -> None:
    found = packets.read_packets(trace)
    rows = packets.Rows.of(found)
    records = found.records
    is_shown = records["latency_ns"] != packets.NEVER
    acked = numpy.sort(records["acked_ns"][is_shown])
    # When a packet leaves no more can be known than was acknowledged before.
    most = numpy.searchsorted(acked, records["sent_ns"], side="left")
    assert (rows.known <= most).all()
    # A batch takes 2 ms at most, so that all that was acknowledged before that is known.
    least = numpy.searchsorted(acked, records["sent_ns"] - numpy.uint64(2_000_000), side="left")
    assert (rows.known >= least).all()
    assert rows.queries.shape == (len(found), packets.QUERY_LEN)
    assert rows.tokens.shape == (rows.known[-1], packets.TOKEN_LEN)
    alone = packets.Rows.of(found, packets.Batching(1, 0.0))
    assert (alone.known == most).all()


def test_later_latencies_move_no_row(trace: Path) -> None:
    found = packets.read_packets(trace)
    records = found.records.copy()
    middle = records["sent_ns"][len(records) // 2]
    is_later = (records["acked_ns"] >= middle) & (records["acked_ns"] != packets.NEVER)
    records["acked_ns"][is_later] += 7_000_000
    records["latency_ns"][is_later & (records["latency_ns"] != packets.NEVER)] += 7_000_000
    one, other = (packets.Rows.of(packets.Packets("", each)) for each in (found.records, records))
    count = int(numpy.searchsorted(records["sent_ns"], middle, side="right"))
    known = int(one.known[count - 1])
    for name in ("queries", "known", "base_ms", "floor_ms", "flow_last_ms", "queue_last_ms"):
        numpy.testing.assert_array_equal(getattr(one, name)[:count], getattr(other, name)[:count])
    numpy.testing.assert_array_equal(one.tokens[:known], other.tokens[:known])
    assert not numpy.array_equal(one.tokens[: len(other.tokens)], other.tokens[: len(one.tokens)])


def test_packets_out_of_order_are_refused(trace: Path) -> None:
    found = packets.read_packets(trace)
    with pytest.raises(OptionError, match="packet 1 left before the one before it"):
        packets.Rows.of(packets.Packets("", found.records[::-1].copy()))


def test_a_sharp_change_is_20_ms_and_20_percent() -> None:
    latency = numpy.array([100.0, 119.9, 140.0, numpy.nan, 90.0, 130.0, 260.0, 239.0])
    flow = numpy.zeros(8, dtype=int)
    places = before("flow", flow, flow, latency)
    assert places.tolist() == [-1, 0, 1, -1, 2, 4, 5, 6]
    # 19.9 ms is too little; 20.1 of 119.9 is less than a fifth; 21 of 260, too.
    assert changes(latency, places).tolist() == [0, 0, 0, 0, -1, 1, 1, 0]


def test_the_packet_before_is_of_the_sender_the_flow_or_its_queue() -> None:
    latency, flow, queue = numpy.ones(5), numpy.array([1, 2, 1, 1, 2]), numpy.array([0, 0, 1, 0, 0])
    found = {within: before(within, flow, queue, latency).tolist() for within in WITHIN}
    assert found == {
        "sender": [-1, 0, 1, 2, 3], "flow": [-1, -1, 0, 2, 1], "queue": [-1, -1, -1, 0, 1]
    }  # fmt: skip


def test_a_change_is_predicted_against_what_was_predicted_before() -> None:
    latency = numpy.array([40.0, 40.0, 90.0, 90.0, 40.0])
    places = before("flow", numpy.zeros(5, dtype=int), numpy.zeros(5, dtype=int), latency)
    judged = numpy.ones(5, dtype=bool)
    # It follows a packet late: the changes it shows are at other packets.
    late = numpy.array([40.0, 40.0, 40.0, 90.0, 90.0])
    assert score(latency, late, places, judged) == Score(2, 1, 0)
    right = numpy.array([45.0, 45.0, 80.0, 85.0, 90.0])
    found = score(latency, right, places, judged)
    assert found == Score(2, 1, 1)
    assert (found.precision, found.recall, round(found.f1, 3)) == (1.0, 0.5, 0.667)
    assert (Score(0, 0, 0).f1, (found + found).changes) == (0.0, 4)


def test_targets_are_above_the_base_and_weigh_more_at_sharp_changes(trace: Path) -> None:
    found = packets.read_packets(trace)
    material = Material.of(found)
    has = material.weight > 0
    numpy.testing.assert_allclose(
        material.predicted_ms(material.target)[has], found.latency_ms[has], rtol=1e-4
    )
    sharp = changes(found.latency_ms, Material.places(found, "sender")) != 0
    assert sharp.any() and (material.weight[sharp & has] == 10).all()
    assert set(Material.of(found, alpha=1.0).weight) <= {0.0, 1.0}


def test_the_rhythm_trains_first_and_tests_what_comes_after(trace: Path) -> None:
    material = Material.of(packets.read_packets(trace))
    rhythm = Rhythm(trained_s=2.0, watched_s=0.5, every_s=1.0, tuned_s=0.5)

    class Spy(Persistence):
        seen: list[tuple[str, slice]] = []

        def fit(self, material: Material, trained: slice, watched: slice, seed: int) -> None:
            self.seen += [("fit", trained), ("watch", watched)]

        def tuned(self, material: Material, span: slice, seed: int) -> "Spy":
            self.seen.append(("tune", span))
            return self

        def predict(self, material: Material, span: slice) -> object:
            self.seen.append(("test", span))
            return super().predict(material, span)

    tested = follow(FittedPredictor.of(Spy("queue"), material, rhythm, 1), material, rhythm, 1)
    since = material.packets.since_s
    spans = [(name, since[span.start], since[span.stop - 1]) for name, span in Spy.seen]
    assert [name for name, *_ in spans] == ["fit", "watch", "test", "tune", "test"]
    assert spans[0][2] <= spans[1][1] and spans[1][2] <= spans[2][1] and spans[3][2] <= spans[4][1]
    assert numpy.isnan(tested.predicted_ms[: Spy.seen[2][1].start]).all()
    row = row_of("spy", material, rhythm, tested, seed=1, latency="ack", batch=8)
    assert Row.read(row.text()) == row
    assert row.packets == int((~numpy.isnan(tested.predicted_ms) & (material.weight > 0)).sum())
    with pytest.raises(OptionError, match=r"4 s; wanted: more than the 300 s that train"):
        FittedPredictor.of(Persistence("flow"), material, Rhythm(), 1)


def test_the_newest_latency_is_what_persistence_says(trace: Path) -> None:
    found = packets.read_packets(trace)
    material = Material.of(found, packets.Batching(1, 0.0))
    span = slice(0, len(found))
    for of, column in (("flow", "flow"), ("queue", "queue")):
        predicted = Persistence(of).predict(material, span)
        at = len(found) * 3 // 4
        records = found.records
        is_mine = (
            (records[column] == records[column][at]) & (records["latency_ns"] != packets.NEVER)
            & (records["acked_ns"] < records["sent_ns"][at])
        )  # fmt: skip
        newest = numpy.flatnonzero(is_mine)[records["acked_ns"][is_mine].argmax()]
        same = records["acked_ns"][is_mine] == records["acked_ns"][newest]
        assert predicted[at] in found.latency_ms[is_mine][same].astype("f4")


def test_a_trace_is_described_as_the_paper_does(trace: Path) -> None:
    found = packets.read_packets(trace)
    about = describe(found)
    assert (about["flows"], about["packets"]) == (5, len(found))
    assert 0.06 < about["minutes"] < 0.07 and 40 < about["median_ms"] < 80
    # 100 Mbit/s for 40 ms are 333 packets, and this sender has most of the link.
    assert window_of(found) == 512
