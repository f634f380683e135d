"""Calls of the testbed: what browsers and captures tell, and a call over a link that gets slow."""

import http.client
import socket
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from testbed_runs import AT_ANY_TIME, SCENARIOS, left_behind, run_scenario
from wirelens_testbed import browser, varying_link
from wirelens_testbed.calls import plan, rtp
from wirelens_testbed.calls.statistics import Statistics, tier
from wirelens_testbed.failure import ScenarioError
from wirelens_testbed.pcapng import CapturedPacket
from wirelens_testbed.scenario import Table

STEP = {"seconds": 4, "rate_mbit": 2, "delay_ms": 10}
ETHERNET_IPV4 = bytes(12) + b"\x08\x00"


def parse(**values: Any) -> plan.Plan:
    table = Table({"duration_s": 20, "link": {"steps": [STEP]}} | values)
    parsed = plan.parse(table)
    table.finish()
    return parsed


def report(second: int, **counts: Any) -> list[dict[str, Any]]:
    """What a browser tells at a second of a call."""
    stream = {"type": "inbound-rtp", "kind": "video", "timestamp": second * 1000.0, "ssrc": 7}
    pair = {"type": "candidate-pair", "nominated": True, "currentRoundTripTime": 0.04}
    codec = {"type": "codec", "id": "c", "mimeType": "video/VP8"}
    return [stream | {"codecId": "c"} | counts, pair, codec]


def frame(
    payload: bytes, ts_ns: int = 0, protocol: int = 17, words: int = 5, version: int = 4
) -> CapturedPacket:
    """An Ethernet frame with UDP."""
    ip = bytes([version << 4 | words]) + bytes(8) + bytes([protocol]) + bytes(words * 4 - 10)
    data = ETHERNET_IPV4 + ip + struct.pack("!HHHH", 5000, 6000, 8 + len(payload), 0) + payload
    return CapturedPacket(ts_ns, len(data), data, 0)


def rtp_header(media_time: int, ssrc: int = 7, payload_type: int = 96, sequence: int = 1) -> bytes:
    return struct.pack("!BBHII", 0x80, payload_type, sequence, media_time, ssrc)


def rtp_packet(ts_ns: int, media_time: int, ssrc: int = 7) -> rtp.RtpPacket:
    return rtp.RtpPacket(ts_ns, bytes(4), ssrc, 96, 1, media_time)


def test_a_schedule_fills_its_time_to_the_end_and_begins_anew_when_used_up() -> None:
    steps = [varying_link.Step(3, 1, 0, 0), varying_link.Step(2, 5, 0, 0)]
    followed = list(varying_link.schedule(steps, 9))
    assert [(step.seconds, step.rate_mbit) for step in followed] == [(3, 1), (2, 5), (3, 1), (1, 5)]
    assert [step.seconds for step in varying_link.schedule(steps, 5)] == [3, 2]


def test_a_queue_holds_some_packets_however_slow_the_link_is() -> None:
    assert varying_link.tbf(0.05, 625) == "tbf rate 50000bit burst 3100 limit 15140"
    assert varying_link.tbf(50, 120_000) == "tbf rate 50000000bit burst 6250 limit 120000"


def test_what_a_call_cannot_be_is_refused_by_its_name() -> None:
    assert parse(call={"codec": "H264", "keeps": "resolution"}).codec == "H264"
    for values, words in (
        ({"call": {"codec": "H265"}}, "call.codec is 'H265'"),
        ({"call": {"keep": "both"}}, "did you mean keeps"),
        ({"link": {}}, "link.steps: there is none"),
        ({"link": {"steps": [STEP | {"loss": 1.5}]}}, r"link.steps\[0\].loss is 1.5"),
        ({"camera": {"size": "10x10"}}, "camera.size"),
        ({"warm_up_s": 30}, "warm_up_s is 30"),
    ):
        with pytest.raises(ScenarioError, match=words):
            parse(**values)


def test_a_row_tells_what_happened_since_the_one_before() -> None:
    statistics = Statistics(warm_up_s=1.5)
    counts = [(0, 0), (30, 100_000), (58, 225_000)]
    for second, (frames, size_bytes) in enumerate(counts):
        told = {"framesReceived": frames, "framesDecoded": frames, "bytesReceived": size_bytes}
        statistics.take("callee", report(second, **told))
    first, second = statistics.receiver
    assert (first["frames_received"], second["frames_received"]) == (30, 28)
    assert second["frames_per_second"] == 28
    assert second["bits_per_s"] == 1_000_000
    assert (first["warm_up"], second["warm_up"]) == (1, 0)
    assert (second["codec"], second["round_trip_us"]) == ("VP8", 40_000)
    assert second["time_ns"] == 2_000_000_000


def test_a_stall_is_a_row_of_no_frames() -> None:
    statistics = Statistics(warm_up_s=0)
    for second in range(3):
        statistics.take("callee", report(second, framesDecoded=12, freezeCount=second))
    assert [row["frames_per_second"] for row in statistics.receiver] == [0, 0]
    assert [row["freezes"] for row in statistics.receiver] == [1, 1]


def test_what_the_camera_gave_stands_beside_what_was_sent() -> None:
    statistics = Statistics(warm_up_s=0)
    for second in range(2):
        rows = report(second, framesEncoded=10 * second, qpSum=300 * second)
        rows[0]["type"] = "outbound-rtp"
        statistics.take("caller", [*rows, {"type": "camera", "totalFrames": 100 + 30 * second}])
    (row,) = statistics.sender
    assert (row["camera_frames_per_second"], row["frames_per_second"]) == (30, 10)
    assert row["quantizer"] == 30
    assert not statistics.receiver


def test_a_report_that_repeats_the_one_before_makes_no_row(tmp_path: Path) -> None:
    statistics = Statistics(warm_up_s=0)
    for second in (0, 1, 1, 2):
        statistics.take("callee", report(second, framesDecoded=second))
    assert len(statistics.receiver) == 2
    statistics.write(tmp_path)
    header, *rows = (tmp_path / "receiver.tsv").read_text().splitlines()
    assert [len(row.split("\t")) for row in rows] == [len(header.split("\t"))] * 2
    assert len((tmp_path / "sender.tsv").read_text().splitlines()) == 1


def test_there_are_eleven_tiers_of_three_frames_a_second() -> None:
    assert [tier(fps) for fps in (0, 2.4, 3, 5.6, 26.98, 29.4, 29.97, 45)] == [
        0, 0, 1, 2, 9, 9, 10, 10,
    ]  # fmt: skip


def test_rtp_is_told_from_what_shares_its_port() -> None:
    packet = rtp.parse_rtp(frame(rtp_header(9000, ssrc=0xABCD, sequence=5), ts_ns=77))
    assert packet == rtp.RtpPacket(77, bytes(4), 0xABCD, 96, 5, 9000)
    marked = rtp.parse_rtp(frame(rtp_header(9000, payload_type=96 | 0x80), words=6))
    assert marked is not None and marked.payload_type == 96
    stun = struct.pack("!HHI", 0x0001, 8, 0x2112A442) + bytes(12)
    dtls = bytes([22, 0xFE, 0xFD]) + bytes(20)
    receiver_report = struct.pack("!BBHI", 0x80, 201, 1, 7) + bytes(8)
    for payload in (stun, dtls, receiver_report, b"\x80", b""):
        assert rtp.parse_rtp(frame(payload)) is None
    assert rtp.parse_rtp(frame(rtp_header(1), protocol=6)) is None
    assert rtp.parse_rtp(CapturedPacket(0, 3, b"abc", 0)) is None


def test_a_frame_counts_once_and_where_its_last_packet_came() -> None:
    packets = [
        rtp_packet(5, 100), rtp_packet(15, 200), rtp_packet(16, 200), rtp_packet(19, 300),
        rtp_packet(21, 300), rtp_packet(22, 999, ssrc=8), rtp_packet(45, 400),
    ]  # fmt: skip
    assert rtp.frames_per_interval(packets, 7, [10, 20, 30, 40]) == [1, 1, 0]


def test_pages_get_files_of_their_folder_and_answers_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "call.html").write_text("<p>page")
    (tmp_path / "secret").write_text("not for pages")
    listener = socket.create_server(("127.0.0.1", 0))
    monkeypatch.setattr(browser, "_listen_in", lambda lab, host: listener)
    given: list[Any] = []

    def offer(host: str, sent: Any) -> Any:
        if sent is not None:
            given.append((host, sent))
        if not given:
            raise browser.NothingYet
        return given[-1]

    def ask(method: str, path: str, body: str | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", listener.getsockname()[1], timeout=5)
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, response.read()

    with browser.PageServer(None, ["caller"], pages, {"offer": offer}):  # type: ignore[arg-type]
        assert ask("GET", "/call.html") == (200, b"<p>page")
        for path in ("/", "/none.html", "/../secret", "/%2e%2e/secret"):
            assert ask("GET", path)[0] == 404
        assert ask("GET", "/offer")[0] == 503
        assert ask("POST", "/offer", '{"sdp": "v=0"}')[0] == 200
        assert ask("GET", "/offer") == (200, b'["caller", {"sdp": "v=0"}]')
        assert ask("POST", "/other", "{}")[0] == 404


@pytest.mark.testbed
def test_a_call_connects_and_its_frames_follow_the_link(tmp_path: Path) -> None:
    run = run_scenario(SCENARIOS / "call-small.toml", tmp_path, *AT_ANY_TIME)
    # Others may make runs on this machine as well; of ours there is nothing.
    own = run.report["taps"][0]["netns"].rpartition("-")[0]
    assert not [path for path in left_behind() if own in path]
    assert run.failed_checks() == []
    rows = run.table("receiver.tsv")
    assert len(rows) >= 14
    times_ns = [int(row["time_ns"]) for row in rows]
    assert all(0.5e9 < later - earlier < 1.5e9 for earlier, later in pairwise(times_ns))
    events = [(event["event"], int(event["time_ns"])) for event in run.table("events.tsv")]
    slow_ns = [time_ns for name, time_ns in events if name == "link"][1]
    fps = [float(row["frames_per_second"]) for row in rows if row["warm_up"] == "0"]
    slow = [float(row["frames_per_second"]) for row in rows if int(row["time_ns"]) > slow_ns + 2e9]
    assert max(fps) > 25 and sum(slow) / len(slow) < 15
    (flow,) = run.table("flows.tsv")
    assert (flow["label"], flow["media"], flow["protocol"]) == ("call", "video", "udp")
    sent = run.table("sender.tsv")
    assert {row["codec"] for row in sent} == {"VP8"} and {row["host"] for row in sent} == {"caller"}
