"""Attacks of the testbed on an interface, recorded at the same time with and without hindsight.

The testbed's run of attacks that ships is replayed at its own pace, frames as long as they were, in
a network namespace of the test's own; see lab.py. Half a minute, and root.
"""

import csv
import gzip
import re
import socket
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from captures import Frame, write_pcap
from command import ROOT, Ran, wirelens
from lab import Link, Listening, new_link
from packetlog_lab import accounted, seen
from test_cca_live import frames

ATTACKS = ROOT / "testdata/testbed/attacks"
HINDSIGHT = "2s"
# Most packets of these attacks are benign ones that ARP spoofing intercepts: they are in full where
# their hosts are marked.
OF_HOSTS = ("--hindsight-reach", "host")
# Of the packets of attacks that have a payload, in full.
RECALL_MIN, GAIN_MIN = 0.6, 0.3


def replay(link: Link, sent: list[tuple[int, bytes]]) -> None:
    """Each frame when it came, counted from the first."""
    wanted = link.seen() + len(sent)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
        out.bind(("wl1", 0))
        start = time.monotonic()
        for time_ns, frame in sent:
            wait = start + (time_ns - sent[0][0]) / 1e9 - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            out.send(frame)
    deadline = time.monotonic() + 10
    while link.seen() < wanted:
        assert time.monotonic() < deadline, "not all frames passed"
        time.sleep(0.05)


def listening(folder: Path, log: Path, *arguments: str) -> Listening:
    words = ("packetlog", "record", "-i", "wl0", "-o", log, "--model", "packetlog", "--seed", "1")
    return Listening(folder, *words, "--fixed-mode", *arguments)


def lengths(log: Path) -> list[tuple[int, int]]:
    """Of each packet in a log, in the order of time, its bytes there and on the wire."""
    out = log.with_suffix(".pcapng")
    ran = wirelens("packetlog", "query", "--log", log, "-w", out)
    assert ran.status == 0, ran.stderr
    fields = ["-T", "fields", "-e", "frame.cap_len", "-e", "frame.len"]
    shown = subprocess.run(
        ["tshark", "-r", out, *fields], check=True, capture_output=True, text=True, timeout=120
    )
    return [tuple(map(int, line.split())) for line in shown.stdout.splitlines()]


def headers(tmp_path: Path, sent: list[tuple[int, bytes]]) -> list[int]:
    """How much of each frame its headers are: a mode that stores these alone."""
    capture, settings = tmp_path / "sent.pcap", tmp_path / "headers.toml"
    write_pcap(capture, [Frame(time_ns, frame, len(frame)) for time_ns, frame in sent])
    settings.write_text('[modes.headers]\npurpose = "h"\nbenign = "header"\nanomalous = "header"\n')
    ran = wirelens("packetlog", "record", "-r", capture, "-o", tmp_path / "headers",
                   "--settings", settings, "--mode", "headers")  # fmt: skip
    assert ran.status == 0, ran.stderr
    return [kept for kept, _ in lengths(tmp_path / "headers")]


@pytest.mark.testbed
def test_more_of_live_attacks_is_stored_in_full_with_hindsight(tmp_path: Path) -> None:
    with gzip.open(ATTACKS / "packets.tsv.gz", "rt", newline="") as lines:
        labels = [row["label"] for row in csv.DictReader(lines, delimiter="\t")]
    # A capture may have two frames in the wrong order; here they are sent in the order of time.
    came = list(frames(ATTACKS / "lan.pcapng.gz", tmp_path))
    order = sorted(range(len(came)), key=lambda at: came[at][0])
    sent, names = [came[at] for at in order], [labels[at] for at in order]
    header_lens = headers(tmp_path, sent)
    logs = {"none": tmp_path / "none", HINDSIGHT: tmp_path / "two"}
    ended: dict[str, Ran] = {}
    with new_link() as link:
        with (
            listening(tmp_path, logs["none"]) as plain,
            listening(tmp_path, logs[HINDSIGHT], "--hindsight", HINDSIGHT, *OF_HOSTS) as late,
        ):
            replay(link, sent)
            for name, run in (("none", plain), (HINDSIGHT, late)):
                seen(logs[name], len(sent))
                ended[name] = run.end()
    recall, benign = {}, {}
    for name, log in logs.items():
        assert ended[name].status == 0, ended[name].stderr
        counts = accounted(ended[name])
        assert counts["seen"] == counts["kept"] == len(sent)
        stored = lengths(log)
        assert [wire for _, wire in stored] == [len(frame) for _, frame in sent]
        whole: Counter[tuple[bool, bool]] = Counter()
        for label, header_len, (kept, wire) in zip(names, header_lens, stored, strict=True):
            if wire > header_len:
                whole[label != "benign", kept == wire] += 1
        recall[name] = whole[True, True] / (whole[True, True] + whole[True, False])
        benign[name] = whole[False, True] / (whole[False, True] + whole[False, False])
    print(f"attack packets with payload in full {recall}, benign {benign}")
    assert recall[HINDSIGHT] > max(RECALL_MIN, recall["none"] + GAIN_MIN), (recall, benign)
    assert re.search(r"packetlog: [1-9]\d* packets stored at greater length", ended["2s"].stderr)
    assert "waited less" not in ended[HINDSIGHT].stderr
