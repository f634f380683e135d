"""What predicts latencies and needs no network: boosted trees, and the newest latency seen."""

import time
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy

from wirelens import compat
from wirelens.l4s.material import Material
from wirelens.l4s.packets import TOKEN_LEN

Array = Any
# Tokens that boosted trees see, and their numbers that are no code of an identity.
TREE_TOKENS, TREE_NUMBERS = 16, 12


class Predictor(Protocol):
    """Learns from some packets of a trace and predicts others."""

    def fit(self, material: Material, trained: slice, watched: slice, seed: int) -> None:
        """Learns; `watched` says when to stop."""

    def tuned(self, material: Material, span: slice, seed: int) -> "Predictor":
        """One that has also seen these packets, for what comes after them."""

    def predict(self, material: Material, span: slice) -> Array:
        """Latencies of packets in ms; NaN where there is none to go by."""


@dataclass
class Persistence:
    """The newest latency that was acknowledged, of the packet's flow or of its queue."""

    of: str

    def fit(self, material: Material, trained: slice, watched: slice, seed: int) -> None:
        """Nothing to learn."""

    def tuned(self, material: Material, span: slice, seed: int) -> "Persistence":
        """The same."""
        return self

    def predict(self, material: Material, span: slice) -> Array:
        """Of a flow without a latency, that of the queue."""
        rows = material.rows
        of_queue = numpy.where(numpy.isnan(rows.queue_last_ms), rows.base_ms, rows.queue_last_ms)[
            span
        ]
        if self.of == "queue":
            return of_queue
        of_flow = rows.flow_last_ms[span]
        return numpy.where(numpy.isnan(of_flow), of_queue, of_flow)


class LittlesLaw:
    """What is in flight in the queue, by the fastest rate of the last second at which it was
    delivered, and no less than the least latency: a queue that nobody else fills takes so long."""

    def fit(self, material: Material, trained: slice, watched: slice, seed: int) -> None:
        """Nothing to learn."""

    def tuned(self, material: Material, span: slice, seed: int) -> "LittlesLaw":
        """The same."""
        return self

    def predict(self, material: Material, span: slice) -> Array:
        """Before anything was delivered, the newest latency of any queue."""
        rows = material.rows
        little = numpy.where(numpy.isnan(rows.little_ms), rows.base_ms, rows.little_ms)
        return numpy.fmax(little, rows.floor_ms)[span]


@dataclass
class GradientBoosting:
    """XGBoost over a packet's query and the newest tokens."""

    rounds: int = 800
    depth: int = 6
    learning_rate: float = 0.05
    tune_rounds: int = 40
    booster: Any = field(default=None, repr=False)

    def _settings(self, seed: int) -> dict[str, Any]:
        return {
            "max_depth": self.depth, "eta": self.learning_rate, "seed": seed, "nthread": 1,
            "tree_method": "hist", "subsample": 0.8,
        }  # fmt: skip

    def fit(self, material: Material, trained: slice, watched: slice, seed: int) -> None:
        """Adds trees until `watched` gets no better."""
        xgboost = compat.need("xgboost", "boosted trees")
        self.booster = xgboost.train(
            self._settings(seed), _matrix(material, trained), self.rounds,
            evals=[(_matrix(material, watched), "watched")], early_stopping_rounds=30,
            verbose_eval=False,
        )  # fmt: skip
        self.booster = self.booster[: self.booster.best_iteration + 1]

    def tuned(self, material: Material, span: slice, seed: int) -> "GradientBoosting":
        """With trees added for these packets."""
        xgboost = compat.need("xgboost", "boosted trees")
        booster = xgboost.train(
            self._settings(seed), _matrix(material, span), self.tune_rounds,
            xgb_model=self.booster, verbose_eval=False,
        )  # fmt: skip
        return replace(self, booster=booster)

    def predict(self, material: Material, span: slice) -> Array:
        """Base and what the trees add."""
        residual = self.booster.predict(_matrix(material, span))
        return material.predicted_ms(residual, span)


def _matrix(material: Material, span: slice) -> Any:
    xgboost = compat.need("xgboost", "boosted trees")
    rows = material.rows
    places = rows.known[span].astype(numpy.int64)[:, None] - numpy.arange(1, TREE_TOKENS + 1)
    tokens = rows.tokens[:, :TREE_NUMBERS] if len(rows.tokens) else numpy.zeros((1, TREE_NUMBERS))
    newest = numpy.where(
        (places >= 0)[:, :, None], tokens[places.clip(0, len(tokens) - 1)], numpy.nan
    )
    values = numpy.concatenate([rows.queries[span], newest.reshape(len(places), -1)], axis=1)
    assert TREE_NUMBERS <= TOKEN_LEN
    return xgboost.DMatrix(
        values.astype("f4"), label=material.target[span], weight=material.weight[span]
    )


def seconds_of(work: Any) -> tuple[Any, float]:
    """What it returns, and the processor's seconds that it took."""
    start = time.process_time()
    return work(), time.process_time() - start
