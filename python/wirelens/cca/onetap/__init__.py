"""A model of one tap: congestion controls from data and acknowledgements that one tap sees.

- `rows`: rows of flows of labelled runs, and the compact file that keeps them
- `captures`: labelled runs of captures, read as `wirelens cca` reads them
- `levels`: what the network reads of rows
- `train`, `evaluate`, `card`: as for two taps
"""
