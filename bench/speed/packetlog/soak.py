"""Records from an interface for a long time: `soak.py --minutes 20 --output DIR`.

Half of what one core takes comes in all the while, the mode changes every some seconds, the log is
bounded and overwritten, files are compressed. Each line of `soak.jsonl` is a look at the
recorder: its memory, its descriptors, what it has seen, kept and lost. Root is needed.
"""

import argparse
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "speed"))

import environment
import live
from jobs import SCRATCH, WIRELENS

OUT = SCRATCH / "packetlog-soak"
MODES = ("default", "log-all", "log-minimum", "log-sampled", "log-partial")
LOOK_S = 10.0


def resident_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def status() -> dict[str, object]:
    command = [WIRELENS, "packetlog", "status", "--log", str(OUT), "--format", "json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def look(pid: int, started: float) -> dict[str, object]:
    now = status()
    log = now["log"]
    return {
        "second": round(time.monotonic() - started, 1),
        "resident_kib": resident_kib(pid),
        "descriptors": len(list(Path(f"/proc/{pid}/fd").iterdir())),
        "cpu_s": live.cpu_ns(pid) / 1e9,
        "mode": now["mode"],
        "busy": now["busy"],
        "packets": now["packets"],
        "log_bytes": log["bytes"],
        "files_overwritten": log["files_overwritten"],
        "files_compressed": log["files_compressed"],
        "lost": log["lost"],
    }


def soak(minutes: float, rate: int, frame_len: int, model: str, rows: Path) -> int:
    shutil.rmtree(OUT, ignore_errors=True)
    command = [WIRELENS, "packetlog", "record", "-i", "wl0", "-o", str(OUT), "--model", model]
    command += ["--file-bytes", "64M", "--keep-bytes", "512M", "--when-full", "overwrite"]
    command += ["--compress", "1", "-q"]
    recorder = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    generator = None
    try:
        live.wait_until(lambda: (OUT / "control.sock").exists(), "the recorder listens")
        seconds = minutes * 60
        send = [live.GENERATOR, "wl1", str(frame_len), str(rate), str(seconds), "50000"]
        generator = subprocess.Popen(send, stdout=subprocess.PIPE, text=True)
        started = time.monotonic()
        modes = itertools.cycle(MODES)
        with rows.open("w") as file:
            while time.monotonic() - started < seconds:
                choose = [WIRELENS, "packetlog", "mode", next(modes), "--log", str(OUT)]
                subprocess.run(choose, check=True, capture_output=True)
                time.sleep(LOOK_S)
                file.write(json.dumps(look(recorder.pid, started)) + "\n")
                file.flush()
        sent = int(generator.communicate()[0].split()[0])
        time.sleep(2)
        recorder.send_signal(signal.SIGINT)
        recorder.wait(60)
        return sent
    finally:
        for process in (generator, recorder):
            if process is not None and process.poll() is None:
                process.kill()
        shutil.rmtree(OUT, ignore_errors=True)


def table(looks: list[dict], sent: int, frame_len: int, facts: dict[str, object]) -> str:
    third = max(1, len(looks) // 3)
    memory = [row["resident_kib"] / 1024 for row in looks]
    first, last = max(memory[:third]), max(memory[-third:])
    end, begin = looks[-1], looks[0]
    packets = end["packets"]
    span = end["second"] - begin["second"]
    cpu = (end["cpu_s"] - begin["cpu_s"]) / max(span, 1e-9)
    return "\n".join(
        [
            "# A long recording",
            "",
            f"{facts['date']}, commit {facts['commit']}. {facts['cpu']}, {facts['cores']} cores,"
            f" Linux {facts['kernel']}.",
            "",
            "| | |",
            "|---|---:|",
            f"| minutes | {end['second'] / 60:.1f} |",
            f"| packets sent, of {frame_len} bytes | {sent:,} |",
            f"| a second | {sent / max(end['second'], 1e-9):,.0f} |",
            f"| packets seen | {packets['seen']:,} |",
            f"| lost by the ring | {packets['ring_lost']:,} |",
            f"| without room | {packets.get('lost', packets.get('no_room', 0)):,} |",
            f"| lost by the writer | {sum(end['lost'].values()):,} |",
            f"| processor time, share of one core | {cpu:.0%} |",
            f"| changes of mode | {len(looks)} |",
            f"| files overwritten | {end['files_overwritten']:,} |",
            f"| files compressed | {end['files_compressed']:,} |",
            f"| resident, largest of the first third, MiB | {first:.1f} |",
            f"| resident, largest of the last third, MiB | {last:.1f} |",
            f"| descriptors, first and last look | {begin['descriptors']}, {end['descriptors']} |",
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--rate", type=int, default=450_000, help="packets a second")
    parser.add_argument("--frame-bytes", type=int, default=200)
    parser.add_argument("--model", default="models/packetlog")
    parser.add_argument("--output", type=Path, required=True, help="folder for the results")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        live.say("SKIPPED: packetlog-soak: needs root, for a network of its own")
        return
    if not arguments.inside:
        live.go_inside()
    arguments.output.mkdir(parents=True, exist_ok=True)
    SCRATCH.mkdir(parents=True, exist_ok=True)
    live.make_link()
    facts = environment.facts([], 1)
    rows = arguments.output / "soak.jsonl"
    sent = soak(arguments.minutes, arguments.rate, arguments.frame_bytes, arguments.model, rows)
    looks = [json.loads(line) for line in rows.read_text().splitlines()]
    text = table(looks, sent, arguments.frame_bytes, facts)
    (arguments.output / "soak.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
