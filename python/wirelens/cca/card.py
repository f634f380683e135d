"""What a model's card says."""

import re
from collections.abc import Mapping, Sequence

from wirelens.cca.intervals import OTHER
from wirelens.cca.model import Model, voters_of

HeldOut = Mapping[str, Mapping[str, float]]
"""Of each set of held-out runs, F1 by length of interval: `{"heldout": {"10ms": 0.58}}`."""


def quality(held_out: HeldOut) -> str:
    """F1 on runs that neither trained, ended training nor calibrated, or that there is none."""
    if not held_out:
        return (
            "This card has no F1: no held-out runs were given. F1 on the runs that ended training\n"
            "and calibrated probabilities would be too optimistic. Measure it on held-out runs with\n"
            "`wirelens eval cca --model THIS -r RUNS`.\n"
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
        f"{text}\nThese runs are held out: none of them was used to train the networks, to end "
        "training or to\ncalibrate probabilities.\n"
    )


def card(model: Model, runs: Sequence[str], note: str, held_out: HeldOut | None = None) -> str:
    """The card, in Markdown."""
    spans = [f"{network.slots * model.slot_ns / 1e6:g} ms" for network in model.networks]
    rows = "".join(
        f"| {span} | {network.temperature:.2f} | {network.unknown_below:g} |\n"
        for span, network in zip(spans, model.networks, strict=True)
    )
    *first, last = (f"`{name}`" for name in model.inputs)
    inputs = f"{', '.join(first)} and {last}" if first else last
    read = ["the shape"] + ["the level"] * model.levels + ["the flow's share"] * model.queue_shares
    named = ", ".join(control for control in model.controls if control != OTHER)
    rest = ""
    if OTHER in model.controls:
        rest = " A flow that is most\nprobably of another congestion control is not named."
    note = f"{note}\n\n" if note else ""
    votes = ""
    if model.voting:
        windows, *longer = voters_of(model.networks)
        length_ms = windows.slots * model.slot_ns / 1e6
        votes = (
            f"\nUp to {model.voting.most} consecutive intervals of {length_ms:g} ms are combined, "
            f"with a\ncorrelation of {model.voting.correlation:g} between their errors"
        )
        for network in longer:
            lengths = (network.slots, network.row_slots)
            span, row = (slots * model.slot_ns / 1e6 for slots in lengths)
            votes += (
                f"; those of {span:g} ms, in rows of {row:g} ms,\nvote as well, and then a vote "
                f"has the weight {model.voting.part:g}"
            )
        votes += ".\n"
    trained = ""
    if model.trained_on:
        names = ("flows", "rate_bit", "queue_s", "rtt_s")
        flows, rate, queue, rtt = (model.trained_on[name] for name in names)
        trained = (
            f"\nTrained on {flows[0]:g} to {flows[1]:g} flows in a queue, links of "
            f"{rate[0] / 1e6:g} to {rate[1] / 1e6:g} Mbit/s, queues of {queue[0] * 1e3:.3g}\n"
            f"to {queue[1] * 1e3:.3g} ms, round trips of {rtt[0] * 1e3:.3g} to {rtt[1] * 1e3:.3g} "
            "ms. "
            "Outside the first three ranges no congestion control is\n"
            "named; two taps do not measure round trips. "
            f"Confidence is at most {model.confidence_max or 1.0:.2f}.\n"
        )
    return f"""# Congestion controls of flows in a queue

Identifies {named} from {inputs}, of each
{" and ".join(read)}, in slots of {model.slot_ns / 1e6:g} ms at a tap upstream and a tap
downstream of the queue. Used by `wirelens cca --model`.{rest}

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

It is made for drop-tail queues like those of the runs. Measure it first for another mix of rates,
delays and buffers.
"""
