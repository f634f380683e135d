"""What is measured: one job a program, with what it reads and how its time is told."""

import importlib.util
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

WIRELENS = "target/release/wirelens"
BENCH = "target/release/wirelens-bench"
YARDSTICKS = Path("bench/data/yardsticks")
RECORD_LEN = 40
# What the programs write, and shortened captures for those that take their time: tshark a fifth
# of a millisecond for a packet, NFStream 18 µs.
SCRATCH = Path("bench/data/scratch")
TSHARK_PACKETS = NFSTREAM_PACKETS = 200_000
# nPrint prints 13,000 to 18,000 packets a second.
NPRINT_PACKETS = 50_000
# What train_trees.py makes, of the shape of ServeFlow's models.
TREES = Path("bench/data/trees")
SERVE = Path("bench/data/serve")
OWN = Path("bench/data/own")
TREE_MODELS = ("tree", "forest", "lightgbm", "lightgbm-10")


@dataclass(frozen=True)
class Part:
    """What one process told of one thing it measured itself."""

    name: str
    items: int
    wall_s: float
    cpu_s: float
    figure: str | None = None
    group: str | None = None


@dataclass(frozen=True)
class Job:
    """One process. Its time is the process's own from start to end, user and
    system, children included, unless `parts` reads better times from its output."""

    figure: str
    group: str
    name: str
    items: int
    command: list[str]
    parts: Callable[[str], list[Part]] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Input:
    """A capture in all its forms."""

    name: str
    folder: Path
    packets: int

    @classmethod
    def open(cls, name: str, folder: Path) -> "Input":
        """Counts packets by the headers of the cut capture."""
        path = folder / "headers.pcap"
        size, at, packets = path.stat().st_size, 24, 0
        with path.open("rb") as file:
            data = file.read()
        while at + 16 <= size:
            at += 16 + int.from_bytes(data[at + 8 : at + 12], "little")
            packets += 1
        return cls(name, folder, packets)

    def file(self, name: str) -> str:
        return str(self.folder / name)

    @property
    def records(self) -> int:
        return (self.folder / "records.bin").stat().st_size // RECORD_LEN


def from_json(output: str) -> list[Part]:
    """Lines of JSON, as our own programs print them."""
    import json

    parts = []
    for line in output.splitlines():
        told = json.loads(line)
        parts.append(
            Part(told["name"], told["items"], told["wall_s"], told["cpu_s"], told.get("figure"))
        )
    return parts


def from_rec(output: str) -> list[Part]:
    """Lines such as `open addr + prefetch  srcs 9 wall 0.1 2.0 Mpps cpu 0.1 2.0 M/core-s`."""
    names = {
        "unordered_map inline": "C++ map in place",
        "open addr + prefetch": "tuned loop, 1 thread",
        "2 threads + merge": "tuned loop, 2 threads",
    }
    pattern = r"(.+?)\s+srcs \d+ wall ([\d.]+) ([\d.]+) Mpps cpu ([\d.]+) ([\d.]+)"
    parts = []
    for name, wall, wall_rate, _cpu, cpu_rate in re.findall(pattern, output):
        items = round(float(wall) * float(wall_rate) * 1e6)
        # Times are printed in milliseconds; the rates say more.
        parts.append(
            Part(
                names[name.strip()],
                items,
                items / float(wall_rate) / 1e6,
                items / float(cpu_rate) / 1e6,
            )
        )
    return parts


def from_paper(name: str) -> Callable[[str], list[Part]]:
    """`... recs 9 srcs 9 1.0 s 2.0 Mpps` and `process cpu 1.0 s`. The processor
    time includes reading the records, about a hundredth of it."""

    def read(output: str) -> list[Part]:
        run = re.search(r"recs (\d+) srcs \d+ ([\d.]+) s", output)
        cpu = re.search(r"process cpu ([\d.]+) s", output)
        if run is None or cpu is None:
            return []
        return [Part(name, int(run[1]), float(run[2]), float(cpu[1]))]

    return read


def inside_jobs(only: set[str], first: Input, is_quick: bool) -> Iterator[Job]:
    """What happens inside one process: figures 3 and 4, items that cross."""
    if "fig3" in only:
        items = "400000" if is_quick else "4000000"
        yield Job("fig3", "", "queues", 0, [BENCH, "queues", "--items", items], from_json)
    if "crossing" in only:
        items = "2000000" if is_quick else "20000000"
        yield Job("crossing", "", "crossing", 0, [BENCH, "crossing", "--items", items], from_json)
    if "fig4" in only:
        passes = "1" if is_quick else "2"
        records = first.file("records.bin")
        command = [BENCH, "pipeline", "--records", records, "--passes", passes]
        yield Job("fig4", first.name, "pipeline", first.records, command, from_json)
        yield from yardstick_record_jobs(first, is_quick)


def yardstick_record_jobs(first: Input, is_quick: bool) -> Iterator[Job]:
    records = first.file("records.bin")
    if not (YARDSTICKS / "paper").exists():
        return
    for replicas in (1, 2):
        for mode, work in ((0, "count"), (1, "pass-through")):
            name = f"paper's design in C++, {work}, r={replicas}"
            command = [str(YARDSTICKS / "paper"), records, str(replicas), str(mode)]
            command.append("1" if is_quick else "4")
            yield Job("fig4", first.name, name, first.records, command, from_paper(name))
    command = [str(YARDSTICKS / "rec"), records]
    yield Job("fig4", first.name, "rec", first.records, command, from_rec)


def top_jobs(source: Input, is_quick: bool) -> Iterator[Job]:
    """Packets and bytes by source, from a capture: whole programs."""
    for form, file_name in (("snaplen 96", "headers.pcap"), ("full frames", "full.pcap")):
        group = f"{source.name}, {form}"
        file = source.file(file_name)
        yield from capture_jobs(group, source.packets, file)
        if form == "full frames":
            yield from tshark_jobs(group, source.packets, file, is_quick)
    yield from column_jobs(source)


def capture_jobs(group: str, packets: int, file: str) -> Iterator[Job]:
    for threads in (1, 2):
        plural = "" if threads == 1 else "s"
        name = f"wirelens top, {threads} thread{plural}"
        command = [WIRELENS, "top", "-q", "-r", file, "--by", "source", "-n", "10"]
        yield Job("top", group, name, packets, [*command, "--threads", str(threads)])
        if (YARDSTICKS / "tuned").exists():
            name = f"tuned loop, {threads} thread{plural}"
            command = [str(YARDSTICKS / "tuned"), file, "1", str(threads)]
            yield Job("top", group, name, packets, command)
    if shutil.which("tcpdump"):
        reading = ["tcpdump", "-q", "-r", file, "-w", "/dev/null"]
        yield Job("top", group, "tcpdump, copy", packets, reading)
        # An EtherType that nothing has: what libpcap costs before any work is done.
        name = "tcpdump, filter that rejects all"
        yield Job("top", group, name, packets, [*reading, "ether proto 0x88b5"])


def tshark_jobs(group: str, packets: int, file: str, is_quick: bool) -> Iterator[Job]:
    if not shutil.which("tshark"):
        return
    count = min(packets, TSHARK_PACKETS // (10 if is_quick else 1))
    reading = ["tshark", "-n", "-r", file, "-c", str(count)]
    yield Job("top", group, "tshark, endpoints", count, [*reading, "-q", "-z", "endpoints,ip"])
    adding = "{n[$1]++; b[$1] += $2} END {for (a in n) print a, n[a], b[a]}"
    fields = " ".join([*reading, "-T", "fields", "-e", "ip.src", "-e", "frame.len"])
    shell = ["bash", "-o", "pipefail", "-c", f"{fields} | awk '{adding}'"]
    yield Job("top", group, "tshark, fields to awk", count, shell)


def column_jobs(source: Input) -> Iterator[Job]:
    """The same question to engines that are given columns, parsed already."""
    for form in ("memory", "parquet"):
        for engine in ("duckdb", "polars"):
            for threads in (1, 2):
                command = [sys.executable, "bench/speed/columns.py", engine, form, str(threads)]
                command += ["--data", str(source.folder)]
                group = f"{source.name}, columns, {form}"
                yield Job("top", group, engine, source.records, command, from_json)


def first_packets(path: Path, count: int) -> Path:
    """The beginning of a capture as a capture of its own, made once."""
    cut = SCRATCH / f"{path.parent.name}-{path.stem}-{count}.pcap"
    if cut.exists() and cut.stat().st_mtime >= path.stat().st_mtime:
        return cut
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with path.open("rb") as file:
        at = 24
        for _ in range(count):
            file.seek(at + 8)
            at += 16 + int.from_bytes(file.read(4), "little")
        file.seek(0)
        cut.write_bytes(file.read(at))
    return cut


def flow_jobs(source: Input, is_quick: bool) -> Iterator[Job]:
    """Both directions of every 5-tuple, from a capture: whole programs."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    for form, file_name in (("snaplen 96", "headers.pcap"), ("full frames", "full.pcap")):
        group = f"{source.name}, {form}"
        file = source.folder / file_name
        yield from own_flow_jobs(group, source.packets, str(file))
        yield from exporter_jobs(group, source.packets, str(file))
        cut_count = min(source.packets, NFSTREAM_PACKETS // (10 if is_quick else 1))
        yield from slow_flow_jobs(group, cut_count, first_packets(file, cut_count))


def own_flow_jobs(group: str, packets: int, file: str) -> Iterator[Job]:
    for threads in (1, 2):
        plural = "" if threads == 1 else "s"
        command = [WIRELENS, "flows", "-q", "-r", file, "--threads", str(threads)]
        name = f"wirelens flows, {threads} thread{plural}"
        yield Job("flows", group, name, packets, [*command, "-n", "10"])
        output = ["-o", str(SCRATCH / "flows.parquet"), "--force"]
        name = f"wirelens flows to Parquet, {threads} thread{plural}"
        yield Job("flows", group, name, packets, [*command, *output])
        if (YARDSTICKS / "tuned").exists():
            # Knows neither time-outs nor TCP, and writes nothing.
            command = [str(YARDSTICKS / "tuned"), file, "2", str(threads)]
            yield Job("flows", group, f"tuned loop, {threads} thread{plural}", packets, command)


def exporter_jobs(group: str, packets: int, file: str) -> Iterator[Job]:
    """Flow exporters of Debian, with our time-outs where they have a choice."""
    if shutil.which("softflowd"):
        # With a control socket it would wait for orders at the end of the file.
        base = ["softflowd", "-6", "-d", "-r", file, "-c", "none"]
        base += ["-p", str(SCRATCH / "softflowd.pid")]
        yield Job("flows", group, "softflowd, 8,192 flows", packets, base)
        yield Job("flows", group, "softflowd, 2 M flows", packets, [*base, "-m", "2000000"])
    if shutil.which("nfpcapd") and shutil.which("nfdump"):
        folder = SCRATCH / f"nfdump-{group.replace(', ', '-').replace(' ', '-')}"
        folder.mkdir(parents=True, exist_ok=True)
        collect = ["nfpcapd", "-r", file, "-w", str(folder), "-e", "1800,120"]
        yield Job("flows", group, "nfpcapd, each direction for itself", packets, collect)
        join = ["nfdump", "-R", str(folder), "-B", "-q", "-n", "10", "-s", "record/bytes"]
        both = ["bash", "-c", f"{shlex.join(collect)} && {shlex.join(join)}"]
        yield Job("flows", group, "nfpcapd, then nfdump", packets, both)
    if shutil.which("argus"):
        command = ["argus", "-X", "-r", file, "-w", str(SCRATCH / "flows.argus")]
        yield Job("flows", group, "argus", packets, command)


def slow_flow_jobs(group: str, packets: int, cut: Path) -> Iterator[Job]:
    """On the beginning of the capture only, and named so."""
    what = f"of {packets:,} packets"
    if importlib.util.find_spec("nfstream"):
        command = [sys.executable, "bench/speed/nfstream_flows.py", str(cut), str(packets)]
        yield Job("flows", group, f"NFStream, {what}", packets, command, from_json)
    if shutil.which("tshark"):
        command = ["tshark", "-n", "-r", str(cut), "-q", "-z", "conv,tcp", "-z", "conv,udp"]
        yield Job("flows", group, f"tshark, conversations, {what}", packets, command)


def nprint_jobs(source: Input, is_quick: bool) -> Iterator[Job]:
    """Header bits of every packet: inside one process, and as CSV from whole programs."""
    group = f"{source.name}, snaplen 96"
    file = source.file("headers.pcap")
    command = [BENCH, "extract", "--capture", file]
    yield Job("nprint", group, "extract", source.packets, command, from_json)
    command = [WIRELENS, "nprint", "-q", "-4", "-t", "-u", "-O", "4", "-o", "/dev/null"]
    command += ["--format", "csv", "-r"]
    yield Job("nprint", group, "wirelens nprint", source.packets, [*command, file])
    if shutil.which("nprint"):
        count = min(source.packets, NPRINT_PACKETS // (10 if is_quick else 1))
        cut = str(first_packets(source.folder / "headers.pcap", count))
        command = ["nprint", "-4", "-t", "-u", "-O", "4", "-W", "/dev/null", "-P", cut]
        yield Job("nprint", group, f"nPrint, of {count:,} packets", count, command)


def from_trees(output: str) -> list[Part]:
    """Lines of JSON whose names are `MODEL, alone, PATH`: the first two are the group."""
    parts = []
    for part in from_json(output):
        model, _, rest = part.name.partition(", ")
        together, _, name = rest.partition(", ")
        if not together.startswith("read"):
            group = f"{model}, {together}"
            parts.append(Part(name, part.items, part.wall_s, part.cpu_s, part.figure, group))
    return parts


def onnx_library() -> str | None:
    """The shared library that comes with the Python package, where that is installed."""
    found = importlib.util.find_spec("onnxruntime")
    if found is None or found.origin is None:
        return None
    return next(map(str, sorted(Path(found.origin).parent.glob("capi/libonnxruntime.so*"))), None)


def tree_jobs() -> Iterator[Job]:
    """Rows down trees, alone and together, by ours and by ONNX Runtime from both languages."""
    library = onnx_library()
    for name in TREE_MODELS:
        command = [BENCH, "trees", "--model", str(TREES / f"{name}.trees.jsonl")]
        if library:
            command += ["--onnx", library]
            called = [sys.executable, "bench/speed/onnx_trees.py", name]
            yield Job("trees", name, "ONNX Runtime from Python", 0, called, from_trees)
        yield Job("trees", name, "wirelens", 0, command, from_trees)


def serve_jobs() -> Iterator[Job]:
    """New flows to verdicts, by a cascade of the shape of ServeFlow's."""
    library = onnx_library()
    # A flow through all three models, one by one, takes ONNX Runtime more than a millisecond.
    for folder, shown, packets in (
        ("portions", "half of the flows to the second model, 24 % to the third", 60_000),
        ("all", "all flows to all three models", 20_000),
    ):
        for batch, together in ((256, "in batches"), (1, "one by one")):
            command = [BENCH, "serve", "--model", str(SERVE / folder), "--batch", str(batch)]
            command += [
                "--capture",
                "bench/data/serve-flows/headers.pcap",
                "--packets",
                str(packets),
            ]
            command += ["--onnx", library] if library else []
            yield Job("serve", f"{shown}, {together}", "serve", 0, command, from_json)


def own_jobs() -> Iterator[Job]:
    """The same by cascades that `wirelens train classify` chose, on loads of real flows."""
    for name in ("many-services", "devices", "services"):
        for capture, shown in (("first", "10 packets a flow"), ("long", "100 packets a flow")):
            for batch, together in ((256, "in batches"), (1, "one by one")):
                command = [BENCH, "serve", "--model", str(OWN / name / "model")]
                command += ["--capture", str(OWN / name / f"{capture}.pcap")]
                command += ["--batch", str(batch)]
                group = f"our own cascade: {name}, at most {shown}, {together}"
                if (OWN / name).exists():
                    yield Job("own", group, "serve", 0, command, from_json)


def missing_flow_peers() -> list[str]:
    """Programs that would be measured if they were here."""
    programs = ("softflowd", "nfpcapd", "argus", "tshark")
    missing = [name for name in programs if not shutil.which(name)]
    if not importlib.util.find_spec("nfstream"):
        missing.append("NFStream")
    if not (YARDSTICKS / "tuned").exists():
        missing.append("tuned loop")
    return missing


def all_jobs(inputs: list[Input], only: set[str], is_quick: bool) -> list[Job]:
    """Every job; Figure 4 on the last input, which is the mixed one where there is one."""
    jobs = list(inside_jobs(only, inputs[-1], is_quick)) if inputs else []
    if "trees" in only:
        jobs += tree_jobs()
    if "serve" in only:
        jobs += serve_jobs()
    if "own" in only:
        jobs += own_jobs()
    if "top" in only:
        for source in inputs:
            jobs += top_jobs(source, is_quick)
    if "flows" in only:
        for source in inputs:
            jobs += flow_jobs(source, is_quick)
    if "nprint" in only:
        for source in inputs:
            jobs += nprint_jobs(source, is_quick)
    return jobs
