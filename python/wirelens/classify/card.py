"""The model card: what a cascade is for, what it was made of and how far it may be believed."""

from typing import TYPE_CHECKING

import numpy

from wirelens.classify import report, strangers
from wirelens.classify.calibration import UNKNOWN
from wirelens.classify.pool import PORT_TABLE
from wirelens.learn.report import table

if TYPE_CHECKING:
    from wirelens.classify.steps import Outcome, Request


def text(request: "Request", outcome: "Outcome") -> str:
    """The card, in Markdown."""
    parts = [
        _about(request, outcome),
        strangers_section(request, outcome),
        _stages(request, outcome),
        _quality(outcome),
        _data(request, outcome),
    ]
    return "\n".join([*parts, _limits(outcome)])


def strangers_section(request: "Request", outcome: "Outcome") -> str:
    """What the cascade is worth on the flows that judge it, beside a table of ports."""
    dataset, evidence, plan = outcome.dataset, outcome.evidence, outcome.plan
    judged = strangers.OpenSet(evidence.truth, evidence.families, evidence.classes, outcome.answers)
    known = None
    if request.pool.known_ports is not None:
        rows = plan.test if len(plan.test) else plan.checked
        sample = dataset.sample.of(rows)
        known = strangers.known_port_names(request.pool.known_ports, sample, dataset.classes)
    choice = outcome.calibrated.choice
    return strangers.section(judged, choice.below, choice.why, outcome.judged_on, known)


def _about(request: "Request", outcome: "Outcome") -> str:
    classes = ", ".join(name for name in outcome.dataset.classes if name != UNKNOWN)
    found = f"""# {request.name}

Classifies flows from their first packets: {classes}.

```console
$ wirelens classify -r capture.pcap --model {request.output.name}
```
"""
    if request.command:
        found += f"\nCreated by\n\n```console\n$ {request.command}\n```\n"
    return found


def _beside(request: "Request") -> str:
    """What is known beside a flow's packets."""
    parts = []
    if request.pool.names is not None:
        parts.append(
            "Server names in packets are evidence: `names.tsv` assigns protocols, "
            "domains and words of names\nto classes. A stage of one packet uses the names known by "
            f"then, the others wait for names for at most {request.pool.names.packets} packets."
        )
    if request.memory is not None:
        parts.append(
            "Host memory: a flow's probabilities are multiplied by the shares of the verdicts on "
            "earlier flows of\nits source, with a half-life of "
            f"{request.memory.half_life_s:g} s. All figures here are with host memory, which is "
            "empty at the start of each capture."
        )
    return "".join(f"{part}\n\n" for part in parts)


def _stages(request: "Request", outcome: "Outcome") -> str:
    rows = []
    operation = outcome.operation
    for index, (stage, model) in enumerate(outcome.stage_models()):
        is_last = index >= len(operation.points)
        kind = "" if is_last else operation.rules[index].measure
        how = ""
        if not is_last:
            point = operation.points[index]
            is_one = point.is_universal
            how = f"{point.thresholds[0]:.4f}" if is_one else "one for each class"
        profile = model.profile
        rows.append(
            [stage, profile.family, str(profile.packets), f"{profile.alone_us:.2f}",
             f"{profile.batch_us:.2f}", kind, how]
        )  # fmt: skip
    header = ["stage", "family", "packets", "µs alone", "µs in batches", "uncertainty", "threshold"]
    reasons = "\n".join(f"- {reason}" for reason in outcome.placement.reasons)
    said = f"{table(header, rows)}\n{_beside(request)}"
    return f"""## Stages

{said}A flow is passed to the next stage if this one is less confident than its threshold. The
operating point is {operation.why}.

Why these models:

{reasons}
"""


def _quality(outcome: "Outcome") -> str:
    evidence = outcome.evidence
    cascade = report.System("cascade", outcome.verdicts.labels, outcome.operation.service_us)
    in_use = {model.name for _, model in outcome.stage_models()}
    ports = [one for one in outcome.singles if one.name.startswith(PORT_TABLE)]
    others = [one for one in outcome.singles if one.name in in_use]
    others += [one for one in ports if one.name not in in_use]
    names = [(stage, profile.name) for stage, profile in outcome.placement.stages]
    beside = ports[0] if ports else None
    predicted, stages = outcome.verdicts.labels, outcome.verdicts.stages
    return f"""## How good it is

On {len(evidence.truth)} {outcome.judged_on}. Intervals are over families of captures.

{report.systems_table(evidence, [cascade, *others], beside)}
{report.stages_table(evidence, predicted, stages, names)}
{report.classes_table(evidence, predicted, beside)}"""


def _data(request: "Request", outcome: "Outcome") -> str:
    dataset = outcome.dataset
    captures = len(numpy.unique(dataset.capture_of))
    counts = ", ".join(f"{name} {count}" for name, count in dataset.flows_by_class().items())
    dropped = ", ".join(request.recipe.dropped) or "none"
    note = f"{request.note}\n\n" if request.note else ""
    return f"""## Data

{note}{len(dataset)} labelled flows of {captures} captures: {counts}. {outcome.split_told};
{dataset.oddities()}.
Fingerprint of captures and labels: `{dataset.fingerprint}`.

Features: {len(outcome.matrix.bit_columns)} bits of headers and
{len(outcome.matrix.number_columns)} numbers at the greatest depth. Excluded: {dropped}.
"""


def _limits(outcome: "Outcome") -> str:
    is_merged = outcome.dataset.segmentation == "merged"
    merged = (
        "Some training packets were segments merged by an offload."
        if is_merged
        else "No training packet was merged by an offload; if yours are, sizes have another "
        "meaning, and verdicts are marked."
    )
    below = outcome.calibrated.choice.below
    named = (
        f"A flow gets one of these classes, or `unknown` if the probability of the likeliest class is below {below:.2f}"
        if below
        else "Every flow gets one of these classes, even if it belongs to none"
    )
    return f"""## Limits

{named}. Traffic of other networks, times
and
programs than those of the training captures is classified worse than in the table; measure
it on your own labelled captures with `wirelens eval classify`. {merged}
"""
