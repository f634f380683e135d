"""What first-packet classification measures, and what a memory of hosts adds to it:

    python bench/evaluation/classify/memory.py DATA/devices/sentinel ROWS.jsonl

Devices of IoT Sentinel, features without identity, LightGBM on the first packet and on ten. Splits:

- flow: folds of flows, so that flows of one capture are on both sides (leaky)
- capture: folds of captures, none on both sides
- unit: of the types that have two units, one trains and the other one is judged

Memory is causal: a flow's score is log p + what is remembered of its source address, of which
half is forgotten in each HALF_LIFE. It starts empty in each capture. Of two kinds,

- sums: WEIGHT · (log p − log prior) of flows before, with p no lower than FLOOR, added up and held
  to CAP between the likeliest class and any other;
- shares: log of the share of each class among verdicts before, PRIOR verdicts being even.

`verdicts` says what is remembered: of each flow the first packet's answer, or ten packets' from
when these have come. `behind` 0: each source address has a memory of its own. Else so many
captures that were held out together start at one time, and all their hosts share one address.
Thresholds are of the other folds: the least with which RIGHT of the names are right.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lightgbm
import numpy
from devices import DEPTH, FOLDS, NUMBERS, PAIRS, PARAMETERS, RARE, RECIPES, ROUNDS, sifted
from sklearn.metrics import f1_score
from wirelens.classify.dataset import Source, captures_of, load
from wirelens.classify.labels import FlowLabel, LabelTable, read_table
from wirelens.classify.recipe import DROPPED, Recipe, packet_of

WEIGHT, CAP, HALF_LIFE, PRIOR, FLOOR, RIGHT = 0.5, 4.6, 600.0, 1.0, 0.01, 0.95
SEEDS = (1, 2, 3)
BEHIND = (1, 2, 4, 8)
Array = Any
Row = dict[str, Any]


class Flows:
    """Flows, when they began, who sent first, and when ten packets were there."""

    def __init__(self, folder: Path) -> None:
        captures = captures_of([folder])
        dropped = (*DROPPED, "payload_bit_*", "tcp_sprt_*", "tcp_dprt_*")
        recipe = Recipe(("ipv4", "tcp"), 64, (*NUMBERS, "byte:0-63@0-4"), dropped, "innermost",
                        RARE, "masked")  # fmt: skip
        rows = [FlowLabel(at, str(path), None, path.name) for at, path in enumerate(captures)]
        source = Source(captures, LabelTable("captures", rows), [str(path) for path in captures])
        data = load(source, recipe, DEPTH, flows_min=1)
        bits = [name for name in data.sample.varying_bits() if not recipe.is_dropped(name)]
        self.columns = bits + recipe.number_names(DEPTH)
        self.values = data.sample.values(self.columns)
        self.captures = numpy.array([str(captures[at]) for at in data.capture_of])
        self.folders = numpy.array([Path(path).parent.name for path in self.captures])
        named = {row["label"]: row["class"] for row in read_table(RECIPES / "devices-classes.tsv")}
        self.classes = sorted({named.get(name, name) for name in self.folders})
        self.labels = numpy.array([self.classes.index(named.get(n, n)) for n in self.folders])
        self.first_s = numpy.array(data.first_ns) / 1e9
        self.ready_s = self.first_s + data.sample.waiting_us(DEPTH) / 1e6
        self.sources = numpy.array(_sources(data))
        start = {name: self.first_s[self.captures == name].min() for name in set(self.captures)}
        self.since_s = self.first_s - numpy.array([start[name] for name in self.captures])
        self.known_s = self.since_s + (self.ready_s - self.first_s)

    def __len__(self) -> int:
        return len(self.labels)


def _sources(data: Any) -> list[str]:
    """Who sent each flow's first packet."""
    sample = data.sample
    return [sample._read.keys["src_ip"][row] for row in sample._rows]


def train(flows: Flows, rows: Array, depth: int, seed: int, asked: Array) -> Array:
    """Probabilities by LightGBM on the first packets."""
    chosen = [at for at, name in enumerate(flows.columns) if packet_of(name) < depth]
    values = flows.values[numpy.ix_(rows, chosen)]
    kept = sifted(values)
    settings = {**PARAMETERS, "num_class": len(flows.classes), "seed": seed}
    data = lightgbm.Dataset(values[:, kept], flows.labels[rows])
    model = lightgbm.train(settings, data, ROUNDS)
    columns = numpy.array(chosen)[kept]
    return numpy.asarray(model.predict(flows.values[numpy.ix_(asked, columns)], num_threads=1))


def held_out(flows: Flows, fold_of: Array, depth: int, seed: int) -> Array:
    """Probabilities of each flow by a model of the other folds."""
    scores = numpy.zeros((len(flows), len(flows.classes)))
    for fold in range(FOLDS):
        asked = numpy.flatnonzero(fold_of == fold)
        scores[asked] = train(flows, numpy.flatnonzero(fold_of != fold), depth, seed, asked)
    return scores


def capture_folds(flows: Flows, seed: int) -> Array:
    """Folds of captures, of each folder as equal as can be."""
    dice, found = numpy.random.default_rng(seed), dict[str, int]()
    for folder in sorted(set(flows.folders)):
        captures = sorted(set(flows.captures[flows.folders == folder]))
        dice.shuffle(captures)
        found |= {one: (at + seed) % FOLDS for at, one in enumerate(captures)}
    return numpy.array([found[one] for one in flows.captures])


def port_table(flows: Flows, fold_of: Array) -> Array:
    """The likeliest class of each protocol and port in the other folds, else of all."""
    ports = flows.values[:, [flows.columns.index(n) for n in ("protocol", "server_port")]]
    said = numpy.zeros(len(flows), dtype=int)
    for fold in range(FOLDS):
        counts: dict[tuple[float, ...], Array] = {}
        rest = numpy.flatnonzero(fold_of != fold)
        for row in rest:
            key = tuple(ports[row])
            counts.setdefault(key, numpy.zeros(len(flows.classes)))[flows.labels[row]] += 1
        most = int(numpy.bincount(flows.labels[rest]).argmax())
        for row in numpy.flatnonzero(fold_of == fold):
            found = counts.get(tuple(ports[row]))
            said[row] = most if found is None else int(found.argmax())
    return said


def hosts_of(flows: Flows, fold_of: Array, behind: int, seed: int) -> Array:
    """Which memory each flow has: of its source (0), or of all that some captures have."""
    if not behind:
        return numpy.array([f"{c} {s}" for c, s in zip(flows.captures, flows.sources, strict=True)])
    dice, group = numpy.random.default_rng(seed), dict[str, str]()
    for fold in range(FOLDS):
        captures = sorted(set(flows.captures[fold_of == fold]))
        dice.shuffle(captures)
        group |= {one: f"{fold} {at // behind}" for at, one in enumerate(captures)}
    return numpy.array([group[one] for one in flows.captures])


@dataclass(frozen=True)
class Rule:
    """How a memory works: `shares` or `sums`, and its numbers."""

    kind: str
    weight: float = WEIGHT
    cap: float = CAP
    half_life: float = HALF_LIFE
    prior: float = PRIOR


class Memory:
    """What is remembered of one host."""

    def __init__(self, rule: Rule, classes: int) -> None:
        self.rule, self.kept, self.at = rule, numpy.zeros(classes), 0.0

    def now(self, at: float) -> Array:
        """What it adds to a flow's log p at a time."""
        self.kept = self.kept * 0.5 ** (max(at - self.at, 0.0) / self.rule.half_life)
        self.at = max(at, self.at)
        if self.rule.kind == "shares":
            count, prior = len(self.kept), self.rule.prior
            return numpy.log((self.kept + prior / count) / (self.kept.sum() + prior) * count)
        return self._held(self.kept)

    def _held(self, sums: Array) -> Array:
        return numpy.maximum(sums - sums.max(), -self.rule.cap)

    def add(self, scores: Array) -> None:
        """Takes a flow's verdict in."""
        if self.rule.kind == "shares":
            self.kept = self.kept + scores
        else:
            floor, count = FLOOR, len(scores)
            told = numpy.log(scores * (1 - count * floor) + floor) - numpy.log(1 / count)
            self.kept = self._held(self.kept + self.rule.weight * told)


def remembered(flows: Flows, hosts: Array, scores: Array, verdicts: Array, known_s: Array,
               rule: Rule) -> tuple[Array, dict[str, Array]]:  # fmt: skip
    """Probabilities with memory, and what is remembered of each host in the end.

    `verdicts` are what is remembered of each flow, from `known_s` on.
    """
    told = numpy.log(scores * (1 - scores.shape[1] * FLOOR) + FLOOR)
    events = sorted([(flows.since_s[row], 1, row) for row in range(len(flows))]
                    + [(known_s[row], 2, row) for row in range(len(flows))])  # fmt: skip
    memories: dict[str, Memory] = {}
    found = numpy.zeros_like(scores)
    for at, what, row in events:
        memory = memories.setdefault(hosts[row], Memory(rule, scores.shape[1]))
        added = memory.now(at)
        if what == 1:
            power = numpy.exp(told[row] + added - (told[row] + added).max())
            found[row] = power / power.sum()
        else:
            memory.add(verdicts[row])
    return found, {host: memory.kept for host, memory in memories.items()}


RULES = (Rule("sums"), Rule("shares"))
CHANGED: tuple[tuple[Rule, dict[str, float]], ...] = (
    (RULES[0], {"weight": 0.25}), (RULES[0], {"cap": 2.3}), (RULES[1], {"prior": 4.0}),
    (RULES[1], {"prior": 0.25}), (RULES[1], {"half_life": 60.0}),
    (RULES[1], {"half_life": 3600.0}),
)  # fmt: skip


def decided(flows: Flows, fold_of: Array, scores: Array) -> tuple[float, float]:
    """Share of flows with a name immediately, and of these right; thresholds are of other folds."""
    sure, is_right = scores.max(axis=1), scores.argmax(axis=1) == flows.labels
    named = numpy.zeros(len(flows), dtype=bool)
    for fold in range(FOLDS):
        others = fold_of != fold
        steps = numpy.linspace(0.2, 0.999, 400)
        good = [t for t in steps if (sure[others] >= t).any()
                and is_right[others & (sure >= t)].mean() >= RIGHT]  # fmt: skip
        named |= (fold_of == fold) & (sure >= (good[0] if good else 2.0))
    return float(named.mean()), float(is_right[named].mean()) if named.any() else 0.0


def figures(flows: Flows, fold_of: Array, scores: Array) -> Row:
    said = scores.argmax(axis=1)
    share, right_of = decided(flows, fold_of, scores)
    return {"flows": len(flows), "right": float((said == flows.labels).mean()),
            "macro_f1": float(f1_score(flows.labels, said, average="macro")),
            "decided": share, "right_of_decided": right_of}  # fmt: skip


def of_hosts(flows: Flows, hosts: Array, ends: dict[str, Array]) -> Row:
    """How many hosts are named right in the end; of those with three flows and one class."""
    right, count = 0, 0
    for host, sums in ends.items():
        labels = flows.labels[hosts == host]
        if len(labels) >= 3 and len(set(labels.tolist())) == 1:
            count += 1
            right += int(sums.argmax() == labels[0])
    return {"hosts": count, "hosts_right": right / count if count else None}


def measure(folder: Path) -> Iterator[Row]:
    """All rows."""
    flows = Flows(folder)
    most = int(numpy.bincount(flows.labels).argmax())
    yield {"split": "capture", "system": "majority class", "seed": 1, "flows": len(flows),
           "right": float((flows.labels == most).mean()),
           "macro_f1": float(f1_score(flows.labels, numpy.full(len(flows), most),
                                      average="macro"))}  # fmt: skip
    for seed in SEEDS:
        dice = numpy.random.default_rng(seed)
        leaky = dice.integers(0, FOLDS, len(flows))
        yield {"split": "flow", "system": "first packet", "seed": seed,
               **figures(flows, leaky, held_out(flows, leaky, 1, seed))}  # fmt: skip
        fold_of = capture_folds(flows, seed)
        said = port_table(flows, fold_of)
        yield {"split": "capture", "system": "port table", "seed": seed, "flows": len(flows),
               "right": float((said == flows.labels).mean()),
               "macro_f1": float(f1_score(flows.labels, said, average="macro"))}  # fmt: skip
        one, ten = (held_out(flows, fold_of, depth, seed) for depth in (1, DEPTH))
        for system, scores in (("first packet", one), ("ten packets", ten)):
            yield {"split": "capture", "system": system, "seed": seed,
                   **figures(flows, fold_of, scores)}  # fmt: skip
        yield from _units(flows, seed)
        yield from _with_memory(flows, fold_of, one, ten, seed)


def _units(flows: Flows, seed: int) -> Iterator[Row]:
    for way in (0, 1):
        units = [pair[way] for pair in PAIRS]
        asked = numpy.flatnonzero(numpy.isin(flows.folders, units))
        rest = numpy.flatnonzero(~numpy.isin(flows.folders, units))
        said = train(flows, rest, 1, seed, asked).argmax(axis=1)
        for unit in units:
            mine = flows.folders[asked] == unit
            yield {"split": "unit", "system": "first packet", "seed": seed, "unit": unit,
                   "flows": int(mine.sum()),
                   "right": float((said == flows.labels[asked])[mine].mean())}  # fmt: skip


def _with_memory(flows: Flows, fold_of: Array, one: Array, ten: Array,
                 seed: int) -> Iterator[Row]:  # fmt: skip
    kinds = {"first packet": (one, flows.since_s), "ten packets": (ten, flows.known_s)}
    plans = [(rule, verdicts, behind, "") for rule in RULES for verdicts in kinds
             for behind in (0, *BEHIND)]  # fmt: skip
    plans += [(replace(rule, **change), "first packet", behind, json.dumps(change))
              for rule, change in CHANGED for behind in (0, 4)]  # fmt: skip
    for rule, verdicts, behind, changed in plans:
        hosts = hosts_of(flows, fold_of, behind, seed)
        found, ends = remembered(flows, hosts, one, *kinds[verdicts], rule)
        told = of_hosts(flows, hosts, ends) if not behind else {}
        yield {"split": "capture", "system": "first packet and memory", "memory": rule.kind,
               "verdicts": verdicts, "behind": behind, "changed": changed, "seed": seed,
               **figures(flows, fold_of, found), **told}  # fmt: skip


def main() -> None:
    """Writes the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("captures", type=Path)
    parser.add_argument("rows", type=Path)
    asked = parser.parse_args()
    with asked.rows.open("w", encoding="utf-8") as out:
        for row in measure(asked.captures):
            out.write(json.dumps(row) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
