"""A queue watched by eBPF: what two interfaces see, against captures made there at the same time.

Links are of the tests' own, in network namespaces; see lab.py. Without root they are skipped.
"""

import contextlib
import heapq
import json
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import ROOT, Ran, wirelens
from lab import Link, Listening, bring_up, ip, new_link, wait_until

RUN = ROOT / "testdata/testbed/congestion"
# Before the queue frames come in here, behind it there; those of the first are sent on the second.
BEFORE, BEHIND = ("wl0", "wl1"), ("wl2", "wl3")
# What is lost is counted from this long before a period on, where so much of the past is known.
DROPS_LOOK_BACK_NS = 10**9
LATE = "were handled after their period was evaluated"
PORTS = (40780, 50768, 60896)
PCAP_HEADER, PCAP_FRAME = 24, struct.Struct("<IIII")


@pytest.fixture
def links() -> Iterator[Link]:
    with new_link() as made:
        ip(f"link add {BEHIND[0]} type veth peer name {BEHIND[1]}")
        bring_up(*BEHIND)
        yield made


def frames(capture: Path, tmp_path: Path) -> Iterator[tuple[int, bytes]]:
    """Stamps, and frames as long as they were before they were cut."""
    plain = tmp_path / "plain.pcap"
    subprocess.run(["editcap", "-F", "nsecpcap", capture, plain], check=True, timeout=60)
    content = plain.read_bytes()
    at = PCAP_HEADER
    while at < len(content):
        seconds, ns, captured, length = PCAP_FRAME.unpack_from(content, at)
        at += PCAP_FRAME.size
        yield seconds * 10**9 + ns, content[at : at + captured].ljust(length, b"\0")
        at += captured


def replay(
    tmp_path: Path, slower: float = 1.0, behind: list[tuple[int, bytes]] | None = None
) -> None:
    """Sends what came to the queue and what left it, or `behind`, at its own pace, each on its
    link."""
    sockets = []
    for _, name in (BEFORE, BEHIND):
        out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        out.bind((name, 0))
        sockets.append(out)
    taps = [
        [(time_ns, tap, frame) for time_ns, frame in sent]
        for tap, sent in enumerate(
            (
                frames(RUN / "before.pcapng.gz", tmp_path),
                behind or frames(RUN / "after.pcapng.gz", tmp_path),
            )
        )
    ]
    begin_ns, start = taps[0][0][0], time.monotonic()
    for time_ns, tap, frame in heapq.merge(*taps):
        wait = start + (time_ns - begin_ns) * slower / 1e9 - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        sockets[tap].send(frame)
    for out in sockets:
        out.close()


@contextlib.contextmanager
def recording(name: str, path: Path) -> Iterator[None]:
    command = ["tcpdump", "-i", name, "-Q", "in", "--time-stamp-precision=nano", "-Z", "root"]
    with subprocess.Popen(
        [*command, "-s", "80", "-w", path], stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stderr and "listening" in run.stderr.readline()
        yield
        wait_until(lambda: path.stat().st_size > 0, "frames are written")
        time.sleep(0.5)
        run.terminate()


def told(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def finished(ran: Ran) -> str:
    assert ran.status == 0, ran.stderr
    return ran.stderr


def watched(tmp_path: Path, live: Path, before: Path, after: Path) -> str:
    """Replays while it is watched and recorded on both sides; the summary."""
    words = ("cca", "-i", BEFORE[0], "--egress", BEHIND[0], "--every", "100ms", "-o", live)
    with (
        recording(BEFORE[0], before),
        recording(BEHIND[0], after),
        Listening(tmp_path, *words) as watching,
    ):
        replay(tmp_path)
        time.sleep(0.3)
        return finished(watching.end())


def test_the_kernel_and_captures_tell_the_same_to_the_digit(tmp_path: Path, links: Link) -> None:
    for attempt in range(10):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        live, before, after = (folder / name for name in ("live.jsonl", "b.pcap", "a.pcap"))
        summary = watched(tmp_path, live, before, after)
        # A busy machine handles some packets after the period of their stamps was evaluated, and
        # says so.
        if LATE not in summary:
            break
    else:
        pytest.fail(f"packets were late in each of ten runs:\n{summary}")
    again = ("cca", "-r", before, "--egress", after, "--every", "100ms", "--format", "jsonl")
    ran = wirelens(*again, "--egress-offset", "0", "-n", "0")
    captures = {
        (row["start_ns"], row["src_port"]): row for row in map(json.loads, ran.stdout.splitlines())
    }
    rows = told(live)
    # A flow is known by its packets since it is followed, which is some time after its first.
    of_flow = {port: [row["start_ns"] for row in rows if row["src_port"] == port] for port in PORTS}
    begin = max(starts[2] for starts in of_flow.values())
    compared = [row for row in rows if row["start_ns"] >= begin]
    assert len(compared) > 30
    differ = []
    for row in compared:
        of_capture = captures[row["start_ns"], row["src_port"]]
        differ += [
            (row["start_ns"], row["src_port"], name, row[name], of_capture[name])
            for name in row
            if row[name] != of_capture[name]
            and (name != "drops" or row["start_ns"] >= begin + DROPS_LOOK_BACK_NS)
        ]
    assert not differ, differ
    # 10,605 packets with data or opening a connection were sent.
    assert "0 unreadable" in summary
    assert "5343 packets passed" in summary and "5268 packets passed" in summary, summary


def test_flows_that_are_not_the_heaviest_are_counted(tmp_path: Path, links: Link) -> None:
    live = tmp_path / "live.jsonl"
    words = ("cca", "-i", BEFORE[0], "--egress", BEHIND[0], "-n", "1", "--every", "500ms")
    with Listening(tmp_path, *words, "-o", live) as watching:
        replay(tmp_path, slower=0.5)
        summary = finished(watching.end())
    assert len(told(live)) >= 2
    for start in {row["start_ns"] for row in told(live)}:
        assert sum(row["start_ns"] == start for row in told(live)) == 1
    of_others = [int(line.split(" of others")[0].split()[-1]) for line in summary.splitlines()[-2:]]
    assert all(count > 500 for count in of_others), summary


def test_what_cannot_be_attached_is_named(links: Link) -> None:
    for words, interface in {
        "wl9": "wl9",
        "no-such-namespace": "no-such-namespace:eth0",
        "cannot be a device": "a b:",
    }.items():
        ran = wirelens("cca", "-i", interface, "--egress", BEHIND[0])
        assert ran.status in (1, 2) and words in ran.stderr, ran.stderr
