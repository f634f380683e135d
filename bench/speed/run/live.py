"""Measures `wirelens run` with all applications on an interface: `live.py OUTPUT` (root).

A pair of interfaces in a network namespace of its own, which ends with this process. The generator
of `bench/speed/live.py` sends datagrams of 16,384 flows at a steady rate. Written are live.jsonl
and live.md: the time until it listens, processor time while nothing comes, packets lost by rate,
the most memory, and packets lost while the settings are read again ten times a second.

    cargo build --release --package wirelens-capture --example live_send
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import importlib.util

from cases import SETTINGS, WIRELENS

RATES = (50_000, 100_000, 150_000, 200_000, 300_000, 400_000)
RELOAD_RATE = 100_000
SECONDS = 5.0
IDLE_S = 5.0
FRAME_BYTES = 300
WAIT_MAX_S = 20.0
WAITED = re.compile(r"packets waited ([\d.]+) ms for the reload")
Row = dict[str, object]


def beside() -> object:
    """The module of the same name in the folder above, which makes links and traffic."""
    path = Path(__file__).resolve().parents[1] / "live.py"
    spec = importlib.util.spec_from_file_location("live_beside", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["live_beside"] = module
    spec.loader.exec_module(module)
    return module


LIVE = beside()


class Running:
    """A run on `wl0` with all applications."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        settings = folder / "live.toml"
        settings.write_text(self.settings(1_000_000))
        self.words = folder / "words.txt"
        self.started = time.monotonic()
        with self.words.open("wb") as out:
            command = [str(WIRELENS), "run", "-c", str(settings)]
            self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=out)
        self.wait(lambda: "listening on" in self.said(), "it listens")
        self.ready_s = time.monotonic() - self.started

    def settings(self, threshold: int) -> str:
        lines = ["[input]", 'interface = "wl0"']
        for name, more in SETTINGS.items():
            is_log = name == "packetlog"
            output = self.folder / ("live.log" if is_log else f"live-{name}.parquet")
            lines += [f"[{name}]", f'output = "{output}"', more]
            lines += [] if is_log else ["force = true"]
            lines += ['window = "1s"'] if name == "top" else []
        return "\n".join([*lines, "[[rule]]", f"bytes = {threshold}", 'keep = "header"']) + "\n"

    def said(self) -> str:
        return self.words.read_text(errors="replace")

    def wait(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WAIT_MAX_S
        while not holds():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise SystemExit(f"waited in vain: {what}: {self.said()[-400:]}")
            time.sleep(0.002)

    def reload(self, threshold: int) -> float:
        """Changes the rule; seconds until it is said to be in force."""
        (self.folder / "live.toml").write_text(self.settings(threshold))
        before, start = len(self.said()), time.monotonic()
        self.process.send_signal(signal.SIGHUP)
        self.wait(lambda: bool(WAITED.search(self.said(), before)), "the settings are read again")
        return time.monotonic() - start

    def waited_ms(self) -> float:
        """The longest that packets waited for settings, as the program says it."""
        return max(map(float, WAITED.findall(self.said())), default=0.0)

    def memory_mib(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else 0.0

    def end(self) -> tuple[int, int]:
        """Packets taken in, and packets lost."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)
        said = self.said()
        captured = re.search(r"(\d+) packets captured", said)
        dropped = re.search(r"(\d+) packets dropped", said)
        if not captured:
            raise SystemExit(f"no packets captured: {said[-400:]}")
        return int(captured[1]), int(dropped[1]) if dropped else 0


def clear(folder: Path) -> None:
    subprocess.run(["rm", "-rf", folder / "live.log"], check=True)


def at_rate(folder: Path, rate: int, reloads: bool) -> Row:
    clear(folder)
    running = Running(folder)
    waits: list[float] = []
    before = LIVE.cpu_ns(running.process.pid)
    sent: list[int] = []
    traffic = threading.Thread(
        target=lambda: sent.extend(map(int, LIVE.generate(FRAME_BYTES, rate, SECONDS)))
    )
    traffic.start()
    threshold = 1_000_000
    while reloads and traffic.is_alive():
        threshold += 1
        waits.append(running.reload(threshold))
        time.sleep(0.1)
    traffic.join()
    time.sleep(1.5)
    spent, memory = LIVE.cpu_ns(running.process.pid) - before, running.memory_mib()
    waited_ms = running.waited_ms()
    captured, dropped = running.end()
    row: Row = {
        "rate": rate, "sent": sent[0], "sent_per_s": sent[1], "captured": captured,
        "dropped": dropped, "missed": sent[0] - captured - dropped,
        "cpu_ns_per_packet": round(spent / max(captured, 1), 1), "rss_mib": round(memory, 1),
        "ready_ms": round(running.ready_s * 1e3, 1), "load": round(os.getloadavg()[0], 2),
    }  # fmt: skip
    if reloads:
        row |= {"reloads": len(waits), "reload_ms_max": round(max(waits) * 1e3, 1)}
        row["packets_waited_ms_max"] = waited_ms
    return row


def idle(folder: Path) -> Row:
    clear(folder)
    running = Running(folder)
    time.sleep(1.0)
    before = LIVE.cpu_ns(running.process.pid)
    time.sleep(IDLE_S)
    spent = LIVE.cpu_ns(running.process.pid) - before
    memory = running.memory_mib()
    running.end()
    return {
        "idle_percent_of_a_core": round(spent / IDLE_S / 1e7, 3), "rss_mib": round(memory, 1),
        "ready_ms": round(running.ready_s * 1e3, 1),
    }  # fmt: skip


def table(rows: list[Row]) -> str:
    out = ["# `wirelens run` with all applications on an interface", "",
           f"Frames of {FRAME_BYTES} bytes in 16,384 flows, {SECONDS:g} s each, one thread.", "",
           "| | sent a second | lost | CPU ns a packet | peak RSS MiB | ready ms |",
           "|---|---:|---:|---:|---:|---:|"]  # fmt: skip
    for row in rows:
        if "idle_percent_of_a_core" in row:
            out.append(
                f"| idle: {row['idle_percent_of_a_core']} % of a core | | | |"
                f" {row['rss_mib']} | {row['ready_ms']} |"
            )
            continue
        name = f"{int(str(row['rate'])) // 1000}k a second"
        if "reloads" in row:
            name += (
                f", settings read again {row['reloads']} times: in force {row['reload_ms_max']} ms"
                f" after the signal at most, for which packets waited"
                f" {row['packets_waited_ms_max']} ms at most"
            )
        lost = int(str(row["sent"])) - int(str(row["captured"]))
        out.append(
            f"| {name} | {row['sent_per_s']:,} | {lost} | {row['cpu_ns_per_packet']} |"
            f" {row['rss_mib']} | {row['ready_ms']} |"
        )
    return "\n".join(out) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.inside:
        LIVE.go_inside()
    output = arguments.output
    output.mkdir(parents=True, exist_ok=True)
    folder = Path("bench/data/run/live")
    folder.mkdir(parents=True, exist_ok=True)
    LIVE.make_link()
    rows = [idle(folder)]
    rows += [at_rate(folder, rate, reloads=False) for rate in RATES]
    rows.append(at_rate(folder, RELOAD_RATE, reloads=True))
    clear(folder)
    (output / "live.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (output / "live.md").write_text(table(rows))
    print(table(rows))


if __name__ == "__main__":
    main()
