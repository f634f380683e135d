"""Names of predictors, known without what they need."""

MSE = "-mse"
NETWORKS = ("causal", "full", "bilstm")
# `causal-served` is `causal`, whose predictions and fine-tuning are those of the program.
# Those with `-mse` are trained by the mean squared error instead of SwiftQueue's loss.
SERVED = "causal-served"
PREDICTORS = ("last-of-flow", "last-of-queue", "littles-law", "xgboost", *NETWORKS, SERVED,
              *(f"{name}{MSE}" for name in NETWORKS))  # fmt: skip
DEFAULT = ("last-of-flow", "last-of-queue", "littles-law", "xgboost", "bilstm", "causal")
LATENCY, CHANGES = "latency", "changes"
GOALS = (LATENCY, CHANGES)
"""What a model is trained for: the mean latency of a packet, or that sharp changes are found."""
