"""Packets of captures into a log, and out of it again; on interfaces in test_packetlog_live.py."""

import json
import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from captures import Frame, write_pcap
from command import DEMO, ROOT, Ran, wirelens
from lab import datagram
from packetlog_model import PORT, seal, write_model

ATTACKS = ROOT / "testdata/testbed/attacks/lan.pcapng.gz"
LOG = ("packetlog",)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "ports")


def record(log: Path, model: Path, *arguments: str | Path) -> Ran:
    ran = wirelens(*LOG, "record", "-o", log, "--model", model, *arguments)
    assert ran.status == 0, ran.stderr
    return ran


def query(log: Path, *arguments: str | Path) -> Ran:
    return wirelens(*LOG, "query", "--log", log, *arguments)


def found(ran: Ran) -> int:
    assert ran.status == 0, ran.stderr
    match = re.match(r"(\d+) packets", ran.stderr)
    assert match, ran.stderr
    return int(match[1])


def tshark(path: Path, *fields: str) -> list[tuple[str, ...]]:
    command = ["tshark", "-r", path, "-T", "fields", *(w for f in fields for w in ("-e", f))]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return [tuple(line.split("\t")) for line in done.stdout.splitlines()]


def stats(log: Path) -> dict[str, dict[str, int]]:
    ran = wirelens(*LOG, "stats", "--log", log, "--format", "jsonl")
    assert ran.status == 0, ran.stderr
    rows = map(json.loads, ran.stdout.splitlines())
    return {row.pop("class"): row for row in rows}


def mixed(count: int = 400, payload: int = 700) -> list[Frame]:
    """One packet in four is anomalous, 1 ms apart."""
    frames = []
    for number in range(count):
        port = PORT if number % 4 == 0 else 80
        host = f"198.18.{number % 7}.1"
        frame = datagram((host, 40_000 + number % 50), ("198.19.0.1", port), payload)
        time_ns = 1_700_000_000_000_000_000 + number * 1_000_000
        frames.append(Frame(time_ns, frame, len(frame)))
    return frames


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "mixed.pcap"
    write_pcap(path, mixed())
    return path


HEADERS, WHOLE = 14 + 20 + 8, 14 + 20 + 8 + 700


@pytest.mark.parametrize(
    ("mode", "benign", "anomalous", "benign_kept"),
    [
        ("default", HEADERS, WHOLE, 300),
        ("log-all", WHOLE, WHOLE, 300),
        ("log-partial", HEADERS, HEADERS + 128, 300),
        ("log-sampled", HEADERS, WHOLE, 38),
        ("log-minimum", HEADERS, HEADERS + 128, 38),
    ],
)
def test_each_mode_keeps_what_table_ii_says(
    tmp_path: Path, model: Path, capture: Path, mode: str, benign: int, anomalous: int,
    benign_kept: int,
) -> None:  # fmt: skip
    log = tmp_path / "log"
    record(log, model, "-r", capture, "--mode", mode)
    assert found(query(log, "-w", tmp_path / "all.pcapng")) == 100 + benign_kept
    rows = tshark(tmp_path / "all.pcapng", "frame.cap_len", "frame.len", "udp.port")
    lengths: dict[bool, Counter[tuple[int, int]]] = {True: Counter(), False: Counter()}
    for kept, wire, ports in rows:
        lengths[str(PORT) in ports.split(",")][int(kept), int(wire)] += 1
    assert lengths == {
        True: Counter({(anomalous, WHOLE): 100}),
        False: Counter({(benign, WHOLE): benign_kept}),
    }
    sums = stats(log)
    assert sums["benign"]["seen_packets"] == 300
    assert sums["benign"]["stored_packets"] == benign_kept
    assert sums["anomalous"]["kept_bytes"] == 100 * anomalous


def test_modes_of_ones_own(tmp_path: Path, model: Path, capture: Path) -> None:
    settings = tmp_path / "log.toml"
    settings.write_text(
        "[modes.night]\nbenign = 'none'\nanomalous = 'full'\n"
        "[modes.night.classes]\nanomalous = 'partial:16,1/2'\n"
    )
    listed = wirelens(*LOG, "modes", "--settings", settings)
    assert "night" in listed.stdout.decode() and "log-minimum" in listed.stdout.decode()
    log = tmp_path / "log"
    ran = record(log, model, "-r", capture, "--settings", settings, "--mode", "night")
    assert "400 seen = 50 stored + 350 skipped by the mode + 0 lost" in ran.stderr
    assert stats(log)["anomalous"]["kept_bytes"] == 50 * (HEADERS + 16)
    settings.write_text(
        "[modes.odd]\nbenign = 'none'\nanomalous = 'full'\n[modes.odd.classes]\nscan = 'full'\n"
    )
    named = ("record", "-r", capture, "-o", log, "--model", model, "--settings", settings)
    refused = wirelens(*LOG, *named)
    assert refused.status == 2 and 'no class "scan"' in refused.stderr, refused.stderr
    refused = wirelens(*LOG, "record", "-r", capture, "-o", log, "--model", model, "--mode", "day")
    assert refused.status == 2 and "wanted: one of default" in refused.stderr


def test_packets_are_found_by_host_flow_class_time_and_filter(
    tmp_path: Path, model: Path, capture: Path
) -> None:
    log = tmp_path / "log"
    record(log, model, "-r", capture, "--block-bytes", "64K", "--mode", "log-all")
    frames = mixed()
    of_host = sum(b"\xc6\x12\x03\x01" in frame.data for frame in frames)
    assert found(query(log, "--host", "198.18.3.1")) == of_host > 0
    assert found(query(log, "--host", "198.18.3.1", "--host", "198.18.4.1")) > of_host
    assert found(query(log, "--host", "203.0.113.1")) == 0
    assert found(query(log, "--class", "anomalous")) == 100
    assert found(query(log, "--class", "benign", "udp port 80")) == 300
    assert found(query(log, "--class", "anomalous", "udp port 80")) == 0
    start = 1_700_000_000
    assert found(query(log, "--from", f"{start}.1", "--to", f"{start}.2")) == 100
    assert found(query(log, "--from", "2023-11-14T22:13:20.1Z", "-c", "7")) == 7
    flows = wirelens("flows", "-r", capture, "--format", "csv").rows
    for flow in flows[:5]:
        wanted = int(flow["src_packets"]) + int(flow["dst_packets"])
        assert found(query(log, "--flow", flow["community_id"])) == wanted
        ends = [flow[name] for name in ("protocol", "src_ip", "src_port", "dst_ip", "dst_port")]
        assert found(query(log, "--flow", ",".join(ends))) == wanted


def test_files_open_in_other_programs(tmp_path: Path, model: Path) -> None:
    log = tmp_path / "log"
    ran = record(log, model, "-r", ATTACKS, "--mode", "log-all", "--notes", "comment")
    seen = int(re.search(r"(\d+) packets captured", ran.stderr)[1])
    packets = 0
    for path in sorted(log.glob("*.pcapng")):
        packets += len(tshark(path, "frame.number"))
        subprocess.run(["tcpdump", "-nr", path, "-c", "5"], check=True, capture_output=True)
    assert packets == seen
    assert found(query(log, "-w", tmp_path / "all.pcapng")) == seen
    theirs = tshark(tmp_path / "all.pcapng", "frame.time_epoch", "frame.len", "frame.cap_len")
    plain = tmp_path / "plain.pcapng"
    plain.write_bytes(subprocess.run(["zcat", ATTACKS], check=True, capture_output=True).stdout)
    # The log's answer is in the order of time, a capture mostly.
    assert sorted(theirs) == sorted(tshark(plain, "frame.time_epoch", "frame.len", "frame.cap_len"))


def test_a_log_is_gone_on_with_and_compressed(tmp_path: Path, model: Path, capture: Path) -> None:
    log = tmp_path / "log"
    for _ in range(2):
        record(log, model, "-r", capture, "--file-bytes", "128K", "--block-bytes", "64K")
    before = found(query(log, "-w", tmp_path / "before.pcapng"))
    assert before == 800
    done = wirelens(*LOG, "compress", "--log", log)
    assert done.status == 0 and not list(log.glob("*.pcapng")), done.stderr
    assert found(query(log, "-w", tmp_path / "after.pcapng")) == before
    assert (tmp_path / "before.pcapng").read_bytes() == (tmp_path / "after.pcapng").read_bytes()
    read = wirelens("info", "-r", log, "--format", "csv")
    assert sum(int(row["packets"]) for row in read.rows) == before
    # Each block is a section, which says what the others say.
    told = wirelens("info", "-r", log).stdout.decode()
    assert re.search(r"^sections +\d+ with this description$", told, re.MULTILINE), told
    assert told.count("written by") == len(read.rows) == told.count("interface 0 ")
    assert "interface 1" not in told and re.search(r"described \d+ times", told), told


def test_the_oldest_of_the_least_important_make_room(
    tmp_path: Path, model: Path, capture: Path
) -> None:
    log = tmp_path / "log"
    # Of these bytes the ledger takes up to 16 KiB.
    small = ("--file-bytes", "64K", "--block-bytes", "64K", "--keep-bytes", "416K")
    for _ in range(6):
        # Packets of the most important class are never lost for those of others.
        ran = wirelens(
            *LOG, "record", "-o", log, "--model", model, "-r", capture, *small,
            "--when-full", "overwrite",
        )  # fmt: skip
        assert ran.status in (0, 1), ran.stderr
    sums = stats(log)
    assert sums["benign"]["overwritten_packets"] > 0
    assert sums["anomalous"]["lost_packets"] == 0
    for row in sums.values():
        kept = row["stored_packets"] + row["overwritten_packets"]
        assert row["seen_packets"] == kept + row["lost_packets"]
    assert sums["benign"]["stored_packets"] < 6 * 300
    assert sums["anomalous"]["stored_packets"] > sums["benign"]["stored_packets"] / 3
    assert sum(path.stat().st_size for path in log.glob("p*.pcapng")) <= 416 << 10


def test_a_torn_log_is_mended(tmp_path: Path, model: Path, capture: Path) -> None:
    log = tmp_path / "log"
    record(log, model, "-r", capture, "--block-bytes", "64K", "--mode", "log-all")
    whole = found(query(log))
    path = max(log.glob("p0*.pcapng"), key=lambda path: path.stat().st_size)
    os.truncate(path, path.stat().st_size - 40_000)
    path.with_suffix(".idx").unlink()
    mended = wirelens(*LOG, "recover", "--log", log)
    assert mended.status == 0 and "torn blocks repaired" in mended.stderr
    left = found(query(log))
    # 40,000 bytes hold 51 packets with their blocks, and a part of one.
    assert whole - 60 <= left < whole
    assert "nothing to repair" in wirelens(*LOG, "recover", "--log", log).stderr


def test_a_block_that_rots_costs_itself_only(tmp_path: Path, model: Path, capture: Path) -> None:
    log = tmp_path / "log"
    record(log, model, "-r", capture, "--block-bytes", "64K", "--mode", "log-all")
    whole = found(query(log))
    path = max(log.glob("p0*.pcapng"), key=lambda path: path.stat().st_size)
    content = bytearray(path.read_bytes())
    content[70_000] ^= 0xFF
    path.write_bytes(content)
    ran = query(log, "--class", "benign")
    assert ran.status == 3 and str(path) in ran.stderr and "skipped" in ran.stderr
    packets = int(re.search(r"^(\d+) packets", ran.stderr, re.MULTILINE)[1])
    assert 0 < packets < whole


def test_a_clock_that_steps_loses_no_packet(tmp_path: Path, model: Path) -> None:
    hour_ns = 3_600_000_000_000
    # Back by two hours, forth by a day, before 1970, and to the end of what a stamp can tell.
    steps = [0, -2 * hour_ns, 24 * hour_ns, -1_700_000_001 * 10**9, 2_500_000_000 * 10**9]
    frames = []
    for step_ns in steps:
        for frame in mixed(100):
            stamp_ns = max(frame.time_ns + step_ns, 0)
            frames.append(Frame(stamp_ns, frame.data, frame.wire_len))
    path, log = tmp_path / "steps.pcap", tmp_path / "log"
    write_pcap(path, frames)
    ran = record(log, model, "-r", path, "--block-bytes", "64K", "--file-time", "1m", "--compress")
    assert "500 seen = 500 stored + 0 skipped by the mode + 0 lost" in ran.stderr
    assert "packets lost" not in ran.stderr
    assert found(query(log, "-w", tmp_path / "all.pcapng")) == 500
    rows = tshark(tmp_path / "all.pcapng", "frame.time_epoch")
    stamps_ns = (int(row[0].replace(".", "")) for row in rows)
    assert sorted(stamps_ns) == sorted(frame.time_ns for frame in frames)
    start = 1_700_000_000
    assert found(query(log, "--from", f"{start}", "--to", f"{start + 1}")) == 100
    assert found(query(log, "--from", f"{start - 7200}", "--to", f"{start - 7199}")) == 100
    assert found(query(log, "--from", f"{start + 86400}", "--to", f"{start + 86401}")) == 100


def test_what_cannot_be_done_is_said_with_what_can(
    tmp_path: Path, model: Path, capture: Path
) -> None:
    log = tmp_path / "log"
    record(log, model, "-r", capture)
    cases = [
        (("query", "--log", log, "--class", "odd"), 2, "wanted: one of benign, anomalous"),
        (("query", "--log", log, "--flow", "x"), 2, "wanted a Community ID"),
        (("query", "--log", log, "--host", "x"), 2, "invalid"),
        (("query", "--log", log, "--from", "soon"), 2, "2026-03-01T10:00:00Z"),
        (("query", "--log", log, "--from", "2", "--to", "1"), 2, "is not before"),
        (("query", "--log", tmp_path / "none"), 1, "give the folder of a packet log"),
        (("mode", "default", "--log", log), 1, "no recorder is running there"),
        (("status", "--log", log), 1, "no recorder is running there"),
        (("record", "-r", capture, "-o", capture, "--model", model), 1, str(capture)),
        (
            ("record", "-r", capture, "-o", log, "--model", tmp_path),
            1,
            "model.json: No such file",
        ),
        (("record", "-r", capture, "--threads", "2"), 2, "classified on one thread"),
        (("record", "-r", capture, "--blocks", "4096", "--block-bytes", "1T"), 2, "available"),
        (("record", "-r", capture, "--check", "--block-bytes", "1T"), 2, "available"),
        (("record", "-r", capture, "--settings", "none"), 1, "give a file of settings in TOML"),
        (("record", "-i", "lo", "-w", "x"), 2, "give it with -o DIR"),
        (("record", "-i", "lo", "-G", "60"), 2, "--file-time"),
        (("record", "-i", "lo", "-i", "any"), 2, "with -i any on all"),
        (("-i", "lo"), 2, "wirelens packetlog record"),
        (("query", "-r", log), 2, "--log DIR"),
        (("query", "--log", log, "--host", "192.0.2.0/24"), 2, "net 192.0.2.0/24"),
        (("query", "--log", tmp_path), 0, "no packet was stored there yet"),
        (("stats", "--log", tmp_path), 0, "no packet was stored there yet"),
        (("record", "-r", capture, "-o", log, "--model", "odd"), 1, "wirelens train packetlog"),
        (("record", "-r", capture, "-o", log, "--model", model, "--block-bytes", "5"), 1, "4096"),
    ]
    for arguments, status, said in cases:
        ran = wirelens(*LOG, *arguments)
        assert (ran.status, said in ran.stderr) == (status, True), (arguments, ran)


def test_a_model_that_is_none_is_refused(tmp_path: Path, model: Path, capture: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    good = json.loads((model / "model.json").read_text())
    for change, said in [
        ({"format": "wirelens-packetlog 9"}, "format"),
        ({"schema": "0" * 64}, "schema"),
        ({"classes": []}, "classes"),
        ({"columns": ["mac_address"]}, "columns"),
    ]:
        seal(broken, json.dumps(good | change))
        ran = wirelens(*LOG, "record", "-r", capture, "-o", tmp_path / "log", "--model", broken)
        assert ran.status == 1 and said in ran.stderr, ran.stderr


def test_the_demo_is_kept_by_the_model_that_ships(tmp_path: Path) -> None:
    ran = wirelens(*LOG, "record", "-r", DEMO, "-o", tmp_path / "log")
    assert ran.status == 0, ran.stderr
    assert "4944 seen = 4944 stored" in ran.stderr
    assert found(query(tmp_path / "log")) == 4944
