"""`packetlog calibrate`, and recorders that go by its file. The guarantee and its arithmetic are
tested in `crates/packetlog/src/calibration/tests.rs`."""

import json
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from captures import Frame, write_pcap
from command import ROOT, Ran, wirelens
from lab import Link, Listening, datagram, new_link
from packetlog_lab import ANOMALOUS, accounted, events, frames
from packetlog_model import PORT, seal, write_model

SERVICES = ROOT / "testdata/testbed/services/lan.pcapng.gz"
ATTACKS = ROOT / "testdata/testbed/attacks/lan.pcapng.gz"
SECOND = 1_000_000_000
START = 1_700_000_000
# Whole frames and headers, as the model's modes store them.
WHOLE, HEADERS = 142, 42


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that marks packets of a port."""
    return write_model(tmp_path_factory.mktemp("model") / "port")


def traffic(path: Path, seconds: int, marked: Callable[[int], int], benign: int = 50,
            begin: int = 0) -> Path:  # fmt: skip
    """So many packets a second of a port that is not marked, and of the one that is."""
    made = []
    for second in range(begin, begin + seconds):
        ports = [80] * benign + [PORT] * marked(second)
        for number, port in enumerate(ports):
            at = (START + second) * SECOND + number * SECOND // (len(ports) + 1)
            frame = datagram(("198.18.0.1", 40_000 + number), ("198.19.0.1", port), 100)
            made.append(Frame(at, frame, len(frame)))
    write_pcap(path, made)
    return path


def calibrate(folder: Path, *arguments: str | Path, status: int = 0) -> Ran:
    ran = wirelens("packetlog", "calibrate", "-o", folder / "calibration.json", *arguments)
    assert ran.status == status, (ran.stdout, ran.stderr)
    return ran


def calibrated(folder: Path) -> dict:
    return json.loads((folder / "calibration.json").read_text())


def record(folder: Path, capture: Path, *arguments: str | Path) -> Ran:
    ran = wirelens(
        "packetlog", "record", "-r", capture, "-o", folder / "log",
        "--calibration", folder / "calibration.json", *arguments,
    )  # fmt: skip
    assert ran.status == 0, ran.stderr
    return ran


def test_a_site_whose_benign_packets_are_marked_keeps_its_budget(
    tmp_path: Path, model: Path
) -> None:
    site = traffic(tmp_path / "site.pcap", 100, lambda second: second % 9)
    ran = calibrate(tmp_path, "-r", site, "--model", model)
    told = ran.stdout.decode()
    found = calibrated(tmp_path)
    assert found["budget"] == 0.02 and found["blocks"]["used"] == 100
    assert found["threshold"]["flow"] == found["threshold"]["packet"]
    assert found["threshold"]["flow"] == pytest.approx(0.9, abs=0.002)
    assert found["marked"]["calibrated"] == 0 and found["marked"]["model"] > 0.06
    assert found["marked"]["bound"] == pytest.approx(1 / 101)
    # The port's packets have one score: all of them are within the budget, or none.
    assert re.search(r"threshold 0\.90\d, the model's own is 0\.500", told)
    assert "budget 2.00 %: at most 0.99 % of a block's packets" in told
    packets = sum(50 + second % 9 for second in range(100))
    marked = packets - 5000
    whole, headers = packets * WHOLE, packets * HEADERS
    before = (headers + marked * (WHOLE - HEADERS)) / whole * 100
    default = rf"^ *default +{packets:,} +{headers:,} +29\.58 % +{before:.2f} %"
    assert re.search(default, told, re.MULTILINE), told
    everything = rf"^ *log-all +{packets:,} +{whole:,} +100\.00 % +100\.00 %"
    assert re.search(everything, told, re.MULTILINE), told
    later = traffic(tmp_path / "later.pcap", 50, lambda second: second % 9, begin=200)
    ran = record(tmp_path, later, "--model", model)
    assert "packetlog: calibration: 0.00 % of packets marked; 0 of 4 periods" in ran.stderr
    assert "anomalous" not in ran.stderr
    assert accounted(ran)["kept"] == sum(50 + second % 9 for second in range(200, 250))


def test_a_site_within_the_budget_has_it_used(tmp_path: Path, model: Path) -> None:
    site = traffic(tmp_path / "site.pcap", 100, lambda second: second % 50 == 0)
    calibrate(tmp_path, "-r", site, "--model", model)
    found = calibrated(tmp_path)
    # Below it are packets that the model gives a probability of 0.
    assert found["threshold"]["flow"] == 0.001 and found["marked"]["calibrated"] < 0.001
    ran = record(tmp_path, site, "--model", model)
    assert "packetlog: anomalous: 2 packets of 2 stored" in ran.stderr


def test_packets_of_the_real_services_keep_their_budget(tmp_path: Path) -> None:
    calibrate(tmp_path, "-r", SERVICES, "--budget", "10%")
    found = calibrated(tmp_path)
    assert found["blocks"]["used"] >= 9 and found["marked"]["bound"] <= 0.1
    ran = record(tmp_path, SERVICES, "--seed", "1")
    share = float(re.search(r"calibration: ([\d.]+) % of packets marked", ran.stderr)[1])
    assert share <= 10
    # What the file says of its own capture is what is stored of it.
    assert share == pytest.approx(found["marked"]["calibrated"] * 100, abs=0.2)


def test_an_attack_in_the_calibration_is_left_out_and_named(tmp_path: Path, model: Path) -> None:
    def marked(second: int) -> int:
        return 500 if 60 <= second < 66 else 0

    site = traffic(tmp_path / "site.pcap", 120, marked)
    told = calibrate(tmp_path, "-r", site, "--model", model).stdout.decode()
    assert "6 blocks are left out: far more packets marked than the median of 0.00 %" in told
    assert "2023-11-14T22:14:20.000000000Z 1 s, 550 packets, 90.9 % marked" in told
    found = calibrated(tmp_path)
    assert [block["from_ns"] for block in found["blocks"]["left_out"]] == [
        (START + second) * SECOND for second in range(60, 66)
    ]
    assert found["blocks"]["used"] == 114 and found["threshold"]["flow"] < 0.5
    ran = record(tmp_path, site, "--model", model)
    assert "anomalous: 3000 packets of 3000 stored" in ran.stderr
    # What is in a fifth of the blocks is the site.
    often = traffic(tmp_path / "often.pcap", 120, lambda second: 100 * (second % 5 == 0))
    told = calibrate(tmp_path, "-r", often, "--model", model, "--force").stdout.decode()
    assert "24 blocks have far more marked packets" in told
    assert calibrated(tmp_path)["threshold"]["flow"] > 0.89


def test_traffic_that_differs_is_warned_of_once(tmp_path: Path, model: Path) -> None:
    site = traffic(tmp_path / "site.pcap", 80, lambda second: second % 50 == 0)
    calibrate(tmp_path, "-r", site, "--model", model)
    assert calibrated(tmp_path)["drift"]["period_s"] == 10

    def later(second: int) -> int:
        return 100 if 30 <= second < 60 else 0

    capture = traffic(tmp_path / "later.pcap", 90, later)
    ran = record(tmp_path, capture, "--model", model)
    warned = [line for line in ran.stderr.splitlines() if "differs from what was calib" in line]
    assert len(warned) == 1 and "run `wirelens packetlog calibrate` again" in warned[0]
    assert ran.stderr.count("traffic is again as calibrated") == 1
    assert re.search(r"3 of 8 periods with other scores .* 3 above the budget", ran.stderr)
    seen = [event["seen"] for event in events(tmp_path / "log") if event["event"] == "calibration"]
    assert seen == ["scores", "recovered"]


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (lambda text: text.replace("0.9", "0.8"), "model_sha256: of another model than this"),
        (lambda text: text.replace("lower_port", "higher_port"), "of other features than those"),
    ],
)
def test_a_calibration_of_another_model_is_refused(
    tmp_path: Path, model: Path, change: Callable[[str], str], wanted: str
) -> None:
    calibrate(tmp_path, "-r", traffic(tmp_path / "a.pcap", 60, lambda _: 1), "--model", model)
    other = tmp_path / "other"
    if "features" in wanted:
        write_model(other, "higher_port")
    else:
        other.mkdir()
        seal(other, change((model / "model.json").read_text()))
    ran = wirelens("packetlog", "record", "-r", SERVICES, "-o", tmp_path / "log", "--model", other,
                   "--calibration", tmp_path / "calibration.json")  # fmt: skip
    assert ran.status == 2 and wanted in ran.stderr, ran.stderr
    assert "run `wirelens packetlog calibrate` with this model" in ran.stderr
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [(None, "No such file"), ("{", "EOF while parsing"), ('{"a": 1}', "unknown field `a`")],
)
def test_what_is_no_calibration_is_refused(tmp_path: Path, text: str | None, wanted: str) -> None:
    path = tmp_path / "calibration.json"
    if text is not None:
        path.write_text(text)
    ran = wirelens("packetlog", "record", "-r", SERVICES, "-o", tmp_path / "log",
                   "--calibration", path)  # fmt: skip
    assert ran.status == 2 and wanted in ran.stderr, ran.stderr
    assert "wirelens packetlog calibrate" in ran.stderr and not (tmp_path / "log").exists()


def test_too_little_traffic_is_refused_with_what_is_missing(tmp_path: Path, model: Path) -> None:
    short = traffic(tmp_path / "short.pcap", 20, lambda _: 0)
    ran = calibrate(tmp_path, "-r", short, "--model", model, status=1)
    assert "1000 packets in 20 blocks of 1 s with traffic; a budget of 2 % needs at least 49" in (
        ran.stderr
    )
    assert "calibrate for 29 s more" in ran.stderr and "at least 4.8 %" in ran.stderr
    calibrate(tmp_path, "-r", short, "--model", model, "--budget", "4.8%")
    ran = calibrate(tmp_path, "-r", short, "--filter", "tcp", "--force", status=1)
    assert "no packet; wanted: traffic to calibrate on" in ran.stderr
    assert not (tmp_path / "calibration.json.partial").exists()


def test_what_is_asked_wrongly_is_refused_before_an_hour_has_passed(tmp_path: Path) -> None:
    for arguments, wanted in [
        (("--budget", "0"), "wanted a share of 0.1% to 50%"),
        (("--budget", "60%"), "wanted a share of 0.1% to 50%"),
        (("--budget", "some"), "wanted a share of 0.1% to 50%"),
        (("-i", "nowhere0", "--for", "8d"), "wanted"),
        (("-i", "nowhere0", "--for", "200h"), "wanted at most 7d"),
        (("--for", "1h", "-r", SERVICES), "--interface"),
        (("-r", SERVICES, "--model", "none"), "no shipped model has this name"),
    ]:
        ran = wirelens("packetlog", "calibrate", *arguments, cwd=tmp_path)
        assert ran.status != 0 and wanted in ran.stderr, (arguments, ran.stderr)
    (tmp_path / "calibration.json").write_text("mine")
    ran = calibrate(tmp_path, "-r", SERVICES, "--budget", "10%", status=1)
    assert "exists already; give --force to replace it" in ran.stderr
    assert (tmp_path / "calibration.json").read_text() == "mine"
    calibrate(tmp_path, "-r", SERVICES, "--budget", "10%", "--force")
    assert calibrated(tmp_path)["budget"] == 0.1


@pytest.fixture
def link() -> Iterator[Link]:
    with new_link() as made:
        yield made


def send_for(link: Link, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        link.send(frames(20) + frames(1, ANOMALOUS))
        time.sleep(0.1)


def test_an_interface_is_calibrated_and_recorded(
    tmp_path: Path, model: Path, link: Link
) -> None:
    words = ("packetlog", "calibrate", "-i", "wl0", "--model", model, "-o",
             tmp_path / "calibration.json", "--force", "--budget")  # fmt: skip
    with Listening(tmp_path, *words, "25%", "--for", "6s") as run:
        send_for(link, 5)
        ran = run.wait()
    assert ran.status == 0, ran.stderr
    assert calibrated(tmp_path)["blocks"]["used"] >= 3
    # Interrupted, it says what it has.
    with Listening(tmp_path, *words, "25%") as run:
        send_for(link, 5)
        run.signal(signal.SIGINT)
        ran = run.wait()
    assert ran.status == 0 and "budget 25.00 %" in ran.stdout.decode(), ran.stderr
    with Listening(tmp_path, *words, "0.5%") as run:
        send_for(link, 1.2)
        ran = run.end()
    assert ran.status == 1 and "needs at least 199: calibrate for" in ran.stderr
    log = tmp_path / "log"
    words = ("packetlog", "record", "-i", "wl0", "-o", log, "--model", model, "--calibration",
             tmp_path / "calibration.json", "--latency", "low")  # fmt: skip
    with Listening(tmp_path, *words) as run:
        send_for(link, 3)
        metrics = wirelens("packetlog", "status", "--log", log, "--format", "prometheus")
        ran = run.end()
    shown = metrics.stdout.decode()
    for name in ("periods_total", "drifted_periods_total", "over_budget_periods_total", "psi"):
        assert f"\nwirelens_packetlog_calibration_{name} " in shown, shown
    assert ran.status == 0 and "packetlog: calibration: " in ran.stderr
