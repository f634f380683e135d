"""FastTraffic, made anew from its description, to compare with.

Xu et al. 2023, "FastTraffic: A lightweight method for encrypted traffic fast classification". A
packet is its first 50 bytes from the IP header on, addresses and the source port zeroed, UDP's
header filled up to the length of TCP's. Each byte, each pair and each triple is looked up in a
table of 40 numbers, the latter two by hash in 5,000 buckets; the three are put side by side,
averaged over the packet, and go through two dense layers, 120 → 150 with batch normalisation,
GELU and dropout, and 150 → classes.

The original classifies packets, and drops those without payload and DNS. Here a flow is
classified, once, as ServeFlow's authors adapted it: the tokens of its first N packets, each cut
at 50, are averaged together. No packet is dropped, since flows of handshakes and DNS are
among those to be told apart.
"""

from dataclasses import dataclass
from typing import Any

import numpy
from wirelens.classify.recipe import Recipe
from wirelens.learn import networks
from wirelens.learn.networks import nn, torch

Array = Any

TOKENS = 50
_BUCKETS = 5_000
_WIDTH = 40
# With the shortest headers that have a payload behind them, 28 bytes, so many of 50 are left;
# where UDP is filled up, 12 fewer.
PAYLOAD_BYTES = 22
_UDP_FILL = 12
_LENS = {"ipv4": 60, "ipv6": 40, "tcp": 60, "udp": 8, "icmp": 8}
# What is zeroed of the blocks: addresses, and the port of whoever sent the packet.
_ZEROED = {
    "ipv4": range(12, 20),
    "ipv6": range(8, 40),
    "tcp": range(0, 2),
    "udp": range(0, 2),
}


def columns(packets: int) -> list[str]:
    """Names of what `tokens` gives for a flow."""
    return [f"pkt{packet}_token_{place}" for packet in range(packets) for place in range(TOKENS)]


def tokens(raw: Array, recipe: Recipe, packets: int) -> Array:
    """Tokens of flows from the bytes of their compact records.

    A row a flow, 50 for each packet: bytes as they are, −1 behind a packet's end.
    """
    data_len = sum(_LENS[block] for block in recipe.blocks) + recipe.payload_bytes
    records = numpy.asarray(raw).reshape(-1, data_len + (data_len + 7) // 8)
    is_there = numpy.unpackbits(records[:, data_len:], axis=1)[:, :data_len].astype(bool)
    values = records[:, :data_len].astype(numpy.int16)
    parts, there, first = [], [], 0
    for block in (*recipe.blocks, "payload"):
        length = _LENS.get(block, recipe.payload_bytes)
        part, here = values[:, first : first + length], is_there[:, first : first + length]
        part[:, list(_ZEROED.get(block, ()))] = 0
        parts.append(part)
        there.append(here)
        if block == "udp":
            # Filled up behind the header where there is one.
            parts.append(numpy.zeros((len(part), _UDP_FILL), dtype=numpy.int16))
            there.append(numpy.repeat(here[:, :1], _UDP_FILL, axis=1))
        first += length
    everything, is_token = numpy.concatenate(parts, axis=1), numpy.concatenate(there, axis=1)
    # What is there moves to the front, in order.
    order = numpy.argsort(~is_token, axis=1, kind="stable")[:, :TOKENS]
    found = numpy.take_along_axis(everything, order, axis=1)
    found[~numpy.take_along_axis(is_token, order, axis=1)] = -1
    return found.reshape(-1, packets * TOKENS).astype(numpy.float32)


class FastTraffic(nn.Module):
    """Rows of tokens in, outputs before softmax out."""

    def __init__(self, packets: int, class_count: int) -> None:
        super().__init__()
        self.packets = packets
        self.bytes = nn.Embedding(257, _WIDTH)
        self.pairs = nn.Embedding(_BUCKETS, _WIDTH)
        self.triples = nn.Embedding(_BUCKETS, _WIDTH)
        self.head = nn.Sequential(
            nn.Linear(3 * _WIDTH, 150),
            nn.BatchNorm1d(150, affine=False),
            nn.GELU(),
            nn.Dropout(0.4),
            nn.Linear(150, class_count),
        )

    def forward(self, rows: Any) -> Any:
        seen = rows.reshape(-1, TOKENS)
        is_there = (seen >= 0).float()
        # Byte b is token b + 1; what is not there is token 0, and so are those before a packet's
        # first.
        now = (seen + 1).long()
        before = nn.functional.pad(now[:, :-1], (1, 0))
        earlier = nn.functional.pad(now[:, :-2], (2, 0))
        pair = torch.remainder(before * 257 + now, _BUCKETS)
        triple = torch.remainder(earlier * 66_049 + before * 257 + now, _BUCKETS)
        looked_up = torch.cat([self.bytes(now), self.pairs(pair), self.triples(triple)], dim=2)
        there = is_there.reshape(-1, self.packets * TOKENS, 1)
        summed = (looked_up.reshape(-1, self.packets * TOKENS, 3 * _WIDTH) * there).sum(dim=1)
        return self.head(summed / torch.clamp(there.sum(dim=1), min=1.0))


@dataclass(frozen=True)
class Settings:
    """How it is trained."""

    epochs: int = 40
    batch_rows: int = 204
    learning_rate: float = 2.9e-3
    patience: int = 8


def fit(
    train: networks.Examples,
    watched: networks.Examples,
    packets: int,
    class_count: int,
    settings: Settings,
    *,
    seed: int = 1,
    threads: int = 1,
) -> tuple[FastTraffic, networks.History]:
    """Trains one; `watched` tells when to end."""
    torch.manual_seed(seed)
    network = FastTraffic(packets, class_count)
    schedule = networks.Schedule(
        epochs=settings.epochs,
        batch_rows=settings.batch_rows,
        learning_rate=settings.learning_rate,
        weight_decay=0.0,
        patience=settings.patience,
    )
    history = networks.fit(network, train, watched, schedule, seed=seed, threads=threads)
    return network, history
