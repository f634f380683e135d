"""LightGBM over features of loss epochs: a baseline for identification at one tap.

    .venv/bin/python bench/evaluation/cca/onetap_forest.py FOLDER > rows.jsonl

FOLDER is filled by models/onetap_traces.py. The features are what congestion controls are defined
by: the back-off factor, the growth per round trip against window, queueing delay and time since the
last loss, and the length of an epoch in round trips and in seconds. Downstream of a bottleneck,
bytes in flight do not follow the window; the rate times the whole round-trip time does at each
place.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "models"))

import lightgbm
import numpy as np
from onetap_nebby import ROWS_ALL, repairs, signal
from onetap_scores import COLUMN, SPLITS, Sequence, score_rows, sequences
from onetap_traces import ROWS_PER_RTT

PACKET_BYTES = 1448.0
EPOCH_ROWS_MIN = 2 * ROWS_PER_RTT
"""Losses that are closer than this are one loss."""
BINS = 5
"""Of an epoch's time, of the window and of the queueing delay, within a sequence."""
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
LENGTHS = (ROWS_ALL, 512, 256)
"""Last rows of a sequence that are evaluated; training has all."""
SEED = 1
ROUNDS_MAX = 1500


def _level(values: Any) -> Any:
    """Quantiles, mean and deviation of each column; NaN without a row."""
    if not len(values):
        return np.full((len(QUANTILES) + 2) * values.shape[1], np.nan)
    at = np.rint(np.array(QUANTILES) * (len(values) - 1)).astype(int)
    levels = np.sort(values, axis=0)[at]
    return np.concatenate([*levels, values.mean(axis=0), values.std(axis=0)])


def _binned(of: Any, by: Any) -> Any:
    """Means of columns in bins of equal count of another."""
    if len(by) < 4 * BINS:
        return np.full(BINS * of.shape[1], np.nan)
    starts = np.arange(BINS) * len(by) // BINS
    sums = np.add.reduceat(of[np.argsort(by, kind="stable")], starts, axis=0)
    return (sums / np.diff([*starts, len(by)])[:, None]).ravel()


def _epochs(repaired: Any) -> Any:
    """Epochs × first row and the row after the last, between losses."""
    edges = np.flatnonzero(np.diff(np.concatenate([[1], repaired.astype(np.int8), [1]])))
    pairs = edges.reshape(-1, 2)
    return pairs[pairs[:, 1] - pairs[:, 0] >= EPOCH_ROWS_MIN]


POINTS = np.linspace(0, 1, 32)
CUBIC = np.linalg.pinv(np.vander(POINTS, 4))[:3].T


class Track:
    """A sequence's window, rate and queueing delay, and means over any rows of them."""

    def __init__(self, values: Any, row_s: float) -> None:
        self.repaired = repairs(values, "stall")
        if self.repaired.all():
            self.repaired[:] = False
        rtt_s = values[:, COLUMN["rtt_s"]] + values[:, COLUMN["upstream_rtt_s"]]
        seen = rtt_s[rtt_s > 0]
        self.rtt_s = row_s * ROWS_PER_RTT
        self.rtt_least_s = float(np.sort(seen)[len(seen) // 100]) if len(seen) else self.rtt_s
        self.rate = values[:, COLUMN["sent_bytes"]] / row_s / PACKET_BYTES
        self.queue = rtt_s / self.rtt_least_s - 1
        rows, kept = np.arange(len(values)), ~self.repaired
        window = signal(values, row_s, "window") / PACKET_BYTES
        self.window = np.interp(rows, rows[kept], window[kept])
        flight = values[:, COLUMN["flight_bytes"]] / PACKET_BYTES
        self.flight = np.interp(rows, rows[kept], flight[kept])
        tracks = (self.window, self.flight, self.rate, self.queue)
        self._sums = {id(track): np.concatenate([[0], np.cumsum(track)]) for track in tracks}

    def mean(self, track: Any, first: Any, last: Any) -> Any:
        sums = self._sums[id(track)]
        first, last = np.maximum(first, 0), np.minimum(last, len(track))
        return (sums[last] - sums[first]) / np.maximum(last - first, 1)


def _of_epochs(track: Track, bounds: Any) -> Any:
    """Epochs × features."""
    start, end = bounds.T
    window, rtts = track.window, (end - start) / ROWS_PER_RTT
    # The window of a row is a mean of the last round trip.
    first = np.maximum(track.mean(window, start + 3, start + 5), 1.0)
    last = np.maximum(track.mean(window, end - 2, end), 1.0)
    before = np.concatenate([[np.nan], last])[:-1]
    rise = last - first
    points = start[:, None] + POINTS * (end - start - 1)[:, None]
    left = points.astype(int)
    right = np.minimum(left + 1, len(window) - 1)
    heights = window[left] + (points - left) * (window[right] - window[left])
    span = np.maximum(np.abs(rise), 1.0)
    quarters = heights.reshape(len(start), 4, len(POINTS) // 4).mean(axis=2)
    path = np.maximum(track.mean(track.rate, start, end) * track.rtt_least_s, 0.1)
    regained = [
        float(np.argmax(np.append(window[a:b] >= peak, True))) / (b - a)
        for (a, b), peak in zip(bounds, before, strict=True)
    ]
    flights = track.mean(track.flight, start + 2, start + 6), track.mean(track.flight, end - 4, end)
    starting, ending = (
        track.mean(track.queue, start, start + 4),
        track.mean(track.queue, end - 4, end),
    )
    # The first epoch follows no loss that was seen; its ratios are NaN, which LightGBM reads.
    columns = [
        rtts, rtts * track.rtt_s, first, last, rise, rise / rtts, rise / rtts / first,
        np.log(last / first) / rtts, first / before, last / before, first / path,
        flights[0] / np.maximum(flights[1], 1.0), starting, ending,
        (1 + starting) / (1 + ending), first / before * (1 + ending), regained,
    ]  # fmt: skip
    slopes = np.diff(quarters, axis=1)
    shape = ((heights - first[:, None]) / span[:, None]) @ CUBIC
    return np.column_stack([*columns, shape, slopes / rtts[:, None] * 4, slopes / span[:, None]])


def features(values: Any, row_s: float) -> Any:
    """Of rows of one sequence."""
    track = Track(values, row_s)
    bounds = _epochs(track.repaired)
    # Without a round-trip time ratios are NaN, which LightGBM reads as missing.
    with np.errstate(divide="ignore", invalid="ignore"):
        of_epochs = _of_epochs(track, bounds)
    # The first has no loss before it, the last none after it.
    complete = of_epochs[1:-1] if len(bounds) > 2 else of_epochs
    window, mean = track.window, max(float(track.window.mean()), 1e-3)
    upstream = float(values[:, COLUMN["upstream_rtt_s"]].mean())
    general = [
        track.rtt_s, track.rtt_least_s, track.queue.max(), track.queue.mean(),
        upstream / track.rtt_s, len(bounds), track.repaired.mean(), len(bounds) / len(values),
        track.rate.mean(), window.max() / mean, window.min() / mean,
        track.rate.mean() * track.rtt_least_s,
    ]  # fmt: skip
    levels = np.column_stack([window, track.queue, window / mean])
    return np.concatenate([general, _level(complete), _level(levels), _growth(track, bounds)])


def _growth(track: Track, bounds: Any) -> Any:
    """Growth per round trip, in packets and relative, by time, window and queueing delay."""
    step = ROWS_PER_RTT
    rows = [np.arange(a + step, b - step) for a, b in bounds]
    at = np.concatenate([*rows, np.zeros(0)]).astype(int)
    since = np.concatenate([*(np.arange(len(part)) / step for part in rows), np.zeros(0)])
    base = np.maximum(track.window[at], 1.0)
    grown = track.window[at + step] - track.window[at]
    seen = np.column_stack([grown, grown / base, since, base, track.queue[at]])
    growth = seen[:, :2]
    curves = [_binned(growth, seen[:, by]) for by in (2, 3, 4)]
    links = np.full(6, np.nan)
    if len(seen) > 20:
        with np.errstate(all="ignore"):
            links = np.corrcoef(seen.T)[:2, 2:].ravel()
    return np.concatenate([_level(growth), *curves, links])


def table(cases: list[Sequence], rows: int) -> Any:
    """Sequences × features, of the last rows of each."""
    found = [features(case.values[-rows:], case.row_s) for case in cases]
    return np.array(found, dtype=np.float32)


def train(learned: Any, controls: Any, checked: Any, truth: Any) -> lightgbm.LGBMClassifier:
    """With as many rounds as the validation part gains from."""
    forest = lightgbm.LGBMClassifier(
        n_estimators=ROUNDS_MAX, learning_rate=0.05, num_leaves=31, min_child_samples=40,
        subsample=0.7, subsample_freq=1, colsample_bytree=0.3, reg_lambda=5.0, n_jobs=1,
        random_state=SEED, deterministic=True, verbose=-1,
    )  # fmt: skip
    stop = lightgbm.early_stopping(40, verbose=False)
    forest.fit(learned, controls, eval_set=[(checked, truth)], callbacks=[stop])
    return forest


def compare(cases: list[Sequence], tables: dict[int, Any], split: str) -> Iterator[dict[str, Any]]:
    """The figures on a test part."""
    parts = np.array([case.parts[split] for case in cases])
    controls = np.array([case.control for case in cases])
    training, validation, test = (
        np.flatnonzero(parts == part) for part in ("training", "validation", "test")
    )
    whole = tables[ROWS_ALL]
    forest = train(whole[training], controls[training], whole[validation], controls[validation])
    trained, tested = [cases[at] for at in training], [cases[at] for at in test]
    about = {"method": "forest", "split": split, "rounds": int(forest.best_iteration_)}
    for rows in LENGTHS:
        scores = np.log(np.maximum(forest.predict_proba(tables[rows][test]), 1e-9))
        for row in score_rows(tested, scores, trained):
            yield about | {"rows_max": rows} | row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    cases = list(sequences(parser.parse_args().folder))
    tables = {rows: table(cases, rows) for rows in LENGTHS}
    for split in SPLITS:
        for row in compare(cases, tables, split):
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
