"""Where controls can be distinguished: F1 by round trips in an interval, and by how near a flow's
window is to where CUBIC is as Reno.

    .venv/bin/python bench/evaluation/cca/borders.py OUT.jsonl --train RUN... --test NAME RUN...

Arguments are those of quality.py. A row is a network on the intervals of a bin. `window_share` is
the mean window of the flow in packets, divided by that up to which CUBIC grows as its Reno-friendly
estimate and not along its cubic curve (RFC 9438, §4.2 and §4.3):

    K^3 = W (1 - beta) / C and W (1 - beta) = alpha K / RTT,
    so W = (alpha / RTT)^1.5 / (C^0.5 (1 - beta))
"""

import json
from collections.abc import Iterator
from typing import Any

import drawn
import numpy
import quality
from quality import KINDS, Row, Sides
from wirelens.cca import learn
from wirelens.cca.intervals import Array, Intervals, in_rows
from wirelens.learn.metrics import confusion, macro_f1
from wirelens.learn.progress import Progress

SEGMENT_BYTES, SLOT_S = 1448, 1e-3
C, BETA = 0.4, 0.7
ALPHA = 3 * (1 - BETA) / (1 + BETA)
BINS = {
    "rounds": (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 1e9),
    "window_share": (0.0, 0.03, 0.1, 0.3, 1.0, 1e9),
}
INTERVALS_MIN = 50


def border_packets(rtt_s: Array) -> Array:
    """The window above which CUBIC leaves Reno behind."""
    found: Array = (ALPHA / rtt_s) ** 1.5 / (C**0.5 * (1 - BETA))
    return found


def facts(intervals: Intervals, rates_bit: Array) -> dict[str, Array]:
    """Of each interval, slot by slot, its round trips and its window beside CUBIC's border."""
    columns = {name: at for at, name in enumerate(quality.LEVELED)}
    mean = intervals.values.mean(axis=1, dtype=float)
    queued = mean[:, columns[drawn.OF_ALL["cbiq_bytes"]]]
    rtt_s = numpy.array(intervals.rtts_ms) / 1e3 + queued * 8 / rates_bit
    # What is in the queue, and what is on its way at the rate at which it left.
    on_the_way = mean[:, columns["egress_bytes"]] / SLOT_S * numpy.array(intervals.rtts_ms) / 1e3
    window = (mean[:, columns["cbiq_bytes"]] + on_the_way) / SEGMENT_BYTES
    length_s = intervals.values.shape[1] * SLOT_S
    return {"rounds": length_s / rtt_s, "window_share": window / border_packets(rtt_s)}


def binned(
    values: Array, by: str, truth: Array, scores: Array, controls: list[str]
) -> Iterator[Row]:
    """F1 over all controls, and how often CUBIC and Reno are distinguished."""
    pair = [controls.index(name) for name in ("cubic", "reno")]
    edges = BINS[by]
    for low, high in zip(edges, edges[1:], strict=False):
        inside = (values >= low) & (values < high)
        if inside.sum() < INTERVALS_MIN:
            continue
        told = scores[inside].argmax(axis=1)
        of_pair = numpy.isin(truth[inside], pair)
        between = numpy.array(pair)[scores[inside][of_pair][:, pair].argmax(axis=1)]
        right = between == truth[inside][of_pair]
        each = [right[truth[inside][of_pair] == one].mean() for one in pair]
        yield {
            "by": by, "from": low, "to": high, "intervals": int(inside.sum()),
            "f1": round(macro_f1(confusion(truth[inside], told, len(controls))), 4),
            "of_cubic_and_reno": int(of_pair.sum()),
            "told_apart": round(float(numpy.mean(each)), 4),
        }  # fmt: skip


def judge(asked: Any, kind: quality.Kind, sides: Sides, what: tuple[str, int], progress: Progress
          ) -> Iterator[Row]:  # fmt: skip
    duration, seed = what
    voter, _ = quality.one(asked, kind, sides, what, progress)
    for place in quality.places(asked):
        arguments = ([place], asked.kept, duration)
        seen = drawn.load(*arguments, quality.LEVELED)
        read = drawn.load(*arguments, sides.inputs)
        rates = numpy.array([run.rate_mbit * 1e6 for run in place.runs])[seen.runs]
        scores = voter.trained.scores(Intervals(in_rows(read.values, sides.row_slots)))
        truth = learn.labels(seen, sides.controls)
        for by, values in facts(seen, rates).items():
            for row in binned(values, by, truth, scores, sides.controls):
                yield {"duration": duration, "network": kind.name, "seed": seed,
                       "test": place.name, **row}  # fmt: skip


def main() -> None:
    """The command line above."""
    asked = quality.arguments()
    progress = Progress()
    for place in [*quality.training(asked), *quality.places(asked)]:
        drawn.draw_missing(place, asked.kept, quality.reading(progress, place))
    for seed in asked.seeds:
        for duration in asked.durations:
            sides = quality.sides(asked, duration, seed)
            for name in asked.kinds:
                rows = list(judge(asked, KINDS[name], sides, (duration, seed), progress))
                with asked.output.open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(row) + "\n" for row in rows)
    progress.finish()


if __name__ == "__main__":
    main()
