"""Tables and pictures of compared controls."""

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from wirelens.l4s.controls import CONTROLS, NONE, Row
from wirelens.learn.plots import COLOURS, STYLE, need_library, save

_COLUMNS = (
    "network",
    "router",
    "control",
    "P90 ms",
    "P99 ms",
    "P99 against none",
    "re-marked",
    "dropped",
    "reordered",
    "Mbit/s",
    "P99 ms of its CUBIC flows",
    "P99 ms of other senders",
)


def table(rows: Sequence[Row]) -> str:
    """Medians over seeds, and from the lowest to the highest of them where it matters."""
    text = f"| {' | '.join(_COLUMNS)} |\n{'|---' * len(_COLUMNS)}|\n"
    for scenario, router in dict.fromkeys((row.scenario, row.router) for row in rows):
        mine = [row for row in rows if (row.scenario, row.router) == (scenario, router)]
        plain = {row.seed: row.p99_ms for row in mine if row.control == NONE}
        for control in CONTROLS:
            of_control = [row for row in mine if row.control == control]
            if of_control:
                text += _line(scenario, router, control, of_control, plain)
    return text


def _line(
    scenario: str, router: str, control: str, rows: Sequence[Row], plain: dict[int, float]
) -> str:
    def median(value: Callable[[Row], float | None]) -> float | None:
        values = [found for row in rows if (found := value(row)) is not None]
        return statistics.median(values) if values else None

    p99s = [row.p99_ms for row in rows]
    changes = [100 * (row.p99_ms / plain[row.seed] - 1) for row in rows if plain.get(row.seed)]
    change = "–" if control == NONE or not changes else (
        f"{statistics.median(changes):+.0f} % ({min(changes):+.0f} to {max(changes):+.0f})"
    )  # fmt: skip
    cells = [
        scenario,
        router,
        control,
        _ms(median(lambda row: row.p90_ms)),
        f"{_ms(statistics.median(p99s))} ({_ms(min(p99s))}–{_ms(max(p99s))})",
        change,
        _share(median(lambda row: row.remarked)),
        _share(median(lambda row: row.dropped)),
        _share(median(lambda row: row.reordered)),
        f"{median(lambda row: row.throughput_mbps) or 0:.1f}",
        _ms(median(lambda row: row.classic_p99_ms)),
        _ms(median(lambda row: row.cross_p99_ms)),
    ]
    return f"| {' | '.join(cells)} |\n"


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f} %"


def draw(rows: Sequence[Row], folder: Path) -> Path:
    """P99 of each seed, by network, router and control."""
    drawing, figures = need_library()
    scenarios = list(dict.fromkeys(row.scenario for row in rows))
    routers = list(dict.fromkeys(row.router for row in rows))
    controls = [control for control in CONTROLS if any(row.control == control for row in rows)]
    with drawing.rc_context(STYLE):
        figure = figures.Figure(
            figsize=(1.6 + 1.35 * len(routers), 2.3 * len(scenarios)), layout="constrained"
        )
        panels = figure.subplots(len(scenarios), 1, squeeze=False, sharex=True)[:, 0]
        for axes, scenario in zip(panels, scenarios, strict=True):
            for index, control in enumerate(controls):
                some = [row for row in rows if (row.scenario, row.control) == (scenario, control)]
                aside = 0.76 / len(controls) * (index - (len(controls) - 1) / 2)
                at = [routers.index(row.router) + aside for row in some]
                axes.plot(at, [row.p99_ms for row in some], "o", color=COLOURS[index], alpha=0.5,
                          markersize=4, markeredgewidth=0, label=control)  # fmt: skip
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.yaxis.set_minor_formatter(lambda _value, _: "")
            axes.set_title(scenario, loc="left", fontsize=9)
            axes.set_ylabel("P99, ms")
            axes.set_xticks(range(len(routers)), routers)
            axes.grid(axis="x", visible=False)
        handles, labels = panels[0].get_legend_handles_labels()
        columns = 3 if len(controls) > 4 else 4
        figure.legend(handles, labels, loc="outside lower center", ncols=columns)
        return save(figure, folder, "controls.png")
