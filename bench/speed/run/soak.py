"""All applications on an interface for a long time, at half of what they take: `make soak` (root).

    .venv/bin/python bench/speed/run/soak.py OUTPUT [--minutes 60] [--rate PACKETS_PER_SECOND]

A pair of interfaces in a network namespace of its own, which ends with this process. Short
connections with HTTP, DNS and a few transfers are repeated. First the rate doubles
until packets are dropped, held for 20 s each (4 s before a run of less than ten minutes); the soak
runs at half of the highest rate without drops. Every second a row is written to soak.jsonl:
resident memory, packets, drops by cause, files and bytes of the packet log, and how long the page
took for what it asks for.

It fails (status 1) unless

- after the warm-up the median of memory in each tenth of the time is within 2 % of their median,
- nothing was dropped: packets, rows, rows of the history, packets of the log,
- files of the packet log were begun, old ones deleted, and its budget kept,
- 99 of 100 answers of the page came within a second, and each within ten.

The warm-up ends when each table with a row per flow has evicted its first rows and the packet log
its first file, so that everything that may grow has reached its limit; it is at most a third of the
time. Tables with some rows per second do not fill in an hour, and are a thousandth of the memory.
"""

import argparse
import contextlib
import itertools
import json
import os
import random
import re
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import environment

ROOT = Path(__file__).resolve().parents[3]
WIRELENS = ROOT / "target/release/wirelens"
GENERATOR = ROOT / "target/release/examples/live_send"
PROBE_RATES = (10_000, 20_000, 40_000, 80_000, 160_000, 320_000)
# Of the traffic, which is repeated.
CONNECTIONS = 20_000
TRANSFERS = 20
TRANSFER_SEGMENTS = 400
TOGETHER = 500
# Of a rate; long runs are at a rate that was held for long enough to fill tables.
PROBE_S, PROBE_LONG_S = 4.0, 20.0
WAIT_MAX_S = 30.0
TENTHS = 10
MEMORY_SHARE_MAX = 0.02
# From this length on memory is judged in any case.
JUDGED_S = 600
ANSWER_S_MAX = 1.0
SLOWEST_ANSWER_S_MAX = 10.0
LOG_KEEP_BYTES = 64 << 20
PAGES = ("state", "health", "tables/flows?limit=100", "tables/top?limit=100")

ETHERNET = bytes.fromhex("020000000001 020000000002 0800")
CLIENTS, SERVERS, RESOLVER = 0xC6120000, 0xC6130000, 0xC613FFFE
FIN, SYN, PSH, ACK = 0x01, 0x02, 0x08, 0x10
# Tables with a row for each flow.
BY_FLOW = ("flows", "classify", "latency")

SETTINGS = """\
[input]
interface = "wl0"
[run]
seed = 1
[top]
by = "pair"
window = "1s"
rows = 10
output = "top.csv"
rotate-time = "1m"
[traffic]
output = "traffic.csv"
[flows]
stats = true
read-names = true
[classify]
model = "services"
[cca]
[latency]
[unanswered]
[l4s]
model = "l4s"
to = ["*:443"]
[packetlog]
output = "log"
mode = "log-all"
fixed-mode = true
[packetlog.log]
file-bytes = "8M"
keep-bytes = "{keep}"
when-full = "overwrite"
[history]
keep-bytes = "64M"
[[alert]]
name = "dropped"
table = "counts"
when = "name == 'packets_dropped' and increase > 0"
[page]
listen = "127.0.0.1:0"
"""

Row = dict[str, float]
SAMPLE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")


EVICTED = r'wirelens_store_rows_evicted_total\{table="(\w+)"\} (\S+)'


def say(text: str) -> None:
    print(f"soak: {text}", file=sys.stderr, flush=True)


def wait_until(holds, what: str) -> None:  # noqa: ANN001
    deadline = time.monotonic() + WAIT_MAX_S
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(f"waited {WAIT_MAX_S:g} s in vain: {what}")
        time.sleep(0.02)


def make_link() -> None:
    Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
    commands = ("add wl0 type veth peer name wl1", "set wl0 up", "set wl1 up", "set lo up")
    for command in commands:
        subprocess.run(["ip", "link", *command.split()], check=True)

    def is_up() -> bool:
        shown = subprocess.run(["ip", "link", "show", "wl1"], capture_output=True, text=True)
        return "state UP" in shown.stdout

    wait_until(is_up, "the link is up")


class Run:
    """A run of all applications in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        (folder / "wirelens.toml").write_text(SETTINGS.replace("{keep}", str(LOG_KEEP_BYTES)))
        self.said_at = folder / "said.txt"
        with self.said_at.open("wb") as said:
            command = [WIRELENS, "run", "-c", "wirelens.toml"]
            self.process = subprocess.Popen(command, cwd=folder, stderr=said)
        wait_until(self.is_ready, "the run listens")
        found = re.search(r"http://(\S+?)/", self.said)
        assert found, self.said
        self.address = found[1]

    @property
    def said(self) -> str:
        return self.said_at.read_text(errors="replace")

    def is_ready(self) -> bool:
        if self.process.poll() is not None:
            raise SystemExit(f"the run ended: {self.said[-800:]}")
        return "listening on" in self.said and "http://" in self.said

    def ask(self, path: str) -> tuple[float, str]:
        """Seconds until all of the answer was there, and the answer."""
        begun = time.monotonic()
        with urllib.request.urlopen(f"http://{self.address}/{path}", timeout=WAIT_MAX_S) as answer:
            text = answer.read().decode()
        return time.monotonic() - begun, text

    def counters(self, text: str) -> dict[str, float]:
        """Sums over labels by name."""
        sums: dict[str, float] = {}
        for line in text.splitlines():
            if match := SAMPLE.fullmatch(line):
                sums[match[1]] = sums.get(match[1], 0.0) + float(match[3])
        return sums

    def look(self, begun: float) -> Row:
        scrape_s, text = self.ask("metrics")
        answers = [self.ask(f"api/v1/{page}")[0] for page in PAGES]
        sums = self.counters(text)
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        resident = re.search(r"VmRSS:\s+(\d+) kB", status)
        evicted = dict(re.findall(EVICTED, text))
        evicted = {name: float(count) for name, count in evicted.items()}
        files = [path for path in (self.folder / "log").iterdir() if ".pcapng" in path.name]
        rows = [name for name in sums if re.search(r"_rows_(dropped|failed)_total$", name)]
        return {
            "second": round(time.monotonic() - begun, 1),
            "resident_kib": int(resident[1]) if resident else 0,
            "packets": sums["wirelens_packets_received_total"],
            "packets_dropped": sums["wirelens_packets_dropped_total"],
            "rows_dropped": sum(sums[name] for name in rows),
            "history_missed": sums["wirelens_history_missed_rows_total"],
            "history_bytes": sums["wirelens_history_size_bytes"],
            "log_lost": sums["wirelens_packetlog_packets_lost_total"],
            "log_files": len(files),
            "tables_full": sum(evicted.get(name, 0) > 0 for name in BY_FLOW),
            "log_bytes": sums["wirelens_packetlog_log_bytes"],
            "files_overwritten": sums["wirelens_packetlog_files_overwritten_total"],
            "table_bytes": sums["wirelens_store_memory_bytes"],
            "flow_table_bytes": sums["wirelens_flow_table_bytes"],
            "cpu_s": sums["process_cpu_seconds_total"],
            "scrape_s": round(scrape_s, 4),
            "answer_s": round(max(answers), 4),
            "load": os.getloadavg()[0],
        }

    def end(self) -> str:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(120)
        return self.said


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Run]:
    run = Run(folder)
    try:
        yield run
    finally:
        if run.process.poll() is None:
            run.process.kill()
            run.process.wait()


@contextlib.contextmanager
def traffic(capture: Path, rate: int, seconds: float) -> Iterator[subprocess.Popen[str]]:
    command = [GENERATOR, "wl1", "--replay", capture, str(rate), str(seconds)]
    generator = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield generator
    finally:
        generator.kill()
        generator.wait()


def frame(ends: tuple[int, int], ports: tuple[int, int], protocol: int, rest: bytes) -> bytes:
    """Ethernet and IPv4 around a transport header and what follows it."""
    head = struct.pack(">BBHHHBBH", 0x45, 0, 24 + len(rest), 0, 0x4000, 64, protocol, 0)
    return ETHERNET + head + struct.pack(">IIHH", *ends, *ports) + rest


def segments(client: int, port: int, answers: int, answer_len: int) -> list[bytes]:
    """A connection from handshake to close: a request with HTTP, and so many segments back."""
    ends, ports = (CLIENTS + client, SERVERS + client % 200), (port, 80)
    seq, packets = [1_000, 5_000], []

    def send(side: int, flags: int, payload: bytes = b"") -> None:
        acked = seq[1 - side] if flags & ACK else 0
        rest = struct.pack(">IIBBHHH", seq[side], acked, 0x50, flags, 65_535, 0, 0) + payload
        packets.append(frame(ends[:: 1 - 2 * side], ports[:: 1 - 2 * side], 6, rest))
        seq[side] += len(payload) + (flags & (SYN | FIN) != 0)

    send(0, SYN)
    send(1, SYN | ACK)
    send(0, ACK)
    send(0, PSH | ACK, b"GET / HTTP/1.1\r\nHost: host-%d.example\r\n\r\n" % (client % 5_000))
    for number in range(answers):
        send(1, PSH | ACK, bytes(answer_len))
        if number % 2:
            send(0, ACK)
    send(0, FIN | ACK)
    send(1, FIN | ACK)
    send(0, ACK)
    return packets


def query(client: int) -> list[bytes]:
    """A name that is asked for, and its address."""
    ends, ports = (CLIENTS + client, RESOLVER), (1024 + client % 50_000, 53)
    name = b"\x09host-%04d\x07example\x00" % (client % 5_000)
    asked = name + struct.pack(">HH", 1, 1)
    answer = struct.pack(">HHHIHI", 0xC00C, 1, 1, 60, 4, SERVERS + client % 200)
    packets = []
    for side, (flags, more) in enumerate(((0x0100, b""), (0x8180, answer))):
        payload = struct.pack(">HHHHHH", client & 0xFFFF, flags, 1, side, 0, 0) + asked + more
        rest = struct.pack(">HH", 8 + len(payload), 0) + payload
        packets.append(frame(ends[:: 1 - 2 * side], ports[:: 1 - 2 * side], 17, rest))
    return packets


def write_traffic(path: Path) -> None:
    """Connections that are open together take turns, as they do on a link."""
    flows = [segments(n, 1024 + n % 60_000, 2, 300) for n in range(CONNECTIONS)]
    flows += [query(n) for n in range(CONNECTIONS // 10)]
    flows += [segments(n, 63_000 + n, TRANSFER_SEGMENTS, 1_400) for n in range(TRANSFERS)]
    random.Random(1).shuffle(flows)
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1))
        for first in range(0, len(flows), TOGETHER):
            group = flows[first : first + TOGETHER]
            for turn in itertools.zip_longest(*group):
                for packet in filter(None, turn):
                    file.write(struct.pack("<IIII", 1, 0, len(packet), len(packet)) + packet)


def capacity(folder: Path, probe_s: float) -> int:
    """The highest of the rates that doubles without a drop, each held for so long."""
    best = 0
    for rate in PROBE_RATES:
        with running(folder / f"probe-{rate}") as run:
            with traffic(folder / "traffic.pcap", rate, probe_s) as generator:
                generator.wait(probe_s + WAIT_MAX_S)
            time.sleep(0.5)
            row = run.look(time.monotonic())
        lost = row["packets_dropped"] + row["rows_dropped"] + row["log_lost"]
        sent = row["packets"] / probe_s
        say(f"{rate:,} packets a second: {sent:,.0f} received a second, {lost:,.0f} lost")
        if lost > 0 or sent < 0.9 * rate:
            break
        best = rate
    return best


def soak(folder: Path, minutes: float, rate: int, out: Path) -> tuple[list[Row], str]:
    rows: list[Row] = []
    seconds = minutes * 60
    with running(folder / "soak") as run, out.open("w") as file:
        with traffic(folder / "traffic.pcap", rate, seconds + WAIT_MAX_S):
            begun = time.monotonic()
            for number in range(1, int(seconds) + 1):
                time.sleep(max(0.0, begun + number - time.monotonic()))
                row = run.look(begun)
                rows.append(row)
                file.write(json.dumps(row) + "\n")
                file.flush()
                if number % 60 == 0:
                    say(f"{number} s: {row['resident_kib'] / 1024:,.1f} MiB")
        said = run.end()
    return rows, said


def steady(rows: list[Row], seconds: float) -> list[Row]:
    """Those after the warm-up."""
    full = [row["second"] for row in rows if is_warm(row)]
    warm_s = min(seconds / 3, full[0] if full else seconds)
    return [row for row in rows if row["second"] > warm_s]


def is_warm(row: Row) -> bool:
    return row["tables_full"] == len(BY_FLOW) and row["files_overwritten"] > 0


def tenths(rows: list[Row]) -> list[float]:
    """The median of memory in each tenth, in MiB."""
    bounds = [len(rows) * part // TENTHS for part in range(TENTHS + 1)]
    parts = [rows[a:b] for a, b in zip(bounds, bounds[1:], strict=False) if b > a]
    return [statistics.median(row["resident_kib"] for row in part) / 1024 for part in parts]


def judged(rows: list[Row], seconds: float) -> list[tuple[str, str, str, bool]]:
    """What is wanted: what, found, wanted, whether it is reached."""
    after = steady(rows, seconds)
    memory = tenths(after)
    middle = statistics.median(memory)
    drift = max(abs(part - middle) for part in memory) / middle
    last = rows[-1]
    lost = {name: last[name] for name in LOSSES}
    answers = sorted(row["answer_s"] for row in after)
    usual, slowest = answers[len(answers) * 99 // 100], answers[-1]
    deleted = last["files_overwritten"]
    # A brief run on a slow machine ends before all that may grow has grown.
    is_judged = seconds >= JUDGED_S or is_warm(after[0])
    return [
        (
            "memory: largest difference of a tenth from the median",
            f"{drift:.2%}" if is_judged else f"{drift:.2%}, not judged: tables are not full yet",
            f"at most {MEMORY_SHARE_MAX:.0%}", drift <= MEMORY_SHARE_MAX or not is_judged,
        ),
        ("lost: " + ", ".join(lost), f"{sum(lost.values()):,.0f}", "0", not any(lost.values())),
        ("files of the log deleted for newer ones", f"{deleted:,.0f}", "some", deleted > 0),
        (
            "bytes of the log, MiB", f"{max(row['log_bytes'] for row in rows) / 2**20:.1f}",
            f"at most {LOG_KEEP_BYTES >> 20}",
            max(row["log_bytes"] for row in rows) <= LOG_KEEP_BYTES,
        ),
        (
            "99th percentile of the page's answers, s", f"{usual:.3f}", f"below {ANSWER_S_MAX:g}",
            usual < ANSWER_S_MAX,
        ),
        (
            "slowest answer of the page, s", f"{slowest:.3f}", f"below {SLOWEST_ANSWER_S_MAX:g}",
            slowest < SLOWEST_ANSWER_S_MAX,
        ),
    ]  # fmt: skip


LOSSES = ("packets_dropped", "rows_dropped", "history_missed", "log_lost")


def report(rows: list[Row], seconds: float, rate: int, facts: dict[str, object]) -> str:
    after, last = steady(rows, seconds), rows[-1]
    cpu = (last["cpu_s"] - after[0]["cpu_s"]) / (last["second"] - after[0]["second"])
    lines = [
        "# All applications on an interface for a long time", "",
        f"{facts['date']}, commit {facts['commit']}. {facts['cpu']}, {facts['cores']} cores,"
        f" Linux {facts['kernel']}.", "",
        f"{last['second'] / 60:.0f} minutes at {rate:,} packets per second, half of the highest"
        f" probed rate without drops; {last['packets']:,.0f} packets. The first"
        f" {after[0]['second'] - 1:.0f} s are warm-up. The run used {cpu:.2f} of a core.", "",
    ]  # fmt: skip
    lines += ["| | found | wanted | |", "|---|---:|---:|---|"]
    for what, found, wanted, is_reached in judged(rows, seconds):
        lines.append(
            f"| {what} | {found} | {wanted} | {'reached' if is_reached else '**not reached**'} |"
        )
    lines += ["", "Resident memory, median of each tenth after the warm-up, MiB: "]
    lines[-1] += ", ".join(f"{part:.1f}" for part in tenths(after)) + "."
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=int, help="packets per second; without it, it is measured")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if os.geteuid() != 0:
        say("SKIPPED: needs root, for a network of its own")
        return 0
    if not given.inside:
        again = ["unshare", "--net", sys.executable, *sys.argv, "--inside"]
        os.execvp(again[0], again)
    # What was started ends with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    facts = environment.facts([], 1)
    given.output.mkdir(parents=True, exist_ok=True)
    make_link()
    folder = Path(tempfile.mkdtemp(prefix="wirelens-soak-"))
    try:
        write_traffic(folder / "traffic.pcap")
        probe_s = PROBE_LONG_S if given.minutes * 60 >= JUDGED_S else PROBE_S
        rate = given.rate or capacity(folder, probe_s) // 2
        if rate == 0:
            say("the lowest rate loses packets: this machine is too busy")
            return 1
        say(f"{given.minutes:g} minutes at {rate:,} packets a second")
        seconds = given.minutes * 60
        rows, said = soak(folder, given.minutes, rate, given.output / "soak.jsonl")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    (given.output / "closing.txt").write_text(said)
    (given.output / "environment.json").write_text(json.dumps(facts, indent=2) + "\n")
    text = report(rows, seconds, rate, facts)
    (given.output / "README.md").write_text(text)
    print(text)
    return 0 if all(is_reached for *_, is_reached in judged(rows, seconds)) else 1


if __name__ == "__main__":
    sys.exit(main())
