"""Sizes of messages in the four traces of testbed/data/latencies, as lines for
testbed/data/message-sizes.txt: what SwiftQueue's section 6.1 takes from traces to simulate them.

    .venv/bin/python bench/evaluation/l4s/message_sizes.py testbed/data/latencies/*.parquet

A message is what one flow sends without a pause of `PAUSE_S`, retransmissions left out.
"""

import sys
from pathlib import Path

import numpy
from pyarrow import parquet

PAUSE_S = 0.1
"""Longer than a round trip without a queue (40 ms): a sender that only waits for
acknowledgements is not pausing."""
SHARES = (0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)


def message_bytes(path: Path) -> numpy.ndarray:
    """Bytes of the messages of all flows."""
    table = parquet.read_table(path, columns=["sent_us", "size", "flow", "copy"])
    sent, size, flow, copy = (table[name].to_numpy() for name in table.column_names)
    is_first = copy == 1
    sent, size, flow = sent[is_first], size[is_first].astype(numpy.int64), flow[is_first]
    order = numpy.lexsort((sent, flow))
    sent, size, flow = sent[order], size[order], flow[order]
    begins = numpy.ones(len(sent), dtype=bool)
    begins[1:] = (flow[1:] != flow[:-1]) | (numpy.diff(sent) > PAUSE_S * 1e6)
    return numpy.add.reduceat(size, numpy.flatnonzero(begins))


def main() -> None:
    for path in map(Path, sys.argv[1:]):
        found = message_bytes(path)
        bytes_before = 1.0
        for share in SHARES:
            # Sizes rise strictly in the file; equal quantiles are moved apart by a byte.
            bytes_of = max(round(float(numpy.quantile(found, share))), bytes_before + 1)
            print(f"{path.stem} {bytes_of:.0f} {share:g}")
            bytes_before = bytes_of


if __name__ == "__main__":
    main()
