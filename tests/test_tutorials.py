"""Each tutorial is followed from its first line to its last, in one folder.

What a reader does is done: commands of `console` are typed in their order, files that a page says
to save are saved, and Python runs as in one session. What the page shows below is compared, line
by line; `…` stands for what the page leaves out, alone in a line for any number of lines. A run
with `--page` stays open for the requests that follow it, and is ended as Ctrl-C does.
"""

import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import printed
import pytest
from command import PROGRAM, ROOT
from printed import Block, PrintedCommand
from printed_stand_ins import environment

FOLDER = "docs/tutorials"
# What a reader types and waits for; the rest of the quarter of an hour is reading.
TIME_MAX_S = 120
PORT = 9417

# Runs what it is sent, a block of Python at a time, and answers what that printed.
SESSION = """
import contextlib, io, json, sys, traceback
names, answers = {"__name__": "__main__"}, sys.stdout
for line in sys.stdin:
    place, text = json.loads(line)
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            exec(compile(text, place, "exec"), names)
            failed = ""
        except BaseException:
            failed = traceback.format_exc()
    print(json.dumps([said.getvalue(), failed]), file=answers, flush=True)
"""


def tutorials() -> list[str]:
    return sorted(page for page in printed.pages() if page.startswith(f"{FOLDER}/")
                  and not page.endswith("README.md"))  # fmt: skip


def is_match(shown: str, line: str) -> bool:
    parts = [re.escape(part) for part in shown.rstrip().split("…")]
    return re.fullmatch(".*".join(parts), line.rstrip()) is not None


def first_missing(shown: tuple[str, ...], output: str) -> str | None:
    """The first line of what a page shows that is not where the page has it in an output."""
    lines = output.splitlines()
    # Where in the output the lines shown so far may end.
    places = {0}
    for line in shown:
        if line.strip() == "…":
            places = set(range(min(places), len(lines) + 1))
            continue
        places = {place + 1 for place in places
                  if place < len(lines) and is_match(line, lines[place])}  # fmt: skip
        if not places:
            return line
    return None if len(lines) in places or not shown else "the end of the output"


@dataclass
class Reader:
    """Somebody who follows a page in a folder."""

    folder: Path
    page_run: subprocess.Popen[bytes] | None = None
    session: subprocess.Popen[str] | None = None
    seconds: float = 0.0

    def typed(self, command: PrintedCommand) -> None:
        begun = time.monotonic()
        if command.words[0] != "curl":
            self.end_page_run()
        if "--page" in command.words or command.said == "until Ctrl-C":
            self.serve(command)
        else:
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", command.text], cwd=self.folder, check=False,
                env=environment(self.folder), stdin=subprocess.DEVNULL, timeout=TIME_MAX_S,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
            assert done.returncode == 0, f"{command}: {done.returncode}: {done.stdout[-2000:]}"
            missing = first_missing(command.shown, done.stdout)
            assert missing is None, f"{command}: {missing!r} is not in\n{done.stdout}"
        self.seconds += time.monotonic() - begun

    def serve(self, command: PrintedCommand) -> None:
        """Starts a run with a page and waits until it has read all."""
        with socket.socket() as probe:
            taken = probe.connect_ex(("127.0.0.1", PORT)) == 0
        assert not taken, f"something listens on port {PORT}, so the page cannot"
        self.page_run = subprocess.Popen(
            ["bash", "-c", f"exec {command.text}"], cwd=self.folder,
            env=environment(self.folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and self.page_run.poll() is None:
            with contextlib.suppress(URLError, ConnectionError):
                with urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=5) as answer:
                    if b"wirelens_run_over 1" in answer.read():
                        return
            time.sleep(0.1)
        pytest.fail(f"{command}: the page was not there, or its capture not read, within 20 s")

    def end_page_run(self) -> None:
        if self.page_run is None:
            return
        self.page_run.send_signal(signal.SIGINT)
        output, _ = self.page_run.communicate(timeout=20)
        assert self.page_run.returncode == 0, output.decode()
        self.page_run = None

    def saved(self, block: Block, name: str) -> None:
        (self.folder / name).write_text("\n".join(block.lines) + "\n")

    def ran(self, block: Block, shown: tuple[str, ...]) -> None:
        begun = time.monotonic()
        if self.session is None:
            self.session = subprocess.Popen(
                [sys.executable, "-c", SESSION], cwd=self.folder, text=True,
                env=environment(self.folder) | {"POLARS_FMT_MAX_COLS": "20", "COLUMNS": "100"},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
        assert self.session.stdin is not None and self.session.stdout is not None
        place = f"{block.page}:{block.line}"
        self.session.stdin.write(json.dumps([place, "\n".join(block.lines)]) + "\n")
        self.session.stdin.flush()
        said, failed = json.loads(self.session.stdout.readline())
        assert not failed, f"{place}: {failed}"
        missing = first_missing(shown, said)
        assert missing is None, f"{place}: {missing!r} is not in\n{said}"
        self.seconds += time.monotonic() - begun

    def leave(self) -> None:
        self.end_page_run()
        if self.session is not None:
            self.session.communicate("", timeout=20)
            self.session = None


@contextlib.contextmanager
def reading(folder: Path) -> Iterator[Reader]:
    reader = Reader(folder)
    try:
        yield reader
        reader.leave()
    finally:
        for process in (reader.page_run, reader.session):
            if process is not None and process.poll() is None:
                process.kill()
                process.communicate()


def follow(page: str, folder: Path) -> Reader:
    """Follows a page; fails where the page is wrong."""
    with reading(folder) as reader:
        blocks = printed.blocks(page)
        for block, after in zip(blocks, [*blocks[1:], None], strict=True):
            named = re.search(r"[Ss]ave (?:this|it) as `([\w./-]+)`", block.above)
            if named:
                reader.saved(block, named.group(1))
            elif block.language == "console":
                for command in printed.console(block):
                    # What takes minutes is what a reader does before, once.
                    if "minute" not in command.said:
                        reader.typed(command)
            elif block.language == "python":
                is_shown = after is not None and after.language == "text" and (
                    after.above == block.above
                )  # fmt: skip
                reader.ran(block, after.lines if after is not None and is_shown else ())
            elif block.language not in ("text", "toml"):
                pytest.fail(f"{page}:{block.line}: nobody follows a block of {block.language!r}")
    return reader


def clone_at(folder: Path) -> Path:
    """A folder that looks like a clone of the repository, with the program on the path."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/wirelens").symlink_to(PROGRAM)
    for name in ("docs", "models", "python", "testdata"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def marked(page: str) -> object:
    """Those that train models need the libraries for it."""
    texts = [command.text for block in printed.blocks(page) for command in printed.console(block)]
    is_trained = any("wirelens train" in text for text in texts)
    return pytest.param(page, marks=[pytest.mark.train] if is_trained else [])


@pytest.mark.parametrize("page", [marked(page) for page in tutorials()])
def test_a_tutorial_is_true(page: str, tmp_path: Path) -> None:
    reader = follow(page, clone_at(tmp_path / "clone"))
    print(f"{page}: {reader.seconds:.1f} s of commands")
    assert reader.seconds < TIME_MAX_S, f"{page}: its commands took {reader.seconds:.0f} s"


@pytest.mark.parametrize("page", tutorials())
def test_a_tutorial_has_a_goal_and_a_next_step(page: str) -> None:
    text = (ROOT / page).read_text()
    assert "\n**Goal:**" in text and "\n## What next\n" in text
    # At 200 words a minute, a third of the time is for reading and the rest for typing and looking.
    prose = re.sub(r"(?s)```.*?```", "", text)
    assert len(prose.split()) < 200 * 5, "too long for a quarter of an hour"


def test_a_wrong_page_is_found(tmp_path: Path) -> None:
    assert first_missing(("a", "…", "d"), "a\nb\nc\nd\n") is None
    assert first_missing(("a", "…"), "a\nb\n") is None
    assert first_missing(("found in … ms",), "found in 7.9 ms\n") is None
    assert first_missing(("a", "c"), "a\nb\nc\n") == "c"
    assert first_missing(("a",), "a\nb\n") == "the end of the output"
    assert first_missing(("b", "…"), "a\nb\n") == "b"
    with reading(tmp_path) as reader:
        with pytest.raises(AssertionError, match="exit|: 3"):
            reader.typed(PrintedCommand("a.md", 1, "exit 3"))
        with pytest.raises(AssertionError, match="'6 packets' is not in"):
            reader.typed(PrintedCommand("a.md", 1, "echo 5 packets", shown=("6 packets",)))
        block = Block("a.md", 1, "python", ("x = 1", "print(x)"), "")
        reader.ran(block, ("1",))
        with pytest.raises(AssertionError, match="NameError"):
            reader.ran(Block("a.md", 2, "python", ("print(y)",), ""), ())
        reader.ran(Block("a.md", 3, "python", ("print(x + 1)",), ""), ("2",))
