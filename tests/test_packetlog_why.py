"""`packetlog stats --why`: what decided is written with each verdict. The arithmetic is tested in
`crates/model/src/numeric/tests.rs`, limits and bytes in `crates/packetlog/src/reasons/tests.rs`."""

import gzip
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from captures import Frame, write_pcap
from command import DEMO, PROGRAM, ROOT, Ran, wirelens
from lab import datagram, wait_until
from packetlog_lab import ANOMALOUS, BENIGN
from packetlog_model import PORT, write_model

ATTACKS = ROOT / "testdata/testbed/attacks/lan.pcapng.gz"
SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
HOUR = 3600
# Of the capture of the testbed's attacks, who attacks; `attacks.tsv` has the others.
SCANNER, FLOODER, GUESSER = "10.66.0.128", "10.66.0.130", "10.66.0.133"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that marks packets of a port."""
    return write_model(tmp_path_factory.mktemp("model") / "port")


def record(log: Path, *arguments: str | Path) -> Ran:
    ran = wirelens("packetlog", "record", "-o", log, *arguments)
    assert ran.status == 0, ran.stderr
    return ran


def stats(log: Path, *arguments: str | Path, code: int = 0) -> Ran:
    ran = wirelens("packetlog", "stats", "--log", log, *arguments)
    assert ran.status == code, ran.stderr
    return ran


def why(log: Path, *arguments: str) -> list[dict]:
    ran = stats(log, "--why", *arguments, "--format", "jsonl")
    return [json.loads(line) for line in ran.stdout.splitlines()]


def marked(path: Path, stamps: list[tuple[int, int, int]]) -> Path:
    """Packets by time, host and port."""
    made = []
    for at, host, port in stamps:
        frame = datagram((f"198.18.{host // 250}.{host % 250}", 40_000), ("198.19.0.1", port), 100)
        made.append(Frame(at, frame, len(frame)))
    write_pcap(path, made)
    return path


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of the testbed's attacks, with the model that ships."""
    folder = tmp_path_factory.mktemp("attacked")
    capture = folder / "lan.pcapng"
    capture.write_bytes(gzip.decompress(ATTACKS.read_bytes()))
    ran = record(folder / "log", "-r", capture)
    assert "reasons of marked hosts and flows stored" in ran.stderr, ran.stderr
    return folder / "log"


def test_a_marked_host_and_flow_have_the_column_that_decided(tmp_path: Path, model: Path) -> None:
    seconds = [(START + number * SECOND, 1 + number % 2, BENIGN) for number in range(10)]
    marks = [(START + number * SECOND + 1, 7, ANOMALOUS) for number in range(1, 9)]
    capture = marked(tmp_path / "marked.pcap", sorted(seconds + marks))
    record(tmp_path / "log", "-r", capture, "--model", model)
    for what in ("hosts", "flows"):
        [row] = why(tmp_path / "log", what)
        ends = row["src_ip"], row["src_port"], row["dst_ip"], row["dst_port"], row["protocol"]
        assert ends == ("198.18.0.7", 40_000, "198.19.0.1", PORT, "udp")
        assert row["time_ns"] == marks[0][0] and row["verdict"] == "both"
        assert row["class"] == "anomalous" and row["forest"] == "flow"
        assert row["confidence"] == pytest.approx(0.9, abs=1e-4)
        # 0.5 at the root, 0.5 behind the first split, 0.9 at the leaf.
        decided = row["column_1"], row["value_1"], row["threshold_1"]
        assert decided == ("lower_port", PORT, PORT + 0.5)
        assert row["contribution_1"] == pytest.approx(0.4, abs=1e-4)
        assert row["column_2"] is None and row["contribution_3"] is None
        assert row["why"] == f"smaller port {PORT} (≤ {PORT + 0.5:.0f})"


def test_host_and_flow_select_and_what_is_not_there_is_said(tmp_path: Path, model: Path) -> None:
    stamps = [(START + host * SECOND, host, ANOMALOUS) for host in range(1, 6)]
    log = tmp_path / "log"
    record(log, "-r", marked(tmp_path / "marked.pcap", stamps), "--model", model)
    assert len(why(log)) == len(why(log, "flows")) == 5
    [row] = why(log, "--host", "198.18.0.3")
    assert row["src_ip"] == "198.18.0.3"
    assert len(why(log, "--host", "198.19.0.1")) == 5
    assert why(log, "flows", "--flow", row["community_id"]) == [row]
    assert why(log, "flows", "--flow", f"udp,198.19.0.1,{PORT},198.18.0.3,40000") == [row]
    table = stats(log, "--why", "flows", "--host", "198.18.0.3").stdout.decode()
    assert "198.18.0.3:40000" in table and f"198.19.0.1:{PORT}/udp" in table and "0.90" in table
    none = stats(log, "--why", "--host", "192.0.2.1")
    assert not none.stdout and "no reason of this host" in none.stderr
    none = stats(log, "--why", "flows", "--flow", "udp,192.0.2.1,1,192.0.2.2,2")
    assert "its sender may have one" in none.stderr
    refused = wirelens("packetlog", "stats", "--log", log, "--host", "192.0.2.1")
    assert refused.status == 2 and "--why" in refused.stderr


def test_reasons_come_again_each_hour_and_go_with_their_files(tmp_path: Path, model: Path) -> None:
    log = tmp_path / "log"
    hours = [(START + second * SECOND, 7, ANOMALOUS) for second in range(0, 5 * HOUR, 5)]
    capture = marked(tmp_path / "marked.pcap", hours)
    small = ("--model", model, "--file-time", "1h", "--block-bytes", "64K")
    assert "5 reasons" in record(log, "-r", capture, *small).stderr
    files = sorted(log.glob("*.why"))
    assert 3 <= len(files) <= 5 and {path.stat().st_mode & 0o777 for path in files} == {0o600}
    # What is shown is the first of them all; of equal ones the strongest is the first.
    [row] = why(log)
    assert row["time_ns"] == START
    kept = tmp_path / "kept"
    record(kept, "-r", capture, *small, "--keep-time", "2h")
    stems = {path.name.removesuffix(".why") for path in kept.glob("*.why")}
    assert stems <= {path.name.removesuffix(".pcapng") for path in kept.glob("*.pcapng")}
    assert 0 < len(stems) < len(files)
    [row] = why(kept)
    assert row["time_ns"] > START


def test_reasons_are_counted_in_the_bytes_on_the_disk(tmp_path: Path, model: Path) -> None:
    log = tmp_path / "log"
    stamps = [(START + host, host, ANOMALOUS) for host in range(1, 60)]
    capture = marked(tmp_path / "marked.pcap", stamps)
    for more in ((), ("--compress",), ("--encoding", "compact")):
        ran = record(log, "-r", capture, "--model", model, *more)
        assert "59 reasons" in ran.stderr
    table = stats(log).stdout.decode().replace(",", "")
    on_disk = {path.name: path.stat().st_size for path in log.iterdir() if path.is_file()}
    reasons = sum(size for name, size in on_disk.items() if name.endswith(".why"))
    assert f" {sum(on_disk.values())} bytes: " in table, (table, on_disk)
    for size, what in (
        (reasons, "reasons"),
        (on_disk["account"], "the account"),
        (on_disk["events.jsonl"], "events"),
    ):
        assert f"{size} of {what}" in table, (table, on_disk)


def test_damage_is_named_and_the_rest_is_read(tmp_path: Path, model: Path) -> None:
    log = tmp_path / "log"
    stamps = [(START + host * SECOND, host, ANOMALOUS) for host in range(1, 6)]
    record(log, "-r", marked(tmp_path / "marked.pcap", stamps), "--model", model)
    [path] = log.glob("*.why")
    whole = path.read_bytes()
    # The second reason; a torn end is what a recorder that was killed leaves.
    at = whole.index(bytes([198, 18, 0, 2]))
    path.write_bytes(whole[:at] + b"x" + whole[at + 1 :])
    ran = stats(log, "--why", code=3)
    assert "1 damaged places" in ran.stderr
    assert [row in ran.stdout.decode() for row in ("198.18.0.1", "198.18.0.2", "198.18.0.3")] == [
        True, False, True,
    ]  # fmt: skip
    path.write_bytes(whole[:-20])
    assert len(why(log)) == 4
    # Of a file that is gone they are deleted by the next recorder.
    stray = log / "p1-20230101T000000Z-000099.why"
    shutil.copy(path, stray)
    record(log, "-r", DEMO, "--model", model)
    assert not stray.exists() and path.exists()


def test_attacks_are_explained_in_words(attacked: Path) -> None:
    rows = why(attacked)
    assert {row["verdict"] for row in rows} <= {"both", "first", "strongest"}
    for host in (SCANNER, FLOODER, GUESSER):
        own = [row for row in rows if row["src_ip"] == host]
        assert own, host
        for row in own:
            assert row["class"] == "anomalous" and 0.5 <= row["confidence"] <= 1
            assert "_" not in row["why"] and row["contribution_1"] > 0
            given = [row[f"contribution_{place}"] for place in (1, 2, 3)]
            shares = [share for share in given if share is not None]
            assert shares == sorted(shares, reverse=True)
    # Whatever is said of a value is so.
    for row in rows:
        for place in (1, 2, 3):
            if row[f"column_{place}"] is not None:
                above = row[f"value_{place}"] > row[f"threshold_{place}"]
                words = row["why"].split("; ")[place - 1]
                assert ("≤" not in words) if above else (">" not in words), row
    flows = why(attacked, "flows", "--host", SCANNER)
    assert len({row["community_id"] for row in flows}) >= 10


def test_reasons_survive_a_killed_recorder(tmp_path: Path, model: Path) -> None:
    """A pipe that stays open: full blocks are in the log, and their reasons with them."""
    log = tmp_path / "log"
    stamps = [(START + number * SECOND, 1 + number // 10, ANOMALOUS) for number in range(2000)]
    path = marked(tmp_path / "marked.pcap", stamps)
    command = [PROGRAM, "packetlog", "record", "-r", "-", "-o", log, "--model", model,
               "--block-bytes", "64K", "-q"]  # fmt: skip
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(path.read_bytes())
        process.stdin.flush()
        wait_until(lambda: any(log.glob("*.why")), "reasons are written")
        os.kill(process.pid, signal.SIGKILL)
        process.wait(10)
    before = why(log)
    assert before and all(row["column_1"] == "lower_port" for row in before)
    ran = wirelens("packetlog", "recover", "--log", log)
    assert ran.status in (0, 3), ran.stderr
    assert why(log) == before
