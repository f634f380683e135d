"""The model card: what a model judges, what it was made of and how far it may be trusted."""

from typing import TYPE_CHECKING

from wirelens.learn.report import table
from wirelens.packetlog import measure
from wirelens.packetlog.truth import ANOMALOUS_ROLES, CONGESTED_WAIT_NS

if TYPE_CHECKING:
    from wirelens.packetlog.train import Outcome, Request

_SHOWN_COLUMNS = 10

_WHAT = {
    "attacks": "Classifies each packet on arrival: whether it belongs to an attack.",
    "congestion": "Classifies each packet on arrival: whether it waited in a standing queue.",
    "unknown": "Classifies each packet on arrival: whether it is surely familiar, benign traffic; "
    "all else is `unknown`, and stored in full.",
}
_TRUTH = {
    "attacks": "Packets of these roles are anomalous: " + ", ".join(ANOMALOUS_ROLES) + ". Replies "
    "of the other side belong to an attack, since they show its outcome. Intercepted packets "
    "are left out: they are benign, and nothing in them shows that they took a detour.",
    "congestion": f"A packet is congested if it waited more than {CONGESTED_WAIT_NS / 1e6:g} ms in "
    "the queue upstream of the capture (CoDel's bound for a standing queue, RFC 8289), by "
    "the testbed's own record of its arrival and departure.",
    "unknown": "In addition to benign packets and labelled attacks, it was trained on drawn "
    "packets, which are benign ones with some columns of other benign ones.",
}
_LIMITS = {
    "attacks": "It is accurate only on networks like those in training. Benign traffic of other "
    "programs may be marked and other attacks missed. For these the figures of *unseen* above are "
    "the better estimate, though most unseen attacks have their tool in training; for other "
    "networks neither figure applies. It is meant to choose how much of a packet is stored, not to "
    "raise alarms. Payload is not inspected, so attacks that differ from benign use in it alone, "
    "such as one malicious request, look benign.",
    "congestion": "It was trained on one link at a time, shared by bulk transfers. A queue in "
    "which few flows wait, or elsewhere on the path, looks different.",
    "unknown": "Benign traffic of programs that it was not trained on is `unknown` by design; train "
    "it on your own.",
}


def text(request: "Request", outcome: "Outcome") -> str:
    """The card, in Markdown."""
    parts = [_about(request, outcome), _features(outcome), _data(request, outcome)]
    if len(outcome.tried) > 1 or outcome.tried[0].known:
        parts.append(_quality(request, outcome))
    parts.append(f"## Limits\n\n{_LIMITS[request.use]}\n")
    return "\n".join(parts)


def _about(request: "Request", outcome: "Outcome") -> str:
    classes = ", ".join(outcome.model.classes)
    found = f"# {request.output.resolve().name}\n\n{_WHAT[request.use]} Classes: {classes}.\n"
    if request.command:
        found += f"\nCreated by\n\n```console\n$ {request.command}\n```\n"
    if request.note:
        found += f"\n{request.note}\n"
    return found


def _features(outcome: "Outcome") -> str:
    one = outcome.model
    trees = one.flow_forest.trees
    nodes = sum(len(tree.feature) for tree in [*trees, *one.packet_forest.trees])
    options = one.options.to_json()
    window_s = options["window_ns"] / 1e9
    reuse = one.verdict_reuse
    again = (
        f"""
The last verdict of a flow is used again until the flow has grown by {reuse["growth_percent"]} % in
the window, or begins or ends; {reuse["flows"]} flows are stored.
"""
        if reuse
        else ""
    )
    rows = sorted(outcome.importance.items(), key=lambda item: -item[1])[:_SHOWN_COLUMNS]
    shown = table(["column", "share of splits"], [[name, f"{part:.3f}"] for name, part in rows])
    return f"""## Model

Two forests of {len(trees)} trees, {nodes} nodes together: one for packets with flow state,
one for others, such as ARP. They read {len(one.columns)} columns. Sums are by
{", ".join(one.options.keys)}, in a {options["source"]}, in windows of {window_s:g} s.
{again}
{shown}"""


def _data(request: "Request", outcome: "Outcome") -> str:
    rows = outcome.rows
    by_family: dict[str, list[int]] = {}
    marked = outcome.chosen.places
    for index, place in enumerate(rows.places):
        by_family.setdefault(place, []).append(index)
    lines = []
    for family, indexes in by_family.items():
        mine = sum((rows.capture_of == index) for index in indexes) > 0
        counts = rows.counts * mine
        lines.append([
            family, str(len(indexes)), f"{counts.sum():.0f}",
            f"{counts[rows.is_anomalous].sum():.0f}",
            f"{marked[family]:.1%}" if family in marked else "",
        ])  # fmt: skip
    shown = table(
        ["captures of", "captures", "packets", "anomalous", f"{request.first_class} marked"], lines
    )
    return f"""## Data

{shown}
{_TRUTH[request.use]} {len(rows)} packets were drawn,
equally from the labels and roles of each capture. In training, places have equal
weight, and so do the captures of each, and attacks. The last column is by folds, as under Quality.
{_sealed(request, outcome)}"""


def _sealed(request: "Request", outcome: "Outcome") -> str:
    if not request.sealed:
        return ""
    names = ", ".join(outcome.sealed) or "none of those that were given"
    return (
        f"\nSealed are {request.sealed:.0%} of the places, by a hash of their names, which trained "
        f"and chose nothing: {names}.\n"
    )


def _quality(request: "Request", outcome: "Outcome") -> str:
    chosen = outcome.chosen
    has_unseen = bool(chosen.unseen)
    unseen = ["recall, unseen"] if has_unseen else []
    weights = table(
        ["weight", "threshold", "benign marked", "recall, known", *unseen, "precision"],
        [
            [
                f"{one.weight:g}", f"{one.threshold:.3f}", f"{one.false_alarms:.2%}",
                f"{one.mean_known:.3f}", *([f"{one.mean_unseen:.3f}"] if has_unseen else []), f"{one.precision:.3f}",
            ]
            for one in outcome.tried
        ],
    )  # fmt: skip
    attacks = table(
        ["", "recall, known", *unseen],
        [
            [label, f"{recall:.3f}", *([f"{chosen.unseen[label]:.3f}"] if has_unseen else [])]
            for label, recall in sorted(chosen.known.items())
        ],
    )
    how = "By folds of captures" if not outcome.is_by_time else (
        "By parts of captures, in time, since there are too few captures (which is optimistic)"
    )  # fmt: skip
    without = " and, for\n*unseen*, without any packet of its attack" if has_unseen else ""
    return f"""## Quality

{how}: each packet was classified by a forest trained without its capture{without}.
Means over attacks; of {request.first_class} packets over places, and the captures of each.
{_choice(request, outcome)}
Precision is of the captures as they are, in which the class is more common than elsewhere;
if it were {measure.RARE:.0%} of packets, precision would be
{_rare(chosen.mean_known, chosen.false_alarms):.2f}.

{weights}
With that weight{_moved(outcome)}:

{attacks}"""


def _moved(outcome: "Outcome") -> str:
    at = outcome.chosen.threshold
    if at == 0.5:
        return ""
    return f" (leaves are moved so that a score of {at:.3f} becomes 0.5)"


def _choice(request: "Request", outcome: "Outcome") -> str:
    chosen, limit = outcome.chosen, request.false_alarms_max
    if len(outcome.tried) == 1:
        given = f"The weight of anomalous packets, {chosen.weight:g}, was given."
        return given + _at(outcome, limit)
    if chosen.false_alarms > limit:
        return (
            f"Of these weights, {chosen.weight:g} was chosen: all mark more than the {limit:.0%} of "
            f"{request.first_class} packets that were asked for, and it marks the fewest."
        )
    what = "unseen attacks" if chosen.unseen else "the class"
    return (
        f"Of these weights, {chosen.weight:g} was chosen: it finds most of {what} if all mark at "
        f"most {limit:.0%} of {request.first_class} packets." + _at(outcome, limit)
    )


def _at(outcome: "Outcome", limit: float) -> str:
    if len(outcome.model.classes) > 2:
        return ""
    return (
        f" A packet is marked if its score is above the threshold, at which {limit:.0%} of "
        f"{outcome.model.classes[0]} packets are."
    )


def _rare(recall: float, false_alarms: float) -> float:
    right = measure.RARE * recall
    return right / max(right + (1 - measure.RARE) * false_alarms, 1e-300)
