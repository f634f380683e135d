"""Training, validation and test parts of the rows of onetap_traces.py, and scores of a model.

A part is drawn by run, so that all flows and places of a run are in the same part. The split "grid"
holds out bands of rates and round-trip times instead: paths between those seen in training.
"""

import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "models"))

import numpy as np
from onetap_traces import CONTROLS, INPUTS, PLACES, read

SPLITS = ("run", "grid")
ROWS_MIN = 250
TEST, VALIDATION = 0.2, 0.28
"""Of the runs, those with a draw below; see `part_of`."""
BANDS_BPS = ((6e6, 9e6), (4e7, 6e7))
BAND_S = (0.03, 0.045)
COLUMN = {name: at for at, name in enumerate(INPUTS)}


@dataclass(frozen=True)
class Sequence:
    """Rows of a flow at a place; `parts` has its part of each split."""

    run: int
    flow: int
    place: str
    control: int
    row_s: float
    parts: dict[str, str]
    values: Any


def part_of(split: str, run: int, rate_bps: float, rtt_s: float) -> str:
    """One of "training", "validation" and "test"."""
    drawn = random.Random(f"s{run}").random()
    if split == "run":
        tested = drawn < TEST
    else:
        tested = BAND_S[0] < rtt_s < BAND_S[1] or any(
            low < rate_bps < high for low, high in BANDS_BPS
        )
    if tested:
        return "test"
    return "validation" if TEST <= drawn < VALIDATION else "training"


def sequences(folder: Path) -> Iterator[Sequence]:
    """Those of all runs of a folder that are long enough, in the order of the runs."""
    for kept in sorted(folder.glob("*.xz")):
        path, flows, rows = read(kept)
        ends = np.cumsum([flow["rows"] for flow in flows])
        for about, end in zip(flows, ends, strict=True):
            if about["rows"] < ROWS_MIN:
                continue
            run, rtt_s = path["number"], path["flows"][about["flow"]]["rtt_s"]
            parts = {split: part_of(split, run, path["rate_bps"], rtt_s) for split in SPLITS}
            control = CONTROLS.index(about["control"])
            values = rows[end - about["rows"] : end]
            yield Sequence(
                run, about["flow"], about["place"], control, about["row_s"], parts, values
            )


def figures(truth: Any, scores: Any) -> dict[str, float]:
    """Macro-F1 and the share of cases with the label among the first 1 and 3; scores are cases ×
    congestion controls."""
    order = np.argsort(-scores, axis=1, kind="stable")
    first = order[:, 0]
    f1 = []
    for control in np.unique(truth):
        hits = np.sum((first == control) & (truth == control))
        f1.append(2 * hits / (np.sum(first == control) + np.sum(truth == control)))
    shares = {
        f"top_{k}": float(np.mean(np.any(order[:, :k] == truth[:, None], axis=1))) for k in (1, 3)
    }
    return {"macro_f1": round(float(np.mean(f1)), 4)} | {k: round(v, 4) for k, v in shares.items()}


def score_rows(
    tested: list[Sequence], scores: Any, trained: list[Sequence]
) -> Iterator[dict[str, Any]]:
    """Figures of all sequences, of each place, and of flows, and of the majority-class baseline.

    `scores` are log-probabilities; a flow's are the means over its places.
    """
    truth = np.array([sequence.control for sequence in tested])
    common = Counter(sequence.control for sequence in trained)
    majority = np.array([common[control] for control in range(len(CONTROLS))], dtype=float)

    def row(of: str, truth: Any, scores: Any) -> dict[str, Any]:
        base = figures(truth, np.tile(majority, (len(truth), 1)))
        return {"of": of, "cases": len(truth)} | figures(truth, scores) | {
            f"majority_{name}": value for name, value in base.items()
        }  # fmt: skip

    yield row("sequences", truth, scores)
    for place in PLACES:
        here = np.array([sequence.place == place for sequence in tested])
        yield row(place, truth[here], scores[here])
    flows: dict[tuple[int, int], list[int]] = {}
    for at, sequence in enumerate(tested):
        flows.setdefault((sequence.run, sequence.flow), []).append(at)
    means = np.array([scores[members].mean(axis=0) for members in flows.values()])
    yield row("flows", truth[[members[0] for members in flows.values()]], means)
