"""Windows of flows, counted again from packets: slow and plain, to hold the real ones against.

It reads `docs/specs/feature-schema.md` and nothing of the code: packets of every window are kept in
lists, and numbers are made of the lists.
"""

import wirelens

WAYS = ("main", "back")


def _f32(values):
    import numpy

    return float(numpy.float32(values))


def _moments(values):
    """Least, most, mean and variance, of whole numbers."""
    if not values:
        return [-1.0] * 4
    count, total = len(values), sum(values)
    variance = (count * sum(v * v for v in values) - total * total) / (count * count)
    return [min(values), max(values), total / count, variance]


def _rtp(packet):
    """Source, timestamp and marker, where a packet is of RTP."""
    payload = bytes(packet.payload or b"")
    is_rtp = packet.protocol == "udp" and packet.payload_len >= 12 and len(payload) >= 12
    if not is_rtp or payload[0] >> 6 != 2 or 192 <= payload[1] <= 223:
        return None
    return int.from_bytes(payload[8:12]), int.from_bytes(payload[4:8]), payload[1] >> 7


class _Way:
    """One way of a flow, through all windows."""

    def __init__(self):
        self.latest = None
        self.parts = [0, 0]
        self.streams = {}
        self.bytes = 0
        self.clear()

    def clear(self):
        self.sizes, self.payloads, self.gaps, self.frames = [], [], [], 0
        for stream in self.streams.values():
            stream.update(packets=0, new=0, markers=0)

    def add(self, packet, size):
        self.sizes.append(size)
        self.payloads.append(packet.payload_len or 0)
        self.bytes += size
        if self.latest is not None:
            self.gaps.append(max(packet.time_ns - self.latest, 0))
        self.latest = max(packet.time_ns, self.latest or packet.time_ns)
        if size >= 450:
            self.frames += all(abs(part - size) > 2 for part in self.parts)
            self.parts = [self.parts[1], size]
        found = _rtp(packet)
        if found:
            source, timestamp, marker = found
            empty = {"bytes": 0, "packets": 0, "new": 0, "markers": 0, "kept": []}
            stream = self.streams.setdefault(source, empty)
            stream["bytes"] += packet.payload_len
            stream["packets"] += 1
            stream["markers"] += marker
            if timestamp not in stream["kept"][-16:]:
                stream["new"] += 1
                stream["kept"].append(timestamp)

    def numbers(self):
        heaviest = max(self.streams.values(), key=lambda s: s["bytes"], default=None)
        least, most, mean, variance = _moments(self.sizes)
        gaps = _moments(self.gaps)
        found = {
            "packets": len(self.sizes),
            "bytes": sum(self.sizes),
            "payload_bytes": sum(self.payloads),
            "size_min_bytes": least,
            "size_max_bytes": most,
            "size_mean_bytes": mean,
            "size_variance": variance,
            "sizes_distinct": len({min(size, 1535) for size in self.sizes}),
            "gap_min_ns": gaps[0],
            "gap_max_ns": gaps[1],
            "gap_mean_ns": gaps[2],
            "gap_variance": gaps[3],
            "frames_by_size": self.frames,
            "rtp_packets": heaviest["packets"] if heaviest else 0,
            "rtp_timestamps": heaviest["new"] if heaviest else 0,
            "rtp_markers": heaviest["markers"] if heaviest else 0,
            "rtp_streams": sum(s["packets"] > 0 for s in self.streams.values()),
        }
        for above in (5, 15, 30):
            found[f"gaps_above_{above}ms"] = sum(gap > above * 1_000_000 for gap in self.gaps)
        return found


class _Flow:
    def __init__(self, packet):
        self.source = (packet.src_ip, packet.src_port)
        self.ways = [_Way(), _Way()]
        self.main, self.window, self.latest = 0, None, packet.time_ns
        self.before = [_Way().numbers(), _Way().numbers()]

    def row(self, every):
        numbers = {}
        for name, way in zip(WAYS, (self.main, 1 - self.main), strict=True):
            now = self.ways[way].numbers()
            numbers |= {f"{name}_{what}": value for what, value in now.items()}
            numbers |= {f"previous_{name}_{w}": v for w, v in self.before[way].items()}
        for index, (size, way, time_ns, payload_len) in enumerate(self.packets[:20]):
            latest = max([self.lead, *(packet[2] for packet in self.packets[:index])])
            numbers |= {
                f"pkt{index}_size_bytes": size,
                f"pkt{index}_direction": 1 if way == self.main else -1,
                f"pkt{index}_gap_ns": max(time_ns - latest, 0),
                f"pkt{index}_offset_ns": max(time_ns, *(p[2] for p in self.packets[: index + 1]), 0)
                - self.window,
                f"pkt{index}_payload_bytes": payload_len,
            }
        return {name: _f32(value) for name, value in numbers.items()}

    def turn(self, window, every):
        if self.window is not None:
            counted = [way.numbers() for way in self.ways]
            for way in self.ways:
                way.clear()
            is_next = self.window + every == window
            self.before = counted if is_next else [way.numbers() for way in self.ways]
            if self.ways[0].bytes != self.ways[1].bytes:
                self.main = int(self.ways[1].bytes > self.ways[0].bytes)
        self.window, self.packets, self.lead = window, [], self.latest

    def add(self, packet, size):
        way = int((packet.src_ip, packet.src_port) != self.source)
        self.ways[way].add(packet, size)
        self.packets.append((size, way, packet.time_ns, packet.payload_len))
        self.latest = max(self.latest, packet.time_ns)


def windows(path, every=1_000_000_000):
    """By flow (its five-tuple, source first) and start of the window: the numbers by name.

    For captures without fragments, IPv6 extension headers or time-outs: the size of a packet is
    what stands behind the link's 14 bytes.
    """
    flows, rows = {}, {}
    names = {}
    for packet in wirelens.packets(path, payload=12):
        if packet.protocol is None:
            continue
        ends = frozenset({(packet.src_ip, packet.src_port), (packet.dst_ip, packet.dst_port)})
        key = (packet.protocol, ends)
        if key not in flows:
            flows[key] = _Flow(packet)
            names[key] = (
                packet.src_ip, packet.dst_ip, packet.src_port, packet.dst_port, packet.protocol,
            )  # fmt: skip
        flow, window = flows[key], packet.time_ns // every * every
        if flow.window is None or window > flow.window:
            if flow.window is not None:
                rows[names[key], flow.window] = flow.row(every)
            flow.turn(window, every)
        flow.add(packet, packet.wire_len - 14)
    for key, flow in flows.items():
        rows[names[key], flow.window] = flow.row(every)
    return rows
