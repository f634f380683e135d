"""What an older version wrote is read by this one: packet logs and histories in
`testdata/versions/VERSION/`, with the answers that each has to give for good.

`python3 tests/test_versions.py VERSION` writes them with the program that was built; once for each
version that is released, never again. `0.1.0-ledger` is of a build before the next release, whose
packet logs were the first with a ledger.
"""

import csv
import io
import json
import shutil
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from command import DEMO, ROOT, Ran, wirelens
from test_page import ask, serving

VERSIONS = ROOT / "testdata/versions"
KEPT = sorted(path.parent for path in VERSIONS.glob("*/answers.json"))
CAPTURE = ROOT / "testdata/names.pcap"
BYTES_MAX = 60_000

RECORD = ("packetlog", "record", "-q", "-r", CAPTURE, "-o", "packetlog", "--mode", "log-all",
          "--fixed-mode")  # fmt: skip
SETTINGS = """[run]
seed = 1
[traffic]
[flows]
read-names = true
[history]
"""
EVERYTHING = f"limit=1000&from={quote('2020-01-01T00:00:00Z')}"

Rows = list[dict[str, object]]


def fine(ran: Ran) -> Ran:
    assert ran.status == 0, ran.stderr
    return ran


def rows(text: bytes) -> Rows:
    return list(csv.DictReader(io.StringIO(text.decode())))


def of_log(log: Path, folder: Path) -> dict[str, Rows]:
    """What a log answers: its hosts and sessions, and the flows of its packets."""
    answers = {
        what: rows(fine(wirelens("packetlog", "query", "-q", "-l", log, "--list", what,
                                 "--format", "csv")).stdout)
        for what in ("hosts", "sessions")
    }  # fmt: skip
    packets = folder / "packets.pcapng"
    fine(wirelens("packetlog", "query", "-q", "-l", log, "-w", packets, "--force"))
    flows = wirelens("flows", "-q", "-r", packets, "--read-names", "--format", "csv")
    return answers | {"packets": rows(fine(flows).stdout)}


def of_history(folder: Path) -> dict[str, Rows]:
    """What a run on a history answers of the rows of the runs before it."""
    (folder / "wirelens.toml").write_text(SETTINGS)
    words = ("-c", "wirelens.toml", "-r", str(empty(folder)), "--page", "0")
    with serving(*words, cwd=folder) as address:
        found = {name: ask(address, f"/api/v1/tables/{name}?{EVERYTHING}")
                 for name in ("traffic", "flows")}  # fmt: skip
    return {
        name: [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
        for name, table in found.items()
    }


def empty(folder: Path) -> Path:
    """A capture without packets."""
    path = folder / "empty.pcap"
    path.write_bytes(CAPTURE.read_bytes()[:24])
    return path


def write(folder: Path) -> None:
    """Writes what this version leaves, and what it answers."""
    assert not folder.exists(), "what a version left is not changed"
    folder.mkdir(parents=True)
    fine(wirelens(*RECORD, cwd=folder))
    (folder / "wirelens.toml").write_text(SETTINGS)
    fine(wirelens("run", "-q", "-c", "wirelens.toml", "-r", CAPTURE, cwd=folder))
    scratch = folder / "scratch"
    answers = answered(folder, scratch)
    shutil.rmtree(scratch)
    (folder / "wirelens.toml").unlink()
    # A row a line.
    tables = [
        f"{json.dumps(name)}: [\n" + ",\n".join(map(json.dumps, of)) + "\n]"
        for name, of in answers.items()
    ]
    (folder / "answers.json").write_text("{" + ",\n".join(tables) + "}\n")


def answered(version: Path, folder: Path) -> dict[str, Rows]:
    """All answers about a copy of what a version left."""
    for name in ("packetlog", "history"):
        shutil.copytree(version / name, folder / name)
    return of_log(folder / "packetlog", folder) | of_history(folder)


def test_a_version_is_kept() -> None:
    version = wirelens("--version").stdout.decode().split()[1]
    assert version in {path.name for path in KEPT}, "python3 tests/test_versions.py VERSION"


@pytest.mark.parametrize("version", KEPT, ids=lambda path: path.name)
def test_what_a_version_left_is_answered_as_then(version: Path, tmp_path: Path) -> None:
    kept = json.loads((version / "answers.json").read_text())
    found = answered(version, tmp_path / "copy")
    assert found.keys() == kept.keys()
    for name, wanted in kept.items():
        assert len(wanted) == len(found[name]) > 0, name
        # Later versions may have more columns, and never others.
        for old, new in zip(in_order(wanted, wanted), in_order(found[name], wanted), strict=True):
            assert {key: new[key] for key in old} == old, name


def packets(sessions: Rows) -> int:
    return sum(int(str(row[f"{way}_packets"])) for row in sessions for way in ("src", "dst"))


def in_order(of: Rows, like: Rows) -> Rows:
    return sorted(of, key=lambda row: [str(row[key]) for key in like[0]])


@pytest.mark.parametrize("version", KEPT, ids=lambda path: path.name)
def test_a_log_is_continued_by_this_version(version: Path, tmp_path: Path) -> None:
    log = tmp_path / "packetlog"
    shutil.copytree(version / "packetlog", log)
    before = packets(of_log(log, tmp_path)["sessions"])
    fine(wirelens("packetlog", "record", "-q", "-r", DEMO, "-c", "100", "-o", log,
                  "--mode", "log-all", "--fixed-mode"))  # fmt: skip
    after = packets(of_log(log, tmp_path)["sessions"])
    assert before < after <= before + 100
    # What the older version recorded in a ledger still holds, and one without begins one.
    verified = fine(wirelens("packetlog", "verify", "--log", log)).stdout.decode()
    assert "nothing was changed or removed" in verified, verified
    assert ("older than the ledger" in verified) == (version.name == "0.1.0"), verified


@pytest.mark.parametrize("version", KEPT, ids=lambda path: path.name)
def test_what_is_kept_is_small(version: Path) -> None:
    for name in ("packetlog", "history"):
        files = [path for path in (version / name).rglob("*") if path.is_file()]
        assert 0 < sum(path.stat().st_size for path in files) <= BYTES_MAX, name


if __name__ == "__main__":
    write(VERSIONS / sys.argv[1])
