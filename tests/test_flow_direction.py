"""Who is the source of a flow: the same in every table, window and number of threads."""

import random
from pathlib import Path

import pytest
from captures import Frame, write_pcap
from command import DEMO, wirelens

ENDS = ("protocol", "src_ip", "src_port", "dst_ip", "dst_port")
SECOND_NS = 10**9


def udp(source: tuple[int, int], target: tuple[int, int], size: int) -> bytes:
    """A frame of UDP over IPv4 between hosts and ports that are given by number."""
    payload = bytes(size)
    header = b"".join(number.to_bytes(2, "big") for number in (source[1], target[1], 8 + size, 0))
    ip = bytes([0x45, 0]) + (28 + size).to_bytes(2, "big") + bytes([0, 0, 0, 0, 64, 17, 0, 0])
    ends = b"".join(bytes([10, 0, host // 256, host % 256]) for host, _ in (source, target))
    return bytes(12) + b"\x08\x00" + ip + ends + header + payload


def conversations(seed: int, count: int, size: int) -> list[Frame]:
    """Packets of flows in both directions; stamps are coarse and run backwards now and then."""
    drawn = random.Random(seed)
    flows = [((drawn.randrange(50), 1000 + n), (50 + drawn.randrange(9), 53)) for n in range(90)]
    flows = [flow if drawn.random() < 0.5 else flow[::-1] for flow in flows]
    frames, now = [], 1_700_000_000 * SECOND_NS
    for _ in range(count):
        now += drawn.choice([0, 0, 1_000_000, 30_000_000])
        source, target = drawn.choice(flows)
        if drawn.random() < 0.5:
            source, target = target, source
        data = udp(source, target, size)
        frames.append(Frame(now - drawn.choice([0, 0, 0, 2_000_000]), data, len(data)))
    return frames


def sources(*arguments: str | Path) -> dict[str, set[tuple[str, ...]]]:
    """By Community ID, every protocol and pair of ends that rows name."""
    ran = wirelens(*arguments, "--format", "csv", "-n", "0", "-q")
    assert ran.status == 0, ran.stderr
    found: dict[str, set[tuple[str, ...]]] = {}
    for row in ran.rows:
        ends = tuple(row[name] for name in ENDS)
        found.setdefault(row["community_id"], set()).add(ends)
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_flow_has_one_source_in_all_windows_and_tables(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "flows.pcap"
    write_pcap(path, conversations(seed, 3000, 20))
    wanted = sources("flows", "-r", path)
    assert len(wanted) == 90 and {len(ends) for ends in wanted.values()} == {1}
    for threads in ("1", "4"):
        for window in ("20ms", "1s", "10s"):
            of_windows = ("top", "--by", "flow", "-r", path, "--window", window)
            assert sources(*of_windows, "--threads", threads) == wanted, (threads, window)
        assert sources("top", "--by", "flow", "-r", path, "--threads", threads) == wanted, threads


def test_a_capture_read_in_parts_has_the_same_sources(tmp_path: Path) -> None:
    """Parts are read at the same time, in whatever order."""
    path = tmp_path / "large.pcap"
    write_pcap(path, conversations(7, 12_000, 1400))
    assert path.stat().st_size > 16 << 20
    wanted = sources("flows", "-r", path)
    for threads in ("1", "2", "4"):
        assert sources("top", "--by", "flow", "-r", path, "--threads", threads) == wanted, threads


def test_several_captures_have_the_same_sources(tmp_path: Path) -> None:
    frames = sorted(conversations(9, 3000, 20), key=lambda frame: frame.time_ns)
    for part in range(3):
        write_pcap(tmp_path / f"{part}.pcap", frames[part * 1000 : part * 1000 + 1000])
    wanted = sources("flows", "-r", tmp_path)
    for more in ((), ("--window", "100ms"), ("--threads", "1"), ("-c", "3000")):
        assert sources("top", "--by", "flow", "-r", tmp_path, *more) == wanted, more


def test_the_demo_capture_has_the_same_sources_in_all_windows() -> None:
    wanted = sources("flows", "-r", DEMO)
    for window in ("10ms", "500ms"):
        assert sources("top", "--by", "flow", "-r", DEMO, "--window", window) == wanted
