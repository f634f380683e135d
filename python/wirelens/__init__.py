"""Network traffic analysis of every packet. The functions are those of the commands of `wirelens`:

- `top`: top talkers, by source, pair, port, protocol or flow
- `flows`: flow records, from first packet to end, optionally with features for models
- `classify_flows`: the service or device of each flow, with a trained model
- `latency`: RTT, jitter, retransmissions and one-way delay of flows, destinations and packets
- `packets`: every packet as a row, in batches, however large the capture
- `run`: several of them in one pass, with your own applications in Python

Each takes a path, a folder, a list of them, or an interface, and returns a result that iterates
over rows, yields Arrow batches, and converts to pandas or polars.

>>> import wirelens
>>> table = wirelens.top("testdata/demo.pcapng", n=2)
>>> for row in table:
...     print(row.src_ip, row.bytes)
10.20.0.11 1169119
2001:db8:113::80 186475
"""

from wirelens._wirelens import Batch, __version__
from wirelens.errors import (
    ApplicationError,
    CaptureNotFoundError,
    CaptureUnreadableError,
    CaptureWarning,
    DamagedCaptureWarning,
    EmptyCaptureError,
    FilterError,
    FilterUnavailableError,
    ForkedError,
    InternalError,
    LossError,
    MissingPackageError,
    ModelError,
    NotACaptureError,
    OptionError,
    OutputError,
    OutputExistsError,
    SettingsError,
    SettingsWarning,
    WirelensError,
)
from wirelens.latency_plot import plot_latency
from wirelens.questions import Packet, classify_flows, flows, latency, packets, top
from wirelens.results import Field, Stream, Table
from wirelens.running import Application, Run, run

__all__ = [
    "Application",
    "ApplicationError",
    "Batch",
    "CaptureNotFoundError",
    "CaptureUnreadableError",
    "CaptureWarning",
    "DamagedCaptureWarning",
    "EmptyCaptureError",
    "Field",
    "FilterError",
    "FilterUnavailableError",
    "ForkedError",
    "InternalError",
    "LossError",
    "MissingPackageError",
    "ModelError",
    "NotACaptureError",
    "OptionError",
    "OutputError",
    "OutputExistsError",
    "Packet",
    "Run",
    "SettingsError",
    "SettingsWarning",
    "Stream",
    "Table",
    "WirelensError",
    "__version__",
    "classify_flows",
    "flows",
    "latency",
    "packets",
    "plot_latency",
    "run",
    "top",
]
