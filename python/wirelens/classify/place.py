"""Which models of a pool serve, and where: fastest, fast, slow (ServeFlow, section 3.1).

The paper's rules leave words to be filled: "acceptable", "significantly". What they mean here
are the margins of `Margins`, which can be chosen; every decision is told with its numbers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from wirelens.errors import OptionError

FASTEST, FAST, SLOW = "fastest", "fast", "slow"
STAGES = (FASTEST, FAST, SLOW)


@dataclass(frozen=True)
class Candidate:
    """A trained model as its profile tells it."""

    family: str
    packets: int
    # On the validation set.
    macro_f1: float
    weighted_f1: float
    # Scoring one row alone, and a row's part of a batch of 64.
    alone_us: float
    batch_us: float
    # Mean time from a flow's first packet until the model has its packets.
    waiting_us: float

    @property
    def name(self) -> str:
        """Family and depth."""
        return f"{self.family}/{self.packets}"

    @property
    def latency_us(self) -> float:
        """From a flow's first packet to the answer."""
        return self.waiting_us + self.alone_us


@dataclass(frozen=True)
class Margins:
    """What "acceptable" and "significantly" mean, in macro-F1 unless told otherwise."""

    # The fastest model has this part of the best one-packet model's F1, at least.
    fastest_part: float = 0.75
    # ... and takes at most this part of the fast model's time, else it is no relief.
    fastest_time: float = 0.5
    # A slower stage gains this much over the one before, at least.
    gain: float = 0.005
    # More packets that add less than this are not waited for.
    depth_gain: float = 0.01


@dataclass
class Placement:
    """Stages in order of use, and why these."""

    stages: list[tuple[str, Candidate]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def get(self, stage: str) -> Candidate | None:
        """The model of a stage, None where it is omitted."""
        return dict(self.stages).get(stage)


def pareto_front(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Models of which none is both faster and better, by latency.

    A model is on the front where every model that is as fast or faster has a lower F1.
    """
    front: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda c: (c.latency_us, -c.macro_f1)):
        if not front or candidate.macro_f1 > front[-1].macro_f1:
            front.append(candidate)
    return front


def place(
    candidates: Sequence[Candidate],
    margins: Margins,
    portion_needed: Callable[[Candidate, Candidate], float],
) -> Placement:
    """Chooses models for the stages.

    `portion_needed(fast, slow)` tells which part of flows the fast model has to hand on so that
    both together are as good as wanted; it decides between one-packet models.
    """
    if not candidates:
        raise OptionError("no trained model to choose from; wanted: at least one family")
    found = Placement()
    one_packet = [c for c in candidates if c.packets == 1]
    slow = _slow(candidates, margins, found)
    if not one_packet:
        found.stages = [(SLOW, slow)]
        found.reasons.append("no model of one packet was trained: there is only the slow stage")
        return found
    fast = _fast(one_packet, slow, portion_needed, found)
    gain = slow.macro_f1 - fast.macro_f1
    if slow.packets == 1 or gain < margins.gain:
        found.reasons.append(
            f"slow omitted: {slow.name} has {gain:+.3f} macro-F1 over {fast.name}, but "
            f"waiting must gain at least {margins.gain}"
        )
        best = max(one_packet, key=lambda c: (c.macro_f1, -c.alone_us))
        stages = [(FAST, best)]
    else:
        stages = [(FAST, fast), (SLOW, slow)]
    fastest = _fastest(one_packet, stages[0][1], margins, found)
    found.stages = ([(FASTEST, fastest)] if fastest else []) + stages
    return found


def _slow(candidates: Sequence[Candidate], margins: Margins, found: Placement) -> Candidate:
    """The best family at the smallest depth from which more packets add little."""
    best_at = {
        depth: max((c for c in candidates if c.packets == depth), key=lambda c: c.macro_f1)
        for depth in sorted({c.packets for c in candidates})
    }
    best = max(best_at.values(), key=lambda c: c.macro_f1)
    wanted = best.macro_f1 - margins.depth_gain
    slow = next(c for c in best_at.values() if c.macro_f1 >= wanted)
    found.reasons.append(
        f"slow: {slow.name} (macro-F1 {slow.macro_f1:.3f}), the fewest packets within "
        f"{margins.depth_gain} of the best, {best.name} ({best.macro_f1:.3f})"
    )
    return slow


def _fast(
    one_packet: Sequence[Candidate],
    slow: Candidate,
    portion_needed: Callable[[Candidate, Candidate], float],
    found: Placement,
) -> Candidate:
    """The one-packet model that hands on the fewest flows."""
    portions = {c.name: portion_needed(c, slow) for c in one_packet}
    fast = min(one_packet, key=lambda c: (round(portions[c.name], 2), -c.macro_f1, c.alone_us))
    found.reasons.append(
        f"fast: {fast.name} (macro-F1 {fast.macro_f1:.3f}) passes "
        f"{portions[fast.name]:.0%} of flows to {slow.name}, the fewest of one-packet models"
    )
    return fast


def _fastest(
    one_packet: Sequence[Candidate], fast: Candidate, margins: Margins, found: Placement
) -> Candidate | None:
    """The quickest acceptable model; None where it relieves the next one of too little."""
    wanted = margins.fastest_part * max(c.macro_f1 for c in one_packet)
    acceptable = [c for c in one_packet if c.macro_f1 >= wanted]
    quickest = min(acceptable, key=lambda c: (c.batch_us, -c.macro_f1))
    if quickest.name == fast.name:
        found.reasons.append(f"fastest omitted: no acceptable model is quicker than {fast.name}")
        return None
    told = f"{quickest.name} ({quickest.batch_us:.2f} µs a flow, macro-F1 {quickest.macro_f1:.3f})"
    if quickest.batch_us > margins.fastest_time * fast.batch_us:
        found.reasons.append(
            f"fastest omitted: {told} takes more than {margins.fastest_time:.0%} of the time of "
            f"{fast.name} ({fast.batch_us:.2f} µs)"
        )
        return None
    found.reasons.append(
        f"fastest: {told}, the quickest one-packet model with {margins.fastest_part:.0%} of the "
        f"best macro-F1 of these, before {fast.name} ({fast.batch_us:.2f} µs)"
    )
    return quickest
