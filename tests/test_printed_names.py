"""What pages name in passing exists: tasks of make, settings in the environment, flags, files."""

import re
import subprocess
from collections.abc import Iterator
from functools import cache

import printed
from command import ROOT
from printed import PrintedCommand
from test_printed_commands import complaint, simple_commands

# Flags of programs that are not ours, by the program that a page speaks of.
OF_OTHERS = {
    "--release", "--locked", "--example", "--cfg", "--target-dir", "--lib", "--export",
    "--no-install-recommends", "--requirement", "--group", "--help", "--version",
    "--max-total-time", "--pidfile", "--strict",
}  # fmt: skip


def spans() -> Iterator[tuple[str, int, str]]:
    """Every piece of code in the prose of a page: where it stands, and its text."""
    for page in printed.pages():
        in_block = False
        for number, line in enumerate((ROOT / page).read_text().splitlines(), 1):
            if line.lstrip().startswith("```"):
                in_block = not in_block
            elif not in_block:
                for span in re.findall(r"`([^`]+)`", line):
                    yield page, number, span


@cache
def code() -> str:
    """All text that is neither page nor test."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "*.rs", "*.py", "*.sh", "*.toml", "*.c", "*.cc", "*.h",
         "Makefile"],
        cwd=ROOT, capture_output=True, check=True, text=True,
    ).stdout.split("\0")  # fmt: skip
    files = [ROOT / name for name in listed if name and not name.startswith("tests/")]
    return "\n".join(file.read_text() for file in files if file.is_file())


@cache
def flags() -> frozenset[str]:
    """Every flag of a command or script of ours."""
    help_text = (ROOT / printed.HELP_PAGE).read_text()
    found = set(re.findall(r"--[a-z][a-z0-9-]*", help_text))
    found |= set(re.findall(r"[\"'](--[a-z][a-z0-9-]*)[\"']", code()))
    # Shell scripts name theirs in `case` and in their first lines.
    return frozenset(found | set(re.findall(r"(?<!\w)(--[a-z][a-z0-9-]*)\)?", _shell())))


@cache
def _shell() -> str:
    return "".join(path.read_text() for path in sorted(ROOT.glob("bench/**/*.sh")))


def targets() -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))


def test_tasks_of_make_exist() -> None:
    found = [f"{page}:{line}: {span}" for page, line, span in spans()
             if (match := re.match(r"(?:sudo )?make ([a-z0-9-]+)", span))
             and match.group(1) not in targets()]  # fmt: skip
    assert found == []


def test_settings_exist() -> None:
    named = {name for page in printed.pages()
             for name in re.findall(r"\bWIRELENS_[A-Z_]+", (ROOT / page).read_text())}  # fmt: skip
    missing = [name for name in sorted(named) if name not in code()]
    assert missing == []


def test_flags_exist() -> None:
    known = flags() | OF_OTHERS
    found = [f"{page}:{line}: {flag} in `{span}`" for page, line, span in spans()
             for flag in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", span)
             if flag not in known]  # fmt: skip
    assert found == [], "\n".join(found)
    assert "--window" in known and "--no-such-flag" not in known


def test_commands_in_passing_could_be_typed() -> None:
    found = []
    for page, line, span in spans():
        if re.match(r"(sudo )?(\.venv/bin/|target/release/)?wirelens [a-z]", span):
            # A page may leave out what a flag takes, or more than that.
            typed = span.partition(",")[0].replace("DURATION", "1s").replace(" N", " 1")
            command = PrintedCommand(page, line, typed)
            if "…" in span:
                continue
            said = [complaint(words) for words in simple_commands(command)]
            left_out = re.compile("required|expected (one|at least one) argument")
            found += [f"{command}: {one}" for one in said if one and not left_out.search(one)]
    assert found == [], "\n".join(found)


def test_files_named_exist() -> None:
    """Files of ours by their path from the root, in prose; links are tidy's."""
    tops = ("bench/", "crates/", "docs/", "models/", "testbed/", "testdata/", "tests/", "tools/",
            "python/")  # fmt: skip
    found = []
    for page, line, span in spans():
        name = re.sub("NAME|KIND|DATE|CPU|TARGET", "*", span.strip().rstrip("/"))
        if span.startswith(tops) and re.fullmatch(r"[\w./*{},-]+", name):
            made = name.startswith(("bench/data", "bench/results", "models/apps", "models/mine"))
            if not made and "{" not in name and not list(ROOT.glob(name)):
                found.append(f"{page}:{line}: {span}")
    assert found == [], "\n".join(found)
