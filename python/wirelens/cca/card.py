"""What a model's card says."""

from collections.abc import Sequence

from wirelens.cca.model import Model, voters_of


def card(model: Model, runs: Sequence[str], note: str) -> str:
    """The card, in Markdown."""
    spans = [f"{network.slots * model.slot_ns / 1e6:g} ms" for network in model.networks]
    rows = "".join(
        f"| {span} | {f1:.3f} | {network.temperature:.2f} | {network.unknown_below:g} |\n"
        for span, f1, network in zip(
            spans, model.training["f1_of_runs_held_out"].values(), model.networks, strict=True
        )
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
    return f"""# Congestion controls of flows in a queue

Names {", ".join(model.controls)} from {inputs} in slots of
{model.slot_ns / 1e6:g} ms at a tap before the queue and one behind it. Read by
`wirelens cca --model`.

{note}| interval | F1 of runs held out | temperature | unknown below |
|---|---:|---:|---:|
{rows}{votes}
Trained on {len(runs)} runs, {runs[0]} to {runs[-1]}, by:

```console
$ {model.training["command"]}
```

The F1 above is that by which training ended and probabilities were calibrated, so it flatters
a little. It holds for queues like those of the runs, and drop-tail; another mix of rates, delays
and buffers has to be tried.
"""
