"""Measures `wirelens run` on captures, compared with its applications alone and other programs.

    python bench/speed/run/measure.py OUTPUT [--before PROGRAM] [--rounds N] [--packets N]

Captures are made once, under bench/data/run: `wide` is backbone-like, with a flow for each six
packets; `bulk` is 64 TCP flows (traffic.py); `mix` has 5 M packets in 640,000 flows, a fifth of
them real, and needs ../shared. Programs take turns, every second round in reverse order. CPU time
is that of whole processes, user and system. Writes runs.jsonl, environment.json and table.md.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import environment
from cases import NFSTREAM_PACKETS, WIRELENS, Capture, Case, cases
from report import table
from traffic import make_bulk

BENCH = Path("target/release/wirelens-bench")
DATA = Path("bench/data/run")
SHARED = Path("../shared")
TIMEOUT_S = 900


def say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


# --- Captures -------------------------------------------------------------------------------


def packet_count(path: Path) -> int:
    shown = subprocess.run(
        [WIRELENS, "info", "-r", path, "--format", "jsonl"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return int(json.loads(shown.stdout)["packets"])


def cut(source: Path, count: int, target: Path) -> None:
    """The first packets of a pcap file."""
    with source.open("rb") as file, target.open("wb") as out:
        out.write(file.read(24))
        for _ in range(count):
            head = file.read(16)
            if len(head) < 16:
                break
            out.write(head + file.read(int.from_bytes(head[8:12], "little")))


def make_mix(path: Path) -> None:
    """By the generator of ../shared, which mixes real captures in."""
    folder = path.parent / "mix"
    folder.mkdir(exist_ok=True)
    link = folder / "ndpi"
    link.unlink(missing_ok=True)
    link.symlink_to((SHARED / "data/services").resolve())
    source, program = SHARED / "bench/gen.cpp", folder / "gen"
    flags = ["-O3", "-march=native", "-std=c++17", "-pthread"]
    subprocess.run(["g++", *flags, source, "-o", program], check=True)
    command = ["./gen", "1000000", "4000000", path.resolve()]
    subprocess.run(command, check=True, cwd=folder)


def captures(packets: int) -> tuple[list[Capture], Capture | None]:
    """Made where they are not there yet."""
    DATA.mkdir(parents=True, exist_ok=True)
    found = []
    for name in ("wide", "bulk"):
        path = DATA / f"{name}-{packets}.pcap"
        if not path.exists():
            say(f"making {path}")
            if name == "wide":
                command = [BENCH, "gen", "--packets", str(packets), "--output", path]
                subprocess.run(command, check=True)
            else:
                make_bulk(packets, path)
        found.append(Capture(name, path, packet_count(path)))
    mix = DATA / "mix.pcap"
    if not mix.exists() and (SHARED / "bench/gen.cpp").exists():
        say(f"making {mix}")
        make_mix(mix)
    return found, Capture("mix", mix, packet_count(mix)) if mix.exists() else None


# --- Runs -----------------------------------------------------------------------------------


def clear(case: Case) -> None:
    for path in case.clear:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def warm(case: Case) -> None:
    """Reads the capture, so that each program finds it in memory."""
    for word in case.command:
        if word.endswith((".pcap", ".toml")):
            path = Path(word)
            if path.suffix == ".toml":
                path = Path(path.read_text().split('read = "')[1].split('"')[0])
            with path.open("rb", buffering=0) as file:
                while file.read(1 << 24):
                    pass


def measure(case: Case, number: int, words: Path) -> dict[str, object]:
    clear(case)
    warm(case)
    load = os.getloadavg()[0]
    start = time.perf_counter()
    with words.open("wb") as out:
        process = subprocess.Popen(case.command, stdout=out, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{case.name}: {words.read_text(errors='replace')[-400:]}")
    cpu = usage.ru_utime + usage.ru_stime
    if case.tells_time:
        told = json.loads(words.read_text().strip().splitlines()[-1])
        wall, cpu = told["wall_s"], told["cpu_s"]
    clear(case)
    return {
        "round": number, "figure": case.figure, "group": case.group, "name": case.name,
        "items": case.items, "wall_s": round(wall, 6), "cpu_s": round(cpu, 6),
        "rss_mib": round(usage.ru_maxrss / 1024, 1), "load": round(load, 2),
    }  # fmt: skip


def run_rounds(todo: list[Case], rounds: int, output: Path, words: Path) -> list[dict[str, object]]:
    runs: list[dict[str, object]] = []
    left_out: set[str] = set()
    with (output / "runs.jsonl").open("w") as file:
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}, load average {os.getloadavg()[0]:.2f}")
            for case in todo if number % 2 == 0 else reversed(todo):
                if case.name in left_out:
                    continue
                try:
                    runs.append(measure(case, number, words))
                except (RuntimeError, OSError) as failure:
                    # One program less is a poorer table, not a lost afternoon.
                    say(f"LEFT OUT: {failure}")
                    left_out.add(case.name)
                    continue
                file.write(json.dumps(runs[-1]) + "\n")
                file.flush()
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path, help="folder for the results")
    parser.add_argument("--before", type=Path, help="the command of an earlier commit")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--packets", type=int, default=1_000_000, help="of wide and of bulk")
    parser.add_argument("--only", default="", help="names that hold this text")
    arguments = parser.parse_args()
    output = arguments.output
    output.mkdir(parents=True, exist_ok=True)
    found, mix = captures(arguments.packets)
    resource.setrlimit(resource.RLIMIT_CPU, (TIMEOUT_S * 10, TIMEOUT_S * 10))
    scratch = DATA / "scratch"
    scratch.mkdir(exist_ok=True)
    for capture in found:
        cut(capture.path, NFSTREAM_PACKETS, scratch / f"{capture.name}-first.pcap")
    todo = cases(found, mix, arguments.before, scratch)
    todo = [case for case in todo if arguments.only in case.name]
    facts = environment.facts([], arguments.rounds)
    say(f"{len(todo)} programs, {arguments.rounds} rounds; results in {output}")
    runs = run_rounds(todo, arguments.rounds, output, scratch / "words.txt")
    facts["load_after"] = os.getloadavg()
    packets = {capture.name: capture.packets for capture in [*found, *([mix] if mix else [])]}
    facts["inputs"] = packets
    (output / "environment.json").write_text(json.dumps(facts, indent=2) + "\n")
    (output / "table.md").write_text(table(runs, facts))
    print((output / "table.md").read_text())


if __name__ == "__main__":
    main()
