"""The package as it is installed: command, documentation, stubs."""

import doctest
import importlib
import os
import pkgutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pyarrow
import pytest
import wirelens
from command import DEMO, ENVIRONMENT, PROGRAM, ROOT

SCRIPT = Path(sysconfig.get_path("scripts")) / "wirelens"
MODULES = [module.name for module in pkgutil.iter_modules(wirelens.__path__, "wirelens.")]


def ran(command: list[str | Path], *arguments: str | Path) -> tuple[int, bytes, bytes]:
    done = subprocess.run(
        [*command, *arguments], check=False, capture_output=True, env=ENVIRONMENT, cwd=ROOT,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["top", "-r", DEMO],
        ["top", "-r", DEMO, "--format", "arrow", "--by", "flow", "-n", "0"],
        ["info", "-r", DEMO],
        ["--version"],
        ["--help"],
        ["top", "-r", "nothing.pcap"],
        ["top", "--colour"],
    ],
)
def test_the_script_is_the_command(arguments: list[str | Path]) -> None:
    wanted = ran([PROGRAM], *arguments)
    assert ran([SCRIPT], *arguments) == wanted
    assert ran([sys.executable, "-m", "wirelens"], *arguments) == wanted


def test_versions_agree() -> None:
    assert ran([SCRIPT], "--version")[1].decode() == f"wirelens {wirelens.__version__}\n"


@pytest.mark.parametrize("name", ["wirelens", *MODULES])
def test_examples_are_true(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    failed, attempted = doctest.testmod(importlib.import_module(name))
    assert failed == 0
    assert attempted > 0 or name not in ("wirelens", "wirelens.questions")


def test_everything_public_is_documented() -> None:
    for name in wirelens.__all__:
        thing = getattr(wirelens, name)
        assert thing.__doc__, name
        if isinstance(thing, type) and thing.__module__.startswith("wirelens."):
            methods = [m for n, m in vars(thing).items() if callable(m) and not n.startswith("_")]
            assert all(method.__doc__ for method in methods if hasattr(method, "__doc__")), name


def test_the_guide_lists_every_column() -> None:
    guide = (ROOT / "docs/guide/python.md").read_text()
    stream = wirelens.packets(DEMO, frame=1, payload=1)
    kinds = [str(field.type) for field in pyarrow.schema(stream)]
    for field, kind in zip(stream.fields, kinds, strict=True):
        kind = kind.replace("tz=", "")
        assert f"| `{field.name}` | `{kind}` | {field.about} |\n" in guide


def test_stubs_say_what_is_there() -> None:
    check = [sys.executable, "-m", "mypy.stubtest", "wirelens._wirelens"]
    # The dictionaries of options exist for the checker alone.
    allowed = ROOT / "tests/python/stub_only.txt"
    environment = ENVIRONMENT | {"MYPYPATH": os.fspath(ROOT / "python")}
    done = subprocess.run(
        [*check, "--allowlist", allowed],
        check=False, capture_output=True, text=True, env=environment, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
