"""The Debian package: made, installed, used, upgraded and purged in a fresh Debian 12.

The root of Debian is made once by debootstrap, which takes a network and a minute, and kept below
`target/`. Without root the tests are skipped; root has to be able to run them.
"""

import gzip
import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from command import DEMO, PROGRAM, ROOT
from roots import ENVIRONMENT, kept

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="chroot takes root")

SIZE_MAX = 25_000_000
FIRST_ANSWER_MAX_S = 60
SETTINGS = "etc/wirelens/wirelens.toml"


# For packages of which only the contents matter, compressed as quickly as can be.
QUICK = {"DPKG_DEB_COMPRESSOR_LEVEL": "1"}


def make(folder: Path, options: Mapping[str, str] = MappingProxyType({})) -> Path:
    """The package, made of the program under test."""
    command = ["bash", ROOT / "tools/deb.sh", PROGRAM, folder]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env=os.environ | options
    )
    assert done.returncode == 0, done.stderr
    (package,) = folder.glob("wirelens_*.deb")
    return package


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("deb"))


@pytest.fixture
def debian(tmp_path: Path) -> Iterator[Path]:
    """A fresh Debian 12 with nothing but its base, which is left without a trace."""
    root = tmp_path / "root"
    # By cp: devices are among the files.
    subprocess.run(["cp", "--archive", "--reflink=auto", kept("12"), root], check=True)
    shutil.copy(DEMO, root / "demo.pcapng")
    yield root
    shutil.rmtree(root)


def inside(root: Path, *command: str, user: str = "root") -> subprocess.CompletedProcess[str]:
    """Runs a command in a root, as one of its users."""
    chroot = ["/usr/sbin/chroot", f"--userspec={user}", root, *command]
    return subprocess.run(
        chroot, check=False, capture_output=True, text=True, env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def succeeds(root: Path, *command: str, user: str = "root") -> str:
    """What a command prints, which ends well."""
    done = inside(root, *command, user=user)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def install(root: Path, package: Path) -> None:
    shutil.copy(package, root / "wirelens.deb")
    # A machine with settings of its own keeps them, unasked.
    succeeds(root, "dpkg", "--force-confdef", "--force-confold", "--install", "/wirelens.deb")


def paths(root: Path) -> set[str]:
    """All there is in a root, save what dpkg and apt keep of their own work."""
    own = ("var/lib/dpkg/", "var/log/", "var/cache/", "wirelens.deb")
    found = {os.fspath(path.relative_to(root)) for path in root.rglob("*")}
    return {path for path in found if not path.startswith(own)}


def test_the_package_is_small_and_the_same_each_time(package: Path, tmp_path: Path) -> None:
    assert package.stat().st_size <= SIZE_MAX
    assert make(tmp_path / "again").read_bytes() == package.read_bytes()
    fields = subprocess.run(
        ["dpkg-deb", "--field", package], check=True, capture_output=True, text=True
    ).stdout
    assert "Depends: libc6 (>= 2." in fields and "Recommends: libpcap0.8" in fields
    copyright_file = subprocess.run(
        f"dpkg-deb --fsys-tarfile {package} | tar -xO ./usr/share/doc/wirelens/copyright",
        shell=True, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert "License: Expat" in copyright_file and " clap " in copyright_file
    unpacked = tmp_path / "unpacked"
    subprocess.run(["dpkg-deb", "--extract", package, unpacked], check=True)
    parts = json.loads(
        gzip.decompress((unpacked / "usr/share/doc/wirelens/wirelens.cdx.json.gz").read_bytes())
    )
    program = hashlib.sha256((unpacked / "usr/bin/wirelens").read_bytes()).hexdigest()
    assert parts["metadata"]["component"]["hashes"] == [{"alg": "SHA-256", "content": program}]


def test_installed_it_answers_an_ordinary_user(package: Path, debian: Path) -> None:
    begin = time.monotonic()
    install(debian, package)
    found = succeeds(
        debian, "wirelens", "classify", "-r", "/demo.pcapng", "--model", "services", user="nobody"
    )
    took_s = time.monotonic() - begin
    print(f"{package.stat().st_size} bytes; from dpkg -i to the first answer {took_s:.1f} s")
    assert "dns" in found and took_s < FIRST_ANSWER_MAX_S
    for path in (
        "usr/share/man/man1/wirelens.1.gz",
        "usr/share/man/man1/wirelens-packetlog-query.1.gz",
        "usr/share/bash-completion/completions/wirelens",
        "usr/share/zsh/vendor-completions/_wirelens",
        "usr/share/fish/vendor_completions.d/wirelens.fish",
        "usr/share/doc/wirelens/copyright",
        "usr/share/doc/wirelens/changelog.Debian.gz",
        "usr/share/doc/wirelens/wirelens.cdx.json.gz",
        "usr/lib/sysusers.d/wirelens.conf",
        SETTINGS,
    ):
        assert (debian / path).is_file(), path
    assert succeeds(debian, "dpkg", "--verify", "wirelens") == ""
    account = succeeds(debian, "getent", "passwd", "wirelens").strip().split(":")
    assert account[5:] == ["/var/lib/wirelens", "/usr/sbin/nologin"]
    # As installed, the settings listen on nothing, and say so.
    check = inside(debian, "wirelens", "run", "-c", f"/{SETTINGS}", "--check", user="wirelens")
    assert check.returncode == 2, check.stderr


def test_settings_survive_an_upgrade_and_data_a_removal(package: Path, debian: Path) -> None:
    before = paths(debian)
    accounts = (debian / "etc/passwd").read_text(), (debian / "etc/group").read_text()
    install(debian, package)
    settings = debian / SETTINGS
    edited = settings.read_text() + "\n[input]\ninterface = 'lo'\n"
    settings.write_text(edited)
    install(debian, package)
    assert settings.read_text() == edited
    data = debian / "var/lib/wirelens/history/rows"
    data.parent.mkdir(parents=True)
    data.write_text("rows")
    succeeds(debian, "dpkg", "--remove", "wirelens")
    assert not (debian / "usr/bin/wirelens").exists()
    assert settings.read_text() == edited and data.read_text() == "rows"
    install(debian, package)
    assert settings.read_text() == edited
    succeeds(debian, "dpkg", "--purge", "wirelens")
    # Besides backups that useradd makes of its own files.
    assert {path for path in paths(debian) - before if not path.endswith("-")} == set()
    assert before <= paths(debian)
    after = (debian / "etc/passwd").read_text(), (debian / "etc/group").read_text()
    assert after == accounts


def test_lintian_finds_no_error(package: Path) -> None:
    if not shutil.which("lintian"):
        pytest.skip("lintian is not installed")
    # The scripts ask systemd themselves: debhelper, whose helpers would, is not used.
    known = "maintainer-script-calls-systemctl,initial-upload-closes-no-bugs"
    command = ["lintian", "--allow-root", "--suppress-tags", known]
    command += ["--fail-on", "error,warning", os.fspath(package)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
