"""Networks as predictors. Importing this imports PyTorch."""

from dataclasses import dataclass, field, replace
from typing import Any

from wirelens.l4s import learn
from wirelens.l4s.material import Material

Array = Any


@dataclass
class Network:
    """A network of `learn.KINDS`."""

    kind: str
    window: int
    schedule: learn.Schedule = learn.Schedule()
    tuning: learn.Tuning = learn.Tuning()
    show: learn.Show | None = None
    network: Any = field(default=None, repr=False)

    def fit(self, material: Material, trained: slice, watched: slice, seed: int) -> None:
        """Trains it."""
        self.network = learn.train(
            self.kind, self.window, [learn.Part(material, trained)],
            [learn.Part(material, watched)], self.schedule, seed=seed, show=self.show,
        )  # fmt: skip

    def tuned(self, material: Material, span: slice, seed: int) -> "Network":
        """With linear layers fine-tuned."""
        network = learn.tune(self.network, learn.Part(material, span), self.tuning, seed=seed)
        return replace(self, network=network)

    def predict(self, material: Material, span: slice) -> Array:
        """Base and what the network adds."""
        residual = learn.predict(self.network, learn.Part(material, span))
        return material.predicted_ms(residual, span)
