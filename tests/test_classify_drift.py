"""Drift: flows of a run against its first ones and the model's card, as the program reports it."""

import json
import math
import random
import re
from collections import Counter
from itertools import count
from pathlib import Path

import pytest
from captures import Frame, write_pcap
from command import ROOT, Ran, wirelens
from lab import datagram

FLOWS = 100
EDGES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
REFERENCE = 4
SECOND = 10**9
# Ports of services that the model knows, and how many of 100 flows have each.
USUAL = {53: 60, 123: 30, 1900: 10}
OTHER = {53: 5, 123: 5, 161: 60, 5353: 30}


def capture(path: Path, *mixes: dict[int, int]) -> Path:
    """A capture with 100 flows a second, of each mix in turn."""
    numbers, dice, frames = count(), random.Random(7), []
    for second, mix in enumerate(mixes):
        ports = [port for port, flows in mix.items() for _ in range(flows)]
        dice.shuffle(ports)
        for at, port in enumerate(ports):
            number = next(numbers)
            source = (f"198.18.{number // 250 % 250}.{number % 250 + 1}", 20_000 + number % 30_000)
            data = datagram(source, ("198.19.0.1", port))
            time_ns = (1_700_000_000 + second) * SECOND + at * SECOND // 200
            frames.append(Frame(time_ns, data, len(data)))
    write_pcap(path, frames)
    return path


def run(folder: Path, read: Path, lines: str = "", threads: int = 1, more: str = "") -> Ran:
    folder.mkdir(exist_ok=True)
    (folder / "wirelens.toml").write_text(
        f'[input]\nread = "{read}"\n[run]\nthreads = {threads}\n'
        f'[classify]\nmodel = "services"\noutput = "rows.jsonl"\nforce = true\n{lines}\n{more}'
    )
    return wirelens("run", "-c", "wirelens.toml", cwd=folder)


def said(ran: Ran) -> list[str]:
    """What is said of drift."""
    assert ran.status == 0, ran.stderr
    lines = [line.removeprefix("wirelens: ") for line in ran.stderr.splitlines()]
    return [line for line in lines if re.match("classify: (traffic|drift)", line)]


def index(before: list[int], now: list[int]) -> float:
    """The population stability index, from its definition."""
    whole, of_now = (sum(counts) + len(counts) / 2 for counts in (before, now))
    pairs = [((b + 0.5) / whole, (n + 0.5) / of_now) for b, n in zip(before, now, strict=True)]
    return sum((n - b) * math.log(n / b) for b, n in pairs)


def expected(folder: Path) -> list[tuple[float, float]]:
    """Of the labels and of the confidences of each window after the reference, by its rows."""
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    # A mark is before the first packet of each second: a window has the flows of one.
    seconds: dict[int, list[dict]] = {}
    for row in rows:
        seconds.setdefault(row["decided_ns"] // SECOND, []).append(row)
    windows = list(seconds.values())
    assert {len(window) for window in windows} == {FLOWS}
    first = [row for window in windows[:REFERENCE] for row in window]
    labels = Counter(row["label"] for row in first)
    frequent = [label for label in labels if labels[label] * 100 >= len(first)]

    def of_labels(rows: list[dict]) -> list[int]:
        counts = Counter(row["label"] for row in rows)
        found = [counts[label] for label in frequent]
        return [*found, len(rows) - sum(found)]

    def of_confidence(rows: list[dict]) -> list[int]:
        bins = Counter(sum(row["guess_confidence"] >= edge for edge in EDGES) for row in rows)
        return [bins[at] for at in range(len(EDGES) + 1)]

    return [tuple(index(of(first), of(window)) for of in (of_labels, of_confidence))
            for window in windows[REFERENCE:]]  # fmt: skip


def test_drift_is_reported_when_it_begins_and_when_it_is_over(tmp_path: Path) -> None:
    read = capture(tmp_path / "in.pcap", *[USUAL] * 7, *[OTHER] * 3, *[USUAL] * 4)
    lines = said(run(tmp_path, read, "drift-flows = 100"))
    found = expected(tmp_path)
    drifted = [labels > 0.25 or confidence > 0.25 for labels, confidence in found]
    assert drifted == [False] * 3 + [True] * 3 + [False] * 4
    begins, over, closing = lines
    labels, confidence = found[3]
    assert begins.startswith(
        "classify: traffic differs from the first 400 flows of this run (population stability "
        f"index of labels {labels:.2f}, wanted at most 0.25; of confidence {confidence:.2f}, "
    )
    assert "most changed: snmp, 0.0 % to 60.0 %" in begins and "wirelens feedback" in begins
    assert over == "classify: traffic is again like the first 400 flows of this run"
    most = [max(of_each) for of_each in zip(*found, strict=True)]
    assert closing.startswith(
        "classify: drift: 3 of 10 windows differ from the first 400 flows (population stability "
        f"index of labels up to {most[0]:.2f}, of confidence up to {most[1]:.2f}); "
    )
    card = json.loads((ROOT / "models/services/cascade.json").read_text())["training"]
    labels_of = [json.loads(line)["label"] for line in open(tmp_path / "rows.jsonl")][-FLOWS:]
    classes, last = card["flows_by_class"], Counter(labels_of)
    psi = index(list(classes.values()), [last[name] for name in classes])
    assert closing.endswith(f"labels of the latest one against the model's card: {psi:.2f}")


def test_it_is_the_same_on_any_number_of_threads(tmp_path: Path) -> None:
    read = capture(tmp_path / "in.pcap", *[USUAL] * 6, *[OTHER] * 3, *[USUAL] * 2)
    one, *others = (said(run(tmp_path / str(threads), read, "drift-flows = 100", threads))
                    for threads in (1, 2, 3))  # fmt: skip
    assert len(one) == 3
    assert all(other == one for other in others)


@pytest.mark.parametrize("when", ["name == drifted and value == 1",
                                  "name == drifted_windows and value > 0"])  # fmt: skip
def test_a_rule_on_counts_fires(tmp_path: Path, when: str) -> None:
    rule = (
        '[[alert]]\nname = "traffic has changed"\ntable = "counts"\n'
        f'when = "application == classify and {when}"\nkey = ["application"]\n'
        'text = "the latest flows differ from the start of the run"\n'
        '[[notify]]\nkind = "jsonl"\nto = "alerts.jsonl"\n'
    )
    usual = capture(tmp_path / "usual.pcap", *[USUAL] * 9)
    other = capture(tmp_path / "other.pcap", *[USUAL] * 6, *[OTHER] * 3)
    for read, is_drift in ((usual, False), (other, True)):
        folder = tmp_path / read.stem
        said(run(folder, read, "drift-flows = 100", more=rule))
        alerts = [json.loads(line) for line in (folder / "alerts.jsonl").read_text().splitlines()]
        assert any(alert["state"] == "firing" for alert in alerts) == is_drift


def test_nothing_is_said_of_few_flows_or_where_it_is_off(tmp_path: Path) -> None:
    read = capture(tmp_path / "in.pcap", *[USUAL] * 6, *[OTHER] * 3)
    assert said(run(tmp_path, read)) == said(run(tmp_path, read, "drift-flows = 0")) == []
    [line] = said(run(tmp_path, read, "drift-flows = 300"))
    assert line.startswith("classify: drift: 3 windows; the first 4 are what others are compared")


@pytest.mark.parametrize(("lines", "wanted"), [
    ("drift-flows = 99", "drift-flows: wanted 0, or 100 to 10000000"),
    ('model = "video-rate"\ndrift-flows = 500', "only flows are compared"),
])  # fmt: skip
def test_what_cannot_be_watched_is_refused(tmp_path: Path, lines: str, wanted: str) -> None:
    model = "" if "model" in lines else 'model = "services"\n'
    read = capture(tmp_path / "in.pcap", USUAL)
    path = tmp_path / "wirelens.toml"
    path.write_text(f'[input]\nread = "{read}"\n[classify]\n{model}{lines}\n')
    ran = wirelens("run", "-c", path)
    assert ran.status == 2 and wanted in ran.stderr, ran.stderr
