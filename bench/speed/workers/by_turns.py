"""Builds of the program by turns, 5,000 escalations a second: `by_turns.py NAME=PROGRAM…` (root).

    bash tools/setup.sh nats
    .venv/bin/python bench/speed/workers/by_turns.py before=before/wirelens \
        after=target/release/wirelens [-o OUTPUT] [--rounds 5] [--low]

As the part `live` of `measure.py`: flows of `traffic.py` are sent to an interface in real time, all
of which continue to the last stage, with one worker and with the broker away. Sensor and worker are
of the same build. Each round has all builds, every second one in the other order. Processor time
per escalation is that with a worker less that with the broker away in the same round, of the whole
process; that of the thread of the connection is in addition to it, as it needs no difference.
Written are rows.jsonl, table.md and environment.json.
"""

import argparse
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import measure
import traffic
from report import FLOWS_PER_S, Row, answered, cpu_us, number, spread, workers_cpu_us

HOW = ("a worker", "broker away")


def rows_of(programs: dict[str, Path], rounds: int, seconds: float, case: str) -> Iterator[Row]:
    capture = measure.SCRATCH / "by-turns.pcap"
    flow_count = traffic.make(capture, FLOWS_PER_S, seconds)
    for round_ in range(rounds):
        names = list(programs) if round_ % 2 == 0 else list(programs)[::-1]
        for name in names:
            measure.WIRELENS = programs[name]
            for how in HOW:
                row = measure.live(case, capture, how)
                yield {"round": round_, "program": name, "flows": flow_count, **row}


def thread_us(row: Row, name: str) -> float:
    threads = row["threads_s"]
    assert isinstance(threads, dict)
    return 1e6 * float(threads[name]) / answered(row)


def table(rows: list[Row]) -> str:
    programs = list(dict.fromkeys(str(row["program"]) for row in rows))
    of = {name: [row for row in rows if row["program"] == name] for name in programs}
    asking = {name: [row for row in of[name] if row["how"] == HOW[0]] for name in programs}
    cells: list[tuple[str, Callable[[str], list[float]], int]] = [
        ("sensor's CPU per escalation, µs", lambda name: cpu_us(of[name], HOW[0]), 2),
    ]

    def add(what: str, of_row: Callable[[Row], float], digits: int = 2) -> None:
        cells.append((what, lambda name: [of_row(row) for row in asking[name]], digits))

    add("of it by the thread of the connection, µs", lambda row: thread_us(row, "escalations"))
    add("sensor's CPU in all, s", lambda row: number(row, "cpu_s"))
    add("worker's CPU, µs a row", workers_cpu_us, 1)
    add("rows a message", lambda row: answered(row) / number(row, "messages"))
    for kind in ("transit", "answer"):
        for percent in (50, 99):
            add(f"{kind}, p{percent}, ms", lambda row, of=f"{kind}_ms_p{percent}": number(row, of))
    add("rows without an answer", lambda row: number(row, "flows") - answered(row), 0)
    add("packets lost", lambda row: number(row, "sent") - number(row, "captured"), 0)
    lines = [
        f"# Builds by turns: {FLOWS_PER_S:,} escalations a second, {rows[0]['case']}", "",
        f"| median (least to most) | {' | '.join(programs)} |", "|---|" + "---:|" * len(programs),
    ]  # fmt: skip
    for what, values, digits in cells:
        lines.append(f"| {what} | {' | '.join(spread(values(n), digits) for n in programs)} |")
    return "\n".join(lines) + "\n"


def program(text: str) -> tuple[str, Path]:
    name, _, path = text.partition("=")
    if not Path(path).is_file():
        raise argparse.ArgumentTypeError(f"{text}: wanted NAME=PROGRAM, a file")
    return name, Path(path).absolute()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("programs", nargs="+", type=program)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=measure.SECONDS)
    parser.add_argument("--low", action="store_true", help='with latency = "low"')
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    output, environment = measure.begin(arguments, "workers-by-turns")
    case = "live, low" if arguments.low else "live"
    rows: list[Row] = []
    with (output / "rows.jsonl").open("w") as file:
        programs = dict(arguments.programs)
        for row in rows_of(programs, arguments.rounds, arguments.seconds, case):
            rows.append(row)
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(json.dumps(row), flush=True)
    environment["load_after"] = os.getloadavg()
    (output / "environment.json").write_text(json.dumps(environment, indent=2) + "\n")
    text = table(rows)
    (output / "table.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
