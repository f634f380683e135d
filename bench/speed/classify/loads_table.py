"""Rows of bench/speed/classify/loads.py as a table, and as pictures."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

Row = dict[str, Any]

# Of the systems that are drawn: colour, line and its width, which falls so that a line on another
# is seen.
_STYLES = {
    "FastTraffic": ("#4a5568", "-", 6.5),
    "LEXNet": ("#a9b4c6", "-", 4.6),
    "best effort": ("#d9a441", "-", 3.0),
    "queueing": ("#b5483a", "-", 1.5),
    "ours, as shipped, in ONNX Runtime": ("#6bb3ae", "-", 3.6),
    "ours, as shipped": ("#0b7a75", "-", 1.5),
    "ours, as shipped, in batches": ("#0b7a75", ":", 1.8),
    "ours, chosen": ("#5b8c2a", "-", 1.8),
}
# What rows call systems, for those who see the picture alone.
_NAMES = {
    "ours, as shipped": "Wirelens, as shipped then",
    "ours, as shipped, in batches": "Wirelens as shipped then, in batches",
    "ours, as shipped, in ONNX Runtime": "Wirelens as shipped then, in ONNX Runtime",
    "ours, chosen": "Wirelens, ports first",
    "queueing": "queueing (slow model, waits)",
    "best effort": "best effort (slow model, drops)",
}
_BY_DEPTH = ("ours, by depth", "queueing, by depth")
SHOWN = 4_000


def write(folder: Path) -> None:
    """table.md, rates.png and latency.png beside runs.jsonl."""
    rows = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
    facts = json.loads((folder / "environment.json").read_text())
    costs = json.loads((folder / "costs.json").read_text())
    (folder / "table.md").write_text(text(rows, facts, costs), encoding="utf-8")
    note = f"emulated from times measured on {facts['cpu']}, {facts['cores']} cores"
    title = costs["task"]
    compared = [row for row in rows if row["consumers"] == 1 and row["system"] in _STYLES]
    draw_rates(compared, title, note, folder / "rates.png")
    shown = [row for row in compared if row["flows_per_s"] == SHOWN]
    draw_latency(shown, title, note, folder)


def told_us(value: float) -> str:
    """Microseconds in the unit that fits."""
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} µs"


def rate(value: float) -> str:
    """Flows a second."""
    return f"{value:,.0f}"


def portion(value: float) -> str:
    """A part of all."""
    return f"{100 * value:.1f} %"


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, numbers to the right."""
    rule = ["---", *("---:" for _ in head[1:])]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *lines)) + "\n"


def by_load(rows: list[Row], value: Callable[[Row], str]) -> str:
    """A line a system, a column a load."""
    loads = sorted({row["flows_per_s"] for row in rows})
    names = list(dict.fromkeys(row["system"] for row in rows))
    found = {(row["system"], row["flows_per_s"]): value(row) for row in rows}
    lines = [[name, *(found.get((name, load), "") for load in loads)] for name in names]
    return table(["new flows a second", *map(rate, loads)], lines)


def text(rows: list[Row], facts: dict[str, Any], costs: dict[str, Any]) -> str:
    """The whole table."""
    one = [row for row in rows if row["consumers"] == 1 and row["system"] not in _BY_DEPTH]
    shown = [row for row in one if row["flows_per_s"] == SHOWN]
    machine = f"{facts['cpu']}, {facts['cores']} cores, load {facts['load_before'][0]:.1f}"
    held, short = costs["flows"]["held_out"], costs["flows"]["short"]
    parts = [
        f"# Loads of new flows, emulated: {costs['task']}\n",
        (
            f"{facts['date']}, commit {facts['commit']}. {machine}. {held} held-out flows, "
            f"{portion(short['10'])} of them shorter than 10 packets. Times of models are "
            "measured, the rest is emulated: see docs/guide/classify-loads.md.\n"
        ),
        "## What a model takes\n",
        _costs(costs),
        "## Service rate: verdicts a second, one consumer\n",
        by_load(one, lambda row: rate(row["service_rate"])),
        "## Flows without a verdict\n",
        by_load(one, lambda row: portion(row["missed"])),
        "## Mean latency\n",
        by_load(one, lambda row: told_us(row["latency_mean_us"])),
        "## Median latency\n",
        by_load(one, lambda row: told_us(row["latency_median_us"])),
        f"## At {rate(SHOWN)} new flows a second\n",
        _breakdown(shown),
        "## Consumers\n",
        _consumers(rows),
        "## Depth of the slow model\n",
        _depths([row for row in rows if row["system"] in _BY_DEPTH]),
    ]
    return "\n".join(parts)


def _costs(costs: dict[str, Any]) -> str:
    lines = []
    for name, stages in costs.items():
        # The same models are asked about in batches, and by best effort.
        if not isinstance(stages, list) or name.endswith("in batches") or "depth" in name:
            continue
        if name == "best effort":
            continue
        for stage in stages:
            wanted = ("alone_mean", "alone_p99", "batch_mean")
            figures = (told_us(stage[f"{what}_us"]) for what in wanted)
            lines.append([f"{name}: {stage['model']}", *figures])
    head = ["model", "alone, mean", "alone, p99", "in batches of 64, mean"]
    packet = told_us(costs["packet_us"])
    return table(head, lines) + f"\nEach packet up to the depth: {packet} beside that.\n"


def _breakdown(rows: list[Row]) -> str:
    times = ("latency_median", "latency_mean", "latency_p99")
    means = ("packets_mean", "queued_mean", "spent_mean")
    lines = [
        [
            row["system"],
            *(told_us(row[f"{name}_us"]) for name in (*times, *means)),
            portion(row["missed"]),
            f"{row['macro_f1']:.3f}",
            f"{row['weighted_f1']:.3f}",
            " / ".join(portion(part) for part in row["decided"]),
        ]
        for row in rows
    ]
    head = [
        "system",
        "median",
        "mean",
        "p99",
        "waiting for packets, mean",
        "in a queue, mean",
    ]
    head += ["worked on, mean", "missed", "macro-F1", "weighted F1", "decided by stage"]
    return table(head, lines)


def _busy(row: Row) -> str:
    """Work that came in 60 s, of 60 s of each consumer; more than there is where a queue grows."""
    return portion(row["busy"]) if row["busy"] < 1 else "all the time"


def _consumers(rows: list[Row]) -> str:
    lines = []
    for name in ("queueing", "ours, as shipped"):
        for consumers in (1, 2):
            same = [row for row in rows if row["system"] == name and row["consumers"] == consumers]
            best = max(same, key=lambda row: row["service_rate"])
            figures = [rate(best["service_rate"]), rate(best["flows_per_s"]), _busy(best)]
            lines.append([f"{name}, {consumers}", *figures])
    return table(["system, consumers", "most verdicts a second", "at", "busy"], lines)


def _depths(rows: list[Row]) -> str:
    depths = sorted({row["depth"] for row in rows})
    top = max(row["flows_per_s"] for row in rows)
    lines = []
    for name in _BY_DEPTH:
        found = {(row["depth"], row["flows_per_s"]): row for row in rows if row["system"] == name}
        kinds: list[tuple[str, float, Callable[[Row], str]]] = [
            ("macro-F1", SHOWN, lambda row: f"{row['macro_f1']:.3f}"),
            ("weighted F1", SHOWN, lambda row: f"{row['weighted_f1']:.3f}"),
            ("mean latency", SHOWN, lambda row: told_us(row["latency_mean_us"])),
            ("median latency", SHOWN, lambda row: told_us(row["latency_median_us"])),
            ("decided by the slow model", SHOWN, lambda row: portion(row["decided"][-1])),
            ("most verdicts a second", top, lambda row: rate(row["service_rate"])),
        ]
        label = name.removesuffix(", by depth")
        lines += [
            [f"{label}: {what}", *(told(found[depth, load]) for depth in depths)]
            for what, load, told in kinds
        ]
    sent = f"\nAt {rate(SHOWN)} new flows a second; most verdicts at {rate(top)}.\n"
    return table(["packets", *map(str, depths)], lines) + sent


def draw_rates(rows: list[Row], title: str, note: str, path: Path) -> None:
    """Service rate, mean latency and missed flows by load."""
    figure, panels = plt.subplots(1, 3, figsize=(14, 4.6), layout="constrained")
    figure.get_layout_engine().set(rect=(0, 0.12, 1, 0.88))
    shown = (
        ("service_rate", "verdicts a second", 1.0, "log"),
        ("latency_mean_us", "mean latency, seconds", 1e-6, "log"),
        ("missed", "flows without a verdict, %", 100.0, "linear"),
    )
    loads = sorted({row["flows_per_s"] for row in rows})
    panels[0].plot(loads, loads, color="#c7ccd4", linewidth=1, zorder=1)
    for axes, (name, label, scale, kind) in zip(panels, shown, strict=True):
        for system, (colour, line, width) in _STYLES.items():
            same = sorted((r for r in rows if r["system"] == system), key=_load_of)
            values = [scale * row[name] for row in same]
            axes.plot(
                [_load_of(row) for row in same],
                values,
                line,
                color=colour,
                label=_NAMES.get(system, system),
                linewidth=width,
                solid_capstyle="round",
                marker=".",
                markersize=max(5, 1.8 * width),
            )
        axes.set_xscale("log")
        axes.set_yscale(kind)
        _dress(axes, "new flows a second", label)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="lower center",
        ncols=(len(labels) + 1) // 2,
        fontsize=9,
        frameon=False,
    )
    figure.suptitle(f"One consumer under load: {title}", fontsize=12, x=0.01, ha="left")
    figure.text(0.99, 0.965, note, fontsize=8, color="#555555", ha="right")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def draw_latency(rows: list[Row], title: str, note: str, folder: Path) -> None:
    """Distribution of latency, and what it is made of."""
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(13, 4.8), layout="constrained", width_ratios=(1.1, 1)
    )
    figure.get_layout_engine().set(rect=(0, 0.1, 1, 0.84))
    rows = sorted(rows, key=lambda row: list(_STYLES).index(row["system"]))
    for row in rows:
        colour, line, width = _STYLES[row["system"]]
        name = _NAMES.get(row["system"], row["system"])
        seconds = [max(value, 0.1) / 1e6 for value in row["latency_percentiles_us"]]
        left.plot(seconds, range(1, 101), line, color=colour, label=name, linewidth=width)
    left.set_xscale("log")
    _dress(left, "from first packet to verdict, seconds", "% of classified flows")
    handles, labels = left.get_legend_handles_labels()
    below: dict[str, Any] = {"loc": "lower center", "ncols": (len(labels) + 1) // 2}
    figure.legend(handles, labels, fontsize=9, frameon=False, **below)
    parts = (
        ("packets_mean_us", "waiting for packets", "#8d99ae", "o"),
        ("queued_mean_us", "in a queue", "#d9a441", "s"),
        ("worked_mean_us", "worked on", "#0b7a75", "D"),
    )
    # Dots: a bar on a logarithmic axis has no zero to stand on.
    for name, label, colour, marker in parts:
        values = [row[name] / 1e6 for row in rows]
        there = [(value, place) for place, value in enumerate(values) if value > 0]
        right.plot(*zip(*there, strict=True), marker, color=colour, label=label)
    right.set_xscale("log")
    names = [_NAMES.get(row["system"], row["system"]) for row in rows]
    right.set_yticks(range(len(rows)), names, fontsize=9)
    right.set_ylim(len(rows) - 0.5, -0.5)
    _dress(right, "mean of classified flows, seconds (nothing in a queue: no square)", "")
    right.set_axisbelow(True)
    right.legend(fontsize=8, frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
    figure.suptitle(
        f"Latency at {rate(SHOWN)} new flows a second, one consumer: {title}",
        fontsize=12,
        x=0.01,
        ha="left",
    )
    figure.text(0.99, 0.965, note, fontsize=8, color="#555555", ha="right")
    figure.savefig(folder / "latency.png", dpi=120)
    plt.close(figure)


def _load_of(row: Row) -> float:
    return float(row["flows_per_s"])


def _dress(axes: Axes, across: str, up: str) -> None:
    axes.set_xlabel(across, fontsize=9)
    axes.set_ylabel(up, fontsize=9)
    axes.grid(which="major", color="#e3e6ea")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
