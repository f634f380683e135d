"""The container image: built of the Debian package, and what it answers.

The base image is made of a root of Debian 12 from debootstrap, so that no image is fetched. The
image is built by buildah, which isolates by chroot here. Without root the test is skipped; root has
to be able to run it.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command import DEMO, PROGRAM, ROOT, wirelens
from roots import kept
from test_debian import QUICK

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a root of Debian takes root")

BASE = "localhost/debian:bookworm"
CLASSIFY = ("classify", "-q", "--model", "services", "--format", "csv")

Buildah = Callable[..., str]


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[list[str]]:
    """The options of buildah that keep images in a folder of the test's own."""
    folder = tmp_path / "images"
    yield ["--root", f"{folder}/root", "--runroot", f"{folder}/run", "--storage-driver", "vfs"]
    shutil.rmtree(folder)


@pytest.fixture
def buildah(storage: list[str], tmp_path: Path) -> Buildah:
    """Runs a command of buildah that ends well; what it prints."""

    def run(command: str, *arguments: str | Path) -> str:
        isolation = ["--isolation", "chroot"] if command in ("build", "run") else []
        done = subprocess.run(
            ["buildah", *storage, command, *isolation, *arguments],
            check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, (command, arguments, done.stdout, done.stderr)
        return done.stdout.strip()

    return run


@pytest.fixture
def image(buildah: Buildah, storage: list[str]) -> str:
    """The image, built as `make container` builds it."""
    scratch = buildah("from", "scratch")
    buildah("add", "--quiet", scratch, kept("12"), "/")
    buildah("commit", "--quiet", "--rm", scratch, BASE)
    done = subprocess.run(
        ["bash", ROOT / "tools/container.sh", PROGRAM],
        check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL,
        env=os.environ | {
            "BUILDER": "buildah", "BUILDER_FLAGS": " ".join(storage), "BASE": BASE,
            "BUILDAH_ISOLATION": "chroot",
        } | QUICK,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout, done.stderr)
    return f"localhost/wirelens:{wirelens('--version').stdout.split()[1].decode()}"


def test_the_image_answers_as_a_user_of_its_own(image: str, buildah: Buildah) -> None:
    config = json.loads(buildah("inspect", "--type", "image", image))["OCIv1"]["config"]
    assert config["User"] == "wirelens" and config["Entrypoint"] == ["/usr/bin/wirelens"]
    container = buildah("from", image)

    def ran(*command: str) -> str:
        return buildah("run", "--volume", f"{DEMO.parent}:/captures:ro", container, "--", *command)

    version = wirelens("--version").stdout.decode().strip()
    assert ran("/usr/bin/wirelens", "--version") == version
    assert ran("/usr/bin/id", "-un") == "wirelens"
    question = (*CLASSIFY, "-r", f"/captures/{DEMO.name}")
    answer = ran("/usr/bin/wirelens", *question, "udp", "port", "53")
    wanted = wirelens(*CLASSIFY, "-r", DEMO, "udp", "port", "53")
    # The answer to a filter: libpcap is in the image.
    assert wanted.status == 0 and answer == wanted.stdout.decode().strip()
    assert answer.count("services@") > 10
    check_capture(Path(buildah("mount", container)))


def check_capture(root: Path) -> None:
    """Root with one capability captures in the image, and its user without any does not."""
    capture = ("wirelens", "top", "-q", "-i", "lo", "--duration", "0.1s")
    as_root = ("setpriv", "--bounding-set=-all,+net_raw")
    as_user = ("setpriv", "--reuid=wirelens", "--regid=wirelens", "--clear-groups")
    for before, status in ((as_root, 0), (as_user, 1)):
        done = subprocess.run(
            ["/usr/sbin/chroot", root, *before, *capture], check=False, capture_output=True,
            text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == status, (before, done.stderr)
    assert "CAP_NET_RAW" in done.stderr
