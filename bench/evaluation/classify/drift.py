"""How often is traffic of one place, and how often is other traffic, taken for drift?

    python bench/evaluation/classify/drift.py DATA RESULTS [--program FILE]

The statistic is that of `[classify]` in `wirelens run`: the population stability index (PSI) of
labels, and of confidences, of a window of flows against the first `REFERENCE` windows of the same
run. A limit is a floor (`fixed`), or more where the reference's own windows differ by more
(`own`), or that up to a bound (`capped`, as in the program).

- A place is one network seen at one tap: its captures follow each other in order of time. Windows
  of a place depend on each other, so false alarms are counted by place as well as by window. One
  place has four captures with some 9,500 flows each; they are also judged one by one (`capture`),
  and each against the start of another one (`later`).
- `chance`: reference and windows are flows of one place drawn at random, so that nothing changes.
- Other traffic is attacks, scans, and other places: from a window of the place a share of the
  flows is replaced by flows of it, drawn at random.

The captures are DATA/devices, DATA/latency/smarthome and DATA/attacks.
"""

import argparse
import csv
import io
import json
import math
import random
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench"))
import environment  # noqa: E402

MODELS = ("services", "categories")
SIZES = (100, 250, 500, 2000)
REFERENCE = 4
FLOORS = (0.1, 0.25, 0.5)
EXCESS = 1.5
LIMIT_MAX = 0.5
# Classes with a smaller share of the reference are one bin.
BIN_SHARE_MIN = 0.01
EDGES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
SHARES = (0.1, 0.3, 1.0)
# Attack captures with fewer flows are not drawn from.
OTHER_MIN = 100
# Captures with so many flows are judged by themselves.
LONG_MIN = 9000
DRAWS = 5
# Draws at random of each place with so many flows.
CHANCES, CHANCE_MIN = 100, 400
Row = dict[str, Any]


@dataclass(frozen=True)
class Flow:
    """What the statistic looks at."""

    label: str
    bin: int
    decided: int


def classified(program: Path, model: str, capture: Path) -> list[Flow]:
    """The flows of a capture that a model was asked about, in the order of their verdicts."""
    command = [program, "classify", "-q", "-r", capture, "--model", model, "--format", "csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [
        Flow(row["label"], sum(float(row["guess_confidence"]) >= edge for edge in EDGES),
             int(row["decided_ns"] or 0))
        for row in csv.DictReader(io.StringIO(done.stdout)) if row["cause"] != "protocol"
    ]  # fmt: skip


def index(reference: Sequence[int], seen: Sequence[int]) -> float:
    """The PSI of counts in bins; half a flow is added to each bin."""
    whole, of_seen = (sum(counts) + len(counts) / 2 for counts in (reference, seen))
    shares = [((one + 0.5) / whole, (other + 0.5) / of_seen)
              for one, other in zip(reference, seen, strict=True)]  # fmt: skip
    return sum((now - then) * math.log(now / then) for then, now in shares)


@dataclass
class Reference:
    """The first windows of a run."""

    labels: dict[str, int]
    bins: list[int]

    @staticmethod
    def of(flows: Sequence[Flow]) -> "Reference":
        counts = Counter(flow.label for flow in flows)
        kept = {label: count for label, count in counts.items()
                if count >= BIN_SHARE_MIN * len(flows)}  # fmt: skip
        bins = Counter(flow.bin for flow in flows)
        kept[""] = len(flows) - sum(kept.values())
        return Reference(kept, [bins[at] for at in range(len(EDGES) + 1)])

    def labels_psi(self, window: Sequence[Flow]) -> float:
        counts = Counter(flow.label if flow.label in self.labels else "" for flow in window)
        return index(list(self.labels.values()), [counts[label] for label in self.labels])

    def confidence_psi(self, window: Sequence[Flow]) -> float:
        bins = Counter(flow.bin for flow in window)
        return index(self.bins, [bins[at] for at in range(len(EDGES) + 1)])

    def both(self, window: Sequence[Flow]) -> tuple[float, float]:
        return self.labels_psi(window), self.confidence_psi(window)


def cut(flows: Sequence[Flow], size: int) -> list[Sequence[Flow]]:
    return [flows[at : at + size] for at in range(0, len(flows) - size + 1, size)]


def drawn(flows: Sequence[Flow], size: int, dice: random.Random) -> Row:
    """Windows of a place in which nothing changes but by chance."""
    found: Row = {}
    for _ in range(CHANCES):
        windows = cut(dice.choices(flows, k=size * (REFERENCE + 1)), size)
        row = against(windows[:REFERENCE], windows[REFERENCE:])
        for key, value in row.items():
            if key == "windows" or key.startswith("drifted"):
                found[key] = found.get(key, 0) + value
    return found


def place_of(name: str) -> str | None:
    """The place of a capture, by its name below DATA; none where it is of an attack."""
    folders = name.split("/")
    if folders[0] == "devices":
        return "/".join(folders[1:3]) if folders[1] != "madea" else "madea"
    if name.startswith("latency/smarthome/"):
        device, _, tap = folders[-1].split(".pcap")[0].split("__")[:3]
        return f"smarthome/{device} {tap}"
    return None


@dataclass
class Traffic:
    """What a model says of all captures."""

    model: str
    places: dict[str, list[Flow]]
    long: dict[str, list[Flow]]
    others: dict[str, list[Flow]]


def read_traffic(program: Path, model: str, data: Path) -> Traffic:
    folders = ("devices", "latency/smarthome", "attacks")
    files = sorted(
        path for folder in folders for path in (data / folder).rglob("*")
        if path.is_file() and ".tsv" not in path.name and "/benign/" not in str(path)
    )  # fmt: skip
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda path: classified(program, model, path), files))
    places: dict[str, list[list[Flow]]] = {}
    others, long = {}, {}
    for path, flows in zip(files, found, strict=True):
        name = str(path.relative_to(data))
        place = place_of(name)
        if len(flows) >= LONG_MIN:
            long[f"{place}/{len(long) + 1}"] = flows
        if place is not None and flows:
            places.setdefault(place, []).append(flows)
        elif len(flows) >= OTHER_MIN:
            others[name.removeprefix("attacks/")] = flows
    in_time = {
        place: [flow for flows in sorted(of_place, key=lambda flows: flows[0].decided)
                for flow in flows]
        for place, of_place in sorted(places.items())
    }  # fmt: skip
    return Traffic(model, in_time, long, others)


def card_psi(cards: dict[str, int], flows: Sequence[Flow]) -> float:
    """Against the classes in training; `unknown` is compared where it was one."""
    known = [flow for flow in flows if "unknown" in cards or flow.label != "unknown"]
    counts = Counter(flow.label for flow in known)
    return index(list(cards.values()), [counts[label] for label in cards])


def measure(traffic: Traffic, cards: dict[str, int]) -> Iterator[Row]:
    """Rows of one model."""
    dice = random.Random(1)
    for size in SIZES:
        for place, flows in traffic.places.items():
            if len(flows) >= CHANCE_MIN:
                yield {"model": traffic.model, "size": size, "place": place, "kind": "chance",
                       "share": 0.0, **drawn(flows, size, dice)}  # fmt: skip
        usable = long_enough(traffic.places, size)
        captures = long_enough(traffic.long, size)
        for place, windows in captures.items():
            for other, later in captures.items():
                rest = windows[REFERENCE:] if place == other else later
                yield {"model": traffic.model, "size": size, "place": place, "other": other,
                       "kind": "capture" if place == other else "later", "share": 0.0,
                       **against(windows[:REFERENCE], rest)}  # fmt: skip
        for place, windows in usable.items():
            known = {"model": traffic.model, "size": size, "place": place}
            head, rest = windows[:REFERENCE], windows[REFERENCE:]
            yield {**known, "kind": "card",
                   "labels": [card_psi(cards, window) for window in windows]}  # fmt: skip
            yield {**known, "kind": "same", "share": 0.0, **against(head, rest)}
            strange = traffic.others | {
                other: flows for other, flows in traffic.places.items()
                if other.split("/")[0] != place.split("/")[0] and len(flows) >= OTHER_MIN
            }  # fmt: skip
            for name, flows in strange.items():
                kind = "attack" if name in traffic.others else "place"
                for share in SHARES:
                    mixed = [mix(dice.choice(rest), flows, share, dice)
                             for _ in range(DRAWS)]  # fmt: skip
                    yield {**known, "kind": kind, "other": name, "share": share,
                           **against(head, mixed)}  # fmt: skip


def long_enough(flows: dict[str, list[Flow]], size: int) -> dict[str, list[Sequence[Flow]]]:
    """The windows of what has more than a reference."""
    of_each = {place: cut(of_place, size) for place, of_place in flows.items()}
    return {place: windows for place, windows in of_each.items() if len(windows) > REFERENCE}


def mix(
    window: Sequence[Flow], others: Sequence[Flow], share: float, dice: random.Random
) -> list[Flow]:
    """A window, a share of which is others."""
    count = round(share * len(window))
    return dice.sample(list(window), len(window) - count) + dice.choices(others, k=count)


def against(head: Sequence[Sequence[Flow]], windows: Sequence[Sequence[Flow]]) -> Row:
    """How many of the windows are drift, for each floor, with limits of the place and without."""
    reference = Reference.of([flow for window in head for flow in window])
    own_psi = [reference.both(window) for window in head]
    limits = [EXCESS * max(of_each) for of_each in zip(*own_psi, strict=True)]
    psi = [reference.both(window) for window in windows]
    found: Row = {"windows": len(windows), "labels": statistics.median(one for one, _ in psi),
                  "confidence": statistics.median(other for _, other in psi),
                  "own_labels": limits[0] / EXCESS,
                  "own_confidence": limits[1] / EXCESS}  # fmt: skip
    for floor in FLOORS:
        own = [max(floor, limit) for limit in limits]
        capped = [max(floor, min(limit, LIMIT_MAX)) for limit in limits]
        for way, bounds in (("fixed", [floor, floor]), ("own", own), ("capped", capped)):
            drifted = sum(any(map(float.__gt__, pair, bounds)) for pair in psi)
            found[f"drifted_{way}_{floor}"] = drifted
    return found


def table(rows: Sequence[Row]) -> str:
    """Shares of windows and of places, by model, size and limit."""
    lines = [
        "| model | flows a window | floor | limit | by chance | places | windows | false alarms | "
        "places with one | within a capture | other captures of the place | attacks at 10 % | 30 % | 100 % | "
        "other places at 10 % | 30 % | 100 % |",
        "|---|---:|---:|---|" + "---:|" * 13,
    ]
    for row in summed(rows):
        shares = [f"{kind}_{share}" for kind in ("attack", "place") for share in SHARES]
        cells = [row["model"], row["size"], row["floor"], row["limit"], f"{row['chance']:.3f}",
                 row["places"], row["windows"], f"{row['same']:.3f}", row["places_flagged"],
                 *("" if row[key] is None else f"{row[key]:.3f}" for key in ("capture", "later")),
                 *(f"{row[key]:.2f}" for key in shares)]  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def summed(rows: Sequence[Row]) -> Iterator[Row]:
    """A row for each model, size, floor and kind of limit. Shares are means over places, or over
    pairs of a place and other traffic.
    """
    for model in MODELS:
        for size in SIZES:
            mine = [row for row in rows if row["model"] == model and row["size"] == size]
            same = [row for row in mine if row["kind"] == "same"]
            for floor in FLOORS:
                for way in ("fixed", "own", "capped"):
                    key = f"drifted_{way}_{floor}"

                    def mean(kind: str, share: float, mine: Any = mine, key: str = key) -> Any:
                        of = [row[key] / row["windows"] for row in mine
                              if row["kind"] == kind and row["share"] == share]  # fmt: skip
                        return statistics.mean(of) if of else None

                    yield {
                        "model": model, "size": size, "floor": floor, "limit": way,
                        "chance": mean("chance", 0.0), "places": len(same),
                        "windows": sum(row["windows"] for row in same), "same": mean("same", 0.0),
                        "places_flagged": sum(row[key] > 0 for row in same),
                        "capture": mean("capture", 0.0), "later": mean("later", 0.0),
                        **{f"{kind}_{share}": mean(kind, share)
                           for kind in ("attack", "place") for share in SHARES},
                    }  # fmt: skip


def card_rows(rows: Sequence[Row]) -> Iterator[Row]:
    """Of each model and size the PSI of labels against the card: its least and median."""
    for model in MODELS:
        for size in SIZES:
            of = [statistics.median(row["labels"]) for row in rows
                  if (row["model"], row["size"], row["kind"]) == (model, size, "card")]  # fmt: skip
            if of:
                yield {"model": model, "size": size, "places": len(of), "least": min(of),
                       "median": statistics.median(of), "most": max(of)}  # fmt: skip


def write_lines(path: Path, rows: Sequence[Row]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def main() -> None:
    """Writes rows, sums, a table and the environment."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--program", type=Path, default=ROOT / "target/release/wirelens")
    asked = parser.parse_args()
    asked.results.mkdir(parents=True, exist_ok=True)
    facts = environment.facts([], 1)
    rows: list[Row] = []
    for model in MODELS:
        card = json.loads((ROOT / "models" / model / "cascade.json").read_text(encoding="utf-8"))
        traffic = read_traffic(asked.program, model, asked.data)
        rows += measure(traffic, card["training"]["flows_by_class"])
    write_lines(asked.results / "rows.jsonl", rows)
    write_lines(asked.results / "sums.jsonl", list(summed(rows)))
    write_lines(asked.results / "card.jsonl", list(card_rows(rows)))
    (asked.results / "table.md").write_text(table(rows), encoding="utf-8")
    facts["data"] = "captures of homes and laboratories, of attacks and of scans, of many origins"
    (asked.results / "environment.json").write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
