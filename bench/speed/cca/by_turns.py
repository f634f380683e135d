"""TCP as fast as it can be, by turns with nothing at its taps and with something.

    .venv/bin/python bench/speed/cca/by_turns.py OUT [--rounds 10]

Root; needs `cargo build --release`, iperf3 and ethtool. Writes `by-turns.jsonl` and `by-turns.md`
to the folder OUT. What is at the taps is one of:

nothing
empty    a BPF program that does nothing, at both: what any tap takes
stamped  the same, and what is received is stamped, as every packet socket has it
wirelens `wirelens cca`
"""

import argparse
import contextlib
import itertools
import json
import os
import random
import socket
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from attached import EMPTY, attached
from collector import Row, read, table, watching
from network import Network, network, streaming

ARMS = ("nothing", "empty", "stamped", "wirelens")
SO_TIMESTAMPNS = 35
PART_S = 1.5
# Until the taps are there, and their first packets.
SETTLED_S = 0.1


@contextlib.contextmanager
def at_taps(place: Network, arm: str) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        if arm == "wirelens":
            stack.enter_context(watching(place))
        if arm in ("empty", "stamped"):
            for tap in (place.ingress, place.egress):
                stack.enter_context(attached(tap, EMPTY))
        if arm == "stamped":
            stamps = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            stamps.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        yield


def mean_gbit_s(told: Row, from_s: float, to_s: float) -> float:
    """Of the intervals that lie between."""
    sums = [one["sum"] for one in told["intervals"]]
    inside = [one for one in sums if one["start"] >= from_s and one["end"] <= to_s]
    return statistics.mean(one["bits_per_second"] for one in inside) / 1e9


def by_turns(rounds: int) -> Iterator[Row]:
    """In each round connections live through all of them, in an order of its own: which processor
    has which end is settled anew with each connection, and weighs more than any tap."""
    chance = random.Random(1)
    for name, count, at in itertools.product(("pair", "router"), (1, 2), range(rounds)):
        parts = []
        seconds = len(ARMS) * (PART_S + 1) + 4
        with contextlib.ExitStack() as stack:
            place = stack.enter_context(network(name))
            streams = []
            for number in range(count):
                streams.append((stack.enter_context(streaming(number, seconds)), time.time()))
            time.sleep(1.5)
            for arm in chance.sample(ARMS, len(ARMS)):
                with at_taps(place, arm):
                    from_s = time.time()
                    time.sleep(PART_S)
                    parts.append((arm, from_s + SETTLED_S, time.time()))
            told = [(began, *run.communicate(timeout=seconds + 60)) for run, began in streams]
        for arm, from_s, to_s in parts:
            rates = [
                mean_gbit_s(json.loads(out), from_s - began, to_s - began) for began, out, _ in told
            ]
            yield {
                "network": name, "flows": count, "round": at, "taps": arm,
                "gbit_s": round(sum(rates), 3), "load": round(os.getloadavg()[0], 2),
            }  # fmt: skip


def lines(out: Path) -> list[str]:
    """Rates, and each beside that of nothing in the same round: medians and quartiles."""
    runs = read(out, "by-turns")
    cells = []
    for name, count in dict.fromkeys((row["network"], row["flows"]) for row in runs):
        of = [row for row in runs if (row["network"], row["flows"]) == (name, count)]
        plain = {row["round"]: row["gbit_s"] for row in of if row["taps"] == ARMS[0]}
        for arm in ARMS:
            rates = {row["round"]: row["gbit_s"] for row in of if row["taps"] == arm}
            low, middle, high = statistics.quantiles(
                [rate / plain[at] for at, rate in rates.items()], n=4
            )
            rate = statistics.median(rates.values())
            beside = f"{middle:.3f} ({low:.3f} to {high:.3f})"
            cells.append(f"| {name}, {count}: {arm} | {rate:.2f} | {beside} |")
    return table("network, connections: at the taps | Gbit/s | of nothing", *cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "by-turns.jsonl").open("w") as file:
        for row in by_turns(options.rounds):
            file.write(json.dumps(row) + "\n")
            file.flush()
    text = "\n".join(lines(options.out))
    (options.out / "by-turns.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
