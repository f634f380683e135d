"""What looking at a run costs it: `watched.py [-o OUTPUT] [--rounds 3]` (root).

A run on an interface of a network namespace of its own, which ends with this process, classifies
the flows of a capture that is sent in a loop at a steady rate. It is looked at by nobody, by
one page, by 50 pages, and by 50 pages and a crawler, in turns. In one more case those look at
another run, which shows what their load alone does on this machine. Written are watched.jsonl and
watched.md: packets lost, how long verdicts took, processor time of the run and of its server alone.

    cargo build --release --package wirelens-capture --example live_send

Who looks is on the same machine, at the lowest priority.
"""

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import live
from environment import cpu_slug, facts
from served import WIRELENS, served

RATES = (20_000, 50_000)
WATCHERS = {
    "nobody": (0, 0), "1 page": (1, 0), "50 pages": (50, 0), "50 pages, crawler": (50, 1),
    "nobody; 50 pages, crawler at another run": (50, 1),
}  # fmt: skip
SECONDS = 10.0
SETTINGS = """
[input]
interface = "wl0"
latency = "low"
[traffic]
[flows]
read-names = true
[classify]
model = "services"
[latency]
[page]
listen = "127.0.0.1:0"
"""
LATENCY = re.compile(
    r"latency of (\d+) verdicts decided by a frame: p50 ([\d.]+) (\S+), p99 ([\d.]+) ([a-zµ]+)"
)
UNITS_US = {"ns": 1e-3, "us": 1.0, "µs": 1.0, "ms": 1e3, "s": 1e6}
Row = dict[str, object]


def server_cpu_s(pid: int) -> float:
    """Processor time of the threads that serve."""
    ticks = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        if name in ("server", "query"):
            ticks += sum(map(int, rest.split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def measured(rate: int, watchers: str, round_: int, folder: Path) -> Row:
    pages, crawlers = WATCHERS[watchers]
    settings, words = folder / "watched.toml", folder / "watched.txt"
    other: subprocess.Popen[str] | None = None
    settings.write_text(SETTINGS)
    with words.open("wb") as out:
        process = subprocess.Popen(
            [WIRELENS, "run", "-c", settings], stdout=subprocess.DEVNULL, stderr=out
        )
    try:
        live.wait_until(lambda: "listening on" in words.read_text(), "it listens")
        live.wait_until(lambda: "http://" in words.read_text(), "it serves")
        address = re.findall(r"http://\S+", words.read_text())[0]
        if "another run" in watchers:
            other, address = served("-r", str(live.REPLAY), "--page", "0")
        time.sleep(0.3)
        visitors = [
            "nice", "-n", "19", sys.executable, str(Path(__file__).with_name("visitors.py")),
            address, str(pages), str(crawlers), str(SECONDS),
        ]  # fmt: skip
        before, before_server = live.cpu_ns(process.pid), server_cpu_s(process.pid)
        looking = subprocess.Popen(visitors, stdout=subprocess.PIPE, text=True)
        sent: list[tuple[int, float, int]] = []
        traffic = threading.Thread(target=lambda: sent.append(live.generate(0, rate, SECONDS)))
        traffic.start()
        traffic.join()
        spent = live.cpu_ns(process.pid) - before
        served_s = server_cpu_s(process.pid) - before_server
        seen = json.loads(looking.communicate(timeout=60)[0])
        process.send_signal(signal.SIGINT)
        process.wait(30)
    finally:
        for each in (process, other):
            if each is not None:
                each.kill()
                each.wait()
    said = words.read_text(errors="replace")
    captured = live.number(r"(\d+) packets captured", said)
    dropped = re.search(r"(\d+) packets dropped", said)
    verdicts = LATENCY.search(said)
    if verdicts is None:
        raise SystemExit(f"no latency of verdicts in: {said[-1000:]}")
    return {
        "round": round_, "rate": rate, "watchers": watchers, "sent": sent[0][0],
        "captured": captured, "dropped": int(dropped[1]) if dropped else 0,
        "verdicts": int(verdicts[1]),
        "verdict_us_p50": float(verdicts[2]) * UNITS_US[verdicts[3].rstrip(",")],
        "verdict_us_p99": float(verdicts[4]) * UNITS_US[verdicts[5]],
        "cpu_s": round(spent / 1e9, 2), "server_cpu_s": round(served_s, 2),
        "load": round(os.getloadavg()[0], 2), **seen,
    }  # fmt: skip


def table(rows: list[Row]) -> str:
    out = [
        "# What looking at a run costs it", "",
        f"The shipped capture sent in a loop for {SECONDS:g} s; medians of rounds.", "",
        "| packets a second | looked at by | lost | verdicts after, p50 | p99 | CPU of the run |"
        " of its server | answers a second | p99 of answers |",
        "|---:|---|---:|---:|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for rate in RATES:
        for watchers in WATCHERS:
            of = [row for row in rows if (row["rate"], row["watchers"]) == (rate, watchers)]

            def median(name: str, of: list[Row] = of) -> float:
                return statistics.median(float(str(row[name] or 0)) for row in of)

            lost = statistics.median(
                (int(str(row["sent"])) - int(str(row["captured"]))) / int(str(row["sent"]))
                for row in of
            )
            out.append(
                f"| {rate:,} | {watchers} | {lost:.3%} | {median('verdict_us_p50'):.0f} µs |"
                f" {median('verdict_us_p99'):.0f} µs | {median('cpu_s') / SECONDS:.1%} |"
                f" {median('server_cpu_s') / SECONDS:.1%} | {median('answers') / SECONDS:.0f} |"
                f" {median('answer_ms_p99'):.0f} ms |"
            )
    return "\n".join(out) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.inside:
        live.go_inside()
    live.make_link()
    live.REPLAY = Path("testdata/demo.pcapng")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    today = datetime.now(UTC).date()
    output = arguments.output or Path(f"bench/results/{today}-{cpu_slug()}-page")
    output.mkdir(parents=True, exist_ok=True)
    folder = Path("bench/data/page")
    folder.mkdir(parents=True, exist_ok=True)
    environment = facts([], arguments.rounds)
    (output / "environment.json").write_text(json.dumps(environment, indent=1) + "\n")
    rows = []
    for round_ in range(arguments.rounds):
        for rate in RATES:
            for watchers in WATCHERS:
                rows.append(measured(rate, watchers, round_, folder))
                print(rows[-1], flush=True)
    (output / "watched.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (output / "watched.md").write_text(table(rows))
    print(table(rows))


if __name__ == "__main__":
    main()
