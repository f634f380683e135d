"""Consecutive captures of one sensor: a capture repeated, each time later by its own length.

Keys repeat as well, so flows continue from one capture into the next.
"""

import argparse
import struct
from pathlib import Path

import numpy

RECORD = struct.Struct("<4I")
FILE_HEADER_LEN = 24


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("read", type=Path, help="little-endian pcap of microseconds")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--copies", type=int, default=10)
    arguments = parser.parse_args()
    content = bytearray(arguments.read.read_bytes())
    places, at = [], FILE_HEADER_LEN
    while at < len(content):
        places.append(at)
        at += RECORD.size + RECORD.unpack_from(content, at)[2]
    view = numpy.frombuffer(content, numpy.uint8)
    where = numpy.array(places)[:, None] + numpy.arange(4)
    seconds = numpy.ascontiguousarray(view[where]).view("<u4")[:, 0].astype(numpy.int64)
    length = int(seconds.max() - seconds.min()) + 1
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for copy in range(arguments.copies):
        later = (seconds + copy * length).astype("<u4")
        view[where] = later.view(numpy.uint8).reshape(-1, 4)
        (arguments.folder / f"{copy:02}.pcap").write_bytes(content)
    print(f"{arguments.copies} captures of {len(places)} packets, {len(content)} bytes, {length} s")


if __name__ == "__main__":
    main()
