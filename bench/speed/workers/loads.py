"""Live loads on stages that workers compute over NATS: `loads.py [-o OUTPUT] [--rounds 3]` (root).

    bash tools/setup.sh nats
    .venv/bin/python bench/speed/workers/loads.py

As `measure.py`: broker, workers and sensor in a network namespace of their own, flows of
`traffic.py` sent to an interface in real time, all of which continue to the last stage.

- by load: one worker with `services`, from 2,000 to 30,000 new flows a second (ServeFlow,
  Figure 7, with the broker in the place of its queues).
- by consumers: 1 to 16 workers of a model whose last stage has its trees ten times (440 µs a row
  on one of these cores), at more flows a second than one of them bears (ServeFlow, Table 6). All
  share the processors of this machine with sensor, broker and sender.

A row says how many of the flows were answered within the deadline of 200 ms; of the others the
first stage decides.
"""

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path

import measure
import traffic
from report import Row, answered

LOADS = (2_000, 5_000, 10_000, 15_000, 20_000, 30_000)
CONSUMERS, CONSUMERS_LOAD = (1, 2, 4, 8, 16), 5_000
SECONDS = 6.0
CASE = "live"


def load(model: str, flows_per_s: int, workers: int) -> Row:
    capture = measure.SCRATCH / f"load-{flows_per_s}.pcap"
    flow_count = traffic.make(capture, flows_per_s, SECONDS)
    row = measure.with_workers(CASE, model, capture, workers, sent=capture)
    capture.unlink()
    share = answered(row) / flow_count
    return {
        "model": Path(model).name, "flows_per_s": flows_per_s, "workers_count": workers,
        "flows": flow_count, "answered_share": round(share, 4),
        "answered_per_s": round(share * flows_per_s), **row,
    }  # fmt: skip


def rows_of(rounds: int) -> Iterator[Row]:
    slow = measure.make_slow_model(measure.SCRATCH / "services-x10", measure.REPEATED)
    for round_ in range(rounds):
        for flows_per_s in LOADS:
            yield {"round": round_, "what": "load", **load("services", flows_per_s, 1)}
        for workers in CONSUMERS:
            yield {"round": round_, "what": "consumers", **load(str(slow), CONSUMERS_LOAD, workers)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    output, environment = measure.begin(arguments, "workers-loads")
    (output / "environment.json").write_text(json.dumps(environment, indent=2) + "\n")
    with (output / "rows.jsonl").open("w") as file:
        for row in rows_of(arguments.rounds):
            file.write(json.dumps(row) + "\n")
            file.flush()
            shown = {name: value for name, value in row.items() if name != "threads_s"}
            print(json.dumps(shown), flush=True)
    environment["load_after"] = os.getloadavg()
    (output / "environment.json").write_text(json.dumps(environment, indent=2) + "\n")


if __name__ == "__main__":
    main()
