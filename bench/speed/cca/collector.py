"""Measures the collector of `wirelens cca`: what its taps cost, and whether they keep up.

    .venv/bin/python bench/speed/cca/collector.py OUT [--only cost,counted,table2,inputs]
        [--rounds 5] [--seconds 10] [--model FILE]

Root; needs `cargo build --release`, iperf3, ethtool and bpftool. Writes to the folder OUT a file
of rows a part, `environment.json`, and `table.md`. The parts:

cost        nanoseconds a packet and tap: BPF_PROG_TEST_RUN of the programs that `wirelens cca`
            loaded, on a frame of 1,514 bytes, and the kernel's own statistics while TCP runs
counted     TCP at full speed with a counter beside each tap, whose packets must all be in slots
table2      the paper's Table II: a table of 5 M records, with and without first-packet sampling
inputs      inputs of 500 flows out of their slots, and flows told apart
"""

import argparse
import contextlib
import ctypes
import itertools
import json
import os
import re
import signal
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import environment
from attached import EMPTY, PROG_GET_FD_BY_ID, PROG_TEST_RUN, bpf, program
from network import Network, flows, network, send

# Programs may be tried from another place: PROGRAMS=../other/target/release.
PROGRAMS = Path(os.environ.get("PROGRAMS", "target/release"))
WIRELENS, BENCH = PROGRAMS / "wirelens", PROGRAMS / "wirelens-bench"
PARTS = ("cost", "counted", "table2", "inputs")
Row = dict[str, Any]

TSTAMP_OFFSET, SKB_LEN = 152, 192
# The ring of the collector holds 47,000 records, which it is given the time to take out.
REPEAT, RUNS = 20_000, 20
NOTHING = "empty program, whose time is in all others"
STATISTICS = "kernel.bpf_stats_enabled"


def rows_of(*command: str | Path) -> list[Row]:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@contextlib.contextmanager
def watching(
    place: Network, *words: str, said: list[str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """`wirelens cca` on a network, as a person would have it run; what it says in the end."""
    command = [WIRELENS, "cca", "-i", place.ingress, "--egress", place.egress, "--format", "jsonl"]
    with subprocess.Popen(
        [*command, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stderr and "listening" in run.stderr.readline()
        try:
            yield run
        finally:
            run.send_signal(signal.SIGINT)
            (said if said is not None else []).extend(run.stderr.read().splitlines())
            run.wait(20)


def programs(run: subprocess.Popen[str]) -> dict[str, Row]:
    """The programs of a collector, by name."""
    shown = json.loads(subprocess.check_output(["bpftool", "-j", "prog", "show"]))
    held = [file.read_text() for file in Path(f"/proc/{run.pid}/fdinfo").iterdir()]
    numbers = {
        int(number) for text in held for number in re.findall(r"^prog_id:\s*(\d+)", text, re.M)
    }
    return {row["name"]: row for row in shown if row["id"] in numbers and "name" in row}


def test_run(fd: int, frame: bytes, repeat: int, stamp_ns: int) -> int:
    """Nanoseconds that a run takes on average."""
    data = ctypes.create_string_buffer(frame, len(frame))
    skb = bytearray(SKB_LEN)
    struct.pack_into("=Q", skb, TSTAMP_OFFSET, stamp_ns)
    context = ctypes.create_string_buffer(bytes(skb), len(skb))
    attributes = struct.pack(
        "=IIIIQQIIIIQQ", fd, 0, len(frame), 0, ctypes.addressof(data), 0, repeat, 0,
        len(skb), 0, ctypes.addressof(context), 0,
    )  # fmt: skip
    answer = bpf(PROG_TEST_RUN, attributes)
    return struct.unpack_from("=I", answer, 4 + 36)[0]


def frame(port: int, *, protocol: int = 6, length: int = 1448) -> bytes:
    """With time stamps, as TCP sends it."""
    ethernet = bytes.fromhex("020000000002 020000000001 0800")
    ipv4 = struct.pack(">BBHHHBBH", 0x45, 0, 52 + length, 0, 0x4000, 64, protocol, 0)
    ipv4 += bytes([10, 231, 1, 2, 10, 231, 2, 2])
    tcp = struct.pack(">HHIIBBHHH", port, 5301, 1000, 0, 0x80, 0x10, 8192, 0, 0)
    return ethernet + ipv4 + tcp + bytes.fromhex("0101080a") + bytes(8) + bytes(length)


def settings_map(program: Row) -> int:
    """The number of the map in which the collector's settings stand."""
    for number in program["map_ids"]:
        shown = json.loads(
            subprocess.check_output(["bpftool", "-j", "map", "show", "id", str(number)])
        )
        if shown["name"] == "SETTINGS":
            return number
    raise LookupError("SETTINGS")


def set_slot(number: int, slot_ns: int) -> None:
    entry = json.loads(
        subprocess.check_output(
            ["bpftool", "-j", "map", "lookup", "id", str(number), "key", "0", "0", "0", "0"]
        )
    )
    value = bytes(int(byte, 16) for byte in entry["value"])
    value = struct.pack("=Q", slot_ns) + value[8:]
    words = [str(byte) for byte in value]
    key = ["key", "0", "0", "0", "0"]
    subprocess.check_call(["bpftool", "map", "update", "id", str(number), *key, "value", *words])


def cost() -> Iterator[Row]:
    """Each kind of packet through both programs."""
    with network("router") as place, watching(place, "-n", "1", "--every", "1h") as run:
        send(1, 1, "20M")
        followed, other = frame(42001), frame(999)
        kinds = {
            "later packet of a slot": (followed, 1_000_000, 0),
            "later packet of a slot, with a stamp": (followed, 1_000_000, 10**18),
            # Each run is in a slot of its own.
            "first packet of a slot": (followed, 16, 0),
            "flow that is not followed": (other, 1_000_000, 0),
            "TCP without data": (frame(42001, length=0), 1_000_000, 0),
            "not TCP": (frame(42001, protocol=17), 1_000_000, 0),
        }
        found = programs(run)
        empty = program(EMPTY)
        number = settings_map(found["slots_ingress"])
        for at in range(RUNS):
            ns = test_run(empty, followed, REPEAT, 0)
            for name in ("slots_ingress", "slots_egress"):
                yield {"by": "test run", "kind": NOTHING, "program": name, "run": at, "ns": ns}
            for kind, (sent, slot_ns, stamp_ns) in kinds.items():
                for name in ("slots_ingress", "slots_egress"):
                    answer = bpf(PROG_GET_FD_BY_ID, struct.pack("=I", found[name]["id"]))
                    fd = struct.unpack_from("=i", answer)[0]
                    set_slot(number, slot_ns)
                    ns = test_run(fd, sent, REPEAT, stamp_ns)
                    set_slot(number, 1_000_000)
                    os.close(fd)
                    yield {"by": "test run", "kind": kind, "program": name, "run": at, "ns": ns}
                    time.sleep(0.05)
    shapes = (("router", True), ("router", False), ("pair", True))
    for at, (name, has_offload) in itertools.product(range(5), shapes):
        kind = f"TCP, {name}, offload {has_offload}"
        for row in running(name, has_offload):
            yield {"by": "statistics", "kind": kind, "run": at, **row}


def running(name: str, has_offload: bool) -> Iterator[Row]:
    """The kernel's statistics while TCP runs."""
    with network(name, has_offload=has_offload) as place, watching(place) as run:
        before = subprocess.check_output(["sysctl", "-n", STATISTICS], text=True).strip()
        subprocess.check_call(["sysctl", "-qw", f"{STATISTICS}=1"])
        try:
            rate = send(2, 4)
        finally:
            subprocess.check_call(["sysctl", "-qw", f"{STATISTICS}={before}"])
        found = programs(run)
        for program_name in ("slots_ingress", "slots_egress"):
            counts = found[program_name]
            yield {
                "program": program_name, "gbit_s": round(rate, 3), "runs": counts["run_cnt"],
                "ns": round(counts["run_time_ns"] / counts["run_cnt"], 1),
            }  # fmt: skip


def counted(seconds: float) -> Iterator[Row]:
    """What the taps tell beside a count."""
    for name in ("pair", "router"):
        with network(name) as place:
            yield {"network": name, "flows": 2, **collect(place, 2, seconds, "--counted")[0]}


def collect(place: Network, flow_count: int, seconds: float, *words: str) -> list[Row]:
    """What the taps tell while flows send, and the time to make inputs of it."""
    named = [word for flow in flows(flow_count) for word in ("--flow", flow)]
    command: list[str | Path] = [BENCH, "cca", "collect", "--ingress", place.ingress]
    command += ["--egress", place.egress, "--seconds", str(int(seconds) + 2), *named, *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stderr and run.stdout and run.stderr.readline() == "attached\n"
        rate = send(flow_count, seconds)
        lines = run.stdout.read().splitlines()
    return [{"gbit_s": round(rate, 3), **json.loads(line)} for line in lines]


def table2(seconds: float) -> Iterator[Row]:
    """Both kinds of sampling, with segments in large packets and in small ones."""
    for has_offload in (True, False):
        for flow_count in (2, 4):
            for words in ((), ("--each-packet",)):
                with network("router", has_offload=has_offload) as place:
                    for row in collect(place, flow_count, seconds, *words):
                        told = {"flows": flow_count, "offload": has_offload, "sent_s": seconds}
                        yield {**told, "each_packet": bool(words), **row}


def inputs(rounds: int, model: Path | None) -> Iterator[Row]:
    """With little and with much kept of each flow."""
    for kept in (0, 10_000):
        command: list[str | Path] = [BENCH, "cca", "inputs", "--kept", str(kept)]
        command += ["--repetitions", str(rounds)] + (["--model", model] if model else [])
        for at, row in enumerate(rows_of(*command)):
            yield {"kept": kept, "row": at, **row}


def median(rows: list[Row], key: str) -> float:
    return statistics.median(row[key] for row in rows)


def read(out: Path, part: str) -> list[Row]:
    path = out / f"{part}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(head: str, *rows: str) -> list[str]:
    titles = head.split(" | ")
    return [f"| {head} |", "|---|" + "---:|" * (len(titles) - 1), *rows, ""]


def cost_lines(out: Path) -> list[str]:
    """Nanoseconds."""
    lines: list[str] = []
    found = read(out, "cost")
    kinds = dict.fromkeys((row["by"], row["kind"]) for row in found)
    cells = []
    for by, kind in kinds:
        of = [row for row in found if (row["by"], row["kind"]) == (by, kind)]
        names = ("slots_ingress", "slots_egress")
        each = [median([row for row in of if row["program"] == name], "ns") for name in names]
        cells.append(f"| {by}: {kind} | {each[0]:.0f} | {each[1]:.0f} |")
    if cells:
        lines += ["Nanoseconds a packet, medians.", ""]
        lines += table("packet | before the queue | behind it", *cells)
    return lines


def counted_lines(out: Path) -> list[str]:
    """What is told beside what was counted."""
    lines: list[str] = []
    found = read(out, "counted")
    cells = []
    for row in found:
        for side in ("Ingress", "Egress"):
            of = row[side]
            others = sum(of[name] for name in ("not_followed", "not_tcp", "no_data"))
            # What opens a flow has no data, and is in no slot.
            lost = of["counted_packets"] - of["packets"] - others - of["unreadable"] - row["flows"]
            cells.append(
                f"| {row['network']}, {side.lower()}, {row['gbit_s']:.2f} Gbit/s "
                f"| {of['counted_packets']} | {of['packets']} | {others} | {of['records']} | {lost} |"
            )
    if cells:
        lines += ["Packets that a program of its own counted, and those in slots.", ""]
        lines += table("tap | counted | in slots | of no followed data | slots | in none", *cells)
    return lines


def table2_lines(out: Path) -> list[str]:
    """The paper's Table II."""
    lines: list[str] = []
    found = read(out, "table2")
    cells = []
    for row in found:
        if row["what"] == "collected":
            taken = row["Ingress"]["taken"] + row["Egress"]["taken"]
            lost = row["Ingress"]["no_room"] + row["Egress"]["no_room"]
            full = row["full_after_s"]
            cells.append(
                f"| {'each packet' if row['each_packet'] else 'slots'}, {row['flows']} flows, "
                f"offload {'on' if row['offload'] else 'off'} | {row['gbit_s']:.2f} | {taken} "
                f"| {row['records'] + row['beyond']} | {lost} "
                f"| {'all' if full is None else f'{full:.1f} s'} "
            )
        else:
            cells[-1] += f"| {row['cpu_s'] * 1e3:.1f} |"
    if cells:
        lines += [f"Table II: {found[0]['sent_s']:g} s, 5,000,000 records at most.", ""]
        lines += table("told | Gbit/s | packets | records | lost | captured | build ms", *cells)
    return lines


def inputs_lines(out: Path) -> list[str]:
    """What is done with slots."""
    lines: list[str] = []
    found = read(out, "inputs")
    cells = []
    for kept, name in dict.fromkeys((row["kept"], row["name"]) for row in found):
        of = [row for row in found if (row["kept"], row["name"]) == (kept, name)]
        cells.append(f"| {name}, {kept} slots kept before | {median(of, 'cpu_s') * 1e3:.2f} |")
    if cells:
        lines += ["500 flows of 100 slots, one thread, medians.", ""]
        lines += table("what | ms", *cells)
    return lines


def write_table(out: Path) -> None:
    """What can be told of the parts that are there."""
    lines = ["# What the collector costs", ""]
    for part in (cost_lines, counted_lines, table2_lines, inputs_lines):
        lines += part(out)
    (out / "table.md").write_text("\n".join(lines).rstrip() + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--model", type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    facts = environment.facts([], options.rounds)
    (options.out / "environment.json").write_text(json.dumps(facts, indent=2) + "\n")
    made = {
        "cost": cost,
        "counted": lambda: counted(options.seconds),
        "table2": lambda: table2(options.seconds),
        "inputs": lambda: inputs(max(options.rounds, 20), options.model),
    }
    for part in options.only.split(","):
        with (options.out / f"{part}.jsonl").open("w") as file:
            for row in made[part]():
                file.write(json.dumps(row) + "\n")
                file.flush()
    write_table(options.out)


if __name__ == "__main__":
    main()
