"""Whatever a capture holds and whatever is asked, `flows` ends and every counted packet is in one
row: damaged captures, captures cut anywhere, stamps at the ends of time and in any order.
"""

import random
import re
import struct
from pathlib import Path

import pytest
from captures import Frame, block, write_pcap
from command import DEMO, Ran, captures, disorder, in_parallel, part_of, short, wirelens
from flows_cases import START_NS, tcp
from flows_reference import SECOND_NS

# What is written, and in which packets are counted: columns, or lines of a table.
LAYOUTS = {
    "table": ("-n", "1000000"),
    "csv": ("--format", "csv"),
    "statistics": ("--format", "csv", "--stats"),
    "nfstream": ("--format", "csv", "--names", "nfstream"),
    "window": ("--format", "csv", "--window", "1s"),
}
OPTIONS = {
    "few flows": ("--max-flows", "64"),
    "no patience": ("--idle-timeout", "1us", "--active-timeout", "1us"),
    "short windows": ("--window", "1us"),
    "huge windows": ("--window", "10000d", "--stats"),
    "all at once": ("--max-flows", "64", "--window", "10ms", "--idle-timeout", "1ms"),
}

# Seconds that reach both ends of what 64 bits of nanoseconds can say.
FAR_S = 9_223_372_036


def packets_in(ran: Ran, layout: str) -> int:
    """Packets of all rows."""
    if layout == "table":
        # The first two of a line; bytes follow.
        cells = re.findall(r"^.*?  ([\d,]+) \+ ([\d,]+)  ", ran.stdout.decode(), re.MULTILINE)
        return sum(int(number.replace(",", "")) for pair in cells for number in pair)
    names = ("src_packets", "dst_packets")
    if layout == "nfstream":
        names = ("bidirectional_packets",)
    return sum(int(row[name]) for row in ran.rows for name in names)


def complaint(ran: Ran, layout: str) -> str | None:
    """What is wrong with a run of `flows`, nothing if it is in order."""
    if fault := disorder(ran):
        return fault
    if ran.status == 1:
        return None
    counted = re.search(r"^flows: \d+ processed = (\d+) counted", ran.stderr, re.MULTILINE)
    if not counted:
        return f"no count: {ran.stderr[-300:]}"
    in_rows = packets_in(ran, layout)
    if in_rows != int(counted[1]):
        return f"{in_rows} packets in rows, {counted[1]} counted"
    return None


def complaints_about(path: Path) -> list[str]:
    runs = {name: (name, options) for name, options in LAYOUTS.items()}
    runs |= {name: ("csv", ("--format", "csv", *asked)) for name, asked in OPTIONS.items()}
    found = []
    for name, (layout, options) in runs.items():
        fault = complaint(wirelens("flows", "-r", path, *options), layout)
        found += [f"{name}: {fault}"] if fault else []
    return found


def test_the_demo_capture_is_laid_out_whole() -> None:
    assert complaints_about(DEMO) == []


@pytest.mark.wide
@pytest.mark.parametrize("folder", ["formats", "malformed"])
def test_odd_captures_are_laid_out_whole(folder: str) -> None:
    found = in_parallel(complaints_about, part_of(captures(folder)))
    complaints = [f"{short(path)}: {text}" for path, texts in found for text in texts]
    assert not complaints, "\n".join(complaints)


def test_captures_cut_anywhere_are_laid_out_whole(tmp_path: Path) -> None:
    content = DEMO.read_bytes()
    draw = random.Random(20261122)
    paths = [tmp_path / f"{draw.randrange(len(content))}" for _ in range(40)]
    for path in paths:
        path.write_bytes(content[: int(path.name)])
    complaints = [
        f"{path.name}, {layout}: {fault}"
        for path in paths
        for layout in [draw.choice(list(LAYOUTS))]
        if (fault := complaint(wirelens("flows", "-r", path, *LAYOUTS[layout]), layout))
    ]
    assert complaints == []


# --- Stamps ---------------------------------------------------------------------------------


def write_far(path: Path, frames: list[tuple[int, int, bytes]]) -> None:
    """A pcapng file of frames with an offset of their stamps in seconds, and nanoseconds."""
    offsets = sorted({offset for offset, _, _ in frames})
    with path.open("wb") as file:
        file.write(block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
        for offset in offsets:
            options = struct.pack("<HHB3xHHq", 9, 1, 9, 14, 8, offset) + bytes(4)
            file.write(block(1, struct.pack("<HHI", 1, 0, 0) + options))
        for offset, ns, data in frames:
            high, low = divmod(ns, 1 << 32)
            head = struct.pack("<5I", offsets.index(offset), high, low, len(data), len(data))
            file.write(block(6, head + data))


def frame_of(index: int, draw: random.Random) -> bytes:
    flags = draw.choice(("A", "A", "A", "S", "FA", "R"))
    data = bytearray(tcp(f"0 {draw.choice('ab')} {flags}").data)
    # A few conversations: the port that both ends share decides.
    data[26 if data[33] == 2 else 30] = index * 7919 % 97
    return bytes(data)


def stamps(kind: str, count: int, draw: random.Random) -> list[tuple[int, int]]:
    """Offset in seconds and nanoseconds."""
    far = (FAR_S, -FAR_S, 0)
    made = {
        "latest": lambda i: (FAR_S, 2**63 - 1),
        "earliest": lambda i: (-FAR_S - 1, i),
        "both ends": lambda i: (far[i % 3], i * SECOND_NS),
        "any": lambda i: (draw.choice(far), draw.randrange(2**64)),
        "hours to and fro": lambda i: (0, START_NS + draw.randrange(-9, 9) * 3600 * SECOND_NS),
        "all equal": lambda i: (0, START_NS),
    }[kind]
    return [made(index) for index in range(count)]


@pytest.mark.parametrize(
    "kind", ["latest", "earliest", "both ends", "any", "hours to and fro", "all equal"]
)
def test_stamps_of_any_kind_lose_no_packet(tmp_path: Path, kind: str) -> None:
    draw = random.Random(kind)
    path = tmp_path / "far.pcapng"
    pairs = enumerate(stamps(kind, 3000, draw))
    write_far(path, [(offset, ns, frame_of(i, draw)) for i, (offset, ns) in pairs])
    assert complaints_about(path) == []
    for options in (("--stats",), ("--window", "1h"), ("--max-flows", "64", "--window", "1us")):
        outputs = set()
        for threads in ("1", "2", "3", "8"):
            seeded = ("--seed", "7", "--threads", threads, *options)
            ran = wirelens("flows", "-r", path, "--format", "csv", *seeded)
            outputs.add((ran.stdout, ran.stderr))
        assert len(outputs) == 1, options


def test_short_windows_cost_no_more_than_their_rows(tmp_path: Path) -> None:
    """Flows that are at rest are not looked at in every window: this took minutes."""
    frames = []
    for index in range(60_000):
        data = bytearray(tcp("0 a S").data)
        data[26:29] = index.to_bytes(3)
        frames.append(Frame(START_NS + index * 5_000_000, bytes(data), len(data)))
    path = tmp_path / "slow.pcap"
    write_pcap(path, frames)
    ran = wirelens("flows", "-r", path, "--format", "csv", "--window", "1ms")
    assert complaint(ran, "csv") is None and len(ran.rows) == 60_000
