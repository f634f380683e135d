"""`wirelens.ray.flows` on all processors, and the command with as many threads, by turns.

A row for each run: seconds of wall clock, of the processes' CPU, and for Ray how long starting it
took. Both write Parquet. Captures are read once before, so that none waits for the disk.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench"))

import environment  # noqa: E402

# In a process of its own: what is measured has Ray's start and end in it.
RAY = """
import json, sys, time
begun = time.monotonic()
import wirelens.ray
from wirelens.ray.running import Cluster
folder, output, cpus, run = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
imported = time.monotonic()
Cluster.connect(None, cpus, 3, None, None)
connected = time.monotonic()
rows = wirelens.ray.flows(folder, output=output, cpus=cpus, **run)
ended = time.monotonic()
print(json.dumps({
    "import_s": imported - begun, "start_s": connected - imported, "run_s": ended - connected,
    "task_s": [report.seconds for report in rows.tasks], "rows": len(rows),
    "peak_bytes": [report.peak_bytes for report in rows.tasks],
}))
"""


def cpu_seconds() -> float:
    """User and system time of all processes that have ended and were waited for."""
    times = os.times()
    return times.children_user + times.children_system


def busy_seconds() -> float:
    """Of all processors, by anyone: workers of Ray are not waited for by this process."""
    first = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    user, nice, system = (int(number) for number in first[:3])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def timed(command: list[str]) -> tuple[dict[str, float], str]:
    load, cpu, busy, begun = os.getloadavg()[0], cpu_seconds(), busy_seconds(), time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wall = time.monotonic() - begun
    if done.returncode:
        sys.exit(done.stderr)
    seconds = {"wall_s": wall, "cpu_s": cpu_seconds() - cpu, "busy_s": busy_seconds() - busy}
    return {**seconds, "load_before": load}, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("captures", type=Path)
    parser.add_argument("output", type=Path, help="folder for rows.jsonl and environment.json")
    parser.add_argument("--wirelens", default="target/release/wirelens")
    parser.add_argument("--without-shares", action="store_true", help="one task with all threads")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cpus", type=int, default=len(os.sched_getaffinity(0)))
    arguments = parser.parse_args()
    size = sum(path.stat().st_size for path in arguments.captures.iterdir())
    subprocess.run(f"cat {arguments.captures}/* >/dev/null", shell=True, check=True)
    arguments.output.mkdir(parents=True, exist_ok=True)
    facts = environment.facts([], arguments.rounds)
    facts["ray"] = environment.python_version("ray")
    facts["captures"] = {"files": len(list(arguments.captures.iterdir())), "bytes": size}
    ways: dict[str, dict[str, int] | None] = {
        "command": None,
        "ray": {},
    }
    if not arguments.without_shares:
        ways["ray, a share each"] = {"shares": arguments.cpus, "threads": 1}
    with (arguments.output / "rows.jsonl").open("w") as file:
        for turn in range(arguments.rounds):
            for way, run in ways.items():
                folder = Path(tempfile.mkdtemp(dir="/tmp"))
                rows = str(folder / "rows")
                captures, cpus = str(arguments.captures), str(arguments.cpus)
                if run is None:
                    command = [arguments.wirelens, "flows", "-r", captures, "--threads", cpus]
                    seconds, _ = timed([*command, "-o", f"{rows}.parquet"])
                    more = {}
                else:
                    command = [sys.executable, "-c", RAY, captures, rows, cpus, json.dumps(run)]
                    seconds, out = timed(command)
                    more = json.loads(out.splitlines()[-1])
                shutil.rmtree(folder)
                row = {"round": turn, "way": way, **seconds, **more}
                row["mb_per_s"] = size / 1e6 / row["wall_s"]
                file.write(json.dumps(row) + "\n")
                file.flush()
                print(row, flush=True)
    facts["load_after"] = os.getloadavg()
    (arguments.output / "environment.json").write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
