"""`wirelens.flows` says what `wirelens flows` says, in every layout, in little memory."""

import os
import pickle
import signal
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest
import wirelens
from captures import Frame, write_pcap
from command import DEMO
from command import wirelens as command
from programs import PATIENCE_S, program, reader_threads, wait_until

LAYOUTS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    ({"stats": True}, ["--stats"]),
    ({"window": "2s"}, ["--window", "2s"]),
    ({"window": 0.5, "stats": True}, ["--window", "500ms", "--stats"]),
    ({"names": "nfstream"}, ["--names", "nfstream"]),
    ({"macs": True}, ["--macs"]),
    ({"macs": True, "stats": True}, ["--macs", "--stats"]),
]

# In the order of NFStream's `NFlow`, version 6, without tunnels and nDPI.
NFSTREAM = """
id expiration_id src_ip src_mac src_oui src_port dst_ip dst_mac dst_oui dst_port
protocol ip_version vlan_id
bidirectional_first_seen_ms bidirectional_last_seen_ms bidirectional_duration_ms
bidirectional_packets bidirectional_bytes
src2dst_first_seen_ms src2dst_last_seen_ms src2dst_duration_ms src2dst_packets src2dst_bytes
dst2src_first_seen_ms dst2src_last_seen_ms dst2src_duration_ms dst2src_packets dst2src_bytes
bidirectional_min_ps bidirectional_mean_ps bidirectional_stddev_ps bidirectional_max_ps
src2dst_min_ps src2dst_mean_ps src2dst_stddev_ps src2dst_max_ps
dst2src_min_ps dst2src_mean_ps dst2src_stddev_ps dst2src_max_ps
bidirectional_min_piat_ms bidirectional_mean_piat_ms
bidirectional_stddev_piat_ms bidirectional_max_piat_ms
src2dst_min_piat_ms src2dst_mean_piat_ms src2dst_stddev_piat_ms src2dst_max_piat_ms
dst2src_min_piat_ms dst2src_mean_piat_ms dst2src_stddev_piat_ms dst2src_max_piat_ms
bidirectional_syn_packets bidirectional_cwr_packets bidirectional_ece_packets
bidirectional_urg_packets bidirectional_ack_packets bidirectional_psh_packets
bidirectional_rst_packets bidirectional_fin_packets
src2dst_syn_packets src2dst_cwr_packets src2dst_ece_packets src2dst_urg_packets
src2dst_ack_packets src2dst_psh_packets src2dst_rst_packets src2dst_fin_packets
dst2src_syn_packets dst2src_cwr_packets dst2src_ece_packets dst2src_urg_packets
dst2src_ack_packets dst2src_psh_packets dst2src_rst_packets dst2src_fin_packets
""".split()


def of_command(*arguments: str) -> list[dict[str, str]]:
    ran = command("flows", "-q", "-r", DEMO, "--format", "csv", *arguments)
    assert ran.status == 0, ran.stderr
    return ran.rows


def typed(rows: list[dict[str, str]], fields: list[wirelens.Field]) -> list[tuple[Any, ...]]:
    """CSV's texts as the types that the columns declare; an empty field is no value."""

    def value(field: wirelens.Field, text: str) -> Any:
        if not text:
            assert field.nullable, field.name
            return None
        if field.type == "Utf8":
            return text
        return float(text) if field.type == "Float64" else int(text)

    return [tuple(value(field, row[field.name]) for field in fields) for row in rows]


@pytest.mark.parametrize(("options", "arguments"), LAYOUTS)
def test_every_layout_has_the_numbers_of_the_command(
    options: dict[str, Any], arguments: list[str]
) -> None:
    wanted = of_command(*arguments)
    stream = wirelens.flows(DEMO, **options)
    assert stream.columns == list(wanted[0])
    rows = [tuple(row) for row in stream]
    assert rows == typed(wanted, stream.fields)
    assert stream.to_arrow().num_rows == len(rows)


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ({"idle_timeout": "500ms"}, ["--idle-timeout", "500ms"]),
        ({"idle_timeout": 0.02, "active_timeout": 1}, ["--idle-timeout", "20ms", "--active-timeout", "1s"]),
        ({"filter": "udp or vlan"}, ["-f", "udp or vlan"]),
        ({"max_flows": 64, "seed": 1}, ["--max-flows", "64", "--seed", "1"]),
        ({"decapsulate": False}, ["--no-decap"]),
        ({"count": 1000, "snaplen": 60}, ["-c", "1000", "-s", "60"]),
        ({"threads": 1, "batch_size": 7}, ["--threads", "2"]),
    ],
)  # fmt: skip
def test_every_option_means_what_its_flag_means(
    options: dict[str, Any], arguments: list[str]
) -> None:
    stream = wirelens.flows(DEMO, **options)
    assert [tuple(row) for row in stream] == typed(of_command(*arguments), stream.fields)


@pytest.mark.parametrize(("options", "_arguments"), LAYOUTS)
def test_threads_do_not_change_answers(options: dict[str, Any], _arguments: list[str]) -> None:
    options = {"idle_timeout": "1s", **options}
    one, two = (list(wirelens.flows(DEMO, threads=n, **options)) for n in (1, 2))
    assert one == two and len(one) >= 312


def test_nfstream_names_are_nfstreams() -> None:
    assert wirelens.flows(DEMO, names="nfstream").columns == NFSTREAM
    assert wirelens.flows(DEMO, names="nfstream", stats=True).columns == NFSTREAM


def test_counts_and_summary_are_the_commands() -> None:
    stream = wirelens.flows(DEMO, filter="ip or arp", idle_timeout="1s")
    assert stream.counts is None and stream.summary is None
    rows = list(stream)
    ran = command("flows", "-r", DEMO, "--format", "csv", "--idle-timeout", "1s", "ip or arp")
    assert stream.summary == ran.stderr
    counts = stream.counts
    assert counts is not None
    malformed = sum(counts["malformed"].values())
    assert counts["received"] == counts["filtered"] + counts["processed"] + malformed
    assert counts["processed"] == counts["counted"] + counts["without_key"] + counts["cut"]
    assert sum(counts["ended"].values()) == len(rows)
    for reason, count in counts["ended"].items():
        assert count == sum(row.end_reason == reason for row in rows)
    assert counts["counted"] == sum(row.src_packets + row.dst_packets for row in rows)
    assert (counts["late"], counts["clock_steps"]) == (0, 0)


def test_a_clock_that_is_set_back_is_counted(tmp_path: Path) -> None:
    frames = [datagram(0, seconds * 10**9) for seconds in (1000, 1001, 500, 501)]
    write_pcap(tmp_path / "back.pcap", frames)
    stream = wirelens.flows(tmp_path / "back.pcap")
    assert [row.src_packets for row in stream] == [2, 2]
    assert stream.counts is not None and stream.counts["clock_steps"] == 1


def test_what_is_missing_is_missing_in_every_form(tmp_path: Path) -> None:
    frames = [datagram(0, 10**18), datagram(1, 10**18 + 1), datagram(1, 10**18 + 2, vlan=7)]
    write_pcap(tmp_path / "few.pcap", frames)
    stream = wirelens.flows(tmp_path / "few.pcap", stats=True)
    lone, pair = stream
    assert (lone.src_gap_min_ns, lone.src_size_std, lone.dst_first_ns, lone.vlan) == (None,) * 4
    assert (pair.src_gap_min_ns, pair.src_gap_std_ns, pair.dst_syn_packets) == (1, None, 0)
    frame = stream.to_pandas()
    assert str(frame.dtypes["src_gap_min_ns"]) == "UInt64" and str(frame.dtypes["vlan"]) == "UInt16"
    assert frame["src_gap_min_ns"].tolist() == [pandas.NA, 1]
    assert frame["dst_first_ns"].isna().all() and frame["src_syn_packets"].tolist() == [0, 0]
    assert stream.to_polars()["src_gap_min_ns"].to_list() == [None, 1]
    assert stream.to_polars().schema["first_ns"] == polars.Datetime("ns", "UTC")
    assert stream.to_arrow()["dst_size_max"].null_count == 2


@pytest.mark.parametrize(("options", "arguments"), LAYOUTS)
def test_parquet_is_the_commands(
    tmp_path: Path, options: dict[str, Any], arguments: list[str]
) -> None:
    ours, commands = tmp_path / "ours.parquet", tmp_path / "commands.parquet"
    wirelens.flows(DEMO, **options).to_parquet(ours)
    assert command("flows", "-q", "-r", DEMO, "-o", commands, *arguments).status == 0
    assert ours.read_bytes() == commands.read_bytes()
    arrow = wirelens.flows(DEMO, **options).to_arrow()
    assert pyarrow.parquet.read_table(ours).equals(arrow)
    assert sorted(os.listdir(tmp_path)) == ["commands.parquet", "ours.parquet"]


def test_features_become_a_matrix() -> None:
    frame = wirelens.flows(DEMO, stats=True).to_pandas()
    numbers = frame.select_dtypes("number").drop(columns=["vlan"])
    matrix = numbers.to_numpy("float64", na_value=float("nan"))
    assert matrix.shape == (312, 56)


def test_a_stream_of_flows_goes_to_another_process() -> None:
    stream = wirelens.flows(DEMO, window="2s", idle_timeout=1)
    assert repr(stream).startswith("<wirelens.Stream flows of ")
    again = pickle.loads(pickle.dumps(stream))
    assert list(again) == list(stream)
    assert list(stream.head(3)) == list(stream)[:3]


def datagram(number: int, time_ns: int, vlan: int | None = None, size: int = 8) -> Frame:
    """From an address that only this number has."""
    tag = b"" if vlan is None else struct.pack(">HH", 0x8100, vlan)
    head = struct.pack(">BBHHHBBHII", 0x45, 0, 20 + size, 0, 0, 64, 17, 0, 167772160 + number, 1)
    data = bytes(12) + tag + b"\x08\x00" + head + struct.pack(">4H", 1000, 53, size, 0)
    return Frame(time_ns, data.ljust(34 + size, b"\0"), 34 + size)


FLOW_COUNT = 200_000
# Each flow has one datagram of this size, so the capture has 200 MB.
DATAGRAM_BYTES = 1000
# A row alone has 700 bytes of statistics; all of them would take 140 MB. Parts of the capture that
# are mapped count as well, more of them where the machine is busy: 84 MB were seen.
RESIDENT_MAX_KB = 100 << 10


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A datagram of every flow, a millisecond apart."""
    path = tmp_path_factory.mktemp("many") / "many.pcap"
    frames = (datagram(i, 10**18 + i * 10**6, size=DATAGRAM_BYTES) for i in range(FLOW_COUNT))
    write_pcap(path, frames)
    yield path
    path.unlink()


@pytest.mark.parametrize(
    ("options", "reason"), [("max_flows=1024", "evicted"), ("idle_timeout=1", "idle")]
)
@pytest.mark.parametrize(
    "consume",
    [
        "for batch in stream.batches(): count += len(batch)",
        "for row in stream: count += 1",
        "stream.to_parquet(sys.argv[2]); count = sum(stream.counts['ended'].values())",
    ],
)
def test_memory_is_flat(
    many: Path, tmp_path: Path, consume: str, options: str, reason: str
) -> None:
    text = f"""
import resource, sys, wirelens
resource.setrlimit(resource.RLIMIT_DATA, (200 << 20, 200 << 20))
def peak():
    lines = dict(line.split(":") for line in open("/proc/self/status"))
    return int(lines["VmHWM"].split()[0])
count, before = 0, peak()
stream = wirelens.flows(sys.argv[1], stats=True, {options})
{consume}
print(count, stream.counts["ended"]["{reason}"], peak() - before)
"""
    command_line = program(text, many, tmp_path / "many.parquet")
    # The C library sets 64 MB aside for each thread that finds another one allocating, and the
    # limit takes them for used.
    alone = os.environ | {"MALLOC_ARENA_MAX": "1"}
    done = subprocess.run(command_line, check=False, capture_output=True, text=True, env=alone)
    assert done.returncode == 0, done.stderr
    count, ended, peak_kb = map(int, done.stdout.split())
    assert count == FLOW_COUNT
    assert ended > 0.9 * FLOW_COUNT
    # A row group of 68 columns is held until it is full.
    assert peak_kb < RESIDENT_MAX_KB * (3 if "parquet" in consume else 1)


def test_leaving_a_loop_stops_the_reader(many: Path) -> None:
    before = reader_threads()
    for _flow in wirelens.flows(many, idle_timeout=1):
        break
    wait_until(lambda: reader_threads() <= before, "the reader goes on")
    flows = iter(wirelens.flows(many, idle_timeout=1))
    next(flows)
    del flows
    wait_until(lambda: reader_threads() <= before, "an iterator that was dropped goes on")
    wirelens.flows(many)
    wait_until(lambda: reader_threads() <= before, "a stream nobody reads goes on")


def test_an_interrupt_leaves_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    text = """
import sys, wirelens
print("ready", flush=True)
try:
    wirelens.flows(sys.argv[1]).to_parquet(sys.argv[2])
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    path = tmp_path / "flows.parquet"
    command_line = program(text, tmp_path / "fifo", path)
    with subprocess.Popen(command_line, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        with (tmp_path / "fifo").open("wb") as writer:
            writer.write(DEMO.read_bytes()[:100_000])
            writer.flush()
            partial = path.with_name("flows.parquet.partial")
            wait_until(partial.exists, "no file is begun")
            child.send_signal(signal.SIGINT)
            assert child.communicate(timeout=PATIENCE_S)[0] == "interrupted\n"
    assert os.listdir(tmp_path) == ["fifo"]
