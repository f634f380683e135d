"""`wirelens train l4s`: from traces to a model that predicts latencies."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy

from wirelens import written
from wirelens.errors import OptionError
from wirelens.l4s import learn, model
from wirelens.l4s.choices import CHANGES
from wirelens.l4s.examples import Part
from wirelens.l4s.material import Material
from wirelens.l4s.packets import BATCHING, Batching, Packets, read_packets
from wirelens.l4s.predicted import window_of
from wirelens.l4s.predictors import Persistence, Predictor
from wirelens.l4s.sharp import WITHIN, Score, score
from wirelens.learn.progress import Progress

Array = Any
SHARE_WATCHED = 0.2
"""The end of each trace, which says when to stop, and on which the card's numbers are."""


@dataclass(frozen=True)
class Request:
    """What is to be trained."""

    traces: Sequence[Path]
    output: Path
    window: int | None
    steps: int
    seed: int
    command: str
    batching: Batching = BATCHING
    one_way: bool = False
    sender: int = 1
    force: bool = False
    note: str = ""
    network: str = "causal"
    """Of `learn.KINDS`; others than the causal one are written as ONNX."""
    goal: str = "latency"
    """Of `choices.GOALS`."""
    head_steps: int = learn.HeadSchedule.steps


@dataclass(frozen=True)
class Outcome:
    """What came out: how well the end of each trace is predicted, which ended training, so that it
    flatters; and by the newest latency of the queue."""

    window: int
    f1: dict[str, float]
    f1_of_last: dict[str, float]
    mean_error_ms: float
    mean_error_of_last_ms: float


def train(request: Request, progress: Progress) -> Outcome:
    """Trains a network on all traces, and writes the model.

    Raises `OptionError` where there is too little to train on, and `OutputError` where the model
    cannot be written; most reasons are found before training.
    """
    model.check_free(request.output, request.force)
    written.check(request.output)
    traces = [
        read_packets(path, sender=request.sender, one_way=request.one_way)
        for path in request.traces
    ]
    window = request.window or max(window_of(packets) for packets in traces)
    trained, watched = [], []
    for packets in traces:
        material = Material.of(packets, request.batching)
        if not material.weight.any():
            raise OptionError(
                f"{packets.name}: no packet was acknowledged; wanted: acknowledgements"
            )
        end = len(material) - round(SHARE_WATCHED * len(material))
        trained.append(Part(material, slice(0, end)))
        watched.append(Part(material, slice(end, len(material))))
    schedule = replace(learn.Schedule.of(request.steps), head=_head(request))

    def show(step: int, steps: int, loss: float) -> None:
        progress.show(step, steps, f"loss {loss:.4f} on the end of the traces")

    network = learn.train(
        request.network, window, trained, watched, schedule, seed=request.seed, show=show
    )
    progress.finish()
    outcome = _judged(network, window, watched)
    training = {
        "command": request.command, "seed": request.seed, "steps": request.steps,
        "head_steps": request.head_steps, "goal": request.goal,
        "latency": "one-way" if request.one_way else "ack",
        "traces": [packets.name for packets in traces], "floor_ns": _floor_ns(trained),
    }  # fmt: skip
    contents = model.files(request.network, network, request.batching, training)
    text = card(outcome, traces, training, request)
    model.write(request.output, contents, text, force=request.force)
    return outcome


def _floor_ns(trained: Sequence[Part]) -> list[int]:
    """The lowest latency of each trace, from the lowest to the highest of them."""
    floors = [part.material.rows.floor_ms[part.span] for part in trained]
    # Before the first acknowledgement there is none, which may be after all that trains.
    of = [float(numpy.nanmin(floor)) for floor in floors if not numpy.isnan(floor).all()]
    return [round(min(of) * 1e6), round(max(of) * 1e6)]


def _head(request: Request) -> learn.HeadSchedule:
    """Of a choice between queues the mean of each is wanted: pushed beyond the thresholds of sharp
    changes, predictions find more of those and choose worse."""
    share = learn.HeadSchedule.change_share if request.goal == CHANGES else 0.0
    return learn.HeadSchedule(steps=request.head_steps, change_share=share)


def _judged(network: Any, window: int, watched: Sequence[Part]) -> Outcome:
    last: Predictor = Persistence("queue")
    scores = {name: {within: Score(0, 0, 0) for within in WITHIN} for name in ("it", "last")}
    errors: dict[str, list[Array]] = {"it": [], "last": []}
    for part in watched:
        material, span = part.material, part.span
        latency = material.packets.latency_ms
        found = {
            "it": material.predicted_ms(learn.predict(network, part), span),
            "last": last.predict(material, span),
        }
        for name, values in found.items():
            predicted = numpy.full(len(material), numpy.nan, dtype="f4")
            predicted[span] = values
            judged = ~numpy.isnan(predicted) & ~numpy.isnan(latency)
            for within in WITHIN:
                places = Material.places(material.packets, within)
                scores[name][within] += score(latency, predicted, places, judged)
            errors[name].append(abs(predicted - latency)[judged])
    means = {name: float(numpy.concatenate(parts).mean()) for name, parts in errors.items()}
    f1 = {
        name: {within: found.f1 for within, found in of.items() if found.changes}
        for name, of in scores.items()
    }
    return Outcome(window, f1["it"], f1["last"], means["it"], means["last"])


def card(
    outcome: Outcome, traces: Sequence[Packets], training: dict[str, Any], request: Request
) -> str:
    """The card, in Markdown."""
    rows = "".join(
        f"| F1 of sharp changes within the {within} | {f1:.3f} "
        f"| {outcome.f1_of_last[within]:.3f} |\n"
        for within, f1 in outcome.f1.items()
    )
    rows += (
        f"| mean absolute error, ms | {outcome.mean_error_ms:.2f} | "
        f"{outcome.mean_error_of_last_ms:.2f} |\n"
    )
    names = ", ".join(packets.name for packets in traces)
    note = f"{request.note}\n\n" if request.note else ""
    what = "one-way delays" if request.one_way else "latencies up to the acknowledgement"
    return f"""# Latencies of packets by L4S queue

Predicts the latency of a sender's next packets for either queue of an L4S router, from
{what} of the {outcome.window} packets acknowledged last. Predictions hold for up to
{request.batching.packets} packets that leave within {request.batching.span_ms:g} ms.
The network is `{request.network}`.

{note}## Quality

On the last fifth of each trace, which was used to end training, so that the figures are optimistic:

| | this model | newest latency of the queue |
|---|---:|---:|
{rows}
`wirelens eval l4s --predict` measures predictors on traces of your own network.

Trained on {names}, by:

```console
$ {training["command"]}
```
"""
