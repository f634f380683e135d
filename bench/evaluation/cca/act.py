"""What `wirelens cca --act` does to fairness: `act.py -o DIR [--model DIR] [--seeds 5]`.

Two flows each of Reno, CUBIC and BBR share a queue of 20 Mbit/s and 100 kB, or of `--rate-mbit` and
`--buffer-bytes`; their round trips are drawn from 10 to 40 ms by the seed. For a while nobody
acts; then `wirelens cca --act` does, and when all is settled as much time again is looked at. Arms:
controls as they are (`--act-by`), as a model names them (`--model`), a class for each flow, names
drawn at random, names of which some are wrong (`wrong-40`: each with a probability of 40 %), and
nobody acts in either half, which shows what time alone does. `act.jsonl` has a row a run,
`table.md` the means and the spread. Root is needed.
"""

import argparse
import json
import random
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests"))

import environment
from cca_queue import SharedQueue, jain, shared_queue
from command import PROGRAM

CONTROLS = ("reno", "reno", "cubic", "cubic", "bbr", "bbr")
RTTS_MS = (10.0, 40.0)
# Seconds from the start of the flows: all are in the queue; before it is acted on; after.
BEFORE_S, ACT_S, AFTER_S, END_S = 5.0, 25.0, 37.0, 57.0
WRONG = (20, 40, 60, 80, 100)
"""Of a hundred names, those that are of another control."""
ARMS = {
    "none": "nobody acts", "known": "controls are known", "model": "a model names them",
    "each": "a class for each flow", "random": "names drawn at random",
} | {f"wrong-{part}": f"{part} % of names are wrong" for part in WRONG}  # fmt: skip


def names_of(arm: str, drawn: random.Random) -> list[str]:
    """What each flow is said to run."""
    names = sorted(set(CONTROLS))
    if arm == "each":
        return [f"flow-{number}" for number in range(len(CONTROLS))]
    if arm == "random":
        return [drawn.choice(names) for _ in CONTROLS]
    wrong = int(arm.partition("-")[2]) / 100 if arm.startswith("wrong-") else 0.0
    return [
        drawn.choice([name for name in names if name != control])
        if drawn.random() < wrong
        else control
        for control in CONTROLS
    ]


def act(
    queue: SharedQueue, arm: str, names: list[str], model: Path | None, folder: Path
) -> subprocess.Popen[bytes]:
    words: list[str | Path] = [
        PROGRAM, "cca", "-i", queue.before, "--egress", queue.behind, "-n", "50", "-q",
        "--act", queue.device, "--act-events", folder / "events.jsonl",
        "-o", folder / "told.jsonl",
    ]  # fmt: skip
    if arm == "model":
        assert model is not None
        words += ["--model", model]
    else:
        said = zip(queue.plan.flows, names, strict=True)
        text = "".join(f"{flow.source} {name}\n" for flow, name in said)
        (folder / "controls").write_text(text)
        words += ["--act-by", folder / "controls"]
    return subprocess.Popen(words)


def classes_of(queue: SharedQueue, folder: Path) -> tuple[list[str], int]:
    """The class in which each flow ended, and how often one moved from a control to another."""
    classes: dict[str, str] = {}
    again = 0
    for line in (folder / "events.jsonl").read_text().splitlines():
        event = json.loads(line)
        if event["event"] == "move":
            classes[event["flow"].split(":")[0]] = event["to"]
            again += event["from"] != "rest"
    return [classes.get(flow.source, "rest") for flow in queue.plan.flows], again


def one(asked: argparse.Namespace, seed: int, arm: str) -> dict[str, object]:
    drawn = random.Random(seed)
    rtts = [round(drawn.uniform(*RTTS_MS), 1) for _ in CONTROLS]
    names = names_of(arm, drawn)
    with (
        tempfile.TemporaryDirectory() as name,
        shared_queue(
            CONTROLS,
            rtts,
            duration_s=END_S + 1.0,
            rate_mbit=asked.rate_mbit,
            buffer_bytes=asked.buffer_bytes,
        ) as queue,  # fmt: skip
    ):
        folder = Path(name)
        queue.start()
        queue.wait_until(ACT_S)
        acting = None if arm == "none" else act(queue, arm, names, asked.model, folder)
        queue.wait_until(END_S)
        if acting:
            acting.send_signal(signal.SIGINT)
            if acting.wait(10) != 0:
                raise SystemExit(f"seed {seed}, {arm}: wirelens cca ended with {acting.returncode}")
        queue.finish()
        halves = {
            "before": queue.rates(BEFORE_S, ACT_S),
            "after": queue.rates(AFTER_S, END_S),
        }
        waits = {
            "before": queue.waits_ms(BEFORE_S, ACT_S),
            "after": queue.waits_ms(AFTER_S, END_S),
        }
        classes, again = classes_of(queue, folder) if acting else (None, None)
    right = None
    if classes is not None:
        pairs = zip(classes, CONTROLS, strict=True)
        right = sum(name == control for name, control in pairs) / len(CONTROLS)
    said = None if arm in ("none", "model") else names
    row: dict[str, object] = {
        "seed": seed, "arm": arm, "rtt_ms": rtts, "named_right": right, "said": said,
        "classes": classes,
        "moved_again": again,
    }  # fmt: skip
    for half, rates in halves.items():
        row[f"mbit_{half}"] = [round(rate, 3) for rate in rates]
        row[f"jain_{half}"] = round(jain(rates), 4)
        by_control = {control: 0.0 for control in CONTROLS}
        for control, rate in zip(CONTROLS, rates, strict=True):
            by_control[control] += rate
        row[f"jain_controls_{half}"] = round(jain(list(by_control.values())), 4)
        row[f"mbit_by_control_{half}"] = {name: round(rate, 2) for name, rate in by_control.items()}
        row[f"mbit_sum_{half}"] = round(sum(rates), 2)
        row[f"wait_ms_{half}"] = [round(wait, 2) for wait in waits[half]]
    return row | {"ack_late_max_ms": round(queue.late_max_us / 1000, 2)}


def spread(values: list[float], digits: int = 3) -> str:
    low, high = min(values), max(values)
    return f"{statistics.mean(values):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def table(rows: list[dict], rate_mbit: float, buffer_bytes: int) -> str:
    lines = [
        f"Jain's index of two flows each of {', '.join(sorted(set(CONTROLS)))} in a queue of "
        f"{rate_mbit:g} Mbit/s and {buffer_bytes // 1000} kB, {ACT_S - BEFORE_S:g} s before and "
        f"{END_S - AFTER_S:g} s after `--act`; means of the seeds, with the lowest and the highest.",
        "",
        "| who acts | seeds | of flows, before | after | of controls, before | after | BBR's part, "
        "before | after | Mbit/s together, before | after | queueing delay ms, before | after | "
        "flows in their class |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for arm, words in ARMS.items():
        own = [row for row in rows if row["arm"] == arm]
        if not own:
            continue
        cells = [words, str(len(own))]
        for what in ("jain", "jain_controls"):
            cells += [
                spread([row[f"{what}_{half}"] for row in own]) for half in ("before", "after")
            ]
        for half in ("before", "after"):
            parts = [row[f"mbit_by_control_{half}"]["bbr"] / row[f"mbit_sum_{half}"] for row in own]
            cells.append(spread(parts, 2))
        for half in ("before", "after"):
            cells.append(spread([row[f"mbit_sum_{half}"] for row in own], 1))
        for half in ("before", "after"):
            cells.append(spread([statistics.mean(row[f"wait_ms_{half}"]) for row in own], 1))
        right = [row["named_right"] for row in own if row["named_right"] is not None]
        cells.append(spread(right, 2) if right else "")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("-o", "--output", type=Path, required=True)
    arguments.add_argument("--model", type=Path, help="leave it out to leave out its arm")
    arguments.add_argument("--rate-mbit", type=float, default=20.0)
    arguments.add_argument("--buffer-bytes", type=int, default=100_000)
    arguments.add_argument("--seeds", type=int, default=5)
    arguments.add_argument("--seed-first", type=int, default=1)
    arguments.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    asked = arguments.parse_args()
    asked.output.mkdir(parents=True, exist_ok=True)
    kept = asked.output / "act.jsonl"
    facts = environment.facts([], 1)
    (asked.output / "environment.json").write_text(json.dumps(facts, indent=1) + "\n")
    for seed in range(asked.seed_first, asked.seed_first + asked.seeds):
        for arm in asked.arms:
            if arm == "model" and asked.model is None:
                continue
            row = one(asked, seed, arm)
            print(json.dumps(row), flush=True)
            with kept.open("a") as out:
                print(json.dumps(row), file=out)
    rows = [json.loads(line) for line in kept.read_text().splitlines()]
    (asked.output / "table.md").write_text(table(rows, asked.rate_mbit, asked.buffer_bytes))


if __name__ == "__main__":
    main()
