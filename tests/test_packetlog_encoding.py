"""`packetlog record --encoding compact`: what `query` gives back is what the other encoding gives."""

import re
import subprocess
from pathlib import Path

import pytest
from command import DEMO, ROOT, captures, wirelens

MODES = ("default", "log-all", "log-minimum")
SHIPPED = [DEMO, ROOT / "testdata/names.pcap", ROOT / "testdata/testbed/attacks/lan.pcapng.gz"]


def recorded(folder: Path, capture: Path, mode: str, encoding: str, *more: str) -> tuple[Path, int]:
    """All packets of a log, as `query` writes them, and the bytes of the log's folder."""
    log = folder / f"{encoding}{len(more)}"
    ran = wirelens("packetlog", "record", "-r", capture, "-o", log, "--mode", mode,
                   "--encoding", encoding, "--seed", "1", *more)  # fmt: skip
    assert ran.status == 0, ran.stderr
    size = sum(path.stat().st_size for path in log.iterdir() if path.is_file())
    found = log / "found.pcapng"
    ran = wirelens("packetlog", "query", "--log", log, "-w", found)
    assert ran.status == 0, ran.stderr
    return found, size


@pytest.mark.parametrize("capture", SHIPPED, ids=lambda path: path.parent.name + path.name)
@pytest.mark.parametrize("mode", MODES)
def test_query_gives_the_same_packets_from_either_encoding(
    tmp_path: Path, capture: Path, mode: str
) -> None:
    plain, plain_size = recorded(tmp_path, capture, mode, "pcapng")
    compact, compact_size = recorded(tmp_path, capture, mode, "compact")
    packed, packed_size = recorded(tmp_path, capture, mode, "compact", "--compress")
    assert plain.read_bytes() == compact.read_bytes() == packed.read_bytes()
    assert compact_size <= plain_size
    assert packed_size <= compact_size
    shown = [subprocess.run(["tshark", "-n", "-r", path], capture_output=True, check=True).stdout
             for path in (plain, compact)]  # fmt: skip
    assert shown[0] == shown[1]
    assert shown[0]


def test_a_compact_file_is_a_pcapng_file_without_packets_of_its_own(tmp_path: Path) -> None:
    recorded(tmp_path, DEMO, "default", "compact")
    files = sorted((tmp_path / "compact0").glob("p*.pcapng"))
    for path in files:
        shown = subprocess.run(["tshark", "-n", "-r", path], capture_output=True, text=True)
        assert shown.returncode == 0, shown.stderr
        assert len(shown.stdout.splitlines()) <= 1
    assert files


def test_the_summary_and_stats_count_the_bytes_that_are_on_the_disk(tmp_path: Path) -> None:
    for encoding in ("pcapng", "compact"):
        for more in ((), ("--compress",)):
            log = tmp_path / f"{encoding}{len(more)}"
            ran = wirelens("packetlog", "record", "-r", DEMO, "-o", log, "--encoding", encoding,
                           *more)  # fmt: skip
            assert ran.status == 0, ran.stderr
            on_disk = sum(path.stat().st_size for path in log.glob("p*"))
            told = re.search(r"packetlog: (\d+) bytes of log with index", ran.stderr)
            assert int(told[1]) == on_disk
            assert not more or not list(log.glob("*.pcapng"))


@pytest.mark.wide
def test_real_captures_come_back_from_compact_logs(tmp_path: Path) -> None:
    count = 0
    for number, capture in enumerate(captures("formats")[::8]):
        folder = tmp_path / str(number)
        folder.mkdir()
        ran = wirelens("packetlog", "record", "-r", capture, "-o", folder / "tried")
        if ran.status:
            continue
        plain, _ = recorded(folder, capture, "log-all", "pcapng")
        compact, _ = recorded(folder, capture, "log-all", "compact")
        assert plain.read_bytes() == compact.read_bytes(), capture
        count += 1
    assert count > 10
