"""Measures memory and CPU time of every command and application, with its defaults, in floods.

    .venv/bin/python bench/speed/floods/measure.py OUTPUT [--packets N] [--kinds K...] [--only C...]
        [--rounds N] [--program FILE]

Each run reads a capture of `hostile.py`, which is made once and kept in memory where there is room
(`--scratch`). Writes runs.jsonl and table.md as soon as a row is known, and environment.json. Of
several rounds the tables have the fastest run, since other programs only add to it. Where `normal`
is among the kinds, ratios.md has the CPU time per packet of the others as a multiple of its.
"""

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).parent))
import environment
import hostile

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "target/release/wirelens"
TIME_MAX_S = 600
LOOK_EVERY_S = 0.02

COMMANDS = {
    "info": ["info"],
    "top": ["top", "-n", "0"],
    "top --by pair": ["top", "-n", "0", "--by", "pair"],
    "top --by flow": ["top", "-n", "0", "--by", "flow"],
    "top --by flow --window 1ms": ["top", "-n", "0", "--by", "flow", "--window", "1ms"],
    "top --by name": ["top", "-n", "0", "--by", "name"],
    "flows": ["flows"],
    "flows, the ten heaviest": ["flows", "--format", "table"],
    "flows, Parquet": ["flows", "-o", "flows.parquet", "--force"],
    "flows --stats": ["flows", "--stats"],
    "flows --read-names": ["flows", "--read-names"],
    "flows --window 1ms": ["flows", "--window", "1ms"],
    "classify": ["classify", "-m", "services"],
    "latency": ["latency"],
    "latency --by destination": ["latency", "--by", "destination"],
    "cca": ["cca"],
    "l4s": ["l4s", "-m", "l4s", "--to", "*:443"],
    "nprint": ["nprint", "-4", "-t", "--depth", "2"],
    "packetlog record": ["packetlog", "record", "-o", "log"],
    "run": ["run", "-c", "run.toml"],
}
RUN = ["top", "flows", "classify", "cca", "latency", "unanswered", "traffic", "l4s", "packetlog"]
SETTINGS = {
    "top": 'by = "flow"', "flows": "read-names = true", "classify": 'model = "services"',
    "l4s": 'model = "l4s"\nto = ["*:443"]',
}  # fmt: skip


def settings(capture: Path, folder: Path) -> str:
    text = f'[input]\nread = "{capture}"\n'
    for name in RUN:
        output = f"{folder}/" + ("log" if name == "packetlog" else f"{name}.csv")
        text += f'[{name}]\noutput = "{output}"\n{SETTINGS.get(name, "")}\n'
        text += "" if name == "packetlog" else 'format = "csv"\n'
    return text


def watched(child: subprocess.Popen[bytes]) -> tuple[int, resource.struct_rusage]:
    """Waits for a run. Its memory at its highest without pages of files: a capture is mapped, and
    its pages count as long as nothing else needs them."""
    begun, anonymous_kib = time.monotonic(), 0
    while True:
        text = Path(f"/proc/{child.pid}/status").read_text()
        seen = re.search(r"^RssAnon:\s+(\d+) kB", text, re.M)
        anonymous_kib = max(anonymous_kib, int(seen[1]) if seen else 0)
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            return anonymous_kib, usage
        if time.monotonic() - begun > TIME_MAX_S:
            child.kill()
        time.sleep(LOOK_EVERY_S)


def measured(name: str, capture: Path, folder: Path, program: Path) -> dict[str, object]:
    """One run: memory at its highest, CPU time, what it said."""
    words = [str(word) for word in COMMANDS[name]]
    (folder / "run.toml").write_text(settings(capture, folder))
    if words[0] != "run":
        words += ["-r", str(capture)]
    if words[0] not in ("info", "packetlog", "run") and not {"--format", "-o"} & {*words}:
        words += ["--format", "csv"]
    rows = folder / "rows.csv"
    with rows.open("wb") as out, (folder / "said").open("wb") as said:
        child = subprocess.Popen([program, *words], stdout=out, stderr=said, cwd=folder)
        anonymous_kib, usage = watched(child)
    text = (folder / "said").read_text()
    # What is the same in every run, or names files, is left out.
    lines = [line for line in text.splitlines() if re.match(r"[a-z0-9]+: |\d+ |wirelens: ", line)]
    found: dict[str, object] = {
        "status": child.returncode,
        "anonymous_mib": round(anonymous_kib / 1024),
        "rss_mib": round(usage.ru_maxrss / 1024),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 2),
        "said": lines,
    }
    if words[0] == "flows" and "csv" in words and "--window" not in name:
        found["long_rows"] = long_rows(rows)
    shutil.rmtree(folder / "log", ignore_errors=True)
    rows.unlink()
    return found


def long_rows(rows: Path) -> int:
    """Rows of the long flows: as many as there are flows, where all live through a flood."""
    # No other port is as high.
    port = f",{hostile.LONG_PORT},".encode()
    with rows.open("rb") as file:
        return sum(port in row for row in file)


def fastest(output: Path) -> list[dict[str, Any]]:
    """The fastest run of each command and kind."""
    runs = [json.loads(line) for line in (output / "runs.jsonl").read_text().splitlines()]
    found = {(run["command"], run["kind"]): run for run in sorted(runs, key=lambda r: -r["cpu_ns"])}
    return [found[key] for key in dict.fromkeys((run["command"], run["kind"]) for run in runs)]


def ratios(output: Path) -> str:
    """CPU time per packet as a multiple of that of normal traffic."""
    runs = fastest(output)
    kinds = [kind for kind in dict.fromkeys(run["kind"] for run in runs) if kind != "normal"]
    cpu_ns = {(run["command"], run["kind"]): run["cpu_ns"] for run in runs}
    lines = [
        f"| | normal, ns of CPU per packet | {', times | '.join(kinds)}, times |",
        "|---" * (len(kinds) + 2) + "|",
    ]
    for command in dict.fromkeys(run["command"] for run in runs):
        if normal := cpu_ns.get((command, "normal")):
            cells = [cpu_ns.get((command, kind)) for kind in kinds]
            times = " | ".join(f"{cell / normal:.1f}" if cell else "" for cell in cells)
            lines.append(f"| `{command}` | {normal:,} | {times} |")
    return "\n".join(lines) + "\n"


def table(output: Path) -> str:
    """The rows as a table: memory and CPU time by command and kind."""
    runs = fastest(output)
    kinds = list(dict.fromkeys(run["kind"] for run in runs))
    found = {(run["command"], run["kind"]): run for run in runs}
    millions = {run["kind"]: round(run["packets"] / 1e6) for run in runs}
    heads = [f"{kind}, {millions[kind]} M" for kind in kinds]
    lines = [
        f"| MiB, ns of CPU per packet | {' | '.join(heads)} |",
        "|---" * (len(kinds) + 1) + "|",
    ]
    for command in dict.fromkeys(run["command"] for run in runs):
        cells = []
        for kind in kinds:
            run = found.get((command, kind))
            cells.append(f"{run['anonymous_mib']:,}, {run['cpu_ns']:,}" if run else "")
        lines.append(f"| `{command}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--packets", type=int, default=10_000_000)
    parser.add_argument("--kinds", nargs="+", choices=hostile.KINDS, default=list(hostile.KINDS))
    parser.add_argument("--only", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    parser.add_argument("--scratch", type=Path)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--program", type=Path, default=PROGRAM)
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    facts = environment.facts([], given.rounds)
    (given.output / "environment.json").write_text(json.dumps(facts, indent=2) + "\n")
    with (
        tempfile.TemporaryDirectory(dir=given.scratch) as held,
        (given.output / "runs.jsonl").open("a") as out,
    ):
        captures = {kind: Path(held, f"{kind}.pcap") for kind in given.kinds}
        for _, kind, name in product(range(given.rounds), given.kinds, given.only):
            if not captures[kind].exists():
                with captures[kind].open("wb") as file:
                    hostile.write(kind, given.packets, 1, file)
            packets = given.packets + hostile.long_packets(given.packets)
            with tempfile.TemporaryDirectory() as folder:
                found = measured(name, captures[kind], Path(folder), given.program)
            cpu_ns = round(float(str(found["cpu_s"])) * 1e9 / packets)
            row = {"kind": kind, "command": name, "packets": packets, "cpu_ns": cpu_ns}
            out.write(json.dumps(row | found) + "\n")
            out.flush()
            (given.output / "table.md").write_text(table(given.output))
            if "normal" in given.kinds:
                (given.output / "ratios.md").write_text(ratios(given.output))


if __name__ == "__main__":
    main()
