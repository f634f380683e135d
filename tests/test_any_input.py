"""Whatever a file holds, Wirelens reads it and ends: no panic, no hang, no unbounded memory.

And however it is stored or handed over (a file, a pipe, compressed), and on any number of
threads, what is found in it is the same.
"""

import gzip
import json
import random
import re
import subprocess
from pathlib import Path

import pytest
from captures import Frame, write_pcap, write_pcapng
from command import DEMO, KEYS, Ran, captures, disorder, in_parallel, part_of, short, wirelens

# Each reads a capture in its own way: each for itself, in parts, in order of time.
COMMANDS = {
    "info": ("info", "--format", "jsonl"),
    "top": ("top", "-n", "0", "--format", "csv", "--by", "flow"),
    "top --window": ("top", "-n", "0", "--format", "csv", "--window", "1s"),
    # Rows of some kilobytes each.
    "nprint": ("nprint", "--all-ip", "-4", "-6", "-t", "--icmp", "-p", "9", "-R", "-c", "1000"),
    "nprint --depth": ("nprint", "-u", "--depth", "5", "--no-decap", "-c", "1000"),
}

FUZZED_COUNT = 100
FUZZED_SHARE = 0.02


def unnamed(ran: Ran, path: Path) -> tuple[int, bytes, str]:
    """A run without what the capture was called."""
    names = re.compile("|".join(re.escape(name) for name in (str(path), "standard input")))
    said = names.sub("X", ran.stderr)
    return ran.status, names.sub("X", ran.stdout.decode(errors="replace")).encode(), said


def complaints_about(path: Path) -> list[str]:
    """What is wrong with the ways in which a file is read."""
    complaints = []
    for name, command in COMMANDS.items():
        from_file = wirelens(*command, "-r", path)
        from_pipe = wirelens(*command, "-r", "-", stdin=path.read_bytes())
        for way, ran in (("file", from_file), ("pipe", from_pipe)):
            if fault := disorder(ran):
                complaints.append(f"{name}, {way}: {fault}")
        if unnamed(from_file, path) != unnamed(from_pipe, path):
            other = difference(from_file, from_pipe)
            complaints.append(f"{name}: a pipe gives something else: {other}")
    return complaints


def difference(one: Ran, other: Ran) -> str:
    """The first line of which two runs have different versions."""

    def lines(ran: Ran) -> list[str]:
        text = f"{ran.status}\n{ran.stderr}\n{ran.stdout.decode(errors='replace')}"
        return text.split("\n")

    pairs = zip(lines(one), lines(other), strict=False)
    return " / ".join(next(((a, b) for a, b in pairs if a != b), ("more", "lines")))


def test_the_demo_capture_is_read_in_every_way() -> None:
    assert complaints_about(DEMO) == []


@pytest.mark.wide
@pytest.mark.parametrize("folder", ["formats", "malformed"])
def test_odd_captures_are_read_in_every_way(folder: str) -> None:
    found = in_parallel(complaints_about, part_of(captures(folder)))
    complaints = [f"{short(path)}: {text}" for path, texts in found for text in texts]
    assert not complaints, "\n".join(complaints)


def test_compressed_copies_give_the_same(tmp_path: Path) -> None:
    plain = DEMO.read_bytes()
    copies = {"gz": tmp_path / "a", "zst": tmp_path / "b", "gz of two members": tmp_path / "c"}
    copies["gz"].write_bytes(gzip.compress(plain))
    zstd = subprocess.run(["zstd", "-q", "-c", DEMO], capture_output=True, check=True)
    copies["zst"].write_bytes(zstd.stdout)
    halves = plain[: len(plain) // 2], plain[len(plain) // 2 :]
    copies["gz of two members"].write_bytes(b"".join(map(gzip.compress, halves)))
    for command in COMMANDS.values():
        expected = unnamed(wirelens(*command, "-r", DEMO), DEMO)
        for name, path in copies.items():
            assert unnamed(wirelens(*command, "-r", path), path) == expected, name
            ran = wirelens(*command, "-r", "-", stdin=path)
            assert unnamed(ran, path) == expected, f"{name} from a pipe"


def test_a_cut_compressed_copy_is_damaged_and_read_as_far_as_it_goes(tmp_path: Path) -> None:
    compressed = gzip.compress(DEMO.read_bytes())
    path = tmp_path / "cut.gz"
    path.write_bytes(compressed[: len(compressed) * 3 // 4])
    ran = wirelens(*COMMANDS["top"], "-r", path)
    assert ran.status == 3, ran.stderr
    assert 100 < sum(int(row["packets"]) for row in ran.rows) < 4944


def test_flipped_bytes_are_survived(tmp_path: Path) -> None:
    demo = DEMO.read_bytes()

    def complaint(path: Path) -> list[str]:
        # The name is the seed, so that a failure can be had again.
        draw = random.Random(int(path.name))
        content = bytearray(demo)
        flipped = int(len(content) * FUZZED_SHARE)
        # Half of the variants keep their first block, so that reading gets past it.
        first = 256 if int(path.name) % 2 else 0
        for at in draw.sample(range(first, len(content)), flipped):
            content[at] ^= draw.randrange(1, 256)
        path.write_bytes(content)
        # One of the three ways after the other; each reads every third variant twice.
        names = list(COMMANDS)
        names = ["info", names[int(path.name) % 3]]
        found = [
            f"{name}: {fault}"
            for name in names
            if (fault := disorder(wirelens(*COMMANDS[name], "-r", path)))
        ]
        path.unlink()
        return found

    variants = [tmp_path / str(seed) for seed in range(FUZZED_COUNT)]
    results = in_parallel(complaint, variants)
    found = [f"seed {path.name}: {text}" for path, texts in results for text in texts]
    assert not found, "\n".join(found)


def test_flipped_bytes_in_packets_change_no_totals(tmp_path: Path) -> None:
    """With the file's own structure whole, every packet is counted, whatever its headers say."""

    def complaint(path: Path) -> list[str]:
        draw = random.Random(int(path.name))
        frames = []
        for index in range(500):
            data = bytearray(sample_frame(index))
            for at in draw.sample(range(len(data)), max(1, int(len(data) * FUZZED_SHARE))):
                data[at] ^= draw.randrange(1, 256)
            frames.append(Frame(index, bytes(data), len(data)))
        write_pcap(path, frames)
        top = wirelens("top", "--by", "protocol", "-n", "0", "--format", "csv", "-r", path)
        info = wirelens("info", "--format", "jsonl", "-r", path)
        path.unlink()
        faults = [fault for ran in (top, info) if (fault := disorder(ran))]
        if "\n500 packets received by filter\n" not in top.stderr:
            faults.append(f"seed {path.name}: {top.stderr}")
        if json.loads(info.stdout)["packets"] != 500:
            faults.append(f"seed {path.name}: {info.stdout}")
        return faults

    variants = [tmp_path / str(seed) for seed in range(20)]
    found = [text for _, texts in in_parallel(complaint, variants) for text in texts]
    assert not found, "\n".join(found)


def sample_frame(index: int, size: int = 64) -> bytes:
    """A datagram from one of many hosts, its length and addresses taken from its number."""
    payload_len = 8 + (index * 7919) % size
    addresses = (0x0A000000 + index % 5003).to_bytes(4) + (0xC0000200 + index % 241).to_bytes(4)
    ports = (1024 + index % 40009).to_bytes(2) + (53 + index % 7).to_bytes(2)
    ip = b"\x45\x00" + (20 + payload_len).to_bytes(2) + b"\x00\x00\x00\x00\x40\x11\x00\x00"
    udp = ports + payload_len.to_bytes(2) + b"\x00\x00"
    ethernet = b"\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x02\x08\x00"
    return ethernet + ip + addresses + udp + bytes(payload_len - 8)


@pytest.mark.parametrize("form", ["pcap", "pcapng"])
def test_the_number_of_threads_cannot_be_seen(tmp_path: Path, form: str) -> None:
    """In a capture that is really cut in parts: those have 4 MiB at least."""
    frames = [Frame(i * 50_000, sample_frame(i, 400), 500 + i % 1000) for i in range(90_000)]
    path = tmp_path / f"large.{form}"
    {"pcap": write_pcap, "pcapng": write_pcapng}[form](path, frames)
    assert path.stat().st_size > 16 << 20
    commands = [("top", "--by", by, "-n", "0") for by in KEYS]
    commands += [("top", "--by", by, "-n", "0", "--window", "500ms") for by in ("source", "flow")]
    commands += [("info",), ("top", "-n", "3"), ("top", "-c", "50000", "-n", "0")]
    for command in commands:
        outputs = {}
        for threads in ("1", "2", "3", "8"):
            ran = wirelens(*command, "--format", "csv", "--threads", threads, "-r", path)
            assert ran.status == 0, ran.stderr
            outputs[threads] = (ran.stdout, ran.stderr)
        assert len(set(outputs.values())) == 1, command
    rows = wirelens("top", "--by", "source", "-n", "0", "--format", "csv", "-r", path).rows
    assert sum(int(row["packets"]) for row in rows) == 90_000
    assert sum(int(row["bytes"]) for row in rows) == sum(frame.wire_len for frame in frames)
    assert len(rows) == 5003


def test_the_number_of_threads_cannot_be_seen_in_the_demo_capture() -> None:
    for command in [("top", "--by", by, "-n", "0") for by in KEYS] + [("info",)]:
        for window in ((), ("--window", "1s")):
            if window and command == ("info",):
                continue
            outputs = set()
            for threads in ("1", "2", "3", "8"):
                for form in ("csv", "table"):
                    ran = wirelens(
                        *command, *window, "--format", form, "--threads", threads, "-r", DEMO
                    )
                    outputs.add((form, ran.stdout, ran.stderr))
            assert len(outputs) == 2, command
