"""Captures of attacks against benign ones of other places, by judge: areas under the ROC curve.

Each capture is scored by the mean over its packets of what a judge says of them, in the bins of
`strangers.py`. Places of benign captures count the same, and so do the captures of each. Intervals
are of draws of captures, the same for all judges, so that their differences have intervals, too.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy

FOREST, FIRST, VOLUME = "forest", "first", "volume"
NETBEACON, RUNS_ALONE = "netbeacon", "netbeacon, runs alone"
JUDGES = (FOREST, NETBEACON, RUNS_ALONE, FIRST, VOLUME)
BINS = 50
SEED = 1
DRAWS = 1_000
# Families of which most captures are one attack among other traffic, and none is a flood.
QUIET = ("c2", "cred_access", "discovery", "exploit_lateral", "malware", "web_attack")
BENIGN = "benign"
Row = dict[str, object]
Drawn = tuple[numpy.ndarray, numpy.ndarray]


def ships(root: Path) -> list[Row]:
    """What `strangers.py` keeps of the forest that ships and of the two trivial baselines."""
    folder = root / "bench/results/2026-11-26-amd-epyc-2-cores-packetlog-ships/strangers"
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


def joined(forest: Sequence[Row], netbeacon: Sequence[Row]) -> list[Row]:
    """Of each capture the histograms of all judges, and what the first ones mark."""
    others = {row["sha1_blob"]: row for row in netbeacon}
    if set(others) != {row["sha1_blob"] for row in forest}:
        raise ValueError("NetBeacon's captures are others than the forest's; wanted: the same")
    found = []
    for row in forest:
        other = others[row["sha1_blob"]]
        if other["packets"] != row["packets"]:
            raise ValueError(f"{row['file']}: {other['packets']} packets, and {row['packets']}")
        bins = {**row["bins"], **{one["judge"]: one["bins"] for one in other["judged"]}}
        marked = {one["judge"]: one["marked"] for one in other["judged"]}
        found.append({**row, "bins": bins, "marked": {FOREST: row["marked"], **marked}})
    return found


def scores(rows: Sequence[Row], judge: str) -> numpy.ndarray:
    """Of each capture the mean of its packets."""
    bins = numpy.array([row["bins"][judge] for row in rows], dtype=float)
    middles = (numpy.arange(bins.shape[1]) + 0.5) / bins.shape[1]
    return bins @ middles / bins.sum(1)


def weights(places: numpy.ndarray) -> numpy.ndarray:
    """Captures of a place count the same, and places do."""
    counts = numpy.bincount(places)
    return 1 / counts[places] / (counts > 0).sum()


def places_of(rows: Sequence[Row]) -> numpy.ndarray:
    """Of each capture the number of its place."""
    return numpy.unique([str(row["source"]) for row in rows], return_inverse=True)[1]


def above(benign: Sequence[Row], mine: Sequence[Row], judge: str) -> numpy.ndarray:
    """Of each attack and benign capture whether the attack scores higher; ties count half."""
    of_benign, of_mine = scores(benign, judge), scores(mine, judge)[:, None]
    return (of_mine > of_benign) + (of_mine == of_benign) / 2


def drawn(benign: Sequence[Row], mine: Sequence[Row]) -> list[Drawn]:
    """Captures that might have been drawn."""
    random = numpy.random.default_rng(SEED)
    return [
        (random.integers(0, len(benign), len(benign)), random.integers(0, len(mine), len(mine)))
        for _ in range(DRAWS)
    ]


def area(pairs: numpy.ndarray, places: numpy.ndarray, one: Drawn | None = None) -> float:
    """Area under the ROC curve, of all captures or of those of a draw."""
    some, others = one or (numpy.arange(pairs.shape[1]), numpy.arange(pairs.shape[0]))
    return float((pairs[numpy.ix_(others, some)] @ weights(places[some])).mean())


def cell(form: str, of: Callable[[Drawn | None], float], draws: Sequence[Drawn]) -> str:
    """A figure with its interval of 95 %, where there are draws."""
    text = f"{of(None):{form}}"
    if draws:
        low, high = numpy.percentile([of(one) for one in draws], [2.5, 97.5])
        text += f" ({low:{form}} to {high:{form}})"
    return text.replace("-", "−")


def share_marked(rows: Sequence[Row], judge: str, weight: numpy.ndarray) -> float:
    """Of packets the part that is marked, captures weighted."""
    parts = [row["marked"][judge] / row["packets"] for row in rows]
    return float((numpy.array(parts) * weight).sum() / weight.sum())


def tables(forest: Sequence[Row], netbeacon: Sequence[Row]) -> str:
    rows = joined(forest, netbeacon)
    benign = [row for row in rows if row["label"] == BENIGN]
    places = places_of(benign)
    head = ["family", "captures", *JUDGES, f"{FOREST} − {NETBEACON}",
            f"marked, {FOREST}", f"marked, {NETBEACON}"]  # fmt: skip
    lines = [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1)]
    areas: dict[str, list[float]] = {judge: [] for judge in JUDGES}
    for family in sorted({str(row["label"]) for row in rows} - {BENIGN}):
        mine = [row for row in rows if row["label"] == family]
        draws = drawn(benign, mine) if len(mine) > 1 else []
        pairs = {judge: above(benign, mine, judge) for judge in JUDGES}
        cells = [family, str(len(mine))]
        for judge in JUDGES:
            found = pairs[judge]
            cells.append(cell(".2f", lambda one, found=found: area(found, places, one), draws))
            if family in QUIET:
                areas[judge].append(area(found, places))
        change = pairs[FOREST] - pairs[NETBEACON]
        cells.append(cell("+.2f", lambda one, change=change: area(change, places, one), draws))
        for judge in (FOREST, NETBEACON):
            cells.append(f"{share_marked(mine, judge, numpy.ones(len(mine))):.1%}")
        lines.append(f"| {' | '.join(cells)} |")
    means = {judge: float(numpy.mean(found)) for judge, found in areas.items()}
    cells = ["mean of the six quiet families", "", *(f"{means[judge]:.2f}" for judge in JUDGES),
             cell("+.2f", lambda _: means[FOREST] - means[NETBEACON], []), "", ""]  # fmt: skip
    lines.append(f"| {' | '.join(cells)} |")
    of_benign = {
        judge: f"{share_marked(benign, judge, weights(places)):.1%}"
        for judge in (FOREST, NETBEACON, RUNS_ALONE)
    }
    said = ", ".join(f"{judge} {share}" for judge, share in of_benign.items())
    lines += ["", f"Of benign packets are marked, places counting the same: {said}."]
    return "\n".join(lines) + "\n"
