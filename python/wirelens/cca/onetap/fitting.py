"""Training the network of one tap on crops of flows, one set of weights for all lengths."""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from wirelens.cca.intervals import Array
from wirelens.cca.networks import Dragonfly
from wirelens.cca.onetap.levels import channel_count, channels
from wirelens.cca.onetap.rows import INPUTS, ROWS_PER_RTT, Series
from wirelens.cca.onetap.windows import Windows, last_windows
from wirelens.learn.networks import array, nn, tensor, torch

Flows = Sequence[tuple[Series, int]]

BATCH = 128
LEARNING_RATE, WEIGHT_DECAY = 3e-3, 0.02
SMOOTHING = 0.05
DROPOUT = 0.3
SPREAD = 0.15
"""Of the logarithm of the factors by which bytes and times of a crop are multiplied: paths between
those of the runs."""
GRADIENT_MAX = 1.0
SCORED_AT_ONCE = 64


@dataclass(frozen=True)
class Recipe:
    """How a network is trained."""

    lengths: Sequence[int] = (256, 512)
    """Rows of windows."""
    filters: int = 96
    epochs: int = 40
    seed: int = 1
    threads: int = 1


def fit(
    train: Flows, validation: Flows, controls: Sequence[str], recipe: Recipe,
    show: Callable[[int, float, float], None] = lambda epoch, loss, watched: None,
) -> Any:  # fmt: skip
    """Trains for all epochs; the weights are those of the epoch at which windows of the validation
    runs are most likely."""
    torch.set_num_threads(recipe.threads)
    torch.manual_seed(recipe.seed)
    dice = numpy.random.default_rng(recipe.seed)
    network = Dragonfly(
        channel_count(INPUTS), len(controls), min(recipe.lengths), recipe.filters, DROPOUT
    )
    watched = [last_windows(validation, rows) for rows in recipe.lengths]
    optimizer = torch.optim.AdamW(network.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    steps = sum(1 for _ in _batches(train, recipe.lengths, numpy.random.default_rng(0)))
    # Lengths are drawn, so that an epoch may have a batch more of each.
    total = recipe.epochs * (steps + 2 * len(recipe.lengths))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=total)
    best, kept = float("inf"), copy.deepcopy(network.state_dict())
    for epoch in range(recipe.epochs):
        network.train()
        losses = [
            _step(network, optimizer, schedule, batch, dice)
            for batch in _batches(train, recipe.lengths, dice)
        ]
        surprise = _surprise(network, watched)
        show(epoch, float(numpy.mean(losses)), surprise)
        if surprise < best:
            best, kept = surprise, copy.deepcopy(network.state_dict())
    network.load_state_dict(kept)
    return network.eval()


def _batches(flows: Flows, lengths: Sequence[int], dice: Any) -> Iterator[Windows]:
    """A crop of each flow at a tap, from any moment on, of one of the lengths that fit."""
    found: list[list[int]] = [[] for _ in lengths]
    for at in dice.permutation(len(flows)):
        fitting = [n for n, rows in enumerate(lengths) if rows <= len(flows[at][0].values)]
        if fitting:
            found[fitting[dice.integers(len(fitting))]].append(at)
    batches = [
        (rows, some[first : first + BATCH])
        for rows, some in zip(lengths, found, strict=True)
        for first in range(0, len(some), BATCH)
    ]
    for number in dice.permutation(len(batches)):
        rows, some = batches[number]
        # Batch normalisation has nothing to go by in one window.
        if len(some) > 1:
            yield _crops([flows[at] for at in some], rows, dice)


def _crops(flows: Flows, rows: int, dice: Any) -> Windows:
    starts = [dice.integers(len(series.values) - rows + 1) for series, _ in flows]
    return Windows(
        numpy.stack([
            series.values[start : start + rows]
            for (series, _), start in zip(flows, starts, strict=True)
        ]),
        numpy.array([series.row_s for series, _ in flows]),
        numpy.array([label for _, label in flows]),
        [series.place for series, _ in flows],
    )  # fmt: skip


def _scaled(windows: Windows, dice: Any) -> Any:
    """What the network reads of windows whose bytes and times were multiplied."""
    count = len(windows)
    bytes_by, times_by = numpy.exp(dice.normal(0, SPREAD, (2, count)))
    by = numpy.ones((count, 1, len(INPUTS)), numpy.float32)
    for at, name in enumerate(INPUTS):
        if name.endswith("_bytes"):
            by[:, 0, at] = bytes_by
        elif name.endswith("_s"):
            by[:, 0, at] = times_by
    return channels(
        tensor(windows.values * by), tensor(windows.row_s * times_by), INPUTS, ROWS_PER_RTT
    )


def _step(network: Any, optimizer: Any, schedule: Any, batch: Windows, dice: Any) -> float:
    optimizer.zero_grad(set_to_none=True)
    loss = nn.functional.cross_entropy(
        network(_scaled(batch, dice)), tensor(batch.labels), label_smoothing=SMOOTHING
    )
    loss.backward()
    nn.utils.clip_grad_norm_(network.parameters(), GRADIENT_MAX)
    optimizer.step()
    schedule.step()
    return float(loss.item())


def scores(network: Any, windows: Windows) -> Array:
    """A score for each control of each window."""
    network.eval()
    found = [numpy.zeros((0, network.head.out_channels), numpy.float32)]
    with torch.no_grad():
        for first in range(0, len(windows), SCORED_AT_ONCE):
            some = slice(first, first + SCORED_AT_ONCE)
            found.append(array(network(windows.channels(some))))
    return numpy.concatenate(found)


def _surprise(network: Any, watched: Sequence[Windows]) -> float:
    found = [
        nn.functional.cross_entropy(tensor(scores(network, windows)), tensor(windows.labels))
        for windows in watched
        if len(windows)
    ]
    return float(numpy.mean([loss.item() for loss in found]))
