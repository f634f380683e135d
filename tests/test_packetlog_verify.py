"""`packetlog verify`: the command around the ledger of a log. What is found is tested in
`crates/packetlog/tests/log/ledger.rs`."""

import json
import re
import shutil
from pathlib import Path

import pytest
from command import DEMO, Ran, wirelens


def verify(log: Path, *arguments: str | Path, code: int) -> str:
    ran: Ran = wirelens("packetlog", "verify", "--log", log, *arguments)
    assert ran.status == code, ran.stdout.decode() + ran.stderr
    return ran.stdout.decode()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a log of two recordings and its anchors."""
    folder = tmp_path_factory.mktemp("recorded")
    for _ in range(2):
        ran = wirelens(
            *("packetlog", "record", "-q", "-r", DEMO, "-o", folder / "log"),
            *("--anchor", folder / "heads"),
        )
        assert ran.status == 0, ran.stderr
    return folder


def test_a_log_is_proven_up_to_its_last_anchor(recorded: Path) -> None:
    log, heads = recorded / "log", recorded / "heads"
    head = verify(log, "--head", code=0).strip()
    assert heads.stat().st_mode & 0o777 == 0o600
    lines = heads.read_text().splitlines()
    assert len(lines) == 4 and lines[-1].endswith(f" wirelens packetlog {head}")
    proven = f"up to record {head.split(':')[0]}, which is anchored\n"
    for anchors in (("--anchor", heads), (head,), (lines[1].split()[-1], "--anchor", heads)):
        text = verify(log, *anchors, code=0)
        assert proven in text and "unproven" not in text
    text = verify(log, lines[1].split()[-1], code=0)
    assert re.search(r"unproven: \d+ records after the last anchored one", text)
    assert "no anchor was given" in verify(log, code=0)


def test_what_was_changed_is_named_with_its_place(recorded: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    shutil.copytree(recorded / "log", log)
    packets = min(log.glob("*.pcapng"))
    data = bytearray(packets.read_bytes())
    data[300] ^= 1
    packets.write_bytes(data)
    text = verify(log, "--anchor", recorded / "heads", code=3)
    assert f"{packets.stem}: " in text and "a block was changed" in text
    assert text.count("1 finding\n") == 1
    ledger = log / "ledger-000001.jsonl"
    lines = ledger.read_text().splitlines(keepends=True)
    ledger.write_text("".join(lines[:4] + lines[5:]))
    text = verify(log, "--anchor", recorded / "heads", code=3)
    assert f"{ledger}: line 5: records before it are missing" in text


def test_zeros_in_the_ledger_are_no_power_cut_if_the_machine_ran_on(
    recorded: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    shutil.copytree(recorded / "log", log)
    ledger = log / "ledger-000001.jsonl"
    whole = ledger.read_bytes()
    lines = whole.splitlines()
    assert json.loads(lines[-1])["stop"]["unsynced"] == 0
    ledger.write_bytes(whole[:-100] + bytes(100))
    text = verify(log, code=3)
    assert f"{ledger}: line {len(lines)}: bytes that are 0: only a power cut leaves them" in text


def test_totals_are_those_of_the_ledger_without_an_account(recorded: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    shutil.copytree(recorded / "log", log)

    def stats() -> Ran:
        return wirelens("packetlog", "stats", "--log", log, "--format", "jsonl")

    before = stats()
    (log / "account").unlink()
    assert (stats().status, stats().stdout) == (before.status, before.stdout)
    assert json.loads(before.stdout.splitlines()[0])["seen_packets"] > 0
    table = wirelens("packetlog", "stats", "--log", log).stdout.decode()
    assert "account: removed; these totals are those of the ledger" in table


def test_what_cannot_be_verified_is_an_error(recorded: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    shutil.copytree(recorded / "log", log)
    (log / "ledger-000001.jsonl").unlink()
    assert verify(log, code=3).startswith("no ledger: ")
    ran = wirelens("packetlog", "verify", "--log", log, "--head")
    assert ran.status == 1 and "no ledger; record into it first" in ran.stderr
    ran = wirelens("packetlog", "verify", "--log", log, "17")
    assert ran.status == 2 and "wanted NUMBER:HASH, as --head prints it" in ran.stderr
    ran = wirelens("packetlog", "verify", "--log", log, "--anchor", DEMO)
    assert ran.status == 2 and "no head of a ledger in it" in ran.stderr
    ran = wirelens(
        *("packetlog", "record", "-r", DEMO, "-o", log, "--anchor", log / "heads"),
    )
    assert ran.status == 1 and "anchor the ledger in a file outside" in ran.stderr
