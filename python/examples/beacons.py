"""Beacons: hosts that contact a server at regular times, as programs do that report to someone.

An application for `wirelens.run`, whole: copy it, and write one of your own.

    python beacons.py capture.pcapng
    python beacons.py eth0 1h
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import wirelens

# Pairs that are watched at most. Contacts of others are counted, and in no row.
PAIRS_MAX = 100_000
NS_PER_S = 1_000_000_000


class Beacon(NamedTuple):
    """A row of the table that comes out."""

    src_ip: str
    dst_ip: str
    dst_port: int
    contacts: int
    period_s: float
    jitter: float
    """Standard deviation of the period, as a fraction of it."""


@dataclass(slots=True)
class Gaps:
    """Mean and variance of the gaps between contacts, without keeping them (Welford)."""

    last_ns: int
    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, first_ns: int) -> None:
        """Takes in a contact."""
        # Flows come as they end: one that began earlier may come later.
        gap = abs(first_ns - self.last_ns) / NS_PER_S
        self.last_ns = max(first_ns, self.last_ns)
        self.count += 1
        before = gap - self.mean
        self.mean += before / self.count
        self.squares += before * (gap - self.mean)

    @property
    def jitter(self) -> float:
        """0 for a clock; about 1 for contacts at random times."""
        if self.count < 2 or self.mean <= 0:
            return 0.0
        return float((self.squares / (self.count - 1)) ** 0.5 / self.mean)


class Beacons:
    """The application. It has a name, and takes flows as they end."""

    name = "beacons"
    # Keys of the table [flows] of settings: how flows are cut, and which columns they have.
    settings = {"idle-timeout": "30s"}

    def __init__(self, contacts_min: int = 10, jitter_max: float = 0.1) -> None:
        self.contacts_min = contacts_min
        self.jitter_max = jitter_max
        self.pairs: dict[tuple[str, str, int], Gaps] = {}
        self.contacts_beyond_max = 0

    def on_flows(self, batch: wirelens.Batch) -> None:
        """Takes flows: the columns of a batch are those of `wirelens.flows`, here four of them."""
        wanted = ("src_ip", "dst_ip", "dst_port", "first_ns")
        columns = (batch.column(name) for name in wanted)
        for source, destination, port, first_ns in zip(*columns, strict=True):
            if first_ns is not None:
                self.contact((source, destination, port), first_ns)

    def contact(self, pair: tuple[str, str, int], first_ns: int) -> None:
        """Takes in one contact of a pair."""
        gaps = self.pairs.get(pair)
        if gaps is not None:
            gaps.add(first_ns)
        elif len(self.pairs) < PAIRS_MAX:
            self.pairs[pair] = Gaps(first_ns)
        else:
            self.contacts_beyond_max += 1

    def on_end(self) -> list[Beacon]:
        """The rows, once the last flow has ended: the most regular first."""
        found = [
            Beacon(*pair, gaps.count + 1, round(gaps.mean, 3), round(gaps.jitter, 4))
            for pair, gaps in self.pairs.items()
            if gaps.count + 1 >= self.contacts_min and gaps.jitter <= self.jitter_max
        ]
        return sorted(found, key=lambda beacon: (beacon.jitter, beacon))


def main(source: str, duration: str | None = None) -> int:
    """Looks for beacons in a capture, or on an interface until Ctrl-C."""
    beacons = Beacons()
    is_capture = Path(source).exists()
    result = wirelens.run(
        {},
        read=source if is_capture else None,
        interface=None if is_capture else source,
        applications=[beacons],
        duration=duration,
    )
    print(result.tables.get("beacons", "no beacons"))
    if beacons.contacts_beyond_max:
        print(f"{beacons.contacts_beyond_max} contacts of further pairs were not looked at")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
