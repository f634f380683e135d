"""Predictors compared on traces, in the rhythm of `rhythm.Rhythm`."""

import hashlib
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy

from wirelens.l4s.choices import DEFAULT, MSE, SERVED
from wirelens.l4s.material import Material
from wirelens.l4s.packets import Batching, Packets, read_packets
from wirelens.l4s.predictors import GradientBoosting, LittlesLaw, Persistence, Predictor
from wirelens.l4s.rhythm import FittedPredictor, Rhythm, Row, follow, row_of
from wirelens.l4s.sharp import WITHIN

WINDOWS = (64, 128, 256, 512)


@dataclass(frozen=True)
class Request:
    """What is compared."""

    traces: Sequence[Path]
    predictors: Sequence[str] = DEFAULT
    seeds: Sequence[int] = (1,)
    rhythms: Sequence[Rhythm] = (Rhythm(),)
    """Those that differ in how often they fine-tune share a training."""
    batching: Batching = Batching()
    window: int | None = None
    steps: int = 3_000
    one_way: bool = False
    sender: int = 1


def window_of(packets: Packets) -> int:
    """The power of two nearest to two bandwidth-delay products in packets, as far as `WINDOWS` go:
    what is in flight is then about half of what is looked at."""
    latency = packets.latency_ms
    if len(packets) < 2 or numpy.isnan(latency).all():
        return WINDOWS[0]
    per_second = numpy.bincount(packets.since_s.astype(numpy.int64))
    busy = numpy.quantile(per_second[per_second > 0], 0.9)
    product = 2 * busy * numpy.nanmedian(latency) / 1e3
    return min(WINDOWS, key=lambda window: abs(numpy.log2(window / max(product, 1))))


def compare(
    request: Request,
    known: Iterable[Row],
    shown: Callable[[str], None],
    keep: Callable[[Row], None],
) -> list[Row]:
    """Rows of all that is asked. Those that are `known` are not made again, each that is made is
    handed to `keep`."""
    there = {(row.key(), row.asked): row for row in known}
    latency = "one-way" if request.one_way else "ack"
    rows: list[Row] = []
    for path in request.traces:
        packets = read_packets(path, sender=request.sender, one_way=request.one_way)
        window = request.window or window_of(packets)
        content = hashlib.sha256(packets.records.tobytes()).hexdigest()[:16]
        materials: dict[float, Material] = {}
        for name in request.predictors:
            alpha = 1.0 if name.endswith(MSE) else 10.0
            for seed in request.seeds if _is_drawn(name) else request.seeds[:1]:
                fitted: FittedPredictor | None = None
                for rhythm in request.rhythms:
                    every_s = rhythm.every_s if rhythm.tuned_s else 0.0
                    key = (packets.name, latency, name, seed, request.batching.packets, every_s)
                    asked = _asked(request, rhythm, window, content)
                    row = there.get((key, asked)) or there.get((key, ""))
                    if row is not None:
                        rows.append(row)
                        continue
                    shown(f"{packets.name}: {name}, seed {seed}")
                    if alpha not in materials:
                        materials[alpha] = Material.of(packets, request.batching, alpha=alpha)
                    material = materials[alpha]
                    if fitted is None or name == SERVED:
                        # The program predicts in a rhythm while it is trained.
                        predictor = _predictor(name, window, request, rhythm)
                        fitted = FittedPredictor.of(predictor, material, rhythm, seed)
                    tested = follow(fitted, material, rhythm, seed)
                    made = row_of(
                        name, material, rhythm, tested, seed=seed, latency=latency,
                        batch=request.batching.packets, asked=asked,
                    )  # fmt: skip
                    keep(made)
                    rows.append(made)
    return rows


def _asked(request: Request, rhythm: Rhythm, window: int, content: str) -> str:
    """What a row depends on besides its key: other rows of the same names are no answer."""
    return (
        f"packets {content}, trained on {rhythm.trained_s:g} s, watched {rhythm.watched_s:g} s, "
        f"tuned on {rhythm.tuned_s:g} s every {rhythm.every_s:g} s, window {window}, "
        f"{request.steps} steps, batches of {request.batching.span_ms:g} ms"
    )


def _is_drawn(name: str) -> bool:
    return name != "littles-law" and not name.startswith("last-of-")


def _predictor(name: str, window: int, request: Request, rhythm: Rhythm) -> Predictor:
    if name.startswith("last-of-"):
        return Persistence(name.removeprefix("last-of-"))
    if name == "littles-law":
        return LittlesLaw()
    if name == "xgboost":
        return GradientBoosting()
    # Networks alone need PyTorch.
    from wirelens.l4s.learn import HeadSchedule, Schedule, Tuning
    from wirelens.l4s.networked import Network, ServedNetwork

    schedule = Schedule.of(request.steps)
    if name == SERVED:
        return ServedNetwork("causal", window, schedule, rhythm=rhythm, batching=request.batching)
    if name.endswith(MSE):
        # Not what changes are learned by, either.
        schedule = replace(schedule, head=HeadSchedule(change_share=0.0))
        return Network(name.removesuffix(MSE), window, schedule, Tuning(change_share=0.0))
    return Network(name, window, schedule)


def table(rows: Sequence[Row]) -> str:
    """Medians over seeds, and from the lowest to the highest where there are several."""
    head = ["trace", "predictor", "packets"]
    head += [f"F1 within {within}" for within in WITHIN]
    head += ["precision", "recall", "mean error, ms", "root mean square, ms", "training, CPU s"]
    text = f"| {' | '.join(head)} |\n|---|---|{'---:|' * (len(head) - 2)}\n"
    several = len({row.tuned_every_s for row in rows}) > 1
    for trace, name, every_s in dict.fromkeys(
        (row.trace, row.predictor, row.tuned_every_s) for row in rows
    ):
        mine = [
            row
            for row in rows
            if (row.trace, row.predictor, row.tuned_every_s) == (trace, name, every_s)
        ]
        rhythm = (f", tuned every {every_s:g} s" if every_s else ", not tuned") if several else ""
        cells = [trace, name + rhythm, f"{mine[0].packets:,}"]
        cells += [_spread([row.f1(within) for row in mine], mine, within) for within in WITHIN]
        cells += [
            f"{_median(mine, lambda row: row.right['flow'] / max(row.predicted['flow'], 1)):.3f}",
            f"{_median(mine, lambda row: row.right['flow'] / max(row.changes['flow'], 1)):.3f}",
            f"{_median(mine, lambda row: row.mean_error_ms):.2f}",
            f"{_median(mine, lambda row: row.root_mean_square_ms):.2f}",
            f"{_median(mine, lambda row: row.train_cpu_s):.0f}",
        ]
        text += f"| {' | '.join(cells)} |\n"
    counts = {row.trace: row.changes for row in rows}
    return text + "\n" + _counts(counts)


def _counts(counts: Mapping[str, Mapping[str, int]]) -> str:
    lines = [
        f"{trace}: " + ", ".join(f"{number:,} within {within}" for within, number in found.items())
        for trace, found in counts.items()
    ]
    return "Sharp changes tested: " + "; ".join(lines) + ".\n"


def _median(rows: Sequence[Row], value: Callable[[Row], float]) -> float:
    return statistics.median(value(row) for row in rows)


def _spread(values: Sequence[float], rows: Sequence[Row], within: str) -> str:
    if not rows[0].changes[within]:
        return "–"
    middle = f"{statistics.median(values):.3f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.3f}–{max(values):.3f})"


def describe(packets: Packets) -> dict[str, Any]:
    """What Table 1 of SwiftQueue says of a trace."""
    latency = packets.latency_ms
    flow, since = packets.records["flow"], packets.since_s
    order = numpy.argsort(flow, kind="stable")
    _, firsts = numpy.unique(flow[order], return_index=True)
    times = [part for part in numpy.split(since[order], firsts[1:]) if len(part)]
    lengths = [float(part.max() - part.min()) for part in times]
    return {
        "packets": len(packets),
        "flows": len(times),
        "minutes": float(since[-1]) / 60 if len(since) else 0.0,
        "flow_s": (min(lengths, default=0.0), max(lengths, default=0.0)),
        "median_ms": float(numpy.nanmedian(latency)) if len(latency) else 0.0,
    }
