"""`wirelens simulate packetlog --anomalous`: what a switch's classifier finds of what is known."""

import csv
import io
from pathlib import Path

import numpy
import pytest
from command import ROOT, wirelens
from wirelens import packetlog
from wirelens.packetlog import truth

RUN = ROOT / "testdata/testbed/attacks"
CAPTURE = RUN / "lan.pcapng.gz"
DEMO = ROOT / "testdata/demo.pcapng"


@pytest.fixture(scope="module")
def anomalous() -> numpy.ndarray:
    """Of each packet of the run whether it is one of an attack's."""
    (run,) = truth.captures([RUN])
    return truth.read(run).codes > 0


@pytest.fixture
def numbers(anomalous: numpy.ndarray, tmp_path: Path) -> Path:
    path = tmp_path / "frames.txt"
    path.write_text("".join(f"{at + 1}\n" for at in numpy.flatnonzero(anomalous)))
    return path


def simulated(*more: str | Path) -> list[dict[str, str]]:
    ran = wirelens("simulate", "packetlog", "-r", CAPTURE, "-q", "--format", "csv", *more)
    assert ran.status == 0, ran.stderr
    return list(csv.DictReader(io.StringIO(ran.stdout.decode())))


def test_agreement_is_that_of_verdicts_read_by_another_way(
    anomalous: numpy.ndarray, numbers: Path
) -> None:
    model = ROOT / "models/packetlog-kernel/model.json"
    batches = packetlog.judgements(CAPTURE, model)
    marked = numpy.concatenate([numpy.array(batch.classes) for batch in batches]) > 0
    assert len(marked) == len(anomalous)
    (row,) = simulated("--anomalous", numbers, "--gbps", "100", "--model", "packetlog-kernel")
    assert int(row["marked_packets"]) == marked.sum()
    both = (marked & anomalous).sum()
    wanted = (both / marked.sum(), both / anomalous.sum(), (marked == anomalous).mean())
    found = tuple(float(row[name]) for name in ("precision", "recall", "accuracy"))
    assert found == pytest.approx(wanted, abs=1e-12)
    # A model that took all for one class would pass as well.
    assert 0.1 < found[0] < 1 and 0.1 < found[1] < 1


def test_streams_are_each_compared_and_modes_change_nothing(numbers: Path) -> None:
    rates = ("--gbps", "100,400", "--mode", "default", "--mode", "log-minimum")
    rows = simulated("--anomalous", numbers, *rates)
    shares = [tuple(row[name] for name in ("precision", "recall", "accuracy")) for row in rows]
    assert shares[0] == shares[1] and shares[2] == shares[3]
    assert int(rows[2]["packets"]) == 4 * int(rows[0]["packets"])
    # A sketch with room for all flows: four times as many change next to nothing.
    assert [float(share) for share in shares[2]] == pytest.approx(
        [float(share) for share in shares[0]], abs=0.02
    )


def test_without_frames_nothing_is_compared() -> None:
    (row,) = simulated("--gbps", "100")
    assert row["precision"] == row["recall"] == row["accuracy"] == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("12\nframe.number\n", "line 2"),
        ("0\n", "from 1"),
        ("9999999\n", "of a capture with"),
    ],
)
def test_numbers_that_are_no_frames_are_refused(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "frames.txt"
    path.write_text(text)
    ran = wirelens("simulate", "packetlog", "-r", DEMO, "-q", "--anomalous", path)
    assert ran.status in (1, 2) and ran.stdout == b""
    assert why in ran.stderr and str(path) in ran.stderr


def test_what_counts_frames_otherwise_is_refused(numbers: Path) -> None:
    words = ("simulate", "packetlog", "-q", "--anomalous", numbers, "-r", DEMO)
    for more in (("-f", "tcp"), ("-c", "9"), ("--drop-duplicates",), ("--workload", "w1")):
        ran = wirelens(*words, *more)
        assert ran.status == 2 and "--anomalous" in ran.stderr
    ran = wirelens(*words, "-r", DEMO)
    assert ran.status == 2 and "2 captures; wanted: one" in ran.stderr
