"""Features of a curve of bytes in flight, made by hand, for the baseline beside the network.

What people look at: how far a control backs off, how it grows in between (straight, bent up, bent
down), how often it backs off, how steady it is, how delay and losses go with it.
"""

from typing import Any

import numpy as np

Array = Any
LAGS = (1, 2, 4, 8, 16, 32)
BACK_OFF = 0.12
"""A fall of so much of the highest is one of the control, not of an acknowledgement."""


def features(values: Array, slot_s: float) -> Array:
    """Intervals × features of intervals × slots × (flight, sent, highest flight, acknowledged, sent
    again, RTT)."""
    return np.array([_one(rows, slot_s) for rows in values.astype(float)])


def _one(rows: Array, slot_s: float) -> list[float]:
    flight, sent, highest, acked, resent, rtt = rows.T
    top = max(highest.max(), 1.0)
    level, peak = flight / top, highest / top
    found = [
        *_shape(level), *_shape(peak), *_shape(sent / max(sent.max(), 1)),
        *_shape(acked / max(acked.max(), 1)), *_shape(rtt / max(rtt.max(), 1e-9)),
        *_lags(level), *_lags(sent), *_spectrum(level), *_spectrum(sent),
    ]  # fmt: skip
    found += _cycles(_smooth(peak, rtt, slot_s), slot_s, float(np.median(rtt)))
    # In units of the path: packets, and what the least RTT carries at the mean rate.
    rate, least = acked.sum() / (len(acked) * slot_s), max(rtt[rtt > 0].min(initial=10.0), 1e-4)
    path = max(rate * least, 1.0)
    found += [flight.mean() / path, top / path, flight.min() / path, np.median(flight) / path]
    found += [rtt.mean() / least, rtt.max() / least, _related(level, rtt), _related(sent, flight)]
    found += [resent.sum() / max(sent.sum() / 48, 1), float((resent > 0).mean())]
    found += [_related(level[1:], np.diff(rtt)), float((sent == 0).mean())]
    return [float(value) if np.isfinite(value) else 0.0 for value in found]


def _shape(curve: Array) -> list[float]:
    mean, spread = curve.mean(), curve.std()
    above = (curve - mean) / max(spread, 1e-9)
    return [
        mean, spread, curve.min(), *np.quantile(curve, (0.1, 0.25, 0.5, 0.75, 0.9)),
        (above**3).mean(), (above**4).mean(), np.abs(np.diff(curve)).mean(),
        curve[-len(curve) // 4 :].mean() - curve[: len(curve) // 4].mean(),
    ]  # fmt: skip


def _lags(curve: Array) -> list[float]:
    return [_related(curve[:-lag], curve[lag:]) if lag < len(curve) // 2 else 0.0 for lag in LAGS]


def _related(one: Array, other: Array) -> float:
    if one.std() < 1e-9 or other.std() < 1e-9:
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])


def _spectrum(curve: Array) -> list[float]:
    power = np.abs(np.fft.rfft(curve - curve.mean())) ** 2
    edges = np.unique(np.geomspace(1, len(power), 9).astype(int))
    bands = [power[low:high].sum() for low, high in zip(edges, edges[1:], strict=False)]
    bands += [0.0] * (8 - len(bands))
    total = max(sum(bands), 1e-12)
    return [band / total for band in bands] + [float(np.argmax(power[1:]) / len(power))]


def _smooth(curve: Array, rtt: Array, slot_s: float) -> Array:
    """The mean of a round trip, in which flight rises and falls by what came together."""
    width = max(1, round(float(np.median(rtt)) / slot_s / 2))
    return np.convolve(np.pad(curve, width // 2, mode="edge"), np.ones(width) / width, "valid")


def _cycles(curve: Array, slot_s: float, rtt: float) -> list[float]:
    """How far it falls, how often, and how it grows between."""
    falls = _falls(curve)
    parts = np.split(curve, [low for _, low in falls])
    backs = [curve[low] / max(curve[high], 1e-9) for high, low in falls]
    found = [len(falls) / (len(curve) * slot_s), np.mean(backs or [1.0]), np.min(backs or [1.0])]
    found += [np.std(backs or [1.0])]
    gaps = np.diff([low for _, low in falls]) * slot_s
    found += [np.mean(gaps) if len(gaps) else 0.0, np.std(gaps) if len(gaps) else 0.0]
    found += [found[-2] / max(rtt, 1e-6)]
    bends = [_bend(part) for part in parts if len(part) >= 8]
    weights = [len(part) for part in parts if len(part) >= 8]
    if not bends:
        return found + [0.0] * 8
    mean, most = np.average(bends, axis=0, weights=weights), bends[int(np.argmax(weights))]
    return found + [*mean, *most]


def _falls(curve: Array) -> list[tuple[int, int]]:
    """Where the curve falls by much: index of the height before, and of the depth."""
    found, high, low = [], 0, None
    for at, value in enumerate(curve):
        if low is None:
            if value >= curve[high]:
                high = at
            elif curve[high] - value > BACK_OFF * max(curve[high], 1e-9):
                low = at
        elif value <= curve[low]:
            low = at
        elif value - curve[low] > BACK_OFF / 2 * max(curve[high], 1e-9):
            found.append((high, low))
            high, low = at, None
    if low is not None:
        found.append((high, low))
    return found


def _bend(part: Array) -> list[float]:
    """Slope, bend, twist and what is left of a cubic over the part, from 0 to 1 in both."""
    time = np.linspace(-1, 1, len(part))
    scaled = (part - part.min()) / max(float(np.ptp(part)), 1e-9)
    series = np.polynomial.legendre.legfit(time, scaled, 3)
    left = scaled - np.polynomial.legendre.legval(time, series)
    return [*series[1:], float(left.std())]
