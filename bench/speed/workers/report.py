"""Tables of what `measure.py` measured."""

import statistics
from collections.abc import Callable

Row = dict[str, object]

WORKERS = {"1 worker": 1, "2 workers": 2}
# Of the settings of an interface.
LATENCY = {"live, low": 'latency = "low"\n', "live": ""}
FLOWS_PER_S = 5_000
TARGETS = {"transit_ms_p50": 1.0, "transit_ms_p99": 5.0, "cpu_us": 3.0, "speedup": 1.7}


def spread(values: list[float], digits: int = 2) -> str:
    """Median, least and most."""
    texts = [f"{value:,.{digits}f}" for value in (statistics.median(values), *minmax(values))]
    return f"{texts[0]} ({texts[1]} to {texts[2]})"


def minmax(values: list[float]) -> tuple[float, float]:
    return min(values), max(values)


def number(row: Row, name: str) -> float:
    value = row[name]
    return float(value) if isinstance(value, int | float) else float("nan")


def answered(row: Row) -> int:
    outcomes = row["outcomes"]
    return int(outcomes.get("answered", 0)) if isinstance(outcomes, dict) else 0


def verdict(value: float, wanted: float, is_most: bool) -> str:
    return "met" if (value <= wanted if is_most else value >= wanted) else "missed"


def cpu_us(rows: list[Row], with_worker: str) -> list[float]:
    """By round: what an escalation takes of the sensor's processor time."""
    of = {how: [row for row in rows if row["how"] == how] for how in (with_worker, "broker away")}
    return [
        1e6 * (number(one, "cpu_s") - number(other, "cpu_s")) / max(answered(one), 1)
        for one, other in zip(of[with_worker], of["broker away"], strict=True)
    ]


def rates_table(rows: list[Row]) -> list[str]:
    """Live and paced, side by side; targets are those of an interface with low latency."""
    of = {case: [row for row in rows if (row["case"], row["how"]) == (case, "a worker")]
          for case in (*LATENCY, "paced")}  # fmt: skip
    out = [
        f"## {FLOWS_PER_S:,} escalations a second", "",
        '| measure | interface, `latency = "low"` | target | | interface | `--pace 1` |',
        "|---|---:|---:|---|---:|---:|",
    ]  # fmt: skip
    spent = {case: cpu_us([row for row in rows if row["case"] == case], "a worker")
             for case in LATENCY}  # fmt: skip
    measures: list[tuple[str, Callable[[Row], float], int, str]] = [
        ("transit, p50, ms", lambda row: number(row, "transit_ms_p50"), 3, "transit_ms_p50"),
        ("transit, p99, ms", lambda row: number(row, "transit_ms_p99"), 3, "transit_ms_p99"),
        ("answer, p50, ms", lambda row: number(row, "answer_ms_p50"), 3, ""),
        ("answer, p99, ms", lambda row: number(row, "answer_ms_p99"), 3, ""),
        ("sensor's CPU per escalation, µs", lambda row: number(row, "cpu_us"), 2, "cpu_us"),
        ("rows without an answer", lambda row: number(row, "flows") - answered(row), 0, ""),
        ("packets lost", lambda row: max(number(row, "sent") - number(row, "captured"), 0), 0, ""),
        ("rows a message", lambda row: answered(row) / max(number(row, "messages"), 1), 2, ""),
        ("messages published again", lambda row: number(row, "repeated"), 0, ""),
        ("sensor's CPU, s", lambda row: number(row, "cpu_s"), 2, ""),
        ("worker's CPU, µs a row", workers_cpu_us, 1, ""),
    ]
    for what, of_row, digits, target in measures:
        cells: dict[str, str] = {}
        word, wanted = "", ""
        for case, found in of.items():
            values = spent.get(case, []) if target == "cpu_us" else list(map(of_row, found))
            cells[case] = spread(values, digits) if values else ""
            if target and case == "live, low":
                word = verdict(statistics.median(values), TARGETS[target], True)
                wanted = f"{TARGETS[target]:g}"
        first, *others = cells.values()
        out.append(f"| {what} | {first} | {wanted} | {word} | {' | '.join(others)} |")
    return out


def workers_cpu_us(row: Row) -> float:
    workers = row["workers"] if "workers" in row else []
    assert isinstance(workers, list)
    rows = sum(one["rows"] for one in workers)
    return sum(one["cpu_s"] for one in workers) * 1e6 / rows if rows else float("nan")


def throughput_table(rows: list[Row]) -> list[str]:
    out = [
        "", "## Throughput: a capture as fast as it goes", "",
        "| model | last stage by | flows a second | sensor's CPU / wall | workers' CPU, µs a row |"
        " from 1 to 2 | sensor's CPU per escalation, µs |", "|---|---|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    found = [row for row in rows if row["case"] == "throughput"]
    for model in dict.fromkeys(row["model"] for row in found):
        of_model = [row for row in found if row["model"] == model]
        for how in (*WORKERS, "broker away", "the sensor alone"):
            of = [row for row in of_model if row["how"] == how]
            rates = [number(row, "flows") / number(row, "wall_s") for row in of]
            shares = [number(row, "cpu_s") / number(row, "wall_s") for row in of]
            cells = [spread(rates, 0), spread(shares), "", "", ""]
            if how in WORKERS:
                cells[2] = spread([workers_cpu_us(row) for row in of], 1)
                cells[4] = spread(cpu_us(of_model, how))
            if how == "2 workers":
                times = gains(rows, str(model))
                word = verdict(statistics.median(times), TARGETS["speedup"], False)
                cells[3] = f"{spread(times)}; target {TARGETS['speedup']:g}: {word}"
            out.append(f"| {model} | {how} | {' | '.join(cells)} |")
    return out


def gains(rows: list[Row], model: str) -> list[float]:
    """By round: how many times as fast two workers are as one."""
    of_model = [row for row in rows if row.get("model") == model and row["case"] == "throughput"]
    one, two = (
        [number(row, "wall_s") for row in of_model if row["how"] == how] for how in WORKERS
    )
    return [first / second for first, second in zip(one, two, strict=True)]


def summary(rows: list[Row]) -> list[Row]:
    """What pages cite: medians over the rounds, with the least and the most."""
    found: list[tuple[str, str, list[float]]] = []
    for case in (*LATENCY, "paced"):
        of_case = [row for row in rows if row["case"] == case]
        answering = [row for row in of_case if row["how"] == "a worker"]
        for name in ("transit_ms_p50", "transit_ms_p99"):
            found.append((case, name, [number(row, name) for row in answering]))
        per_message = [answered(row) / max(number(row, "messages"), 1) for row in answering]
        found.append((case, "rows_per_message", per_message))
        if case in LATENCY:
            found.append((case, "cpu_us", cpu_us(of_case, "a worker")))
    of_models = [row for row in rows if row["case"] == "throughput"]
    for model in dict.fromkeys(str(row["model"]) for row in of_models):
        found.append((model, "gain", gains(rows, model)))
        for how in WORKERS:
            of = [row for row in of_models if (row["model"], row["how"]) == (model, how)]
            rates = [number(row, "flows") / number(row, "wall_s") for row in of]
            found.append((model, f"flows_per_s, {how}", rates))
    return [
        {"of": of, "what": what, "value": statistics.median(values), "low": low, "high": high}
        for of, what, values in found
        for low, high in [minmax(values)]
    ]


def table(rows: list[Row]) -> str:
    lines = ["# Stages that workers compute", "", *rates_table(rows), *throughput_table(rows)]
    return "\n".join(lines) + "\n"
