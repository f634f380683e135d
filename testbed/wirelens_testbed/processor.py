"""How busy the machine was: what a run may blame on the link, it must not owe to the processor."""

from __future__ import annotations

from pathlib import Path

STATISTICS = Path("/proc/stat")
IDLE_FIELD, WAITING_FIELD = 3, 4
# One line a processor, hexadecimal: packets taken in, packets dropped, ...
RECEIVING = Path("/proc/net/softnet_stat")
DROPPED_FIELD = 1


def dropped_packets() -> int:
    """Packets that this machine dropped since its start, as processors had too many to handle."""
    lines = RECEIVING.read_text().splitlines()
    return sum(int(line.split()[DROPPED_FIELD], 16) for line in lines)


class BusyShare:
    """Measures from its making on; all processors together are 1."""

    def __init__(self) -> None:
        self._busy, self._all = _ticks()

    def until_now(self) -> float:
        """The share of processor time that was used by anyone on this machine."""
        busy, total = _ticks()
        return (busy - self._busy) / max(total - self._all, 1)


def _ticks() -> tuple[int, int]:
    fields = [int(word) for word in STATISTICS.read_text().splitlines()[0].split()[1:9]]
    return sum(fields) - fields[IDLE_FIELD] - fields[WAITING_FIELD], sum(fields)
