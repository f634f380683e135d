"""What the card of a model of one tap says."""

from collections.abc import Sequence

from wirelens.cca.model import Model
from wirelens.cca.onetap.evaluate import Row, table
from wirelens.cca.onetap.rows import ROWS_PER_RTT
from wirelens.cca.onetap.splits import Split


def card(model: Model, split: Split, rows: Sequence[Row], note: str) -> str:
    """The card, in Markdown; `rows` are of the held-out runs."""
    assert model.trained_on is not None, "a model of one tap has a range"
    rate = " to ".join(f"{bound / 1e6:.3g}" for bound in model.trained_on["rate_bit"])
    rtt = " to ".join(f"{bound * 1e3:.3g}" for bound in model.trained_on["rtt_s"])
    train, validation = (len({id(run) for run in of}) for of in (split.train, split.validation))
    networks = "".join(
        f"| {network.slots} rows ({network.slots // ROWS_PER_RTT} RTTs) | "
        f"{network.temperature:.2f} | {network.unknown_below:g} |\n"
        for network in model.networks
    )
    quality = (
        f"{table(rows)}\nOn held-out runs: none of them was used to train the network, to end "
        "training or to calibrate\nprobabilities. A window is the last one of a flow at a tap.\n"
        if rows
        else "No run was held out. Measure it with `wirelens eval cca --model THIS -r RUNS`.\n"
    )
    inputs = ", ".join(f"`{name}`" for name in model.inputs)
    controls = ", ".join(model.controls)
    note = f"{note}\n\n" if note else ""
    return f"""# Congestion controls of flows at one tap

Identifies {controls}
from {inputs} in rows
of a quarter of the RTT, at one tap that sees data and acknowledgements. Used by
`wirelens cca --model` without `--egress`.

{note}## Quality

{quality}
## Networks

| window | temperature | unknown below |
|---|---:|---:|
{networks}
Below that probability no congestion control is named: from there on, 85 % of the named windows of
the validation runs are right. Nor is one outside the range of 99 % of the training windows:
{rate} Mbit/s acknowledged, a mean RTT of {rtt} ms.
Confidence is at most {model.confidence_max or 1.0:.2f}.

Trained on {train:,} runs; {validation:,} more ended training and calibrated probabilities; by:

```console
$ {model.training["command"]}
```
"""
