"""What a typed program may say; mypy reads it in strict mode, nothing runs it."""

from pathlib import Path
from typing import assert_type

import wirelens


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
    wirelens.top(path, by="colour")  # type: ignore[arg-type]  # a key that is none is found
    wirelens.flows(path, names="zeek")  # type: ignore[arg-type]
    wirelens.packets(path, n=3)  # type: ignore[call-arg]  # and an argument that is none
    table.to_parquet(path, overwrite=True)
    try:
        wirelens.top(path)
    except (wirelens.CaptureNotFoundError, wirelens.FilterError) as error:
        assert_type(error, wirelens.CaptureNotFoundError | wirelens.FilterError)
