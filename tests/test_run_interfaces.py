"""`wirelens run` on several interfaces, of which one may vanish. Links are of the tests'
own, in network namespaces; see lab.py. Without root these are skipped."""

import csv
import gzip
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from captures import read_pcapng
from command import DEMO, ROOT, wirelens
from lab import Link, Listening, datagram, datagrams, identity, ip, new_links
from run_settings import run, written

Tables = dict[str, dict[str, object]]
CONGESTION = ROOT / "testdata/testbed/congestion"


@pytest.fixture
def links() -> Iterator[Link]:
    """`wl0` and `wl1`, and `wl2` and `wl3`."""
    with new_links() as made:
        yield made


def tables(folder: Path, interfaces: list[str]) -> Tables:
    return {
        "input": {"interface": interfaces},
        "top": {"by": "flow", "rows": 0, "window": "1s", "output": folder / "top.csv"},
        "flows": {"output": folder / "flows.csv"},
        "packetlog": {"output": folder / "log", "mode": "log-all", "fixed-mode": True},
    }


def put(folder: Path, asked: Tables) -> Path:
    path = folder / "wirelens.toml"
    path.write_text(written(asked))
    return path


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.open()))


def send_in_turn(frames: list[bytes], *names: str) -> None:
    """Each frame on the next interface."""
    sockets = []
    for name in names:
        out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        out.bind((name, 0))
        sockets.append(out)
    for at, frame in enumerate(frames):
        sockets[at % len(sockets)].send(frame)
    for out in sockets:
        out.close()


def test_frames_of_several_interfaces_are_one_pass_in_order_of_time(
    tmp_path: Path, links: Link
) -> None:
    """Both ways of each flow pass another interface; each flow is one row, and in the log frames
    stand in the order in which they were sent."""
    there, back = (
        (("198.18.0.1", 1024), ("198.19.0.1", 53)),
        (("198.19.0.1", 53), ("198.18.0.1", 1024)),
    )
    frames = [datagram(*(back if at % 2 else there), length=100 + at) for at in range(200)]
    with Listening(tmp_path, "run", "-c", put(tmp_path, tables(tmp_path, ["wl0", "wl2"]))) as live:
        live.wait_for("listening on wl0, wl2; Ctrl-C ends it")
        send_in_turn(frames, "wl1", "wl3")
        ran = live.end()
    assert ran.status == 0, ran.stderr
    assert identity(ran)["processed"] == 200
    (flow,) = rows(tmp_path / "flows.csv")
    assert (flow["src_packets"], flow["dst_packets"]) == ("100", "100")
    assert flow["src_ip"] == "198.18.0.1"
    assert "late packets" not in ran.stderr
    kept = tmp_path / "kept.pcapng"
    kept = tmp_path / "kept.pcapng"
    ran = wirelens("packetlog", "query", "-l", tmp_path / "log", "-w", kept)
    assert ran.status == 0, ran.stderr
    stored = list(read_pcapng(kept))
    assert [frame.data for frame in stored] == frames
    assert [frame.time_ns for frame in stored] == sorted(frame.time_ns for frame in stored)
    content = kept.read_bytes()
    assert b"wl0" in content and b"wl2" in content, "each frame names its interface"


def test_every_packet_is_accounted_for_at_full_rate(tmp_path: Path, links: Link) -> None:
    frames = datagrams(50) * 400
    asked = tables(tmp_path, ["wl0", "wl2"])
    del asked["packetlog"]
    with Listening(tmp_path, "run", "-c", put(tmp_path, asked)) as live:
        send_in_turn(frames, "wl1", "wl3")
        ran = live.end()
    assert ran.status == 0, ran.stderr
    account = identity(ran)
    assert account["processed"] + account["dropped"] == account["received"] == len(frames)
    assert sum(int(row["packets"]) for row in rows(tmp_path / "top.csv")) == account["processed"]


def test_an_interface_that_is_removed_is_reported_and_the_others_go_on(
    tmp_path: Path, links: Link
) -> None:
    asked = tables(tmp_path, ["wl2", "wl0"])
    with Listening(tmp_path, "run", "-c", put(tmp_path, asked)) as live:
        send_in_turn(datagrams(20), "wl1", "wl3")
        ip("link del wl2")
        live.wait_for(
            "wl2: the interface was removed; the 10 frames before it were read; capture on"
        )
        links.send(datagrams(30))
        ran = live.end()
    assert ran.status == 3, ran.stderr
    assert identity(ran)["processed"] == 50
    assert ran.stderr.count("wl2: the interface was removed") == 2, "at once, and at the end"
    packets = [int(row["src_packets"]) for row in rows(tmp_path / "flows.csv")]
    assert sum(packets) == 50


def test_a_run_whose_interfaces_are_all_removed_ends(tmp_path: Path, links: Link) -> None:
    asked = tables(tmp_path, ["wl2", "wl3"])
    with Listening(tmp_path, "run", "-c", put(tmp_path, asked)) as live:
        ip("link del wl2")
        assert live.process.wait(timeout=20) == 3, live.stderr
    assert (tmp_path / "flows.csv").exists()


def test_a_count_ends_a_run_on_several_interfaces(tmp_path: Path, links: Link) -> None:
    asked = tables(tmp_path, ["wl0"])
    asked["input"]["count"] = 30
    path = put(tmp_path, asked)
    with Listening(tmp_path, "run", "-c", path, "-i", "wl0", "-i", "wl2") as live:
        send_in_turn(datagrams(80), "wl1", "wl3")
        assert live.process.wait(timeout=20) == 0, live.stderr
    ran = live.end()
    assert identity(ran)["processed"] == 30


def test_interfaces_that_make_no_sense_together_are_refused(tmp_path: Path, links: Link) -> None:
    for interfaces, wanted in [
        (["wl0", "wl0"], "wirelens.toml:2: [input] interface: wl0 is already captured"),
        (["wl0", "any"], "wirelens.toml:2: [input] interface: any is already captured"),
        (["wl0", "wl9"], "wl9"),
    ]:
        ran = run(tmp_path, written(tables(tmp_path, interfaces)), "--check")
        assert ran.status in (1, 2) and wanted in ran.stderr, ran.stderr
    asked = tables(tmp_path, ["wl0", "wl2"])
    asked["cca"] = {"egress": "wl3", "output": tmp_path / "cca.csv"}
    ran = run(tmp_path, written(asked), "--check")
    assert ran.status == 2 and "[cca] egress: [input] has several interfaces" in ran.stderr


def test_a_damaged_capture_of_a_folder_is_reported_and_the_others_go_on(tmp_path: Path) -> None:
    folder = tmp_path / "day"
    folder.mkdir()
    content = gzip.decompress((CONGESTION / "before.pcapng.gz").read_bytes())
    (folder / "a.pcapng").write_bytes(content[: len(content) // 2])
    shutil.copy(DEMO, folder / "b.pcapng")
    (folder / "c.pcapng").write_bytes(b"\x0a\x0d\x0d\x0a")
    alone = wirelens("flows", "-r", DEMO, "--format", "csv", "-q").stdout.count(b"\n")
    for threads in ("1", "2"):
        asked = tables(tmp_path, [])
        del asked["packetlog"]
        for name in ("top", "flows"):
            asked[name]["force"] = True
        asked["input"] = {"read": folder}
        ran = run(tmp_path, written(asked), "--threads", threads)
        assert ran.status == 3, ran.stderr
        assert ran.stderr.count("a.pcapng") == 1 and "c.pcapng" in ran.stderr, ran.stderr
        assert identity(ran)["processed"] > 5000
        of_demo = [row for row in rows(tmp_path / "flows.csv") if "b.pcapng" in row["capture"]]
        assert len(of_demo) == alone - 1
