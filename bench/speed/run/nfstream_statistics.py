"""NFStream with statistics over a capture: `nfstream_statistics.py CAPTURE PACKETS`.

Prints one line of JSON: the time from the first packet to the last flow, in this process and in
the one that NFStream starts for the metering. Start and imports are left out.
"""

import json
import os
import sys
import time

from nfstream import NFStreamer


def main() -> None:
    path, packets = sys.argv[1], int(sys.argv[2])
    wall, cpu = time.perf_counter(), sum(os.times()[:4])
    streamer = NFStreamer(source=path, n_dissections=20, statistical_analysis=True)
    flows = sum(1 for _ in streamer)
    wall, cpu = time.perf_counter() - wall, sum(os.times()[:4]) - cpu
    print(json.dumps({"items": packets, "wall_s": wall, "cpu_s": cpu, "flows": flows}))


if __name__ == "__main__":
    main()
