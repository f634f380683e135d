"""Flows over a bottleneck in ns-3, captured at four places of the path: the same flow everywhere.

`make test-ns3` builds what is run here.
"""

import json
import struct
import subprocess
from pathlib import Path

import pytest
from command import ROOT, wirelens
from wirelens.cca import FlightFlow, flight_slots, row_slots

pytestmark = pytest.mark.ns3

PROGRAM = ROOT / "target/ns3/onetap"
PLACES = ("sender", "before", "behind", "receiver")
# A round trip of 60 ms, of which 20 lie before the queue, 10 in its link and 30 behind it.
PATH = ["rate_bps=5000000", "buffer_bytes=60000", "delay_ns=5000000", "duration_ns=15000000000"]
FLOW = "flow=reno,0,10000000,15000000"


def simulate(folder: Path, *more: str) -> list[FlightFlow]:
    done = subprocess.run(
        [PROGRAM, folder, *PATH, *more], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["flows"][0] == {"port": 5001, "control": "reno"}
    taps = flight_slots([folder / f"{place}.pcap" for place in PLACES], slot="1ms")
    return [next(flow for way, flow in tap.items() if way.dst_port == 5001) for tap in taps]


def sums(flow: FlightFlow) -> dict[str, int]:
    """Bytes of data, those that had passed before, and times downstream and upstream."""
    size = len(flow.slots) // len(flow)
    slots = [struct.unpack_from("=q5Q3I", flow.slots, at * size) for at in range(len(flow))]
    upstream = [struct.unpack_from("=I", flow.slots, at * size + 84)[0] for at in range(len(flow))]
    return {
        "sent": sum(slot[1] for slot in slots),
        "resent": sum(slot[3] for slot in slots),
        "rtt_ns": sum(slot[4] for slot in slots) // max(1, sum(slot[6] for slot in slots)),
        "upstream_ns": sum(slot[5] for slot in slots) // max(1, sum(upstream)),
    }


def test_each_tap_shows_a_part_of_the_round_trip_and_together_the_whole(tmp_path: Path) -> None:
    flows = simulate(tmp_path, "delayed_acks=1", FLOW)
    found = [sums(flow) for flow in flows]
    downstream, upstream = (
        [each[name] / 1e6 for each in found] for name in ("rtt_ns", "upstream_ns")
    )
    # At the ends one part is nothing but the rounding of time stamps to a millisecond.
    assert downstream[0] > 60 and upstream[0] < 2
    assert downstream[3] < 2 and upstream[3] > 60
    assert upstream[1] == pytest.approx(20, abs=3) and downstream[2] == pytest.approx(30, abs=3)
    whole = [one + other for one, other in zip(downstream, upstream, strict=True)]
    assert whole == pytest.approx([whole[0]] * 4, rel=0.05)
    rows = [row_slots(flow, flow.last_slot, slot="1ms", rows_per_rtt=1) for flow in flows]
    assert rows == pytest.approx([rows[0]] * 4, rel=0.1)


def test_what_the_queue_drops_is_missing_behind_it_alone(tmp_path: Path) -> None:
    flows = simulate(tmp_path, FLOW, "flow=cubic,500000000,10000000,15000000")
    sender, before, behind, receiver = (sums(flow) for flow in flows)
    # What is on its way when the simulation ends has passed one tap and not the next.
    on_its_way = 20 * 1448
    assert sender["sent"] - on_its_way <= before["sent"] <= sender["sent"]
    assert behind["sent"] - on_its_way <= receiver["sent"] <= behind["sent"]
    assert behind["sent"] < before["sent"] - on_its_way
    assert before["resent"] > 0 and behind["resent"] < before["resent"]


def test_controls_differ_as_they_should(tmp_path: Path) -> None:
    """Vegas keeps the queue short, Scalable keeps it full."""
    waits = {}
    for control in ("vegas", "scalable"):
        command = [PROGRAM, tmp_path, *PATH, f"flow={control},0,10000000,15000000"]
        subprocess.run(command, capture_output=True, check=True)
        ran = wirelens("cca", "-r", tmp_path / "sender.pcap", "--every", "10s", "--format", "jsonl")
        waits[control] = json.loads(ran.stdout.splitlines()[0])["rtt_s"]
    assert waits["vegas"] < 0.09 < waits["scalable"]


def test_the_same_seed_gives_the_same_captures(tmp_path: Path) -> None:
    contents = []
    for _ in range(2):
        simulate(tmp_path, FLOW, "loss_ppm=1000", "short_bps=500000", "seed=7")
        contents.append((tmp_path / "behind.pcap").read_bytes())
    assert contents[0] == contents[1]


@pytest.mark.parametrize(
    ("wrong", "wanted"),
    [
        ("flow=tcp,0,1000,1000", "wanted CONTROL,START_NS,SENDER_DELAY_NS,RECEIVER_DELAY_NS"),
        ("rate_bps=fast", "wanted a number"),
        ("rate_bps=0", "wanted more than 0"),
        ("speed=1", "not understood; see --help"),
    ],
)
def test_wrong_arguments_say_what_is_wanted(tmp_path: Path, wrong: str, wanted: str) -> None:
    command = [PROGRAM, tmp_path, FLOW, wrong]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and wanted in done.stderr, done.stderr
    done = subprocess.run([PROGRAM, tmp_path / "no", FLOW], capture_output=True, text=True)
    assert done.returncode == 2 and "cannot be written" in done.stderr
