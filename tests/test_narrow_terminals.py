"""A terminal of 40 columns: help of every command, and every table, have no line that is longer,
but for what cannot be broken: words, and lines that are typed or copied."""

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from command import DEMO, ROOT, wirelens
from test_habits import on_terminal

WIDTH = 40
TESTBED = ROOT / "testdata/testbed"
QUEUE = TESTBED / "congestion"
# Tables on standard output; {log} is a packet log, {settings} a file of settings.
TABLES = (
    f"info -r {DEMO}",
    f"top -q -r {DEMO} -n 5",
    f"top -q -r {DEMO} -n 5 --by flow",
    f"top -q -r {DEMO} -n 5 --by pair",
    f"top -q -r {DEMO} -n 2 --window 5s",
    f"flows -q -r {DEMO} -n 5",
    f"classify -q -r {DEMO} --model services",
    f"latency -q -r {DEMO} -n 5",
    f"latency -q -r {DEMO} --by destination",
    f"cca -q -r {DEMO} -n 3",
    f"cca -q -r {QUEUE}/before.pcapng.gz --egress {QUEUE}/after.pcapng.gz --model cca -n 2",
    f"l4s -q -r {ROOT}/testdata/l4s/sender.pcap.gz --to 10.2.1.2 --model l4s",
    "packetlog stats -l {log}",
    "packetlog stats -l {log} --why",
    "packetlog query -q -l {log} --list hosts",
    "packetlog query -q -l {log} --list sessions",
    "devices",
    "doctor",
)
# In Python, whose package need not be there.
ELSEWHERE = ("train", "eval")


@cache
def commands() -> list[str]:
    """Every command with help of its own."""

    def below(words: str) -> list[str]:
        shown = wirelens(*words.split(), "--help").stdout.decode()
        listed = re.search(r"^Commands:\n((?:.+\n)+)", shown, re.MULTILINE)
        names = re.findall(r"^  ([a-z0-9-]+)", listed[1], re.MULTILINE) if listed else []
        within = [
            f"{words} {name}".strip()
            for name in names
            if name not in ("help", "feedback") and words not in ELSEWHERE
        ]
        return [words, *(one for name in within for one in below(name))]

    return below("")


def long_lines(shown: str) -> list[str]:
    """Lines that are longer and could be broken."""
    long = (line.rstrip() for line in shown.split("\n") if len(line.rstrip()) > WIDTH)
    typed = ("Usage: ", "sudo ", "wirelens ", "for ", "set -- ", "keep-bytes", "log = ", "echo ")
    return [
        line
        for line in long
        if " " in line.strip()
        and not line.strip().startswith(typed)
        # An option with the name of its value, alone on its line.
        and not re.fullmatch(r"\s+(-\w, )?--[a-z0-9-]+ <\S+>", line)
    ]


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_of_every_command_fits(option: str) -> None:
    assert len(commands()) > 30
    for command in commands():
        status, shown = on_terminal(WIDTH, *command.split(), option)
        # Examples are lines to be copied, and keep their columns.
        described = re.sub(r"^Examples:\n(?:  .*\n)+", "", shown, flags=re.MULTILINE)
        assert status == 0 and not long_lines(described), (command, long_lines(described))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log") / "log"
    ran = wirelens("packetlog", "record", "-q", "-r", DEMO, "-o", folder, "--seed", "1")
    assert ran.status == 0, ran.stderr
    return folder


@pytest.mark.parametrize("command", TABLES, ids=lambda one: one.replace(str(ROOT), ""))
def test_tables_fit(command: str, log: Path) -> None:
    words = shlex.split(command.format(log=log))
    status, shown = on_terminal(WIDTH, *words)
    assert status in (0, 1) and shown.strip()
    assert not long_lines(shown), long_lines(shown)[:5]


def test_rows_are_blocks_where_columns_do_not_fit() -> None:
    status, shown = on_terminal(WIDTH, "top", "-q", "-r", DEMO, "-n", "2", "--by", "pair")
    blocks = shown.strip().split("\n\n")
    assert status == 0 and len(blocks) == 2, shown
    first = dict(line.split(maxsplit=1) for line in blocks[0].splitlines())
    assert first == {"source": "10.20.0.11", "destination": "203.0.113.10", "bytes": "1,053,653"}
