"""Tables of docs/evaluation/l4s-marking.md: what the model that ships does to queues, from rows of
`bench/evaluation/l4s/predicted.sh`.

Values are medians over seeds; changes are those of each seed against default marking, with the
lowest and highest in brackets.
"""

from collections.abc import Sequence
from statistics import median

from page_l4s import ms
from page_rows import Missing, Row, change, changes, read

FOLDER = "2026-11-25-l4s-marking"
THRESHOLDS = "2026-11-25-l4s-threshold"
NONE, STATE, PREDICTED = "none", "state-informed", "predicted"
# P99 that rises by more counts as worse.
WORSE_PERCENT = 5.0
OTHERS = (STATE, "last latency", PREDICTED, "random, rate of predicted")


def _networks(name: str) -> list[tuple[str, str, dict[str, list[Row]]]]:
    """Rows by network, router and control, with the same seeds in the same order."""
    found = read(f"{FOLDER}/{name}.jsonl")
    if not found:
        raise Missing(f"no rows in {name}.jsonl")
    networks = []
    for scenario, router in dict.fromkeys((row["scenario"], row["router"]) for row in found):
        of: dict[str, list[Row]] = {}
        for row in found:
            if (row["scenario"], row["router"]) == (scenario, router):
                of.setdefault(row["control"], []).append(row)
        seeds = [row["seed"] for row in of[NONE]]
        if any([row["seed"] for row in rows] != seeds for rows in of.values()):
            raise Missing(f"{name}.jsonl: other seeds of a control in {scenario}, {router}")
        networks.append((scenario, router, of))
    return networks


def _remarked(some: Sequence[Row]) -> str:
    return f"; {100 * median(row['remarked'] for row in some):.1f} %"


def p99(name: str) -> str:
    """P99 of L4S packets by network and router, and its change by each control."""
    text = (
        "| network | router | P99 ms, default | state-informed | last latency | **predicted** "
        "| random, same rate |\n|---|---|---:|---|---|---|---|\n"
    )
    for scenario, router, of in _networks(name):
        cells = [change(of[control], of[NONE]) + _remarked(of[control]) for control in OTHERS]
        default = ms(median(row["p99_ms"] for row in of[NONE]))
        text += f"| {scenario} | `{router}` | {default} | {' | '.join(cells)} |\n"
    return text


def cost(name: str) -> str:
    """What it costs, and others: throughput, drops, order, P99 of other flows."""
    text = (
        "| network | router | throughput | dropped, default | predicted | reordered, predicted "
        "| P99 of its classic flows | P99 of other senders |\n"
        "|---|---|---|---:|---:|---:|---|---|\n"
    )
    for scenario, router, of in _networks(name):
        plain, steered = of[NONE], of[PREDICTED]

        def share(rows: Sequence[Row], key: str) -> str:
            return f"{100 * median(row[key] for row in rows):.2f} %"

        cells = [
            change(steered, plain, "throughput_mbps"),
            share(plain, "dropped"),
            share(steered, "dropped"),
            share(steered, "reordered"),
            change(steered, plain, "classic_p99_ms"),
            change(steered, plain, "cross_p99_ms"),
        ]
        text += f"| {scenario} | `{router}` | {' | '.join(cells)} |\n"
    return text


def axis(name: str) -> str:
    """P99 along an axis of SwiftQueue's section 6.2."""
    text = p99(name)
    head, rule, *lines = text.splitlines()
    head = head.replace("| network |", f"| {name} |")
    lines = [line.replace(f"| sensitivity, {name} ", "| ", 1) for line in lines]
    return "\n".join([head, rule, *lines]) + "\n"


def worlds() -> str:
    """The model in ns-3 and in the simulator."""
    found = read(f"{FOLDER}/ns3.jsonl")
    text = (
        "| network | router | world | P99 ms, default | state-informed | **predicted** | re-marked "
        "| throughput |\n|---|---|---|---:|---|---|---:|---|\n"
    )
    for scenario, router in dict.fromkeys((row["scenario"], row["router"]) for row in found):
        for world in ("simulator", "ns-3"):
            of = {
                control: [
                    row
                    for row in found
                    if (row["scenario"], row["router"]) == (scenario, router)
                    and (row["world"], row["control"]) == (world, control)
                ]
                for control in (NONE, STATE, PREDICTED)
            }
            if not all(of.values()):
                raise Missing(f"ns3.jsonl: {scenario}, {router}, {world}: a control has no rows")
            cells = [
                ms(median(row["p99_ms"] for row in of[NONE])),
                change(of[STATE], of[NONE]),
                change(of[PREDICTED], of[NONE]),
                f"{100 * median(row['remarked'] for row in of[PREDICTED]):.1f} %",
                change(of[PREDICTED], of[NONE], "throughput_mbps"),
            ]
            text += f"| {scenario} | `{router}` | {world} | {' | '.join(cells)} |\n"
    return text


def verdict() -> str:
    """By router, over all networks with messages: medians over networks and seeds."""
    text = (
        "| router | P99 of the sender's L4S packets | controller that sees both queues | re-marked "
        "| throughput | P99 of other senders |\n|---|---|---|---:|---|---|\n"
    )
    networks = [one for one in _networks("controls") if one[0] != "greedy"]
    for router in dict.fromkeys(router for _, router, _ in networks):
        some = [of for _, of_router, of in networks if of_router == router]

        def middle(control: str, key: str, some: list[dict[str, list[Row]]] = some) -> str:
            found = [value for of in some for value in changes(of[control], of[NONE], key)]
            return f"{median(found):+.0f} %"

        remarked = median(row["remarked"] for of in some for row in of[PREDICTED])
        cells = [
            middle(PREDICTED, "p99_ms"),
            middle(STATE, "p99_ms"),
            f"{100 * remarked:.1f} %",
            middle(PREDICTED, "throughput_mbps"),
            middle(PREDICTED, "cross_p99_ms"),
        ]
        text += f"| `{router}` | {' | '.join(cells)} |\n"
    return text


def thresholds() -> str:
    """How P99 changes by the marker's threshold, and by random re-marking of next to nothing."""
    found = read(f"{THRESHOLDS}/threshold.jsonl")
    text = (
        "| world | network | router | control | seeds | P99 against default "
        "| seeds above +5 % | re-marked, median | highest |\n"
        "|---|---|---|---|---:|---|---:|---:|---:|\n"
    )
    places = [(row["router"], row["world"], row["scenario"]) for row in found]
    for router, world, network in dict.fromkeys(places):
        of: dict[str, list[Row]] = {}
        for row, place in zip(found, places, strict=True):
            if place == (router, world, network):
                of.setdefault(row["control"], []).append(row)
        for control, rows in of.items():
            if control == NONE:
                continue
            higher = sum(one > WORSE_PERCENT for one in changes(rows, of[NONE], "p99_ms"))
            remarked = [100 * row["remarked"] for row in rows]
            text += (
                f"| {world} | {network} | `{router}` | {control} | {len(rows)} "
                f"| {change(rows, of[NONE])} | {higher} "
                f"| {median(remarked):.2f} % | {max(remarked):.2f} % |\n"
            )
    return text
