"""What it costs to classify and truncate packets in the kernel, beside user space.

    .venv/bin/python bench/speed/packetlog/kernel.py --replay CAPTURE --output OUT

Recorders take turns on one end of a veth pair, as in `live_beside.py`, whose link, generator and
clock these are. Of the program the kernel itself counts runs and their time (`bpf_stats_enabled`);
its instructions and maps are the counterpart of the paper's Table III. Root and bpftool.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "speed"))

import environment
import live
import live_beside
from jobs import SCRATCH, WIRELENS

RATES = (50_000, 100_000, 200_000)
OUT = live_beside.OUT
STATISTICS = Path("/proc/sys/kernel/bpf_stats_enabled")
IN_KERNEL, USER, SHIPPED = "in the kernel", "same model in user space", "model that ships"
TCPDUMP = live_beside.REFERENCE
RING_KIB = 65_536
SWITCHES = 20
COST_ROUNDS = 300
# Of the least time of an ARP frame, in quiet rounds.
QUIET = 1.1
DEMO = "testdata/demo.pcapng"


@dataclass(frozen=True)
class Run:
    """One recorder at one rate."""

    round: int
    name: str
    rate: int
    sent: int
    sent_per_s: float
    received: int
    marked: int
    stored_bytes: int
    cpu_ns_per_offered: float
    # Of the program in the kernel, for each packet.
    kernel_ns: float | None
    load: float


def bpftool(*words: str) -> list[dict]:
    shown = subprocess.run(
        ["bpftool", "--json", *words], check=True, capture_output=True, text=True
    )
    told = json.loads(shown.stdout)
    return told if isinstance(told, list) else [told]


def recorders() -> Iterator[tuple[str, list[str]]]:
    words = [WIRELENS, "packetlog", "record", "-i", "wl0", "-B", str(RING_KIB)]
    words += ["-o", str(OUT / "log"), "--mode", "default", "--fixed-mode"]
    kernel = [*words, "--model", "models/packetlog-kernel"]
    yield SHIPPED, [*words, "--model", "models/packetlog"]
    yield USER, kernel
    yield IN_KERNEL, [*kernel, "--offload", "xdp", "--mirror"]
    yield TCPDUMP, [
        "tcpdump", "-n", "-i", "wl0", "-B", str(RING_KIB), "-Z", "root", "-w", str(OUT / "t.pcap")
    ]  # fmt: skip


def marked() -> int:
    words = [WIRELENS, "packetlog", "stats", "--log", str(OUT / "log"), "--format", "jsonl"]
    told = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    rows = [json.loads(line) for line in told.splitlines()]
    return sum(row["seen_packets"] for row in rows if row["class"] == "anomalous")


def measure(name: str, command: list[str], rate: int, seconds: float, round_: int) -> Run:
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    # While the program is attached.
    ask = ["sh", "-c", f"bpftool --json prog show name cut >{OUT}/program.json"]
    told = live.told_by_tcpdump if name == TCPDUMP else live.told_by_wirelens
    receiver = live.Receiver(
        name, command, lambda text: "listening on" in text, told,
        ask if name == IN_KERNEL else [],
    )  # fmt: skip
    run = live.measure(receiver, 0, rate, seconds, round_)
    kernel_ns = None
    if name == IN_KERNEL:
        program = json.loads((OUT / "program.json").read_text())
        kernel_ns = program["run_time_ns"] / max(program["run_cnt"], 1)
    stored = sum(path.stat().st_size for path in OUT.rglob("*.pcap*"))
    cpu_ns = run.cpu_s * 1e9 / max(run.sent, 1)
    found = Run(
        round_, name, rate, run.sent, run.sent_per_s, run.processed,
        0 if name == TCPDUMP else marked(), stored,
        round(cpu_ns, 1), kernel_ns, run.load,
    )  # fmt: skip
    shutil.rmtree(OUT)
    return found


def cost() -> dict[str, float]:
    """What the program takes in runs of the kernel's own: each packet of a capture once, since the
    kernel would repeat it on the packet that was truncated. What an ARP frame takes, which the
    program leaves as it is, is nearly all of it the measurement."""
    build = ["cargo", "build", "--quiet", "--release", "--locked", "-p", "wirelens", "-p"]
    build += ["wirelens-python", "-p", "wirelens-session", "--example", "kernel_cost"]
    subprocess.run(build, check=True)
    words = ["target/release/examples/kernel_cost", "models/packetlog-kernel", DEMO]
    found = []
    for _ in range(COST_ROUNDS):
        told = subprocess.run(words, check=True, capture_output=True).stdout
        found.append(json.loads(told))
    # The host takes processors away for others, and their caches. When, the ARP frame shows.
    least_ns = min(round_["arp_ns"] for round_ in found)
    quiet = [round_ for round_ in found if round_["arp_ns"] <= QUIET * least_ns]
    alone = [round_["mean_ns"] - round_["arp_ns"] for round_ in quiet]
    return {
        "judged_share": found[0]["judged_share"],
        "rounds": COST_ROUNDS,
        "quiet_rounds": len(quiet),
        "mean_ns": median(round_["mean_ns"] for round_ in quiet),
        "mean_of_all_ns": median(round_["mean_ns"] for round_ in found),
        "arp_ns": median(round_["arp_ns"] for round_ in quiet),
        "alone_ns": median(alone),
        "alone_min_ns": min(alone),
        "alone_max_ns": max(alone),
    }


def program_facts() -> dict[str, object]:
    """Instructions, bytes of maps, and microseconds of changes of mode."""
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    command = dict(recorders())[IN_KERNEL]
    command.remove("--fixed-mode")
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        live.wait_until(lambda: (OUT / "log/control.sock").exists(), "the recorder listens")
        time.sleep(0.5)
        program = bpftool("prog", "show", "name", "cut")[0]
        maps = [row for row in bpftool("map", "show") if row["id"] in program["map_ids"]]
        for number in range(SWITCHES):
            mode = ("log-all", "default")[number % 2]
            words = [WIRELENS, "packetlog", "mode", mode, "--log", str(OUT / "log")]
            subprocess.run(words, check=True, capture_output=True)
    finally:
        process.terminate()
        process.wait(live.WAIT_MAX_S)
    events = [json.loads(line) for line in (OUT / "log/events.jsonl").read_text().splitlines()]
    took = [event["took_us"] for event in events if event["event"] == "mode"]
    shutil.rmtree(OUT)
    return {
        "instructions": program["bytes_xlated"] // 8,
        "machine_code_bytes": program["bytes_jited"],
        "maps": {
            row["name"]: {
                "entries": row["max_entries"],
                "value_bytes": row["bytes_value"],
                "bytes": row["bytes_memlock"],
            }
            for row in maps
        },
        "mode_us": took,
    }


def rows(runs: list[Run]) -> list[str]:
    out = ["| recorder | packets/s | ns per packet | program, ns | marked | lost | stored |"]
    out.append("|---|---:|---:|---:|---:|---:|---:|")
    for rate in dict.fromkeys(run.rate for run in runs):
        for name in dict.fromkeys(run.name for run in runs):
            same = [run for run in runs if (run.name, run.rate) == (name, rate)]
            kernel = [run.kernel_ns for run in same if run.kernel_ns is not None]
            lost = median(max(0, run.sent - run.received) / run.sent for run in same)
            share = median(run.marked / max(run.received, 1) for run in same)
            stored = median(run.stored_bytes / max(run.received, 1) for run in same)
            cpu = median(run.cpu_ns_per_offered for run in same)
            shown = f"{median(kernel):,.0f}" if kernel else ""
            marks = "" if name == TCPDUMP else f"{share:.1%}"
            out.append(
                f"| {name} | {rate:,} | {cpu:,.0f} | {shown} | {marks} | {lost:.2%} |"
                f" {stored:,.0f} B |"
            )
    return out


def ratios(runs: list[Run], other: str) -> list[float]:
    found = []
    for rate in dict.fromkeys(run.rate for run in runs):

        def cpu(name: str, rate: int = rate) -> float:
            same = (run for run in runs if (run.name, run.rate) == (name, rate))
            return median(run.cpu_ns_per_offered for run in same)

        found.append(cpu(IN_KERNEL) / cpu(other))
    return found


def cost_rows(cost: dict[str, float]) -> list[str]:
    what = "ns per packet of the demo capture, in test runs of the kernel"
    alone = f"{cost['alone_ns']:,.0f} ({cost['alone_min_ns']:,.0f} to {cost['alone_max_ns']:,.0f})"
    return [
        f"| the program, {what} | {cost['mean_ns']:,.0f} | |",
        f"| an ARP frame, which the program leaves as it is | {cost['arp_ns']:,.0f} | |",
        f"| the difference | {alone} | ≤ 400 |",
        f"| the program in all {cost['rounds']} rounds, not only the {cost['quiet_rounds']} quiet"
        f" ones | {cost['mean_of_all_ns']:,.0f} | |",
    ]


def table(runs: list[Run], facts: dict[str, object], seconds: float, capture: str) -> str:
    program = facts["program"]
    ships, same, theirs = (ratios(runs, name) for name in (SHIPPED, USER, TCPDUMP))
    kernel = [run.kernel_ns for run in runs if run.kernel_ns is not None]
    took = program["mode_us"]
    out = [
        "# The packet log's half in the kernel",
        "",
        f"{facts['date']}, commit {facts['commit']}. {facts['cpu']}, {facts['cores']} cores,"
        f" {facts['memory_gib']} GiB, Linux {facts['kernel']}.",
        "",
        "One recorder at a time on one end of a veth pair, mode default, the packets of"
        f" `{capture}` in their order for {seconds:g} s in each run, {facts['rounds']} rounds in"
        f" alternating order; medians. Each has the ring that ours has by default,"
        f" {RING_KIB // 1024} MiB. *ns per packet* is the processor time of all threads of the"
        " recorder, user and system, per packet sent; each stores all of them, tcpdump in full. That"
        " of the program in the kernel is spent in"
        " the time of whoever delivers packets, here the generator, and is *program, ns*, as the"
        " kernel counts it. Test runs are a round of each packet once, with an ARP frame after"
        f" each; a round is quiet if the ARP frame takes at most {QUIET - 1:.0%} more than in the"
        " quietest: this machine is a guest, and its host has others.",
        "",
        "| | found | wanted |",
        "|---|---:|---:|",
        f"| user space ÷ model that ships | {min(ships):.2f} to {max(ships):.2f} | ≤ 0.5 |",
        f"| user space ÷ same model | {min(same):.2f} to {max(same):.2f} | |",
        f"| user space ÷ tcpdump | {min(theirs):.2f} to {max(theirs):.2f} | ≤ 0.5 |",
        f"| the program, ns per packet from the device | {median(kernel):,.0f} | |",
        *cost_rows(facts["cost"]),
        f"| change of mode, µs, the longest of {len(took)} | {max(took):,.0f} | < 1,000 |",
        "",
        *rows(runs),
        "",
        "## Instructions and memory (the paper's Table III)",
        "",
        f"{program['instructions']:,} instructions, {program['machine_code_bytes']:,} bytes of"
        " machine code.",
        "",
        "| map | entries | bytes of an entry | bytes |",
        "|---|---:|---:|---:|",
        *(
            f"| {name} | {map_['entries']:,} | {map_['value_bytes']:,} | {map_['bytes']:,} |"
            for name, map_ in program["maps"].items()
        ),
    ]
    return "\n".join(out) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="of traffic in each run")
    parser.add_argument("--replay", type=Path, required=True, help="the frames that are sent")
    parser.add_argument("--output", type=Path, required=True, help="folder for the results")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if os.geteuid() != 0 or not shutil.which("bpftool"):
        live.say("SKIPPED: packetlog-kernel: needs root and bpftool")
        return
    if not arguments.inside:
        live.go_inside()
    arguments.output.mkdir(parents=True, exist_ok=True)
    SCRATCH.mkdir(parents=True, exist_ok=True)
    live.REPLAY = arguments.replay
    live.make_link()
    facts = environment.facts([], arguments.rounds)
    facts["program"] = program_facts()
    facts["cost"] = cost()
    counted = STATISTICS.read_text()
    STATISTICS.write_text("1")
    runs: list[Run] = []
    cases = [(name, words, rate) for rate in RATES for name, words in recorders()]
    try:
        with (arguments.output / "kernel.jsonl").open("w") as file:
            for round_ in range(arguments.rounds):
                live.say(f"round {round_ + 1} of {arguments.rounds}")
                for name, words, rate in cases if round_ % 2 == 0 else reversed(cases):
                    runs.append(measure(name, words, rate, arguments.seconds, round_))
                    file.write(json.dumps(asdict(runs[-1])) + "\n")
                    file.flush()
    finally:
        STATISTICS.write_text(counted)
    (arguments.output / "environment.json").write_text(json.dumps(facts, indent=2) + "\n")
    text = table(runs, facts, arguments.seconds, arguments.replay.name)
    (arguments.output / "table.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
