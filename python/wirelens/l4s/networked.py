"""Networks as predictors. Importing this imports PyTorch."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy

from wirelens import _wirelens
from wirelens.l4s import learn, model
from wirelens.l4s.examples import Part
from wirelens.l4s.material import Material
from wirelens.l4s.packets import BATCHING, Batching
from wirelens.l4s.rhythm import Rhythm

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
            self.kind, self.window, [Part(material, trained)],
            [Part(material, watched)], self.schedule, seed=seed, show=self.show,
        )  # fmt: skip

    def tuned(self, material: Material, span: slice, seed: int) -> "Network":
        """With linear layers fine-tuned."""
        network = learn.tune(self.network, Part(material, span), self.tuning, seed=seed)
        return replace(self, network=network)

    def predict(self, material: Material, span: slice) -> Array:
        """Base and what the network adds."""
        residual = learn.predict(self.network, Part(material, span))
        return material.predicted_ms(residual, span)


@dataclass
class ServedNetwork(Network):
    """A causal network whose predictions and fine-tuning are those of the program. They are made at
    once for the whole trace, in the same rhythm, so that time of tuning is not measured apart."""

    rhythm: Rhythm = Rhythm()
    batching: Batching = BATCHING
    found: Any = field(default=None, repr=False)

    def fit(self, material: Material, trained: slice, watched: slice, seed: int) -> None:
        """Trains it, then predicts."""
        super().fit(material, trained, watched, seed)
        records = material.packets.records
        begin_ns = int(records["sent_ns"][0]) + round(self.rhythm.trained_s * 1e9)
        rhythm = (begin_ns, round(self.rhythm.every_s * 1e9), round(self.rhythm.tuned_s * 1e9))
        memory = _wirelens.predict_latencies(
            model.data(self.network, self.batching, {}), records.tobytes(),
            tune=rhythm if self.rhythm.tuned_s else None,
        )  # fmt: skip
        both = numpy.frombuffer(memory, "f4").reshape(-1, 2)
        self.found = both[numpy.arange(len(both)), records["queue"]]

    def tuned(self, material: Material, span: slice, seed: int) -> "ServedNetwork":
        """The same: the program has done it."""
        return self

    def predict(self, material: Material, span: slice) -> Array:
        """What the program predicted."""
        return self.found[span]
