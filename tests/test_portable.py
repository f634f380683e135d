"""Programs and wheels for an old glibc: the symbols that they need, and what they answer in an old
Debian, on x86-64 and, emulated, on aarch64.

They are built by `make wheel`, which takes many CPU minutes, and looked at by `make test-portable`.
A root of Debian 11 is made once for each architecture and kept below `target/`.
"""

import hashlib
import os
import re
import shutil
import subprocess
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import DEMO, PROGRAM, ROOT
from roots import ENVIRONMENT, kept

pytestmark = pytest.mark.portable

GLIBC = (2, 17)
ARCHITECTURES = ("x86_64", "aarch64")
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
# What may be linked: glibc's own libraries. All others are opened while the program runs.
LINKED = re.compile(r"(libc|libm|libdl|libpthread|librt|libutil|ld-linux-[a-z0-9-]+)\.so\.\d")
CLASSIFY = ("classify", "-q", "-r", "demo.pcapng", "--model", "services", "--format", "csv")
FILTERED = ("top", "-q", "-r", "demo.pcapng", "--format", "csv", "udp", "port", "53")
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="chroot takes root")


def built(architecture: str, what: str) -> Path:
    """What `make wheel` has put there; without it the test is skipped, and what builds it is said."""
    found = sorted((ROOT / "target/portable" / architecture).glob(what))
    if not found:
        pytest.skip(f"not built; for that, type: make wheel TARGET={architecture}")
    return found[0]


@pytest.fixture(params=ARCHITECTURES)
def architecture(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def elf(path: Path, *options: str) -> str:
    command = ["readelf", "--wide", *options, path]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def check_linked(path: Path, architecture: str) -> None:
    """A file for the architecture that needs nothing but a glibc, and none newer than promised."""
    machine = {"x86_64": "X86-64", "aarch64": "AArch64"}[architecture]
    assert machine in elf(path, "--file-header")
    versions = {
        tuple(map(int, version.split(".")))
        for version in re.findall(r"Name: GLIBC_([\d.]+)", elf(path, "--version-info"))
    }
    assert versions and max(versions) <= GLIBC, sorted(versions)
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", elf(path, "--dynamic"))
    assert needed and all(LINKED.fullmatch(name) for name in needed), needed
    print(f"{path.name}: {path.stat().st_size} bytes, glibc {max(versions)}, {needed}")


def test_the_program_needs_only_an_old_glibc(architecture: str) -> None:
    check_linked(built(architecture, "wirelens"), architecture)


def test_the_wheel_carries_what_its_tag_promises(architecture: str, tmp_path: Path) -> None:
    wheel = built(architecture, "wirelens-*.whl")
    assert re.search(rf"-cp311-abi3-.*\bmanylinux_2_17_{architecture}\b", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
        mode = archive.getinfo("wirelens/bin/wirelens").external_attr >> 16
    assert mode & 0o111
    for name in ("wirelens/bin/wirelens", "wirelens/_wirelens.abi3.so"):
        check_linked(tmp_path / name, architecture)
    assert (tmp_path / "wirelens/models/services/cascade.json").is_file()


# --- In an old Debian ---------------------------------------------------------------------------


def old_debian(architecture: str) -> Path:
    """A root of Debian 11; for aarch64 unpacked, and with what emulates it."""
    name = DEBIAN[architecture]
    foreign = ["--foreign"] if name == "arm64" else []
    return kept(f"11-{name}", f"--arch={name}", "--include=libpcap0.8", *foreign)


@pytest.fixture
def old(architecture: str, tmp_path: Path) -> Iterator[Path]:
    """A fresh Debian 11 with the program and the capture that ships, left without a trace."""
    program = built(architecture, "wirelens")
    root = tmp_path / "root"
    # By cp: devices are among the files.
    copy = ["cp", "--archive", "--reflink=auto", old_debian(architecture), root]
    subprocess.run(copy, check=True)
    shutil.copy(program, root / "wirelens")
    shutil.copy(DEMO, root / "demo.pcapng")
    yield root
    shutil.rmtree(root)


def inside(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Runs a command in a root, emulated where it is of another machine."""
    emulator = ["/qemu"] if (root / "qemu").exists() else []
    return subprocess.run(
        ["/usr/sbin/chroot", root, *emulator, *command], check=False, capture_output=True,
        text=True, env=ENVIRONMENT, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def here(*arguments: str) -> str:
    """What the program under test answers to the same question on this machine."""
    return subprocess.run(
        [PROGRAM, *arguments], check=True, capture_output=True, text=True, cwd=DEMO.parent,
        env=ENVIRONMENT,
    ).stdout  # fmt: skip


@AS_ROOT
def test_it_answers_in_an_old_debian(old: Path) -> None:
    done = inside(old, "/wirelens", *CLASSIFY)
    assert (done.returncode, done.stdout) == (0, here(*CLASSIFY)), done.stderr
    assert done.stdout.count("services@") > 100
    done = inside(old, "/wirelens", *FILTERED)
    assert (done.returncode, done.stdout) == (0, here(*FILTERED)), done.stderr


@AS_ROOT
def test_without_libpcap_only_filters_are_missing(old: Path) -> None:
    removed = list(old.glob("usr/lib/*/libpcap.so*"))
    assert removed
    for library in removed:
        library.unlink()
    done = inside(old, "/wirelens", *CLASSIFY)
    assert (done.returncode, done.stdout) == (0, here(*CLASSIFY)), done.stderr
    done = inside(old, "/wirelens", *FILTERED)
    assert done.returncode == 1 and "libpcap" in done.stderr, done.stderr


@AS_ROOT
@pytest.mark.parametrize("architecture", ["x86_64"], indirect=True)
def test_its_debian_package_installs_in_an_old_debian(old: Path, tmp_path: Path) -> None:
    command = ["bash", ROOT / "tools/deb.sh", old / "wirelens", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    (package,) = tmp_path.glob("wirelens_*.deb")
    shutil.move(package, old / "wirelens.deb")
    done = inside(old, "dpkg", "--install", "/wirelens.deb")
    assert done.returncode == 0, done.stderr
    done = inside(old, "wirelens", *CLASSIFY)
    assert (done.returncode, done.stdout) == (0, here(*CLASSIFY)), done.stderr


# --- The wheel, installed -----------------------------------------------------------------------

ASK = f"""
import wirelens
print(sum(1 for _ in wirelens.flows({os.fspath(DEMO)!r})), wirelens.__file__)
"""


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """A virtual environment in which there is nothing but pip."""
    venv.create(tmp_path / "venv", with_pip=True)
    return tmp_path / "venv/bin"


def without_rust() -> dict[str, str]:
    """The environment of a machine on which nothing is compiled."""
    return {**ENVIRONMENT, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_CACHE_DIR": "1"}


def run(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env=without_rust(), cwd=cwd,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def test_the_wheel_is_installed_without_rust_and_answers(fresh: Path) -> None:
    run(fresh / "pip", "install", "--no-index", built(os.uname().machine, "wirelens-*.whl"))
    check_installed(fresh)


def check_installed(fresh: Path) -> None:
    flows, file = run(fresh / "python", "-c", ASK, cwd=fresh).split()
    assert Path(file).is_relative_to(fresh.parent)
    answer = here("flows", "-q", "-r", "demo.pcapng", "--format", "csv")
    assert int(flows) == len(answer.splitlines()) - 1
    classified = run(fresh / "wirelens", *CLASSIFY, cwd=DEMO.parent)
    assert classified == here(*CLASSIFY)


def test_a_clone_takes_a_wheel_of_its_sources(fresh: Path) -> None:
    wheel = built(os.uname().machine, "wirelens-*.whl")
    (packages,) = ROOT.glob("target/portable/tools/lib/python3*/site-packages")
    # What pip would fetch to build with; nothing of it runs, as the wheel is there.
    site = run(fresh / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    Path(site.strip(), "tools.pth").write_text(f"{packages}\n")
    said = run(fresh / "pip", "install", "--no-index", "--no-build-isolation", "--verbose", ROOT)
    # As pip says of what the build has given it: the same file.
    assert f"sha256={hashlib.sha256(wheel.read_bytes()).hexdigest()}" in said, said
    check_installed(fresh)
