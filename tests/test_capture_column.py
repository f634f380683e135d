"""Where a folder or several captures are read, rows say which capture a flow is from."""

import json
import struct
from pathlib import Path

import pytest
from captures import Frame, write_pcap
from command import DEMO, wirelens

SECOND = 10**9
SHOWN = {
    "flows": ["flows"],
    "flows --stats": ["flows", "--stats"],
    "flows --window": ["flows", "--window", "1s"],
    "flows --names nfstream": ["flows", "--names", "nfstream"],
    "flows --model": ["flows", "--model", "services"],
    "classify": ["classify", "--model", "services"],
}


def datagram(port: int, seconds: float) -> Frame:
    udp = struct.pack(">HHHH", port, 53, 9, 0) + b"x"
    ip = struct.pack(">BxHIBBH4B4B", 0x45, 20 + len(udp), 0, 64, 17, 0, 10, 0, 0, 1, 10, 0, 0, 2)
    data = bytes(12) + b"\x08\x00" + ip + udp
    return Frame(int((10**9 + seconds) * SECOND), data, len(data))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two captures of the same seconds and a later one in a folder below; one flow is in all."""
    place = tmp_path / "captures"
    (place / "later").mkdir(parents=True)
    write_pcap(place / "a.pcap", [datagram(1000, 0), datagram(1, 0.2), datagram(1, 1.2)])
    write_pcap(place / "b.pcap", [datagram(1000, 0.1), datagram(2, 0.3), datagram(2, 1.3)])
    write_pcap(place / "later/c.pcap", [datagram(1000, 2), datagram(3, 2.5)])
    return place


def of_ports(rows: list[dict[str, str]], folder: Path) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for row in rows:
        name = row["capture"].removeprefix(f"{folder}/")
        found.setdefault(int(row["src_port"]), set()).add(name)
    return found


WANTED = {1000: {"a.pcap"}, 1: {"a.pcap"}, 2: {"b.pcap"}, 3: {"later/c.pcap"}}


@pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN.keys())
@pytest.mark.parametrize("threads", ["1", "3"])
def test_a_flow_has_the_capture_of_its_first_packet(
    folder: Path, shown: list[str], threads: str
) -> None:
    ran = wirelens(*shown, "-q", "-r", folder, "--threads", threads, "--format", "csv")
    assert ran.status == 0, ran.stderr
    assert list(ran.rows[0])[-1] == "capture"
    assert of_ports(ran.rows, folder) == WANTED


@pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN.keys())
def test_one_capture_has_no_column_and_the_same_rows(shown: list[str], tmp_path: Path) -> None:
    alone = wirelens(*shown, "-q", "-r", DEMO, "--format", "csv").rows
    assert "capture" not in alone[0]
    (tmp_path / "one").mkdir()
    (tmp_path / "one/demo.pcapng").symlink_to(DEMO)
    rows = wirelens(*shown, "-q", "-r", tmp_path / "one", "--format", "csv").rows
    assert {row.pop("capture") for row in rows} == {f"{tmp_path}/one/demo.pcapng"}
    assert rows == alone


def test_names_are_those_that_were_typed_and_in_their_order(folder: Path) -> None:
    ran = wirelens(
        "flows", "-q", "-r", "later/c.pcap", "-r", "b.pcap", "-r", "a.pcap", "--format", "csv",
        cwd=folder,
    )  # fmt: skip
    assert of_ports(ran.rows, folder) == WANTED


def test_a_flow_that_was_cut_goes_on_in_the_capture_of_its_next_packet(folder: Path) -> None:
    ran = wirelens("flows", "-q", "-r", folder, "--idle-timeout", "1s", "--format", "csv")
    assert of_ports(ran.rows, folder)[1000] == {"a.pcap", "later/c.pcap"}


def test_a_table_has_the_column(folder: Path) -> None:
    titles, *lines = wirelens("flows", "-q", "-r", folder).stdout.decode().splitlines()
    assert titles.split()[-1] == "capture"
    assert {line.split()[-1].rsplit("/", 1)[-1] for line in lines} == {"a.pcap", "b.pcap", "c.pcap"}


def test_events_name_the_capture_as_suricata_does(folder: Path) -> None:
    command = ("classify", "-q", "--model", "services", "--format", "eve")
    lines = wirelens(*command, "-r", folder).stdout.splitlines()
    named = {json.loads(line)["src_port"]: json.loads(line)["pcap_filename"] for line in lines}
    assert named == {port: f"{folder}/{next(iter(names))}" for port, names in WANTED.items()}
    alone = wirelens(*command, "-r", folder / "a.pcap").stdout.splitlines()
    assert alone and not any("pcap_filename" in json.loads(line) for line in alone)
