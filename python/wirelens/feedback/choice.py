"""Which flows are chosen: the least certain ones, of as many kinds as possible.

Flows are in groups, by `Verdict.group`, and the groups take turns: first the least certain flow of
each group, least certain group first, then the second one of each, and so on. A noisy service thus
has one turn a round, like any other. Of the same server, port, protocol and guess a few are enough.

Memory is bounded without a change of the result. When the candidates reach their limit, they are
chosen among by this same rule, and half of the limit remains. A candidate that is dropped had half
of the limit before it in the order; later candidates only push it further back. So the choice of
up to half of the limit is the one that unlimited memory would have made.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable

from wirelens.feedback.verdicts import Verdict

_TIE_BYTES = 8


class Candidates:
    """Uncertain flows, of which no more than a limit is in memory."""

    def __init__(self, limit: int, alike: int, seed: int) -> None:
        self._limit, self._alike = limit, alike
        self._seed = seed.to_bytes(8, "little")
        self._kept: list[tuple[float, bytes, Verdict]] = []
        # Flows by what they have in common; at most as many keys as candidates.
        self._alike_counts: Counter[tuple[str, str, int, str]] = Counter()
        self.seen = 0
        # Flows of keys that found no room to be counted.
        self.uncounted = 0
        self.group_count = 0

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, verdict: Verdict) -> None:
        """Takes a flow in."""
        self.seen += 1
        key = verdict.alike_key
        if key in self._alike_counts or len(self._alike_counts) < self._limit:
            self._alike_counts[key] += 1
        else:
            self.uncounted += 1
        tie = hashlib.blake2b(
            verdict.flow.encode(errors="surrogateescape"), digest_size=_TIE_BYTES, key=self._seed
        )
        self._kept.append((verdict.guess_confidence, tie.digest(), verdict))
        if len(self._kept) >= self._limit:
            self._kept = self._in_turns(self._limit // 2)

    def chosen(self, count: int) -> list[Verdict]:
        """The flows of the first turns."""
        found = [verdict for _, _, verdict in self._in_turns(count)]
        self.group_count = len({verdict.group for verdict in found})
        return found

    def alike_count(self, verdict: Verdict) -> int:
        """How many flows like this one were seen, itself included; at least, where some found no
        room to be counted.
        """
        return max(self._alike_counts[verdict.alike_key], 1)

    def _in_turns(self, count: int) -> list[tuple[float, bytes, Verdict]]:
        return in_turns(self._kept, self._alike)[:count]


def in_turns(
    candidates: Iterable[tuple[float, bytes, Verdict]], alike: int
) -> list[tuple[float, bytes, Verdict]]:
    """All of them in the order of turns, without copies and those of which there are enough."""
    flows: set[str] = set()
    keys: Counter[tuple[str, str, int, str]] = Counter()
    turns: Counter[tuple[str, str, int, str]] = Counter()
    ranked = []
    for candidate in sorted(candidates, key=lambda one: one[:2]):
        verdict = candidate[2]
        if verdict.flow in flows or keys[verdict.alike_key] >= alike:
            continue
        flows.add(verdict.flow)
        keys[verdict.alike_key] += 1
        ranked.append((turns[verdict.group], candidate))
        turns[verdict.group] += 1
    # The sort is stable: within a turn, the least certain comes first.
    ranked.sort(key=lambda one: one[0])
    return [candidate for _, candidate in ranked]
