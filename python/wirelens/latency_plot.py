"""A figure of latencies: each packet over time, and how many packets are how fast."""

import os
from collections import defaultdict
from pathlib import Path
from typing import Any

from wirelens import questions
from wirelens.learn import plots

# Flows with a colour of their own, those of most packets; others are drawn together.
FLOWS_NAMED = 6


def plot_latency(source: questions.Source, path: str | os.PathLike[str], **arguments: Any) -> Path:
    """Draws the latency of each packet of captures to a PNG file.

    Parameters
    ----------
    source
        A capture, a folder of captures, or a list of them.
    path
        The file, ending in ``.png``.
    arguments
        Those of `wirelens.latency`, but for ``by`` and ``every``.

    Returns
    -------
    Path
        The file. The left side has each packet over time, flow by flow and direction by direction;
        packets whose ACK was delayed are crosses. The right side has the cumulative distribution.

    Raises
    ------
    MissingPackageError
        If matplotlib is not installed.
    """
    library, figures = plots.need_library()
    found: dict[str, list[tuple[int, float, bool]]] = defaultdict(list)
    for row in questions.latency(source, by="packet", **arguments):
        if row.latency_ns is not None:
            name = f"{row.src_ip}:{row.src_port} → {row.dst_ip}:{row.dst_port}"
            found[name].append((row.time_ns, row.latency_ns / 1e6, row.held != "no"))
    largest = sorted(found, key=lambda name: -len(found[name]))
    start = min((packets[0][0] for packets in found.values()), default=0)
    with library.rc_context(plots.STYLE):
        figure = figures.Figure(figsize=(10, 4))
        over_time, shares = figure.subplots(1, 2, width_ratios=(2, 1))
        for place, name in enumerate(largest):
            colour = plots.COLOURS[place] if place < FLOWS_NAMED else "#999999"
            label = name if place < FLOWS_NAMED else None
            for is_held, marker in ((False, "."), (True, "x")):
                points = [packet for packet in found[name] if packet[2] == is_held]
                over_time.plot(
                    [(time - start) / 1e9 for time, _, _ in points],
                    [latency for _, latency, _ in points],
                    marker, markersize=3, color=colour, label=None if is_held else label,
                )  # fmt: skip
            ordered = sorted(latency for _, latency, _ in found[name])
            if place < FLOWS_NAMED:
                parts = [(rank + 1) / len(ordered) for rank in range(len(ordered))]
                shares.plot(ordered, parts, color=colour)
        over_time.set(xlabel="seconds", ylabel="latency, ms", yscale="log")
        shares.set(xlabel="latency, ms", ylabel="share of packets", xscale="log")
        if found:
            over_time.legend(fontsize=6, loc="upper left")
        path = Path(path)
        return plots.save(figure, path.parent, path.name)
