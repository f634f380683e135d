"""Traces that train the latency model that ships: simulated L4S networks of many kinds.

    .venv/bin/python models/l4s_traces.py FOLDER

Each network is drawn from lists of routers, flows, rates and delays. In each, packets of sender 1
are re-marked at random: what was never tried in the other queue cannot be learned. The same seed
gives the same traces.
"""

import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from wirelens import l4s
from wirelens.l4s.controls import ROUTERS, SCENARIOS

NETWORKS, DURATION_S = 48, 25.0
SEED = 1_001
"""Seeds from here on train; evaluations use those below 1,000."""
# The networks of SwiftQueue's section 6, which are those of the evaluation, are among the draws.
RATES_BPS = (20e6, 50e6, 100e6, 100e6, 100e6, 200e6)
DELAYS_S = (0.005, 0.010, 0.020, 0.020, 0.020, 0.040)
# Re-marked at random. A low share leaves the L4S queue as it is, a high one shows the other queue.
SHARES = (0.02, 0.05, 0.25, 0.5)
ROUTER_NAMES = ("dualpi2", "ts-fifo", "partitioned-20", "partitioned-20", "partitioned-50")


def scenario(number: int) -> l4s.Scenario:
    """The network of a number."""
    dice = random.Random(SEED + number)
    flows = dice.choice(("websearch", "hadoop", "greedy", "10+4", "sensitivity"))
    rate_bps = dice.choice(RATES_BPS)
    traffic = SCENARIOS[flows]
    # Messages are offered at 5 Mbit/s a flow; a slower link gets fewer flows, not an overload.
    return l4s.Scenario(
        [_scaled(group, rate_bps / 100e6) for group in traffic],
        router=ROUTERS[dice.choice(ROUTER_NAMES)],
        control=f"random:{dice.choice(SHARES)}",
        rate_bps=round(rate_bps),
        delay_s=dice.choice(DELAYS_S),
        duration_s=DURATION_S,
        recovery="rack",
        seed=SEED + number,
    )


def _scaled(group: l4s.Traffic, by: float) -> l4s.Traffic:
    return l4s.Traffic(
        group.congestion, max(1, round(group.count * by)), group.sender, group.receiver, group.load
    )


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)

    def make(number: int) -> None:
        l4s.simulate(scenario(number), trace=folder / f"network-{number:02}.l4s")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(make, range(NETWORKS)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
