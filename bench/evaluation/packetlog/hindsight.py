"""Attack packets stored in full, by hindsight's time, memory and reach.

    .venv/bin/python bench/evaluation/packetlog/hindsight.py OUT MODEL RUNS
    .venv/bin/python bench/evaluation/packetlog/hindsight.py OUT    prints tables of its rows

MODEL is a model's name or folder, RUNS a data set of the testbed's attacks. `wirelens packetlog
record` records the capture of each run, once a setting, on the clock of its packets, in the mode
`default`; `wirelens packetlog query` reads the log back, and each packet gets its label from the
run's `packets.tsv.gz` by its time. The testbed's captures have the first bytes of each frame:
zeros make it as long as it was on the wire, so that memory and bytes are those of whole frames.

A row a run and setting: of each attack and of benign packets how many there are, how many of them
are longer than their headers, and what the log has of both. Needs `editcap` of Wireshark.
"""

import csv
import gzip
import os
import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import kept_rows
import numpy
from kept_rows import Row
from places import ROOT

PROGRAM = Path(os.environ.get("WIRELENS", ROOT / "target/release/wirelens"))
SECONDS = (0.0, 0.5, 1.0, 2.0, 5.0)
AMPLE = 1024
"""MiB that no run fills."""
MEMORIES_MIB = (1, 4, 16, 64, 256)
LONGEST_S = 60.0
"""So that memory limits the time, not the setting."""
MODEL_SEED = "1"
WANTED = 0.85
# All classes as benign ones are stored by `default`: of a packet that is no longer than this,
# nothing can be cut.
HEADERS = '[modes.headers]\npurpose = "headers"\nbenign = "header"\nanomalous = "header"\n'
COUNTS = ("packets", "full", "long", "long_full", "bytes", "kept_bytes")


@dataclass(frozen=True)
class Setting:
    """What is asked of the recorder; no hindsight at 0 s."""

    seconds: float
    mib: int = AMPLE
    reach: str = "flow"

    def words(self) -> list[str]:
        if not self.seconds:
            return []
        return ["--hindsight", f"{self.seconds:g}s", "--hindsight-bytes", f"{self.mib}M",
                "--hindsight-reach", self.reach]  # fmt: skip


SETTINGS = (
    Setting(0.0),
    *(Setting(seconds, reach=reach) for reach in ("flow", "host") for seconds in SECONDS[1:]),
    *(Setting(LONGEST_S, mib) for mib in MEMORIES_MIB),
)


@dataclass(frozen=True)
class Packets:
    """Packets in the order of their time, and of their length where that is the same."""

    time_ns: numpy.ndarray
    wire_len: numpy.ndarray
    kept_len: numpy.ndarray
    order: numpy.ndarray
    """Places in the file."""


PCAP_FRAME, PCAPNG_FRAME, PCAPNG_BLOCK = (struct.Struct(f"<{fields}") for fields in
                                          ("IIII", "IIIII", "II"))  # fmt: skip
ENHANCED_PACKET = 6


def of_pcap(content: bytes) -> Iterable[tuple[int, int, int]]:
    """Time, length on the wire and stored length of the packets of a nanosecond pcap."""
    at = 24
    while at < len(content):
        seconds, ns, kept_len, wire_len = PCAP_FRAME.unpack_from(content, at)
        yield seconds * 1_000_000_000 + ns, wire_len, kept_len
        at += PCAP_FRAME.size + kept_len


def of_pcapng(content: bytes) -> Iterable[tuple[int, int, int]]:
    """The same of a pcapng with stamps in nanoseconds, as the packet log writes it."""
    at = 0
    while at < len(content):
        kind, size = PCAPNG_BLOCK.unpack_from(content, at)
        if kind == ENHANCED_PACKET:
            _, high, low, kept_len, wire_len = PCAPNG_FRAME.unpack_from(content, at + 8)
            yield high << 32 | low, wire_len, kept_len
        at += size


def packets_of(found: Iterable[tuple[int, int, int]]) -> Packets:
    table = numpy.array(list(found), dtype=numpy.int64).reshape(-1, 3)
    order = numpy.lexsort((table[:, 1], table[:, 0]))
    time_ns, wire_len, kept_len = table[order].T
    return Packets(time_ns, wire_len, kept_len, order)


def filled(capture: Path, folder: Path) -> Path:
    """The capture with frames as long as they were on the wire."""
    cut, out = folder / "cut.pcap", folder / "filled.pcap"
    command = ["editcap", "-F", "nsecpcap", capture, cut]
    subprocess.run(command, check=True, capture_output=True)
    content, at = cut.read_bytes(), 24
    with out.open("wb") as file:
        file.write(content[:16] + struct.pack("<I", 262_144) + content[20:24])
        while at < len(content):
            seconds, ns, kept_len, wire_len = PCAP_FRAME.unpack_from(content, at)
            at += PCAP_FRAME.size
            file.write(PCAP_FRAME.pack(seconds, ns, wire_len, wire_len))
            file.write(content[at : at + kept_len].ljust(wire_len, b"\0"))
            at += kept_len
    cut.unlink()
    return out


def recorded(capture: Path, folder: Path, *words: str | Path) -> tuple[Packets, str]:
    """What a log has of a capture, and what the recorder said."""
    out = folder / "found.pcapng"
    with tempfile.TemporaryDirectory(dir=folder) as log:
        # No limit of the log's own, or a run that is damaged, would pass for a property of
        # hindsight: each packet has to be there.
        record = [PROGRAM, "packetlog", "record", "-r", capture, "-o", log, "--seed", MODEL_SEED]
        ran = subprocess.run([*record, *words], capture_output=True, text=True)
        if ran.returncode:
            raise RuntimeError(ran.stderr)
        query = [PROGRAM, "packetlog", "query", "--log", log, "-w", out, "--force"]
        subprocess.run(query, check=True, capture_output=True)
    packets = packets_of(of_pcapng(out.read_bytes()))
    out.unlink()
    return packets, ran.stderr


def labels(run: Path) -> list[str]:
    """Of each packet of the capture, in its order."""
    with gzip.open(run / "packets.tsv.gz", "rt", newline="") as lines:
        return [row["label"] for row in csv.DictReader(lines, delimiter="\t")]


def by_label(
    truth: Packets, names: Sequence[str], long: numpy.ndarray, kept: Packets
) -> dict[str, dict[str, int]]:
    """Sums of each label. That each packet is there is asserted."""
    for one, other in ((truth.time_ns, kept.time_ns), (truth.wire_len, kept.wire_len)):
        if not numpy.array_equal(one, other):
            raise ValueError("the log has other packets than the capture")
    sorted_names = numpy.array(names)[truth.order]
    full = kept.kept_len == kept.wire_len
    found = {}
    for name in sorted(set(names)):
        mine = sorted_names == name
        sums = (mine, mine & full, mine & long, mine & long & full)
        counts = [int(numpy.count_nonzero(some)) for some in sums]
        counts += [int(lens[mine].sum()) for lens in (kept.wire_len, kept.kept_len)]
        found[name] = dict(zip(COUNTS, counts, strict=True))
    return found


def number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


def of_run(run: Path, model: str | Path, folder: Path) -> list[Row]:
    capture = filled(run / "lan.pcapng", folder)
    truth, names = packets_of(of_pcap(capture.read_bytes())), labels(run)
    settings = folder / "headers.toml"
    settings.write_text(HEADERS)
    cut, _ = recorded(capture, folder, "--model", model, "--settings", settings,
                      "--mode", "headers")  # fmt: skip
    long = cut.kept_len < cut.wire_len
    rows = []
    for setting in SETTINGS:
        kept, said = recorded(capture, folder, "--model", model, *setting.words())
        rows.append({
            "run": run.name, "seconds": setting.seconds, "mib": setting.mib,
            "reach": setting.reach,
            "early": number(r"packetlog: (\d+) packets waited less", said),
            "marked": number(r"packetlog: anomalous: \d+ packets of (\d+) stored", said),
            "labels": by_label(truth, names, long, kept),
        })  # fmt: skip
    return rows


def measure(model: Path, runs: Path) -> list[Row]:
    # A name of a model that ships is no path.
    asked = model if model.exists() else model.name
    rows: list[Row] = []
    for run in sorted(runs.glob("[0-9]*/run.json")):
        with tempfile.TemporaryDirectory() as folder:
            rows += of_run(run.parent, asked, Path(folder))
    return rows


def chosen(rows: Iterable[Row], setting: Setting) -> list[Row]:
    wanted = (setting.seconds, setting.mib, setting.reach)
    return [row for row in rows if (row["seconds"], row["mib"], row["reach"]) == wanted]


def sums(rows: Iterable[Row]) -> dict[str, dict[str, int]]:
    """By label, over runs."""
    total: dict[str, dict[str, int]] = {}
    for row in rows:
        for label, counts in row["labels"].items():
            mine = total.setdefault(label, dict.fromkeys(COUNTS, 0))
            for name in COUNTS:
                mine[name] += counts[name]
    return total


def share(counts: dict[str, int], part: str, whole: str) -> float:
    """The fraction of one count in another; not a number where there is none."""
    return counts[part] / counts[whole] if counts[whole] else float("nan")


@dataclass(frozen=True)
class Outcome:
    """What one setting comes to over all runs. Shares of attacks are means over attacks."""

    attacks_full: float
    attacks_long_full: float
    reached: int
    attacks_with_long: int
    attack_bytes: float
    benign_full: float
    benign_long_full: float
    all_bytes: float
    early: float


def outcome(rows: Sequence[Row], setting: Setting) -> Outcome:
    mine = chosen(rows, setting)
    total = sums(mine)
    benign = total.pop("benign")
    with_long = [counts for counts in total.values() if counts["long"]]
    long_full = [share(counts, "long_full", "long") for counts in with_long]
    everything = [*total.values(), benign]
    of_all = {name: sum(counts[name] for counts in everything) for name in COUNTS}
    return Outcome(
        float(numpy.mean([share(counts, "full", "packets") for counts in total.values()])),
        float(numpy.mean(long_full)),
        sum(value >= WANTED for value in long_full),
        len(with_long),
        float(numpy.mean([share(counts, "kept_bytes", "bytes") for counts in total.values()])),
        share(benign, "full", "packets"),
        share(benign, "long_full", "long"),
        share(of_all, "kept_bytes", "bytes"),
        sum(row["early"] for row in mine) / of_all["packets"],
    )


HEAD = (
    "| hindsight | attack packets in full | with payload | attacks ≥ 0.85 | attack bytes stored "
    "| benign packets in full | with payload | all bytes stored |"
)


def line(first: str, found: Outcome) -> str:
    cells = [
        first, f"{found.attacks_full:.3f}", f"{found.attacks_long_full:.3f}",
        f"{found.reached} of {found.attacks_with_long}", f"{found.attack_bytes:.3f}",
        f"{found.benign_full:.1%}", f"{found.benign_long_full:.1%}", f"{found.all_bytes:.1%}",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def by_time(rows: Sequence[Row]) -> str:
    lines = [HEAD, "|---|" + "---:|" * 7, line("none", outcome(rows, Setting(0.0)))]
    for reach, name in (("flow", "flow"), ("host", "flow and host")):
        for seconds in SECONDS[1:]:
            found = outcome(rows, Setting(seconds, reach=reach))
            lines.append(line(f"{seconds:g} s, {name}", found))
    return "\n".join(lines)


def by_memory(rows: Sequence[Row]) -> str:
    head = HEAD.replace("hindsight |", "memory | packets that waited less |", 1)
    lines = [head, "|---|" + "---:|" * 8, line("none | ", outcome(rows, Setting(0.0)))]
    for mib in MEMORIES_MIB:
        found = outcome(rows, Setting(LONGEST_S, mib))
        lines.append(line(f"{mib} MiB | {found.early:.1%}", found))
    return "\n".join(lines)


def by_attack(rows: Sequence[Row]) -> str:
    times = [sums(chosen(rows, Setting(seconds))) for seconds in SECONDS]
    host = sums(chosen(rows, Setting(SECONDS[-1], reach="host")))
    names = [f"{seconds:g} s" if seconds else "none" for seconds in SECONDS]
    lines = [
        f"| attack | packets | with payload | {' | '.join(names)} | {names[-1]}, host "
        f"| bytes, none | bytes, {names[-1]} |",
        "|---|" + "---:|" * (len(names) + 5),
    ]
    for attack in sorted(times[0]):
        packets = times[0][attack]
        cells = [attack, f"{packets['packets']:,}", f"{share(packets, 'long', 'packets'):.0%}"]
        for total in (*times, host):
            value = share(total[attack], "long_full", "long")
            cells.append("" if numpy.isnan(value) else f"{value:.3f}")
        for total in (times[0], times[-1]):
            cells.append(f"{share(total[attack], 'kept_bytes', 'bytes'):.3f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def tables(rows: Sequence[Row]) -> str:
    return (
        f"## By time\n\n{by_time(rows)}\n\n## By memory\n\n{by_memory(rows)}\n\n"
        f"## By attack\n\n{by_attack(rows)}\n"
    )


def main() -> None:
    if len(sys.argv) not in (2, 4):
        raise SystemExit((__doc__ or "").partition("\n\nMODEL")[0])
    kept_rows.show("Attack packets stored in full by hindsight", tables, measure)


if __name__ == "__main__":
    main()
