"""Whether AF_XDP would pay: what a packet costs that is received and not looked at, through AF_XDP
in copy mode and through an AF_PACKET ring of the same memory.

    python bench/speed/packetlog/xsk.py --output FOLDER

As `bench/speed/live.py`, whose generator, link and clock these are. Counted is the processor time
of the receiver, of the generator, in whose time the kernel delivers, and of the kernel's threads
that deliver for it; what the generator takes when nobody listens is told beside. Root and `cc`.
"""

import argparse
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "speed"))

import environment
import live
from jobs import SCRATCH

RATES = (50_000, 100_000, 200_000, 0)
FRAME_LENS = (64, 300, 1400)
RING_KIB = 2048
PROGRAM = SCRATCH / "xsk"
NOBODY = "nobody"
RECEIVERS = {
    NOBODY: None,
    "AF_PACKET ring": "ring",
    "AF_XDP": "xdp",
    "AF_XDP, 1 ms naps": "xdp-naps",
    "AF_XDP, generic": "xdp-skb",
    "AF_PACKET ring, truncated": "ring-cut",
    "AF_XDP, truncated": "xdp-cut",
    "AF_XDP, 1 ms naps, truncated": "xdp-naps-cut",
}
# Of a frame that is truncated: headers, and the note of the packet log's half in the kernel.
KEPT_LEN = 112
# The kernel takes back an AF_XDP socket some time after its process has ended.
BETWEEN_S = 0.4


@dataclass(frozen=True)
class Run:
    """One receiver at one rate."""

    round: int
    name: str
    frame_bytes: int
    rate: int
    sent: int
    sent_per_s: float
    received: int
    receiver_ns: float
    generator_ns: float
    kernel_ns: float
    load: float


def deliverers_ns() -> int:
    """Time of the kernel's threads that deliver packets when nobody else has time."""
    found = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "comm").read_text().startswith("ksoftirqd"):
                found += int((process / "schedstat").read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def generator_ns() -> int:
    """Time of all generators that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return int((used.ru_utime + used.ru_stime) * 1e9)


def listen(how: str) -> tuple[subprocess.Popen[bytes], Path]:
    words = SCRATCH / "xsk.out"
    with words.open("wb") as out:
        command = [PROGRAM, "wl0", how.removesuffix("-cut"), str(RING_KIB)]
        command += [str(KEPT_LEN)] if how.endswith("-cut") else []
        process = subprocess.Popen(command, stdout=out, stderr=out)
    live.wait_until(lambda: "listening" in words.read_text(), f"{how} listens")
    time.sleep(0.1)
    return process, words


def measure(name: str, frame_bytes: int, rate: int, seconds: float, round_: int) -> Run:
    load, how = os.getloadavg()[0], RECEIVERS[name]
    process, words = listen(how) if how else (None, None)
    own = live.cpu_ns(process.pid) if process else 0
    before = (generator_ns(), deliverers_ns())
    sent, sent_per_s, _ = live.generate(frame_bytes, rate, seconds)
    time.sleep(0.1)
    theirs = (generator_ns() - before[0], deliverers_ns() - before[1])
    received = 0
    if process and words:
        own = live.cpu_ns(process.pid) - own
        process.send_signal(signal.SIGINT)
        process.wait(live.WAIT_MAX_S)
        said = re.search(r": (\d+) packets, \d+ dropped", words.read_text())
        if said is None:
            raise live.Failure(words.read_text())
        received = int(said[1])
        time.sleep(BETWEEN_S)
    each = [round(ns / sent, 1) for ns in (own, *theirs)]
    return Run(round_, name, frame_bytes, rate, sent, sent_per_s, received, *each, load)


def of_case(runs: list[Run], name: str, frame_bytes: int, rate: int) -> list[Run]:
    return [r for r in runs if (r.name, r.frame_bytes, r.rate) == (name, frame_bytes, rate)]


def table(runs: list[Run], facts: dict[str, object]) -> str:
    out = [
        "# AF_XDP in copy mode beside an AF_PACKET ring, both doing nothing but reading",
        "",
        f"{facts['date']}, commit {facts['commit']}. {facts['cpu']}, {facts['cores']} cores,"
        f" Linux {facts['kernel']}. Load average {facts['load_before'][0]:.2f} before,"
        f" {facts['load_after'][0]:.2f} after.",
        "",
        f"A veth pair, one rx queue, {RING_KIB} KiB for either. Nanoseconds of processor time a"
        " packet sent, as *receiver + what the generator and the kernel's threads take beyond"
        f" what they take when nobody listens*; medians of {facts['rounds']} rounds. Lost: sent and"
        " not received, wherever that was. *Truncated*: a program leaves the first"
        f" {KEPT_LEN} bytes of each frame, before either receiver has it. The machine is shared;"
        " loads stand in `runs.jsonl`.",
    ]
    for frame_bytes in FRAME_LENS:
        rates = [rate for rate in RATES if of_case(runs, NOBODY, frame_bytes, rate)]
        heads = (f"{live.rate_name(rate)}: ns | lost | sent a second" for rate in rates)
        out += ["", f"## Frames of {frame_bytes} bytes", "", "| | " + " | ".join(heads) + " |"]
        out.append("|---" + "|---:|---:|---:" * len(rates) + "|")
        for name in RECEIVERS:
            cells = []
            for rate in rates:
                same = of_case(runs, name, frame_bytes, rate)
                alone = of_case(runs, NOBODY, frame_bytes, rate)
                usual = median(r.generator_ns + r.kernel_ns for r in alone)
                beyond = median(r.generator_ns + r.kernel_ns for r in same) - usual
                own = median(r.receiver_ns for r in same)
                lost = median((r.sent - r.received) / r.sent for r in same)
                per_s = f"{median(r.sent_per_s for r in same):,.0f}"
                if name == NOBODY:
                    cells += [f"({usual:,.0f})", "", per_s]
                else:
                    cells += [f"{own:,.0f} + {beyond:,.0f}", f"{max(lost, 0):.1%}", per_s]
            out.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(out) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of traffic in each run")
    parser.add_argument("--output", type=Path, required=True, help="folder for the results")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        live.say("SKIPPED: xsk: needs root, for a network of its own")
        return
    if not arguments.inside:
        live.go_inside()
    SCRATCH.mkdir(parents=True, exist_ok=True)
    arguments.output.mkdir(parents=True, exist_ok=True)
    source = Path(__file__).with_name("xsk.c")
    subprocess.run(["cc", "-O2", "-Wall", "-o", PROGRAM, source], check=True)
    live.make_link()
    facts = environment.facts([], arguments.rounds)
    cases = [(n, length, rate) for length in FRAME_LENS for rate in RATES for n in RECEIVERS]
    runs: list[Run] = []
    with (arguments.output / "runs.jsonl").open("w") as file:
        for round_ in range(arguments.rounds):
            live.say(f"round {round_ + 1} of {arguments.rounds}")
            for name, length, rate in cases if round_ % 2 == 0 else reversed(cases):
                runs.append(measure(name, length, rate, arguments.seconds, round_))
                file.write(json.dumps(asdict(runs[-1])) + "\n")
                file.flush()
    facts["load_after"] = os.getloadavg()
    (arguments.output / "environment.json").write_text(json.dumps(facts, indent=2) + "\n")
    (arguments.output / "table.md").write_text(table(runs, facts))
    print((arguments.output / "table.md").read_text())


if __name__ == "__main__":
    main()
