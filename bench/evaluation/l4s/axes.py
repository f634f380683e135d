"""How well latencies are predicted at the default and the ends of SwiftQueue's axes (section 6.2,
Figures 9 to 12), in the simulator: 40 s of each network, of which the first half trains.

    .venv/bin/python bench/evaluation/l4s/axes.py ROWS.jsonl [--seeds N]

10 flows of sender 1 (DCTCP unless it is the axis) and 4 of CUBIC with web search messages; L4S has
a fifth of the link; 3 % of the L4S packets are re-marked at random. Rows are those of `wirelens
eval l4s --predict`, with the network as trace; those that are there are not made again. About ten
minutes a seed.
"""

import argparse
import tempfile
from pathlib import Path

from wirelens import l4s
from wirelens.l4s import predicted
from wirelens.l4s.controls import ROUTERS, SCENARIOS, Setting
from wirelens.l4s.rhythm import Rhythm, Row

SECONDS, TRAINED_S, TUNED_S, EVERY_S = 40.0, 20.0, 5.0, 10.0
PREDICTORS = ("last-of-flow", "last-of-queue", "littles-law", "xgboost", "bilstm", "causal")
STEPS = 100


def networks() -> dict[str, l4s.Scenario]:
    plain = l4s.Scenario(
        SCENARIOS["sensitivity"], router=ROUTERS["partitioned-20"], control="random:0.03",
        duration_s=SECONDS, recovery="rack",
    )  # fmt: skip
    settings = [
        Setting(axis, value)
        for axis, value in (("queue", 2), ("flows", 10), ("flows", 100), ("delay", 200))
    ]
    of = {setting.text(): setting.applied(plain) for setting in settings}
    load = plain.traffic[0].load
    for congestion in ("dctcp", "cubic", "bbr"):
        only = [l4s.Traffic(congestion, 10, load=load)]
        of[f"control {congestion}"] = plain.having(traffic=only)
    return of


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("rows", type=Path)
    asked.add_argument("--seeds", type=int, default=1)
    given = asked.parse_args()
    lines = given.rows.read_text().splitlines() if given.rows.exists() else []
    known = [Row.read(line) for line in lines]

    def keep(row: Row) -> None:
        with given.rows.open("a") as file:
            file.write(f"{row.text()}\n")

    rhythm = Rhythm(TRAINED_S, TRAINED_S / 5, EVERY_S, TUNED_S)
    for seed in range(401, 401 + given.seeds):
        for name, scenario in networks().items():
            with tempfile.TemporaryDirectory() as folder:
                trace = Path(folder) / f"{name}, network {seed}.l4s"
                l4s.simulate(scenario.having(seed=seed), trace=trace)
                request = predicted.Request(
                    traces=[trace], predictors=PREDICTORS, rhythms=[rhythm], window=64, steps=STEPS
                )
                predicted.compare(request, known, print, keep)


if __name__ == "__main__":
    main()
