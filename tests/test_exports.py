"""Flows as records of other tools and as Parquet folders, each read by its own reader: Suricata's
schema, nfdump's collector, tshark, DuckDB, Polars, and zat (with the libraries of `test-train`, as
it brings scikit-learn along)."""

import csv
import json
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import jsonschema
import polars
import pytest
from command import DEMO, PROGRAM, ROOT, wirelens

NAMES = ROOT / "testdata/names.pcap"
MODEL = ROOT / "testdata/cascade"
SCHEMA = json.loads((ROOT / "testdata/suricata-eve.schema.json").read_text())
# `jsonschema.validate` would check the schema itself with each event, in a tenth of a second.
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
CAPTURES = (DEMO, NAMES)

Event = dict[str, Any]


def export(*arguments: str | Path) -> None:
    ran = wirelens("flows", "-q", *arguments)
    assert ran.status == 0, ran.stderr


def events(*arguments: str | Path) -> list[Event]:
    ran = wirelens("flows", "-q", "--format", "eve", *arguments)
    assert ran.status == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def rows(capture: Path, *arguments: str) -> list[dict[str, str]]:
    return wirelens("flows", "-q", "-r", capture, "--format", "csv", *arguments).rows


def zeek(path: Path) -> list[dict[str, str]]:
    """A log by its own header, without any library."""
    lines = path.read_text().splitlines()
    assert lines[0] == "#separator \\x09" and lines[-1].startswith("#close\t")
    head = {line.split("\t")[0]: line.split("\t")[1:] for line in lines if line[0] == "#"}
    assert len(head["#fields"]) == len(head["#types"])
    return [
        dict(zip(head["#fields"], line.split("\t"), strict=True))
        for line in lines
        if line[0] != "#"
    ]


# --- EVE ------------------------------------------------------------------------------------


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
@pytest.mark.parametrize("model", [(), ("--model", str(MODEL))], ids=["names", "model"])
def test_events_are_valid_by_suricatas_schema_without_our_one_object(
    capture: Path, model: tuple[str, ...]
) -> None:
    found = events("-r", capture, *model)
    assert found
    for event in found:
        VALIDATOR.validate({key: value for key, value in event.items() if key != "wirelens"})
        assert event["event_type"] in ("flow", "tls", "quic", "dns")
        assert event["event_type"] in event


def test_the_schema_can_refuse() -> None:
    event = events("-r", NAMES)[0]
    for wrong in (event, event | {"flow_id": "1"}, event | {"timestamp": "now"}):
        if "wirelens" in wrong or wrong is not event:
            with pytest.raises(jsonschema.ValidationError):
                VALIDATOR.validate(wrong | {"wirelens": {}})


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_events_say_what_rows_say(capture: Path) -> None:
    found = events("-r", capture)
    flows = [event for event in found if event["event_type"] == "flow"]
    wanted = rows(capture, "--read-names")
    told = [
        (
            event["community_id"], event["src_ip"], event["dest_ip"],
            *(str(event["flow"][key]) for key in (
                "pkts_toserver", "bytes_toserver", "pkts_toclient", "bytes_toclient")),
            event["wirelens"]["end_reason"], event["wirelens"].get("server_name", ""),
        )
        for event in flows
    ]  # fmt: skip
    columns = (
        "community_id", "src_ip", "dst_ip", "src_packets", "src_bytes", "dst_packets", "dst_bytes",
        "end_reason", "server_name",
    )  # fmt: skip
    assert told == [tuple(row[name] for name in columns) for row in wanted]
    kinds = Counter(event["event_type"] for event in found)
    protocols = Counter(row["app_protocol"] for row in wanted)
    assert kinds["tls"] == protocols["tls"] and kinds["quic"] == protocols["quic"]
    queries = [row["dns_query"] for row in wanted if row["app_protocol"] == "dns"]
    dns = [event["dns"]["rrname"] for event in found if event["event_type"] == "dns"]
    assert dns == [name for name in queries if name]
    names = [event[event["event_type"]].get("sni", "") for event in found
             if event["event_type"] in ("tls", "quic")]  # fmt: skip
    assert names == [row["server_name"] for row in wanted if row["app_protocol"] in ("tls", "quic")]
    # All events of a flow have its number, and no other flow has it.
    by_id: dict[int, set[str]] = {}
    for event in found:
        by_id.setdefault(event["flow_id"], set()).add(event["community_id"])
    assert all(len(ids) == 1 for ids in by_id.values()) and len(by_id) == len(flows)


def test_what_ports_of_icmp_mean_is_said() -> None:
    icmp = [event for event in events("-r", DEMO) if "ICMP" in event["proto"]]
    assert icmp and all("src_port" not in event for event in icmp)
    echo = [event for event in icmp if event["icmp_type"] in (8, 128)]
    assert echo and all("icmp_code" not in event for event in echo)
    assert {event["response_icmp_type"] for event in echo} <= {0, 129}


def test_a_verdict_is_in_our_object_and_in_no_app_proto(tmp_path: Path) -> None:
    labelled = rows(DEMO, "--model", str(MODEL))
    found = events("-r", DEMO, "--model", MODEL)
    assert [event["wirelens"]["label"] for event in found] == [row["label"] for row in labelled]
    assert all("app_proto" not in event for event in found)
    export("-r", DEMO, "--model", MODEL, "--format", "zeek", "-o", tmp_path / "logs")
    conn = zeek(tmp_path / "logs/conn.log")
    assert [row["wirelens_label"] for row in conn] == [row["label"] for row in labelled]
    assert {row["service"] for row in conn} == {"-"}


def test_verdicts_of_classify_are_in_the_same_object() -> None:
    ran = wirelens("classify", "-q", "-r", DEMO, "--model", MODEL, "--format", "eve")
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    numbers = {event["community_id"]: event["flow_id"] for event in events("-r", DEMO)}
    for event in found:
        assert event["event_type"] == "wirelens"
        VALIDATOR.validate({k: v for k, v in event.items() if k != "wirelens"})
        assert numbers[event["community_id"]] == event["flow_id"]


# --- Zeek -----------------------------------------------------------------------------------


def tshark(*fields: str, display: str = "") -> list[list[str]]:
    command = ["tshark", "-r", DEMO, "-T", "fields", "-E", "occurrence=f"]
    command += [word for name in fields for word in ("-e", name)]
    command += ["-Y", display] if display else []
    ran = subprocess.run(command, capture_output=True, check=True, text=True)
    return [line.split("\t") for line in ran.stdout.splitlines()]


def history(flags: int, data: int) -> str:
    """The letter of a segment, written again from Zeek's `update_history`."""
    kinds = flags & 7
    if bin(kinds).count("1") > 1:
        return "I" if kinds & 1 and kinds & 4 else "Q"
    if kinds & 2:
        return "H" if flags & 16 else "S"
    return "F" if kinds & 1 else "R" if kinds & 4 else "D" if data else "A" if flags & 16 else ""


def test_conn_log_counts_and_orders_as_tshark_sees_packets(tmp_path: Path) -> None:
    export("-r", DEMO, "--format", "zeek", "-o", tmp_path)
    conn = zeek(tmp_path / "conn.log")
    assert len(conn) == len(rows(DEMO))
    seen = tshark("ip.len", "ipv6.plen")
    ip_bytes = sum(int(v4 or 0) + (int(v6) + 40 if v6 else 0) for v4, v6 in seen)
    assert sum(int(row["orig_ip_bytes"]) + int(row["resp_ip_bytes"]) for row in conn) == ip_bytes
    # Of fragments only the first has a header here, and tshark puts them together.
    dns = [row for row in conn if row["proto"] == "udp" and row["id.resp_p"] == "53"]
    tcp = [row for row in conn if row["proto"] == "tcp"]
    for display, field, header, told in (
        ("tcp && !icmp && !icmpv6", "tcp.len", 0, tcp),
        ("udp.port == 53 && !icmp && !icmpv6", "udp.length", 8, dns),
    ):
        seen = tshark(field, display=display)
        wanted = sum(int(length) - header for (length,) in seen if length)
        assert sum(int(row["orig_bytes"]) + int(row["resp_bytes"]) for row in told) == wanted
    streams: dict[str, str] = {}
    ports: dict[str, str] = {}
    fields = ("tcp.stream", "tcp.srcport", "tcp.flags", "tcp.len")
    for stream, port, flags, length in tshark(*fields, display="tcp && !icmp && !icmpv6"):
        letter = history(int(flags, 16), int(length))
        if port != ports.setdefault(stream, port):
            letter = letter.lower()
        if letter not in streams.setdefault(stream, ""):
            streams[stream] += letter
    told = [row["history"] for row in conn if row["proto"] == "tcp"]
    assert Counter(told) == Counter(streams.values())
    states = Counter(row["conn_state"] for row in conn if row["proto"] == "tcp")
    assert states["SF"] > 50 and set(states) <= {"SF", "S1", "REJ", "RSTO", "RSTR", "OTH", "S3"}


def test_logs_join_by_uid_and_both_forms_say_the_same(tmp_path: Path) -> None:
    for capture in CAPTURES:
        tabs, lines = tmp_path / f"{capture.stem}", tmp_path / f"{capture.stem}-json"
        export("-r", capture, "--format", "zeek", "-o", tabs)
        export("-r", capture, "--format", "zeek-json", "-o", lines)
        uids = [row["uid"] for row in zeek(tabs / "conn.log")]
        assert len(set(uids)) == len(uids)
        for name in ("conn.log", "ssl.log", "dns.log"):
            table = zeek(tabs / name)
            assert {row["uid"] for row in table} <= set(uids)
            objects = [json.loads(line) for line in (lines / name).read_text().splitlines()]
            assert len(objects) == len(table)
            for row, item in zip(table, objects, strict=True):
                assert {key for key, value in row.items() if value != "-"} == item.keys()
                assert item["uid"] == row["uid"] and item["ts"] == float(row["ts"])


@pytest.mark.train
def test_zat_reads_every_log(tmp_path: Path) -> None:
    from zat.json_log_to_dataframe import JSONLogToDataFrame
    from zat.log_to_dataframe import LogToDataFrame
    from zat.zeek_log_reader import ZeekLogReader

    export("-r", DEMO, "--format", "zeek", "-o", tmp_path / "tabs", "--model", MODEL)
    export("-r", DEMO, "--format", "zeek", "-o", tmp_path / "names")
    export("-r", DEMO, "--format", "zeek-json", "-o", tmp_path / "json")
    wanted = rows(DEMO)
    read = list(ZeekLogReader(str(tmp_path / "tabs/conn.log")).readrows())
    assert [row["community_id"] for row in read] == [row["community_id"] for row in wanted]
    assert [row["orig_pkts"] for row in read] == [int(row["src_packets"]) for row in wanted]
    for name in ("conn", "ssl", "dns"):
        frame = LogToDataFrame().create_dataframe(str(tmp_path / f"names/{name}.log"))
        again = JSONLogToDataFrame().create_dataframe(str(tmp_path / f"json/{name}.log"))
        assert len(frame) == len(again) == len(zeek(tmp_path / f"names/{name}.log"))
        assert list(frame["uid"]) == list(again["uid"])


# --- IPFIX ----------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def collected(folder: Path, *arguments: str | Path) -> list[dict[str, str]]:
    """What nfdump finds in what its collector has received."""
    port = free_port()
    command = ["nfcapd", "-w", folder, "-p", str(port), "-b", "127.0.0.1", "-t", "3600"]
    with (folder / "said").open("w") as said:
        collector = subprocess.Popen(command, stdout=said, stderr=said)
    try:
        for _ in range(100):
            if "Startup" in (folder / "said").read_text():
                break
            time.sleep(0.05)
        export("-r", DEMO, "-o", f"udp://127.0.0.1:{port}", *arguments)
        time.sleep(0.5)
    finally:
        collector.send_signal(signal.SIGTERM)
        collector.wait(timeout=20)
    assert "Sequence Errors: 0, Bad Packets: 0" in (folder / "said").read_text()
    (folder / "said").unlink()
    ran = subprocess.run(
        ["nfdump", "-R", folder, "-N", "-o", "csv"],
        capture_output=True, check=True, text=True,
    )  # fmt: skip
    lines = ran.stdout.splitlines()
    assert lines[0].startswith("ts,te,td,sa,da,")
    return [row for row in csv.DictReader(lines) if row["pr"]]


def test_nfdumps_collector_reads_a_record_for_each_direction(tmp_path: Path) -> None:
    export("-r", DEMO, "--format", "zeek", "-o", tmp_path / "logs")
    wanted = Counter()
    for row in zeek(tmp_path / "logs/conn.log"):
        ends = (row["id.orig_h"], row["id.resp_h"])
        wanted[(*ends, row["orig_pkts"], row["orig_ip_bytes"])] += 1
        if row["resp_pkts"] != "0":
            wanted[(*ends[::-1], row["resp_pkts"], row["resp_ip_bytes"])] += 1
    (tmp_path / "nf").mkdir()
    found = collected(tmp_path / "nf")
    assert Counter((row["sa"], row["da"], row["ipkt"], row["ibyt"]) for row in found) == wanted
    tcp = [row for row in found if row["pr"] == "TCP"]
    assert all("S" in row["flg"] or row["flg"].strip(".") for row in tcp)
    first = min(row["first_ns"] for row in rows(DEMO))
    assert min(row["ts"] for row in found) == time.strftime(
        "%Y-%m-%d %H:%M:%S", time.gmtime(int(first) // 10**9)
    )


def test_nfdumps_collector_reads_both_directions_in_one_record(tmp_path: Path) -> None:
    found = collected(tmp_path, "--biflow")
    wanted = rows(DEMO)
    packets = [(row["ipkt"], row["opkt"]) for row in found]
    assert Counter(packets) == Counter((row["src_packets"], row["dst_packets"]) for row in wanted)


def messages(data: bytes) -> list[tuple[int, bytes]]:
    """Sequence number and body of each message; lengths have to add up."""
    found, at = [], 0
    while at < len(data):
        version, length, _, sequence, domain = struct.unpack_from("!HHIII", data, at)
        assert (version, domain) == (10, 0) and length >= 20
        found.append((sequence, data[at + 16 : at + length]))
        at += length
    assert at == len(data)
    return found


def test_tshark_reads_the_file_of_messages(tmp_path: Path) -> None:
    path = tmp_path / "flows.ipfix"
    export("-r", DEMO, "-o", path)
    assert messages(path.read_bytes())
    command = ["tshark", "-r", path, "-T", "fields", "-e", "cflow.packets", "-e", "cflow.octets"]
    ran = subprocess.run(command, capture_output=True, check=True, text=True)
    packets = octets = 0
    for line in ran.stdout.splitlines():
        columns = [[int(value) for value in part.split(",") if value]
                   for part in line.split("\t")]  # fmt: skip
        packets, octets = packets + sum(columns[0]), octets + sum(columns[1])
    assert packets == sum(int(row["src_packets"]) + int(row["dst_packets"]) for row in rows(DEMO))
    export("-r", DEMO, "--format", "zeek", "-o", tmp_path)
    conn = zeek(tmp_path / "conn.log")
    assert octets == sum(int(row["orig_ip_bytes"]) + int(row["resp_ip_bytes"]) for row in conn)


def test_private_elements_come_with_a_number_of_ones_own(tmp_path: Path) -> None:
    number = 32473
    for name, more in (("plain", ()), ("own", ("--enterprise", str(number)))):
        export("-r", DEMO, "-o", tmp_path / f"{name}.ipfix", *more)
    plain, own = ((tmp_path / f"{name}.ipfix").read_bytes() for name in ("plain", "own"))
    ids = [row["community_id"].encode() for row in rows(DEMO)]
    assert struct.pack("!I", number) in own and all(text in own for text in ids)
    assert not any(text in plain for text in ids) and b"1:" not in plain[:2000]
    export("-r", DEMO, "-o", tmp_path / "label.ipfix", "--enterprise", str(number),
           "--model", MODEL)  # fmt: skip
    label = rows(DEMO, "--model", str(MODEL))[0]["label"].encode()
    assert bytes([len(label)]) + label in (tmp_path / "label.ipfix").read_bytes()


def test_a_collector_over_tcp_is_sent_what_the_file_has(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        received = bytearray()

        def receive() -> None:
            connection, _ = server.accept()
            with connection:
                while part := connection.recv(1 << 16):
                    received.extend(part)

        receiving = threading.Thread(target=receive)
        receiving.start()
        export("-r", DEMO, "-o", f"tcp://127.0.0.1:{server.getsockname()[1]}")
        receiving.join(timeout=10)
    path = tmp_path / "flows.ipfix"
    export("-r", DEMO, "-o", path)
    assert bytes(received) == path.read_bytes()


def test_templates_are_sent_again_over_udp_and_refused_datagrams_are_counted() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        ran = wirelens("flows", "-r", DEMO, "-o", f"udp://127.0.0.1:{port}")
        listening.settimeout(1)
        found = []
        with pytest.raises(TimeoutError):
            while True:
                found += messages(listening.recv(1 << 16))
    assert f"{len(found)} messages, 0 of them refused" in ran.stderr
    with_templates = [body for _, body in found if body[:2] == b"\0\2"]
    assert len(found) // 20 <= len(with_templates) < len(found)
    assert [sequence for sequence, _ in found] == sorted(sequence for sequence, _ in found)
    gone = wirelens("flows", "-r", DEMO, "-o", f"udp://127.0.0.1:{port}")
    before, said, _ = gone.stderr.partition(" of them refused: what is in these")
    sent, refused = [word for word in before.split() if word.isdigit()][-2:]
    assert gone.status == 1 and said and sent == refused != "0", gone.stderr


# --- Parquet --------------------------------------------------------------------------------


@pytest.mark.parametrize("length", ["day", "hour", "minute"])
def test_duckdb_and_polars_read_folders_by_time(tmp_path: Path, length: str) -> None:
    folder = tmp_path / "flows"
    export("-r", DEMO, "-o", folder, "--partition", length)
    wanted = rows(DEMO)
    keys = ["date", "hour", "minute"][: ["day", "hour", "minute"].index(length) + 1]
    of = "%Y-%m-%d/%H/%M"
    counts = Counter(
        "/".join(time.strftime(of, time.gmtime(int(row["last_ns"]) // 10**9)).split("/")
                 [: len(keys)])
        for row in wanted
    )  # fmt: skip
    source = f"read_parquet('{folder}/**/*.parquet', hive_partitioning = true)"
    query = f"SELECT {', '.join(keys)}, count(*)::INT FROM {source} GROUP BY ALL"
    found = duckdb.sql(query).fetchall()

    def named(parts: tuple[Any, ...]) -> str:
        return "/".join([str(parts[0])[:10], *(f"{int(part):02}" for part in parts[1:])])

    assert {named(row[:-1]): row[-1] for row in found} == counts
    frame = polars.scan_parquet(folder, hive_partitioning=True).collect()
    assert {named(row[:-1]): row[-1] for row in frame.group_by(keys).len().iter_rows()} == counts
    assert sorted(frame["community_id"]) == sorted(row["community_id"] for row in wanted)
    assert frame["src_bytes"].sum() == sum(int(row["src_bytes"]) for row in wanted)
    one_day = duckdb.sql(f"SELECT count(*) FROM {source} WHERE date = '2026-11-21'").fetchall()
    assert one_day == [(len(wanted),)]
    # Another run adds to it.
    export("-r", DEMO, "-o", folder, "--partition", length)
    assert duckdb.sql(f"SELECT count(*) FROM {source}").fetchall() == [(2 * len(wanted),)]
    assert not list(folder.rglob("*.partial"))


# --- Rotation -------------------------------------------------------------------------------


@pytest.mark.parametrize("by", [("--rotate-time", "5s"), ("--rotate-bytes", "8K")], ids="".join)
def test_files_end_and_together_hold_what_one_file_holds(
    tmp_path: Path, by: tuple[str, str]
) -> None:
    for name in ("eve.json", "flows.csv", "flows.parquet", "flows.ipfix"):
        (tmp_path / name).mkdir()
        more = ("--format", "eve") if name == "eve.json" else ()
        whole, path = tmp_path / f"whole-{name}", tmp_path / name / name
        export("-r", DEMO, "-o", whole, *more)
        export("-r", DEMO, "-o", path, *more, *by)
        stem, suffix = name.split(".")
        files = [path] + [path.with_name(f"{stem}-{n}.{suffix}") for n in range(1, 100)]
        files = [file for file in files if file.exists()]
        # Parquet is written a row group at a time, which this capture does not fill.
        few = name == "flows.parquet" and by[0] == "--rotate-bytes"
        assert len(files) >= (1 if few else 3) and len(list(path.parent.iterdir())) == len(files)
        if name == "eve.json":
            assert b"".join(file.read_bytes() for file in files) == whole.read_bytes()
        elif name == "flows.csv":
            head, *lines = whole.read_text().splitlines()
            parts = [file.read_text().splitlines() for file in files]
            assert all(part[0] == head for part in parts)
            assert [line for part in parts for line in part[1:]] == lines
        elif name == "flows.parquet":
            frames = polars.concat([polars.read_parquet(file) for file in files])
            assert frames.equals(polars.read_parquet(whole))
        else:
            # Each begins with its templates, and numbers its records from 0.
            for file in files:
                parts = messages(file.read_bytes())
                assert parts[0][0] == 0 and parts[0][1][:2] == b"\0\2"


def test_logs_of_zeek_rotate_together(tmp_path: Path) -> None:
    export("-r", DEMO, "--format", "zeek", "-o", tmp_path, "--rotate-time", "10s")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [
        f"{log}{n}.log" for log in ("conn", "dns", "ssl") for n in ("-1", "-2", "-3", "")
    ]
    assert sum(len(zeek(path)) for path in tmp_path.glob("conn*.log")) == len(rows(DEMO))


# --- How it is asked for --------------------------------------------------------------------


def test_a_run_writes_what_the_command_writes(tmp_path: Path) -> None:
    for name, settings, typed in (
        ("eve", 'format = "eve"\noutput = "run-eve"', ("--format", "eve")),
        ("zeek", 'format = "zeek"\noutput = "run-zeek"', ("--format", "zeek")),
        ("ipfix", 'format = "ipfix"\noutput = "run-ipfix"\nbiflow = true\nenterprise = 32473',
         ("--format", "ipfix", "--biflow", "--enterprise", "32473")),
        ("parts", 'partition = "minute"\noutput = "run-parts"', ("--partition", "minute")),
    ):  # fmt: skip
        text = f'[input]\nread = "{DEMO}"\n[flows]\n{settings}\n'
        (tmp_path / "wirelens.toml").write_text(text)
        ran = wirelens("run", "-q", "-c", "wirelens.toml", cwd=tmp_path)
        assert ran.status == 0, ran.stderr
        export("-r", DEMO, "-o", tmp_path / name, *typed)
        one, other = tmp_path / name, tmp_path / f"run-{name}"
        files = [file.relative_to(one) for file in one.rglob("*") if file.is_file()]
        if one.is_file():
            assert one.read_bytes() == other.read_bytes()
        for file in files:
            assert (one / file).read_bytes() == (other / file).read_bytes()


def test_threads_change_nothing(tmp_path: Path) -> None:
    for threads in ("1", "4"):
        export("-r", DEMO, "-o", tmp_path / f"{threads}.ipfix", "--threads", threads)
        export("-r", DEMO, "-o", tmp_path / threads, "--partition", "minute", "--threads", threads)
    assert (tmp_path / "1.ipfix").read_bytes() == (tmp_path / "4.ipfix").read_bytes()
    one = {file.name: file.read_bytes() for file in (tmp_path / "1").rglob("*.parquet")}
    assert one == {file.name: file.read_bytes() for file in (tmp_path / "4").rglob("*.parquet")}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--format", "eve", "--stats"), "--stats"),
        (("--format", "eve", "--window", "1s"), "--window"),
        (("--format", "eve", "--names", "nfstream"), "--names"),
        (("--format", "eve", "--read-names"), "--read-names"),
        (("--format", "zeek"), "--output"),
        (("-o", "{out}.ipfix", "--hash-names", str(DEMO)), "--hash-names"),
        (("-o", "{out}.ipfix", "--model", "services"), "--model"),
        (("--format", "ipfix"), "--output"),
        (("--format", "eve", "-o", "{out}", "--biflow"), "--biflow"),
        (("--format", "eve", "-o", "{out}", "--partition", "day"), "--partition"),
        (("--format", "csv", "--enterprise", "1"), "--enterprise"),
        (("-o", "{out}.ipfix", "--enterprise", "29305"), "--enterprise"),
        (("-o", "{out}", "--partition", "day", "--rotate-time", "1h"), "--rotate-time"),
        (("-o", "{out}", "--partition", "day", "--force"), "--force"),
        (("--format", "eve", "-o", "udp://127.0.0.1:1"), "--output"),
        (("-o", "udp://127.0.0.1:1", "--rotate-bytes", "1M"), "--rotate-bytes"),
        (("--biflow",), "--biflow"),
    ],
)
def test_what_has_no_effect_is_refused_by_its_name(
    tmp_path: Path, arguments: tuple[str, ...], named: str
) -> None:
    given = [word.format(out=tmp_path / "out") for word in arguments]
    ran = wirelens("flows", "-r", DEMO, *given)
    assert ran.status == 2 and ran.stdout == b"" and named in ran.stderr, ran.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ('[top]\noutput = "x"\nformat = "eve"', "[flows]"),
        ('[top]\noutput = "udp://127.0.0.1:1"', "[flows]"),
        ('[flows]\noutput = "x"\nformat = "eve"\nwindow = "1s"', "window"),
        ('[flows]\noutput = "x.csv"\nbiflow = true', "biflow"),
        ('[flows]\noutput = "x"\npartition = "week"', "day, hour or minute"),
        ('[flows]\noutput = "x"\nformat = "eva"', "eve"),
    ],
)
def test_settings_are_refused_with_their_line(tmp_path: Path, settings: str, wanted: str) -> None:
    (tmp_path / "wirelens.toml").write_text(f'[input]\nread = "{DEMO}"\n{settings}\n')
    ran = wirelens("run", "-c", "wirelens.toml", "--check", cwd=tmp_path)
    assert ran.status == 2 and wanted in ran.stderr, ran.stderr


def test_a_file_that_exists_is_left_alone_and_a_run_that_is_refused_leaves_none(
    tmp_path: Path,
) -> None:
    path = tmp_path / "eve.json"
    path.write_text("mine")
    ran = wirelens("flows", "-q", "-r", DEMO, "--format", "eve", "-o", path)
    assert ran.status == 1 and "exists already" in ran.stderr and path.read_text() == "mine"
    export("-r", DEMO, "--format", "eve", "-o", path, "--force")
    assert path.read_text().startswith("{")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/ssl.log").write_text("mine")
    ran = wirelens("flows", "-q", "-r", DEMO, "--format", "zeek", "-o", tmp_path / "logs")
    assert ran.status == 1 and [file.name for file in (tmp_path / "logs").iterdir()] == ["ssl.log"]


@pytest.mark.parametrize(
    ("name", "more"), [("flows", 'names = "nfstream"'), ("top", "")], ids=["nfstream", "top"]
)
def test_files_of_rows_without_a_time_do_not_end_by_it(
    tmp_path: Path, name: str, more: str
) -> None:
    text = f'[input]\nread = "{DEMO}"\n[{name}]\n{more}\noutput = "rows.csv"\nrotate-time = "5s"\n'
    (tmp_path / "wirelens.toml").write_text(text)
    ran = wirelens("run", "-q", "-c", "wirelens.toml", cwd=tmp_path)
    assert ran.status == 1 and "leave rotate-time out" in ran.stderr, ran.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["wirelens.toml"]


def test_an_export_that_is_killed_leaves_no_file_under_its_name(tmp_path: Path) -> None:
    command = [PROGRAM, "flows", "-q", "-r", "-", "--format", "zeek", "-o", tmp_path / "logs"]
    running = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert running.stdin
    running.stdin.write(DEMO.read_bytes()[: 1 << 19])
    running.stdin.flush()
    for _ in range(100):
        if (tmp_path / "logs").exists() and len(list((tmp_path / "logs").iterdir())) == 3:
            break
        time.sleep(0.05)
    running.kill()
    running.wait()
    running.stdin.close()
    assert all(file.suffix == ".partial" for file in (tmp_path / "logs").iterdir())


# --- Packet log -----------------------------------------------------------------------------


def test_a_query_lists_hosts_and_sessions(tmp_path: Path) -> None:
    log = tmp_path / "log"
    ran = wirelens("packetlog", "record", "-q", "-r", DEMO, "-o", log, "--mode", "log-all")
    assert ran.status == 0, ran.stderr
    query = ("packetlog", "query", "-q", "--log", log)
    sessions = wirelens(*query, "--list", "sessions", "--format", "csv").rows
    wanted = rows(DEMO)
    assert {row["community_id"] for row in sessions} == {row["community_id"] for row in wanted}
    bytes_of = [int(row["src_bytes"]) + int(row["dst_bytes"]) for row in sessions]
    assert bytes_of == sorted(bytes_of, reverse=True)
    assert sum(bytes_of) == sum(int(row["src_bytes"]) + int(row["dst_bytes"]) for row in wanted)
    hosts = wirelens(*query, "--list", "hosts", "--format", "csv").rows
    addresses = {row[key] for row in wanted for key in ("src_ip", "dst_ip")}
    assert {row["host"] for row in hosts} == addresses
    assert sum(int(row["sent_bytes"]) for row in hosts) == sum(bytes_of)
    host = hosts[0]["host"]
    some = wirelens(*query, "--host", host, "--list", "sessions", "--format", "csv").rows
    assert some and all(host in (row["src_ip"], row["dst_ip"]) for row in some)
    table = wirelens(*query, "--list", "hosts").stdout.decode()
    assert host in table and "sent_packets" in table
    shutil.rmtree(log)
