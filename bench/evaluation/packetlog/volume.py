"""Bytes of log on disk by mode, at places that trained nothing of the model.

    .venv/bin/python bench/evaluation/packetlog/volume.py OUT DATA
    .venv/bin/python bench/evaluation/packetlog/volume.py OUT    prints the tables of its rows.jsonl

DATA has `attacks`, `latency`, `services` and `devices`, captures with a MANIFEST.tsv; `places.py`
chooses. Of these, captures of at least 1,000 packets are recorded with the model that ships, each
into a log of its own, in each mode and encoding. A row a capture, mode, encoding and length of
blocks, as recorded and after `wirelens packetlog compress`: the bytes of all files of the log's
folder, account, events, indexes and padding included.

Some captures are of one network at several taps (`smarthome`), so groups give sums of bytes, not
intervals.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from places import MODEL, ROOT, chosen

sys.path.insert(0, str(ROOT / "bench"))
WIRELENS = ROOT / "target/release/wirelens"
MODES = ("default", "log-all", "log-partial", "log-sampled", "log-minimum")
ENCODINGS = ("pcapng", "compact")
# The level that `wirelens packetlog compress` has without --level.
LEVEL = 3
# What a block costs that is written before it is full, in the modes of most and fewest headers.
SHORT_BLOCK, SHORT_BLOCK_MODES = "64K", ("default", "log-minimum")
PACKET_COUNT_MIN = 1_000
# Above, lengths on the wire are not those of packets.
MEAN_LEN_MAX = 65_535
# Mean bytes of a packet on the wire, from and below.
GROUPS = (("700 B and more", 700), ("300 to 700 B", 300), ("below 300 B", 0))
Row = dict[str, object]


def sizes(folder: Path) -> dict[str, int]:
    """Bytes of the files of a log, by what they are."""
    found = {"packet_bytes": 0, "index_bytes": 0, "other_bytes": 0}
    for path in folder.iterdir():
        kind = "packet_bytes" if ".pcapng" in path.name else "other_bytes"
        kind = "index_bytes" if path.suffix in (".idx", ".keys") else kind
        found[kind] += path.stat().st_size if path.is_file() else 0
    return found | {"log_bytes": sum(found.values())}


def number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


def command(*arguments: str) -> str:
    done = subprocess.run([WIRELENS, "packetlog", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)}: {done.stderr}")
    return done.stderr


def recorded(capture: str, mode: str, encoding: str, block: str, folder: Path) -> Iterator[Row]:
    """A row of a capture as it is recorded, and one of the same log compressed."""
    shutil.rmtree(folder, ignore_errors=True)
    text = command("record", "-r", capture, "-o", str(folder), "--model", str(MODEL), "--mode",
                   mode, "--encoding", encoding, "--seed", "1", "--block-bytes", block)  # fmt: skip
    facts = {
        "mode": mode, "encoding": encoding, "block": block,
        "packets": number(r"packetlog: (\d+) seen", text),
        "wire_bytes": number(r"% of (\d+) on the wire", text),
        "marked": number(r"packetlog: anomalous: \d+ packets of (\d+) stored", text),
    }  # fmt: skip
    yield {**facts, "is_compressed": False, **sizes(folder)}
    command("compress", "--log", str(folder), "--level", str(LEVEL))
    yield {**facts, "is_compressed": True, **sizes(folder)}
    shutil.rmtree(folder)


def measure(data: Path, folder: Path) -> Iterator[Row]:
    for capture in chosen(data):
        packets, size = int(capture["packets"] or 0), int(capture["bytes"] or 0)
        if packets < PACKET_COUNT_MIN or size > MEAN_LEN_MAX * packets:
            continue
        label = {"file": f"{capture['kind']}/{capture['file']}", "label": capture["label"]}
        wanted = [(mode, "4M") for mode in MODES]
        wanted += [(mode, SHORT_BLOCK) for mode in SHORT_BLOCK_MODES]
        for mode, block in wanted:
            for encoding in ENCODINGS:
                for row in recorded(capture["path"], mode, encoding, block, folder):
                    yield {**label, **row}


def group_of(row: Row) -> str:
    mean = int(row["wire_bytes"]) / int(row["packets"])
    return next(name for name, low in GROUPS if mean >= low)


def total(rows: list[Row], key: str) -> int:
    return sum(int(row[key]) for row in rows)


def groups(rows: list[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Benign captures by mean packet, then those of attacks."""
    for traffic in ("benign", "attacks"):
        for name, _ in GROUPS:
            mine = [row for row in rows if group_of(row) == name
                    and (row["label"] == "benign") == (traffic == "benign")]  # fmt: skip
            if mine:
                yield f"{traffic}, {name}", mine


def share(rows: list[Row], mode: str, encoding: str, block: str, is_compressed: bool) -> str:
    wanted = (mode, encoding, block, is_compressed)
    of = ("mode", "encoding", "block", "is_compressed")
    mine = [row for row in rows if tuple(row[key] for key in of) == wanted]
    return f"{total(mine, 'log_bytes') / total(mine, 'wire_bytes'):.1%}"


def captures_table(rows: list[Row]) -> str:
    """What was recorded, by group."""
    lines = ["| captures of packets of | captures | packets | mean bytes | marked "
             "| account and events |", "| --- | ---: | ---: | ---: | ---: | ---: |"]  # fmt: skip
    for name, mine in groups(rows):
        first = [row for row in mine if (row["mode"], row["encoding"], row["block"],
                 row["is_compressed"]) == ("default", "pcapng", "4M", False)]  # fmt: skip
        wire, packets = total(first, "wire_bytes"), total(first, "packets")
        marked = total(first, "marked") / packets
        cells = [name, str(len(first)), f"{packets:,}", f"{wire / packets:.0f}", f"{marked:.1%}",
                 f"{total(first, 'other_bytes') / wire:.1%}"]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def modes_table(rows: list[Row]) -> str:
    """Bytes on disk as a share of those on the wire, by group, encoding and mode."""
    head = ["captures of packets of", "encoding", *MODES]
    lines = [f"| {' | '.join(head)} |", "| --- | --- |" + " ---: |" * len(MODES)]
    for name, mine in groups(rows):
        for is_compressed in (False, True):
            for encoding in ENCODINGS:
                cells = [name, f"{encoding}, compressed" if is_compressed else encoding]
                cells += [share(mine, mode, encoding, "4M", is_compressed) for mode in MODES]
                lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def blocks_table(rows: list[Row]) -> str:
    """The same for blocks that are written before they are full."""
    cases = [(mode, encoding) for mode in SHORT_BLOCK_MODES for encoding in ENCODINGS]
    head = ["captures of packets of", "blocks",
            *(f"{mode}, {encoding}" for mode, encoding in cases)]  # fmt: skip
    lines = [f"| {' | '.join(head)} |", "| --- | --- |" + " ---: |" * len(cases)]
    for name, mine in groups(rows):
        for block in ("4M", SHORT_BLOCK):
            cells = [share(mine, mode, encoding, block, False) for mode, encoding in cases]
            lines.append(f"| {' | '.join([name, block, *cells])} |")
    return "\n".join(lines)


def main() -> None:
    out = Path(sys.argv[1])
    if len(sys.argv) > 2:
        import environment

        out.mkdir(parents=True, exist_ok=True)
        facts = environment.facts([], 1)
        (out / "environment.json").write_text(json.dumps(facts, indent=2) + "\n")
        with (out / "rows.jsonl").open("w") as file:
            for row in measure(Path(sys.argv[2]), out / "log"):
                file.write(json.dumps(row) + "\n")
    rows = [json.loads(text) for text in (out / "rows.jsonl").read_text().splitlines()]
    made = f"{captures_table(rows)}\n\n{modes_table(rows)}\n\n{blocks_table(rows)}\n"
    (out / "table.md").write_text(f"# Bytes of log at places that trained nothing\n\n{made}")
    print(made, end="")


if __name__ == "__main__":
    main()
