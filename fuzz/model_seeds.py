"""Seeds of targets that read models, and of what models then judge."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Of windows of a second, IPv4, TCP and UDP of two packets, and the number main_packets.
WINDOW_SCHEMA = "797ba1fb1cb8a8f53294c428b0bcf7bb3ef371f313b615b0c7ba36cb78804905"


def tree_seeds() -> Iterator[tuple[str, str, bytes]]:
    common = (
        '"classes":["a","b"],"schema":"' + "0f" * 32 + '","headers":"innermost","blocks":'
        '["ipv4","tcp","udp"],"payload_bytes":1,"packets":2,"numbers":["size"],"trees":1}'
    )
    tests = '{"tests":["pkt0_tcp_syn_0 is 1","pkt1_ipv4_ttl_0 is there","size > 0.5"]}'
    boosted = '{"class":1,"nodes":[0,1,-1,2,-1,-1,-1],"leaves":[1,-2.5,3e-3,0]}'
    kinds = {
        "mean": ("", '{"nodes":[2,-1,1,-1,-1],"leaves":[[1,0],[0.5,0.5],[0,1]]}'),
        "softmax": ('"start":[0,1],', boosted),
        "sigmoid": ('"start":[0,1],"slope":1.5,', boosted),
    }
    for kind, (start, tree) in kinds.items():
        head = '{"format":"wirelens trees","version":1,"kind":"' + kind + '",' + start + common
        yield "trees", kind, b"\x90" + f"{head}\n{tests}\n{tree}\n".encode()


def cascade_seeds(frames: list[bytes]) -> Iterator[tuple[str, str, bytes]]:
    """The cascade of the golden runs, one with windows in its place, and sums of their own."""
    folder = HERE.parent / "testdata" / "cascade"
    told = (folder / "cascade.json").read_bytes()
    names = ("fastest", "fast", "slow")
    files = [(folder / f"{name}.trees.jsonl").read_bytes() for name in names]
    # Seals are made by the target.
    trees = [b"".join(file.splitlines(keepends=True)[:-1]) for file in files]
    traffic = b"".join(bytes([len(frame[:250])]) + frame[:250] for frame in frames[:12])
    yield "cascade", "flows", b"\0".join([b"\0" + told, *trees, traffic])
    # Of windows the last stage is enough; the schema is that of these columns.
    windows = json.loads(told) | {"kind": "windows", "window_ns": 10**9}
    windows["stages"] = [windows["stages"][-1] | {"packets": 2}]
    text = trees[-1].decode().replace("pkt2_size_bytes", "main_packets")
    head, _, tree = text.splitlines()
    told_of_trees = json.loads(head) | {"packets": 2, "schema": WINDOW_SCHEMA}
    tests = '{"tests":["main_packets > 2.5","pkt1_udp_sport_0 is there"]}'
    file = f"{json.dumps(told_of_trees)}\n{tests}\n{tree}\n".encode()
    head_of_windows = b"\0" + json.dumps(windows).encode()
    yield "cascade", "windows", b"\0".join([head_of_windows, b"", b"", file, traffic])
    sums = (folder / "SHA256SUMS").read_bytes()
    yield "cascade", "sums", b"\0".join([b"\1" + told, *trees, sums])


def model_seeds(frames: list[bytes]) -> Iterator[tuple[str, str, bytes]]:
    """The model that ships with the tops of its first trees; the target knows its hash."""
    shipped = HERE.parent / "models" / "packetlog" / "model.json"
    model = json.loads(shipped.read_text()) | {"training": {}}
    inner = ("feature", "threshold", "left", "right")

    def top(tree: dict[str, list], count: int) -> dict[str, list]:
        """The first nodes by depth; where children are cut off, a leaf."""
        order = [0]
        for node in order:
            children = [tree[side][node] for side in ("left", "right")]
            if children[0] >= 0 and len(order) + 2 <= count:
                order += children
        place = {old: new for new, old in enumerate(order)}
        cut = {name: [tree[name][old] for old in order] for name in (*inner, "value")}
        for at, old in enumerate(order):
            left = place.get(tree["left"][old], -1)
            is_leaf = left < 0
            values = (-2, -2.0, -1, -1) if is_leaf else None
            values = values or (*(cut[name][at] for name in inner[:2]), left, left + 1)
            for name, value in zip(inner, values, strict=True):
                cut[name][at] = value
        return cut

    traffic = b"".join(bytes([len(frame[:250])]) + frame[:250] for frame in frames[:12])
    small = model["features"] | {"buckets": 8, "flow_count_max": 4}
    for name, features, tree_count in (
        ("sketch", small, 1),
        ("exact", small | {"source": "exact", "window_ns": 0}, 2),
        ("large", model["features"], 1),
    ):
        forests = {
            forest: {"trees": [top(tree, 9) for tree in model[forest]["trees"][:tree_count]]}
            for forest in ("flow_forest", "packet_forest")
        }
        text = json.dumps(model | forests | {"features": features}, separators=(",", ":"))
        yield "packetlog_model", name, text.encode() + b"\0" + traffic


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
        head = struct.pack(">H", 1000) + bytes([rules])
        yield "cca_slots", f"rules-{rules}", head + steady + again + late + other + second + steady
