"""What is in traces of latencies: a line of JSON for each, as SwiftQueue's Table 1 describes them."""

import json
import sys
from pathlib import Path

from wirelens.l4s.material import Material
from wirelens.l4s.packets import read_packets
from wirelens.l4s.predicted import describe, window_of
from wirelens.l4s.sharp import WITHIN, changes


def main(paths: list[Path]) -> None:
    for path in paths:
        for latency in ("ack", "one-way"):
            packets = read_packets(path, one_way=latency == "one-way")
            found = {
                within: int((changes(packets.latency_ms, Material.places(packets, within)) != 0).sum())
                for within in WITHIN
            }
            about = describe(packets) | {"window": window_of(packets), "sharp": found}
            print(json.dumps({"trace": path.stem, "latency": latency} | about))


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
