"""Nebby's method, re-implemented from its description: a baseline for identification at one tap.

    .venv/bin/python bench/evaluation/cca/onetap_nebby.py FOLDER > rows.jsonl

FOLDER is filled by models/onetap_traces.py. Mishra, Rastogi, Joshi, Leong: Keeping an Eye on
Congestion Control in the Wild with Nebby, SIGCOMM 2024. The constants are those of its
programs (NUS-SNL/Nebby, MIT licence, read in the fork jrcks/Nebby); no code is copied. Its steps
for congestion controls that react to loss:

1. Bytes in flight over time are low-pass filtered at one round trip by Fourier transform, then
   averaged over two.
2. A segment is the time between retransmissions that are at least 20 round trips apart, from its
   minimum to its maximum. The first segment is used.
3. A segment is scaled in time and height, and polynomials of degree 1 to 3 are fitted. The degree
   with the smallest error plus a penalty on the degree selects the congestion controls that the
   segment is compared with.
4. A Gaussian for each congestion control, over the coefficients without the constant, gives the
   likelihood.

Its test for BBR searches for periodic probing; it is left out, as no BBR is among the classes.

Rows are printed for three methods:

- "published": those constants.
- "tuned": each setting by the validation part.
- "extended": also a mixture of Gaussians, and a segment's rise, peak and round-trip time as further
  inputs. Nebby has no use for these, because it measures all flows with one profile of the path.

All three differ from Nebby in these ways:

- Nebby sets rate, delay and buffer of the bottleneck, and trains with that profile. Here paths are
  drawn at random, so a congestion control's coefficients vary with the path, and the product of
  rate and delay is unknown: segments are scaled by their own range or peak.
- Nebby's tap is upstream of its bottleneck. Half of the places here are downstream, where bytes in
  flight do not follow the window and a retransmission is the first copy that passes. The settings
  "window" (rate times the whole round trip) and "stall" (acknowledgements that make no progress)
  work there too.
- During loss recovery Nebby subtracts a packet for each duplicate acknowledgement. Rows do not
  count these, so a recovery is interpolated.
- A segment is sampled at Chebyshev nodes; Nebby draws its samples at random with that density.
- A segment is compared with each congestion control, weighted by how often that had the segment's
  degree in training; Nebby assigns one degree to each. Outliers are clipped, and a sequence without
  a segment gets the prior; Nebby leaves both unclassified.
"""

import argparse
import json
import sys
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "models"))

import numpy as np
from onetap_scores import COLUMN, SPLITS, Sequence, figures, score_rows, sequences
from onetap_traces import CONTROLS, ROWS_PER_RTT
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

SAMPLES = 64
DEGREES = (1, 2, 3)
HEIGHT = 10.0
"""Of a scaled segment, and its duration where that is scaled too."""
CLIP = 4.0
"""Standard deviations at which coefficients are clipped."""
KEPT_MAX = 24
"""Of sets of segments that settings share, of up to 60 MB; the oldest is dropped."""
FITTED_MAX = 1_500
"""Segments that a mixture is fitted to; more are thinned out evenly."""
SEGMENTS_MIN = 20
"""With fewer of a congestion control and degree, the Gaussian of all of that degree is used."""
ROWS_ALL = 1024
STALL_ROWS = ROWS_PER_RTT - 1
"""Rows with data and without progress of acknowledgements that count as loss recovery."""


EXTENTS = ("none", "length", "rise", "peak", "rtt")
"""Length in round trips, rise as a share of the peak, peak in bytes, round-trip time in seconds."""


@dataclass(frozen=True)
class Settings:
    """What is tuned; the defaults are the published constants."""

    signal: str = "flight"
    """"flight": bytes in flight; "window": rate times the round trip on both sides of the tap."""
    losses: str = "resent"
    """"resent": retransmitted packets; "stall": also acknowledgements without progress."""
    cutoff_rtts: float = 1.0
    """Period of the low pass; 0: none."""
    mean_rtts: float = 2.0
    segment_rtts_min: float = 20.0
    whole: bool = False
    """Whether a sequence without a segment is one as a whole."""
    scale: str = "range"
    """"range": both axes to `HEIGHT`; "rtt": time in round trips; "peak": that, height by peak."""
    extent: str = "none"
    """Of `EXTENTS`, what is added to the coefficients: it and those before it, as logarithms."""
    degree_penalty: float = 0.02
    """Of a degree, in squared height; a negative one takes the highest degree always."""
    components: int = 1
    covariance: str = "diag"
    segments_max: int = 1
    combine: str = "likelihood"
    """"likelihood": product over the segments; "majority": mean of their probabilities."""
    prior: str = "uniform"


CHOICES: tuple[dict[str, tuple[Any, ...]], ...] = (
    {"losses": ("resent", "stall")},
    {"whole": (False, True)},
    {"segments_max": (1, 3, 1000)},
    {"signal": ("flight", "window")},
    {"segment_rtts_min": (3.0, 5.0, 10.0, 20.0)},
    {"extent": ("none", "length")},
    {"covariance": ("diag", "full", "tied")},
    {"components": (1, 2, 4, 8)},
    {"scale": ("range", "rtt", "peak")},
    {"degree_penalty": (-1.0, 0.005, 0.02, 0.1)},
    {"cutoff_rtts": (0.0, 1.0, 2.0)},
    {"mean_rtts": (0.0, 1.0, 2.0)},
    {"combine": ("likelihood", "majority")},
    {"prior": ("uniform", "training")},
)
"""In the order in which they are tried, one after the other."""
EXTENSIONS: tuple[dict[str, tuple[Any, ...]], ...] = (
    {"extent": ("length", "peak", "rtt"), "components": (2, 8, 16), "covariance": ("full",)},
    {"whole": (False, True)},
    {"segment_rtts_min": (3.0, 5.0, 10.0)},
    {"scale": ("range", "rtt", "peak")},
    {"degree_penalty": (-1.0, 0.005, 0.02, 0.1)},
    {"mean_rtts": (0.0, 1.0, 2.0)},
    {"combine": ("likelihood", "majority")},
    {"prior": ("uniform", "training")},
)
"""Tried after `CHOICES`. Extent and components are tried together, as neither helps alone."""


@dataclass(frozen=True)
class Segments:
    """Those of many sequences: heights at the samples, in bytes, and where each is from."""

    heights: Any
    rtts: Any
    rtt_s: Any
    owner: Any
    """Index of the sequence."""
    rank: Any
    """0 for the first of its sequence."""


def signal(values: Any, row_s: float, name: str) -> Any:
    """Of each row; see `Settings.signal`."""
    if name == "flight":
        return values[:, COLUMN["flight_bytes"]].astype(np.float64)
    sent = np.cumsum(np.concatenate([np.zeros(ROWS_PER_RTT), values[:, COLUMN["sent_bytes"]]]))
    count = np.minimum(np.arange(len(values)) + 1, ROWS_PER_RTT)
    rate = (sent[ROWS_PER_RTT:] - sent[:-ROWS_PER_RTT]) / count / row_s
    return rate * (values[:, COLUMN["rtt_s"]] + values[:, COLUMN["upstream_rtt_s"]])


def repairs(values: Any, losses: str) -> Any:
    """Whether each row is in a loss recovery."""
    repaired = values[:, COLUMN["resent_packets"]] > 0.5
    if losses == "resent":
        return repaired
    still = (values[:, COLUMN["sent_bytes"]] > 0) & (values[:, COLUMN["acked_bytes"]] == 0)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], still.astype(np.int8), [0]])))
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        if end - start >= STALL_ROWS:
            repaired[start:end] = True
    return repaired


def smooth(traces: Any, settings: Settings) -> Any:
    """Traces × rows without what is faster than the cutoff, then averaged."""
    rows = traces.shape[1]
    if settings.cutoff_rtts:
        spectrum = np.fft.rfft(traces)
        spectrum[:, np.fft.rfftfreq(rows, 1 / ROWS_PER_RTT) > 1 / settings.cutoff_rtts] = 0
        traces = np.fft.irfft(spectrum, rows)
    half = round(settings.mean_rtts * ROWS_PER_RTT) // 2
    if half:
        sums = np.cumsum(np.pad(traces, ((0, 0), (1, 0))), axis=1)
        first = np.maximum(np.arange(rows) - half, 0)
        last = np.minimum(np.arange(rows) + half + 1, rows)
        traces = (sums[:, last] - sums[:, first]) / (last - first)
    return traces


NODES = (1 - np.cos(np.pi * (np.arange(SAMPLES) + 0.5) / SAMPLES)) / 2
"""Of the samples, in 0 to 1: denser at both ends."""


def _bounds(repaired: Any, settings: Settings) -> list[tuple[int, int]]:
    """First row and the row after the last of each segment, in order of time.

    A segment starts where losses were seen; what precedes the first has an unknown start.
    """
    lost = np.append(np.flatnonzero(repaired), len(repaired))
    long = np.flatnonzero(np.diff(lost) > settings.segment_rtts_min * ROWS_PER_RTT)
    bounds = [(int(lost[at]) + 1, int(lost[at + 1])) for at in long]
    return bounds or ([(0, len(repaired))] if settings.whole else [])


def segments(cases: list[Sequence], settings: Settings, rows: int) -> Segments:
    """Segments of the last rows of each sequence."""
    repaired = [repairs(case.values[-rows:], settings.losses) for case in cases]
    traces: list[Any] = [None] * len(cases)
    for at, case in enumerate(cases):
        trace, kept = signal(case.values[-rows:], case.row_s, settings.signal), ~repaired[at]
        if kept.any():
            every = np.arange(len(trace))
            traces[at] = np.interp(every, every[kept], trace[kept])
        else:
            traces[at] = trace
    alike: dict[int, list[int]] = {}
    for at, trace in enumerate(traces):
        alike.setdefault(len(trace), []).append(at)
    for members in alike.values():
        smoothed = smooth(np.array([traces[at] for at in members]), settings)
        for at, trace in zip(members, smoothed, strict=True):
            traces[at] = trace
    found = []
    for at, trace in enumerate(traces):
        rank = 0
        for start, end in _bounds(repaired[at], settings):
            middle = (start + end) // 2
            low = start + int(trace[start:middle].argmin())
            high = middle + int(trace[middle:end].argmax())
            if high - low >= ROWS_PER_RTT and trace[high] > trace[low]:
                found.append((at, rank, low, high))
                rank += 1
    owner, ranks, low, high = np.array(found).T
    starts = np.cumsum([0, *(len(trace) for trace in traces)])[owner] + low
    where = starts[:, None] + NODES * (high - low)[:, None]
    left = where.astype(np.int64)
    flat = np.append(np.concatenate(traces), 0.0)
    heights = flat[left] + (where - left) * (flat[left + 1] - flat[left])
    rtt_s = np.array([case.row_s for case in cases])[owner] * ROWS_PER_RTT
    return Segments(heights, (high - low) / ROWS_PER_RTT, rtt_s, owner, ranks)


@dataclass(frozen=True)
class Fits:
    """A degree of each segment, and for each degree segments × coefficients."""

    degree: Any
    coefficients: dict[int, Any]


def fit(of: Segments, settings: Settings) -> Fits:
    low, high = of.heights.min(axis=1, keepdims=True), of.heights.max(axis=1, keepdims=True)
    spread, high = high - low, np.maximum(high, 1.0)
    extents = np.log(np.hstack([of.rtts[:, None], spread / high, high, of.rtt_s[:, None]]))
    extents = extents[:, : EXTENTS.index(settings.extent)]
    scaled = (of.heights - low) / spread * HEIGHT
    coefficients, costs = {}, []
    for degree in DEGREES:
        powers = np.vander(NODES * HEIGHT, degree + 1)
        solved = scaled @ np.linalg.pinv(powers).T
        errors = np.mean((solved @ powers.T - scaled) ** 2, axis=1)
        costs.append(errors + settings.degree_penalty * degree)
        kept = solved[:, :-1]
        if settings.scale != "range":
            kept = kept * (HEIGHT / of.rtts[:, None]) ** np.arange(degree, 0, -1)
        if settings.scale == "peak":
            kept = kept * spread / high
        coefficients[degree] = np.hstack([kept, extents])
    least = np.argmin(costs, axis=0) + DEGREES[0]
    if settings.degree_penalty < 0:
        least = np.full(len(of.rtts), DEGREES[-1])
    return Fits(least, coefficients)


class Gaussians:
    """Of each degree and control, a mixture over scaled coefficients; of one Gaussian at first."""

    def __init__(self, fits: Fits, controls: Any, settings: Settings) -> None:
        self.scales: dict[int, tuple[Any, Any]] = {}
        self.mixtures: dict[tuple[int, int], GaussianMixture] = {}
        counts = np.ones((len(CONTROLS), len(DEGREES)))
        for degree in DEGREES:
            at = fits.degree == degree
            if np.sum(at) < SEGMENTS_MIN:
                continue
            values = fits.coefficients[degree][at]
            low, middle, high = np.percentile(values, (16, 50, 84), axis=0)
            self.scales[degree] = middle, np.maximum((high - low) / 2, 1e-12)
            scaled, of = self._scaled(values, degree), controls[at]
            pooled = self._mixture(scaled, settings)
            for control in range(len(CONTROLS)):
                own = scaled[of == control]
                counts[control, degree - 1] += len(own)
                enough = len(own) >= max(SEGMENTS_MIN, 5 * settings.components)
                mixture = self._mixture(own, settings) if enough else pooled
                self.mixtures[degree, control] = mixture
        self.degrees = np.log(counts / counts.sum(axis=1, keepdims=True))

    def _scaled(self, values: Any, degree: int) -> Any:
        middle, width = self.scales[degree]
        return np.clip((values - middle) / width, -CLIP, CLIP)

    @staticmethod
    def _mixture(values: Any, settings: Settings) -> GaussianMixture:
        values = values[:: 1 + len(values) // FITTED_MAX]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return GaussianMixture(
                settings.components, covariance_type=settings.covariance, reg_covar=1e-3,
                max_iter=30, init_params="k-means++", random_state=0,
            ).fit(values)  # fmt: skip

    def likelihoods(self, fits: Fits) -> Any:
        """Segments × controls, logarithmic."""
        result = np.zeros((len(fits.degree), len(CONTROLS)))
        for degree in self.scales:
            at = fits.degree == degree
            if not np.any(at):
                continue
            scaled = self._scaled(fits.coefficients[degree][at], degree)
            for control in range(len(CONTROLS)):
                one = self.mixtures[degree, control].score_samples(scaled)
                result[at, control] = one + self.degrees[control, degree - 1]
        return result


class Nebby:
    """Trained on sequences; segments are kept, as many settings share them."""

    def __init__(self, cases: list[Sequence]) -> None:
        self.cases = cases
        self.controls = np.array([case.control for case in cases])
        self._kept: dict[tuple[Any, ...], Segments] = {}

    def _segments(self, settings: Settings, rows: int) -> Segments:
        key = (
            settings.signal, settings.losses, settings.cutoff_rtts, settings.mean_rtts,
            settings.segment_rtts_min, settings.whole, rows,
        )  # fmt: skip
        if key not in self._kept:
            if len(self._kept) == KEPT_MAX:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = segments(self.cases, settings, rows)
        return self._kept[key]

    def train(self, trained: Any, settings: Settings) -> Gaussians:
        """Of the sequences of these indexes."""
        whole = self._segments(settings, ROWS_ALL)
        chosen = np.isin(whole.owner, trained) & (whole.rank < settings.segments_max)
        learned = _only(whole, chosen)
        return Gaussians(fit(learned, settings), self.controls[learned.owner], settings)

    def scores(self, trained: Any, asked: Any, settings: Settings, rows: int) -> Any:
        """Log-probabilities of the asked sequences' controls; both are indexes, ascending."""
        return self.scores_of(self.train(trained, settings), trained, asked, settings, rows)

    def scores_of(
        self, model: Gaussians, trained: Any, asked: Any, settings: Settings, rows: int
    ) -> Any:
        seen = self._segments(settings, rows)
        seen = _only(seen, np.isin(seen.owner, asked) & (seen.rank < settings.segments_max))
        likelihoods = model.likelihoods(fit(seen, settings))
        majority = settings.combine == "majority"
        votes = np.exp(_probabilities(likelihoods)) if majority else likelihoods
        own = np.searchsorted(asked, seen.owner)
        sums, counts = np.zeros((len(asked), len(CONTROLS))), np.zeros((len(asked), 1))
        np.add.at(sums, own, votes)
        np.add.at(counts, own, 1.0)
        if majority:
            sums = np.log((sums + 1e-6) / (counts + 1e-6 * len(CONTROLS)))
        share = np.bincount(self.controls[trained], minlength=len(CONTROLS)) / len(trained)
        # A uniform prior still leaves a sequence without segments to the most common control.
        uniform = settings.prior == "uniform"
        return _probabilities(sums + np.where((counts > 0) & uniform, 0.0, np.log(share)))


def _probabilities(likelihoods: Any) -> Any:
    return likelihoods - np.logaddexp.reduce(likelihoods, axis=1, keepdims=True)


def _only(of: Segments, chosen: Any) -> Segments:
    return Segments(*(getattr(of, field.name)[chosen] for field in fields(of)))


Steps = tuple[dict[str, tuple[Any, ...]], ...]


def best_of(
    start: Settings, steps: Steps, learned: list[Sequence], checked: list[Sequence]
) -> tuple[float, Settings]:
    """One step after the other; by macro-F1 of the sequences that are checked."""
    nebby = Nebby(learned + checked)
    trained, validated = np.split(np.arange(len(nebby.cases)), [len(learned)])
    truth = np.array([case.control for case in checked])
    tried: dict[Settings, float] = {}

    def value(settings: Settings) -> float:
        if settings not in tried:
            scores = nebby.scores(trained, validated, settings, ROWS_ALL)
            tried[settings] = figures(truth, scores)["macro_f1"]
        return tried[settings]

    best = start
    for step in steps:
        together = [dict(zip(step, values, strict=True)) for values in product(*step.values())]
        best = max((replace(best, **one) for one in together), key=value)
    return value(best), best


def tune(cases: list[Sequence]) -> Iterator[tuple[str, float, Settings]]:
    """Settings by what is in the validation part of each split, from what is in each training part.

    So no split's test part is seen, and one choice serves all. A third of the training runs
    suffices for a Gaussian, not for a mixture.
    """

    def common(part: str, every: int = 1) -> list[Sequence]:
        parts = [case for case in cases if all(case.parts[split] == part for split in SPLITS)]
        return [case for case in parts if case.run % every == 0]

    best, checked = Settings(), common("validation")
    stages: tuple[tuple[str, Steps, int], ...] = (
        ("published", (), 3), ("tuned", CHOICES, 3), ("extended", EXTENSIONS, 1),
    )  # fmt: skip
    for method, steps, every in stages:
        value, best = best_of(best, steps, common("training", every), checked)
        yield method, value, best


def compare(nebby: Nebby, split: str, settings: Settings) -> Iterator[dict[str, Any]]:
    """The figures on a test part."""
    cases = nebby.cases
    parts = np.array([case.parts[split] for case in cases])
    training, test = np.flatnonzero(parts == "training"), np.flatnonzero(parts == "test")
    trained, tested = [cases[at] for at in training], [cases[at] for at in test]
    model = nebby.train(training, settings)
    for rows in (ROWS_ALL, 512, 256):
        scores = nebby.scores_of(model, training, test, settings, rows)
        for row in score_rows(tested, scores, trained):
            yield {"rows_max": rows} | row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    cases = list(sequences(parser.parse_args().folder))
    nebby = Nebby(cases)
    for method, validated, settings in tune(cases):
        about: dict[str, Any] = {"method": f"nebby {method}"}
        print(json.dumps(about | {"validation_macro_f1": validated} | asdict(settings)), flush=True)
        for split in SPLITS:
            for row in compare(nebby, split, settings):
                print(json.dumps(about | {"split": split} | row), flush=True)


if __name__ == "__main__":
    main()
