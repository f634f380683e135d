"""Without any package of others: every `--help`, every import that pages show, and what is said
where a package is missing.

A hook refuses what is no part of Python or of us, so that no environment without packages has to be
built; `test_the_hook_refuses` shows that it does.
"""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import printed
import pytest
from command import ENVIRONMENT, PROGRAM

# Read by Python as it starts.
REFUSING = """
import sys

OURS = {"wirelens", "wirelens_testbed"}

class Refuse:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in OURS or top in sys.stdlib_module_names or top.startswith("_"):
            return None
        if top in ("sitecustomize", "usercustomize", "maturin_import_hook"):
            return None
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuse())
"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which Python finds nothing of others."""
    folder = tmp_path_factory.mktemp("bare")
    (folder / "sitecustomize.py").write_text(REFUSING)
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return ENVIRONMENT | {"PYTHONPATH": path, "WIRELENS_PYTHON": sys.executable}


def run(
    words: Sequence[str | Path], environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


def commands() -> list[str]:
    """Every command that there is, by the headings of the page that a test holds to be whole."""
    text = (printed.ROOT / printed.HELP_PAGE).read_text()
    return re.findall(r"^## wirelens ?(.*)$", text, flags=re.MULTILINE)


def test_the_hook_refuses(bare: dict[str, str]) -> None:
    done = run([sys.executable, "-c", "import numpy"], bare)
    assert "No module named 'numpy'" in done.stderr and done.returncode == 1
    done = run([sys.executable, "-c", "import wirelens, json; print(wirelens.top)"], bare)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", commands())
def test_help_needs_nothing(command: str, bare: dict[str, str]) -> None:
    done = run([PROGRAM, *command.split(), "--help"], bare)
    assert "Traceback" not in done.stderr, done.stderr[-600:]
    if command.startswith(("train ", "eval ")) and done.returncode:
        # What trains reads its own options; without its libraries it says how to install them.
        assert done.stderr.count("\n") == 1, done.stderr
        assert "install it" in done.stderr and "which is not installed" in done.stderr, done.stderr
    else:
        assert done.returncode == 0 and "usage: wirelens" in done.stdout.lower(), done.stderr


def imports() -> list[str]:
    """The lines by which snippets of pages import us."""
    lines = {
        line.strip()
        for page in printed.pages()
        for block in printed.blocks(page)
        if block.language == "python"
        for line in block.lines
        if re.match(r"(import|from) wirelens\b", line)
    }
    return sorted(lines)


@pytest.mark.parametrize("line", imports())
def test_imports_say_what_is_missing(line: str, bare: dict[str, str]) -> None:
    program = f"try:\n    {line}\nexcept ImportError as error:\n    print(error)"
    done = run([sys.executable, "-c", program], bare)
    assert done.returncode == 0, done.stderr[-600:]
    if done.stdout:
        assert "not installed" in done.stdout or "No module named" in done.stdout, done.stdout


def test_command_and_package_say_the_same_line(bare: dict[str, str]) -> None:
    """One thing is said of how to install, whichever of the two notices."""
    said = run([PROGRAM, "train", "classify", "--no-such"], bare).stderr
    line = re.search(r"install it from .*'\.\[train\]'", said)
    assert line, said
    without = bare | {"PYTHONPATH": str(Path(bare["PYTHONPATH"].split(os.pathsep)[0]) / "none")}
    done = run([PROGRAM, "train", "classify"], without | {"WIRELENS_PYTHON": "/usr/bin/python3"})
    assert line.group().replace(sys.executable, "/usr/bin/python3") in done.stderr, done.stderr


HELP_OF_ALL = """
import contextlib, importlib, io, sys

sys.modules[sys.argv[1]] = None
for what in ("classify", "packetlog", "cca"):
    for command in ("train", "eval"):
        told, shown = io.StringIO(), io.StringIO()
        try:
            with contextlib.redirect_stderr(told), contextlib.redirect_stdout(shown):
                module = importlib.import_module(f"wirelens.{what}.__main__")
                status = module.main([command, "--help"])
        except SystemExit as ended:
            status = ended.code
        said = told.getvalue()
        assert (status in (0, None) and "Usage: wirelens" in shown.getvalue()) or (
            status == 1 and said.startswith("error: ") and said.count("\\n") == 1
        ), (what, command, status, said)
"""


@pytest.mark.parametrize("package", ["torch", "sklearn", "safetensors", "matplotlib"])
def test_help_or_one_line_where_one_package_is_missing(package: str) -> None:
    done = run([sys.executable, "-c", HELP_OF_ALL, package], dict(os.environ))
    assert done.returncode == 0, done.stderr[-800:]
