"""Measures stages that workers compute over NATS: `measure.py [-o OUTPUT] [--rounds 3]` (root).

    bash tools/setup.sh nats
    .venv/bin/python bench/speed/workers/measure.py

A broker, workers and a sensor on the loopback of a network namespace of their own, which ends with
this process. `traffic.py` makes a capture of which all flows, 5,000 a second, go on to the last
stage. Written are rows.jsonl, summary.jsonl, table.md and environment.json:

- live: the capture is sent to an interface in real time, with one worker and with the broker away,
  in turns, with `latency = "low"` and without. Transit is the time from the departure of a row to
  its answer without the time at the worker, as the sensor counts it, interpolated within its
  buckets. Processor time per escalation is that of the sensor with a worker less that with the
  broker away, divided by the rows that were answered: user and system, of the whole process.
- paced: the capture is replayed with `--pace 1`. A replay spins until a packet is due, so its
  processor time says nothing.
- throughput: a capture as fast as it goes, with the broker away, one worker and two, each on a
  processor of its own, and without workers: by `services` and by a copy whose last stage is the
  same trees ten times. On captures the sensor waits for answers. Wall time is from the sensor's
  start until its rows are complete.

The broker has no JetStream: so no run publishes the rows of its table, which would count as well.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import traffic
from environment import cpu_slug, facts, first_line
from report import FLOWS_PER_S, LATENCY, WORKERS, Row, summary, table

WIRELENS = Path("target/release/wirelens")
BROKER = Path("target/tools/nats-server")
SCRATCH = Path("bench/data/workers")
SECONDS = 12.0
# Of the capture without pace; with the larger model one core needs seconds for it.
FLOWS = 20_000
REPEATED = 10
DEADLINE = {"throughput": "30s"}
WAIT_MAX_S = 120.0


def wait_until(holds: Callable[[], bool], what: str, every_s: float = 0.005) -> None:
    deadline = time.monotonic() + WAIT_MAX_S
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(f"waited {WAIT_MAX_S:g} s in vain: {what}")
        time.sleep(every_s)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


# --- Models ----------------------------------------------------------------------------------


def repeated_trees(text: str, times: int) -> str:
    """A file of trees with the same trees several times: as slow as a model of so many."""
    head, tests, *trees, _ = text.splitlines()
    fields = json.loads(head)
    fields["trees"] *= times
    lines = [json.dumps(fields, separators=(",", ":")), tests, *(trees * times)]
    body = "\n".join(lines) + "\n"
    return body + json.dumps({"sha256": sha256(body.encode())}, separators=(",", ":")) + "\n"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def make_slow_model(folder: Path, times: int) -> Path:
    """A copy of `services` whose last stage has its trees several times."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree("models/services", folder)
    stage = folder / "slow.trees.jsonl"
    stage.write_text(repeated_trees(stage.read_text(), times))
    # Named after what it is in messages.
    cascade = json.loads((folder / "cascade.json").read_text()) | {"name": f"services-x{times}"}
    (folder / "cascade.json").write_text(json.dumps(cascade))
    sums = folder / "SHA256SUMS"
    names = sorted(path.name for path in folder.iterdir() if path != sums)
    sums.write_text("".join(f"{sha256((folder / name).read_bytes())}  {name}\n" for name in names))
    return folder


# --- Processes -------------------------------------------------------------------------------


def ended(process: subprocess.Popen[bytes]) -> tuple[float, float]:
    """Waits for its end; processor time, user and system."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime, usage.ru_stime


@contextmanager
def stopped_in_the_end(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        if process.returncode is None:
            process.kill()
            process.wait()


class Broker:
    """A server that lists its subscriptions."""

    def __init__(self) -> None:
        self.port, self.monitor = free_port(), free_port()
        command = [BROKER, "-a", "127.0.0.1", "-p", str(self.port), "-m", str(self.monitor)]
        with (SCRATCH / "broker.log").open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_until(lambda: self.subscribers() == 0, "the broker answers")

    @property
    def address(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def subscribers(self) -> int | None:
        """Connections that take escalations; none where it does not answer."""
        try:
            address = f"http://127.0.0.1:{self.monitor}/connz?subs=1"
            with urllib.request.urlopen(address, timeout=10) as answer:
                connections = json.load(answer)["connections"]
        except OSError:
            return None
        lists = [one.get("subscriptions_list", []) for one in connections]
        return sum(any(".escalations." in subject for subject in one) for one in lists)


class Worker:
    """A worker on one processor."""

    def __init__(self, model: str, address: str, processor: int) -> None:
        self.words = SCRATCH / f"worker-{processor}.txt"
        command = ["taskset", "-c", str(processor), WIRELENS, "worker", "--model", model]
        command += ["--server", address]
        with self.words.open("wb") as out:
            self.process = subprocess.Popen(command, stderr=out)

    def end(self) -> Row:
        self.process.send_signal(signal.SIGTERM)
        spent = sum(ended(self.process))
        rows = re.search(r"worker: (\d+) rows", self.words.read_text())
        if rows is None:
            raise SystemExit(f"the worker said: {self.words.read_text()}")
        return {"rows": int(rows[1]), "cpu_s": round(spent, 3)}


def settings(case: str, model: str, capture: Path, address: str | None) -> Path:
    path, workers, nats = SCRATCH / "sensor.toml", "", ""
    interface = f'interface = "wl0"\n{LATENCY.get(case, "")}'
    source = interface if case in LATENCY else f'read = "{capture}"'
    deadline = DEADLINE.get(case, "200ms")
    if address is not None:
        workers = f'workers = true\ndeadline = "{deadline}"\nunder-way-max = 65536\n'
        nats = f'[nats]\nservers = ["{address}"]\nsensor = "bench"\nmetrics-every = "1h"\n'
    path.write_text(
        f'[input]\n{source}\n[page]\nlisten = "127.0.0.1:0"\n[classify]\n'
        f'model = "{model}"\noutput = "{SCRATCH}/verdicts.csv"\nforce = true\n{workers}{nats}'
    )
    return path


class Sensor:
    """A run over a capture, from its start until its rows are complete; or over one that is sent to
    its interface."""

    def __init__(self, path: Path, *more: str, sent: Path | None = None) -> None:
        self.output, self.words = SCRATCH / "verdicts.csv", SCRATCH / "sensor.txt"
        self.output.unlink(missing_ok=True)
        command = [WIRELENS, "run", "-c", path, *more]
        began = time.monotonic()
        with self.words.open("wb") as out:
            self.process = subprocess.Popen(command, stderr=out)
        self.sent, self.late_ms = 0, 0.0
        self.threads: Row = {}
        with stopped_in_the_end(self.process):
            if sent is None:
                wait_until(lambda: self.output.exists() or self.has_ended(), "the capture is read")
            else:
                self.send(sent)
            self.wall_s = time.monotonic() - began
            self.samples = self.scrape()
            self.process.send_signal(signal.SIGINT)
            self.user_s, self.system_s = ended(self.process)

    def send(self, capture: Path) -> None:
        """Sends a capture and gives its last flows time."""
        for words in ("listening on", "http://"):
            wait_until(lambda words=words: words in self.said() or self.has_ended(), words)
        program = Path(__file__).with_name("traffic.py")
        command = [sys.executable, program, capture, "--send", "wl1"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        count, late_ns = map(int, done.stdout.split())
        self.sent, self.late_ms = count, late_ns / 1e6
        time.sleep(1)
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            name = (task / "comm").read_text().strip()
            spent_ns = int((task / "schedstat").read_text().split()[0])
            self.threads[name] = round(spent_ns / 1e9, 3)

    def said(self) -> str:
        return self.words.read_text(errors="replace")

    def has_ended(self) -> bool:
        if self.process.poll() is not None:
            raise SystemExit(f"the sensor said: {self.words.read_text()}")
        return False

    def scrape(self) -> dict[str, float]:
        """Samples of its metrics, as they are written."""
        found = re.search(r"http://(\S+)/", self.words.read_text())
        if found is None:
            raise SystemExit(f"no page in: {self.words.read_text()}")
        with urllib.request.urlopen(f"http://{found[1]}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        parts = [line.rpartition(" ") for line in lines if not line.startswith("#")]
        return {name: float(value) for name, _, value in parts}

    def of_escalations(self, name: str) -> float:
        return self.samples.get(f"wirelens_escalations_{name}", 0.0)

    def outcomes(self) -> dict[str, int]:
        pattern = re.compile(r'wirelens_escalations_rows_total\{outcome="(\w+)"\}')
        found = {match[1]: int(count) for name, count in self.samples.items()
                 if (match := pattern.fullmatch(name))}  # fmt: skip
        return {outcome: count for outcome, count in found.items() if count}

    def quantile_ms(self, name: str, part: float) -> float | None:
        """Of a histogram: a straight line within a bucket; none where no row was answered."""
        pattern = re.compile(rf'wirelens_escalations_{name}_bucket\{{le="([\d.]+)"\}}')
        below = [(float(match[1]), count) for one, count in self.samples.items()
                 if (match := pattern.fullmatch(one))]  # fmt: skip
        wanted = part * self.of_escalations(f"{name}_count")
        before_s, before = 0.0, 0.0
        for bound_s, count in below:
            if count >= wanted > 0:
                share = (wanted - before) / (count - before)
                return round(1e3 * (before_s + share * (bound_s - before_s)), 4)
            before_s, before = bound_s, count
        return None

    def row(self) -> Row:
        captured = re.search(r"(\d+) packets captured", self.said())
        return {
            "wall_s": round(self.wall_s, 3), "user_s": self.user_s, "system_s": self.system_s,
            "cpu_s": round(self.user_s + self.system_s, 3), "outcomes": self.outcomes(),
            "messages": int(self.of_escalations("messages_total")),
            "repeated": int(self.of_escalations("messages_repeated_total")),
            "sent": self.sent, "captured": int(captured[1]) if captured else 0,
            "sent_late_ms": self.late_ms,
            **{f"{name}_ms_p{percent}": self.quantile_ms(f"{name}_seconds", percent / 100)
               for name in ("transit", "answer") for percent in (50, 99)},
            "threads_s": self.threads, "load": round(os.getloadavg()[0], 2),
        }  # fmt: skip


# --- Measurements ----------------------------------------------------------------------------


def away() -> str:
    """Where no broker is."""
    return f"nats://127.0.0.1:{free_port()}"


def with_workers(
    case: str, model: str, capture: Path, count: int, *more: str, sent: Path | None = None
) -> Row:
    """A run with so many workers, the first on the last processor."""
    with ExitStack() as stack:
        broker = Broker()
        stack.enter_context(stopped_in_the_end(broker.process))
        processors = sorted(os.sched_getaffinity(0), reverse=True)
        workers = [
            Worker(model, broker.address, processors[at % len(processors)]) for at in range(count)
        ]
        for worker in workers:
            stack.enter_context(stopped_in_the_end(worker.process))
        wait_until(lambda: broker.subscribers() == count, f"{count} workers")
        sensor = Sensor(settings(case, model, capture, broker.address), *more, sent=sent)
        return {**sensor.row(), "workers": [worker.end() for worker in workers]}


def live(case: str, capture: Path, how: str) -> Row:
    if how == "a worker":
        row = with_workers(case, "services", capture, 1, sent=capture)
    else:
        row = Sensor(settings(case, "services", capture, away()), sent=capture).row()
    return {"case": case, "how": how, **row}


def throughput(model: str, capture: Path, how: str) -> Row:
    case, one_thread = "throughput", ("--threads", "1")
    if how in WORKERS:
        row = with_workers(case, model, capture, WORKERS[how], *one_thread)
    else:
        address = away() if how == "broker away" else None
        row = Sensor(settings(case, model, capture, address), *one_thread).row()
    return {"case": case, "model": Path(model).name, "how": how, "flows": FLOWS, **row}


def rows_of(arguments: argparse.Namespace) -> Iterator[Row]:
    load, bulk = SCRATCH / "load.pcap", SCRATCH / "bulk.pcap"
    flow_count = traffic.make(load, FLOWS_PER_S, arguments.seconds)
    traffic.make(bulk, FLOWS_PER_S, FLOWS / FLOWS_PER_S)
    slow = make_slow_model(SCRATCH / f"services-x{REPEATED}", REPEATED)
    for round_ in range(arguments.rounds):
        for case in LATENCY:
            for how in ("a worker", "broker away"):
                yield {"round": round_, "flows": flow_count, **live(case, load, how)}
        row = with_workers("paced", "services", load, 1, "--pace", "1")
        yield {"round": round_, "flows": flow_count, "case": "paced", "how": "a worker", **row}
        for model in ("services", str(slow)):
            for how in (*WORKERS, "broker away", "the sensor alone"):
                yield {"round": round_, **throughput(model, bulk, how)}


def go_inside() -> None:
    """Becomes this very command in a network of its own, with loopback and a link."""
    again = ["unshare", "--net", sys.executable, *sys.argv, "--inside"]
    os.execvp(again[0], again)


def make_link() -> None:
    Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
    for command in (
        "link set lo up", "link add wl0 type veth peer name wl1", "link set wl0 up",
        "link set wl1 up",
    ):  # fmt: skip
        subprocess.run(["ip", *command.split()], check=True)
    time.sleep(1)


def begin(arguments: argparse.Namespace, name: str) -> tuple[Path, dict[str, object]]:
    """In a network of its own: the folder of results, and what is known of the machine."""
    if not arguments.inside:
        go_inside()
    make_link()
    today = datetime.now(UTC).date()
    output = arguments.output or Path(f"bench/results/{today}-{cpu_slug()}-{name}")
    output.mkdir(parents=True, exist_ok=True)
    SCRATCH.mkdir(parents=True, exist_ok=True)
    return output, facts([], arguments.rounds) | {"nats_server": first_line(str(BROKER), "-v")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    output, environment = begin(arguments, "workers")
    (output / "environment.json").write_text(json.dumps(environment, indent=2) + "\n")
    rows: list[Row] = []
    with (output / "rows.jsonl").open("w") as file:
        for row in rows_of(arguments):
            rows.append(row)
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(json.dumps(row), flush=True)
    lines = [json.dumps(row) + "\n" for row in summary(rows)]
    (output / "summary.jsonl").write_text("".join(lines))
    text = table(rows)
    (output / "table.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
