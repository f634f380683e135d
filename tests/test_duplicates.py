"""Packets that a SPAN port shows twice are counted once, by every way of asking.

The demo capture is shown again as such a port does: a copy of each packet some microseconds later,
with a VLAN tag, other MAC addresses and, of every other packet, a hop less.
"""

import subprocess
from pathlib import Path

import pytest
import wirelens as package
from captures import Frame, read_pcapng, write_pcap
from command import DEMO, Ran, wirelens

LATER_NS = 40_000
TAG = bytes.fromhex("81000063")


def copied(frame: Frame, has_hop: bool) -> Frame:
    data = bytearray(frame.data)
    kind = data[12:14]
    if has_hop and kind == b"\x08\x00":
        data[22] -= 1
        data[24:26] = b"\xab\xcd"
    elif has_hop and kind == b"\x86\xdd":
        data[21] -= 1
    data = bytes([2, 9, 9, 9, 9, 9, 2, 8, 8, 8, 8, 8]) + TAG + data[12:]
    return Frame(frame.time_ns + LATER_NS, data, frame.wire_len + len(TAG))


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The demo's packets over IP, once and twice."""
    folder = tmp_path_factory.mktemp("twice")
    frames = [f for f in read_pcapng(DEMO) if f.data[12:14] in (b"\x08\x00", b"\x86\xdd")]
    both = frames + [copied(frame, at % 2 == 0) for at, frame in enumerate(frames)]
    once, twice = folder / "once.pcap", folder / "twice.pcap"
    write_pcap(once, frames)
    write_pcap(twice, sorted(both, key=lambda frame: frame.time_ns))
    return once, twice


def rows(command: str, path: Path, *options: str) -> list[dict[str, str]]:
    return wirelens(command, "-q", "-r", path, "--format", "csv", *options).rows


def account(ran: Ran) -> list[str]:
    return [line for line in ran.stderr.splitlines() if "dropped" in line]


@pytest.mark.parametrize("threads", ["1", "3"])
def test_tables_of_a_doubled_capture_are_those_of_the_original(
    twice: tuple[Path, Path], threads: str
) -> None:
    once, doubled = twice
    option = ("--drop-duplicates", "--threads", threads)
    for command, more in (("flows", ("--stats",)), ("top", ("-n", "0", "--by", "flow"))):
        expected = rows(command, once, *option, *more)
        assert len(expected) > 100
        assert rows(command, doubled, *option, *more) == expected
        assert rows(command, doubled, *more) != expected


def test_copies_are_dropped_and_accounted_for(twice: tuple[Path, Path]) -> None:
    _, doubled = twice
    received = 2 * len(list(package.packets(twice[0])))
    ran = wirelens("top", "-r", doubled, "--drop-duplicates", "--format", "csv")
    said, summed = account(ran)
    dropped = int(said.removesuffix(" packets dropped as duplicates"))
    assert received / 2 <= dropped < received / 2 * 1.02
    assert f"{received} received = {received - dropped} processed + 0 filtered + " in summed
    table = package.top(doubled, drop_duplicates="5ms")
    assert table.counts["duplicates"] == dropped
    assert table.counts["received"] == received
    assert package.top(doubled).counts["duplicates"] == 0


def test_a_window_shorter_than_copies_are_late_drops_none(twice: tuple[Path, Path]) -> None:
    _, doubled = twice
    late, near = (
        len(list(package.packets(doubled, drop_duplicates=window))) for window in ("39us", "40us")
    )
    assert late > 1.9 * near


def test_settings_of_run_have_it(twice: tuple[Path, Path], tmp_path: Path) -> None:
    once, doubled = twice
    settings = tmp_path / "wirelens.toml"
    output = tmp_path / "flows.csv"
    settings.write_text(
        f'[input]\nread = ["{doubled}"]\ndrop-duplicates = "5ms"\n[flows]\noutput = "{output}"\n'
    )
    assert wirelens("run", "-c", settings).status == 0
    other = tmp_path / "once.csv"
    assert wirelens("flows", "-r", once, "--drop-duplicates", "-o", other).status == 0
    assert output.read_text() == other.read_text()


def test_copies_of_whole_frames_are_those_that_editcap_finds(
    twice: tuple[Path, Path], tmp_path: Path
) -> None:
    """editcap compares whole frames with the 999 before them, within a time; here none is new."""
    frames = list(read_pcapng(DEMO))
    both = frames + [Frame(f.time_ns + LATER_NS, f.data, f.wire_len) for f in frames]
    doubled = tmp_path / "doubled.pcap"
    write_pcap(doubled, sorted(both, key=lambda frame: frame.time_ns))
    left = tmp_path / "left.pcap"
    said = subprocess.run(
        ["editcap", "-w", "0.005", doubled, left], capture_output=True, text=True, check=True
    )
    assert "duplicate" in said.stderr
    by_editcap = list(package.packets(left))
    ours = list(package.packets(doubled, drop_duplicates="5ms"))
    is_ip = [p for p in ours if p.src_ip is not None]
    assert len(is_ip) == sum(p.src_ip is not None for p in by_editcap)


def test_info_refuses_it_and_a_wrong_window_is_named(twice: tuple[Path, Path]) -> None:
    once, _ = twice
    ran = wirelens("info", "-r", once, "--drop-duplicates")
    assert ran.status == 2 and "--drop-duplicates: info describes" in ran.stderr
    ran = wirelens("top", "-r", once, "--drop-duplicates=soon")
    assert ran.status == 2 and "--drop-duplicates" in ran.stderr
    with pytest.raises(package.OptionError, match="drop_duplicates"):
        package.top(once, drop_duplicates="soon")
