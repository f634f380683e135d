"""Messages of a flow: sizes of a published distribution, at random times.

The simulators draw from the same file in the same way, but other numbers: runs of one seed are not
the same messages there and here.
"""

from __future__ import annotations

import math
import random
from itertools import pairwise
from pathlib import Path

from wirelens_testbed.failure import ScenarioError

SIZES = Path(__file__).resolve().parents[2] / "data/message-sizes.txt"
KIND = "messages"


def parse(load: str) -> tuple[str, float]:
    """The name and the mean bits per second of `messages:NAME:BPS`."""
    kind, _, rest = load.partition(":")
    name, _, rate = rest.partition(":")
    try:
        rate_bps = float(rate)
    except ValueError:
        rate_bps = 0.0
    known = [] if kind != KIND else sorted(_distributions())
    if name not in known or not 0 < rate_bps < math.inf:
        raise ScenarioError(
            f"load = {load!r}; wanted greedy, or messages:NAME:BPS such as "
            "messages:websearch:5000000"
        )
    return name, rate_bps


def draw(load: str, start_s: float, stop_s: float, rng: random.Random) -> list[tuple[float, int]]:
    """Messages as (second, bytes), in order of time; those of a stretch that has none are none."""
    name, rate_bps = parse(load)
    points = _distributions()[name]
    mean = sum((low + high) / 2 * (to - at) for (low, at), (high, to) in pairwise(points))
    gap_mean_s = mean * 8 / rate_bps
    messages: list[tuple[float, int]] = []
    at_s = start_s + rng.expovariate(1 / gap_mean_s)
    while at_s < stop_s:
        messages.append((at_s, _size(points, rng.random())))
        at_s += rng.expovariate(1 / gap_mean_s)
    return messages


def _size(points: list[tuple[float, float]], share: float) -> int:
    for (low, at), (high, to) in pairwise(points):
        if share <= to:
            return max(1, math.ceil(low + (high - low) * (share - at) / (to - at)))
    return math.ceil(points[-1][0])


def _distributions() -> dict[str, list[tuple[float, float]]]:
    """Sizes and the share of messages that are no larger, both rising, by name."""
    found: dict[str, list[tuple[float, float]]] = {}
    for line in SIZES.read_text().splitlines():
        words = line.split()
        if len(words) == 3 and words[0] != "#":
            name, size, share = words
            found.setdefault(name, [(1.0, 0.0)]).append((float(size), float(share)))
    return found
