"""What might find more of unseen attacks, by folds of training runs: more columns, longer windows,
drawn packets, captures of other places.

    .venv/bin/python bench/evaluation/packetlog/ideas.py OUT.jsonl CAPTURES RUNS...
    .venv/bin/python bench/evaluation/packetlog/ideas.py OUT.jsonl          prints the table

CAPTURES has `attacks`, `services` and `devices`, captures of other places with a MANIFEST.tsv;
RUNS are those of testbed/datasets/attacks.toml and services.toml. Held-out runs must not be among
them. A row a setting and rate; the threshold is the one at which so many benign packets of the
testbed's runs are marked by forests that know all attacks. OUT.jsonl grows.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy
from wirelens.learn.progress import Progress
from wirelens.packetlog import folds, rows, train, truth, unknown
from wirelens.packetlog.forest import Shape
from wirelens.packetlog.snapshots import SnapshotOptions

ALARMS = (0.03, 0.05, 0.08)
ROWS_MAX = 120_000
KEYS = ["flow", "source", "destination"]
# Attacks of other places of which each packet is one: their labels are those of whole files.
WHOLE = ("amplification_ddos", "bruteforce", "flood_other", "scan", "syn_flood")


class RowTable:
    """Rows of places, and their columns by name."""

    def __init__(self, places, benign, progress):
        self.captures = truth.captures(places, benign)
        self.progress = progress
        self.by_window = {}

    def rows(self, window="1s"):
        """Rows with all columns. In every window the same packets are drawn."""
        if window not in self.by_window:
            source = "sketch" if window == "1s" else "exact"
            options = SnapshotOptions(source=source, window=window, keys=KEYS)
            names = options.columns()
            found = rows.load(self.captures, options, names, ROWS_MAX, 1, self.progress.show)
            self.by_window[window] = found, names
        return self.by_window[window]

    def column(self, name, window="1s"):
        """A column as a row of numbers."""
        found, names = self.rows(window)
        return found.values[:, names.index(name)]

    def of(self, keys, window="1s", more=()):
        """Rows with columns of the packet and of these keys, and with more columns beside."""
        found, names = self.rows(window)
        others = tuple(f"{key}_" for key in KEYS if key not in keys)
        wanted = [at for at, name in enumerate(names)
                  if name not in train.PORTS and not name.startswith(others)]  # fmt: skip
        values = numpy.column_stack([found.values[:, wanted], *more])
        return replace(found, values=numpy.ascontiguousarray(values, dtype=numpy.float32))

    def sums(self, key, window):
        """Columns of a key alone."""
        found, names = self.rows(window)
        wanted = [at for at, name in enumerate(names) if name.startswith(f"{key}_")]
        return found.values[:, wanted]


def part(found, where):
    """Some of the rows."""
    taken = {name: getattr(found, name)[where]
             for name in ("values", "holds_flow", "codes", "capture_of", "counts")}  # fmt: skip
    return replace(found, **taken)


def joined(one, other, prefix):
    """Rows of both; attacks of the second are named with a prefix."""
    labels = [*one.labels, *(prefix + label for label in other.labels[1:])]
    codes = numpy.where(other.codes > 0, other.codes + len(one.labels) - 1, 0)
    return rows.Rows(
        labels,
        {label: one.families.get(label, label) for label in labels},
        [*one.captures, *other.captures],
        numpy.concatenate([one.values, other.values]),
        numpy.concatenate([one.holds_flow, other.holds_flow]),
        numpy.concatenate([one.codes, codes]),
        numpy.concatenate([one.capture_of, other.capture_of + len(one.captures)]),
        numpy.concatenate([one.counts, other.counts]),
    )


def settings(bed, elsewhere):
    """Each setting: its name, its rows, which of them are the testbed's, and the forest."""
    base = ["flow", "source"]
    both = bed.column("flow_packets"), bed.column("flow_packets_same_way")
    other_way = numpy.where(both[0] >= 0, both[0] - both[1], -1)
    flows = numpy.maximum(bed.column("source_flows"), 0.5)
    per_flow = numpy.where(flows > 0.5, bed.column("source_packets") / flows, -1)
    whole = bed.of(base)
    yield "as it is", whole, len(whole)
    yield "and packets of the flow the other way", bed.of(base, more=[other_way]), len(whole)
    more = bed.of(base, more=[other_way, per_flow])
    yield "and that, and a sender's packets for each flow", more, len(whole)
    yield "and sums of the receiver", bed.of(KEYS), len(whole)
    for window in ("10s", "60s"):
        longer = bed.sums("source", window)
        yield f"and sums of the sender over {window}", bed.of(base, more=[longer]), len(whole)
    yield "and drawn packets", unknown.with_drawn(whole, 1), len(whole)
    places = elsewhere.of(base)
    benign = part(places, ~places.is_anomalous)
    benign = replace(benign, labels=["benign"])
    yield "and benign captures of other places", joined(whole, benign, ""), len(whole)
    codes = [places.labels.index(label) for label in ("benign", *WHOLE)]
    attacks = part(places, numpy.isin(places.codes, codes))
    attacks = replace(attacks, codes=numpy.searchsorted(codes, attacks.codes),
                      labels=["benign", *WHOLE])  # fmt: skip
    yield "and attacks of other places", joined(whole, attacks, "other "), len(whole)


def judged(name, found, bed_count):
    """Rows of a setting, one for each rate."""
    is_bed = numpy.arange(len(found)) < bed_count
    plan = folds.plan(found, 3, 4, 1)
    crossed = folds.cross(found, plan, 1.0, Shape(), 1)
    bed = part(found, is_bed)
    for wanted in ALARMS:
        at = folds.threshold(bed, crossed.known[is_bed], wanted)
        recalls = {
            way: {label: recall
                  for label, recall in folds.recalls(found, getattr(crossed, way) > at).items()
                  if not label.startswith("other ") and label != unknown.DRAWN}
            for way in ("known", "unseen")
        }  # fmt: skip
        there = part(found, ~is_bed & ~found.is_anomalous)
        others = None
        if len(there):
            marked = (crossed.known > at)[~is_bed & ~found.is_anomalous]
            others = folds.false_alarms(there, marked)
        yield {"name": name, "asked": wanted, "threshold": at, "others_marked": others, **recalls}


def on_others(bed, elsewhere):
    """What a forest of the testbed's runs alone marks of benign packets of other places."""
    drawn, places = bed.of(["flow", "source"]), elsewhere.of(["flow", "source"])
    used = numpy.ones(len(drawn), dtype=bool)
    scores = folds.grown(drawn, used, 1.0, Shape(), 1).probabilities(places.values)[:, 1]
    return lambda at: folds.false_alarms(places, scores > at)


def table(found):
    """The rows as a table."""
    heads = [f"{what}, {wanted:.0%}" for what in ("unseen", "other places marked")
             for wanted in ALARMS]  # fmt: skip
    print(f"| trained on | {' | '.join(heads)} |")
    print("|---|" + "---:|" * 2 * len(ALARMS))
    for name in dict.fromkeys(row["name"] for row in found):
        mine = {row["asked"]: row for row in found if row["name"] == name}
        cells = [name]
        for wanted in ALARMS:
            unseen = list(mine[wanted]["unseen"].values())
            above = sum(recall >= 0.85 for recall in unseen)
            cells.append(f"{numpy.mean(unseen):.3f} ({above})")
        for wanted in ALARMS:
            others = mine[wanted]["others_marked"]
            cells.append("" if others is None else f"{others:.1%}")
        print(f"| {' | '.join(cells)} |")


def main():
    """Goes through the settings."""
    output, places = Path(sys.argv[1]), [Path(place) for place in sys.argv[2:]]
    if places:
        progress = Progress()
        done = set()
        if output.exists():
            done = {json.loads(line)["name"] for line in output.read_text().splitlines()}
        bed = RowTable(places[1:], [], progress)
        captures = places[0]
        elsewhere = RowTable(
            [captures / "attacks"], [captures / "services", captures / "devices"], progress
        )
        for name, found, bed_count in settings(bed, elsewhere):
            if name in done:
                continue
            made = list(judged(name, found, bed_count))
            if name == "as it is":
                marked = on_others(bed, elsewhere)
                made = [row | {"others_marked": marked(row["threshold"])} for row in made]
            with output.open("a") as lines:
                lines.writelines(json.dumps(row) + "\n" for row in made)
            progress.tell(f"{name}: unseen {numpy.mean(list(made[1]['unseen'].values())):.3f}")
    table([json.loads(line) for line in output.read_text().splitlines()])


main()
