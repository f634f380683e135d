"""Which stages of a cascade are worth their place, seen at what they do together."""

from collections.abc import Callable, Sequence

from wirelens.classify.operate import Operation
from wirelens.errors import OptionError

# A stage that decides less than this part of flows is not worth its place.
_DECIDED_MIN = 0.05
# A second stage of three that hands on a greater part of what reaches it is a detour, and one of
# the first two goes.
_HANDED_ON_MAX = 0.25
_DETOUR = (0, 1)


def stages_worth(
    names: Sequence[tuple[str, str]], operate: Callable[[list[int]], Operation]
) -> tuple[list[int], Operation, list[str]]:
    """Of stages, told as (stage, model), those that stay; where they work; and why others went.

    `operate` tells where some of them work, by their places in `names`.
    """
    kept, reasons = list(range(len(names))), []
    operation = operate(kept)
    while len(kept) > 1:
        # The last stage may decide as little as it likes: that is the aim.
        idle = [index for index, part in enumerate(operation.decided[:-1]) if part < _DECIDED_MIN]
        if operation.decided[-1] == 0:
            idle.append(len(kept) - 1)
        if not idle:
            break
        stage, model = names[kept.pop(idle[0])]
        reasons.append(
            f"{stage} omitted: {model} decides {operation.decided[idle[0]]:.1%} of flows"
        )
        operation = operate(kept)
    if len(kept) > len(_DETOUR) and operation.handed_on[1] > _HANDED_ON_MAX:
        shorter = _without_detour(names, kept, operation, operate)
        if shorter:
            gone, operation, told = shorter
            kept.pop(gone)
            reasons.append(told)
    return kept, operation, reasons


def _without_detour(
    names: Sequence[tuple[str, str]],
    kept: list[int],
    operation: Operation,
    operate: Callable[[list[int]], Operation],
) -> tuple[int, Operation, str] | None:
    """Without one of the first two stages, whichever leaves fewer flows for the last.

    None where what was asked for, such as a service rate, needs both.

    Two thresholds that are chosen together promise more than they keep. That is worth it where the
    second stage decides most of what it is asked, and not where it hands on much.
    """
    tried = []
    for gone in _DETOUR:
        try:
            without = operate([one for place, one in enumerate(kept) if place != gone])
        except OptionError:
            continue
        tried.append((round(without.decided[-1], 2), gone, without))
    if not tried:
        return None
    _, gone, without = min(tried, key=lambda one: one[:2])
    stage, model = names[kept[gone]]
    told = (
        f"{stage} omitted: {names[kept[1]][1]} passes on {operation.handed_on[1]:.0%} of its flows; "
        f"without {model} {without.decided[-1]:.1%} of all go to the last stage"
    )
    return gone, without, told
