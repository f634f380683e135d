"""Training of latency models, and their predictions.

A network is trained twice. First all of it, in sequences of packets, with SwiftQueue's optimiser
(section 5): Adam with β = 0.9, 0.98, a learning rate that rises for a number of steps and falls
with the root of their number, dropout, and weight decay. Then its linear layers from the beginning,
on packets in random order: those of a sequence resemble each other, so that a step learns few of
them.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from wirelens.errors import OptionError
from wirelens.l4s.coding import bins_of
from wirelens.l4s.examples import CHANGE_SHARE, Examples, Part, held_out, thinned
from wirelens.l4s.material import Material
from wirelens.l4s.networks import WIDTH, BiLstm, Causal, Full
from wirelens.l4s.packets import NEVER, TOKEN_LEN
from wirelens.learn.networks import array, tensor, torch

Array = Any
KINDS: dict[str, Callable[[int, Array], Any]] = {"causal": Causal, "full": Full, "bilstm": BiLstm}

# Packets of a head's training at most, about 0.5 kB each, and of what says when to stop.
EXAMPLES_MAX, WATCHED_MAX = 2_000_000, 250_000


@dataclass(frozen=True)
class Schedule:
    """How a network is trained. `tokens` are those of a step, about."""

    steps: int = 3_000
    warmup_steps: int = 1_000
    tokens: int = 2_048
    learning_rate: float = 1.0
    """Factor of the Transformer's schedule."""
    weight_decay: float = 1e-5
    watch_every: int = 250
    """Steps after which what is held out is judged; the best weights are kept."""
    averaged: float = 0.99
    """Weights that are judged and kept are a mean over steps, in which each step counts this share
    of the one after it: those of single steps differ more than what they learn."""
    head: "HeadSchedule | None" = None
    """None for the default."""

    @classmethod
    def of(cls, steps: int) -> "Schedule":
        """So many steps, of which a third at most warm up."""
        return cls(
            steps=steps, warmup_steps=max(1, min(cls.warmup_steps, steps // 3)),
            watch_every=min(cls.watch_every, max(1, steps // 4)),
        )  # fmt: skip


@dataclass(frozen=True)
class HeadSchedule:
    """How linear layers are trained on packets in random order. The learning rate rises for some
    steps and falls with a cosine."""

    steps: int = 1_000
    warmup_steps: int = 50
    rows: int = 512
    learning_rate: float = 2e-3
    watched: int = 15
    """How often what is held out is judged."""
    averaged: float = 0.99
    change_share: float = CHANGE_SHARE
    """What 1 less the F1 of sharp changes counts for beside the squared error."""

    def rate(self, step: int) -> float:
        """Of a step from 1 on."""
        fallen = 0.5 * (1 + numpy.cos(numpy.pi * step / self.steps)) + 0.02
        return float(self.learning_rate * min(1.0, step / self.warmup_steps) * fallen)


@dataclass(frozen=True)
class Tuning:
    """How the linear layers are fine-tuned on the last minute: as the program does it, whose
    defaults these are."""

    epochs: int = 10
    rows: int = 512
    learning_rate: float = 3e-4
    change_share: float = CHANGE_SHARE


Show = Callable[[int, int, float], None]


def train(
    kind: str,
    window: int,
    trained: Sequence[Part],
    watched: Sequence[Part],
    schedule: Schedule = Schedule(),
    *,
    seed: int = 1,
    show: Show | None = None,
) -> Any:
    """Trains a network of `KINDS`; the weights are those with the least loss on `watched`."""
    trained = [part for part in trained if part.material.weight[part.span].any()]
    if not trained or not any(part.material.weight[part.span].any() for part in watched):
        raise OptionError("no packet with a latency to train on; wanted: packets with latencies")
    shares = numpy.array([len(part) for part in trained], dtype=numpy.float64)
    shares /= shares.sum()
    # Networks this small gain nothing from more threads, and one gives the same sums every time.
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    dice = numpy.random.default_rng(seed)
    queries = [_queries(part) for part in trained]
    network = KINDS[kind](window, bins_of(queries))
    optimizer = torch.optim.Adam(
        network.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9,
        weight_decay=schedule.weight_decay,
    )  # fmt: skip
    draw = _chunks if network.is_causal else _windows
    mean = copy.deepcopy(network)
    best: tuple[float, Any] | None = None
    for step in range(1, schedule.steps + 1):
        rate = schedule.learning_rate * WIDTH**-0.5
        rate *= min(step**-0.5, step * schedule.warmup_steps**-1.5)
        for group in optimizer.param_groups:
            group["lr"] = rate
        network.train()
        part = trained[dice.choice(len(trained), p=shares)]
        predicted, rows = draw(network, part, schedule.tokens, dice)
        loss = _loss(predicted, part.material, rows)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        _average(mean, network, min(schedule.averaged, step / (step + 10)))
        if step % schedule.watch_every == 0 or step == schedule.steps:
            held = held_loss(mean, watched)
            if best is None or held < best[0]:
                best = held, copy.deepcopy(mean.state_dict())
            if show is not None:
                show(step, schedule.steps, held)
    assert best is not None
    mean.load_state_dict(best[1])
    return _train_head(mean.eval(), trained, watched, schedule.head or HeadSchedule(), dice, show)


def _queries(part: Part) -> Array:
    """Those with a target."""
    return part.material.rows.queries[part.span][part.material.weight[part.span] > 0]


def _train_head(
    network: Any, trained: Sequence[Part], watched: Sequence[Part], schedule: HeadSchedule,
    dice: Any, show: Show | None,
) -> Any:  # fmt: skip
    """Linear layers from the beginning, with the least loss on `watched`; the encoder stays."""
    trained, watched = thinned(trained, EXAMPLES_MAX, dice), thinned(watched, WATCHED_MAX, dice)
    examples, held = (
        Examples.of(parts, [encoded(network, part) for part in parts])
        for parts in (trained, watched)
    )
    network.head.renew()
    optimizer = torch.optim.Adam(network.head.parameters(), lr=1.0)
    mean = copy.deepcopy(network)
    best: tuple[float, Any] | None = None
    every = max(1, schedule.steps // schedule.watched)
    minibatches = _drawn(examples, schedule.rows, dice)
    for step in range(1, schedule.steps + 1):
        rows = next(minibatches)
        for group in optimizer.param_groups:
            group["lr"] = schedule.rate(step)
        loss = examples.loss(network, rows, schedule.change_share, is_drawn=True)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        _average(mean.head, network.head, min(schedule.averaged, step / (step + 10)))
        if step % every == 0 or step == schedule.steps:
            with torch.no_grad():
                found = float(held.loss(mean, held.rows, schedule.change_share, is_drawn=False))
            if best is None or found < best[0]:
                best = found, copy.deepcopy(mean.head.state_dict())
            if show is not None:
                show(step, schedule.steps, found)
    assert best is not None
    mean.head.load_state_dict(best[1])
    return mean


def _drawn(examples: Examples, count: int, dice: Any) -> Iterator[Array]:
    """Minibatches without end; the last of an epoch may be smaller."""
    while True:
        order = examples.order(dice)
        for first in range(0, len(order), count):
            yield order[first : first + count]


def _average(mean: Any, network: Any, share: float) -> None:
    with torch.no_grad():
        for kept, newest in zip(mean.parameters(), network.parameters(), strict=True):
            kept.mul_(share).add_(newest, alpha=1 - share)


def _loss(predicted: Any, material: Material, rows: Array) -> Any:
    weight, target = tensor(material.weight[rows]), tensor(material.target[rows])
    return (weight * (predicted - target) ** 2).sum() / weight.sum().clamp(min=1.0)


def held_loss(network: Any, parts: Sequence[Part]) -> float:
    """The mean weighted squared error of packets."""
    total, weights = 0.0, 0.0
    for part in parts:
        weight = part.material.weight[part.span]
        error = predict(network, part) - part.material.target[part.span]
        total += float((weight * error**2).sum())
        weights += float(weight.sum())
    return total / max(weights, 1)


def _chunks(network: Any, part: Part, tokens: int, dice: Any) -> tuple[Any, Array]:
    """Some sequences of tokens, and the packets whose batches begin within them."""
    material, span = part.material, part.span
    known = material.rows.known
    first, end = int(known[span.start]), int(known[span.stop - 1])
    length = min(4 * network.window, end - first)
    if length < 1:
        raise OptionError("no packet was acknowledged; wanted: a trace with acknowledgements")
    count = max(1, tokens // length)
    begins = dice.integers(first, end - length + 1, count)
    sequences = numpy.stack([material.rows.tokens[at : at + length] for at in begins])
    encoded = network.encode(tensor(sequences))
    rows, of, at = [], [], []
    for number, begin in enumerate(begins):
        # A packet that knows `k` tokens is asked with the newest of them, which is at `k - 1`.
        low, high = numpy.searchsorted(known[span], [begin + 1, begin + length + 1]) + span.start
        rows.append(numpy.arange(low, high))
        of.append(numpy.full(high - low, number))
        at.append(known[low:high].astype(numpy.int64) - 1 - begin)
    all_rows = numpy.concatenate(rows)
    hidden = encoded[tensor(numpy.concatenate(of)), tensor(numpy.concatenate(at))]
    return network.score(hidden, tensor(material.rows.queries[all_rows])), all_rows


def _windows(network: Any, part: Part, tokens: int, dice: Any) -> tuple[Any, Array]:
    """Some windows that end where a batch begins, and that batch's packets."""
    material, span = part.material, part.span
    known, begins = material.batches(span)
    count = max(1, tokens // network.window)
    chosen = dice.integers(0, len(begins), min(count, len(begins)))
    ends = numpy.append(begins, span.stop)
    hidden, rows = _of_windows(network, material, known[chosen], begins[chosen], ends[chosen + 1])
    return network.score(hidden, tensor(material.rows.queries[rows])), rows


def _of_windows(
    network: Any, material: Material, known: Array, begins: Array, ends: Array
) -> tuple[Any, Array]:
    window, rows = network.window, material.rows
    places = known[:, None] + numpy.arange(-window, 0)[None, :]
    is_pad = places < 0
    if len(rows.tokens):
        tokens = rows.tokens[places.clip(0, len(rows.tokens) - 1)]
    else:
        tokens = numpy.zeros((len(known), window, TOKEN_LEN), dtype="f4")
    # With no token at all attention would have nothing to look at.
    is_pad[:, -1] = False
    most = int((ends - begins).max())
    asked = begins[:, None] + numpy.arange(most)[None, :]
    is_asked = asked < ends[:, None]
    queries = rows.queries[asked.clip(0, len(rows.queries) - 1)]
    mask = tensor(is_pad.astype(numpy.int64)) > 0
    hidden = network.encode(tensor(tokens), tensor(queries), mask)
    return hidden[tensor(is_asked.astype(numpy.int64)) > 0], asked[is_asked]


def predict(network: Any, part: Part) -> Array:
    """Of packets the latency above their base, in `UNIT_MS`. The network's own code, not that which
    serves it."""
    material, span = part.material, part.span
    found = numpy.zeros(len(part), dtype="f4")
    hidden = encoded(network, part)
    with torch.no_grad():
        for first in range(0, len(found), 8_192):
            some = slice(first, min(first + 8_192, len(found)))
            queries = material.rows.queries[span][some]
            found[some] = array(network.score(tensor(hidden[some]), tensor(queries)))
    return found


def encoded(network: Any, part: Part) -> Array:
    """Of packets what the encoder finds when they are asked about; fine-tuning leaves it."""
    material, span = part.material, part.span
    network.eval()
    if network.is_causal:
        return _encoded_sequence(network, material, span)
    known, begins = material.batches(span)
    ends = numpy.append(begins[1:], span.stop)
    parts = []
    with torch.no_grad():
        for first in range(0, len(begins), 256):
            some = slice(first, first + 256)
            hidden, _ = _of_windows(network, material, known[some], begins[some], ends[some])
            parts.append(array(hidden))
    return numpy.concatenate(parts) if parts else numpy.zeros((0, 1), dtype="f4")


def _encoded_sequence(network: Any, material: Material, span: slice) -> Array:
    """The newest token's, since a causal encoder has each of them once; zeros before the first."""
    known = material.rows.known[span].astype(numpy.int64)
    found = numpy.zeros((len(known), WIDTH), dtype="f4")
    if not len(known) or known[-1] == 0:
        return found
    block, reach = max(4 * network.window, 256), network.reach
    with torch.no_grad():
        for first in range(max(int(known[0]) - 1, 0), int(known[-1]), block):
            end = min(first + block, int(known[-1]))
            begin = max(first - reach + 1, 0)
            hidden = array(network.encode(tensor(material.rows.tokens[None, begin:end]))[0])
            is_here = (known > first) & (known <= end)
            found[is_here] = hidden[known[is_here] - 1 - begin]
    return found


def tune(network: Any, part: Part, tuning: Tuning = Tuning(), *, seed: int = 1) -> Any:
    """A copy whose linear layers were fine-tuned on these packets; the encoder stays as it is. The
    network itself where that is no better on a tenth of the packets, which did not train it."""
    material, span = part.material, part.span
    tuned = copy.deepcopy(network)
    records = material.packets.records
    # What is not acknowledged when the next packet leaves is not known yet.
    end_ns = records["sent_ns"][span.stop] if span.stop < len(material) else NEVER
    is_known = records["acked_ns"][span] < end_ns
    has = numpy.flatnonzero((material.weight[span] > 0) & is_known)
    if not len(has):
        return tuned
    torch.manual_seed(seed)
    dice = numpy.random.default_rng(seed)
    optimizer = torch.optim.Adam(tuned.head.parameters(), lr=tuning.learning_rate)
    examples = Examples.of([part], [encoded(network, part)])
    is_held = held_out(len(has))
    held = has[is_held] if is_held.any() else has
    trained = examples.without(numpy.concatenate([has[is_held], numpy.flatnonzero(~is_known)]))
    tuned.eval()
    for _ in range(tuning.epochs):
        order = trained.order(dice)
        for first in range(0, len(order), tuning.rows):
            rows = order[first : first + tuning.rows]
            loss = trained.loss(tuned, rows, tuning.change_share, is_drawn=True)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        after, before = (
            float(examples.loss(one, held, tuning.change_share, is_drawn=False))
            for one in (tuned, network)
        )
    return tuned if after < before else network
