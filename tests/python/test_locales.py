"""What the package prints does not depend on the locale: results on any terminal, and the end of a
command whose report has letters that the locale lacks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parents[2] / "testdata/demo.pcapng"
# Python would choose UTF-8 for the locale C by itself, and does not for others like it.
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def python(code: str, environment: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    keep = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-c", code], env=keep | environment, capture_output=True, check=False,
        timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize(
    "question", ["top(demo, by='flow', n=50)", "flows(demo)", "flows([demo] * 4)"]
)
def test_results_are_printed_in_ascii(question: str) -> None:
    code = (
        "import sys, wirelens\n"
        f"demo = {os.fspath(DEMO)!r}\n"
        "assert sys.stdout.encoding == 'ascii', sys.stdout.encoding\n"
        f"print(wirelens.{question})\n"
    )
    done = python(code, ASCII)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.isascii() and done.stdout.strip()


def test_a_report_with_other_letters_is_printed_and_the_work_is_not_lost() -> None:
    code = (
        "from wirelens import guarded\n"
        "class Shown:\n"
        "    def finish(self): pass\n"
        "done = guarded.run('x', lambda: (Shown(), lambda: print('7 \\u00b5s \\u2013')), '')\n"
        "raise SystemExit(done)\n"
    )
    done = python(code, ASCII)
    assert (done.returncode, done.stdout) == (0, b"7 ?s ?\n"), done.stderr.decode()
    assert python(code, {"PYTHONUTF8": "1"}).stdout.decode() == "7 \u00b5s \u2013\n"


def test_a_recipe_of_a_windows_editor_is_read(tmp_path: Path) -> None:
    from wirelens.classify import recipe_file

    path = tmp_path / "recipe.toml"
    path.write_bytes(b'\xef\xbb\xbfseed = 7\r\ndrop = ["a", "b"]\r\n')
    assert recipe_file.options(path) == ["--seed=7", "--drop=a", "--drop=b"]
