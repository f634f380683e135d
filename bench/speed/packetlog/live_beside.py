"""Measures `wirelens packetlog record` on an interface beside tcpdump, dumpcap, netsniff-ng and
xdpdump: `bash bench/speed/packetlog/live.sh`.

As `bench/speed/live.py`, whose generator, link and clock these are, but what comes is stored: each
receiver has the same small ring and writes to the same disk, and what it stored is counted in the
files that it wrote. Root is needed.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "speed"))

import environment
import live
from jobs import SCRATCH, WIRELENS

RATES = (50_000, 100_000, 200_000)
FRAME_LENS = (300, 850)
RING_KIB = 2048
OUT = SCRATCH / "packetlog-live"
REFERENCE = "tcpdump"
KERNEL_MODEL = "models/packetlog-kernel"


@dataclass(frozen=True)
class Run:
    """One receiver at one rate."""

    round: int
    name: str
    # 0 of a capture's.
    frame_bytes: int
    rate: int
    sent: int
    sent_bytes: int
    sent_per_s: float
    # By the receiver's own word, and as they lie in its files.
    told: int
    stored: int
    stored_bytes: int
    cpu_s: float
    cpu_ns_per_stored: float
    load: float


def receivers(models: Sequence[str]) -> Iterator[live.Receiver]:
    def listens(text: str) -> bool:
        return "listening on" in text

    ring = str(RING_KIB)
    for model in models:
        of_model = f", {Path(model).name}" if len(models) > 1 else ""
        for mode in ("default", "log-all", "log-minimum"):
            ours = [WIRELENS, "packetlog", "record", "-i", "wl0", "-B", ring, "-o", str(OUT)]
            ours += ["--model", model, "--mode", mode, "--fixed-mode"]
            name = f"wirelens, {mode}{of_model}"
            yield live.Receiver(name, ours, listens, live.told_by_wirelens)
    kernel = [WIRELENS, "packetlog", "record", "-i", "wl0", "-B", ring, "-o", str(OUT)]
    kernel += ["--mode", "default", "--fixed-mode", "--model", KERNEL_MODEL]
    name = "wirelens, the kernel's model in user space"
    yield live.Receiver(name, kernel, listens, live.told_by_wirelens)
    for name, means in (("in the kernel", "xdp"), ("in the kernel, AF_XDP", "af-xdp")):
        words = [*kernel, "--offload", means, "--mirror"]
        yield live.Receiver(f"wirelens, {name}", words, listens, live.told_by_wirelens)
    if shutil.which("tcpdump"):
        theirs = ["tcpdump", "-n", "-i", "wl0", "-B", ring, "-Z", "root", "-w", str(OUT / "t.pcap")]
        yield live.Receiver(REFERENCE, theirs, listens, live.told_by_tcpdump)
        short = [*theirs, "-s", "96"]
        yield live.Receiver("tcpdump -s 96", short, listens, live.told_by_tcpdump)
    if shutil.which("dumpcap"):
        theirs = ["dumpcap", "-i", "wl0", "-B", str(RING_KIB // 1024), "-w", str(OUT / "d.pcapng")]
        yield live.Receiver("dumpcap", theirs, lambda t: "File:" in t, told_by_dumpcap)
    if shutil.which("netsniff-ng"):
        theirs = ["netsniff-ng", "-i", "wl0", "-o", str(OUT / "n.pcap"), "-s"]
        theirs += ["-S", f"{RING_KIB // 1024}MiB"]
        yield live.Receiver(
            "netsniff-ng", theirs, lambda t: "Running" in t or "Hup" in t, told_by_netsniff
        )
    if shutil.which("xdpdump"):
        theirs = ["xdpdump", "-i", "wl0", "-w", str(OUT / "x.pcap"), "-s", "65535"]
        yield live.Receiver("xdpdump", theirs, listens, told_by_xdpdump)


def told_by_dumpcap(text: str) -> live.LossReport:
    found = re.findall(r"Packets received/dropped on interface '?[^']*'?: (\d+)/(\d+)", text)
    if not found:
        raise live.Failure(f"dumpcap said: {text[-300:]}")
    captured, dropped = map(int, found[-1])
    return live.LossReport(captured, dropped)


def told_by_netsniff(text: str) -> live.LossReport:
    passed = live.number(r"(\d+)\s+packets passed filter", text)
    dropped = live.number(r"(\d+)\s+packets failed filter \(out of space\)", text)
    return live.LossReport(passed, dropped)


def told_by_xdpdump(text: str) -> live.LossReport:
    captured = live.number(r"(\d+) packets captured", text)
    dropped = live.number(r"(\d+) packets dropped by (?:kernel|perf ring)", text)
    return live.LossReport(captured, dropped)


def files() -> list[Path]:
    suffixes = {".pcap", ".pcapng"}
    return sorted(path for path in OUT.rglob("*") if path.suffix in suffixes)


def stored() -> tuple[int, int]:
    """Packets in the files, and bytes of the files."""
    paths = files()
    if not paths:
        return 0, 0
    command = [WIRELENS, "info", "--format", "jsonl", "-q"]
    for path in paths:
        command += ["-r", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    packets = sum(int(json.loads(line)["packets"]) for line in done.stdout.splitlines())
    return packets, sum(path.stat().st_size for path in paths)


def measure(receiver: live.Receiver, length: int, rate: int, seconds: float, round_: int) -> Run:
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    run = live.measure(receiver, length, rate, seconds, round_)
    packets, size = stored()
    shutil.rmtree(OUT)
    cpu_ns = run.cpu_s * 1e9 / max(packets, 1)
    return Run(
        round_, receiver.name, length, rate, run.sent, run.sent_bytes, run.sent_per_s,
        run.processed, packets, size, run.cpu_s, round(cpu_ns, 1), run.load,
    )  # fmt: skip


def lost(runs: list[Run]) -> float:
    # A frame of the system's own may come besides.
    return median(max(0, run.sent - run.told) / run.sent for run in runs)


def cpu(runs: list[Run]) -> float:
    return median(run.cpu_s * 1e9 / max(run.told, 1) for run in runs)


def frame_lens(runs: list[Run]) -> list[int]:
    return list(dict.fromkeys(run.frame_bytes for run in runs))


def case_table(runs: list[Run], length: int) -> list[str]:
    rates = [rate for rate in RATES if any(run.rate == rate for run in runs)]
    out = ["| | " + " | ".join(f"{rate // 1000}k/s: ns | lost | bytes" for rate in rates) + " |"]
    out.append("|---" + "|---:|---:|---:" * len(rates) + "|")
    for name in dict.fromkeys(run.name for run in runs):
        cells = []
        for rate in rates:
            same = live.of_case(runs, name, length, rate)
            if not same:
                cells += ["", "", ""]
                continue
            share = median(run.stored_bytes / run.sent_bytes for run in same)
            cells += [f"{cpu(same):,.0f}", f"{lost(same):.2%}", f"{share:.0%}"]
        out.append(f"| {name} | {' | '.join(cells)} |")
    return out


def target_rows(runs: list[Run]) -> list[str]:
    """Nothing lost where any peer loses nothing; half of tcpdump's time for a packet."""
    out = ["| | found | wanted | |", "|---|---:|---:|---|"]
    names = list(dict.fromkeys(run.name for run in runs))
    peers = [name for name in names if not name.startswith("wirelens")]
    for name in (name for name in names if name not in peers):
        worst, ratios = 0.0, []
        for length in frame_lens(runs):
            for rate in RATES:
                ours = live.of_case(runs, name, length, rate)
                theirs = [live.of_case(runs, peer, length, rate) for peer in peers]
                best = min((lost(same) for same in theirs if same), default=1.0)
                if ours and best == 0:
                    worst = max(worst, lost(ours))
                reference = live.of_case(runs, REFERENCE, length, rate)
                if ours and reference:
                    ratios.append(cpu(ours) / cpu(reference))
        verdict = "reached" if worst <= 0 else "**not reached**"
        out.append(f"| {name}: lost where a peer loses nothing | {worst:.2%} | 0 | {verdict} |")
        if ratios:
            verdict = "reached" if max(ratios) <= 0.5 else "**not reached**"
            found = f"{min(ratios):.2f} to {max(ratios):.2f}"
            out.append(f"| {name}: time for a packet ÷ tcpdump's | {found} | ≤ 0.5 | {verdict} |")
    return out


NOTE = """\
One receiver at a time on one end of a veth pair, {seconds:g} s of {traffic} for each
run, {rounds} rounds in alternating order; medians. Each has a ring of {ring} KiB and writes to the
same disk. *ns* is processor time of all its threads, user and system, for each packet that it took
in; *lost* is what was sent and not taken in; *bytes* is the size of its files as a share of what
was sent. Wirelens judges every packet with the forest that ships besides, and its time is that of
its writes as well: its kernel threads write past the page cache. The others write into the page
cache, and what the kernel then does to bring that to the disk is in nobody's time."""


def traffic(runs: list[Run]) -> str:
    if live.REPLAY is None:
        return f"UDP in {live.FLOW_COUNT:,} flows, most of which the forest finds anomalous,"
    mean = sum(run.sent_bytes for run in runs) / sum(run.sent for run in runs)
    return (
        f"the frames of `{live.REPLAY.name}` in their order (mean {mean:.0f} bytes; what it cut off"
        " is sent as zeros; it begins anew where it ends)"
    )


def table(runs: list[Run], facts: dict[str, object], seconds: float) -> str:
    note = NOTE.format(
        seconds=seconds, traffic=traffic(runs), rounds=facts["rounds"], ring=RING_KIB
    )
    out = [
        "# The packet log on an interface beside its peers",
        "",
        f"{facts['date']}, commit {facts['commit']}. {facts['cpu']}, {facts['cores']} cores,"
        f" {facts['memory_gib']} GiB, Linux {facts['kernel']}.",
        "",
        note.replace("\n", " "),
        "",
        *target_rows(runs),
    ]
    for length in frame_lens(runs):
        name = f"Frames of {length} bytes" if length else "Frames of the capture"
        out += ["", f"## {name}", "", *case_table(runs, length)]
    return "\n".join(out) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="of traffic in each run")
    parser.add_argument("--flows", type=int, default=live.FLOW_COUNT, help="packets go round them")
    parser.add_argument("--replay", type=Path, help="send the frames of this capture instead")
    parser.add_argument("--model", action="append", default=[], help="several take turns")
    parser.add_argument("--only", action="append", default=[], help="receivers named so")
    parser.add_argument("--frame-bytes", type=int, action="append", default=[])
    parser.add_argument("--output", type=Path, required=True, help="folder for the results")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        live.say("SKIPPED: packetlog-live: needs root, for a network of its own")
        return
    if not arguments.inside:
        live.go_inside()
    arguments.output.mkdir(parents=True, exist_ok=True)
    live.FLOW_COUNT = arguments.flows
    live.REPLAY = arguments.replay
    live.make_link()
    if arguments.replay:
        for end in ("wl0", "wl1"):
            subprocess.run(["ip", "link", "set", end, "mtu", "65535"], check=True)
    facts = environment.facts([], arguments.rounds)
    lengths = (0,) if arguments.replay else arguments.frame_bytes or FRAME_LENS
    cases = [
        (receiver, length, rate)
        for length in lengths
        for rate in RATES
        for receiver in receivers(arguments.model or ["models/packetlog"])
        if not arguments.only or receiver.name.startswith(tuple(arguments.only))
    ]
    rows = arguments.output / "live.jsonl"
    runs, facts["left_out"] = live.run_rounds(
        cases, measure, arguments.rounds, arguments.seconds, rows
    )
    (arguments.output / "live-environment.json").write_text(json.dumps(facts, indent=2) + "\n")
    text = table(runs, facts, arguments.seconds)
    (arguments.output / "live.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
