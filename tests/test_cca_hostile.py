"""Traffic that somebody made up: no number and no stamp ends `cca`, or costs it work or memory."""

import random
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from captures import Frame, write_pcapng
from command import PROGRAM, WIDE_DATA, Ran, in_parallel, part_of, short, wirelens

YEAR_NS = 365 * 86_400 * 10**9
START_NS = 1_700_000_000 * 10**9
TIME_MAX_S = 60
"""Each of these runs takes milliseconds; one that visits each empty period takes hours."""


def segment(
    seq: int, length: int, ack: int = 0, *, back: bool = False, blocks: Iterable[int] = ()
) -> bytes:
    """Headers of a segment; its payload was cut off by the capture."""
    blocks = tuple(blocks)
    ends = (b"\xc0\0\2\1", b"\xc0\0\2\2")
    ports = (40_000, 80)
    here, there = (1, 0) if back else (0, 1)
    edges = struct.pack(f">{len(blocks)}I", *blocks)
    options = struct.pack("BBBB", 1, 1, 5, 2 + len(edges)) + edges if edges else b""
    total = 40 + len(options) + length
    ip = struct.pack(">BBHHHBBH", 0x45, 0, total, 0, 0, 64, 6, 0) + ends[here] + ends[there]
    tcp = struct.pack(
        ">HHIIBBHHH", ports[here], ports[there], seq % 2**32, ack % 2**32,
        (20 + len(options)) // 4 << 4, 0x10, 65_535, 0, 0,
    )  # fmt: skip
    return bytes(12) + b"\x08\0" + ip + tcp + options


def capture(path: Path, packets: Iterable[tuple[int, bytes]]) -> Path:
    # Ethernet, and what the header of IPv4 says.
    sized = [(time_ns, data, 14 + int.from_bytes(data[16:18], "big")) for time_ns, data in packets]
    write_pcapng(path, [Frame(*frame) for frame in sized])
    return path


def fine(ran: Ran) -> Ran:
    assert ran.status == 0 and "panicked" not in ran.stderr, ran.stderr[-500:]
    return ran


def both_forms(path: Path, *words: str) -> None:
    """One tap, and two, both of which saw the same."""
    for taps in ((), ("--egress", path)):
        fine(wirelens("cca", "-r", path, *taps, *words, time_max_s=TIME_MAX_S))


def test_four_segments_that_jump_by_a_window_each_end_nothing(tmp_path: Path) -> None:
    step = 2**30 - 1
    data = [(at, segment(at * step, 100)) for at in range(3)]
    path = capture(tmp_path / "jumps.pcap", [*data, (3, segment(0, 100))])
    both_forms(path)


def test_what_fits_no_window_is_counted_by_its_cause(tmp_path: Path) -> None:
    packets = [
        segment(0, 100), segment(0, 0, 100, back=True), segment(0, 0, 2**31, back=True),
        segment(2**31, 100),
    ]  # fmt: skip
    path = capture(tmp_path / "apart.pcap", enumerate(packets))
    ran = fine(wirelens("cca", "-r", path))
    assert "cca: 1 packets acknowledge data more than 2^30 bytes" in ran.stderr
    assert "cca: 1 packets with data are more than 2^30 bytes" in ran.stderr
    assert "4 received = 4 processed" in ran.stderr
    ran = fine(wirelens("cca", "-r", path, "--egress", path))
    assert ran.stderr.count("cca: 1 packets with data are more than 2^30 bytes") == 2


@pytest.mark.parametrize("seed", range(4))
def test_segments_with_absurd_numbers_and_stamps_end_nothing(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    corners = [0, 1, 2**30 - 1, 2**30, 2**31 - 1, 2**31, 2**32 - 1]
    # To the year 2554, beyond what 64 bits hold with a sign.
    stamps = [0, START_NS, START_NS + YEAR_NS, 2**63 - 10**9, 2**64 - 2 * 10**9]

    def number() -> int:
        near = (chance.choice(corners) + chance.randrange(9)) % 2**32
        return chance.choice([chance.randrange(2**32), near])

    packets = []
    for at in range(200):
        blocks = [number() for _ in range(2 * chance.randrange(4))]
        way = chance.random() < 0.5
        data = segment(number(), chance.randrange(3000), number(), back=way, blocks=blocks)
        packets.append((chance.choice(stamps) + at * chance.randrange(10**7), data))
    path = capture(tmp_path / "absurd.pcap", packets)
    both_forms(path)
    both_forms(path, "--every", "1h")


@pytest.mark.parametrize("every", ["1us", "1ms", "1s", "1h", "1000h"])
def test_a_year_without_packets_costs_nothing(every: str, tmp_path: Path) -> None:
    packets = []
    for at in range(4):
        time_ns = START_NS + at * YEAR_NS // 3
        acks = segment(0, 0, at * 100 + 100, back=True)
        packets += [(time_ns, segment(at * 100, 100)), (time_ns + 1000, acks)]
    path = capture(tmp_path / "gap.pcap", packets)
    slot = ("--slot", "1us") if every == "1us" else ()
    for taps in ((), ("--egress", path)):
        words = ("--every", every, *slot, "--format", "csv")
        ran = fine(wirelens("cca", "-r", path, *taps, *words, time_max_s=TIME_MAX_S))
        # A microsecond may lie between a packet and its acknowledgement.
        assert 1 + 4 <= len(ran.stdout.splitlines()) <= 1 + 8, ran.stdout


CPU_S, CPU_BYTES_PER_S = 2, 4_000_000
"""What a capture may cost: to start, and for what it holds, on a slow machine."""


@pytest.mark.wide
def test_no_capture_costs_more_than_its_packets() -> None:
    paths = sorted({path for folder in WIDE_DATA.iterdir() for path in folder.rglob("*.*cap*")})
    if not paths:
        pytest.skip(f"no captures at {WIDE_DATA}; see CONTRIBUTING.md")
    paths = part_of(paths)

    def check(path: Path) -> list[str]:
        size = path.stat().st_size * (10 if path.suffix in (".gz", ".zst") else 1)
        limit_s = CPU_S + size // CPU_BYTES_PER_S
        found = []
        for taps in ((), ("--egress", path)):
            words = ("cca", "-r", path, *taps, "-q")
            command = ["prlimit", f"--cpu={limit_s}", PROGRAM, *words]
            done = subprocess.run(command, check=False, capture_output=True, timeout=600)
            if done.returncode not in (0, 1, 3):
                found.append(f"{short(path)}: {len(taps)}: {done.returncode} of {limit_s} s")
        return found

    files = [path for path in paths if path.is_file()]
    faults = [said for _, found in in_parallel(check, files) for said in found]
    assert not faults, faults
