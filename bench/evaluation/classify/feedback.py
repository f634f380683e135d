"""Is labelling the flows that `wirelens feedback` collects worth more than labelling others?

    python bench/evaluation/classify/feedback.py DATA/services RESULTS [--seeds 10] [--program FILE]

Families of captures are divided at random: half of them train a model, a quarter is where flows to
label are collected, and a quarter judges and does nothing else. The model's verdicts on the
second part are what each way of collecting sees; the true labels of what it collects are added to
the first part, and the model is trained again. Ways:

- feedback: `wirelens.feedback.choice` with the defaults of the command;
- uncertain: the flows with the least confidence, and nothing else;
- random: flows drawn at random;
- none and all: no flow of the second part, and every one of them.

Classes are the 12 of `--model categories`, the model is LightGBM on protocol, ports, and size,
direction and 24 bytes of payload of the first three packets, as `wirelens nprint` writes them.
"""

import argparse
import csv
import io
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightgbm
import numpy
from sklearn.metrics import f1_score
from wirelens.classify.labels import flow_key, match, protocol_number, read_families, read_labels
from wirelens.feedback.arguments import ALIKE, BELOW, CANDIDATES
from wirelens.feedback.choice import Candidates
from wirelens.feedback.verdicts import Verdict

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench"))
import environment  # noqa: E402

DEPTH, PAYLOAD_BYTES = 3, 24
COUNTS = (25, 50, 100, 200)
WAYS = ("feedback", "uncertain", "random")
SHARES = (0.5, 0.25)
ROUNDS = 60
PARAMETERS = {
    "objective": "multiclass", "learning_rate": 0.1, "num_leaves": 15, "min_data_in_leaf": 3,
    "feature_fraction": 0.5, "num_threads": 1, "verbosity": -1, "deterministic": True,
    "force_row_wise": True,
}  # fmt: skip
Array = Any
Row = dict[str, Any]


@dataclass
class Flows:
    """Labelled flows, and what a model reads of them."""

    values: Array
    labels: Array
    classes: list[str]
    families: Array
    captures: Array
    keys: list[dict[str, str]]


def rows_of(program: Path, capture: Path, options: Sequence[str]) -> list[dict[str, str]]:
    """The flows of a capture, as the program writes them."""
    command = [program, "nprint", "-q", "-r", capture, "--depth", str(DEPTH), "--format", "csv"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    return list(csv.DictReader(io.StringIO(done.stdout)))


def read_flows(program: Path, folder: Path) -> Flows:
    """Every labelled flow of the captures."""
    table = read_labels(folder / "flows.tsv", "class")
    families = read_families(folder / "MANIFEST.tsv")
    captures = sorted(folder / name for name in {row.file for row in table.rows} if name)
    payload = ("-t", "-p", str(PAYLOAD_BYTES), "-x", "pkt._tcp_.*")
    with ThreadPoolExecutor(2) as pool:
        of_bits = list(pool.map(lambda path: rows_of(program, path, payload), captures))
        of_sizes = list(pool.map(lambda path: rows_of(program, path, ["--sequences"]), captures))
    keys, values, files = [], [], []
    for index, (bits, sizes) in enumerate(zip(of_bits, of_sizes, strict=True)):
        for one, other in zip(bits, sizes, strict=True):
            assert one["community_id"] == other["community_id"]
            keys.append(one)
            values.append(values_of(one, other))
            files.append(index)
    matched = match(
        table,
        captures,
        [(file, key_of(one), int(one["first_ns"] or 0))
         for file, one in zip(files, keys, strict=True)],
    )  # fmt: skip
    kept = [at for at, label in enumerate(matched.labels) if label is not None]
    classes = sorted({str(matched.labels[at]) for at in kept})
    return Flows(
        numpy.array([values[at] for at in kept], dtype=numpy.float32),
        numpy.array([classes.index(str(matched.labels[at])) for at in kept]),
        classes,
        numpy.array([families.get(captures[files[at]].name, captures[files[at]].name)
                     for at in kept]),
        numpy.array([captures[files[at]].name for at in kept]),
        [keys[at] for at in kept],
    )  # fmt: skip


def key_of(one: dict[str, str]) -> Any:
    """The flow's key, as labels have it."""
    return flow_key(
        protocol_number(one["protocol"]), one["src_ip"], int(one["src_port"] or 0),
        one["dst_ip"], int(one["dst_port"] or 0),
    )  # fmt: skip


def values_of(bits: dict[str, str], sizes: dict[str, str]) -> list[float]:
    """What the model reads of a flow: −1 for bytes that it does not have."""
    found = [float(protocol_number(bits["protocol"])), float(bits["dst_port"] or 0),
             float(bits["src_port"] or 0)]  # fmt: skip
    for packet in range(DEPTH):
        found += [float(sizes[f"pkt{packet}_{kind}"]) for kind in ("size_bytes", "direction")]
        text = [bits[f"pkt{packet}_payload_bit_{bit}"] for bit in range(PAYLOAD_BYTES * 8)]
        for at in range(0, len(text), 8):
            byte = text[at : at + 8]
            found.append(-1.0 if "-1" in byte else float(int("".join(byte), 2)))
    return found


def divided(flows: Flows, seed: int) -> tuple[Array, Array, Array]:
    """Rows that train, rows among which flows are collected, and rows that judge."""
    names = sorted(set(flows.families.tolist()))
    numpy.random.default_rng(seed).shuffle(names)
    first, second = (round(share * len(names)) for share in (SHARES[0], sum(SHARES)))
    parts = (names[:first], names[first:second], names[second:])
    train, pool, test = (numpy.flatnonzero(numpy.isin(flows.families, part)) for part in parts)
    return train, pool, test


def trained(flows: Flows, rows: Array, seed: int) -> lightgbm.Booster:
    settings = {**PARAMETERS, "num_class": len(flows.classes), "seed": seed}
    data = lightgbm.Dataset(flows.values[rows], flows.labels[rows])
    return lightgbm.train(settings, data, ROUNDS)


def verdict_of(flows: Flows, row: int, scores: Array) -> Verdict:
    """A row's verdict, as `wirelens classify` would write it."""
    one, best = flows.keys[row], int(scores.argmax())
    return Verdict(
        one["community_id"], one["protocol"], one["src_ip"], int(one["src_port"] or 0),
        one["dst_ip"], int(one["dst_port"] or 0), int(one["first_ns"] or 0), flows.classes[best],
        flows.classes[best], float(scores[best]), "slow", DEPTH, "last-stage", "tried",
        str(flows.captures[row]),
    )  # fmt: skip


def collected(flows: Flows, way: str, pool: Array, scores: Array, count: int, seed: int) -> Array:
    """Rows of the pool that are labelled."""
    dice = numpy.random.default_rng(seed)
    if way == "random":
        return dice.permutation(pool)[:count]
    if way == "uncertain":
        order = numpy.lexsort((dice.random(len(pool)), scores.max(axis=1)))
        return pool[order[:count]]
    verdicts = [verdict_of(flows, row, one) for row, one in zip(pool, scores, strict=True)]
    row_of = {verdict.flow: row for verdict, row in zip(verdicts, pool, strict=True)}
    candidates = Candidates(CANDIDATES, ALIKE, seed)
    for verdict in verdicts:
        if verdict.guess_confidence < BELOW:
            candidates.add(verdict)
    return numpy.array([row_of[verdict.flow] for verdict in candidates.chosen(count)], dtype=int)


def judged(flows: Flows, train: Array, added: Array, test: Array, seed: int) -> Row:
    """What a model with the added rows is worth."""
    model = trained(flows, numpy.concatenate([train, added]), seed)
    said = model.predict(flows.values[test]).argmax(axis=1)
    truth = flows.labels[test]
    there = numpy.unique(truth)
    return {
        "added": len(added),
        "classes": len(set(flows.labels[added].tolist())),
        "captures": len(set(flows.captures[added].tolist())),
        "macro_f1": float(f1_score(truth, said, labels=there, average="macro", zero_division=0)),
        "right": float((said == truth).mean()),
        "flows": len(test),
    }


def measure(flows: Flows, seeds: int) -> Iterator[Row]:
    """All rows."""
    for seed in range(1, seeds + 1):
        train, pool, test = divided(flows, seed)
        scores = trained(flows, train, seed).predict(flows.values[pool])
        known = {"seed": seed, "train": len(train), "pool": len(pool)}
        for way, added in (("none", pool[:0]), ("all", pool)):
            yield {**known, "way": way, "count": len(added),
                   **judged(flows, train, added, test, seed)}  # fmt: skip
        for way in WAYS:
            for count in COUNTS:
                added = collected(flows, way, pool, scores, count, seed)
                said = scores[numpy.isin(pool, added)].argmax(axis=1)
                wrong = float((said != flows.labels[pool[numpy.isin(pool, added)]]).mean())
                yield {**known, "way": way, "count": count, "wrong_before": wrong,
                       **judged(flows, train, added, test, seed)}  # fmt: skip


def summary(rows: Sequence[Row]) -> str:
    """A line for each way and count: means over seeds, and the gain over random draws."""

    def of(way: str, count: int | None, key: str) -> list[float]:
        return [row[key] for row in rows
                if row["way"] == way and (count is None or row["count"] == count)]  # fmt: skip

    lines = [
        "| labelled flows | way | macro-F1 | gain over random (standard error) | right | "
        "wrong before | captures | classes |",
        "|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    for way in ("none", "all"):
        f1, right = (statistics.mean(of(way, None, key)) for key in ("macro_f1", "right"))
        count = round(statistics.mean(of(way, None, "added")))
        lines.append(f"| {count} | {way} | {f1:.3f} | | {right:.3f} | | | |")
    for count in COUNTS:
        base = of("random", count, "macro_f1")
        for way in WAYS:
            mine = of(way, count, "macro_f1")
            gains = [one - other for one, other in zip(mine, base, strict=True)]
            more = sum(gain > 0 for gain in gains)
            error = statistics.stdev(gains) / len(gains) ** 0.5
            gain = f"{statistics.mean(gains):+.3f} ± {error:.3f}, {more} of {len(gains)} above"
            right, wrong, captures, classes = (
                statistics.mean(of(way, count, key))
                for key in ("right", "wrong_before", "captures", "classes")
            )
            lines.append(
                f"| {count} | {way} | {statistics.mean(mine):.3f} | "
                f"{'' if way == 'random' else gain} | {right:.3f} | {wrong:.2f} | "
                f"{captures:.0f} | {classes:.1f} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Writes rows, a table and the environment."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--seeds", type=int, default=10, help="two or more")
    parser.add_argument("--program", type=Path, default=ROOT / "target/release/wirelens")
    asked = parser.parse_args()
    asked.results.mkdir(parents=True, exist_ok=True)
    facts = environment.facts([], asked.seeds)
    facts["versions"] |= {name: environment.python_version(name) for name in ("lightgbm",)}
    facts["data"] = "captures of many origins with labels of nDPI, 12 classes"
    rows = []
    with (asked.results / "rows.jsonl").open("w", encoding="utf-8") as out:
        for row in measure(read_flows(asked.program, asked.data), asked.seeds):
            rows.append(row)
            out.write(json.dumps(row) + "\n")
            out.flush()
    (asked.results / "table.md").write_text(summary(rows), encoding="utf-8")
    (asked.results / "environment.json").write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
