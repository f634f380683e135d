"""Stamps are what a capture says: whatever they say, each command that has windows, periods or
timeouts ends in bounded work, accounts for every packet, stops for no wrong stamp, and gives the
same rows on any number of threads (`packet::event_time`)."""

import csv
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from captures import Frame, read_pcapng, write_pcapng
from command import DEMO, Ran, disorder, wirelens

TIME_MAX_S = 60
"""Each of these runs takes a second; one that visits each empty window, or looks through what it
keeps for each packet, takes hours."""

S = 10**9
NOW = 1_750_000_000 * S
DAY = 86_400 * S
YEAR = 365 * DAY
IN_2106 = 4_294_967_295 * S
LATEST = 2**63 - 1

FRAMES = list(read_pcapng(DEMO))
PACKETS = len(FRAMES)
PACED = [NOW + at * 5_000_000 for at in range(PACKETS)]


def is_data(frame: bytes) -> bool:
    """Whether it has data of TCP over IPv4 over Ethernet."""
    return frame[12:14] == b"\x08\0" and frame[23] == 6 and len(frame) > 120


def stray(*stamps: int) -> list[int]:
    """Ordinary stamps, and in their midst one or some others."""
    middle = next(at for at in range(PACKETS // 2, PACKETS) if is_data(FRAMES[at].data))
    return PACED[:middle] + list(stamps) + PACED[middle + len(stamps) :]


def mixed(every: int, other: Callable[[int], int]) -> list[int]:
    return [other(at) if at % every == 1 else paced for at, paced in enumerate(PACED)]


# Stamps of the packets of the demo capture.
STAMPS: dict[str, list[int]] = {
    "ordinary": PACED,
    "one of 2106": stray(IN_2106),
    "the first of 2106": [IN_2106, *PACED[1:]],
    "one of 1970": stray(0),
    "the latest that there is": stray(LATEST - 1, LATEST),
    "beyond the latest": stray(2**64 - 1),
    "an hour back": [paced - (at > PACKETS // 2) * 3600 * S for at, paced in enumerate(PACED)],
    "each second one of 2106": mixed(2, lambda _: IN_2106),
    "each second one further ahead": mixed(2, lambda at: NOW + at * YEAR // 50),
    "two minutes forth and back": mixed(2, lambda at: PACED[at] + 120 * S + S // 2),
    "each a day later": [NOW + at * DAY for at in range(PACKETS)],
    "each 11 s later": [NOW + at * 11 * S for at in range(PACKETS)],
    "each 121 s earlier": [NOW - at * 121 * S for at in range(PACKETS)],
    "all the same": [NOW] * PACKETS,
    "each a nanosecond later": [NOW + at for at in range(PACKETS)],
}

# Rows that a packet can cause at most: a row of a key, and of `cca` those of what waits for 10 s.
COMMANDS: dict[str, tuple[list[str], int]] = {
    "top": (["top", "-n", "0", "--by", "flow"], 1),
    "top in windows": (["top", "-n", "0", "--window", "1s"], 1),
    "top in windows of a microsecond": (["top", "-n", "0", "--window", "1us"], 1),
    "top by name in windows": (["top", "-n", "0", "--by", "name", "--window", "1ms"], 1),
    "flows": (["flows", "--stats", "--read-names"], 1),
    "flows in windows": (["flows", "--window", "1ms"], 1),
    "flows in windows of a microsecond": (["flows", "--window", "1us"], 1),
    "classify": (["classify", "-m", "services"], 1),
    "latency": (["latency"], 1),
    "latency by destination": (["latency", "--by", "destination", "--every", "1ms"], 1),
    "latency by packet": (["latency", "--by", "packet"], 1),
    "cca": (["cca", "-n", "0"], 11),
    "cca at two taps": (["cca", "-n", "0", "--egress", "CAPTURE"], 11),
    "l4s": (["l4s", "-m", "l4s", "--to", "*:443", "--every", "10ms"], 2),
}

APPLICATIONS = {
    "top": 'by = "flow"\nrows = 0\nwindow = "10ms"', "flows": "",
    "classify": 'model = "services"', "cca": "rows = 0", "latency": "", "unanswered": "",
    "traffic": 'every = "10ms"', "l4s": 'model = "l4s"\nto = ["*:443"]',
    "packetlog": "",
}  # fmt: skip


def capture(folder: Path, stamps: list[int]) -> Path:
    path = folder / "stamps.pcapng"
    frames = zip(stamps, FRAMES, strict=True)
    write_pcapng(path, [Frame(time, frame.data, frame.wire_len) for time, frame in frames])
    return path


def accounted(said: str) -> int:
    """Sums that were printed; each has to hold."""
    sums = re.findall(r"^[a-z0-9]+: (\d+) received = (.*)$", said, re.M)
    for received, terms in sums:
        counted = [int(count) for count in re.findall(r"(\d+) [a-z]+", terms)]
        assert int(received) == PACKETS == sum(counted), said
    return len(sums)


def fine(ran: Ran) -> Ran:
    assert disorder(ran) is None and ran.status == 0, ran.stderr[-500:]
    assert accounted(ran.stderr)
    return ran


@pytest.mark.parametrize("stamps", STAMPS)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_ends_in_bounded_work(tmp_path: Path, name: str, stamps: str) -> None:
    path = capture(tmp_path, STAMPS[stamps])
    words, rows_per_packet = COMMANDS[name]
    words = [str(path) if word == "CAPTURE" else word for word in words]
    ran = fine(wirelens(*words, "-r", path, "--format", "csv", time_max_s=TIME_MAX_S))
    assert len(ran.rows) <= rows_per_packet * PACKETS
    if words[0] in ("top", "flows") and "name" not in words:
        packets = ("packets",) if words[0] == "top" else ("src_packets", "dst_packets")
        counted = re.search(r"(\d+) counted", ran.stderr)
        in_rows = sum(int(row[of]) for row in ran.rows for of in packets)
        assert counted and in_rows == int(counted[1])


@pytest.mark.parametrize("stamps", STAMPS)
def test_all_applications_give_the_same_on_one_thread_and_on_three(
    tmp_path: Path, stamps: str
) -> None:
    path = capture(tmp_path, STAMPS[stamps])
    compare_threads(tmp_path, path, APPLICATIONS)


@pytest.mark.parametrize("stamps", STAMPS)
def test_names_in_windows_are_the_same_on_one_thread_and_on_three(
    tmp_path: Path, stamps: str
) -> None:
    path = capture(tmp_path, STAMPS[stamps])
    compare_threads(tmp_path, path, {"top": 'by = "name"\nrows = 0\nwindow = "1ms"'})


def compare_threads(folder_of_both: Path, path: Path, applications: dict[str, str]) -> None:
    """The tables of a run on one thread and on three, which have to be the same."""
    found = []
    for threads in (1, 3):
        folder = folder_of_both / str(threads)
        folder.mkdir()
        text = f'[input]\nread = "{path}"\n[run]\nseed = 1\nthreads = {threads}\n'
        for name, settings in applications.items():
            output = "log" if name == "packetlog" else f'{name}.csv"\nformat = "csv'
            text += f'[{name}]\noutput = "{output}"\n{settings}\n'
        (folder / "wirelens.toml").write_text(text)
        ran = fine(wirelens("run", "-c", "wirelens.toml", cwd=folder, time_max_s=TIME_MAX_S))
        assert accounted(ran.stderr) >= len(applications)
        found.append({path.name: path.read_bytes() for path in sorted(folder.glob("*.csv"))})
    tables = [name for name in applications if name != "packetlog"]
    assert len(found[0]) == len(tables) and found[0] == found[1]


def column(ran: Ran, name: str) -> list[int]:
    return [int(row[name]) for row in csv.DictReader(ran.stdout.decode().splitlines())]


@pytest.mark.parametrize("name", ["top in windows", "latency by destination", "cca"])
@pytest.mark.parametrize("stamps", ["one of 2106", "the first of 2106", "beyond the latest"])
def test_a_wrong_stamp_stops_no_window(tmp_path: Path, name: str, stamps: str) -> None:
    path = capture(tmp_path, STAMPS[stamps])
    ran = fine(wirelens(*COMMANDS[name][0], "-r", path, "--format", "csv"))
    starts = next(column for column in ran.rows[0] if column.endswith("start_ns"))
    seconds = {start // S for start in column(ran, starts) if start < NOW + DAY}
    # Windows that begin in each of the last seconds.
    last = PACED[-1] // S
    assert {last - 3, last - 2, last - 1} <= seconds


def test_steps_back_are_counted_and_rationed(tmp_path: Path) -> None:
    path = capture(tmp_path, STAMPS["each second one of 2106"])
    for words in (["flows"], ["top", "--window", "1s"], ["cca"]):
        ran = fine(wirelens(*words, "-r", path, "--format", "csv"))
        assert re.search(r"\b16 (clock steps|steps back of the clock)", ran.stderr), ran.stderr
