"""Bytes in flight at one tap: of captures made here, and beside those that tshark finds."""

import json
import re
import struct
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from captures import Frame, write_pcap
from command import DEMO, ROOT, WIDE_DATA, Ran, wirelens
from lab import Listening, datagram, new_link
from sealing import seal
from wirelens import OptionError
from wirelens.cca import FlightFlow, flight_slots, flight_windows, row_slots

SYN, RST, ACK = 0x02, 0x04, 0x10
SENDER, RECEIVER = (b"\xc0\x00\x02\x01", 40_000), (b"\xc0\x00\x02\x02", 5001)
MS = 1_000_000
BEGIN = 1_700_000_000 * 10**9
TAPS = ROOT / "testdata/testbed/congestion"


def segment(
    time_ms: float,
    seq: int,
    length: int = 0,
    *,
    ack: int | None = None,
    back: bool = False,
    flags: int = 0,
    sack: Sequence[tuple[int, int]] = (),
    stamps: tuple[int, int] | None = None,
    tags: int = 0,
) -> Frame:
    """A frame of TCP: data from the sender, or what comes `back`."""
    (source, source_port), (target, target_port) = (
        (RECEIVER, SENDER) if back else (SENDER, RECEIVER)
    )
    options = b""
    if sack:
        blocks = b"".join(struct.pack(">II", low % 2**32, high % 2**32) for low, high in sack)
        options = b"\x01\x01\x05" + bytes([2 + len(blocks)]) + blocks
    if stamps:
        options += b"\x01\x01\x08\x0a" + struct.pack(">II", *stamps)
    flags |= 0 if ack is None else ACK
    tcp = struct.pack(
        ">HHIIBBHHH", source_port, target_port, seq % 2**32, (ack or 0) % 2**32,
        (20 + len(options)) // 4 << 4, flags, 65535, 0, 0,
    )  # fmt: skip
    size = 20 + len(tcp) + len(options) + length
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, size, 0, 0, 64, 6, 0, source, target)
    ether = bytes(12) + b"\x81\x00\x00\x05" * tags + b"\x08\x00"
    frame = ether + ip + tcp + options + bytes(length)
    return Frame(BEGIN + round(time_ms * MS), frame, len(frame))


def exchange(base: int = 0, **more: Any) -> list[Frame]:
    """A connection with a loss: RTT of 20 ms, packets of 1000 bytes, the third lost beyond the tap.

    What is in flight at the end of each 10 ms: 0, 0, 4000, 4000, 2000, 2000, 3000, 3000, 0.
    """
    one = base + 1
    return [
        segment(0, base, flags=SYN, **more),
        segment(20, 900, ack=one, back=True, flags=SYN, **more),
        segment(20.1, one, ack=901, **more),
        *(segment(21 + at, one + 1000 * at, 1000, ack=901, **more) for at in range(4)),
        segment(42, 901, ack=one + 2000, back=True, **more),
        segment(44, 901, ack=one + 2000, back=True, sack=[(one + 3000, one + 4000)], **more),
        segment(60, one + 4000, 1000, ack=901, **more),
        segment(65, one + 2000, 1000, ack=901, **more),
        segment(85, 901, ack=one + 5000, back=True, **more),
    ]


FLIGHT = [0, 0, 4000, 4000, 2000, 2000, 3000, 3000, 0]


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "one.pcap"
    write_pcap(path, exchange())
    return path


def only(path: Path, slot: str = "10ms") -> FlightFlow:
    (flows,) = flight_slots([path], slot=slot)
    (flow,) = flows.values()
    return flow


def columns(flow: FlightFlow, slots: int, inputs: Sequence[str]) -> dict[str, list[float]]:
    start = BEGIN // (10 * MS)
    found = flight_windows(flow, [start], slots, inputs=inputs)
    assert found.missing == (None,)
    values = np.asarray(found.values)[0]
    return {name: values[:, at].tolist() for at, name in enumerate(inputs)}


def told(*arguments: str | Path, stderr: str = "") -> list[dict[str, Any]]:
    ran = wirelens("cca", "--format", "jsonl", *arguments)
    assert ran.status == 0, ran.stderr
    assert stderr in ran.stderr, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


# The last wraps in the second packet; captures that were made relative begin at 0.
@pytest.mark.parametrize("base", [0, 123_456_789, 2**32 - 1500])
@pytest.mark.parametrize("tags", [0, 2])
def test_flight_is_what_was_sent_and_not_acknowledged(tmp_path: Path, base: int, tags: int) -> None:
    path = tmp_path / "one.pcap"
    write_pcap(path, exchange(base, tags=tags))
    inputs = ("flight_bytes", "sacked_bytes", "sent_bytes", "acked_bytes", "resent_packets")
    found = columns(only(path), len(FLIGHT), inputs)
    assert found["flight_bytes"] == FLIGHT
    assert found["sacked_bytes"] == [0, 0, 0, 0, 1000, 1000, 1000, 1000, 0]
    assert found["sent_bytes"] == [0, 0, 4000, 0, 0, 0, 2000, 0, 0]
    assert found["acked_bytes"] == [0, 0, 0, 0, 2000, 0, 0, 0, 3000]
    assert found["resent_packets"] == [0, 0, 0, 0, 0, 0, 1, 0, 0]


def test_rows_are_those_of_the_capture(capture: Path) -> None:
    (row,) = told("-r", capture, "--slot", "10ms", "--every", "100ms")
    assert row["flight_bytes"] == pytest.approx(sum(FLIGHT) / 10)
    assert row["flight_max_bytes"] == 4000 and row["sacked_max_bytes"] == 1000
    assert (row["sent_bytes"], row["acked_bytes"]) == (6000, 5000)
    assert (row["resent_packets"], row["drops"]) == (1, 1)
    # The second packet; what was sent again times nothing.
    assert row["rtt_s"] == pytest.approx(0.02) and row["rtt_min_s"] == pytest.approx(0.02)
    assert (row["src_port"], row["dst_port"], row["missing"]) == (40_000, 5001, "")
    assert not {"cbiq_bytes", "queue_share", "egress_bytes"} & set(row), "takes two taps"


def test_each_slot_may_be_a_row(capture: Path) -> None:
    rows = told("-r", capture, "--slot", "10ms", "--every", "10ms")
    # A flow that has not sent, and has nothing in flight, is in no row.
    assert [row["flight_bytes"] for row in rows] == FLIGHT[2:]


def test_the_table_says_that_there_is_one_tap(capture: Path) -> None:
    ran = wirelens("cca", "-r", capture)
    assert ran.status == 0 and "one tap" in ran.stdout.decode()
    assert "flight bytes" in ran.stdout.decode() and "CBIQ" not in ran.stdout.decode()


def test_a_flow_that_is_caught_in_flight_is_told_from_its_first_answer_on(tmp_path: Path) -> None:
    path = tmp_path / "late.pcap"
    write_pcap(path, exchange()[4:])
    found = columns(only(path), len(FLIGHT), ("flight_bytes",))
    assert found["flight_bytes"] == [0, 0, 0, 0, *FLIGHT[4:]]


def test_one_direction_alone_says_what_is_missing(tmp_path: Path) -> None:
    forth, back = tmp_path / "forth.pcap", tmp_path / "back.pcap"
    frames = exchange()
    returning = [frame for frame in frames if frame.data[26:30] == RECEIVER[0]]
    write_pcap(forth, [frame for frame in frames if frame not in returning])
    write_pcap(back, returning)
    (row,) = told("-r", forth, stderr="but no acknowledgement of it")
    assert row["missing"] == "acks" and row["flight_bytes"] is None
    assert row["sent_bytes"] == 6000
    assert told("-r", back, stderr="acknowledge data that did not pass the tap") == []


def test_udp_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "udp.pcap"
    frame = datagram(("192.0.2.1", 5), ("192.0.2.2", 5))
    write_pcap(path, [Frame(BEGIN + at, frame, len(frame)) for at in range(3)])
    assert told("-r", path, stderr="3 packets are not TCP; UDP and QUIC") == []


def test_a_reset_acknowledges_nothing(tmp_path: Path) -> None:
    path = tmp_path / "reset.pcap"
    end = segment(90, 901, ack=77, back=True, flags=RST)
    write_pcap(path, [*exchange()[:-1], end])
    assert columns(only(path), 9, ("flight_bytes",))["flight_bytes"] == [*FLIGHT[:-1], 3000]


def test_several_flows_are_the_heaviest_first_and_bounded() -> None:
    rows = told("-r", DEMO, "--every", "1h", "-n", "0")
    brought = [row["sent_bytes"] for row in rows]
    assert len(rows) > 3 and brought == sorted(brought, reverse=True)
    ran = wirelens("cca", "-r", DEMO, "--every", "1h", "--max-flows", "1", "-n", "0")
    beyond = re.search(r"cca: (\d+) packets are of keys beyond the maximum", ran.stderr)
    counted = re.search(r"= (\d+) counted \+", ran.stderr)
    # Packets of flows that were refused are not without data.
    assert beyond and counted and int(counted[1]) > int(beyond[1]) > 1000


def test_captures_of_one_way_of_the_testbed_are_refused_by_name() -> None:
    # Acknowledgements of the testbed take another path.
    rows = told("-r", TAPS / "before.pcapng.gz", stderr="wanted: a tap that sees both directions")
    assert {row["missing"] for row in rows} == {"acks"}


def test_wrong_arguments_say_what_is_wanted(capture: Path) -> None:
    for words, arguments in {
        "a rule of two taps": ("--passed", "first"),
        "--egress": ("--egress-offset", "1ms"),
        "not a whole number of slots": ("--every", "1500us"),
    }.items():
        ran = wirelens("cca", "-r", capture, *arguments)
        assert ran.status == 2 and words in ran.stderr, ran.stderr
    ran = wirelens("cca", "-i", "lan:eth0")
    assert ran.status == 2 and "ip netns exec lan" in ran.stderr
    with pytest.raises(OptionError, match="inputs: `cbiq_bytes`"):
        flight_windows(only(capture), [0], 10, inputs=["cbiq_bytes"])
    with pytest.raises(OptionError, match="slots: `0`"):
        flight_windows(only(capture), [0], 0)


def ends(flow: FlightFlow) -> dict[int, tuple[int, int]]:
    """Of each slot what is in flight at its end, and what of it the receiver has."""
    size = len(flow.slots) // len(flow)
    found = {}
    for at in range(len(flow)):
        (slot,) = struct.unpack_from("=q", flow.slots, at * size)
        flight, _, sacked = struct.unpack_from("=3I", flow.slots, at * size + 68)
        found[slot] = (flight, sacked)
    return found


FIELDS = (
    "frame.time_epoch", "tcp.stream", "ip.src", "tcp.srcport", "ip.dst", "tcp.dstport", "tcp.len",
    "tcp.analysis.bytes_in_flight", "tcp.flags.fin", "tcp.options.sack_le", "tcp.options.sack_re",
    "tcp.analysis.lost_segment", "tcp.analysis.ack_lost_segment",
)  # fmt: skip


def packets_of_tshark(path: Path, count: int) -> list[dict[str, str]]:
    command: list[str | Path] = ["tshark", "-r", path, "-c", str(count), "-Y", "tcp && ip"]
    command += ["-T", "fields", *(word for field in FIELDS for word in ("-e", field))]
    out = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    return [dict(zip(FIELDS, line.split("\t"), strict=True)) for line in out.splitlines()]


def way_of(packet: dict[str, str], *, back: bool = False) -> tuple[str, int, str, int]:
    ends = [(packet["ip.src"], int(packet["tcp.srcport"])),
            (packet["ip.dst"], int(packet["tcp.dstport"]))]  # fmt: skip
    (source, source_port), (target, target_port) = ends[::-1] if back else ends
    return source, source_port, target, target_port


def blocks_of(packet: dict[str, str]) -> list[int]:
    """Lengths of what the receiver has out of order."""
    low, high = (packet[f"tcp.options.sack_{edge}"].split(",") for edge in ("le", "re"))
    return [(int(b) - int(a)) % 2**32 for a, b in zip(low, high, strict=True) if a]


def compare(path: Path, count: int = 100_000) -> tuple[int, int, list[Any]]:
    """How many packets with data were compared with tshark's bytes in flight, those of them whose
    receiver had something out of order, and where the two differ.

    tshark takes the SACK blocks of the last acknowledgement from what is in flight; they are added
    here, and compared by themselves where they are few enough for that to be all of them. It tells
    what is in flight of packets with data: those that are the last of their microsecond are
    compared.
    """
    (flows,) = flight_slots([path], slot="1us")
    known = {tuple(way): ends(flow) for way, flow in flows.items()}
    packets = packets_of_tshark(path, count)
    slots = [slot_of(packet["frame.time_epoch"]) for packet in packets]
    last = {(packet["tcp.stream"], slot): at
            for at, (packet, slot) in enumerate(zip(packets, slots, strict=True))}  # fmt: skip
    compared, with_sack, differ = 0, 0, []
    finished: set[tuple[str, int, str, int]] = set()
    strange, blocks = streams_not_seen_whole(packets), dict[tuple[str, int, str, int], list[int]]()
    for at, packet in enumerate(packets):
        way, stream = way_of(packet), packet["tcp.stream"]
        if at and packets[at - 1]["tcp.flags.fin"] in ("1", "True"):
            finished.add(way_of(packets[at - 1]))
        blocks[way_of(packet, back=True)] = blocks_of(packet)
        told = packet["tcp.analysis.bytes_in_flight"]
        if not told or last[stream, slots[at]] != at or stream in strange:
            continue
        flight, sacked = known[way][slots[at]]
        arrived = blocks.get(way, [])
        compared += 1
        with_sack += bool(arrived)
        # tshark counts a FIN that was sent before as a byte.
        if flight + (way in finished) - sum(arrived) != int(told):
            differ.append((at, way, flight, sacked, told, arrived))
        if len(arrived) < 3 and sacked != sum(arrived):
            differ.append((at, way, flight, sacked, told, arrived))
    return compared, with_sack, differ


def slot_of(text: str) -> int:
    seconds, fraction = text.split(".")
    return int(seconds) * 1_000_000 + int(fraction[:6])


def streams_not_seen_whole(packets: Iterable[dict[str, str]]) -> set[str]:
    """Streams of which packets are missing in the capture: tshark begins what is in flight at the
    first packet that it has and that is not acknowledged, ours where the receiver waits."""
    lost = ("tcp.analysis.lost_segment", "tcp.analysis.ack_lost_segment")
    return {packet["tcp.stream"] for packet in packets if any(packet[field] for field in lost)}


def upstream_of(path: Path) -> dict[tuple[str, int, str, int], list[int]]:
    """Of each way of a capture the times, in nanoseconds, from the first acknowledgement with a
    time stamp to the first data that repeats it, by tshark's fields."""
    fields = ("frame.time_epoch", "ip.src", "tcp.srcport", "ip.dst", "tcp.dstport", "tcp.len",
              "tcp.options.timestamp.tsval", "tcp.options.timestamp.tsecr", "tcp.flags.ack",
              "tcp.flags.reset")  # fmt: skip
    command: list[str | Path] = ["tshark", "-r", path, "-Y", "tcp && ip && !icmp", "-T", "fields"]
    command += [word for field in fields for word in ("-e", field)]
    out = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    waiting: dict[tuple[str, int, str, int], dict[int, int]] = {}
    found: dict[tuple[str, int, str, int], list[int]] = {}
    for line in out.splitlines():
        packet = dict(zip(fields, line.split("\t"), strict=True))
        if not packet["tcp.options.timestamp.tsval"]:
            continue
        seconds, fraction = packet["frame.time_epoch"].split(".")
        time_ns = int(seconds) * 10**9 + int(fraction.ljust(9, "0"))
        acks, resets = (packet[f"tcp.flags.{name}"] in ("1", "True") for name in ("ack", "reset"))
        if acks and not resets:
            stamps = waiting.setdefault(way_of(packet, back=True), {})
            stamps.setdefault(int(packet["tcp.options.timestamp.tsval"]), time_ns)
        stamps = waiting.get(way_of(packet), {})
        echoed = int(packet["tcp.options.timestamp.tsecr"])
        if packet["tcp.len"] != "0" and acks and echoed in stamps:
            found.setdefault(way_of(packet), []).append(time_ns - stamps[echoed])
            # Neither this one nor an earlier one is waited for any longer.
            waiting[way_of(packet)] = {at: when for at, when in stamps.items() if at > echoed}
    return found


def test_time_upstream_is_that_of_tshark() -> None:
    expected = upstream_of(DEMO)
    (flows,) = flight_slots([DEMO], slot="1ms")
    found = {}
    for way, flow in flows.items():
        size = len(flow.slots) // len(flow)
        sums = [struct.unpack_from("=Q", flow.slots, at * size + 40)[0] for at in range(len(flow))]
        counts = [
            struct.unpack_from("=I", flow.slots, at * size + 84)[0] for at in range(len(flow))
        ]
        if sum(counts) and ":" not in way.src_ip:
            found[tuple(way)] = (sum(counts), sum(sums))
    assert found == {way: (len(times), sum(times)) for way, times in expected.items()}
    assert sum(len(times) for times in expected.values()) > 100


def test_both_parts_of_the_round_trip_are_those_of_the_path(tmp_path: Path) -> None:
    """10 ms from the tap to the receiver and back, 15 ms to the sender and back."""
    frames = []
    for at in range(20):
        now, seq = 25.0 * at, 1 + 1000 * at
        frames.append(segment(now, seq, 1000, ack=901, stamps=(at, 500 + at)))
        acked = {"ack": seq + 1000, "back": True}
        frames.append(segment(now + 10, 901, **acked, stamps=(501 + at, at)))
        # Another one of the same tick lets nothing go.
        frames.append(segment(now + 11, 901, **acked, stamps=(501 + at, at)))
    path = tmp_path / "path.pcap"
    write_pcap(path, frames)
    (row,) = told("-r", path, "--every", "10s")
    assert row["rtt_s"] == pytest.approx(0.010)
    assert row["upstream_rtt_s"] == pytest.approx(0.015)
    assert "15.0" in wirelens("cca", "-r", path, "--every", "10s").stdout.decode()
    # Rows of a fifth of the path's round trip.
    assert row_slots(only(path, "1ms"), 2**62, slot="1ms", rows_per_rtt=5) == 5


def test_flight_is_that_of_tshark() -> None:
    compared, with_sack, differ = compare(DEMO)
    assert compared > 1000 and with_sack > 30 and not differ, differ[:5]


@pytest.mark.wide
def test_flight_is_that_of_tshark_where_queues_drop_and_mark() -> None:
    for name in ("cubic_dualpi2_wifi", "cubic_fq_codel_wifi", "prague_dualpi2_wifi"):
        path = WIDE_DATA / f"latency/heistp__{name}.pcap.gz"
        compared, _, differ = compare(path, 20_000)
        assert compared > 5_000 and not differ, (name, len(differ), differ[:5])


SLOTS = 8


def small_model(folder: Path, inputs: Sequence[str], **more: int) -> dict[str, np.ndarray]:
    """A model of one block with weights drawn by chance, written without its trainer."""
    chance = np.random.default_rng(5)
    shapes = {
        "block0.weight": (3, len(inputs), 3), "block0.bias": (3,), "head.weight": (2, 3, 3),
        "head.bias": (2,),
    }  # fmt: skip
    weights = {name: chance.normal(size=shape).astype("<f4") for name, shape in shapes.items()}
    said = {
        "format": "wirelens-cca 1", "controls": ["bbr", "reno"], "inputs": list(inputs),
        "slot_ns": 10 * MS, "passed": "highest", "training": {},
        "networks": [
            {"slots": SLOTS, "pool_len": 2, "blocks": 1, "temperature": 2.0, "unknown_below": 0.0}
        ],
        **more,
    }  # fmt: skip
    header: dict[str, Any] = {"__metadata__": {"wirelens": json.dumps(said)}}
    content = b""
    for name, array in weights.items():
        span = [len(content), len(content) + array.nbytes]
        header[f"{SLOTS}.{name}"] = {
            "dtype": "F32", "shape": list(array.shape), "data_offsets": span
        }  # fmt: skip
        content += array.tobytes()
    text = json.dumps(header).encode()
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + content)
    seal(folder)
    return weights


def probabilities(weights: dict[str, np.ndarray], values: np.ndarray) -> np.ndarray:
    """What the model says of slots × inputs."""

    def convolved(steps: np.ndarray, name: str) -> np.ndarray:
        padded = np.pad(steps, ((1, 1), (0, 0)))
        windows = np.stack([padded[at : at + len(steps)] for at in range(3)], axis=2)
        return (
            np.einsum("tik,oik->to", windows, weights[f"{name}.weight"]) + weights[f"{name}.bias"]
        )

    steps = values / np.maximum(values.max(axis=0), 1e-9)
    steps = np.maximum(convolved(steps, "block0"), 0)
    steps = steps.reshape(len(steps) // 2, 2, -1).max(axis=1)
    scores = np.exp(convolved(steps, "head").mean(axis=0) / 2.0)
    return scores / scores.sum()


def steps() -> list[Frame]:
    """A flow that sends now more, now less: 300 ms, from some time after its SYN."""
    frames, sent = exchange()[1:3], 1
    for turn in range(14):
        for at in range(turn % 5 + 1):
            frames.append(segment(21 + 20 * turn + at, sent, 500, ack=901))
            sent += 500
        frames.append(segment(38 + 20 * turn, 901, ack=sent - 500 * (turn % 3), back=True))
    return frames


ONE_TAP = ("flight_bytes", "sent_bytes")


def named(capture: Path, model: Path, *more: str | Path) -> Ran:
    options = ("--slot", "10ms", "--every", "10ms", "--format", "jsonl")
    return wirelens("cca", "-r", capture, "--model", model, *options, *more)


@pytest.mark.parametrize("rtt", [{}, {"rows_per_rtt": 1}])
def test_a_model_of_one_tap_names_what_its_inputs_say(tmp_path: Path, rtt: dict[str, int]) -> None:
    capture = tmp_path / "long.pcap"
    write_pcap(capture, steps())
    weights = small_model(tmp_path / "model", ONE_TAP, **rtt)
    ran = named(capture, tmp_path / "model")
    assert ran.status == 0, ran.stderr
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    flow, compared = only(capture), 0
    for row in rows:
        end = row["start_ns"] // (10 * MS) + 1
        # Of 16 ms and more, rounded to whole slots.
        row_of = row_slots(flow, end, slot="10ms", **rtt) if rtt else 1
        # Nothing was timed so far, or the flow's first data, in the third slot, is too near.
        if row_of is None or end - SLOTS * row_of < BEGIN // (10 * MS) + 2:
            assert row["confidence"] is None
            continue
        assert row_of == (2 if rtt else 1)
        start = end - SLOTS * row_of
        seen = flight_windows(flow, [start], SLOTS, row_slots=row_of, inputs=ONE_TAP)
        wanted = probabilities(weights, np.asarray(seen.values)[0])
        assert row["control"] == ["bbr", "reno"][wanted.argmax()]
        assert row["confidence"] == pytest.approx(wanted.max(), abs=1e-5)
        assert row["interval_s"] == pytest.approx(0.08 * row_of)
        compared += 1
    assert compared > 10


def test_no_windows_are_no_values_and_slots_are_whole(tmp_path: Path) -> None:
    capture = tmp_path / "long.pcap"
    write_pcap(capture, steps())
    flow = only(capture)
    seen = flight_windows(flow, [], SLOTS, inputs=ONE_TAP)
    assert seen.missing == () and np.asarray(seen.values).tolist() == []
    with pytest.raises(OptionError, match="slots: `97 bytes`: wanted a multiple of 96 bytes"):
        flight_windows(replace(flow, slots=bytes(97)), [0], SLOTS, inputs=ONE_TAP)


def test_the_first_two_seconds_of_a_connection_are_not_judged(tmp_path: Path) -> None:
    frames, sent = exchange()[:3], 1
    for turn in range(120):
        frames.append(segment(21 + 20 * turn, sent, 500, ack=901))
        sent += 500
        frames.append(segment(38 + 20 * turn, 901, ack=sent, back=True))
    capture = tmp_path / "begins.pcap"
    write_pcap(capture, frames)
    small_model(tmp_path / "model", ONE_TAP)
    ran = named(capture, tmp_path / "model")
    assert ran.status == 0, ran.stderr
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    judged = [row["start_ns"] // (10 * MS) - BEGIN // (10 * MS) for row in rows if row["control"]]
    # Its first data passes in the third slot; after two seconds, an interval has to fit.
    assert len(judged) > 20 and min(judged) == 2 + 200 + SLOTS - 1
    assert {row["unnamed"] for row in rows if not row["control"]} == {"short"}


def test_a_model_of_other_taps_is_refused(capture: Path, tmp_path: Path) -> None:
    small_model(tmp_path / "one", ONE_TAP)
    small_model(tmp_path / "two", ("cbiq_bytes", "ingress_bytes"))
    small_model(tmp_path / "both", ("flight_bytes", "ingress_bytes"))
    for words, model, more in (
        ("a model of two taps", "two", ()),
        ("a model of one tap", "one", ("--egress", capture)),
        ("of two taps or of one, not of both", "both", ()),
    ):
        ran = named(capture, tmp_path / model, *more)
        assert ran.status in (1, 2) and words in ran.stderr, ran.stderr


def test_an_interface_is_told_as_its_capture_is(tmp_path: Path) -> None:
    with new_link() as link:
        arguments = ("cca", "-i", "wl0", "--slot", "10ms", "--every", "200ms", "--format", "jsonl")
        with Listening(tmp_path, *arguments) as listening:
            # One by one: what is in flight depends on the order alone.
            for frame in exchange():
                link.send([frame.data.ljust(60, b"\0")])
            ran = listening.end()
    assert ran.status == 0, ran.stderr
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    assert sum(row["sent_bytes"] for row in rows) == 6000
    assert sum(row["acked_bytes"] for row in rows) == 5000
    assert sum(row["drops"] for row in rows) == 1
    assert max(row["flight_max_bytes"] for row in rows) == 4000
