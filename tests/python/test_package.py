"""The package as it is installed: command, documentation, stubs."""

import doctest
import importlib
import os
import pkgutil
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow
import pytest
import wirelens
from command import DEMO, ENVIRONMENT, PROGRAM, ROOT

SCRIPT = Path(sysconfig.get_path("scripts")) / "wirelens"
PACKAGE = Path(wirelens.__path__[0])
PACKAGED = PACKAGE / "bin/wirelens"
PATIENCE_S = 20
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


@contextmanager
def waiting(program: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A run of the command on a pipe on which nothing comes any more."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [program, "top", "--format", "csv", "-r", "-"]
    run = subprocess.Popen(command, env=environment, **pipes)
    try:
        assert run.stdin
        run.stdin.write(DEMO.read_bytes()[:200_000])
        run.stdin.flush()
        end = time.monotonic() + PATIENCE_S
        # Until the program has taken over SIGINT; Python catches it, too.
        while time.monotonic() < end and (is_python(run) or not catches(run)):
            time.sleep(0.02)
        yield run
    finally:
        run.kill()
        run.wait()


def is_python(run: subprocess.Popen[bytes]) -> bool:
    return os.path.samefile(f"/proc/{run.pid}/exe", sys.executable)


def mask(run: subprocess.Popen[bytes], name: str) -> int:
    status = Path(f"/proc/{run.pid}/status").read_text()
    return int(re.findall(rf"^{name}:\s+(\w+)$", status, re.MULTILINE)[0], 16)


def catches(run: subprocess.Popen[bytes]) -> bool:
    return bool(mask(run, "SigCgt") >> (signal.SIGINT - 1) & 1)


def test_the_script_becomes_the_packaged_program() -> None:
    unset = {name: value for name, value in ENVIRONMENT.items() if name != "WIRELENS_PYTHON"}
    with waiting(SCRIPT, unset) as run:
        assert os.path.samefile(f"/proc/{run.pid}/exe", PACKAGED)
        settings = Path(f"/proc/{run.pid}/environ").read_bytes().split(b"\0")
        assert f"WIRELENS_PYTHON={sys.executable}".encode() in settings


def test_signals_mean_what_they_mean_to_the_program() -> None:
    ended = []
    for program in (PROGRAM, SCRIPT):
        with waiting(program, ENVIRONMENT) as run:
            ignored, caught = mask(run, "SigIgn"), mask(run, "SigCgt")
            run.send_signal(signal.SIGINT)
            # communicate closes stdin, and a capture that ends amid a packet has its own status.
            run.wait(PATIENCE_S)
            err = run.communicate()[1]
            assert b"interrupted" in err, err
            ended.append((run.returncode, ignored, caught))
    assert ended[0] == ended[1]


def test_a_python_that_is_set_stays() -> None:
    done = subprocess.run(
        [SCRIPT, "train", "classify"],
        check=False, capture_output=True, text=True,
        env=ENVIRONMENT | {"WIRELENS_PYTHON": "/nowhere/python"},
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("wirelens: train: cannot run /nowhere/python"), done.stderr


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder that holds the package, far from any checkout."""
    shutil.copytree(PACKAGE, tmp_path / "packages/wirelens")
    (tmp_path / "empty").mkdir()
    return tmp_path


def ran_elsewhere(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "wirelens", *arguments],
        check=False, capture_output=True, text=True, cwd=folder / "empty",
        env=ENVIRONMENT | {"PYTHONPATH": os.fspath(folder / "packages")},
    )  # fmt: skip


def test_models_that_ship_are_in_the_packages_program(elsewhere: Path) -> None:
    arguments = ["classify", "-r", DEMO, "--model", "services", "--format", "csv"]
    wanted = ran([PROGRAM], *arguments)
    done = ran_elsewhere(elsewhere, *arguments)
    assert (done.returncode, done.stdout.encode()) == wanted[:2]
    # The program has its own; those of the package are for Python's evaluation.
    shutil.rmtree(elsewhere / "packages/wirelens/models")
    done = ran_elsewhere(elsewhere, *arguments)
    assert (done.returncode, done.stdout.encode()) == wanted[:2]


@pytest.mark.parametrize(
    ("damage", "seen"),
    [
        (Path.unlink, "No such file or directory"),
        (lambda program: program.chmod(0o644), "Permission denied"),
        (
            lambda program: program.write_bytes(b"\x7fELF, of some other machine"),
            "Exec format error",
        ),
    ],
    ids=["missing", "not-executable", "foreign"],
)
def test_without_its_program_the_script_says_so(
    elsewhere: Path, damage: Callable[[Path], object], seen: str
) -> None:
    program = elsewhere / "packages/wirelens/bin/wirelens"
    damage(program)
    done = ran_elsewhere(elsewhere, "--version")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith(f"wirelens: {program}: {seen}; wanted "), done.stderr
    assert "install the package again" in done.stderr


@pytest.mark.parametrize("path", [PACKAGED, *PACKAGE.glob("_wirelens*.so")], ids=lambda p: p.name)
def test_what_is_compiled_has_no_symbols(path: Path) -> None:
    command = ["readelf", "--wide", "--sections", path]
    sections = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert " .text " in sections
    assert " .symtab " not in sections and " .debug_" not in sections


def test_a_part_of_the_sources_is_no_package(tmp_path: Path) -> None:
    tool = Path("tools/build_package.py")
    (tmp_path / "tools").mkdir()
    for name in (tool, tool.with_name("prebuilt.py")):
        shutil.copy(ROOT / name, tmp_path / name)
    status, out, err = ran([sys.executable], tmp_path / tool)
    assert (status, out, err.count(b"\n")) == (1, b"", 1)
    assert b"no crates/cli in it" in err and b"in a clone" in err


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
