"""What the forest that ships marks at places that trained nothing, by family of attacks.

    ASKED_BY=NAME PURPOSE=TEXT .venv/bin/python bench/evaluation/packetlog/strangers.py OUT DATA
    .venv/bin/python bench/evaluation/packetlog/strangers.py OUT    prints tables of its rows.jsonl

DATA has `attacks`, `latency`, `services` and `devices`, captures with a MANIFEST.tsv. Judged are
all captures whose source is not in the card's table of training data, and whose content is not in
a training capture either; places that `--sealed` set aside are among them. So each reading
is a row of `readings.tsv`, written first, as `sealed.py` says. A row a capture: packets, how many
are marked, and histograms of what each judge says of its packets:

- forest: the probability of `anomalous`
- first: how early in its flow a packet comes, which marks whatever is new
- volume: packets of its sender within the second

Areas under the ROC curve are those of packets, captures of a family counting the same; so do places
of benign captures and the captures of each. Intervals are of 1,000 draws of captures. *By capture*
is the area over captures, each scored by the mean of the forest's probability over its packets.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import kept_rows
import numpy
import sealed
from places import MODEL, chosen
from wirelens.packetlog import SnapshotOptions, judgements, snapshots

JUDGES = ("forest", "first", "volume")
BINS = {"forest": 50, "first": 24, "volume": 24}
SEED = 1
DRAWS = 1_000
Row = dict[str, object]


def levels(values: numpy.ndarray, count: int) -> list[int]:
    """How many values have each whole logarithm to base 2."""
    logs = numpy.log2(numpy.maximum(values, 1)).astype(int).clip(0, count - 1)
    return numpy.bincount(logs, minlength=count).tolist()


def judged(path: Path) -> tuple[int, dict[str, list[int]]]:
    """Packets that are marked, and the histograms."""
    marked, scores = 0, numpy.zeros(BINS["forest"], dtype=int)
    for batch in judgements(path, MODEL / "model.json", seed=SEED):
        classes, confidence = numpy.asarray(batch.classes), numpy.asarray(batch.confidence)
        of_anomalous = numpy.where(classes > 0, confidence, 1 - confidence)
        bins = (of_anomalous * BINS["forest"]).astype(int).clip(0, BINS["forest"] - 1)
        scores += numpy.bincount(bins, minlength=BINS["forest"])
        marked += int((classes > 0).sum())
    options = SnapshotOptions(window="1s", keys=["flow", "source"])
    rows = [numpy.asarray(batch.values)
            for batch in snapshots(path, options, columns=["flow_packets", "source_packets"],
                                   seed=SEED)]  # fmt: skip
    values = numpy.concatenate([*rows, numpy.zeros((0, 2), dtype=numpy.float32)])
    early = levels(numpy.where(values[:, 0] < 0, 1, values[:, 0]), BINS["first"])[::-1]
    return marked, {"forest": scores.tolist(), "first": early,
                    "volume": levels(values[:, 1], BINS["volume"])}  # fmt: skip


def measure(data: Path) -> list[Row]:
    rows = []
    captures = chosen(data)
    files = [Path(capture["path"]) for capture in captures]
    asked_by, purpose = os.environ.get("ASKED_BY", ""), os.environ.get("PURPOSE", "")
    sealed.record(MODEL / "model.json", files, asked_by, purpose)
    for capture in captures:
        marked, bins = judged(Path(capture["path"]))
        packets = sum(bins["forest"])
        if packets:
            rows.append({
                "file": f"{capture['kind']}/{capture['file']}", "source": capture["source_repo"],
                "sha1_blob": capture["sha1_blob"], "label": capture["label"], "packets": packets,
                "marked": marked, "bins": bins,
            })  # fmt: skip
    return rows


def weights(rows: Sequence[Row]) -> numpy.ndarray:
    """Captures of a place count the same, and places do."""
    counts = {row["source"]: 0 for row in rows}
    for row in rows:
        counts[row["source"]] += 1
    return numpy.array([1 / counts[row["source"]] / len(counts) for row in rows])


def mixed(rows: Sequence[Row], judge: str, weight: numpy.ndarray) -> numpy.ndarray:
    """The histogram of captures together, each of weight 1 before it is weighted."""
    shares = [numpy.array(row["bins"][judge]) / row["packets"] for row in rows]
    return (numpy.array(shares) * weight[:, None]).sum(0) / weight.sum()


def area(benign: numpy.ndarray, attack: numpy.ndarray) -> float:
    """Area under the ROC curve of two histograms; ties count half."""
    below = numpy.concatenate([[0], numpy.cumsum(benign)[:-1]])
    return float((attack * (below + benign / 2)).sum())


def areas(benign: Sequence[Row], mine: Sequence[Row], judge: str) -> tuple[float, float, float]:
    """The area, and an interval of 95 % over captures that might have been drawn."""
    even = numpy.ones(len(mine))
    plain = area(mixed(benign, judge, weights(benign)), mixed(mine, judge, even))
    random = numpy.random.default_rng(SEED)
    drawn = []
    for _ in range(DRAWS):
        some = [benign[at] for at in random.integers(0, len(benign), len(benign))]
        others = [mine[at] for at in random.integers(0, len(mine), len(mine))]
        drawn.append(area(mixed(some, judge, weights(some)), mixed(others, judge, even)))
    low, high = numpy.percentile(drawn, [2.5, 97.5])
    return plain, float(low), float(high)


def area_by_capture(benign: Sequence[Row], mine: Sequence[Row]) -> float:
    """Area under the ROC curve of captures, scored by their mean probability."""
    middles = (numpy.arange(BINS["forest"]) + 0.5) / BINS["forest"]
    of_benign, of_mine = (
        numpy.array([middles @ row["bins"]["forest"] / row["packets"] for row in some])
        for some in (benign, mine)
    )
    above = (of_mine[:, None] > of_benign) + (of_mine[:, None] == of_benign) / 2
    return float((above @ weights(benign)).mean())


def share(rows: Sequence[Row], weight: numpy.ndarray) -> float:
    """Of packets the part that is marked, captures weighted."""
    parts = numpy.array([row["marked"] / row["packets"] for row in rows])
    return float((parts * weight).sum() / weight.sum())


def benign_table(rows: Sequence[Row]) -> list[str]:
    lines = ["| place | captures | packets | packets marked | median capture "
        "| captures with more than 10 % marked |",
             "|---|---:|---:|---:|---:|---:|"]  # fmt: skip
    by_place: dict[str, list[Row]] = {}
    for row in rows:
        by_place.setdefault(str(row["source"]), []).append(row)
    for place, mine in by_place.items():
        parts = [row["marked"] / row["packets"] for row in mine]
        cells = [place, str(len(mine)), f"{sum(row['packets'] for row in mine):,}",
                 f"{sum(row['marked'] for row in mine) / sum(row['packets'] for row in mine):.1%}",
                 f"{numpy.median(parts):.1%}", f"{sum(part > 0.1 for part in parts)}"]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def attack_table(rows: Sequence[Row], benign: Sequence[Row]) -> list[str]:
    head = [
        "family",
        "captures",
        "packets",
        "marked, mean of captures",
        *(f"AUC, {judge}" for judge in JUDGES),
        "AUC by capture",
    ]
    lines = [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1)]
    for family in sorted({str(row["label"]) for row in rows}):
        mine = [row for row in rows if row["label"] == family]
        cells = [family, str(len(mine)), f"{sum(row['packets'] for row in mine):,}",
                 f"{share(mine, numpy.ones(len(mine))):.1%}"]  # fmt: skip
        for judge in JUDGES:
            plain, low, high = areas(benign, mine, judge)
            cells.append(f"{plain:.2f} ({low:.2f}–{high:.2f})" if len(mine) > 1 else f"{plain:.2f}")
        cells.append(f"{area_by_capture(benign, mine):.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def tables(rows: Sequence[Row]) -> str:
    benign = [row for row in rows if row["label"] == "benign"]
    attacks = [row for row in rows if row["label"] != "benign"]
    whole = share(benign, weights(benign))
    text = [*benign_table(benign), "", f"Of benign packets {whole:.1%} are marked, "
        "places counting the same.",
            "", *attack_table(attacks, benign)]  # fmt: skip
    return "\n".join(text) + "\n"


if __name__ == "__main__":
    kept_rows.show("At places that trained nothing", tables, measure)
