"""Snapshots of packets, and judging by a model's file: as Python sees them."""

import array
import doctest
import importlib
import json
import struct
import subprocess
from pathlib import Path

import pytest
import wirelens
from command import DEMO, ROOT
from wirelens.errors import OptionError
from wirelens.packetlog import PacketModel, SnapshotOptions, judgements, snapshots

STUMP = {
    "feature": [0, -2, -2],
    "threshold": [100.0, -2.0, -2.0],
    "left": [1, -1, -1],
    "right": [2, -1, -1],
    "value": [[4, 4], [6, 2], [0.5, 1.5]],
}
LEAF = {"feature": [-2], "threshold": [-2.0], "left": [-1], "right": [-1], "value": [[1, 3]]}


def model_file(folder: Path, **changes: object) -> Path:
    """A model that calls packets of flows large ones above 100 bytes, and all others large."""
    options = SnapshotOptions()
    columns = ["ip_bytes", "flow_packets"]
    model = {
        "format": "wirelens-packetlog 1",
        "classes": ["small", "large"],
        "features": options.to_json(),
        "columns": columns,
        "schema": options.hash(columns),
        "flow_forest": {"trees": [STUMP]},
        "packet_forest": {"trees": [LEAF]},
        "training": {"seed": 1},
        **changes,
    }
    path = folder / "model.json"
    path.write_text(json.dumps(model))
    return path


def rows_of(options: SnapshotOptions, **arguments: object) -> list[tuple[float, ...]]:
    batches = list(snapshots(DEMO, options, **arguments))
    return [tuple(row) for batch in batches for row in batch.values.tolist()]


def test_the_sketch_and_the_table_say_the_same_of_few_flows() -> None:
    options = SnapshotOptions(keys=["flow", "source", "destination"])
    sketch = rows_of(options)
    assert sketch == rows_of(options.replace(source="exact"))
    assert len(sketch) == 4944
    assert len(sketch[0]) == len(options.columns()) == 65


def test_columns_of_states_are_asked_for() -> None:
    options = SnapshotOptions(states=1024)
    more = [name for name in options.columns() if name not in SnapshotOptions().columns()]
    assert len(more) == 41 and "pair_gap_variation" in more
    assert options.hash(["ip_bytes"]) == SnapshotOptions().hash(["ip_bytes"])
    assert options.to_json()["states"] == 1024 and "states" not in SnapshotOptions().to_json()
    with pytest.raises(OptionError, match=r"states: 1000; wanted: 0, or a power of two"):
        SnapshotOptions(states=1000)
    with pytest.raises(OptionError, match="states 0"):
        list(snapshots(DEMO, columns=["pair_flows"]))


def test_states_of_connections_agree_with_tshark() -> None:
    """Packets and payload of both ends, by who sent the SYN, packet by packet."""
    fields = ["frame.number", "tcp.stream", "ip.src", "ipv6.src", "tcp.srcport", "tcp.len",
              "tcp.flags"]  # fmt: skip
    command = ["tshark", "-r", str(DEMO), "-Y", "tcp and not icmp", "-T", "fields"]
    for name in fields:
        command += ["-e", name]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    columns = ["flow_client_packets", "flow_server_packets", "flow_client_payload_bytes",
               "flow_server_payload_bytes", "flow_is_from_client"]  # fmt: skip
    seen = rows_of(SnapshotOptions(states=65_536), columns=columns)
    clients: dict[str, tuple[str, str]] = {}
    sums: dict[str, list[int]] = {}
    compared = 0
    for line in told.splitlines():
        number, stream, address, address6, port, length, flags = line.split("\t")
        sender = (address or address6, port)
        if stream not in clients and int(flags, 16) & 0x12 == 2:
            clients[stream], sums[stream] = sender, [0, 0, 0, 0]
        if stream in clients:
            side = int(sender != clients[stream])
            sums[stream][side] += 1
            sums[stream][2 + side] += int(length)
            assert seen[int(number) - 1] == (*sums[stream], 1 - side), line
            compared += 1
    assert compared > 3000


def test_examples_are_true(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    module = importlib.import_module("wirelens.packetlog.snapshots")
    assert doctest.testmod(module) == (0, 4)


def test_columns_come_in_the_order_that_was_asked_for() -> None:
    options = SnapshotOptions(source="exact", window="0")
    both = rows_of(options, columns=["flow_packets", "ip_bytes"])
    alone = rows_of(options, columns=["ip_bytes"])
    assert [row[1:] for row in both] == alone
    assert max(row[0] for row in both) > 100, "sums go on for as long as flows do"


def test_each_capture_has_flows_of_its_own_and_numbers_from_zero() -> None:
    batches = list(snapshots([DEMO, DEMO], columns=["flow_packets"]))
    file = [file for batch in batches for file in batch.file]
    packet = [packet for batch in batches for packet in batch.packet]
    values = [row for batch in batches for row in batch.values.tolist()]
    assert file == [0] * 4944 + [1] * 4944
    assert packet == [*range(4944), *range(4944)]
    assert values[:4944] == values[4944:]
    first = next(iter(wirelens.packets(DEMO)))
    assert batches[0].timestamps_ns[0] == first.time_ns
    assert batches[0].files == (str(DEMO), str(DEMO))


def test_what_cannot_be_asked_for_is_refused() -> None:
    cases = {
        "window: ": {"window": "0"},
        "window: 5000000000 ns": {"window": "5s"},
        "keys: `host`": {"keys": ["host"]},
        "keys: one of them twice": {"keys": ["flow", "flow"]},
        "buckets: 1000": {"buckets": 1000},
        "source: `table`": {"source": "table"},
    }
    for message, arguments in cases.items():
        with pytest.raises(wirelens.OptionError, match=message):
            SnapshotOptions(**arguments)
    with pytest.raises(wirelens.OptionError, match="columns: `source_packets`"):
        list(snapshots(DEMO, columns=["source_packets"]))


def test_a_schema_names_what_numbers_mean() -> None:
    options = SnapshotOptions()
    assert options.schema(["ip_bytes"]).endswith("window_ns 10000000\ncolumns 1\nip_bytes\n")
    others = [options.hash(["ip_bytes"]), options.hash(["wire_bytes"])]
    others.append(options.replace(window="20ms").hash(["ip_bytes"]))
    assert len(set(others)) == 3
    assert options.replace(source="exact", layers=1).hash(["ip_bytes"]) == others[0]


def test_packets_are_judged_as_their_snapshots_are_scored(tmp_path: Path) -> None:
    path = model_file(tmp_path)
    model = PacketModel(path)
    assert (model.classes, model.columns) == (["small", "large"], ["ip_bytes", "flow_packets"])
    judged = list(judgements(DEMO, path))
    classes = [c for batch in judged for c in batch.classes]
    confidence = [c for batch in judged for c in batch.confidence]
    by_flow = [b for batch in judged for b in batch.by_flow]
    taken = list(snapshots(DEMO, columns=model.columns))
    values = [row for batch in taken for row in batch.values.tolist()]
    holds = [h for batch in taken for h in batch.holds_flow]
    assert by_flow == holds
    assert set(holds) == {0, 1}
    for by in (0, 1):
        rows = [index for index, held in enumerate(holds) if held == by]
        packed = struct.pack(f"={2 * len(rows)}f", *(x for row in rows for x in values[row]))
        scores = model.score(packed, by_flow=bool(by)).tolist()
        for row, score in zip(rows, scores, strict=True):
            assert classes[row] == score.index(max(score))
            assert confidence[row] == max(score)
            wanted = [0.25, 0.75] if not by or values[row][0] > 100 else [0.75, 0.25]
            assert score == wanted


def test_a_model_that_cannot_be_is_refused_by_the_field(tmp_path: Path) -> None:
    cases = {
        "schema: .*wanted": {"schema": "0" * 64},
        "format: .*wanted": {"format": "trees"},
        "columns.1.: .*wanted": {"columns": ["ip_bytes", "ttl"]},
        "trees.0..left.0.: 7; wanted": {"flow_forest": {"trees": [{**STUMP, "left": [7, -1, -1]}]}},
        "packet_forest: it reads `flow_packets`": {
            "packet_forest": {"trees": [{**STUMP, "feature": [1, -2, -2]}]}
        },
        "classes: .*twice": {"classes": ["a", "a"]},
        "flows: wanted": {"flows": 3},
    }
    for message, changes in cases.items():
        with pytest.raises(wirelens.ModelError, match=message):
            PacketModel(model_file(tmp_path, **changes))
    with pytest.raises(wirelens.ModelError, match="No such file"):
        PacketModel(tmp_path / "none.json")
    with pytest.raises(wirelens.OptionError, match="a multiple of 8"):
        PacketModel(model_file(tmp_path)).score(b"\0" * 12, by_flow=True)


def test_what_is_scored_is_32_bit_floats(tmp_path: Path) -> None:
    """Other numbers would be read as rows of something else."""
    model = PacketModel(model_file(tmp_path))
    rows = array.array("f", [40, 1, 1000, 2])
    wanted = [[0.75, 0.25], [0.25, 0.75]]
    for values in (rows, rows.tobytes(), memoryview(rows)[:], memoryview(rows).cast("B")):
        assert model.score(values, by_flow=True).tolist() == wanted
    for kind in ("d", "i", "h"):
        with pytest.raises(OptionError, match=f"format '{kind}'; wanted: 32-bit floats"):
            model.score(array.array(kind, [40, 1, 1000, 2]), by_flow=True)
    assert model.score(b"", by_flow=True).tolist() == []
    assert model.score(array.array("f"), by_flow=False).tolist() == []
