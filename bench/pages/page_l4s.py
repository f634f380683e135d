"""Tables of docs/evaluation/l4s.md, from rows of `bench/evaluation/l4s/`.

Values are medians over seeds, with the lowest and highest seed in brackets.
"""

from collections.abc import Callable, Sequence
from statistics import mean, median, stdev

from page_rows import RESULTS, Missing, Row, change, changes, read

FOLDER = "2026-11-24-l4s"
DESCRIBED, PREDICTED = "2026-11-25-l4s-predict", "2026-11-25-l4s-predict-2"
OURS = "causal"
# Those that are the same for every seed.
UNDRAWN = ("last-of-flow", "last-of-queue", "littles-law")
# Quantiles of Student's t for intervals of 95 %, by degrees of freedom.
T_95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
AXES = "2026-11-25-l4s-marking/axes.jsonl"
ENCODER = "2026-11-25-l4s-encoder/encoder.jsonl"
MARKING = "2026-11-25-l4s-kernel/marking.jsonl"
SIMULATOR, NS3 = "simulator", "ns-3"
CONTROLS = ("none", "state-informed", "last latency", "random, same rate")
# A median of fewer packets in each run says little.
PACKETS_MIN = 1_000
MEDIAN_WITHIN, P99_WITHIN = 0.15, 0.30


def rows(name: str) -> list[Row]:
    return read(f"{FOLDER}/{name}.jsonl")


def ms(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def spread(values: Sequence[float]) -> str:
    return f"{ms(median(values))} ({ms(min(values))}–{ms(max(values))})"


def worlds() -> str:
    """Delays of each queue in the simulator and in ns-3."""
    found = rows("worlds")
    text = (
        "| scenario | queue | p50 ms, simulator | p50 ms, ns-3 | difference | p99 ms, simulator "
        "| p99 ms, ns-3 | difference |\n|---|---|---|---|---:|---|---|---:|\n"
    )
    for scenario in dict.fromkeys(row["scenario"] for row in found):
        for queue in ("l4s", "classic"):
            pair = [
                [
                    row
                    for row in found
                    if (row["world"], row["scenario"], row["queue"]) == (world, scenario, queue)
                    and row["packets"] >= PACKETS_MIN
                ]
                for world in (SIMULATOR, NS3)
            ]
            if all(pair):
                text += f"| `{scenario}` | {queue} |{_compared(pair, 'p50_ms', MEDIAN_WITHIN)}"
                text += f"{_compared(pair, 'p99_ms', P99_WITHIN)}\n"
    return text


def _compared(pair: Sequence[Sequence[Row]], key: str, within: float) -> str:
    ours, theirs = ([float(row[key]) for row in some] for some in pair)
    difference = median(ours) / median(theirs) - 1
    mark = "" if abs(difference) <= within else "**"
    shown = f"{mark}{difference:+.0%}{mark}".replace("%", " %")
    return f" {spread(ours)} | {spread(theirs)} | {shown} |"


def three() -> str:
    """The default scenario in all worlds."""
    found = [row for row in [*rows("worlds"), *rows("kernel")] if row["scenario"] == "default"]
    text = "| world | runs | L4S p50 ms | p99 ms | classic p50 ms | p99 ms |\n"
    text += "|---|---:|---|---|---|---|\n"
    for world in (SIMULATOR, NS3, "kernel"):
        mine = [row for row in found if row["world"] == world]
        cells = [
            spread([row[key] for row in mine if row["queue"] == queue])
            for queue in ("l4s", "classic")
            for key in ("p50_ms", "p99_ms")
        ]
        text += f"| {world} | {len(mine) // 2} | {' | '.join(cells)} |\n"
    return text


def speed() -> str:
    """CPU time per simulated second."""
    found = [row for row in rows("worlds") if row["queue"] == "l4s"]
    text = "| scenario | CPU ms per simulated s, simulator | ns-3 | times as fast |\n"
    text += "|---|---:|---:|---:|\n"
    for scenario in dict.fromkeys(row["scenario"] for row in found):
        took = [
            median(
                1_000 * row["cpu_s"] / row["simulated_s"]
                for row in found
                if (row["scenario"], row["world"]) == (scenario, world)
            )
            for world in (SIMULATOR, NS3)
        ]
        text += f"| `{scenario}` | {took[0]:.1f} | {took[1]:.0f} | {took[1] / took[0]:.0f} |\n"
    return text


def controls(name: str, *scenarios: str) -> str:
    """What each control came to, by network and router."""
    found = [row for row in rows(name) if not scenarios or row["scenario"] in scenarios]
    if not found:
        raise Missing(f"no rows of {scenarios} in {name}.jsonl")
    text = (
        "| network | router | control | P90 ms | P99 ms | P99 against none | re-marked | dropped "
        "| reordered | Mbit/s | P99 ms, other senders |\n"
        "|---|---|---|---:|---|---|---:|---:|---:|---:|---:|\n"
    )
    for scenario, router in dict.fromkeys((row["scenario"], row["router"]) for row in found):
        mine = [row for row in found if (row["scenario"], row["router"]) == (scenario, router)]
        plain = [row for row in mine if row["control"] == CONTROLS[0]]
        for control in CONTROLS:
            some = [row for row in mine if row["control"] == control]
            text += f"| {scenario} | `{router}` | {control} |{_cells(some, plain)}\n"
    return text


def _cells(some: Sequence[Row], plain: Sequence[Row]) -> str:
    def middle(key: str) -> float:
        return median(row[key] or 0.0 for row in some)

    cross = [row["cross_p99_ms"] for row in some if row["cross_p99_ms"] is not None]
    cells = [
        ms(middle("p90_ms")),
        spread([row["p99_ms"] for row in some]),
        "–" if some[0]["control"] == CONTROLS[0] else _counted(some, plain),
        *(f"{100 * middle(key):.2f} %" for key in ("remarked", "dropped", "reordered")),
        f"{middle('throughput_mbps'):.1f}",
        ms(median(cross)) if cross else "–",
    ]
    return f" {' | '.join(cells)} |"


def _counted(some: Sequence[Row], plain: Sequence[Row]) -> str:
    """How much P99 changes, and with how many seeds it falls."""
    falls = [one < 0 for one in changes(some, plain, "p99_ms")]
    return f"{change(some, plain)}, less with {sum(falls)} of {len(falls)} seeds"


def axis(name: str) -> str:
    """P99 along an axis of SwiftQueue's section 6.2, by router and control."""
    found = rows(name)
    text = f"| {name} | router | P99 ms, none | state-informed | last latency | random |\n"
    text += "|---|---|---|---|---|---|\n"
    for scenario, router in dict.fromkeys((row["scenario"], row["router"]) for row in found):
        mine = [row for row in found if (row["scenario"], row["router"]) == (scenario, router)]
        plain = [row for row in mine if row["control"] == CONTROLS[0]]
        cells = [spread([row["p99_ms"] for row in plain])]
        for control in CONTROLS[1:]:
            cells.append(change([row for row in mine if row["control"] == control], plain))
        value = scenario.partition(f", {name} ")[2]
        text += f"| {value} | `{router}` | {' | '.join(cells)} |\n"
    return text


def traces() -> str:
    """What is in the traces of real traffic."""
    text = (
        "| trace | packets | flows | minutes | median to the ACK, ms | one way, ms "
        "| sharp changes to the ACK | one way |\n|---|---:|---:|---:|---:|---:|---:|---:|\n"
    )
    found = read(f"{DESCRIBED}/traces.jsonl")
    for name in dict.fromkeys(row["trace"] for row in found):
        ack, one_way = (
            next(row for row in found if (row["trace"], row["latency"]) == (name, latency))
            for latency in ("ack", "one-way")
        )
        text += (
            f"| `{name}` | {ack['packets']:,} | {ack['flows']} | {ack['minutes']:.1f} "
            f"| {ack['median_ms']:.1f} | {one_way['median_ms']:.1f} "
            f"| {ack['sharp']['flow']:,} | {one_way['sharp']['flow']:,} |\n"
        )
    return text


def _predicted(name: str = "predict") -> list[Row]:
    return read(f"{PREDICTED}/{name}.jsonl")


def _f1(row: Row) -> float:
    """Of sharp changes within a flow."""
    return _scores(row)[2]


def predicted() -> str:
    """How well predictors predict sharp changes within a flow, on the traces of real traffic."""
    found = [row for row in _predicted() if row["tuned_every_s"] == 300]
    text = (
        "| trace | predictor | seeds | F1 | precision | recall | mean error ms "
        "| root mean square ms | training, CPU s | all tunings, CPU s |\n"
        "|---|---|---:|---|---:|---:|---:|---:|---:|---:|\n"
    )
    for trace, name in dict.fromkeys((row["trace"], row["predictor"]) for row in found):
        mine = [row for row in found if (row["trace"], row["predictor"]) == (trace, name)]
        precision, recall, f1 = zip(*map(_scores, mine), strict=True)
        middle = f"{median(f1):.3f}"
        if len(f1) > 1:
            middle += f" ({min(f1):.3f}–{max(f1):.3f})"
        errors = [
            f"{median(row[key] for row in mine):.1f}"
            for key in ("mean_error_ms", "root_mean_square_ms")
        ]
        seconds = [
            f"{median(row[key] for row in mine):.1f}" for key in ("train_cpu_s", "tune_cpu_s")
        ]
        text += (
            f"| `{trace}` | {name} | {len(mine)} | {middle} | {median(precision):.3f} "
            f"| {median(recall):.3f} | {' | '.join(errors + seconds)} |\n"
        )
    return text


def paired() -> str:
    """How much higher the F1 of our network is than that of each other predictor, over seeds."""
    found = [row for row in _predicted() if row["tuned_every_s"] == 300]
    text = "| trace | predictor | seeds | F1 of `causal` less its F1 | 95 % interval | ratio |\n"
    text += "|---|---|---:|---:|---|---:|\n"
    for trace, name in dict.fromkeys((row["trace"], row["predictor"]) for row in found):
        if name == OURS:
            continue
        by_seed = {
            one: {
                row["seed"]: _f1(row)
                for row in found
                if (row["trace"], row["predictor"]) == (trace, one)
            }
            for one in (OURS, name)
        }
        ours, theirs = by_seed[OURS], by_seed[name]
        if name in UNDRAWN:
            theirs = dict.fromkeys(ours, next(iter(theirs.values())))
        pairs = [(value, theirs[seed]) for seed, value in ours.items() if seed in theirs]
        shown = _interval([one - other for one, other in pairs])
        ratio = mean(one for one, _ in pairs) / max(mean(other for _, other in pairs), 1e-9)
        text += f"| `{trace}` | {name} | {len(pairs)} | {shown} | {ratio:.2f} |\n"
    return text


def _interval(values: Sequence[float]) -> str:
    """Their mean and its 95 % interval, bold where that is on one side of 0."""
    middle = mean(values)
    if len(values) < 2:
        return f"{middle:+.3f} | –"
    half = T_95[len(values) - 1] * stdev(values) / len(values) ** 0.5
    mark = "**" if abs(middle) > half else ""
    return f"{mark}{middle:+.3f}{mark} | {middle - half:+.3f} to {middle + half:+.3f}"


def intervals() -> str:
    """F1 of our network by how often it is fine-tuned."""
    return _by("tuned_every_s", "every", lambda value: f"{value:g} s" if value else "never")


def batches() -> str:
    """F1 of our network by how many packets share a prediction."""
    return _by("batch", "batch", lambda value: f"{value}")


def _by(key: str, name: str, shown: Callable[[float], str]) -> str:
    rows = [row for row in [*_predicted(), *_predicted(name)] if row["predictor"] == OURS]
    if key == "batch":
        rows = [row for row in rows if row["tuned_every_s"] == 300]
    traces = dict.fromkeys(row["trace"] for row in _predicted(name))
    values = sorted({row[key] for row in rows if row["trace"] in traces})
    text = f"| trace | seeds | {' | '.join(map(shown, values))} |\n"
    text += f"|---|---:|{'---|' * len(values)}\n"
    for trace in traces:
        cells, seeds = [], set()
        for value in values:
            some = [row for row in rows if (row["trace"], row[key]) == (trace, value)]
            seeds.add(len(some))
            f1 = list(map(_f1, some))
            cells.append(f"{median(f1):.3f} ({min(f1):.3f}–{max(f1):.3f})")
        text += f"| `{trace}` | {min(seeds)} | {' | '.join(cells)} |\n"
    return text


def _scores(row: Row) -> tuple[float, float, float]:
    """Precision, recall and F1 of sharp changes within a flow."""
    right, told, there = (row[key]["flow"] for key in ("right", "predicted", "changes"))
    f1 = 2 * right / (told + there) if right else 0.0
    return right / max(told, 1), right / max(there, 1), f1


def marking() -> str:
    """What re-marking came to in the kernel, by router and control."""
    if not (RESULTS / MARKING).exists():
        return "*No rows yet.*\n"
    found = read(MARKING)
    text = (
        "| router | control | runs | P90 ms | P99 ms | P99 against none | re-marked | dropped "
        "| reordered | Mbit/s | P99 ms, CUBIC of sender 1 | P99 ms, sender 2 |\n"
        "|---|---|---:|---:|---|---|---:|---:|---:|---:|---:|---:|\n"
    )
    for router, control in dict.fromkeys((row["router"], row["control"]) for row in found):
        mine = [row for row in found if row["router"] == router]
        plain = [row for row in mine if row["control"] == CONTROLS[0]]
        some = [row for row in mine if row["control"] == control]
        cells = [
            str(len(some)),
            ms(median(row["p90_ms"] for row in some)),
            spread([row["p99_ms"] for row in some]),
            "–" if control == CONTROLS[0] else _counted(some, plain),
            *(
                f"{100 * median(row[key] for row in some):.2f} %"
                for key in ("remarked", "dropped", "reordered")
            ),
            f"{median(row['throughput_mbps'] for row in some):.1f}",
            *(ms(median(row[key] for row in some)) for key in ("classic_p99_ms", "cross_p99_ms")),
        ]
        text += f"| `{router}` | {control} | {' | '.join(cells)} |\n"
    return text


def loop() -> str:
    """How `wirelens l4s --act` kept up in these runs."""
    if not (RESULTS / MARKING).exists():
        return "*No rows yet.*\n"
    found = [row for row in read(MARKING) if row["control"] == "predicted"]
    text = (
        "| router | decided | re-marked | by their own prediction | late | packet to decision, "
        "p50 ms | p99 ms | mean error ms | budgets expired | CPU | relay late, p99 µs |\n"
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
    )
    for router in dict.fromkeys(row["router"] for row in found):
        some = [row for row in found if row["router"] == router]

        def middle(key: str, some: Sequence[Row] = some) -> float:
            return median(row[key] for row in some)

        right = sum(row["as_predicted_share"] for row in some)
        wrong = sum(row["otherwise_share"] for row in some)
        cells = [
            f"{100 * middle('decided_share'):.2f} %",
            f"{100 * middle('remarked'):.2f} %",
            f"{100 * right / (right + wrong):.0f} %" if right + wrong else "–",
            f"{100 * middle('late_share'):.2f} %",
            f"{middle('lag_p50_ms'):.2f}",
            f"{middle('lag_p99_ms'):.2f}",
            f"{middle('error_mean_ms'):.1f}",
            f"{middle('budgets_expired'):.0f}",
            f"{100 * middle('cpu_share'):.0f} %",
            f"{max(row['relay_late_p99_us'] for row in some):.0f}",
        ]
        text += f"| `{router}` | {' | '.join(cells)} |\n"
    return text


def axes() -> str:
    """F1 of sharp changes within a flow along the axes of SwiftQueue's section 6.2."""
    by: dict[str, dict[str, list[float]]] = {}
    for row in read(AXES):
        network = row["trace"].partition(", network ")[0]
        by.setdefault(network, {}).setdefault(row["predictor"], []).append(_f1(row))
    names = list(next(iter(by.values())))
    text = f"| network | seeds | {' | '.join(f'`{name}`' for name in names)} |\n"
    text += f"|---|---:|{'---|' * len(names)}\n"
    for network, of in by.items():
        counts = {len(of.get(name, ())) for name in names}
        if len(counts) != 1 or 0 in counts:
            raise Missing(f"{AXES}: {network}: predictors have other seeds")
        cells = [f"{median(f1):.3f} ({min(f1):.3f}–{max(f1):.3f})" for f1 in of.values()]
        text += f"| {network} | {counts.pop()} | {' | '.join(cells)} |\n"
    return text


def encoder() -> str:
    """CPU time of new tokens and queries, by path of the processor."""
    by: dict[str, list[float]] = {}
    for row in read(ENCODER):
        by.setdefault(row["name"], []).append(1e6 * row["cpu_s"] / row["items"])
    text = "| window | new tokens | queries | path | CPU µs, median | lowest | highest |\n"
    text += "|---:|---:|---:|---|---:|---:|---:|\n"
    for name, took in by.items():
        window, tokens, queries, path = name.split(", ")
        numbers = (window.split()[1], tokens.split()[0], queries.split()[0])
        times = (median(took), min(took), max(took))
        text += f"| {' | '.join(numbers)} | `{path}` | {' | '.join(map(ms, times))} |\n"
    return text
