"""NFStream over a capture, without a look at payload: `nfstream_flows.py CAPTURE PACKETS`.

Prints one line of JSON: the time from the first packet to the last flow, in this process and in
the one that NFStream starts for the metering. Start and imports, half a second, are left out.
"""

import json
import os
import sys
import time

from nfstream import NFStreamer


def main() -> None:
    path, packets = sys.argv[1], int(sys.argv[2])
    wall, cpu = time.perf_counter(), sum(os.times()[:4])
    flows = sum(1 for _ in NFStreamer(source=path, n_dissections=0))
    wall, cpu = time.perf_counter() - wall, sum(os.times()[:4]) - cpu
    name = f"NFStream, of {packets:,} packets"
    told = {"name": name, "items": packets, "wall_s": wall, "cpu_s": cpu, "flows": flows}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
