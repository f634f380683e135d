"""Seeds of the targets of `cca`: models, and packets at two taps. See seeds.py."""

import json
import math
import re
import struct
from collections.abc import Iterator


def cca_seeds() -> Iterator[tuple[str, str, bytes]]:
    """A model of two networks, and packets of two flows at both taps."""
    numbers = struct.pack("<8f", 0.5, -0.25, 1.0, 0.125, 0.0, -1.0, 2.0, 0.25)

    def header(networks: dict[int, int], inputs: list[str], filters: int, controls: int) -> bytes:
        tensors: dict[str, object] = {}
        at = 0
        for slots, blocks in networks.items():
            shapes = [(filters, len(inputs))] + [(filters, filters)] * (blocks - 1)
            names = [f"block{block}" for block in range(blocks)] + ["head"]
            for name, (count, width) in zip(names, [*shapes, (controls, filters)], strict=True):
                for part, shape in (("weight", [count, width, 3]), ("bias", [count])):
                    end = at + 4 * math.prod(shape)
                    tensors[f"{slots}.{name}.{part}"] = {
                        "dtype": "F32", "shape": shape, "data_offsets": [at, end],
                    }  # fmt: skip
                    at = end
        said = {
            "format": "wirelens-cca 1",
            "controls": ["reno", "cubic", "bbr"][:controls],
            "inputs": inputs,
            "slot_ns": 1_000_000,
            "passed": "highest",
            "networks": [
                {"slots": slots, "pool_len": 2, "blocks": blocks, "temperature": 1.5,
                 "unknown_below": 0.4}
                for slots, blocks in networks.items()
            ],
        }  # fmt: skip
        metadata = {"__metadata__": {"wirelens": json.dumps(said)}}
        return json.dumps(metadata | tensors, separators=(",", ":")).encode()

    two = header({10: 2, 100: 3}, ["cbiq_bytes", "ingress_bytes"], 5, 3)
    one = header({4: 1}, ["cbiq_bytes"], 1, 2)
    for name, text in (("two", two), ("one", one)):
        yield "cca_model", name, b"\1" + text + b"\0" + numbers
        length = max(int(end) for end in re.findall(rb"offsets\":\[\d+,(\d+)\]", text))
        file = struct.pack("<Q", len(text)) + text + (numbers * length)[:length]
        yield "cca_model", f"{name}-file", b"\0" + file

    def packet(what: int, wait_us: int, step: int, length: int) -> bytes:
        return struct.pack(">BhhB", what, wait_us * 2, step, length)

    def stream(flow: int) -> bytes:
        return b"".join(packet(flow << 1 | tap, 400, 0, 36) for _ in range(20) for tap in (0, 1))

    steady, second = stream(0), stream(1)
    again = packet(0, 300, -2000, 36) + packet(1, 300, 1440, 36) + packet(1, 900, -2900, 36)
    late = packet(0, -700, 0, 20) + packet(1, -9000, 0, 20) + packet(0, 12_000, 0, 250)
    other = packet(0xF0, 10, 77, 0) + packet(0xF1, 10, 77, 0) + packet(8, 10, 20_000, 9)
    for rules in range(8):
        head = struct.pack(">HB", 1000, rules)
        yield "cca_slots", f"rules-{rules}", head + steady + again + late + other + second + steady

    def crafted(what: int, step: int, length: int, seq: int, ack: int, blocks: int = 0) -> bytes:
        return struct.pack(">BBBIIH", what, step, length, seq % 2**32, ack % 2**32, blocks)

    window = 2**30
    # Data alone that jumps by less than a window each, until numbers lie on both sides.
    jumps = b"".join(crafted(0x10, 0, 1, step, 0) for step in (1, 687_000_000, window, 922_771_760))
    # Data, and blocks all over the numbers.
    data = b"".join(crafted(0, 0, 9, step, 0) for step in (1, window - 9, window - 9))
    strewn = b"".join(
        crafted(2, 0, 0, 0, step, blocks)
        for step, blocks in ((1, 0x1D3D), (900, 0x5D7D), (9000, 0x2C6E), (1, 0x0D4E))
    )
    # One flow at both taps that comes and leaves, a year between.
    years = b"".join(crafted(what, step, 4, 0, 0) for step in (0, 4, 4, 4, 2) for what in (0, 1, 2))
    ends = (0, 6, 7, 5, 0)
    extremes = b"".join(crafted(what, step, 4, 900, 0) for step in ends for what in (0, 1))
    made = {
        "jumps": jumps + crafted(0x10, 0, 1, 0, 0),
        "blocks": data + strewn + data + strewn,
        "years": years + years,
        "extremes": extremes + years,
        "openings": crafted(0x60, 0, 3, 7, 0) + data + crafted(0x60, 1, 3, 9, 0),
    }
    for target in ("cca_hostile", "latency"):
        for name, packets in made.items():
            yield target, name, packets
