"""What the network reads of two taps besides shapes: how large a flow's numbers are and, if asked,
which part of the queue's they are.

Divided by its own maximum a flow looks the same whether it holds a tenth of the queue or nine
tenths, and a window of a few round trips has little shape. Who takes which share of a queue is what
congestion controls differ in.
"""

from collections.abc import Callable, Sequence

import numpy

from wirelens.cca.intervals import Array, normalised
from wirelens.errors import OptionError

SEGMENT_BYTES = 1448.0
LEVELS = 12.0
INPUTS = ("cbiq_bytes", "ingress_bytes", "egress_bytes")
"""Inputs whose sum over flows is the queue's."""


def check_inputs(inputs: Sequence[str]) -> None:
    """Refuses inputs that flows do not share.

    Raises
    ------
    OptionError
        If there is one.
    """
    wrong = [name for name in inputs if name not in INPUTS]
    if wrong:
        raise OptionError(
            f"--levels with --inputs {wrong[0]}; wanted: inputs of which a flow has a share: "
            f"{', '.join(INPUTS)}"
        )


def read_as(has_levels: bool, has_shares: bool) -> Callable[[Array], Array]:
    """What makes of rows what a network of two taps reads."""
    if has_shares:
        return with_shares
    return with_levels if has_levels else normalised


def with_levels(values: Array) -> Array:
    """Of intervals × rows × inputs, intervals × rows × twice the inputs: the shape and the level of
    each."""
    level = numpy.log2(1 + values / numpy.float32(SEGMENT_BYTES)) / numpy.float32(LEVELS)
    return numpy.concatenate([normalised(values), level], axis=2, dtype=numpy.float32)


def with_shares(values: Array) -> Array:
    """Of intervals × rows × twice the inputs, of the flow and of all flows, intervals × rows ×
    three times the inputs: the shape, the level and the share of each."""
    width = values.shape[2] // 2
    own, of_all = values[:, :, :width], values[:, :, width:]
    share = numpy.where(of_all > 0, own / numpy.where(of_all > 0, of_all, 1), 0)
    return numpy.concatenate([with_levels(own), share], axis=2, dtype=numpy.float32)
