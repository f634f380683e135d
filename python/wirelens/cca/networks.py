"""The networks: Dragonfly's, which serves, and DeePCCI's, which it is measured beside.

Both take intervals × slots × inputs and give a score for each control.
"""

import math
from typing import Any

from wirelens.learn.networks import array, nn, torch

_Module: Any = nn.Module

FILTERS = 50
BLOCKS = 5
KERNEL = 3


def pool_len(slots: int) -> int:
    """Slots that a pool makes one: after five of them a few are left (authors' code)."""
    # The fifth root of 100,000 is 10, and nearly so in floating point.
    root: float = slots ** (1 / BLOCKS)
    return max(1, math.floor(root + 1e-9))


class Dragonfly(_Module):
    """Five modules of convolution over time and inputs (3×2, 50 filters), batch normalisation, ReLU
    and max-pooling; then a convolution with an output for each control, averaged over time.

    Source: Carmel and Keslassy, §III-E; what it leaves open as in the authors' code.
    """

    def __init__(
        self, inputs: int, controls: int, slots: int, filters: int = FILTERS, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.pool_len = pool_len(slots)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(inputs if block == 0 else filters, filters, KERNEL, padding=1)
            for block in range(BLOCKS)
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(filters) for _ in range(BLOCKS))
        self.pool = nn.MaxPool1d(self.pool_len)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Conv1d(filters, controls, KERNEL, padding=1)
        for module in [*self.convolutions, self.head]:
            nn.init.xavier_uniform_(module.weight)
            nn.init.zeros_(module.bias)

    def forward(self, values: Any) -> Any:
        steps = values.transpose(1, 2)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            # The other way round is the same, and takes longer.
            steps = torch.relu(self.pool(norm(convolution(steps))))
        return self.head(self.dropout(steps)).mean(dim=2)

    def folded(self) -> tuple[list[tuple[Any, Any]], tuple[Any, Any]]:
        """Weights and bias of each block, batch normalisation put into them, and of the head."""
        blocks = []
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
            weight = convolution.weight * scale[:, None, None]
            bias = (convolution.bias - norm.running_mean) * scale + norm.bias
            blocks.append((array(weight), array(bias)))
        return blocks, (array(self.head.weight), array(self.head.bias))


class _Residual(_Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(width, width, 3, padding=1)
        self.norm = nn.BatchNorm1d(width)
        self.second = nn.Conv1d(width, width, 3, padding=1)
        self.after = nn.BatchNorm1d(width)
        # What is left over behind the last pool is a pool of its own.
        self.pool = nn.MaxPool1d(4, ceil_mode=True)

    def forward(self, steps: Any) -> Any:
        inside = self.second(torch.relu(self.norm(self.first(steps))))
        return torch.relu(self.pool(self.after(inside) + steps))


class _Recurrent(_Module):
    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(inputs)
        self.lstm = nn.LSTM(inputs, width, batch_first=True)
        for name, parameter in self.lstm.named_parameters():
            if name.startswith("weight"):
                nn.init.xavier_uniform_(parameter)
            else:
                nn.init.zeros_(parameter)
        with torch.no_grad():
            # Gates stand as input, forget, cell, output: it forgets little to begin with. There are
            # two biases, which are added.
            self.lstm.bias_ih_l0[width : 2 * width] = 1.0

    def forward(self, steps: Any) -> Any:
        found, _ = self.lstm(self.norm(steps).transpose(1, 2))
        return found.transpose(1, 2)


class Deepcci(_Module):
    """Packets of each millisecond through residual convolutions and three LSTMs, with a score after
    each step; the last one counts.

    Source: Sander, Rüth, Hohlfeld and Wehrle, DeePCCI, as its published code has it.
    """

    WIDTH, RECURRENT = 64, 100
    SCALE = 10.0
    """Packets are divided by this, whatever there are."""

    def __init__(self, controls: int) -> None:
        super().__init__()
        self.begin = nn.Conv1d(1, self.WIDTH, 1)
        self.residuals = nn.Sequential(*(_Residual(self.WIDTH) for _ in range(5)))
        widths = (self.WIDTH, self.RECURRENT, self.RECURRENT)
        self.recurrents = nn.Sequential(*(_Recurrent(width, self.RECURRENT) for width in widths))
        self.norm = nn.BatchNorm1d(self.RECURRENT)
        self.head = nn.Conv1d(self.RECURRENT, controls, 1)
        for module in self.residuals.modules():
            if isinstance(module, nn.Conv1d):
                nn.init.kaiming_normal_(module.weight)
        nn.init.xavier_uniform_(self.head.weight)

    def forward(self, values: Any) -> Any:
        steps = self.begin(values.transpose(1, 2) / self.SCALE)
        self.steps = self.head(self.norm(self.recurrents(self.residuals(steps))))
        return self.steps[:, :, -1]

    def loss_of_steps(self, _: Any, labels: Any, __: Any) -> Any:
        """Every step is to tell the control, not the last alone."""
        each = labels[:, None].expand(-1, self.steps.shape[2])
        return nn.functional.cross_entropy(self.steps, each)
