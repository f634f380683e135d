"""Names of predictors, known without what they need."""

MSE = "-mse"
NETWORKS = ("causal", "full", "bilstm")
# Those with `-mse` are trained by the mean squared error instead of SwiftQueue's loss.
PREDICTORS = ("last-of-flow", "last-of-queue", "littles-law", "xgboost", *NETWORKS,
              *(f"{name}{MSE}" for name in NETWORKS))  # fmt: skip
DEFAULT = ("last-of-flow", "last-of-queue", "littles-law", "xgboost", "bilstm", "causal")
