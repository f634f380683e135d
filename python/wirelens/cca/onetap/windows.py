"""Windows of rows: what a network is trained on and judged by."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from wirelens.cca.intervals import Array
from wirelens.cca.onetap.levels import channels
from wirelens.cca.onetap.rows import INPUTS, ROWS_PER_RTT, Run, Series
from wirelens.learn.networks import tensor


@dataclass(frozen=True)
class Windows:
    """Windows of one length."""

    values: Array
    """Windows × rows × inputs."""
    row_s: Array
    labels: Array
    """Controls as numbers."""
    places: Sequence[str]

    def __len__(self) -> int:
        return len(self.labels)

    def channels(self, some: Any) -> Any:
        """What a network reads of some of them, as a tensor."""
        row_s = tensor(numpy.asarray(self.row_s[some], numpy.float32))
        return channels(tensor(self.values[some]), row_s, INPUTS, ROWS_PER_RTT)

    def rate_bit(self) -> Array:
        """Of each the acknowledged bits per second."""
        acked = self.values[:, :, INPUTS.index("acked_bytes")].sum(axis=1, dtype=float)
        return acked * 8 / (self.values.shape[1] * self.row_s)

    def rtt_s(self) -> Array:
        """Of each the mean RTT of the path."""
        return self.values[:, :, INPUTS.index("path_rtt_s")].mean(axis=1, dtype=float)


def labelled(runs: Sequence[Run], controls: Sequence[str]) -> list[tuple[Series, int]]:
    """Flows at taps with the number of their control; those of other controls are left out."""
    numbers = {control: number for number, control in enumerate(controls)}
    return [
        (series, numbers[series.control])
        for run in runs for series in run.series if series.control in numbers
    ]  # fmt: skip


def last_windows(flows: Sequence[tuple[Series, int]], rows: int) -> Windows:
    """Of each flow at a tap the last rows that are kept, so that each counts once."""
    long = [(series, label) for series, label in flows if len(series.values) >= rows]
    values = [series.values[-rows:] for series, _ in long]
    return Windows(
        numpy.stack(values) if values else numpy.zeros((0, rows, len(INPUTS)), numpy.float32),
        numpy.array([series.row_s for series, _ in long]),
        numpy.array([label for _, label in long], dtype=int),
        [series.place for series, _ in long],
    )
