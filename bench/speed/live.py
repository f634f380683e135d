"""Measures `wirelens` on an interface beside its peers: `bash bench/speed/run.sh --only live`.

A pair of interfaces in a network namespace of its own, which ends with this process. A generator
sends datagrams of many flows into one end at a steady rate; one receiver at a time listens at
the other. Kept for every run: what was sent, what the receiver says it has got and lost, and the
processor time of all its threads from just before the first frame to a moment after the last.

Root is needed. NFStream is looked for in this Python, else in that named by NFSTREAM_PYTHON.
"""

import argparse
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import environment
from jobs import SCRATCH, WIRELENS

GENERATOR = "target/release/examples/live_send"
# 0 is as fast as it goes.
RATES = (50_000, 100_000, 200_000, 400_000, 0)
FRAME_LENS = (64, 300)
FLOW_COUNT = 16_384
# What frames of no length stand for: those of this capture, in their order.
REPLAY: Path | None = None
# tcpdump looks every second.
SETTLE_S = 1.3
WAIT_MAX_S = 15.0
IDLE_S = 0.5
REFERENCE = "NFStream"


class Failure(Exception):
    """A receiver that does not do what is expected of it."""


@dataclass(frozen=True)
class LossReport:
    """What a receiver says of a run."""

    processed: int
    ring_dropped: int
    unread: int = 0


@dataclass(frozen=True)
class Receiver:
    """A program that listens on `wl0`."""

    name: str
    command: list[str]
    # Whether it listens, by what it has printed.
    is_ready: Callable[[str], bool]
    # What it got: printed when it was interrupted, or asked for before.
    told: Callable[[str], LossReport]
    ask: list[str] = field(default_factory=list)
    # Whether it looks at its counts only when a packet comes, a second after the last look.
    needs_another: bool = False


@dataclass(frozen=True)
class Run:
    """One receiver at one rate."""

    round: int
    name: str
    frame_bytes: int
    rate: int
    sent: int
    sent_per_s: float
    processed: int
    # Lost: in the kernel's ring, received but never read, never seen at all.
    ring_dropped: int
    unread: int
    missed: int
    cpu_s: float
    cpu_ns_per_packet: float
    # For a second in which nothing comes.
    idle_cpu_s: float
    load: float
    sent_bytes: int


Case = tuple[Receiver, int, int]
"""A receiver, the bytes of a frame, and the packets a second."""
Row = TypeVar("Row")
Measure = Callable[[Receiver, int, int, float, int], Row]
"""A case, for so many seconds, in this round."""


def say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


# --- Receivers ------------------------------------------------------------------------------


def number(pattern: str, text: str) -> int:
    found = re.findall(pattern, text)
    if not found:
        raise Failure(f"`{pattern}` is not in what it printed: {text[-300:]}")
    return int(found[-1])


def told_by_wirelens(text: str) -> LossReport:
    processed = number(r"(\d+) packets captured", text)
    received = number(r"(\d+) packets received by filter", text)
    dropped = number(r"(\d+) packets dropped", text)
    return LossReport(processed, dropped, received - processed - dropped)


def told_by_tcpdump(text: str) -> LossReport:
    captured = number(r"(\d+) packets? captured", text)
    received = number(r"(\d+) packets? received by filter", text)
    dropped = number(r"(\d+) packets? dropped by kernel", text)
    # What it received holds what was dropped.
    return LossReport(captured, dropped, max(0, received - captured - dropped))


def told_by_softflowd(text: str) -> LossReport:
    processed = number(r"Packets processed: (\d+)", text)
    dropped = number(r"dropped by libpcap: (\d+)", text)
    return LossReport(processed, dropped)


def told_by_nfstream(text: str) -> LossReport:
    processed = number(r'"packets_processed": (\d+)', text)
    # One packet was sent so that it tells of the others.
    return LossReport(processed - 1, number(r'"packets_dropped_filtered_by_kernel": (\d+)', text))


def nfstream_python() -> str | None:
    named = os.environ.get("NFSTREAM_PYTHON")
    return sys.executable if importlib.util.find_spec("nfstream") else named


def receivers() -> Iterator[Receiver]:
    """Those that are here; the others are named."""

    def listens(text: str) -> bool:
        return "listening on" in text

    ours = [WIRELENS, "flows", "-i", "wl0", "--format", "csv"]
    yield Receiver("wirelens flows", ours, listens, told_by_wirelens)
    ours = [WIRELENS, "top", "-i", "wl0", "--window", "1s", "--format", "csv"]
    yield Receiver("wirelens top, 1 s windows", ours, listens, told_by_wirelens)
    if shutil.which("tcpdump"):
        command = ["tcpdump", "-n", "-i", "wl0", "-Z", "root", "-w", "/dev/null"]
        yield Receiver("tcpdump to /dev/null", command, listens, told_by_tcpdump)
    if shutil.which("softflowd") and shutil.which("softflowctl"):
        control, pid = str(SCRATCH / "softflowd.ctl"), str(SCRATCH / "softflowd-live.pid")
        command = ["softflowd", "-d", "-i", "wl0", "-m", "2000000", "-c", control, "-p", pid]
        ask = ["softflowctl", "-c", control, "statistics"]

        def has_control(_: str) -> bool:
            return Path(control).exists()

        yield Receiver("softflowd", command, has_control, told_by_softflowd, ask)
    if python := nfstream_python():
        command = [python, "bench/speed/nfstream_live.py", "wl0"]
        # One line a second; at the second it has read from the interface for a while.
        yield Receiver(
            REFERENCE, command, lambda t: t.count("\n") >= 2, told_by_nfstream, needs_another=True
        )


# --- One run --------------------------------------------------------------------------------


def processes_of(pid: int) -> list[int]:
    """A process and all that it started."""
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            found += map(int, children.read_text().split())
    return found


def cpu_ns(pid: int) -> int:
    """Time on a processor of all threads that live, user and system, as the scheduler has it."""
    threads = [t for p in processes_of(pid) for t in Path(f"/proc/{p}/task").iterdir()]
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads)


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_MAX_S
    while not holds():
        if time.monotonic() > deadline:
            raise Failure(f"waited {WAIT_MAX_S:g} s in vain: {what}")
        time.sleep(0.02)


def generate(frame_bytes: int, rate: int, seconds: float) -> tuple[int, float, int]:
    """Packets sent, how many a second, and their bytes."""
    command: list[object] = [GENERATOR, "wl1", frame_bytes, rate, seconds, FLOW_COUNT]
    if frame_bytes == 0:
        command = [GENERATOR, "wl1", "--replay", REPLAY, rate, seconds]
    done = subprocess.run([*map(str, command)], check=True, capture_output=True, text=True)
    pattern = r"(\d+) packets sent, (\d+) a second; \d+ refusals; (\d+) bytes\n"
    found = re.fullmatch(pattern, done.stdout)
    if found is None:
        raise Failure(f"the generator said: {done.stdout}")
    return int(found[1]), float(found[2]), int(found[3])


def measure(receiver: Receiver, frame_bytes: int, rate: int, seconds: float, round_: int) -> Run:
    load = os.getloadavg()[0]
    words = SCRATCH / "live.out"
    with words.open("wb") as out:
        rows = subprocess.DEVNULL if receiver.command[0] == WIRELENS else out
        process = subprocess.Popen(
            receiver.command, stdin=subprocess.DEVNULL, stdout=rows, stderr=out
        )
    try:
        wait_until(lambda: receiver.is_ready(words.read_text()), f"{receiver.name} listens")
        time.sleep(0.3)
        before = cpu_ns(process.pid)
        time.sleep(IDLE_S)
        idle = cpu_ns(process.pid) - before
        before = cpu_ns(process.pid)
        sent, sent_per_s, sent_bytes = generate(frame_bytes, rate, seconds)
        time.sleep(SETTLE_S)
        spent = cpu_ns(process.pid) - before
        text = ""
        if receiver.needs_another:
            generate(64, 2, 0.8)
            time.sleep(1.2)
        if receiver.ask:
            asked = subprocess.run(receiver.ask, check=True, capture_output=True, text=True)
            text = asked.stdout
        process.send_signal(signal.SIGINT)
        process.wait(WAIT_MAX_S)
        told = receiver.told(text + words.read_text(errors="replace"))
    finally:
        for pid in processes_of(process.pid) if process.poll() is None else []:
            os.kill(pid, signal.SIGKILL)
        process.wait()
        words.unlink()
    missed = sent - told.processed - told.ring_dropped - told.unread
    return Run(
        round_, receiver.name, frame_bytes, rate, sent, sent_per_s, told.processed,
        told.ring_dropped, told.unread, missed, spent / 1e9,
        round(spent / max(told.processed, 1), 1), idle / IDLE_S / 1e9, load, sent_bytes,
    )  # fmt: skip


def go_inside() -> None:
    """Becomes this very command in a network of its own."""
    again = ["unshare", "--net", sys.executable, *sys.argv, "--inside"]
    os.execvp(again[0], again)


def make_link() -> None:
    Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
    for command in ("add wl0 type veth peer name wl1", "set wl0 up", "set wl1 up"):
        subprocess.run(["ip", "link", *command.split()], check=True)

    def is_up() -> bool:
        shown = subprocess.run(["ip", "link", "show", "wl1"], capture_output=True, text=True)
        return "state UP" in shown.stdout

    wait_until(is_up, "the link is up")


def run_rounds(
    cases: Sequence[Case], measure: Measure[Row], rounds: int, seconds: float, path: Path
) -> tuple[list[Row], list[str]]:
    """All rounds, every second in reverse order, and the receivers that were left out; runs are on
    disk as soon as they are done."""
    runs: list[Row] = []
    left_out: set[str] = set()
    with path.open("w") as file:
        for round_ in range(rounds):
            say(f"round {round_ + 1} of {rounds}, load average {os.getloadavg()[0]:.2f}")
            for receiver, frame_bytes, rate in cases if round_ % 2 == 0 else reversed(cases):
                if receiver.name in left_out:
                    continue
                try:
                    run = measure(receiver, frame_bytes, rate, seconds, round_)
                except (Failure, OSError, subprocess.SubprocessError) as failure:
                    # One peer less is a poorer table, not a lost afternoon.
                    say(f"LEFT OUT: {receiver.name}: {failure}")
                    left_out.add(receiver.name)
                    continue
                runs.append(run)
                file.write(json.dumps(asdict(run)) + "\n")
                file.flush()
    return runs, sorted(left_out)


# --- The table ------------------------------------------------------------------------------

NOTE = """\
One receiver at a time on one end of a veth pair, {seconds:g} s of UDP in {flows:,} flows for each
run, {rounds} rounds in alternating order; medians. Processor time is that of all threads of the
receiver, user and system, from just before the first frame to {settle:g} s after the last, and
for each packet that it processed: what it costs to copy frames into its ring is charged to the
sender. A veth pair loses nothing by itself; where no rate is set it slows the generator, which
then takes its time from the receiver: loss is to be studied at the rates that are set. The
machine's processors are shared with the generator, and with others: load stands in `runs.jsonl`."""


def of_case(runs: list[Run], name: str, frame_bytes: int, rate: int) -> list[Run]:
    return [r for r in runs if (r.name, r.frame_bytes, r.rate) == (name, frame_bytes, rate)]


def lost_share(runs: list[Run]) -> float:
    return median((run.sent - run.processed) / run.sent for run in runs)


def cpu(runs: list[Run]) -> float:
    return median(run.cpu_ns_per_packet for run in runs)


def rate_name(rate: int) -> str:
    return f"{rate // 1000}k a second" if rate else "unpaced"


def case_table(runs: list[Run], frame_bytes: int) -> list[str]:
    out = ["| | " + " | ".join(f"{rate_name(rate)}: ns | lost" for rate in RATES) + " |"]
    out.append("|---" + "|---:|---:" * len(RATES) + "|")
    for name in dict.fromkeys(run.name for run in runs):
        cells = []
        for rate in RATES:
            same = of_case(runs, name, frame_bytes, rate)
            cells += [f"{cpu(same):,.0f}", f"{lost_share(same):.2%}"] if same else ["", ""]
        out.append(f"| {name} | {' | '.join(cells)} |")
    sent = (
        median(r.sent_per_s for r in runs if (r.frame_bytes, r.rate) == (frame_bytes, rate))
        for rate in RATES
    )
    out.append("| sent a second | " + " | ".join(f"{rate:,.0f} | " for rate in sent) + " |")
    return out


def target_rows(runs: list[Run]) -> list[str]:
    """Nothing lost that the best peer does not lose; a twentieth of NFStream's time."""
    out = ["| | found | wanted | |", "|---|---:|---:|---|"]
    names = list(dict.fromkeys(run.name for run in runs))
    peers = [name for name in names if not name.startswith("wirelens")]
    for name in (name for name in names if name not in peers):
        worst, ratios = 0.0, []
        for frame_bytes in FRAME_LENS:
            for rate in RATES:
                ours = of_case(runs, name, frame_bytes, rate)
                theirs = [of_case(runs, peer, frame_bytes, rate) for peer in peers]
                best = min((lost_share(same) for same in theirs if same), default=0.0)
                worst = max(worst, lost_share(ours) - best)
                if reference := of_case(runs, REFERENCE, frame_bytes, rate):
                    ratios.append(cpu(reference) / cpu(ours))
        verdict = "reached" if worst <= 0 else "**not reached**"
        out.append(
            f"| {name}: lost beyond the best peer, worst case | {worst:.2%} | 0 | {verdict} |"
        )
        if ratios:
            verdict = "reached" if min(ratios) >= 20 else "**not reached**"
            found = f"{min(ratios):.1f} to {max(ratios):.1f}"
            out.append(
                f"| {name}: {REFERENCE}'s time for a packet × | {found} | ≥ 20 | {verdict} |"
            )
    return out


def table(runs: list[Run], facts: dict[str, object], seconds: float) -> str:
    note = NOTE.format(seconds=seconds, flows=FLOW_COUNT, rounds=facts["rounds"], settle=SETTLE_S)
    before, after = facts["load_before"], facts["load_after"]
    out = [
        "# Wirelens on an interface beside its peers",
        "",
        f"{facts['date']}, commit {facts['commit']}. {facts['cpu']}, {facts['cores']} cores,"
        f" {facts['memory_gib']} GiB, Linux {facts['kernel']}."
        f" Load average {before[0]:.2f} before, {after[0]:.2f} after.",
        "",
        note.replace("\n", " "),
        "",
        *target_rows(runs),
    ]
    for frame_bytes in FRAME_LENS:
        out += ["", f"## Frames of {frame_bytes} bytes", "", *case_table(runs, frame_bytes)]
    return "\n".join(out) + "\n"


def new_folder() -> Path:
    """DATE-CPU-live, with a number where that is taken."""
    name = f"{datetime.now(UTC):%Y-%m-%d}-{environment.cpu_slug()}-live"
    parent, count = Path("bench/results"), 1
    while (parent / (name if count == 1 else f"{name}-{count}")).exists():
        count += 1
    return parent / (name if count == 1 else f"{name}-{count}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="of traffic in each run")
    parser.add_argument("--output", type=Path, help="folder for the results")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        say("SKIPPED: live: needs root, for a network of its own")
        return
    if not arguments.inside:
        go_inside()
    output = arguments.output or new_folder()
    output.mkdir(parents=True, exist_ok=True)
    SCRATCH.mkdir(parents=True, exist_ok=True)
    make_link()
    facts = environment.facts([], arguments.rounds)
    here = [receiver.name for receiver in receivers()]
    say(f"{', '.join(here)}; results in {output}")
    cases = [(r, length, rate) for length in FRAME_LENS for rate in RATES for r in receivers()]
    rows = output / "runs.jsonl"
    runs, _ = run_rounds(cases, measure, arguments.rounds, arguments.seconds, rows)
    facts["load_after"] = os.getloadavg()
    (output / "environment.json").write_text(json.dumps(facts, indent=2) + "\n")
    (output / "table.md").write_text(table(runs, facts, arguments.seconds))
    print((output / "table.md").read_text())
    say(f"results in {output}")


if __name__ == "__main__":
    main()
