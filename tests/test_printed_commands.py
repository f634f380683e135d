"""Every command line that pages and `--help` print can be typed.

Each runs in a folder that looks like a clone with a reader's files, in the order of its page, and
what a page shows below it is compared. One that says how long it takes is not run, but held against
the program that it names: its flags, its files, its arguments. `printed.py` says what counts as
printed and how a mark looks, `printed_stand_ins.py` what stands in for a reader's files.
"""

import contextlib
import importlib
import io
import json
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import printed
import pytest
from command import DEMO, PROGRAM, ROOT
from printed import HELP_PAGE, PrintedCommand
from printed_stand_ins import StandIns, environment, rewritten, uses_stand_ins
from test_page import serving
from wirelens.errors import OptionError

TIME_MAX_S = 60

# Pages that begin with the line that wrote them; it is marked where it is meant to be typed.
WRITTEN_BY = ("models/services/card.md", "models/categories/card.md", "models/devices/card.md",
              "models/packetlog/card.md", "models/cca/card.md", "models/cca-onetap/card.md",
              "models/l4s/card.md",
              "models/video-rate/card.md", "docs/evaluation/services.md",
              "docs/evaluation/devices.md")  # fmt: skip

# Programs of others, whose flags are theirs, and those that make ns3 builds.
OTHERS = {".", "apt", "awk", "cargo", "cat", "curl", "cut", "editor", "ethtool", "grep",
          "install", "ip", "journalctl", "jq", "ls", "mkdir", "mv", "npm", "pip",
          "podman", "python3", "setcap", "sort", "scp", "ssh", "systemctl", "tc", "tshark",
          "uniq", "useradd", "wc", "fuzz/target/*/release/pcapng", "venv/bin/pip",
          "venv/bin/python", "target/ns3/l4s", "target/ns3/onetap"}  # fmt: skip

# Training, the testbed's runs, installing and benchmarks.
SLOW = re.compile(
    r"\b(testbed (run|make|check --install)|wirelens train|wirelens eval|pip install|cargo)\b"
    r"|^bash |\bOUT=|\$OUT|bench/evaluation/(cca|classify|l4s)/|bench/speed/classify/|images"
)
# What asks a recorder that is at work, changes a queue of the system, or serves until it is ended.
LIVE = re.compile(r"packetlog (mode|status)\b|^tc |^wirelens worker\b")

COMMANDS = printed.all_commands()


def how(command: PrintedCommand) -> str:
    """How a command is held.

    `run` in a folder; `plot` likewise, where matplotlib is; `live` beside traffic; `marked`: it
    says how long it takes; `asked`: a request to a run that is looked at; `page`: run in page/ by
    `make test-web`; `make`; `wrote`: one of WRITTEN_BY; `system`: it gives the program a right,
    which a test does not; `tutorial`: test_tutorials.py follows its whole page.
    """
    if command.page.startswith("docs/tutorials/"):
        return "tutorial"
    if command.words[0] == "make":
        return "make"
    if command.page in WRITTEN_BY and ("train" in command.words or "eval" in command.words
                                       or "models/make.sh" in command.words):  # fmt: skip
        return "wrote"
    if command.is_marked or SLOW.search(command.text):
        return "marked"
    if command.words[0] in ("curl", "npm"):
        return "asked" if command.words[0] == "curl" else "page"
    if command.is_live or LIVE.search(command.text):
        return "live"
    if command.words[-1].endswith("wirelens)"):
        return "system"
    return "plot" if command.words[:3] == ("wirelens", "testbed", "plot") else "run"


def page_commands(page: str) -> list[PrintedCommand]:
    return [command for command in COMMANDS if command.page == page]


def without_sudo(text: str) -> str:
    return text.removeprefix("sudo ")


# --- Commands that run -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> StandIns:
    return StandIns(tmp_path_factory.mktemp("printed") / "prepared")


def normalised(line: str) -> str:
    """A line of output without what another capture changes: numbers, bars and widths."""
    line = re.sub(r"\d[\d,.]*", "0", line)
    line = re.sub("▇+", "▇", line)
    return re.sub(r"\s+", " ", line).strip()


def difference(command: PrintedCommand, output: str) -> str | None:
    """What a page shows below a command and its output is not."""
    if not command.shown or command.shown[0].startswith(">>> "):
        return None
    lines = [line.rstrip() for line in output.splitlines()]
    if not uses_stand_ins(command):
        shown = [line.rstrip() for line in command.shown]
        missing = [line for line in shown if line not in lines]
    else:
        there = {normalised(line) for line in lines}
        missing = [line for line in command.shown if normalised(line) not in there]
    if missing:
        return f"the page shows {missing[0]!r}, which is not in\n{output}"
    return None


def typed(command: PrintedCommand, folder: Path) -> str | None:
    """Types a command in a folder; what went wrong."""
    text = rewritten(without_sudo(command.text))
    if "--page" in command.words:
        # It stays until someone has seen enough.
        text = f"timeout --signal=INT --preserve-status 3 {text}"
    source = folder / "capture.pcap" if "-r -" in text and "|" not in text else Path("/dev/null")
    with source.open("rb") as stdin:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=folder, env=environment(folder), stdin=stdin, timeout=TIME_MAX_S,
            capture_output=True, check=False,
        )  # fmt: skip
    output = done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
    # What a check says of a machine without the testbed's programs is right, too.
    is_told = "testbed check" in command.text and "these programs are missing" in output
    if done.returncode != 0 and not is_told:
        return f"{command}: exit status {done.returncode}: {output[-500:]}"
    seen = difference(command, output)
    return f"{command}: {seen}" if seen else None


def orders(commands: list[PrintedCommand]) -> Iterator[list[PrintedCommand]]:
    """Commands that are typed one after the other; an example of `--help` stands alone."""
    for command in commands:
        if command.page in (HELP_PAGE, "Makefile", "docs/reproduction.md"):
            yield [command]
    rest = [command for command in commands
            if command.page not in (HELP_PAGE, "Makefile", "docs/reproduction.md")]  # fmt: skip
    for _, group in groupby(rest, key=lambda command: command.page):
        yield list(group)


def wrong(runs: list[PrintedCommand], prepared: StandIns, tmp_path: Path) -> list[str]:
    """Types commands, each page's in its order; what went wrong."""
    found = []
    seen: set[str] = set()
    for number, order in enumerate(orders(runs)):
        # Examples that are printed twice are run once.
        if len(order) == 1 and not order[0].shown and order[0].text in seen:
            continue
        seen |= {command.text for command in order}
        was_killed = any("recover" in command.words for command in order)
        folder = prepared.folder_at(tmp_path / str(number), was_killed=was_killed)
        found += [said for command in order if (said := typed(command, folder))]
    return found


def test_printed_commands_run(prepared: StandIns, tmp_path: Path) -> None:
    runs = [command for command in COMMANDS if how(command) == "run"]
    assert len(runs) > 60, "the printed commands were not found"
    found = wrong(runs, prepared, tmp_path)
    assert found == [], "\n".join(found)


@pytest.mark.train
def test_printed_plots_run(prepared: StandIns, tmp_path: Path) -> None:
    plots = [command for command in COMMANDS if how(command) == "plot"]
    assert len(plots) >= 3, "the printed plots were not found"
    found = wrong(plots, prepared, tmp_path)
    assert found == [], "\n".join(found)


# --- Commands that are held against what they name -------------------------------------------


def simple_commands(command: PrintedCommand) -> list[list[str]]:
    """The words of each program in a line, without redirections, settings and `sudo`."""
    found: list[list[str]] = [[]]
    words = iter(command.words)
    for word in words:
        if word in ("|", "&&", ";"):
            found.append([])
        elif word in (">", "<", ">>"):
            next(words, None)
        elif word not in ("sudo", "…") and not re.match(r"[A-Z]+=", word):
            found[-1].append(word)
    return [words for words in found if words]


def complaint_of_wirelens(words: list[str]) -> str | None:
    """What the program says against arguments, which it reads before it shows its help."""
    if words[0] in ("train", "eval"):
        return complaint_of_training(words)
    done = subprocess.run([PROGRAM, *words, "--help"], capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else None


@cache
def parser_of(what: str) -> Any:
    """What reads the options of `wirelens train WHAT`; none where its libraries are not here."""
    try:
        return importlib.import_module(f"wirelens.{what}.arguments").parser()
    except ImportError:
        return None


def complaint_of_training(words: list[str]) -> str | None:
    command, what, *options = [*words, ""][: max(2, len(words))]
    parser = parser_of(what) if what else None
    if parser is None:
        return None
    told = io.StringIO()
    try:
        with contextlib.redirect_stderr(told), contextlib.redirect_stdout(io.StringIO()):
            parser.parse_args([command, *options])
    except SystemExit as ended:
        return told.getvalue() if ended.code else None
    except OptionError as error:
        return str(error)
    return None


def texts_of(script: Path) -> str:
    """A script and those beside it and below `bench` that it names."""
    text = script.read_text()
    named = set(re.findall(r"[\w/]+\.(?:py|sh)", text)) | {
        f"{name}.py" for name in re.findall(r"^(?:import|from) (\w+)", text, flags=re.MULTILINE)
    }
    places = (script.parent, ROOT, ROOT / "bench", ROOT / "bench/speed")
    files = {place / name for name in named for place in places if (place / name).is_file()}
    return text + "".join(file.read_text() for file in sorted(files))


def complaint_of_script(words: list[str]) -> str | None:
    """What is wrong with `python SCRIPT …` or `bash SCRIPT …`."""
    if words[1] == "-m":
        return None
    script = ROOT / words[1]
    if not script.is_file():
        return f"{words[1]}: not there"
    text, own = texts_of(script), script.read_text()
    options = [word.partition("=")[0] for word in words[2:] if re.match("--?[a-z]", word)]
    for option in options:
        if script.name not in ("make.sh", "paper.sh") and f"{option}" not in text:
            return f"{words[1]} knows no {option}"
    wanted = re.findall(r'(?:add|add_argument)\("([a-z]\w*)"(?![^)]*nargs="[?*]")', own)
    first = next((line for line in own.splitlines() if "sys.argv[" in line), "")
    indices = re.findall(r"sys\.argv\[(\d+)\]", first)
    count = len(wanted) or max(map(int, indices), default=0)
    given = len([word for word in words[2:] if not word.startswith("-")])
    if script.suffix == ".py" and given < count:
        return f"{words[1]} wants {count} arguments, {given} are given"
    return None


def complaint(words: list[str]) -> str | None:
    """What is wrong with one program and its arguments, as far as can be seen without running."""
    # What is set for this command alone.
    while re.fullmatch(r"[A-Z_]+=.*", words[0]) and len(words) > 1:
        words = words[1:]
    program = words[0]
    name = program.rsplit("/", 1)[-1]
    if name == "wirelens":
        return complaint_of_wirelens(words[1:])
    if program in (".venv/bin/python", "bash") and len(words) > 1:
        return complaint_of_script(words)
    if program == "make":
        targets = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
        return None if words[1] in targets else f"make knows no {words[1]}"
    return None if program in OTHERS else f"{program}: what is it, and where from?"


MADE = {
    command.words[at + 1].rstrip("/")
    for command in COMMANDS
    for at, word in enumerate(command.words[:-1])
    if word in ("-o", "--output", ">", "-w", "--plots", "--report")
}
# Where files of ours lie; other names are the reader's.
OURS = ("bench/", "crates/", "docs/", "models/", "testbed/", "testdata/", "tools/")


def absent(command: PrintedCommand) -> list[str]:
    """Files of ours that a command reads and that are not there."""
    named = [word.split("=")[-1] for word in command.words if word.startswith(OURS)]
    return [
        f"{name}: not there"
        for name in named
        if name.rstrip("/") not in MADE and not list(ROOT.glob(name.rstrip("/")))
        and not name.startswith("bench/data")
    ]  # fmt: skip


def test_printed_requests_are_answered() -> None:
    requests = [command for command in COMMANDS if how(command) == "asked"]
    assert len(requests) >= 5, "the printed requests were not found"
    with serving("-r", str(DEMO), "--page", "0") as address:
        for request in requests:
            path = request.words[-1].removeprefix("http://127.0.0.1:9417")
            with urlopen(address.rstrip("/") + path, timeout=TIME_MAX_S) as answer:
                assert answer.status == 200 and answer.readline(), request


def test_the_page_has_the_scripts_that_are_printed() -> None:
    scripts = json.loads((ROOT / "page/package.json").read_text())["scripts"].keys()
    commands = [command for command in COMMANDS if how(command) == "page"]
    typed = {name for command in commands for name in re.findall(r"npm run (\w+)", command.text)}
    assert typed and typed <= scripts


def test_marked_commands_could_be_typed() -> None:
    found = []
    for command in COMMANDS:
        if how(command) not in ("run", "plot"):
            found += [f"{command}: {seen}" for seen in absent(command)]
            seen = [complaint(words) for words in simple_commands(command)]
            # With an ellipsis the page leaves out what the reader knows.
            bad = [said for said in seen if said and "…" not in command.text]
            found += [f"{command}: {said}" for said in bad]
    assert found == [], "\n".join(found)


def test_bad_commands_are_found() -> None:
    def complaints(text: str) -> list[str]:
        command = PrintedCommand("a.md", 1, text)
        return absent(command) + [c for c in map(complaint, simple_commands(command)) if c]

    assert complaints("wirelens top -r a.pcap -n 5 | sort") == []
    for bad in (
        "wirelens top -r a.pcap --windows 1s",
        "wirelens tops -r a.pcap",
        "wirelens flows -r a.pcap --window soon",
        "wirelens train packetlog --no-such-option",
        "wirelens testbed run testbed/scenarios/none.toml",
        ".venv/bin/python bench/speed/none.py OUT",
        ".venv/bin/python bench/speed/packetlog_log.py OUT",
        "bash bench/speed/run.sh --no-such-flag",
        "make none",
        "no-such-program x",
    ):
        assert complaints(bad) != [], bad


# --- Marks and names -------------------------------------------------------------------------


def test_commands_that_are_not_run_say_why() -> None:
    """What is slow is not for this test, and readers want to know how slow."""
    found = [
        f"{command}: say how long it takes"
        for command in COMMANDS
        if how(command) == "marked" and not command.is_marked
    ]
    assert found == [], "\n".join(found)


def test_models_by_name_ship_or_are_made_on_the_page() -> None:
    ships = {path.parent.name for path in (ROOT / "models").glob("*/card.md")}
    found = []
    for command in COMMANDS:
        for option, name in zip(command.words, command.words[1:], strict=False):
            is_bare = "/" not in name and name not in ships and "." not in name
            if option in ("--model", "-m") and is_bare and name != "venv":
                makes = [c for c in page_commands(command.page) if ("-o", name) in
                         zip(c.words, c.words[1:], strict=False)]  # fmt: skip
                if not makes and command.page not in WRITTEN_BY:
                    found.append(f"{command}: no model {name} ships, nor is made on this page")
    assert found == [], "\n".join(found)


def test_blocks_say_what_they_are() -> None:
    """A command in a block without a language is found by nobody."""
    found = []
    for page in printed.pages():
        for block in printed.blocks(page):
            first = next((line for line in block.lines if line.strip()), "")
            if block.language == "console" and not first.startswith("$ "):
                found.append(f"{page}:{block.line}: console without a command; wanted: text")
            elif block.language in ("", "sh", "bash", "shell"):
                found.append(f"{page}:{block.line}: a block of {block.language!r}; wanted: console")
            elif block.language == "text" and first.startswith(("$ ", "make ", "bash ")):
                found.append(f"{page}:{block.line}: a command in text; wanted: console")
    assert found == [], "\n".join(found)


def test_stale_output_and_what_is_printed_are_found() -> None:
    block = printed.Block(
        "a.md", 1, "console",
        ("$ wirelens top -r testdata/demo.pcapng \\", "    -n 5   # root; an hour", "5 packets", "",
         "$ wirelens info -r capture.pcap", "packets  4,944", ""), "*Needs time; a minute.*",
    )  # fmt: skip
    first, second = printed.console(block)
    assert first.text == "wirelens top -r testdata/demo.pcapng -n 5"
    assert first.said == "root; an hour; time; a minute" and first.shown == ("5 packets",)
    assert how(first) == "marked" and how(second) == "marked"
    assert difference(first, "5 packets\n") is None
    assert "5 packets" in (difference(first, "6 packets\n") or "")
    assert difference(second, "packets 17\n") is None
    assert "4,944" in (difference(second, "bytes 17\n") or "")
    unmarked = PrintedCommand("a.md", 1, "sudo wirelens testbed run testbed/scenarios/call.toml")
    assert how(unmarked) == "marked" and not unmarked.is_marked
