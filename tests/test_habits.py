"""What is typed out of the habit of other tools is understood, or answered with the right line."""

import os
import pty
import re
import struct
import subprocess
import termios
from fcntl import ioctl
from pathlib import Path

import pytest
from command import DEMO, ENVIRONMENT, PROGRAM, ROOT, wirelens


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.pcap", "b.pcapng"):
        (tmp_path / name).symlink_to(DEMO)
    (tmp_path / "tcp").write_text("a file with the name of a filter's word")
    return tmp_path


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        (
            "a.pcap",
            "a.pcap is a file: captures are given with -r, as in `wirelens info -r a.pcap`",
        ),
        ("top a.pcap", "a.pcap is a file, .* -r a.pcap"),
        ("top -r a.pcap b.pcapng", "b.pcapng is a file, .* -r b.pcapng"),
        ("flows -r a.pcap tcp ./b.pcapng", "./b.pcapng is a file"),
        ("-r a.pcap", "A command comes first"),
        ("-nn -i lo", "A command comes first"),
        ("top -r a.pcap -w out.pcap", "packetlog record -o DIR"),
        ("top -vvv -r a.pcap", "packetlog query -w FILE"),
        ("flows -r a.pcap -A", "packetlog query -w FILE"),
        ("flow -r a.pcap", "'flows'"),
        ("tops -r a.pcap", "'top'"),
        ("version", "wirelens --version"),
        ("query --host 192.0.2.1", "wirelens packetlog query"),
        ("run -r a.pcap", "--init"),
        (
            "classify -r a.pcap",
            "Shipped models: services, categories, devices, video-rate",
        ),
    ],
)
def test_the_right_line_is_answered(folder: Path, typed: str, answer: str) -> None:
    ran = wirelens(*typed.split(), cwd=folder)
    assert ran.status == 2 and not ran.stdout
    assert re.search(answer, ran.stderr), ran.stderr


@pytest.mark.parametrize(
    "typed", ["top -nn -r a.pcap", "-nn top -r a.pcap", "top -r a.pcap -nnn"]
)
def test_addresses_are_never_resolved_so_that_is_understood(
    folder: Path, typed: str
) -> None:
    ran = wirelens(*typed.split(), "-q", cwd=folder)
    assert ran == wirelens("top", "-q", "-r", "a.pcap", cwd=folder) and ran.status == 0


def test_a_word_of_a_filter_stays_one_where_a_file_has_its_name(folder: Path) -> None:
    ran = wirelens("top", "-q", "-r", "a.pcap", "tcp", cwd=folder)
    assert ran.status == 0 and ran.stdout


def test_every_model_that_is_offered_ships() -> None:
    said = wirelens("classify", "-r", DEMO).stderr
    (names,) = re.findall(r"Shipped models: (.*?);", said)
    assert all(
        (ROOT / "models" / name / "cascade.json").exists() for name in names.split(", ")
    )


def on_terminal(columns: int, *arguments: str | Path) -> tuple[int, str]:
    """What a terminal of this width shows of a command, and its exit status."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    process = subprocess.Popen(
        [PROGRAM, *arguments], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
        env=ENVIRONMENT,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
    except OSError:
        # The other end has closed.
        pass
    os.close(ours)
    return process.wait(30), shown.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [80, 100, 200])
@pytest.mark.parametrize(
    "command",
    ["flows -n 5 tcp and not ip6", "top -n 5 --by pair ip", "latency -n 5 tcp and not ip6",
     "classify --model services"],
)  # fmt: skip
def test_a_table_fits_the_terminal_and_uses_what_is_there(
    columns: int, command: str
) -> None:
    name, *rest = command.split()
    status, shown = on_terminal(columns, name, "-q", "-r", DEMO, *rest)
    assert status == 0, shown
    lines = shown.splitlines()
    assert max(map(len, lines)) <= columns, shown
    if columns == 200:
        assert shown == wirelens(name, "-q", "-r", DEMO, *rest).stdout.decode()
    if columns == 80 and name == "flows":
        assert lines[0].split() == [
            "protocol",
            "source",
            "destination",
            "packets",
            "bytes",
        ]
        assert any(line.startswith("… left out: flags, first, end") for line in lines)
    if columns == 80 and name == "latency":
        assert "… 6 columns left out" in lines


@pytest.mark.parametrize("format_", ["parquet", "arrow"])
@pytest.mark.parametrize("command", ["flows", "top", "classify --model services"])
def test_bytes_are_not_dumped_onto_a_terminal(format_: str, command: str) -> None:
    name, *rest = command.split()
    status, shown = on_terminal(80, name, "-q", "-r", DEMO, *rest, "--format", format_)
    assert (
        status == 2 and f"--format {format_} is binary" in shown and "-o FILE" in shown
    )
    assert "PAR1" not in shown
