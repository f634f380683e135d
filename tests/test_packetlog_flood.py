"""A flood of more sources than any table has places for is an anomaly to the model that ships."""

import random
import re
import struct
from pathlib import Path

from command import wirelens

SOURCES = 400_000
PACKETS_PER_S = 500_000
SYN = 2


def flood(path: Path) -> None:
    """SYN packets to one server, each from another address and none answered."""
    dice = random.Random(1)
    sources = dice.sample(range(0x0B000000, 0x0C000000), SOURCES)
    ethernet = bytes.fromhex("020000000001 020000000002 0800")
    server = bytes([198, 18, 0, 1])
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65_535, 1))
        for at, source in enumerate(sources):
            time_ns = at * 1_000_000_000 // PACKETS_PER_S
            ip = struct.pack(">BBHHHBBHI", 0x45, 0, 40, at & 0xFFFF, 0, 64, 6, 0, source) + server
            port, sequence = 1024 + dice.getrandbits(15), dice.getrandbits(32)
            tcp = struct.pack(">HHIIBBHHH", port, 80, sequence, 0, 0x50, SYN, 1024, 0, 0)
            frame = ethernet + ip + tcp
            seconds, rest = divmod(time_ns, 1_000_000_000)
            file.write(struct.pack("<IIII", 1_700_000_000 + seconds, rest, 54, 54) + frame)


def test_a_flood_of_more_sources_than_places_is_marked(tmp_path: Path) -> None:
    flood(tmp_path / "flood.pcap")
    ran = wirelens("packetlog", "record", "-r", tmp_path / "flood.pcap", "-o", tmp_path / "log",
                   "--mode", "log-minimum")  # fmt: skip
    assert ran.status == 0, ran.stderr
    without = re.search(r"classified with flow state, (\d+) without", ran.stderr)
    assert without and int(without[1]) > SOURCES / 4, "there was a place for nearly every flow"
    marked = re.search(r"anomalous: \d+ packets of (\d+) stored", ran.stderr)
    assert marked and int(marked[1]) > 0.99 * SOURCES, ran.stderr
