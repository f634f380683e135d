"""LEXNet, made anew from its description, to compare with.

Fauvel et al. 2023, "A Lightweight, Efficient and Explainable-by-Design Convolutional Neural
Network for Internet Traffic Classification". It sees the sizes and directions of a flow's first
packets and nothing else, as an image of packets × 2. What is here: a convolution 1 → 8; two
layers of two LERes blocks, to 16 and to 32 channels, whose first widens by putting a depth-wise
map beside its input in place of a 1 × 1 convolution, and of which the last ends in a sigmoid; and
prototypes of 32 numbers, of which the nearest patch of a flow's image counts. Prototypes are
pulled onto patches of training flows every 20 epochs from the tenth on, after which the last
layer is trained again for a while.

Four things are ours. Sizes end at 1,500 bytes before they are scaled to 0 to 1. Each class has
`prototypes` of them; one is where the original begins. Distances go into the last layer by
log((d + 1) / (d + 10⁻⁴)), as described. Training ends when held-out flows get no better, not
after 1,000 epochs.
"""

from dataclasses import dataclass
from typing import Any

import numpy
from wirelens.learn import networks
from wirelens.learn.networks import array, nn, tensor, torch

Array = Any

_PUSH_FROM, _PUSH_EVERY = 10, 20
_CHANNELS = 32
_LEAST = 1e-4
# Sizes above are taken for this: merged segments of 64 KiB would squeeze all others into a corner.
_SIZE_MAX = 1_500.0


def columns(packets: int) -> list[str]:
    """What it sees of a flow, in order."""
    return [
        f"pkt{packet}_{kind}" for packet in range(packets) for kind in ("size_bytes", "direction")
    ]


class LeRes(nn.Module):
    """Two convolutions and a way past them, which adds channels with hardly a parameter."""

    def __init__(self, into: int, out: int, last: Any = None) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(into, out, 3, padding=1, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(),
            nn.Conv2d(out, out, 3, padding=1, bias=False),
            nn.BatchNorm2d(out),
        )
        self.widen = (
            nn.Conv2d(into, out - into, 3, padding=1, groups=into, bias=False)
            if out > into
            else None
        )
        self.last = last or nn.ReLU()

    def forward(self, image: Any) -> Any:
        past = image if self.widen is None else torch.cat([image, self.widen(image)], dim=1)
        return self.last(self.body(image) + past)


class LexNet(nn.Module):
    """Rows of sizes and directions in, outputs before softmax out."""

    def __init__(self, packets: int, class_count: int, prototypes: int = 1) -> None:
        super().__init__()
        self.packets, self.class_count = packets, class_count
        self.register_buffer("least", torch.zeros(2))
        self.register_buffer("most", torch.ones(2))
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            LeRes(8, 16),
            LeRes(16, 16),
            LeRes(16, _CHANNELS),
            LeRes(_CHANNELS, _CHANNELS, nn.Sigmoid()),
        )
        count = class_count * prototypes
        self.prototypes = nn.Parameter(torch.rand(count, _CHANNELS))
        owner = numpy.arange(count) // prototypes
        self.owner = tensor(owner)
        # Distances of the latest batch in training.
        self.recent: Any = None
        self.last = nn.Linear(count, class_count, bias=False)
        is_own = owner[None, :] == numpy.arange(class_count)[:, None]
        self.last.weight.data.copy_(tensor(numpy.where(is_own, 1.0, -0.5)))

    def learn_scale(self, values: Array) -> None:
        """Smallest and largest size and direction of these rows."""
        image = numpy.minimum(numpy.asarray(values).reshape(-1, 2), _SIZE_MAX)
        self.least.copy_(tensor(image.min(axis=0).astype(numpy.float32)))
        self.most.copy_(tensor(numpy.maximum(image.max(axis=0), image.min(axis=0) + 1)))

    def patches(self, rows: Any) -> Any:
        """Every patch of each row's image: 32 numbers for each packet and channel."""
        image = rows.reshape(-1, self.packets, 2)
        image = torch.clamp(image, max=_SIZE_MAX)
        scaled = (image - self.least) / (self.most - self.least)
        return self.features(scaled.unsqueeze(1)).flatten(2)

    def distances(self, rows: Any) -> Any:
        """From each prototype to the nearest patch of each row, squared."""
        patches = self.patches(rows)
        # |patch - prototype|², opened up: a matrix product in place of a tensor of differences.
        squares = (patches * patches).sum(dim=1, keepdim=True)
        own = (self.prototypes * self.prototypes).sum(dim=1).reshape(1, -1, 1)
        products = torch.matmul(self.prototypes, patches)
        every = torch.clamp(squares - 2 * products + own, min=0.0)
        return every.min(dim=2)[0]

    def forward(self, rows: Any) -> Any:
        distances = self.distances(rows)
        if self.training:
            self.recent = distances
        return self.last(torch.log((distances + 1) / (distances + _LEAST)))

    def extra_loss(self, labels: Any) -> Any:
        """Of the batch just seen: own prototypes near, others far; small prototypes and weights."""
        distances = self.recent
        is_own = self.owner.unsqueeze(0) == labels.unsqueeze(1)
        far = float(_CHANNELS)
        cluster = torch.where(is_own, distances, torch.full_like(distances, far)).min(dim=1)[0]
        apart = torch.where(is_own, torch.full_like(distances, far), distances).min(dim=1)[0]
        small = 1e-3 * self.prototypes.abs().mean() + 1e-4 * self.last.weight.abs().sum()
        return 0.8 * cluster.mean() - 0.08 * apart.mean() + small

    def push(self, values: Array, labels: Array) -> None:
        """Puts each prototype where the nearest patch of its class lies."""
        self.eval()
        owner = array(self.owner.float()).astype(int)
        best = numpy.full(len(owner), numpy.inf)
        with torch.no_grad():
            for first in range(0, len(values), 1024):
                patches = array(self.patches(tensor(values[first : first + 1024])))
                for index, own in enumerate(owner):
                    mine = patches[labels[first : first + 1024] == own]
                    if len(mine) == 0:
                        continue
                    flat = mine.transpose(0, 2, 1).reshape(-1, _CHANNELS)
                    at = ((flat - array(self.prototypes[index])) ** 2).sum(axis=1)
                    if at.min() < best[index]:
                        best[index] = at.min()
                        self.prototypes[index].copy_(tensor(flat[at.argmin()]))


@dataclass(frozen=True)
class Settings:
    """How it is trained; beside `Schedule`, the rates of its parts."""

    epochs: int = 60
    batch_rows: int = 256
    features_rate: float = 1e-3
    prototypes_rate: float = 1e-1
    last_rate: float = 1e-2
    prototypes: int = 1
    patience: int = 15


def fit(
    train: networks.Examples,
    watched: networks.Examples,
    packets: int,
    class_count: int,
    settings: Settings,
    *,
    seed: int = 1,
    threads: int = 1,
) -> tuple[LexNet, networks.History]:
    """Trains one; `watched` tells when to end."""
    torch.manual_seed(seed)
    network = LexNet(packets, class_count, settings.prototypes)
    network.learn_scale(train.values)
    rates = [
        {"params": list(network.features.parameters()), "lr": settings.features_rate},
        {"params": [network.prototypes], "lr": settings.prototypes_rate, "weight_decay": 0.0},
        {"params": list(network.last.parameters()), "lr": settings.last_rate, "weight_decay": 0.0},
    ]

    def after_epoch(epoch: int) -> None:
        if epoch >= _PUSH_FROM and (epoch - _PUSH_FROM) % _PUSH_EVERY == 0:
            network.push(train.values, numpy.asarray(train.labels))

    history = networks.fit(
        network,
        train,
        watched,
        networks.Schedule(
            epochs=settings.epochs,
            batch_rows=settings.batch_rows,
            learning_rate=settings.features_rate,
            patience=settings.patience,
            decay_every=100,
        ),
        seed=seed,
        threads=threads,
        extra_loss=lambda _, labels, __: network.extra_loss(labels),
        parameters=rates,
        after_epoch=after_epoch,
    )
    return network, history
