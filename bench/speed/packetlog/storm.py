"""Recorders where they lose packets, the counterpart of TitanLog's Table VII and Figure 8.

    .venv/bin/python bench/speed/packetlog/storm.py OUT

As `live_beside.py`, whose recorders these are; but the generator is `storm.c`, and the link hands
packets to a thread of the kernel's (GRO), so that sending does not wait for the receiver. A rate is
what is asked of the generator; *arrived* is what the interface counts. Root and `cc`.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "speed"))

import environment
import live
import live_beside
from jobs import SCRATCH

RATES = (200_000, 400_000, 600_000, 800_000, 1_200_000, 1_600_000, 2_400_000)
FRAME_LENS = (300, 850)
FLOW_COUNT = 16_384
RING_KIB = 65_536
PROGRAM = SCRATCH / "storm"
REFERENCE = live_beside.REFERENCE
OURS = ("wirelens, default", "wirelens, in the kernel", "wirelens, in the kernel, AF_XDP")
# The share that tcpdump has to lose for a rate to count as its limit.
LIMIT = 0.10


def arrived() -> int:
    """Packets that the interface has received."""
    words = ["ip", "-s", "-j", "link", "show", "wl0"]
    shown = subprocess.run(words, check=True, capture_output=True, text=True)
    return json.loads(shown.stdout)[0]["stats64"]["rx"]["packets"]


def generate(frame_bytes: int, rate: int, seconds: float) -> tuple[int, float, int]:
    """In place of the generator of `live.py`: what arrived."""
    before = arrived()
    command = [str(PROGRAM), "wl1", str(frame_bytes), str(rate), str(seconds), str(FLOW_COUNT)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    if not re.fullmatch(r"\d+ packets sent, \d+ a second; \d+ bytes\n", done.stdout):
        raise live.Failure(f"the generator said: {done.stdout}")
    count = arrived() - before
    if count == 0:
        raise live.Failure("no packet arrived")
    return count, count / seconds, count * frame_bytes


def make_link() -> None:
    live.make_link()
    for end in ("wl0", "wl1"):
        subprocess.run(["ethtool", "-K", end, "gro", "on"], check=True, capture_output=True)


def limit(runs: list[live_beside.Run], length: int) -> int | None:
    """The lowest rate at which tcpdump loses a tenth; else the highest there is."""
    rates = [rate for rate in RATES if live.of_case(runs, REFERENCE, length, rate)]
    loses = [
        rate
        for rate in rates
        if live_beside.lost(live.of_case(runs, REFERENCE, length, rate)) >= LIMIT
    ]
    return min(loses) if loses else (max(rates) if rates else None)


def target_rows(runs: list[live_beside.Run]) -> Iterator[str]:
    yield "| | asked for | tcpdump lost | ours lost | arrived | wanted | |"
    yield "|---|---:|---:|---:|---:|---:|---|"
    for length in FRAME_LENS:
        rate = limit(runs, length)
        for name in OURS:
            ours = live.of_case(runs, name, length, rate or 0)
            if rate is None or not ours:
                continue
            theirs = live_beside.lost(live.of_case(runs, REFERENCE, length, rate))
            share = live_beside.lost(ours)
            verdict = "reached" if share == 0 else "**not reached**"
            what = f"{name}, {length} bytes, where tcpdump first loses 10 %"
            if theirs < LIMIT:
                what = f"{name}, {length} bytes, at the highest rate"
            came = median(run.sent_per_s for run in ours)
            found = f"{theirs:.1%} | {share:.2%} | {came / 1000:,.0f}k"
            yield f"| {what} | {rate:,} | {found} | 0 | {verdict} |"


def case_table(runs: list[live_beside.Run], length: int) -> Iterator[str]:
    rates = [rate for rate in RATES if any(run.rate == rate for run in runs)]
    heads = (f"{rate // 1000}k: arrived | lost | ns" for rate in rates)
    yield "| | " + " | ".join(heads) + " |"
    yield "|---" + "|---:|---:|---:" * len(rates) + "|"
    for name in dict.fromkeys(run.name for run in runs):
        cells = []
        for rate in rates:
            same = live.of_case(runs, name, length, rate)
            if same:
                arrived_per_s = median(run.sent_per_s for run in same)
                ns = median(run.cpu_s * 1e9 / run.sent for run in same)
                lost = live_beside.lost(same)
                cells += [f"{arrived_per_s / 1000:,.0f}k", f"{lost:.1%}", f"{ns:,.0f}"]
            else:
                cells += ["", "", ""]
        yield f"| {name} | {' | '.join(cells)} |"


NOTE = """\
One recorder at a time, {seconds:g} s of UDP in {flows:,} flows at each rate, {rounds} rounds in
alternating order; medians. Each has a ring of {ring} MiB and writes to the same disk. *lost* is
what the interface received and the recorder did not take in; *ns* is processor time of all its
threads for each packet that arrived. The kernel's thread that delivers packets, the generator and
the recorder share two processors: the rate that is asked for is not always the one that arrives. In
particular a program in the kernel takes its time from the thread that delivers, so that the link
drops what the interface does not take, before it is counted."""


def table(runs: list[live_beside.Run], facts: dict[str, object], seconds: float) -> str:
    note = NOTE.format(
        seconds=seconds, flows=FLOW_COUNT, rounds=facts["rounds"], ring=RING_KIB // 1024
    )
    out = [
        "# Recorders where they lose packets", "",
        f"{facts['date']}, commit {facts['commit']}. {facts['cpu']}, {facts['cores']} cores,"
        f" {facts['memory_gib']} GiB, Linux {facts['kernel']}.",
        "", note.replace("\n", " "), "", *target_rows(runs),
    ]  # fmt: skip
    for length in FRAME_LENS:
        if any(run.frame_bytes == length for run in runs):
            out += ["", f"## Frames of {length} bytes", "", *case_table(runs, length)]
    return "\n".join(out) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, help="folder for the results")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="of traffic in each run")
    parser.add_argument("--only", action="append", default=[], help="recorders named so")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if os.geteuid() != 0:
        live.say("SKIPPED: packetlog-storm: needs root, for a network of its own")
        return
    if not given.inside:
        live.go_inside()
    given.output.mkdir(parents=True, exist_ok=True)
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    source = Path(__file__).parent / "storm.c"
    subprocess.run(["cc", "-O2", "-o", PROGRAM, source], check=True)
    live_beside.RING_KIB, live.FLOW_COUNT, live.generate = RING_KIB, FLOW_COUNT, generate
    make_link()
    facts = environment.facts([], given.rounds)
    cases = [
        (receiver, length, rate)
        for length in FRAME_LENS
        for rate in RATES
        for receiver in live_beside.receivers(["models/packetlog"])
        if not given.only or receiver.name.startswith(tuple(given.only))
    ]
    runs, facts["left_out"] = live.run_rounds(
        cases, live_beside.measure, given.rounds, given.seconds, given.output / "storm.jsonl"
    )
    (given.output / "environment.json").write_text(json.dumps(facts, indent=2) + "\n")
    text = table(runs, facts, given.seconds)
    (given.output / "table.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
