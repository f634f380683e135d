"""What the network reads of rows: their shape, and how large they are.

Each input divided by its maximum in the interval says how a flow behaves on any path. How large a
window is in segments, and how long a round trip, says which behaviour to expect of a control there:
of Scalable and High Speed, whose steps depend on the window, shape alone cannot say. Levels are
logarithms, so that a path twice as fast differs by one step and not by twice the numbers.
"""

from collections.abc import Sequence
from typing import Any

from wirelens.cca.levels import LEVELS, SEGMENT_BYTES
from wirelens.learn.networks import nn, torch

TIME_S = 1e-3
RESENT_MAX = 8.0
AT_A_MOMENT = ("flight_bytes", "flight_max_bytes", "sacked_bytes")
OF_A_ROW = ("sent_bytes", "acked_bytes")
TIMES = ("rtt_s", "upstream_rtt_s", "path_rtt_s")


def channel_count(inputs: Sequence[str]) -> int:
    """Channels of each row: every input twice, and the row's length."""
    return 2 * len(inputs) + 1


def channels(values: Any, row_s: Any, inputs: Sequence[str], rows_per_rtt: int) -> Any:
    """Of intervals × rows × inputs, as tensors, intervals × rows × channels.

    `row_s` is how long a row of each interval is.
    """
    highest = values.amax(dim=1, keepdim=True)
    shape = values / torch.where(highest > 0, highest, torch.ones_like(highest))
    found = [_level(values[:, :, at], name, rows_per_rtt) for at, name in enumerate(inputs)]
    found.append(_log(row_s / TIME_S)[:, None].expand(-1, values.shape[1]))
    return torch.cat([shape, torch.stack(found, dim=2)], dim=2)


def _level(values: Any, name: str, rows_per_rtt: int) -> Any:
    if name in AT_A_MOMENT:
        return _log(values / SEGMENT_BYTES)
    if name in OF_A_ROW:
        return _log(_of_an_rtt(values, rows_per_rtt) / SEGMENT_BYTES)
    if name in TIMES:
        return _log(values / TIME_S)
    return values.clamp(max=RESENT_MAX) / RESENT_MAX


def _log(values: Any) -> Any:
    return torch.log2(1 + values) / LEVELS


def _of_an_rtt(values: Any, rows_per_rtt: int) -> Any:
    """The sum over each row and those before it that make up an RTT; at the start, where there are
    fewer, as many times their mean."""
    # A pool that does not count what it is padded with has the mean of what there is.
    padded = nn.functional.pad(values[:, None], (rows_per_rtt - 1, 0))
    there = nn.functional.pad(torch.ones_like(values[:, None]), (rows_per_rtt - 1, 0))
    sums, counts = (nn.functional.avg_pool1d(of, rows_per_rtt, 1)[:, 0] for of in (padded, there))
    return sums / counts * rows_per_rtt
