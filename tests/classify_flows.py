"""Made-up captures with labelled flows, for tests that train: habits of classes in real frames."""

import random
import struct
from dataclasses import dataclass
from pathlib import Path

from captures import Frame, write_pcap

CLASSES = ("bulk", "chat", "name", "query")


@dataclass(frozen=True)
class Habit:
    """What flows of a class are like."""

    protocol: int
    ports: tuple[int, ...]
    ttl: int
    # Payload of the first packets; a packet of an odd place comes back.
    sizes: tuple[int, ...]
    packets: tuple[int, int]


# Bulk and chat differ in the sizes of later packets alone; name and query share a port at times.
HABITS = {
    "bulk": Habit(6, (443,), 64, (0, 0, 0, 200, 1400), (4, 8)),
    "chat": Habit(6, (443,), 64, (0, 0, 0, 90, 70), (4, 8)),
    "name": Habit(17, (53,), 64, (40, 120), (1, 3)),
    "query": Habit(17, (53, 161, 162), 128, (60, 90), (1, 4)),
}


def _checksum(header: bytes) -> int:
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _packet(
    habit: Habit, ends: tuple[int, int], ports: tuple[int, int], place: int, size: int
) -> bytes:
    if habit.protocol == 6:
        flags = 0x02 if place == 0 else 0x12 if place == 1 else 0x18
        window = 64240 if habit.ttl == 64 else 8192
        transport = struct.pack(">HHIIBBHHH", *ports, place, place, 0x50, flags, window, 0, 0)
    else:
        transport = struct.pack(">HHHH", *ports, 8 + size, 0)
    body = transport + bytes(index & 0xFF for index in range(size))
    head = struct.pack(
        ">BBHHHBBHII", 0x45, 0, 20 + len(body), 0, 0x4000, habit.ttl, habit.protocol, 0, *ends
    )
    head = head[:10] + struct.pack(">H", _checksum(head)) + head[12:]
    return bytes(12) + b"\x08\x00" + head + body


def _flow(
    label: str, dice: random.Random, start_ns: int
) -> tuple[list[Frame], tuple[int, int, int, int, int]]:
    habit = HABITS[label]
    if dice.random() < 0.05:
        # Some are like another class.
        habit = HABITS[dice.choice(CLASSES)]
    client, server = 0x0A000000 + dice.randrange(1, 250), 0xC6336400 + dice.randrange(1, 250)
    ports = dice.randrange(32768, 60000), dice.choice(habit.ports)
    frames, time_ns = [], start_ns
    for place in range(dice.randint(*habit.packets)):
        size = habit.sizes[min(place, len(habit.sizes) - 1)]
        size += dice.randrange(0, 20) if size else 0
        comes_back = place % 2 == 1
        ends = (server, client) if comes_back else (client, server)
        data = _packet(habit, ends, ports[::-1] if comes_back else ports, place, size)
        frames.append(Frame(time_ns, data, len(data)))
        time_ns += dice.randrange(100_000, 30_000_000)
    return frames, (habit.protocol, client, ports[0], server, ports[1])


def _ip(number: int) -> str:
    return ".".join(str(number >> shift & 0xFF) for shift in (24, 16, 8, 0))


def make(folder: Path, captures: int = 24, flows: int = 30, seed: int = 1) -> Path:
    """Captures in a folder, and `flows.tsv` beside it with the label of each flow."""
    folder.mkdir(parents=True)
    dice = random.Random(seed)
    lines = ["file\tproto\tsrc\tsport\tdst\tdport\tapp\n"]
    for number in range(captures):
        name, frames = f"c{number:02}.pcap", []
        seen = set()
        while len(seen) < flows:
            label = dice.choice(CLASSES)
            made, key = _flow(label, dice, 10**18 + dice.randrange(20 * 10**9))
            if key[1:] in seen:
                continue
            seen.add(key[1:])
            frames += made
            protocol, client, port, server, server_port = key
            words = (name, protocol, _ip(client), port, _ip(server), server_port, label)
            lines.append("\t".join(map(str, words)) + "\n")
        frames.sort(key=lambda frame: frame.time_ns)
        write_pcap(folder / name, frames)
    table = folder.with_name("flows.tsv")
    table.write_text("".join(lines), encoding="utf-8")
    return table
