"""`wirelens.top` says what `wirelens top` says, and what became of the packets."""

import datetime
import gzip
from pathlib import Path
from typing import Any

import pytest
import wirelens
from captures import Frame, write_pcap
from command import DEMO, KEYS
from command import wirelens as command


def texts(table: wirelens.Table[Any]) -> list[dict[str, str]]:
    """Rows as CSV has them."""
    rows = []
    for row in table:
        named = {name: str(value) for name, value in row._asdict().items()}
        rows.append(named)
    return rows


def of_command(*arguments: str) -> list[dict[str, str]]:
    ran = command("top", "-q", "-r", DEMO, "--format", "csv", *arguments)
    assert ran.status == 0, ran.stderr
    return ran.rows


def in_ns(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Without the window's start, which CSV writes as a date."""
    return [{k: v for k, v in row.items() if k != "window_start_ns"} for row in rows]


@pytest.mark.parametrize("by", KEYS)
def test_every_key_gives_the_numbers_of_the_command(by: str) -> None:
    assert texts(wirelens.top(DEMO, by=by, n=0)) == of_command("--by", by, "-n", "0")


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ({"n": 3}, ["-n", "3"]),
        ({"sort": "packets"}, ["--sort", "packets"]),
        ({"count": 100}, ["-c", "100"]),
        ({"snaplen": 40, "by": "port"}, ["-s", "40", "--by", "port"]),
        ({"filter": "udp and port 53"}, ["-f", "udp and port 53"]),
        ({"decapsulate": False, "by": "pair"}, ["--no-decap", "--by", "pair"]),
        ({"max_keys": 64, "by": "flow", "n": 0, "seed": 1}, ["--max-keys", "64", "--by", "flow", "-n", "0", "--seed", "1"]),
    ],
)  # fmt: skip
def test_every_option_means_what_its_flag_means(
    options: dict[str, Any], arguments: list[str]
) -> None:
    assert texts(wirelens.top(DEMO, **options)) == of_command(*arguments)


@pytest.mark.parametrize("window", ["2s", 2, 2.0, datetime.timedelta(seconds=2)])
def test_windows_are_those_of_the_command(window: Any) -> None:
    table = wirelens.top(DEMO, window=window, n=2)
    assert in_ns(texts(table)) == in_ns(of_command("--window", "2s", "-n", "2"))
    starts = [row.window_start_ns for row in table]
    assert starts == sorted(starts)
    assert all(start % 2_000_000_000 == 0 for start in starts)


@pytest.mark.parametrize("window", [None, "1s"])
def test_threads_do_not_change_answers(window: str | None) -> None:
    answers = [
        list(wirelens.top(DEMO, by="flow", n=0, window=window, threads=threads))
        for threads in (1, 2, 5)
    ]
    assert answers[0]
    assert answers[1:] == answers[:1] * 2


def test_counts_add_up_and_the_summary_is_the_commands() -> None:
    table = wirelens.top(DEMO, by="port", filter="ip or arp")
    counts = table.counts
    malformed = sum(counts["malformed"].values())
    assert counts["received"] == counts["filtered"] + counts["processed"] + malformed
    assert counts["processed"] == counts["counted"] + counts["without_key"] + counts["cut"]
    assert counts["filtered"] > 0 and counts["without_key"] > 0
    assert table.summary == command("top", "-r", DEMO, "--by", "port", "ip", "or", "arp").stderr


def test_sources_are_files_folders_and_lists(tmp_path: Path) -> None:
    whole = wirelens.top(DEMO, n=0)
    (tmp_path / "demo.gz").write_bytes(gzip.compress(DEMO.read_bytes()))
    (tmp_path / "notes.txt").write_text("no capture")
    for source in (str(DEMO), [DEMO], tmp_path, [tmp_path]):
        assert list(wirelens.top(source, n=0)) == list(whole)
    twice = wirelens.top([DEMO, tmp_path], n=0)
    assert twice.column("bytes") == [2 * count for count in whole.column("bytes")]


def test_nothing_gives_no_rows_and_all_columns(tmp_path: Path) -> None:
    write_pcap(tmp_path / "none.pcap", [])
    table = wirelens.top(tmp_path / "none.pcap")
    assert len(table) == 0 and list(table) == []
    assert table.columns == ["src_ip", "packets", "bytes"]
    assert repr(table) == "src_ip  packets  bytes"
    assert table.to_polars().schema == wirelens.top(DEMO).to_polars().schema
    assert (table.to_pandas().dtypes == wirelens.top(DEMO).to_pandas().dtypes).all()


def test_malformed_packets_are_named(tmp_path: Path) -> None:
    ip = bytes.fromhex("4f00001400000000401100000a0000010a000002")
    frame = bytes(12) + b"\x08\x00" + ip
    write_pcap(tmp_path / "bad.pcap", [Frame(10**18, frame, len(frame))])
    by_cause = wirelens.top(tmp_path / "bad.pcap", by="port").counts["malformed"]
    assert sum(by_cause.values()) == 1
    packet = next(iter(wirelens.packets(tmp_path / "bad.pcap")))
    assert [packet.malformed] == list(by_cause)


def test_what_is_not_decoded_is_counted_by_link_type(tmp_path: Path) -> None:
    write_pcap(tmp_path / "a.pcap", [Frame(n, b"\x41\x88", 2) for n in range(5)], link=195)
    with pytest.warns(wirelens.CaptureWarning):
        table = wirelens.top(tmp_path / "a.pcap")
    assert table.counts["undecoded"] == {"IEEE802_15_4_WITHFCS": 5}
    assert "link type IEEE802_15_4_WITHFCS (195)" in table.summary
    assert wirelens.top(DEMO).counts["undecoded"] == {}
    assert table.counts["clamped_stamps"] == 0
