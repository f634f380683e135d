"""Marked packets of places that trained nothing, before and after calibration at the place.

    .venv/bin/python bench/evaluation/packetlog/calibrate.py OUT DATA
    .venv/bin/python bench/evaluation/packetlog/calibrate.py OUT    prints tables of its rows

DATA and the captures are those of strangers.py. `wirelens packetlog calibrate` with a budget of 2 %
reads a part of each benign place, and `wirelens packetlog record` the rest of the place, with and
without the calibration:

- captures: half of the captures, drawn 4 times
- time: the first half of the packets of every capture, but of those that editcap cannot write
- scan, flood: as captures, with a capture of an attack of another place in the middle of one

A row a part, and a row an attack capture with what is marked at the median threshold of each place.
"""

import itertools
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import kept_rows
import numpy
from places import ROOT, chosen

PROGRAM = Path(os.environ.get("WIRELENS", ROOT / "target/release/wirelens"))
BUDGET = 0.02
DRAWS = 4
SEED = "1"
# Packets of an attack that are mixed in: what fits into the place in some seconds.
MIXED_PACKETS = 20_000
Row = dict[str, object]
CLASS = re.compile(r"^packetlog: (\w+): \d+ packets of (\d+) stored", re.MULTILINE)


def reads(captures: Sequence[Path]) -> list[str | Path]:
    return list(itertools.chain.from_iterable(("-r", capture) for capture in captures))


def packets(path: Path) -> int:
    told = subprocess.run(["capinfos", "-cMTr", path], check=True, capture_output=True, text=True)
    return int(told.stdout.split("\t")[1])


def recorded(captures: Sequence[Path], folder: Path, *words: str | Path) -> tuple[int, int]:
    """Packets that a recorder marks, and all."""
    with tempfile.TemporaryDirectory(dir=folder) as log:
        ran = subprocess.run(
            [PROGRAM, "packetlog", "record", "-o", log, "--seed", SEED, *words, *reads(captures)],
            capture_output=True, text=True,
        )  # fmt: skip
    # 3: a capture that is damaged at its end is read up to there.
    if ran.returncode not in (0, 3):
        raise RuntimeError(ran.stderr)
    seen = {name: int(count) for name, count in CLASS.findall(ran.stderr)}
    return sum(count for name, count in seen.items() if name != "benign"), sum(seen.values())


def calibrate(captures: Sequence[Path], folder: Path) -> dict[str, object]:
    """What the command writes, or why it refuses."""
    out = folder / "calibration.json"
    words = [PROGRAM, "packetlog", "calibrate", "--budget", f"{BUDGET:.0%}", "-o", out, "--force",
             "--seed", SEED, "-q"]  # fmt: skip
    ran = subprocess.run([*words, *reads(captures)], capture_output=True, text=True)
    if ran.returncode not in (0, 3):
        return {"refused": ran.stderr.strip().splitlines()[-1]}
    found = json.loads(out.read_text())
    return {
        "threshold": found["threshold"]["flow"], "blocks": found["blocks"]["used"],
        "seconds": found["blocks"]["seconds"], "packets": found["packets"],
        "left_out": len(found["blocks"]["left_out"]), "bound": found["marked"]["bound"],
        "autocorrelation": found["blocks"]["autocorrelation"],
    }  # fmt: skip


def halves(path: Path, folder: Path) -> tuple[Path, Path] | None:
    """The first half of a capture's packets, and the rest; `None` of what editcap cannot write."""
    first, rest = folder / f"first-{path.name}", folder / f"rest-{path.name}"
    half = max(packets(path) // 2, 1)
    if subprocess.run(["editcap", "-r", path, first, f"1-{half}"], capture_output=True).returncode:
        return None
    subprocess.run(["editcap", path, rest, f"1-{half}"], check=True, capture_output=True)
    return first, rest


def start(path: Path) -> float:
    told = subprocess.run(["capinfos", "-aSTrm", path], check=True, capture_output=True, text=True)
    return float(told.stdout.replace(",", "\t").split()[-1])


def moved(attack: Path, into: Path, folder: Path) -> Path:
    """An attack as if it had begun ten seconds after a capture."""
    out = folder / f"mixed-{attack.name}"
    shift = start(into) + 10 - start(attack)
    subprocess.run(["editcap", "-r", "-t", f"{shift:.6f}", attack, out, f"1-{MIXED_PACKETS}"],
                   check=True, capture_output=True)  # fmt: skip
    return out


def measured(
    place: str, part: str, some: Sequence[Path], rest: Sequence[Path], folder: Path
) -> Row:
    found = calibrate(some, folder)
    marked, count = recorded(rest, folder)
    more: Row = {"rest_packets": count, "before": marked / count}
    if "threshold" in found:
        marked, count = recorded(rest, folder, "--calibration", folder / "calibration.json")
        more["after"] = marked / count
    return {"place": place, "part": part, **found, **more}


def by_captures(place: str, paths: Sequence[Path], attacks: dict[str, Path],
                folder: Path) -> Iterator[Row]:  # fmt: skip
    random = numpy.random.default_rng(int(SEED))
    if len(paths) <= 5:
        drawn = [list(some) for some in itertools.combinations(paths, len(paths) // 2)][:DRAWS]
    else:
        drawn = [[paths[at] for at in random.permutation(len(paths))[: len(paths) // 2]]
                 for _ in range(DRAWS)]  # fmt: skip
    for some in drawn:
        rest = [path for path in paths if path not in some]
        yield measured(place, "captures", some, rest, folder)
        longest = max(some, key=lambda path: path.stat().st_size)
        for name, attack in attacks.items():
            yield measured(place, name, [*some, moved(attack, longest, folder)], rest, folder)


def by_time(place: str, paths: Sequence[Path], folder: Path) -> Row:
    cut = [both for path in paths if (both := halves(path, folder))]
    return measured(place, "time", [first for first, _ in cut], [rest for _, rest in cut], folder)


def at_thresholds(rows: Sequence[Row], folder: Path) -> dict[str, Path]:
    """Of each place a calibration with the median of its thresholds."""
    made = {}
    found = json.loads((folder / "calibration.json").read_text())
    for place in dict.fromkeys(mine["place"] for mine in rows if "after" in mine):
        mine = [row for row in rows if row["place"] == place and row["part"] == "captures"]
        of = [row["threshold"] for row in mine if "after" in row]
        if of:
            middle = round(float(numpy.median(of)), 3)
            found["threshold"] |= {"flow": middle, "packet": middle}
            made[str(place)] = folder / f"{len(made)}.json"
            made[str(place)].write_text(json.dumps(found))
    return made


def measure(data: Path) -> list[Row]:
    captures = chosen(data)
    benign = [capture for capture in captures if capture["label"] == "benign"]
    others = [capture for capture in captures if capture["label"] != "benign"]
    largest = {
        name: max((Path(capture["path"]) for capture in others if capture["label"] == label),
                  key=lambda path: path.stat().st_size)
        for name, label in (("scan", "scan"), ("flood", "amplification_ddos"))
    }  # fmt: skip
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for place in dict.fromkeys(capture["source_repo"] for capture in benign):
            paths = [Path(capture["path"]) for capture in benign if capture["source_repo"] == place]
            rows += by_captures(place, paths, largest, folder)
            rows.append(by_time(place, paths, folder))
        calibrations = at_thresholds(rows, folder)
        for capture in others:
            path = [Path(capture["path"])]
            marked, count = recorded(path, folder)
            after = {place: recorded(path, folder, "--calibration", file)[0] / count
                     for place, file in calibrations.items() if count}  # fmt: skip
            if count:
                facts = {"attack": capture["label"], "file": capture["file"], "packets": count}
                rows.append({**facts, "before": marked / count, "after": after})
    return rows


def percent(values: Sequence[float]) -> str:
    if not values:
        return ""
    low, middle, high = min(values), float(numpy.median(values)), max(values)
    return f"{middle:.1%}" if len(values) == 1 else f"{middle:.1%} ({low:.1%}–{high:.1%})"


def place_table(rows: Sequence[Row]) -> list[str]:
    lines = ["| place | calibrated on | parts | of these refused | blocks | threshold "
             "| rest marked, model's threshold | rest marked, calibrated | blocks left out |",
             "|---|---|---:|---:|---:|---:|---:|---:|---:|"]  # fmt: skip
    names = {"captures": "half of the captures", "time": "first half of each capture",
             "scan": "half, and a scan", "flood": "half, and a reflection flood"}  # fmt: skip
    groups: dict[tuple[str, str], list[Row]] = {}
    for mine in rows:
        if "place" in mine:
            groups.setdefault((str(mine["place"]), str(mine["part"])), []).append(mine)
    for (place, part), group in groups.items():
        done = [mine for mine in group if "threshold" in mine]
        middle = {key: f"{numpy.median([mine[key] for mine in done]):g}" if done else ""
                  for key in ("blocks", "threshold", "left_out")}  # fmt: skip
        cells = [place, names[part], str(len(group)), str(len(group) - len(done)),
                 middle["blocks"], middle["threshold"],
                 percent([mine["before"] for mine in group]),
                 percent([mine["after"] for mine in done]), middle["left_out"]]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def attack_table(rows: Sequence[Row]) -> list[str]:
    attacks = [mine for mine in rows if "attack" in mine]
    places = list(attacks[0]["after"]) if attacks else []
    lines = [f"| family | captures | model's threshold | {' | '.join(places)} |",
             "|---|---:|---:|" + "---:|" * len(places)]  # fmt: skip
    for family in sorted({str(mine["attack"]) for mine in attacks}):
        group = [mine for mine in attacks if mine["attack"] == family]
        shares = [numpy.mean([mine["before"] for mine in group]),
                  *(numpy.mean([mine["after"][place] for mine in group])
                    for place in places)]  # fmt: skip
        cells = [family, str(len(group)), *(f"{share:.1%}" for share in shares)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def tables(rows: Sequence[Row]) -> str:
    of_attacks = ["", *attack_table(rows)] if any("attack" in mine for mine in rows) else []
    return "\n".join([*place_table(rows), *of_attacks]) + "\n"


if __name__ == "__main__":
    kept_rows.show("Calibration at places that trained nothing", tables, measure)
