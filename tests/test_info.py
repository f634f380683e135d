"""`wirelens info` on captures that were put together, as `cat` makes them of pcapng files."""

import struct
import subprocess
from pathlib import Path

import pytest
from command import wirelens

START_S = 1_700_000_000
SECTION, INTERFACE, STATISTICS, FRAME = 0x0A0D0D0A, 1, 5, 6
NAME, RESOLUTION, OFFSET, BEGAN, RECEIVED, DROPPED = 2, 9, 14, 2, 4, 5


def block(order: str, kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    length = struct.pack(f"{order}I", len(body) + 12)
    return struct.pack(f"{order}I", kind) + length + body + length


def options(order: str, *values: tuple[int, bytes]) -> bytes:
    found = b"".join(
        struct.pack(f"{order}HH", code, len(value)) + value + bytes(-len(value) % 4)
        for code, value in values
    )
    return found + bytes(4)


class Capture:
    """A section whose clock counts powers of ten of a second, from so many seconds after 1970."""

    def __init__(self, order: str = "<", digits: int = 6, offset_s: int = 0) -> None:
        self.order, self.digits, self.offset_s = order, digits, offset_s
        header = struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1)
        self.content = block(order, SECTION, header)

    def ticks(self, seconds: int) -> bytes:
        ticks = (START_S + seconds - self.offset_s) * 10**self.digits
        return struct.pack(f"{self.order}II", ticks >> 32, ticks & 0xFFFFFFFF)

    def interface(self, name: str) -> None:
        offset = struct.pack(f"{self.order}q", self.offset_s)
        described = (NAME, name.encode()), (RESOLUTION, bytes([self.digits])), (OFFSET, offset)
        body = struct.pack(f"{self.order}HHI", 1, 0, 65_535) + options(self.order, *described)
        self.content += block(self.order, INTERFACE, body)

    def frame(self, interface: int, seconds: int, length: int = 60) -> None:
        head = struct.pack(f"{self.order}I", interface) + self.ticks(seconds)
        data = bytes(12) + b"\x08\x06" + bytes(length - 14)
        body = head + struct.pack(f"{self.order}II", length, length) + data
        self.content += block(self.order, FRAME, body)

    def statistics(
        self, interface: int, seconds: int, began: int | None, received: int, dropped: int
    ) -> None:
        counts = [(RECEIVED, received), (DROPPED, dropped)]
        values = [(code, struct.pack(f"{self.order}Q", count)) for code, count in counts]
        if began is not None:
            values.insert(0, (BEGAN, self.ticks(began)))
        head = struct.pack(f"{self.order}I", interface) + self.ticks(seconds)
        self.content += block(self.order, STATISTICS, head + options(self.order, *values))


def info(path: Path) -> str:
    ran = wirelens("info", "-r", path)
    assert ran.status == 0, ran.stderr
    return ran.stdout.decode()


@pytest.mark.parametrize("has_begin", [True, False])
def test_captures_put_together_have_the_drops_of_all(tmp_path: Path, has_begin: bool) -> None:
    captures = []
    for begin, received, dropped in ((0, 2, 9), (100, 1, 0)):
        capture = Capture()
        capture.interface("eth0")
        for at in range(received):
            capture.frame(0, begin + at)
        capture.statistics(0, begin + 50, begin if has_begin else None, received, dropped)
        captures.append(capture.content)
    path = tmp_path / "both.pcapng"
    path.write_bytes(b"".join(captures))
    assert "eth0, snaplen 65535, 3 packets, 3 received, 9 dropped, described 2 times" in info(path)


def test_statistics_of_one_capture_that_grow_from_section_to_section_count_once(
    tmp_path: Path,
) -> None:
    path, content = tmp_path / "sections.pcapng", b""
    for at in range(3):
        capture = Capture()
        capture.interface("eth0")
        capture.frame(0, at)
        capture.statistics(0, at, 0, at + 1, 2 * at)
        content += capture.content
    path.write_bytes(content)
    assert "3 packets, 3 received, 4 dropped, described 3 times" in info(path)


def test_interfaces_counts_and_times_are_those_of_tshark(tmp_path: Path) -> None:
    """Sections of other byte orders, clocks and orders of interfaces."""
    captures = [Capture(), Capture(">", 9), Capture("<", 6, 1_000)]
    for names, capture in zip(("eth0 eth1", "eth1 eth0", "wan"), captures, strict=True):
        for name in names.split():
            capture.interface(name)
    for capture, frames in zip(captures, ("011", "0111", "0"), strict=True):
        for at, interface in enumerate(frames):
            capture.frame(int(interface), 10 * captures.index(capture) + at, 60 + at)
    path = tmp_path / "three.pcapng"
    path.write_bytes(b"".join(capture.content for capture in captures))
    fields = ("frame.interface_name", "frame.time_epoch", "frame.len")
    asked = [word for field in fields for word in ("-e", field)]
    command = ["tshark", "-n", "-r", path, "-T", "fields", *asked]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    seen = [line.split("\t") for line in ran.stdout.splitlines()]
    row = wirelens("info", "-r", path, "--format", "csv").rows[0]
    stamps = [int(stamp.replace(".", "")) for _, stamp, _ in seen]
    assert (int(row["first_ns"]), int(row["last_ns"])) == (min(stamps), max(stamps))
    assert (int(row["packets"]), int(row["bytes"])) == (8, sum(int(size) for *_, size in seen))
    assert int(row["interfaces"]) == 5
    # Of each description that differs; tshark 4.0 names those of later sections by the first.
    told = [line for line in info(path).splitlines() if line.startswith("interface ")]
    counts = [(line.split(", ")[1], line.split(", ")[3]) for line in told]
    assert counts == [
        ("eth0", "1 packets"), ("eth1", "2 packets"), ("eth1", "1 packets"),
        ("eth0", "3 packets"), ("wan", "1 packets"),
    ]  # fmt: skip
