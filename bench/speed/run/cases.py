"""What is measured of `wirelens run`: applications alone, all on one pass, and other programs."""

import importlib.util
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

WIRELENS = Path("target/release/wirelens")
# The same command, built from the commit before `wirelens run`.
BEFORE = "before"
SEED = "7"
# NFStream takes 18 µs a packet; flows of fewer packets are shorter, which is to its advantage.
NFSTREAM_PACKETS = 200_000

# Single commands by application; each reads on one thread. Its output is named last.
SINGLE = {
    "top": ["top", "-n", "0"],
    "flows": ["flows"],
    "classify": ["classify", "--model", "services"],
    "packetlog": ["packetlog", "record"],
    "cca": ["cca"],
}
HAS_THREADS = ("top", "flows", "classify")
SETTINGS = {
    "top": "rows = 0",
    "flows": "",
    "classify": 'model = "services"',
    "packetlog": "",
    "cca": "",
    "unanswered": "",
}
FIVE = tuple(SINGLE)


@dataclass(frozen=True)
class Capture:
    """A capture in page cache."""

    name: str
    path: Path
    packets: int


@dataclass(frozen=True)
class Case:
    """One process, and the packets that it is given."""

    figure: str
    group: str
    name: str
    items: int
    command: list[str]
    # Folders and files that have to be gone before it starts.
    clear: tuple[Path, ...] = ()
    # Whether it prints its own time as a line of JSON.
    tells_time: bool = False


def single(capture: Capture, program: Path, name: str, scratch: Path, label: str) -> Case:
    """A command of one application."""
    output = scratch / f"{name}.{'log' if name == 'packetlog' else 'csv'}"
    command = [str(program), *SINGLE[name], "-r", str(capture.path), "-o", str(output), "-q"]
    command += ["--seed", SEED] if name != "packetlog" else []
    command += ["--threads", "1"] if name in HAS_THREADS else []
    command += ["--force"] if name != "packetlog" else []
    return Case("run", capture.name, label, capture.packets, command, (output,))


def run(capture: Capture, names: tuple[str, ...], threads: int, scratch: Path, label: str) -> Case:
    """`wirelens run` with some applications."""
    log = scratch / "run.log"
    lines = ["[input]", f'read = "{capture.path}"', "[run]", f"seed = {SEED}"]
    for name in names:
        is_log = name == "packetlog"
        lines += [f"[{name}]", f'output = "{log if is_log else scratch / f"run-{name}.csv"}"']
        lines += [] if is_log else ["force = true"]
        lines += [SETTINGS[name]]
    settings = scratch / f"{capture.name}-{len(names)}-{names[0]}.toml"
    settings.write_text("\n".join(lines) + "\n")
    command = [str(WIRELENS), "run", "-c", str(settings), "--threads", str(threads), "-q"]
    return Case("run", capture.name, label, capture.packets, command, (log,))


def others(capture: Capture, scratch: Path) -> Iterator[Case]:
    """Programs that answer one of the questions, where they are installed."""
    path = str(capture.path)
    if shutil.which("ndpiReader"):
        command = ["ndpiReader", "-q", "-i", path]
        yield Case("run", capture.name, "ndpiReader", capture.packets, command)
    if shutil.which("nfpcapd"):
        folder = scratch / "nfpcapd"
        folder.mkdir(exist_ok=True)
        command = ["nfpcapd", "-r", path, "-w" if new_nfdump() else "-l", str(folder)]
        yield Case("run", capture.name, "nfpcapd", capture.packets, command)
    if importlib.util.find_spec("nfstream"):
        command = [sys.executable, str(Path(__file__).parent / "nfstream_statistics.py")]
        command += [str(scratch / f"{capture.name}-first.pcap"), str(NFSTREAM_PACKETS)]
        label = f"NFStream with statistics, of {NFSTREAM_PACKETS:,} packets"
        yield Case("run", capture.name, label, NFSTREAM_PACKETS, command, (), True)


def new_nfdump() -> bool:
    """Since 1.7 nfpcapd names its folder with `-w`."""
    return True


def parquet(capture: Capture, program: Path, scratch: Path, prefix: str) -> Iterator[Case]:
    """Flows as a table of ten, and all of them to Parquet."""
    command = [str(program), "flows", "-r", str(capture.path), "-q", "--threads", "1"]
    output = scratch / "flows.parquet"
    for name, more in [("table", []), ("Parquet", ["-o", str(output), "--force"])]:
        yield Case(
            "parquet", capture.name, f"{prefix}flows, {name}", capture.packets, command + more
        )


def cases(
    captures: list[Capture], mix: Capture | None, before: Path | None, scratch: Path
) -> list[Case]:
    """All of them, in the order of a round."""
    found: list[Case] = []
    for capture in captures:
        for name in FIVE:
            found.append(single(capture, WIRELENS, name, scratch, name))
            if before:
                found.append(single(capture, before, name, scratch, f"{BEFORE}: {name}"))
        found.append(run(capture, FIVE, 1, scratch, "all five, 1 thread"))
        found.append(run(capture, FIVE, 2, scratch, "all five, 2 threads"))
        six = (*FIVE, "unanswered")
        found.append(run(capture, six, 1, scratch, "all five and unanswered, 1 thread"))
        found += others(capture, scratch)
    if mix:
        found += parquet(mix, WIRELENS, scratch, "")
        if before:
            found += parquet(mix, before, scratch, f"{BEFORE}: ")
    return found
