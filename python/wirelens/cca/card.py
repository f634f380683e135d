"""What a model's card says."""

import re
from collections.abc import Mapping, Sequence

from wirelens.cca.model import Model, voters_of

HeldOut = Mapping[str, Mapping[str, float]]
"""Of each set of held-out runs, F1 by length of interval: `{"heldout": {"10ms": 0.58}}`."""


def quality(held_out: HeldOut) -> str:
    """F1 on runs that neither trained, ended training nor calibrated, or that there is none."""
    if not held_out:
        return (
            "This card has no F1: no held-out runs were given. Those that ended training and\n"
            "calibrated probabilities would flatter. `wirelens eval cca --model THIS -r RUNS` measures\n"
            "it on runs that training did not have.\n"
        )
    units = re.compile(r"(?<=\d)(?=[a-zµ])")
    lengths = list(dict.fromkeys(length for found in held_out.values() for length in found))
    text = f"| interval | {' | '.join(f'F1 on `{name}`' for name in held_out)} |\n"
    text += f"|---|{'---:|' * len(held_out)}\n"
    for length in lengths:
        named = units.sub(" ", length)
        cells = [f"{found[length]:.3f}" if length in found else "" for found in held_out.values()]
        text += f"| {named} | {' | '.join(cells)} |\n"
    return (
        f"{text}\nThese runs are held out: none of them trained the networks, ended training or "
        "calibrated\nprobabilities.\n"
    )


def card(model: Model, runs: Sequence[str], note: str, held_out: HeldOut | None = None) -> str:
    """The card, in Markdown."""
    spans = [f"{network.slots * model.slot_ns / 1e6:g} ms" for network in model.networks]
    rows = "".join(
        f"| {span} | {network.temperature:.2f} | {network.unknown_below:g} |\n"
        for span, network in zip(spans, model.networks, strict=True)
    )
    inputs = " and ".join(f"`{name}`" for name in model.inputs)
    note = f"{note}\n\n" if note else ""
    votes = ""
    if model.voting:
        windows, *longer = voters_of(model.networks)
        votes = (
            f"\nUp to {model.voting.most} intervals of {windows.slots * model.slot_ns / 1e6:g} ms, one after the other, count "
            f"together, with a\ncorrelation of {model.voting.correlation:g} between their errors"
        )
        for network in longer:
            lengths = (network.slots, network.row_slots)
            span, row = (slots * model.slot_ns / 1e6 for slots in lengths)
            votes += (
                f"; those of {span:g} ms, in rows of {row:g} ms,\nvote beside them, and then a vote "
                f"counts {model.voting.part:g}"
            )
        votes += ".\n"
    trained = ""
    if model.trained_on:
        names = ("flows", "rate_bit", "queue_s", "rtt_s")
        flows, rate, queue, rtt = (model.trained_on[name] for name in names)
        trained = (
            f"\nTrained on {flows[0]:g} to {flows[1]:g} flows in a queue, links of "
            f"{rate[0] / 1e6:g} to {rate[1] / 1e6:g} Mbit/s, queues of {queue[0] * 1e3:g}\n"
            f"to {queue[1] * 1e3:g} ms, round trips of {rtt[0] * 1e3:g} to {rtt[1] * 1e3:g} ms. "
            "Outside of the first three no control is named; round trips are\n"
            f"not seen by two taps. No answer is surer than {model.confidence_max or 1.0:.2f}.\n"
        )
    return f"""# Congestion controls of flows in a queue

Names {", ".join(model.controls)} from {inputs} in slots of
{model.slot_ns / 1e6:g} ms at a tap before the queue and one behind it. Read by
`wirelens cca --model`.

{note}## Quality

{quality(held_out or {})}
## Networks

| interval | temperature | unknown below |
|---|---:|---:|
{rows}{votes}{trained}
Trained on {len(runs)} runs, {runs[0]} to {runs[-1]}, by:

```console
$ {model.training["command"]}
```

It is made for drop-tail queues like those of the runs; another mix of rates, delays and buffers has
to be tried.
"""
