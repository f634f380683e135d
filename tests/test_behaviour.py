"""What a user sees: refusals that say why, files that are whole, pipes, signals, exit statuses."""

import json
import re
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest
from captures import Frame, write_pcap
from command import DEMO, ENVIRONMENT, PROGRAM, Ran, wirelens

DEMO_LEN = 4944
CSV = ("--format", "csv")


def one_line(ran: Ran, status: int) -> str:
    """The one line of a refusal, with nothing on standard output."""
    assert ran.status == status, (ran.status, ran.stderr)
    assert ran.stdout == b""
    lines = ran.stderr.splitlines()
    assert len(lines) == 1, ran.stderr
    assert lines[0].startswith("wirelens: ")
    return lines[0]


def frames(count: int, start_ns: int = 10**18, step_ns: int = 1_000_000) -> list[Frame]:
    """Datagrams from 10.0.0.1, without checksums."""
    ip = bytes.fromhex("4500002400000000401100000a0000010a000002")
    udp = struct.pack(">4H", 1000, 53, 16, 0) + bytes(8)
    data = bytes(12) + b"\x08\x00" + ip + udp
    return [Frame(start_ns + i * step_ns, data, len(data)) for i in range(count)]


def packets_of(ran: Ran) -> int:
    return sum(int(row["packets"]) for row in ran.rows)


# --- Inputs ---------------------------------------------------------------------------------


def test_no_input_names_the_flags() -> None:
    for command in ("top", "flows", "info"):
        line = one_line(wirelens(command), 2)
        assert "-r FILE" in line and "-i NAME" in line


def test_a_missing_file_is_named() -> None:
    line = one_line(wirelens("top", "-r", "no-such.pcap"), 1)
    assert "no-such.pcap: no such file or folder" in line


def test_a_file_without_quotes_around_the_rest_is_explained(tmp_path: Path) -> None:
    line = one_line(wirelens("top", "-r", "a.pcap", "b.pcap", cwd=tmp_path), 1)
    assert "taken as the filter `b.pcap`" in line and "give each capture with -r" in line


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.pcap"
    path.touch()
    assert "is empty (0 bytes)" in one_line(wirelens("info", "-r", path), 1)
    assert "standard input: is empty" in one_line(wirelens("info", "-r", "-", stdin=b""), 1)


def test_a_file_that_is_no_capture_is_refused_with_its_first_bytes(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("Dear all,")
    line = one_line(wirelens("info", "-r", path), 1)
    assert "44 65 61 72" in line and "wanted pcap or pcapng" in line


def test_a_capture_without_packets_is_a_capture(tmp_path: Path) -> None:
    path = tmp_path / "header.pcap"
    write_pcap(path, [])
    ran = wirelens("top", *CSV, "-r", path)
    assert (ran.status, ran.stdout) == (0, b"src_ip,packets,bytes\n")
    ran = wirelens("info", "--format", "jsonl", "-r", path)
    row = json.loads(ran.stdout)
    assert (ran.status, row["packets"], row["first_ns"], row["last_ns"]) == (0, 0, None, None)


def test_a_truncated_tail_costs_only_the_tail(tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    write_pcap(path, frames(10))
    path.write_bytes(path.read_bytes()[:-3])
    for command in (("top",), ("top", "--window", "1s"), ("top", "-c", "100")):
        ran = wirelens(*command, *CSV, "-r", path)
        assert ran.status == 3
        assert packets_of(ran) == 9
        assert "the 9 frames before it were read" in ran.stderr
    ran = wirelens("info", "--format", "jsonl", "-r", path)
    assert ran.status == 3
    assert json.loads(ran.stdout)["packets"] == 9
    assert "the 9 frames" in json.loads(ran.stdout)["damage"]
    # What is wrong is said even where nothing else is.
    assert "the 9 frames" in wirelens("top", "-q", "-r", path).stderr


def test_a_folder_stands_for_the_captures_in_it(tmp_path: Path) -> None:
    line = one_line(wirelens("top", "-r", tmp_path), 1)
    assert "a folder without files" in line
    (tmp_path / "notes.txt").write_text("no capture")
    assert "none of its 1 files is a capture" in one_line(wirelens("top", "-r", tmp_path), 1)
    (tmp_path / "deep/er").mkdir(parents=True)
    write_pcap(tmp_path / "b.pcap", frames(2))
    write_pcap(tmp_path / "deep/er/a.cap", frames(3))
    ran = wirelens("top", *CSV, "-r", tmp_path)
    assert (ran.status, packets_of(ran)) == (0, 5)
    assert "skipped in folders, as they are not captures: 1\n" in ran.stderr
    rows = wirelens("info", *CSV, "-r", tmp_path).rows
    assert [Path(row["capture"]).name for row in rows] == ["b.pcap", "a.cap"]


def test_several_captures_are_read_in_order_of_time(tmp_path: Path) -> None:
    second = 10**9
    late, early = tmp_path / "a.pcap", tmp_path / "b.pcap"
    write_pcap(late, frames(5, 100 * second, second))
    write_pcap(early, frames(5, 97 * second, second))
    expected = {97: 1, 98: 1, 99: 1, 100: 2, 101: 2, 102: 1, 103: 1, 104: 1}
    for inputs in (("-r", late, "-r", early), ("-r", tmp_path)):
        ran = wirelens("top", *CSV, "--window", "1s", *inputs)
        seen = {int(row["window_start_ns"]) // second: int(row["packets"]) for row in ran.rows}
        assert list(seen) == sorted(seen)
        assert seen == expected
        assert "late" not in ran.stderr
        first = wirelens("top", *CSV, "--window", "1s", "-c", "3", *inputs)
        assert [int(row["window_start_ns"]) // second for row in first.rows] == [97, 98, 99]
        assert "3 packets received by filter" in first.stderr
        assert packets_of(wirelens("top", *CSV, "-c", "7", *inputs)) == 7


# --- Filters --------------------------------------------------------------------------------

IMPOSSIBLE = {
    "tcp port": "syntax error",
    "hots 192.0.2.1": "syntax error",
    "tcp port 80 and udp": "rejects all packets",
    "wlan addr1 02:00:00:00:00:01": "only supported on 802.11",
}


@pytest.mark.parametrize("expression", IMPOSSIBLE)
def test_an_impossible_filter_is_refused_with_its_reason(expression: str, tmp_path: Path) -> None:
    plain = tmp_path / "a.pcap"
    write_pcap(plain, frames(3))
    packed = tmp_path / "b"
    packed.write_bytes(subprocess.run(["gzip", "-c", DEMO], capture_output=True).stdout)
    for path in (DEMO, plain, packed):
        for command in (("top",), ("info",), ("top", "--check")):
            for way in (("-f", expression), tuple(expression.split())):
                line = one_line(wirelens(*command, "-r", path, *way), 2)
                assert IMPOSSIBLE[expression] in line and f"`{expression}`" in line
    ran = wirelens("top", "-r", "-", "-f", expression, stdin=DEMO)
    assert ran.status == 2 and IMPOSSIBLE[expression] in ran.stderr
    output = tmp_path / "out.csv"
    wirelens("top", "-r", DEMO, "-o", output, "-f", expression)
    assert not output.exists()


@pytest.mark.parametrize(
    "expression",
    ["tcp", "udp port 53", "ip6 and not tcp", "host 10.20.0.11", "arp", "len > 1000",
     "tcp[13] & 2 != 0", "icmp6", "src net 10.20.0.0/16 and dst port 443"],
)  # fmt: skip
def test_a_filter_passes_what_tcpdump_passes(expression: str) -> None:
    listed = subprocess.run(
        ["tcpdump", "-n", "-r", DEMO, expression], capture_output=True, check=True
    ).stdout
    # tcpdump may print a packet in several lines; those after the first are indented.
    count = sum(not line.startswith((b"\t", b" ")) for line in listed.splitlines())
    outputs = set()
    for way in (("-f", expression), tuple(expression.split()), (expression,)):
        ran = wirelens("top", *CSV, "-n", "0", "-r", DEMO, *way)
        assert ran.stderr.startswith(f"{count} packets captured\n{DEMO_LEN} packets received")
        outputs.add(ran.stdout)
    assert len(outputs) == 1
    ran = wirelens("info", "--format", "jsonl", "-r", DEMO, "-f", expression)
    assert json.loads(ran.stdout)["packets"] == count


def test_flags_may_follow_the_filter() -> None:
    before = wirelens("top", *CSV, "--by", "flow", "-r", DEMO, "tcp", "port", "80")
    after = wirelens("top", "-r", DEMO, "tcp", "port", "80", "--by", "flow", *CSV)
    assert before.stdout == after.stdout and len(before.rows) == 10


# --- Outputs --------------------------------------------------------------------------------


def test_an_output_is_not_overwritten_unasked(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("precious")
    line = one_line(wirelens("top", "-r", DEMO, "-o", path), 1)
    assert "exists" in line and "--force" in line
    assert path.read_text() == "precious"
    ran = wirelens("top", "-r", DEMO, "-o", path, "--force")
    assert (ran.status, ran.stdout) == (0, b"")
    assert path.read_text().startswith("src_ip,packets,bytes\n")
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.csv"]


def test_an_output_that_cannot_be_is_refused(tmp_path: Path) -> None:
    line = one_line(wirelens("top", "-r", DEMO, "-o", tmp_path / "no/out.csv"), 1)
    assert "there is no folder" in line
    line = one_line(wirelens("top", "-r", DEMO, "-o", tmp_path / "out.xml"), 2)
    assert ".xml" in line and ".parquet" in line
    assert "table" in one_line(wirelens("top", "-r", DEMO, "--format", "table", "-o", "x.csv"), 2)
    one_line(wirelens("top", "-r", "none", "-o", tmp_path / "out.csv"), 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "arrow"])
def test_a_full_disk_is_an_error(form: str) -> None:
    line = one_line(wirelens("top", "-n", "0", "--format", form, "-r", DEMO, "-o", "/dev/full"), 1)
    assert "No space left on device" in line
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(
            [PROGRAM, "top", "-q", "--format", form, "-r", DEMO],
            stdout=full, stderr=subprocess.PIPE, check=False,
        )  # fmt: skip
    assert ran.returncode == 1 and b"No space left on device" in ran.stderr


def test_a_suffix_chooses_the_format(tmp_path: Path) -> None:
    beginnings = {"csv": b"src_ip,", "jsonl": b'{"src_ip":', "parquet": b"PAR1", "arrow": b"ARROW1"}
    for suffix, beginning in beginnings.items():
        path = tmp_path / f"out.{suffix}"
        assert wirelens("top", "-q", "-r", DEMO, "-o", path).status == 0
        assert path.read_bytes().startswith(beginning)


def test_rows_in_json_are_the_rows_in_csv() -> None:
    for by in ("source", "flow"):
        arguments = ("top", "-n", "0", "--by", by, "-r", DEMO, "--window", "5s")
        lines = wirelens(*arguments, "--format", "jsonl").stdout.splitlines()
        rows = wirelens(*arguments, *CSV).rows
        assert [{name: str(x) for name, x in json.loads(line).items()} for line in lines] == rows


def test_csv_by_source_has_the_header_that_is_promised() -> None:
    assert wirelens("top", *CSV, "-r", DEMO).stdout.startswith(b"src_ip,packets,bytes\n")


def test_a_pipe_that_closes_early_is_no_error() -> None:
    for form in ("csv", "jsonl", "table", "parquet"):
        line = f"{PROGRAM} top -n 0 --by flow --format {form} -r {DEMO} | head -c 10 >/dev/null; "
        line += 'exit "${PIPESTATUS[0]}"'
        ran = subprocess.run(["bash", "-c", line], capture_output=True, check=False)
        assert ran.returncode == 0, ran.stderr
        assert b"panicked" not in ran.stderr and b"wirelens: " not in ran.stderr


# --- Runs -----------------------------------------------------------------------------------


# `timeout` signals its child, and then the group that the child is in: one wish arrives twice.
@pytest.mark.parametrize("times", [1, 2])
def test_an_interrupt_ends_a_pipe_on_which_nothing_comes(tmp_path: Path, times: int) -> None:
    path = tmp_path / "a.pcap"
    write_pcap(path, frames(100))
    command = [PROGRAM, "top", "--format", "csv", "-r", "-"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    run = subprocess.Popen(command, env=ENVIRONMENT, **pipes)
    # Not even a whole frame at the end: a stop is no damage.
    run.stdin.write(path.read_bytes()[:-3])
    run.stdin.flush()
    time.sleep(0.5)
    for _ in range(times):
        run.send_signal(signal.SIGINT)
        time.sleep(0.01)
    assert run.wait(timeout=10) == 0
    assert b"99 packets received" in run.stderr.read()


@pytest.mark.parametrize("window", [(), ("--window", "1s")])
def test_an_interrupt_ends_a_stream_in_good_order(tmp_path: Path, window: tuple[str, ...]) -> None:
    path, output = tmp_path / "a.pcap", tmp_path / "out.csv"
    write_pcap(path, frames(40_000))
    command = [PROGRAM, "top", "-n", "0", *window, "-r", "-", "-o", output]
    run = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT)
    # A stream that never ends by itself: frames come until the reader has gone.
    content = path.read_bytes()
    run.stdin.write(content)
    run.stdin.flush()
    run.send_signal(signal.SIGINT)
    frame_len = (len(content) - 24) // 40_000
    for _ in range(1000):
        if run.poll() is not None:
            break
        try:
            run.stdin.write(content[24 : 24 + frame_len])
            run.stdin.flush()
        except BrokenPipeError:
            break
        time.sleep(0.01)
    stderr = run.stderr.read()
    run.wait(timeout=20)
    run.stdin = None
    assert run.returncode == 0, stderr
    assert b"interrupted: results cover the input read so far" in stderr
    rows = output.read_text().splitlines()
    counted = sum(int(line.split(",")[-2]) for line in rows[1:])
    received = int(re.search(rb"(\d+) packets received", stderr).group(1))
    assert 0 < counted == received
    assert not list(tmp_path.glob("*.partial"))


def test_check_reads_nothing_and_writes_nothing(tmp_path: Path) -> None:
    output = tmp_path / "out.csv"
    ran = wirelens("top", "--check", "-r", DEMO, "-o", output, "tcp")
    assert (ran.status, ran.stdout, ran.stderr) == (0, b"", "")
    assert not output.exists()


def test_version_says_what_it_found() -> None:
    short = wirelens("--version")
    assert re.fullmatch(rb"wirelens \d+\.\d+\.\d+\n", short.stdout)
    verbose = wirelens("--version", "--verbose")
    assert verbose.stdout.startswith(short.stdout)
    assert b"libpcap version" in verbose.stdout and verbose.stderr == ""


def test_a_count_stops_after_the_first_packets() -> None:
    for window in ((), ("--window", "1s")):
        ran = wirelens("top", *CSV, *window, "-c", "10", "-n", "0", "-r", DEMO)
        assert packets_of(ran) == 10
        assert "10 packets received by filter" in ran.stderr
    ran = wirelens("info", "--format", "jsonl", "-c", "10", "-r", DEMO)
    assert json.loads(ran.stdout)["packets"] == 10
    ran = wirelens("top", *CSV, "-c", "10", "-n", "0", "-r", DEMO, "tcp")
    assert packets_of(ran) == 10
    assert "at least 1" in wirelens("top", "-c", "0", "-r", DEMO).stderr


def test_a_snapshot_length_is_that_of_the_capture() -> None:
    whole = json.loads(wirelens("info", "--format", "jsonl", "-r", DEMO).stdout)
    short = json.loads(wirelens("info", "--format", "jsonl", "-s", "60", "-r", DEMO).stdout)
    assert (short["packets"], short["bytes"]) == (whole["packets"], whole["bytes"])
    assert short["captured_bytes"] < whole["captured_bytes"]
    assert short["malformed_packets"] == 0 and short["shortened_packets"] > 4000
    rows = wirelens("top", *CSV, "-n", "0", "-r", DEMO).stdout
    assert wirelens("top", *CSV, "-n", "0", "-s", "60", "-r", DEMO).stdout == rows
    # As in tcpdump.
    assert wirelens("top", *CSV, "-n", "0", "-s", "0", "-r", DEMO).stdout == rows


def test_quiet_leaves_only_data() -> None:
    ran = wirelens("top", "-q", *CSV, "-r", DEMO)
    assert ran.stderr == "" and len(ran.rows) == 10


def test_data_and_words_keep_to_their_streams() -> None:
    for form in ("csv", "jsonl", "table"):
        ran = wirelens("top", "--format", form, "-r", DEMO)
        assert b"captured" not in ran.stdout and b"processed" not in ran.stdout
        assert "10.20.0.11" not in ran.stderr


IDENTITY = re.compile(
    r"(?P<passed>\d+) packets captured\n(?P<received>\d+) packets received by filter\n"
    r"(?P<dropped>\d+) packets dropped\n"
    r"top: (?P<processed>\d+) processed = (?P<counted>\d+) counted \+ (?P<absent>\d+) without "
    r".+ \+ (?P<cut>\d+) truncated by the capture; "
    r"(?P<malformed>\d+) malformed(?P<causes> \(.+\))?\n"
)


@pytest.mark.parametrize("by", ["source", "destination", "pair", "protocol", "port", "flow"])
def test_what_was_received_is_accounted_for(by: str, tmp_path: Path) -> None:
    broken = frames(7)
    broken[3] = Frame(broken[3].time_ns, broken[3].data[:14] + b"\x41" + broken[3].data[15:], 50)
    mixed = tmp_path / "mixed.pcap"
    write_pcap(mixed, broken)
    for path, filtered in ((DEMO, ()), (DEMO, ("udp",)), (mixed, ()), (DEMO, ("-s", "30"))):
        ran = wirelens("top", *CSV, "-n", "0", "--by", by, "-r", path, *filtered)
        match = IDENTITY.match(ran.stderr)
        assert match, ran.stderr
        n = {name: int(text) for name, text in match.groupdict().items() if name != "causes"}
        assert n["passed"] == n["processed"] + n["malformed"]
        assert n["processed"] == n["counted"] + n["absent"] + n["cut"]
        assert n["counted"] == packets_of(ran) and n["dropped"] == 0
        assert bool(n["malformed"]) == (path == mixed) == bool(match["causes"])
        if path == mixed:
            assert "1 ipv4_header_length_small" in match["causes"]


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("topp", "-r", DEMO), "a similar subcommand exists: 'top'"),
        (("top", "-r", DEMO, "--windw", "1s"), "a similar argument exists: '--window'"),
        (("top", "-r", DEMO, "--by", "soruce"), "a similar value exists: 'source'"),
        (("top", "-r", DEMO, "--window", "1"), "wanted a number with a unit"),
        (("top", "-r", DEMO, "--window", "3x"), "`x` is not a unit of time"),
        (("top", "-r", DEMO, "--threads", "0"), "1..=256"),
        (("top", "-r", DEMO, "--max-keys", "0"), "wanted a number from 64"),
        (("top", "-r", DEMO, "--format", "xml"), "table, csv, jsonl, parquet, arrow"),
        (("top", "-r", DEMO, "--force"), "--output <FILE>"),
        (("top", "-r", "-", "-r", "-"), "standard input can be read only once"),
        (("top", "-r", DEMO, "-f", "tcp", "udp"), "cannot be used with"),
        ((), "no command given"),
    ],
)
def test_wrong_usage_is_explained(arguments: tuple[str | Path, ...], wanted: str) -> None:
    ran = wirelens(*arguments)
    assert ran.status == 2 and ran.stdout == b""
    assert wanted in ran.stderr, ran.stderr


def test_keys_beyond_the_maximum_are_counted_together(tmp_path: Path) -> None:
    many = []
    for i, frame in enumerate(frames(20_000)):
        data = frame.data[:26] + (0x0B000000 + i).to_bytes(4) + frame.data[30:]
        many.append(Frame(frame.time_ns, data, len(data)))
    path = tmp_path / "many.pcap"
    write_pcap(path, many)
    outputs = set()
    for threads in ("1", "2", "8"):
        ran = wirelens(
            "top", *CSV, "-n", "0", "--max-keys", "640", "--seed", "7", "--threads", threads,
            "-r", path,
        )  # fmt: skip
        beyond = int(re.search(r"(\d+) packets are of keys beyond the maximum", ran.stderr)[1])
        assert len(ran.rows) <= 640 and packets_of(ran) + beyond == 20_000
        outputs.add((ran.stdout, ran.stderr))
    assert len(outputs) == 1


def test_help_names_every_command() -> None:
    ran = wirelens("--help")
    assert ran.status == 0 and ran.stderr == ""
    for word in (b"top", b"info", b"Exit status", b"Examples"):
        assert word in ran.stdout
