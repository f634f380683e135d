"""Listening on interfaces: links of the tests' own, in network namespaces; see lab.py.

Without root they are skipped; root has to be able to run them.
"""

import csv
import io
import json
import os
import re
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from captures import Frame, block, write_pcap
from command import DEMO, ENVIRONMENT, PROGRAM, wirelens
from conversation import host_and_peer, talk
from lab import (
    HERE,
    THERE,
    Link,
    Listening,
    bring_up,
    datagram,
    datagrams,
    identity,
    ip,
    link_facts,
    new_link,
    wait_until,
)
from terminals import Terminal

CSV = ("--format", "csv")
JSONL = ("--format", "jsonl")
# The smallest that is taken.
TINY_RING = ("-B", "64")


@pytest.fixture
def link() -> Iterator[Link]:
    with new_link() as made:
        yield made


def packets_of(rows: list[dict[str, str]]) -> int:
    if rows and "src_packets" in rows[0]:
        return sum(int(row["src_packets"]) + int(row["dst_packets"]) for row in rows)
    return sum(int(row["packets"]) for row in rows)


def rows_in(path: Path) -> list[dict[str, str]]:
    """Rows of a file of CSV, which has to be whole."""
    text = path.read_text()
    assert text.startswith(("community_id,", "src_ip,", "window_start_ns,")), text[:100]
    assert text.endswith("\n")
    return list(csv.DictReader(io.StringIO(text)))


# --- What is counted ------------------------------------------------------------------------


def without_stamps(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Rows in an order that does not depend on stamps: each socket takes its own."""
    for row in rows:
        del row["first_ns"], row["last_ns"]
    return sorted(rows, key=lambda row: row["community_id"])


def packets_in(capture: Path) -> int:
    """Those that are whole so far."""
    told = wirelens("info", "-r", capture, "--format", "jsonl")
    return json.loads(told.stdout)["packets"] if told.stdout else 0


def test_flows_are_those_in_a_capture_of_the_same_traffic(tmp_path: Path) -> None:
    path, words = tmp_path / "same.pcap", tmp_path / "tcpdump.err"
    # When it is interrupted it leaves what it has not read yet: so it has to read without delay.
    # Reading so, it keeps room for the longest packet in each slot: with the lengths and the
    # buffer it takes by itself there are eight, and a burst on a busy machine has more.
    room = ("-s", "65535", "-B", "65536")
    command = ["tcpdump", "-i", "wl0", "-w", path, "-U", "-Z", "root", "--immediate-mode", *room]
    with host_and_peer(), words.open("wb") as err:
        dump = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=err)
        try:
            wait_until(lambda: b"listening on" in words.read_bytes(), "tcpdump listens")
            with Listening(tmp_path, "flows", "-i", "wl0", *CSV) as live:
                talk()
                time.sleep(0.5)
                ran = live.end()
            heard = identity(ran)["received"]
            # On a disk that others write to, a packet at a time takes its time.
            wait_until(lambda: packets_in(path) >= heard, f"tcpdump writes {heard} packets", 60.0)
            dump.send_signal(signal.SIGINT)
            dump.wait(10)
        finally:
            dump.kill()
    captured, received, dropped = re.findall(r"^(\d+) packets", words.read_text(), re.MULTILINE)
    assert captured == received and dropped == "0"
    assert ran.status == 0 and identity(ran)["dropped"] == 0
    read = wirelens("flows", *CSV, "-r", path)
    rows = without_stamps(read.rows)
    assert without_stamps(ran.rows) == rows
    kinds = sorted((row["protocol"], row["end_reason"]) for row in rows)
    wanted = [("icmp", "end"), ("tcp", "fin"), ("tcp", "fin"), ("tcp", "rst")]
    assert kinds == [*wanted, ("udp", "end"), ("udp", "end")]
    assert identity(read)["processed"] == identity(ran)["processed"]


def test_latencies_are_those_of_the_conversations(tmp_path: Path) -> None:
    with host_and_peer(), Listening(tmp_path, "latency", "-i", "wl0", *CSV) as live:
        talk()
        time.sleep(0.5)
        ran = live.end()
    assert ran.status == 0 and identity(ran)["dropped"] == 0
    tcp = [row for row in ran.rows if row["protocol"] == "tcp"]
    assert len(tcp) == 3
    for row in tcp:
        # A handshake and three answers at least; nothing was lost, and nothing is far away.
        assert row["src_ip"] == HERE and int(row["dst_rtt_count"]) >= 3
        assert 0 < int(row["dst_rtt_min_ns"]) <= int(row["dst_rtt_p50_ns"]) < 50_000_000
        assert int(row["src_retransmissions"]) == int(row["dst_retransmissions"]) == 0


def test_a_terminal_shows_latencies_of_flows_that_are_open() -> None:
    flags = ("--sort", "p99", "-n", "2")
    with host_and_peer(), Terminal("latency", "-i", "wl0", *flags) as terminal:
        assert terminal.wait_for("no rows yet").startswith("wirelens latency wl0")
        talk()
        screen = terminal.wait_for(re.escape(f"→ {THERE}:"))
        assert "by Either p99 ↓" in screen
        terminal.wait_for("1 of the first 2, of 3")
        terminal.end()


def test_a_terminal_shows_latencies_of_destinations() -> None:
    with host_and_peer(), Terminal("latency", "-i", "wl0", "--by", "destination") as terminal:
        terminal.wait_for("no rows yet")
        talk()
        terminal.wait_for(rf"\n{re.escape(THERE)} +[0-9.]+ [mµn]s ")
        terminal.end()


def test_windows_hold_what_was_sent(link: Link, tmp_path: Path) -> None:
    with Listening(tmp_path, "top", "-i", "wl0", "--window", "1s", "-n", "0", *CSV) as live:
        for _ in range(4):
            link.send(datagrams(250))
            time.sleep(0.4)
        ran = live.end()
    assert ran.status == 0
    assert packets_of(ran.rows) == 1000
    starts = {int(row["window_start_ns"]) for row in ran.rows}
    assert 2 <= len(starts) <= 4 and all(start % 10**9 == 0 for start in starts)
    assert identity(ran) | {"received": 1000, "processed": 1000, "dropped": 0} == identity(ran)
    assert sum(int(row["bytes"]) for row in ran.rows) == 1000 * 60


@pytest.mark.parametrize(
    "command", [("top",), ("top", "--window", "1s"), ("flows",), ("flows", "--latency", "low")]
)
def test_what_a_full_ring_drops_is_told(
    link: Link, tmp_path: Path, command: tuple[str, ...]
) -> None:
    with Listening(tmp_path, *command, "-i", "wl0", *TINY_RING, *CSV, "-n", "0") as live:
        link.send(datagrams(10))
        # A reader that is kept from reading: what a busy host does, for longer.
        live.signal(signal.SIGSTOP)
        link.send(datagrams(3000))
        live.signal(signal.SIGCONT)
        time.sleep(0.2)
        link.send(datagrams(10))
        ran = live.end()
    n = identity(ran)
    assert ran.status == 0
    assert n["received"] == 3020 and 1000 < n["dropped"] < 3000 and n["unread"] == 0
    assert packets_of(ran.rows) == n["processed"] == 3020 - n["dropped"]
    assert "by the kernel: its ring was full (a larger one with -B)" in ran.stderr


def test_every_way_to_listen_tells_the_same(link: Link, tmp_path: Path) -> None:
    ways = [(), ("--latency", "low"), ("--threads", "2"), ("-p",)]
    with ExitStack() as stack:
        runs = [
            stack.enter_context(Listening(tmp_path, "flows", "-i", "wl0", *way, *CSV))
            for way in ways
        ]
        for _ in range(3):
            link.send(datagrams(200))
            link.send(datagrams(200, is_answer=True), "wl0")
        ended = [run.end() for run in runs]
    rows = [without_stamps(ran.rows) for ran in ended]
    assert len(rows[0]) == 200
    # Both directions of a flow are in one row, also where two threads share the frames.
    for row in rows[0]:
        assert (row["src_packets"], row["dst_packets"]) == ("3", "3")
        assert (row["src_ip"], row["src_bytes"]) == ("198.18.0.1", "180")
    for way, other, ran in zip(ways, rows, ended, strict=True):
        assert other == rows[0], way
        assert ran.status == 0
        assert identity(ran)["processed"] == identity(ran)["received"] == 1200


def test_two_threads_count_each_packet_once(link: Link, tmp_path: Path) -> None:
    with Listening(tmp_path, "top", "-i", "wl0", "--threads", "2", "-n", "0", *CSV) as live:
        link.send(datagrams(2000))
        ran = live.end()
    assert (ran.status, packets_of(ran.rows), identity(ran)["received"]) == (0, 2000, 2000)


def test_filters_act_on_frames_as_they_were_on_the_wire(link: Link, tmp_path: Path) -> None:
    def tagged(count: int, vlan: int) -> list[bytes]:
        return [datagram(("198.18.0.1", 1000), ("198.19.0.1", 53), vlan=vlan)] * count

    # Past a tag that the kernel took out as well, as with tcpdump.
    wanted = {"vlan": 30, "vlan 5": 10, "vlan and udp port 53": 30, "udp port 53": 80}
    wanted |= {"udp port 53 and not vlan": 50, "udp dst port 99": 7, "tcp": 0}
    with ExitStack() as stack:
        runs = {
            expression: stack.enter_context(
                Listening(tmp_path, "flows", "-i", "wl0", *CSV, *expression.split())
            )
            for expression in wanted
        }
        link.send([*tagged(10, 5), *tagged(20, 6), *datagrams(50), *datagrams(7, port=99)])
        ended = {expression: run.end() for expression, run in runs.items()}
    assert {expression: packets_of(ran.rows) for expression, ran in ended.items()} == wanted
    for expression, ran in ended.items():
        assert identity(ran)["received"] == wanted[expression]
    assert [row["vlan"] for row in ended["vlan 5"].rows] == ["5"]


def test_all_interfaces_are_listened_on_as_any(link: Link, tmp_path: Path) -> None:
    ip("link set lo up")
    with (
        Listening(tmp_path, "flows", "-i", "any", *CSV) as live,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
    ):
        udp.bind(("127.0.0.1", 0))
        for _ in range(7):
            udp.sendto(b"to itself", udp.getsockname())
        link.send(datagrams(20))
        time.sleep(0.1)
        ran = live.end()
    assert ran.status == 0 and identity(ran)["dropped"] == 0
    packets = sorted((row["src_ip"], row["src_packets"]) for row in ran.rows)
    # Once on loopback, where the kernel shows each twice; and at either end of the pair.
    assert packets == [("127.0.0.1", "7"), *[("198.18.0.1", "2")] * 20]


def test_a_count_stops_after_so_many(link: Link, tmp_path: Path) -> None:
    for command in (("top",), ("top", "--window", "1s"), ("flows",)):
        with Listening(tmp_path, *command, "-i", "wl0", "-c", "100", "-n", "0", *CSV) as live:
            link.send(datagrams(150))
            ran = live.wait()
        n = identity(ran)
        assert (ran.status, packets_of(ran.rows), n["processed"]) == (0, 100, 100)
        assert n["received"] == 100 + n["unread"] <= 150


def test_interfaces_are_asked_for_all_frames_unless_told_not_to(link: Link, tmp_path: Path) -> None:
    for flags, wanted in (((), 1), (("-p",), 0)):
        with Listening(tmp_path, "top", "-i", "wl0", *flags, *CSV) as live:
            assert link_facts("wl0")["promiscuity"] == wanted
            assert live.end().status == 0
    assert link_facts("wl0")["promiscuity"] == 0


# --- How a run ends, and what it leaves -----------------------------------------------------


def test_an_interrupt_counts_what_was_received_before_it(link: Link, tmp_path: Path) -> None:
    output = tmp_path / "flows.csv"
    for number in (signal.SIGINT, signal.SIGTERM):
        with Listening(tmp_path, "flows", "-i", "wl0", "-o", output, "--force") as live:
            # Held back, so that all is in the ring when it is told to end.
            live.signal(signal.SIGSTOP)
            link.send(datagrams(5000))
            live.signal(number)
            live.signal(signal.SIGCONT)
            ran = live.wait()
        assert (ran.status, ran.stdout) == (0, b"")
        assert packets_of(rows_in(output)) == 5000 == identity(ran)["received"]
        assert not list(tmp_path.glob("*.partial"))


def test_a_second_interrupt_ends_a_run_that_cannot_end(link: Link, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    try:
        with Listening(tmp_path, "flows", "-i", "wl0", *CSV, stdout=writing) as live:
            # More than a pipe holds, and nobody reads.
            link.send(datagrams(3000))
            live.signal(signal.SIGINT)
            time.sleep(0.5)
            assert live.process.poll() is None
            live.signal(signal.SIGINT)
            assert live.process.wait(5) == 130
    finally:
        os.close(reading)
        os.close(writing)


def test_a_hangup_begins_a_new_file(link: Link, tmp_path: Path) -> None:
    output, partial = tmp_path / "flows.csv", tmp_path / "flows.csv.partial"
    moved = tmp_path / "flows.csv.1"
    command = ("flows", "-i", "wl0", "-o", output, "--idle-timeout", "100ms")
    with Listening(tmp_path, *command) as live:
        link.send(datagrams(40))
        # Idle flows are written when time is a second past their end, which is seen once a second.
        time.sleep(2.5)
        live.signal(signal.SIGHUP)
        wait_until(output.exists, "the first file is complete")
        assert packets_of(rows_in(output)) == 40
        link.send(datagrams(50))
        time.sleep(2.5)
        # As log rotation does it.
        wait_until(partial.exists, "the second file is begun")
        partial.rename(moved)
        live.signal(signal.SIGHUP)
        wait_until(partial.exists, "the third file is begun")
        assert packets_of(rows_in(moved)) == 50
        link.send(datagrams(60))
        ran = live.end()
    assert ran.status == 0 and identity(ran)["processed"] == 150
    assert packets_of(rows_in(output)) == 40
    third = [path for path in tmp_path.glob("flows*") if path not in (output, moved)]
    assert len(third) == 1 and third[0].suffix == ".csv"
    assert packets_of(rows_in(third[0])) == 60


def test_a_hangup_is_heard_before_anything_has_come(link: Link, tmp_path: Path) -> None:
    for command in (("top", "--window", "1s"), ("flows",)):
        output = tmp_path / f"{command[0]}.csv"
        with Listening(tmp_path, *command, "-i", "wl0", "-o", output) as live:
            live.signal(signal.SIGHUP)
            wait_until(output.exists, "the first file is complete", 4)
            assert rows_in(output) == []
            link.send(datagrams(5))
            assert live.end().status == 0
        assert packets_of(rows_in(tmp_path / f"{command[0]}-1.csv")) == 5


def test_a_duration_ends_a_run(link: Link, tmp_path: Path) -> None:
    for command in (("top",), ("flows", "--latency", "low")):
        start = time.monotonic()
        with Listening(tmp_path, *command, "-i", "wl0", "--duration", "500ms", *CSV) as live:
            link.send(datagrams(20))
            ran = live.wait()
        assert 0.5 <= time.monotonic() - start < 3
        assert ran.status == 0 and identity(ran)["processed"] == 20


# --- Interfaces that come and go ------------------------------------------------------------


def test_an_interface_that_is_down_is_waited_for(link: Link, tmp_path: Path) -> None:
    ip("link set wl0 down")
    with Listening(tmp_path, "flows", "-i", "wl0", *CSV) as live:
        assert "wl0: the interface is down; waiting for it to come up" in live.stderr
        bring_up("wl0")
        link.send(datagrams(30))
        ran = live.end()
    assert (ran.status, packets_of(ran.rows)) == (0, 30)
    assert "went down" not in ran.stderr


@pytest.mark.parametrize("threads", ["1", "2"])
def test_an_interface_that_goes_down_is_counted_and_waited_for(
    link: Link, tmp_path: Path, threads: str
) -> None:
    flags = ("--threads", threads, "-n", "0")
    with Listening(tmp_path, "top", "-i", "wl0", *flags, *CSV) as live:
        link.send(datagrams(30))
        ip("link set wl0 down")
        time.sleep(0.3)
        bring_up("wl0")
        link.send(datagrams(30))
        ran = live.end()
    assert (ran.status, packets_of(ran.rows)) == (0, 60)
    assert "\n1 times the interface went down\n" in ran.stderr


@pytest.mark.parametrize("threads", ["1", "2"])
def test_an_interface_that_is_removed_ends_a_run_that_keeps_its_results(
    link: Link, tmp_path: Path, threads: str
) -> None:
    output = tmp_path / "flows.csv"
    with Listening(tmp_path, "flows", "-i", "wl0", "--threads", threads, "-o", output) as live:
        # Held back, so that all is in the ring when the interface is gone.
        live.signal(signal.SIGSTOP)
        link.send(datagrams(30))
        ip("link delete wl0")
        live.signal(signal.SIGCONT)
        ran = live.wait()
    assert ran.status == 3
    words = [line for line in ran.stderr.splitlines() if "removed" in line]
    assert words == ["wirelens: wl0: the interface was removed; the 30 frames before it were read"]
    assert packets_of(rows_in(output)) == identity(ran)["processed"] == 30


# --- Links on which nothing happens ---------------------------------------------------------


def test_time_goes_on_while_no_packet_comes(link: Link, tmp_path: Path) -> None:
    output = tmp_path / "flows.csv"
    partial = tmp_path / "flows.csv.partial"
    command = ("flows", "-i", "wl0", "--idle-timeout", "1s")
    with ExitStack() as stack:
        rows = stack.enter_context(Listening(tmp_path, *command, *JSONL))
        lines = stack.enter_context(Listening(tmp_path, *command))
        file = stack.enter_context(Listening(tmp_path, *command, "-o", output))
        link.send(datagrams(3))
        sent_at = time.monotonic()
        wait_until(lambda: rows.stdout.count(b"\n") == 3, "rows", 5)
        assert {json.loads(row)["end_reason"] for row in rows.stdout.splitlines()} == {"idle"}
        wait_until(lambda: lines.stdout.count(b"\n") == 4, "a line of titles and three", 2)
        assert lines.stdout.count(b" idle\n") == 3
        assert time.monotonic() - sent_at > 1
        # Rows of a file wait for others, but no longer than ten seconds.
        wait_until(lambda: partial.read_bytes().count(b"\n") == 4, "rows in the file", 14)
        for run in (rows, lines, file):
            assert run.end().status == 0
    assert len(rows_in(output)) == 3


def await_early_in_window(window_s: float) -> None:
    """Windows are aligned to the epoch: what is sent now will be in one of them."""
    while not 0.1 < time.time() / window_s % 1 < 0.4:
        time.sleep(window_s / 20)


def test_a_terminal_shows_a_screen_of_each_second(link: Link) -> None:
    with Terminal("top", "-i", "wl0") as terminal:
        screen = terminal.wait_for("no rows yet")
        assert screen.startswith("wirelens top wl0") and " 0 packets  0 dropped" in screen
        assert re.search(r"Address +Rate +Packets +Bytes↓\n", screen)
        await_early_in_window(1)
        link.send(datagrams(100))
        screen = terminal.wait_for(r"\n198\.18\.0\.1 +48\.0 kbit/s +100 +6\.00 kB\n")
        assert " 100 packets  0 dropped" in screen
        assert "1 of 1  the last 1 s" in screen and "by Bytes ↓" in screen
        # And that it is silent again.
        terminal.wait_for(r"no rows yet\n(.*\n)*.*no packets in the last 1 s")
        said = terminal.end()
    assert "100 packets captured" in said and "listening" not in said


def test_a_screen_keeps_the_windows_order_and_rows_asked_for(link: Link) -> None:
    flags = ("--window", "200ms", "--by", "port", "--sort", "packets", "-n", "2")
    with Terminal("top", "-i", "wl0", *flags) as terminal:
        terminal.wait_for("no rows yet")
        await_early_in_window(0.2)
        for port, count in ((7, 10), (8, 30), (9, 20)):
            link.send(datagrams(count, port=port))
        screen = terminal.wait_for(r"\nudp +8 +72\.0 kbit/s +30 +1\.80 kB\nudp +9 .* +20 ")
        assert re.search(r"Protocol +Port +Rate +Packets↓ +Bytes\n", screen)
        assert "1 of 2  the last 0.2 s" in screen and "by Packets ↓" in screen
        # Ctrl-C is a key here, and a signal elsewhere.
        terminal.end("\x03")


def test_an_interrupt_ends_a_screen(link: Link) -> None:
    with Terminal("top", "-i", "wl0") as terminal:
        terminal.wait_for("no rows yet")
        terminal.process.send_signal(signal.SIGINT)
        terminal.end("")
    with Terminal("top", "-i", "wl0", "--duration", "1s") as terminal:
        terminal.wait_for("no rows yet")
        terminal.end("")


def test_no_escape_codes_reach_a_pipe(link: Link, tmp_path: Path) -> None:
    for flags in ((), ("--window", "1s")):
        with Listening(tmp_path, "top", "-i", "wl0", *flags) as live:
            link.send(datagrams(20))
            ran = live.end()
        assert ran.status == 0 and b"198.18.0.1" in ran.stdout
        assert b"\x1b" not in ran.stdout and "\x1b" not in ran.stderr


# --- What cannot be listened on, and what can -----------------------------------------------


def refusal(*arguments: str | Path) -> tuple[int, str]:
    ran = wirelens(*arguments)
    assert ran.stdout == b"" and ran.stderr.count("\n") == 1, ran
    return ran.status, ran.stderr


def test_an_unknown_interface_is_answered_with_the_nearest(link: Link) -> None:
    status, words = refusal("flows", "-i", "wl00")
    assert status == 1 and "wl00: no such interface; there are lo" in words
    assert words.endswith("did you mean wl0?\n")


def test_a_missing_permission_is_explained(link: Link) -> None:
    # By number: another user may not be let into the folder of the program.
    program = os.open(PROGRAM, os.O_RDONLY)
    try:
        ran = subprocess.run(
            [f"/proc/self/fd/{program}", "top", "-i", "wl0"],
            capture_output=True, text=True, timeout=10, env=ENVIRONMENT, cwd="/",
            pass_fds=[program], user=65534, group=65534, extra_groups=[],
        )  # fmt: skip
    finally:
        os.close(program)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("wirelens: wl0: not permitted")
    assert "CAP_NET_RAW" in ran.stderr and "setcap" in ran.stderr


def test_a_snapshot_length_that_cuts_headers_is_refused(link: Link) -> None:
    status, words = refusal("flows", "-i", "wl0", "-s", "40")
    assert status == 2 and "-s 40: too short for flows" in words and "at least 78" in words
    status, words = refusal("top", "-i", "wl0", "-s", "40")
    assert status == 2 and "too short for top" in words and "at least 58" in words


def test_a_filter_that_cannot_be_is_refused(link: Link) -> None:
    status, words = refusal("flows", "-i", "wl0", "tcp", "port")
    assert status in (1, 2) and "syntax error" in words


def test_interfaces_are_listed_with_what_they_are(link: Link) -> None:
    rows = [json.loads(row) for row in wirelens("devices", *JSONL).stdout.splitlines()]
    by_name = {row["name"]: row for row in rows}
    assert set(by_name) == {"lo", "wl0", "wl1"}
    assert by_name["lo"]["state"] == "down"
    assert (by_name["wl0"]["state"], by_name["wl0"]["link"]) == ("running", "ETHERNET")
    assert by_name["wl0"]["mtu_bytes"] == 1500
    assert by_name["wl0"]["link_address"] == link_facts("wl0")["address"]
    listed = wirelens("-D").stdout
    assert listed == wirelens("devices").stdout
    assert all(name.encode() in listed for name in by_name)


def test_captures_and_interfaces_do_not_mix() -> None:
    for command in ("top", "flows"):
        status, words = refusal(command, "-i", "lo", "-r", DEMO)
        assert status == 2 and "-r and -i" in words and "cannot be read in one run" in words


# --- What has to do with interfaces and time in captures ------------------------------------


def test_two_interfaces_of_one_name_in_a_capture_are_two(tmp_path: Path) -> None:
    path = tmp_path / "twins.pcapng"
    name = struct.pack("<HH4s", 2, 4, b"eth0") + bytes(4)
    body = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    # The same name with two link types: Ethernet, and IP without a link header.
    for link_type in (1, 101):
        body += block(1, struct.pack("<HHI", link_type, 0, 0) + name)
    frame = datagram(("10.0.0.1", 1000), ("10.0.0.2", 53))
    for number, data in enumerate([frame, frame[14:]] * 5):
        fields = struct.pack("<5I", number % 2, 0, 1_000_000 + number, len(data), len(data))
        body += block(6, fields + data)
    path.write_bytes(body)
    ran = wirelens("flows", *CSV, "-r", path)
    assert ran.status == 0
    (row,) = ran.rows
    assert (row["src_packets"], row["src_bytes"]) == ("10", str(5 * (2 * len(frame) - 14)))
    assert identity(ran)["malformed"] == 0
    told = wirelens("info", "-r", path).stdout.decode()
    assert "interface 0   ETHERNET, eth0, 5 packets\ninterface 1   RAW, eth0, 5 packets\n" in told


def test_clock_steps_in_a_capture_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "steps.pcap"
    data = datagram(("10.0.0.1", 1000), ("10.0.0.2", 53))
    second = 10**9
    # Back by an hour, on again, and back by less than the idle time-out, which is no step.
    stamps = [10_000, 10_001, 6_401, 6_402, 10_002, 10_003, 9_950]
    write_pcap(path, [Frame(at * second, data, len(data)) for at in stamps])
    ran = wirelens("flows", *CSV, "-r", path)
    assert ran.status == 0 and packets_of(ran.rows) == len(stamps)
    assert "flows: 1 clock steps: timestamps went back" in ran.stderr
    assert "flows: 1 packets were late" in ran.stderr
