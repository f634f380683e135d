"""The packet log on a switch: whole numbers compared with floats, and the simulated switch.

    .venv/bin/python bench/evaluation/packetlog/switch.py OUT --model MODEL [--agreement CAPTURE]...
        [--error CAPTURE]... [--simulate CAPTURE]... [--flows 10000,33000] [--time 10ms]

Needs `cargo build --release`. MODEL is the folder of a model without states of connections. Writes
to the folder OUT: `errors.jsonl` (Tables V and VIII), `agreement.jsonl` (verdicts, packet by
packet), `switch.jsonl` (Tables X to XII, Figures 3 to 8: workloads of the paper, then each
capture), `speed.jsonl` (packets per core-second of the simulator) and `environment.json`.
"""

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import environment

BENCH, WIRELENS = Path("target/release/wirelens-bench"), Path("target/release/wirelens")
WORKLOADS = ("w1", "w2", "w3", "w4", "w5")
MODES = ("default", "log-minimum", "log-all")


def rows(command: list[str | Path]) -> list[dict[str, Any]]:
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def simulate(*more: str | Path) -> list[dict[str, Any]]:
    modes = [word for mode in MODES for word in ("--mode", mode)]
    return rows([WIRELENS, "simulate", "packetlog", "--format", "jsonl", *modes, *more])


def speed(options: argparse.Namespace) -> list[dict[str, Any]]:
    """One rate and one mode: what a packet costs, of a workload and of a capture."""
    found = []
    sources: list[tuple[str, list[str | Path]]] = [
        ("w3", ["--workload", "w3", "--for", options.time])
    ]
    sources += [(path.name, ["-r", path, "-q"]) for path in options.simulate]
    for name, source in sources:
        command = [WIRELENS, "simulate", "packetlog", "--gbps", "400", "--format", "jsonl"]
        before = cpu_s()
        (row,) = rows([*command, *source])
        spent = cpu_s() - before
        found.append({"traffic": name, "packets": row["packets"], "cpu_s": round(spent, 3)})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--agreement", type=Path, action="append", default=[])
    parser.add_argument("--error", type=Path, action="append", default=[])
    parser.add_argument("--simulate", type=Path, action="append", default=[])
    parser.add_argument("--flows", default="10000,33000,59000,100000")
    parser.add_argument("--time", default="10ms")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    facts = environment.facts([], 1)
    found: dict[str, list[dict[str, Any]]] = {"errors": [], "agreement": [], "switch": []}
    for path in options.error:
        more = ["--capture", path, "--flows", options.flows, "--windows", "1"]
        found["errors"] += rows([BENCH, "packetlog", "sketch-error", *more])
    model = options.model / "model.json"
    for path in options.agreement:
        command = [BENCH, "packetlog", "agreement", "--model", model, "--capture", path]
        found["agreement"] += rows(command)
    workloads = [word for name in WORKLOADS for word in ("--workload", name)]
    found["switch"] += simulate(*workloads, "--for", options.time)
    for path in options.simulate:
        for kind, more in (("exact", []), ("integer", ["--integer", "--model", options.model])):
            for row in simulate("-r", path, "-q", *more):
                found["switch"].append({**row, "traffic": path.name, "classifier": kind})
    found["speed"] = speed(options)
    for name, lines in found.items():
        text = "".join(json.dumps(row) + "\n" for row in lines)
        (options.out / f"{name}.jsonl").write_text(text)
    (options.out / "environment.json").write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
