"""What a typed program may say; mypy reads it in strict mode, nothing runs it."""

from pathlib import Path
from typing import Any, assert_type

import wirelens
from wirelens import rows


def use(path: Path) -> None:
    """Every public name in the types that it promises."""
    table = wirelens.top([path, "other.pcap"], by="pair", n=0, window="1s", sort="packets")
    assert_type(len(table), int)
    assert_type(table.columns, list[str])
    assert_type(table.fields[0], wirelens.Field)
    stream = wirelens.packets(path, "tcp", payload=64, batch_size=100)
    assert_type(stream, wirelens.Stream[wirelens.Packet])
    for packet in stream:
        assert_type(packet.time_ns, int | None)
        assert_type(packet.wire_len, int)
        assert_type(packet.src_ip, str | None)
        assert_type(packet.payload, bytes | None)
    for batch in stream.batches():
        assert_type(batch, wirelens.Batch)
        assert_type(len(batch), int)
    assert_type(stream.head(3)[0], wirelens.Packet)
    flows = wirelens.flows(path, stats=True, window="10s", names="nfstream", max_flows=1000)
    assert_type(flows.summary, str | None)
    flows.to_parquet(path)
    typed_rows(path)
    wirelens.top(path, by="colour")  # type: ignore[call-overload]  # a key that is none is found
    wirelens.flows(path, names="zeek")  # type: ignore[call-overload]
    wirelens.packets(path, n=3)  # type: ignore[call-arg]  # and an argument that is none
    table.to_parquet(path, overwrite=True)
    try:
        wirelens.top(path, by="flow", n=3)
    except (wirelens.CaptureNotFoundError, wirelens.FilterError) as error:
        assert_type(error, wirelens.CaptureNotFoundError | wirelens.FilterError)


def typed_rows(path: Path) -> None:
    """What each row has, by the question."""
    for flow in wirelens.flows(path, window="10s"):
        assert_type(flow, rows.Flow)
        assert_type(flow.community_id, str)
        assert_type(flow.first_ns, int | None)
        assert_type(flow.src_bytes, int)
        assert_type(flow.window_start_ns, int)
        print(flow.colour)  # type: ignore[attr-defined]  # a column that is none is found
    live = wirelens.flows(interface="eth0", stats=True, duration=10)
    assert_type(live, wirelens.Stream[rows.FlowStatistics])
    assert_type(next(iter(live)).end_reason, str)
    assert_type(wirelens.flows(path, names="nfstream").head()[0], rows.NfstreamFlow)
    assert_type(wirelens.top(path)[0].src_ip, str)
    assert_type(wirelens.top(path, "port", 5, decapsulate=False)[0].port, int)
    assert_type(wirelens.top(interface="eth0", by="port", duration="5s"), wirelens.Table[Any])
    for verdict in wirelens.classify_flows(path, "services"):
        assert_type(verdict.label, str)
    for host in wirelens.classify_flows(path, "devices", by="host", hosts_max=1000):
        assert_type(host, rows.HostVerdict)
        assert_type(host.confidence, float | None)


class Counts:
    """An application, by its two names alone."""

    name = "counts"

    def on_flows(self, batch: wirelens.Batch) -> list[dict[str, int]]:
        """A row a batch."""
        return [{"flows": len(batch)}]


def typed_run(path: Path) -> None:
    """A run, and what it gives."""
    result = wirelens.run({"flows": {"stats": True}}, read=path, applications=[Counts()])
    assert_type(result, wirelens.Run)
    assert_type(result.tables["flows"][0].community_id, str)
    assert_type(result.tables["unanswered"][0].packets, int)
    assert_type(result.tables["counts"], wirelens.Table[Any])
    assert_type(result.is_interrupted, bool)
    wirelens.run("wirelens.toml", applications=["counts"])  # type: ignore[list-item]
    try:
        wirelens.run("wirelens.toml", interface="eth0", duration="1h")
    except wirelens.LossError as lost:
        assert_type(lost.result, wirelens.Run | None)
