"""A panic of an application costs it a piece of packets: the others, its other flows and the
account are as without it, the packets are in the quarantine, and too many of them end the
application."""

import csv
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from command import DEMO, Ran, wirelens

TABLES = {
    "top": "", "flows": "stats = true\nread-names = true\n", "classify": 'model = "services"\n',
    "cca": "rows = 1000\n", "latency": "", "unanswered": "", "traffic": "",
    "l4s": 'model = "l4s"\nto = ["*:443"]\n',
}  # fmt: skip
# Rows of one flow each.
BY_FLOW = ("flows", "classify", "latency", "unanswered", "cca", "l4s")
# What a row says of a flow compared with all others.
SHARED = {"sent_share"}
AT = 1500
PIECE_LEN_MAX = 256


def ran(folder: Path, applications: tuple[str, ...], run: str = "") -> Ran:
    """A run over the capture that ships, with rows in files."""
    folder.mkdir()
    text = f'[input]\nread = "{DEMO}"\n[run]\nseed = 1\n'
    text += run if "threads" in run else f"threads = 1\n{run}"
    for name in applications:
        if name == "packetlog":
            text += '[packetlog]\noutput = "log"\nfixed-mode = true\nmode = "log-all"\n'
        else:
            text += f'[{name}]\noutput = "{name}.csv"\nformat = "csv"\n{TABLES[name]}'
    (folder / "wirelens.toml").write_text(text)
    return wirelens("run", "-c", "wirelens.toml", cwd=folder)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return [
            {key: value for key, value in row.items() if key not in SHARED}
            for row in csv.DictReader(file)
        ]


def account(said: str, name: str) -> dict[str, int]:
    """The terms of the sum that an application prints; it has to hold."""
    [line] = re.findall(rf"^{name}: (\d+ received = .*)$", said, re.M)
    terms = {what: int(count) for count, what in re.findall(r"(\d+) (\w+)", line)}
    assert terms.pop("received") == sum(terms.values()), line
    return terms


def kept(folder: Path) -> list[Path]:
    return sorted((folder / "wirelens-quarantine").iterdir())


@pytest.mark.parametrize("name", [*TABLES, "packetlog"])
def test_a_fault_costs_an_application_a_piece(tmp_path: Path, name: str) -> None:
    other = "flows" if name != "flows" else "top"
    whole, faulted = tmp_path / "whole", tmp_path / "faulted"
    said = ran(whole, (name, other)).stderr
    assert "faulted" not in said and "faulted" not in account(said, name)
    run = ran(faulted, (name, other), f'simulate = ["fault={name}@{AT}"]\n')
    assert run.status == 0, run.stderr
    assert f"wirelens: {name} panicked at " in run.stderr and "the run continues" in run.stderr
    # Others do not notice.
    assert (faulted / f"{other}.csv").read_bytes() == (whole / f"{other}.csv").read_bytes()
    assert account(run.stderr, other) == account(said, other)
    # The account holds, and what is lost is the piece that was kept.
    [file] = kept(faulted)
    assert file.name == f"fault-01-{name}.pcapng"
    lost = account(run.stderr, name)["faulted"]
    assert 0 < lost <= PIECE_LEN_MAX
    assert f"{name}: 1 fault, by which {lost} packets are lost (faulted)\n" in run.stderr
    piece = wirelens("flows", "-r", file, "-o", "-", "--format", "csv")
    assert piece.status == 0 and f"\n{lost} packets captured\n" in f"\n{piece.stderr}"
    flows = {row["community_id"] for row in piece.rows}
    if name in BY_FLOW:
        before, after = rows(whole / f"{name}.csv"), rows(faulted / f"{name}.csv")
        outside = [row for row in before if row["community_id"] not in flows]
        assert outside == [row for row in after if row["community_id"] not in flows]
        assert name in {"l4s", "unanswered"} or 0 < len(outside) < len(before)
    elif name != "packetlog":
        packets = [
            sum(int(row["packets"]) for row in rows(folder / f"{name}.csv"))
            for folder in (whole, faulted)
        ]
        assert 0 <= packets[0] - packets[1] <= lost


def test_the_quarantine_is_private_and_says_why(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    ran(folder, ("flows",), f'simulate = ["fault=flows@{AT}"]\n')
    [file] = kept(folder)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    text = file.read_bytes()
    assert b": flows panicked at " in text and b"drill: a fault was asked for" in text
    if shutil.which("tshark") is None:
        pytest.skip("no tshark")
    command = ["tshark", "-r", file, "-T", "fields", "-e", "frame.number"]
    read = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert len(read.stdout.split()) == 64


def test_an_application_that_fails_too_often_ends_and_others_do_not(tmp_path: Path) -> None:
    whole, faulted = tmp_path / "whole", tmp_path / "faulted"
    ran(whole, ("flows", "top"))
    drill = 'faults-max = 3\nsimulate = ["fault=flows@4000+"]\n'
    run = ran(faulted, ("flows", "top"), drill)
    assert run.status == 1
    assert "flows ends here, as the limit of faults is reached" in run.stderr
    last = run.stderr.splitlines()[-1]
    assert last.startswith("wirelens: flows ended early after 3 faults, as the limit of faults")
    assert "drill: a fault was asked for" in last
    assert [file.name for file in kept(faulted)] == [
        f"fault-0{number}-flows.pcapng" for number in (1, 2, 3)
    ]
    assert (faulted / "top.csv").read_bytes() == (whole / "top.csv").read_bytes()
    assert account(run.stderr, "flows")["faulted"] > 500
    # Rows until then are there, and no other.
    before, after = rows(whole / "flows.csv"), rows(faulted / "flows.csv")
    assert 0 < len(after) < len(before) and all(row in before for row in after)


def test_a_run_whose_last_application_ends_ends(tmp_path: Path) -> None:
    run = ran(tmp_path / "run", ("flows",), 'faults-max = 1\nsimulate = ["fault=flows@100"]\n')
    assert run.status == 1
    assert "flows ended early after 1 fault" in run.stderr
    account(run.stderr, "flows")


@pytest.mark.parametrize("name", ["flows", "classify", "top"])
def test_a_fault_on_several_threads(tmp_path: Path, name: str) -> None:
    whole, faulted = tmp_path / "whole", tmp_path / "faulted"
    ran(whole, (name, "traffic"), "threads = 3\n")
    lines = f'threads = 3\nsimulate = ["fault={name}@200"]\n'
    run = ran(faulted, (name, "traffic"), lines)
    assert run.status == 0, run.stderr
    assert (faulted / "traffic.csv").read_bytes() == (whole / "traffic.csv").read_bytes()
    files = kept(faulted)
    lost = account(run.stderr, name)["faulted"]
    assert 1 <= len(files) <= 3 and 0 < lost <= PIECE_LEN_MAX * len(files)
    for file in files:
        assert wirelens("info", "-r", file).status == 0


def test_a_full_or_foreign_quarantine_keeps_nothing_and_says_so(tmp_path: Path) -> None:
    drill = f'simulate = ["fault=flows@{AT}"]\n'
    full = tmp_path / "full"
    for number in range(32):
        (full / f"{number}").parent.mkdir(exist_ok=True)
        (full / f"{number}").write_bytes(b"")
    run = ran(tmp_path / "first", ("flows",), f'quarantine = "{full}"\n{drill}')
    assert run.status == 0 and "is full: move its files away" in run.stderr
    assert len(list(full.iterdir())) == 32
    link, real = tmp_path / "link", tmp_path / "real"
    real.mkdir()
    link.symlink_to(real)
    run = ran(tmp_path / "second", ("flows",), f'quarantine = "{link}"\n{drill}')
    assert run.status == 0 and "it is a link or no folder" in run.stderr
    assert not list(real.iterdir())
    run = ran(tmp_path / "third", ("flows",), f'quarantine = ""\n{drill}')
    assert run.status == 0 and "its packets are not kept" in run.stderr
    assert not (tmp_path / "third/wirelens-quarantine").exists()


def test_what_is_asked_for_is_checked(tmp_path: Path) -> None:
    run = ran(tmp_path / "word", ("flows",), 'simulate = ["panic"]\n')
    assert run.status == 2 and "fault=APPLICATION@1000" in run.stderr
    run = ran(tmp_path / "name", ("flows",), 'simulate = ["fault=top@1"]\n')
    assert run.status == 2 and "simulate fault=top@1: there is no table [top]" in run.stderr
    run = ran(tmp_path / "none", ("flows",), "faults-max = 0\n")
    assert run.status == 2 and "wanted: 1 or more" in run.stderr
