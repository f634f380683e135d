"""What `wirelens latency` says where the truth is known, and of input that is bad."""

import csv
import gzip
import re
import struct
from pathlib import Path

import pytest
from captures import Frame, write_pcap
from command import DEMO, ROOT, wirelens
from test_combinations import packet as udp_packet

CONGESTION = ROOT / "testdata/testbed/congestion"
BEFORE, AFTER = CONGESTION / "before.pcapng.gz", CONGESTION / "after.pcapng.gz"
SECOND = 10**9
ETHERNET = bytes(12) + b"\x08\x00"
SYN, ACK, PUSH = 2, 16, 24


def tcp(
    sides: tuple[int, int], ports: tuple[int, int], seq: int, ack: int, flags: int, size: int = 0
) -> bytes:
    """A frame of TCP over IPv4."""
    header = struct.pack("!2H2I2B3H", *ports, seq, ack, 80, flags, 65535, 0, 0)
    carried = header + bytes(size)
    head = struct.pack("!2B3H2BH2I", 69, 0, 20 + len(carried), 0, 0, 64, 6, 0, *sides)
    return ETHERNET + head + carried


def capture(path: Path, frames: list[tuple[int, bytes]]) -> Path:
    """A capture of frames, each with its time in ns after a moment."""
    base = 1_700_000_000 * SECOND
    write_pcap(path, [Frame(base + time, frame, len(frame)) for time, frame in frames])
    return path


def rows(*arguments: str | Path) -> list[dict[str, str]]:
    ran = wirelens("latency", "-q", *arguments, "--format", "csv")
    assert ran.status == 0, ran.stderr
    return ran.rows


def truth() -> dict[int, int | None]:
    """When each packet came to the queue, and how long it was there, as the testbed recorded it."""
    with gzip.open(CONGESTION / "packets.tsv.gz", "rt") as file:
        found = csv.DictReader(file, delimiter="\t")
        return {
            int(row["time_ns"]): None
            if row["dropped"] == "1"
            else int(row["departed_ns"]) - int(row["time_ns"])
            for row in found
        }


def test_one_way_delays_are_those_of_the_testbed_to_the_nanosecond() -> None:
    found = rows("-r", BEFORE, "--egress", AFTER, "--egress-offset", "0ms", "--by", "packet")
    measured = {
        int(row["time_ns"]): int(row["latency_ns"]) if row["latency_ns"] else None for row in found
    }
    assert measured == truth()
    assert {row["missing"] for row in found if not row["latency_ns"]} == {"lost"}


def test_the_offset_of_a_clock_is_estimated_from_packets_of_both_directions(
    tmp_path: Path,
) -> None:
    low, high, ports = 0x0A000001, 0x0A000002, (1000, 80)
    first, second = [], []
    ms = 10**6
    for number in range(100):
        now = number * 50 * ms
        up = tcp((low, high), ports, 1 + number, 1 + number, PUSH, 1)
        down = tcp((high, low), ports[::-1], 1 + number, 2 + number, PUSH, 1)
        wait = number % 7 * ms
        # 10 ms each way, and a queue one way; the second clock is 3 s behind, and slow by 20 ppm.
        first += [(now, up), (now + 40 * ms, down)]
        behind = -3 * SECOND - now // 50_000
        second += [(now + 10 * ms + wait + behind, up), (now + 30 * ms + behind, down)]
    captures = capture(tmp_path / "1.pcap", first), capture(tmp_path / "2.pcap", second)
    ran = wirelens("latency", "-r", captures[0], "--egress", captures[1], "--format", "csv")
    assert ran.status == 0, ran.stderr
    by_tap = {row["first_tap"]: row for row in ran.rows}
    assert by_tap.keys() == {"ingress", "egress"}
    added = re.search(
        r"egress clock: \+(\d\.\d+) s are added .* same in both directions", ran.stderr
    )
    assert added and abs(float(added[1]) - 3) < 0.001
    for row in by_tap.values():
        assert abs(int(row["delay_min_ns"]) - 10 * ms) < ms
    assert abs(int(by_tap["ingress"]["queue_p99_ns"]) - 6 * ms) < ms
    drift = re.search(r"drifts by (\S+) ppm", ran.stderr)
    assert drift is None or abs(float(drift[1]) + 20) < 5


def test_captures_that_do_not_overlap_are_an_error_with_both_times() -> None:
    ran = wirelens("latency", "-r", DEMO, "--egress", AFTER)
    assert ran.status == 1
    assert re.search(r"no packet was seen at both taps: .* from 2026-11-21T.* from 2026-11-22T",
                     ran.stderr)  # fmt: skip


def test_clocks_that_were_not_compared_are_named() -> None:
    ran = wirelens("latency", "-r", BEFORE, "--egress", "-", stdin=AFTER)
    assert ran.status == 0, ran.stderr
    assert "its offset is not known (standard input can be read only once)" in ran.stderr
    assert "--egress-offset sets one" in ran.stderr


def test_packets_that_one_tap_was_too_early_or_too_late_for_are_counted(tmp_path: Path) -> None:
    first = [
        (number * SECOND, tcp((1, 2), (1000, 80), 1 + 10 * number, 1, PUSH, 10))
        for number in range(60)
    ]
    # One is lost on the way.
    second = [(time + 5_000_000, frame) for time, frame in first[20:30] + first[31:41]]
    captures = capture(tmp_path / "1.pcap", first), capture(tmp_path / "2.pcap", second)
    ran = wirelens("latency", "-r", captures[0], "--egress", captures[1], "--egress-offset", "0ms",
                   "--format", "csv")  # fmt: skip
    assert ran.status == 0, ran.stderr
    (row,) = ran.rows
    assert (row["packets"], row["lost"], row["delay_count"]) == ("60", "40", "20")
    assert "39 packets passed one tap before the first packet of the other" in ran.stderr


@pytest.mark.parametrize("tap", [0, 1])
def test_one_wrong_timestamp_costs_its_packet_alone(tap: int, tmp_path: Path) -> None:
    first = [
        (number * SECOND, tcp((1, 2), (1000, 80), 1 + 10 * number, 1, PUSH, 10))
        for number in range(60)
    ]
    taps = [first, [(time + 5_000_000, frame) for time, frame in first]]
    # Of the year 2106.
    taps[tap][20] = (2_590_000_000 * SECOND, taps[tap][20][1])
    captures = [capture(tmp_path / f"{number}.pcap", taps[number]) for number in range(2)]
    for offset in ([], ["--egress-offset", "0ms"]):
        ran = wirelens("latency", "-r", captures[0], "--egress", captures[1], *offset,
                       "--format", "csv")  # fmt: skip
        assert ran.status == 0, ran.stderr
        (row,) = ran.rows
        assert row["delay_count"] == "59", (row, offset)
        assert "1 packets have timestamps far ahead of those around them" in ran.stderr


def test_the_first_packet_may_have_the_least_delay(tmp_path: Path) -> None:
    first = [
        (number * SECOND, tcp((1, 2), (1000, 80), 1 + 10 * number, 1, PUSH, 10))
        for number in range(60)
    ]
    second = [
        (time + (5 + number % 7) * 10**6, frame) for number, (time, frame) in enumerate(first)
    ]
    captures = capture(tmp_path / "1.pcap", first), capture(tmp_path / "2.pcap", second)
    ran = wirelens("latency", "-r", captures[0], "--egress", captures[1], "--format", "csv")
    assert ran.status == 0 and "packets go in one direction only" in ran.stderr
    (row,) = ran.rows
    assert (row["first_tap"], row["backwards"], row["delay_count"]) == ("ingress", "0", "60")
    assert (row["delay_min_ns"], row["delay_max_ns"]) == ("0", str(6 * 10**6))


def test_the_same_capture_twice_is_refused() -> None:
    ran = wirelens("latency", "-r", DEMO, "--egress", DEMO)
    assert ran.status == 1 and "upstream" in ran.stderr


@pytest.mark.parametrize("by", ["flow", "packet", "destination"])
def test_of_one_direction_it_is_said_that_nothing_was_answered(by: str) -> None:
    ran = wirelens("latency", "-r", DEMO, "--by", by, "--format", "csv", "tcp dst port 5001")
    assert ran.status == 0
    assert "no packet was answered: the capture may have only one direction" in ran.stderr
    assert "no_room" in ran.stderr and "no_answer" in ran.stderr


def test_a_clock_that_is_set_back_is_a_cause(tmp_path: Path) -> None:
    sides, ports = (1, 2), (1000, 80)
    frames = [
        (9 * SECOND, tcp(sides, ports, 1, 1, PUSH, 10)),
        (8 * SECOND, tcp(sides[::-1], ports[::-1], 1, 11, ACK)),
    ]
    (row,) = rows("-r", capture(tmp_path / "back.pcap", frames), "--by", "packet")
    assert (row["latency_ns"], row["missing"]) == ("", "clock_step")


def test_a_flood_of_flows_is_counted_and_the_measured_ones_go_on(tmp_path: Path) -> None:
    ports, ms = (1000, 80), 10**6
    kept, frames = 0x0A000001, []
    for number in range(5000):
        source = 0x0B000000 + number
        frames.append((number * ms, tcp((source, 2), ports, 1, 1, PUSH, 10)))
        frames.append((number * ms + 1, tcp((source + 0x01000000, 2), ports, 1, 0, SYN)))
        if number % 10 == 0:
            frames.append((number * ms + 2, tcp((kept, 2), ports, 1 + number, 1, PUSH, 10)))
            frames.append((number * ms + 3, tcp((2, kept), ports[::-1], 1, 11 + number, ACK)))
    path = capture(tmp_path / "flood.pcap", frames)
    ran = wirelens("latency", "-r", path, "--max-flows", "64", "--format", "csv", "--by", "flow")
    assert ran.status == 0
    (row,) = ran.rows
    assert (row["src_ip"], row["dst_rtt_count"]) == ("10.0.0.1", "500")
    assert "4937 packets are of flows beyond the maximum" in ran.stderr


def test_packets_to_destinations_beyond_the_maximum_are_counted(tmp_path: Path) -> None:
    # Each flow has ended when the next begins.
    frames = [
        (number * 200 * SECOND, tcp((1, 100 + number), (1000, 80), 1, 1, PUSH, 10))
        for number in range(100)
    ]
    path = capture(tmp_path / "many.pcap", frames)
    ran = wirelens("latency", "-r", path, "--by", "destination", "--max-flows", "64",
                   "--format", "csv")  # fmt: skip
    assert (ran.status, len(ran.rows)) == (0, 64)
    assert "36 packets are to destinations beyond the maximum; --max-flows sets it" in ran.stderr


def test_answers_do_not_depend_on_threads_or_the_seed() -> None:
    found = [rows("-r", DEMO, "--by", "packet", "--threads", threads, "--seed", seed)
             for threads, seed in (("1", "1"), ("4", "2"))]  # fmt: skip
    assert found[0] == found[1]


def test_udp_of_which_nothing_is_known_is_counted(tmp_path: Path) -> None:
    frames = [(number, ETHERNET + udp_packet(3, 999)) for number in range(10)]
    path = capture(tmp_path / "udp.pcap", frames)
    ran = wirelens("latency", "-r", path)
    assert ran.status == 0 and "latency: 0 RTT samples of 0 flows" in ran.stderr
