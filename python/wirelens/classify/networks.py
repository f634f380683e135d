"""The network of the family `cnn`; importing this imports PyTorch."""

from collections.abc import Sequence
from typing import Any

import numpy

from wirelens.learn.metrics import Array
from wirelens.learn.networks import Module, array, nn, tensor, torch


class Cnn(Module):
    """Convolutions over header bits in their order; numbers join where bits have become features.

    A row's columns may come in any order: those of bits and of numbers are picked out inside.
    Numbers are put on a logarithmic scale and centred as they were among the rows trained on.
    """

    def __init__(self, bits: Sequence[int], numbers: Sequence[int], class_count: int) -> None:
        super().__init__()
        self.register_buffer("bits", tensor(numpy.asarray(bits, dtype=numpy.int64)))
        self.register_buffer("numbers", tensor(numpy.asarray(numbers, dtype=numpy.int64)))
        self.register_buffer("centre", torch.zeros(len(numbers)))
        self.register_buffer("spread", torch.ones(len(numbers)))
        self.has_bits, self.has_numbers = len(bits) > 0, len(numbers) > 0
        # Fewer bits than two poolings take are filled up with bits that are not there.
        self.fill = max(0, 16 - len(bits)) if self.has_bits else 0
        self.convolutions = nn.Sequential(
            nn.Conv1d(1, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool1d(4),
            nn.Conv1d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool1d(4),
            nn.Flatten(),
        )
        width = (len(bits) + self.fill) // 4 // 4 * 64 + len(numbers)
        self.head = nn.Sequential(
            nn.Dropout(0.2),
            nn.Linear(width, 128),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(128, class_count),
        )

    def scaled(self, rows: Any) -> Any:
        """The numbers of rows on a logarithmic scale."""
        picked = torch.index_select(rows, 1, self.numbers)
        return torch.sign(picked) * torch.log(torch.abs(picked) + 1)

    def learn_scale(self, values: Array) -> None:
        """Centres numbers by these rows."""
        if not self.has_numbers:
            return
        scaled = array(self.scaled(tensor(values)))
        self.centre.copy_(tensor(scaled.mean(axis=0)))
        self.spread.copy_(tensor(numpy.maximum(scaled.std(axis=0), 1e-3)))

    def forward(self, rows: Any) -> Any:
        """Outputs before softmax."""
        parts = []
        if self.has_bits:
            bits = torch.index_select(rows, 1, self.bits)
            if self.fill:
                bits = nn.functional.pad(bits, (0, self.fill), value=-1.0)
            parts.append(self.convolutions(bits.unsqueeze(1)))
        if self.has_numbers:
            parts.append((self.scaled(rows) - self.centre) / self.spread)
        return self.head(torch.cat(parts, dim=1))
