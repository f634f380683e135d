"""Machines that are not as they should be: a home that is read-only or absent, no locale, an older
kernel, a library that is missing. What can work works, and what cannot says why."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import filtered
import pytest
from command import DEMO, PROGRAM, ROOT, Ran
from lab import Link, datagrams, new_link

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="mount namespaces take root")

TESTBED = ROOT / "testdata/testbed"
# Everything that writes no file.
READING: dict[str, tuple[str | Path, ...]] = {
    "version": ("--version", "--verbose"),
    "help": ("help",),
    "info": ("info", "-r", DEMO),
    "top": ("top", "-r", DEMO, "--by", "name"),
    "flows": ("flows", "-r", DEMO, "-n", "0"),
    "csv": ("flows", "-r", DEMO, "--format", "csv", "--read-names"),
    "classify": ("classify", "-r", DEMO, "--model", "services"),
    "cca": ("cca", "-r", TESTBED / "congestion/before.pcapng.gz",
            "--egress", TESTBED / "congestion/after.pcapng.gz", "--model", "cca"),
    "latency": ("latency", "-r", DEMO),
    "l4s": ("l4s", "-r", ROOT / "testdata/l4s/sender.pcap.gz", "--to", "10.2.1.2", "--model", "l4s"),
    "nprint": ("nprint", "-r", DEMO, "--format", "csv"),
    "modes": ("packetlog", "modes"),
    "init": ("run", "--init"),
    "devices": ("devices",),
    "scenarios": ("completions", "bash"),
}  # fmt: skip
# And what each of these would write.
WRITING: dict[str, tuple[tuple[str | Path, ...], str]] = {
    "flows": (("flows", "-r", DEMO, "-o", "rows.csv"), "rows.csv"),
    "parts": (
        ("flows", "-r", DEMO, "-o", "rows", "--partition", "hour", "--format", "csv"),
        "rows",
    ),
    "report": (("report", "-r", DEMO, "-o", "report.html"), "report.html"),
    "packetlog": (("packetlog", "record", "-r", DEMO), "packetlog"),
    "man": (("man", "pages"), "pages"),
}
HOMES: dict[str, dict[str, str]] = {
    "unset": {},
    "absent": {"HOME": "/nonexistent"},
    "read-only": {"HOME": "{folder}"},
    "a file": {"HOME": os.fspath(DEMO)},
}


def ran(command: list[str], environment: dict[str, str], cwd: Path | None = None) -> Ran:
    done = subprocess.run(
        command, capture_output=True, check=False, env=environment, cwd=cwd, timeout=60,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return Ran(done.returncode, done.stdout, done.stderr.decode())


def read_only(folder: Path, *arguments: str | Path) -> list[str]:
    """The command line of the program in a folder where even root may not write."""
    script = 'mount -t tmpfs -o ro none "$0" && cd "$0" && exec "$@"'
    words = ["unshare", "--mount", "sh", "-c", script, str(folder), str(PROGRAM)]
    return [*words, *map(str, arguments)]


PLAIN = {"PATH": os.environ["PATH"], "TZ": "UTC"}


@as_root
@pytest.mark.parametrize("home", HOMES)
def test_what_writes_no_file_needs_no_home(home: str, tmp_path: Path) -> None:
    environment = {k: v.format(folder=tmp_path) for k, v in HOMES[home].items()} | PLAIN
    for name, arguments in READING.items():
        # Without the width of a terminal, which test runners set.
        inherited = {k: v for k, v in os.environ.items() if k != "COLUMNS"} | {"TZ": "UTC"}
        wanted = ran([str(PROGRAM), *map(str, arguments)], inherited, tmp_path)
        found = ran(read_only(tmp_path, *arguments), environment)
        assert (found.status, found.stdout) == (0, wanted.stdout), (name, found.stderr)
        assert wanted.stdout, name
    assert list(tmp_path.iterdir()) == []


@as_root
@pytest.mark.parametrize("name", WRITING)
def test_what_cannot_be_written_is_named_with_its_cause(name: str, tmp_path: Path) -> None:
    arguments, path = WRITING[name]
    found = ran(read_only(tmp_path, *arguments), PLAIN | {"HOME": "/nonexistent"})
    assert found.status == 1 and not found.stdout
    line = found.stderr.splitlines()[-1]
    assert line.startswith("wirelens: ") and path in line and "ead-only" in line, found.stderr


@pytest.mark.parametrize("name", READING)
def test_output_does_not_depend_on_the_locale(name: str, tmp_path: Path) -> None:
    command = [str(PROGRAM), *map(str, READING[name])]
    found = [
        ran(command, PLAIN | locale, tmp_path)
        for locale in ({}, {"LC_ALL": "C"}, {"LC_ALL": "C.UTF-8"}, {"LC_ALL": "xx_XX.KOI8-R"})
    ]
    assert found[0].stdout.decode(), "UTF-8, whatever the locale"
    assert all(one.stdout == found[0].stdout and one.status == 0 for one in found)


# --- Older kernels ---------------------------------------------------------------------------


@pytest.fixture
def link() -> Iterator[Link]:
    with new_link() as made:
        yield made


@as_root
def test_an_older_kernel_is_named_by_doctor_and_by_taps(link: Link, tmp_path: Path) -> None:
    doctor = ran(filtered.of_release(tmp_path, "2.6.32-5-amd64", "doctor", "-i", "wl0"), PLAIN)
    assert doctor.status == 1
    assert "Linux 2.6.32-5-amd64" in doctor.stdout.decode()
    assert "Linux 3.2 or newer" in doctor.stdout.decode()
    older = ran(filtered.of_release(tmp_path, "5.10.0", "doctor", "-i", "wl0"), PLAIN)
    assert older.status == 0 and "need Linux 6.6" in older.stdout.decode()
    # Programs at tcx hooks are what an older kernel refuses.
    rules = filtered.code(without=(filtered.BPF,))
    words = ("cca", "-i", "wl0", "--egress", "wl1", "--duration", "1s")
    taps = ran(filtered.command(tmp_path, rules, *words), PLAIN)
    assert taps.status == 1 and not taps.stdout
    assert taps.stderr.startswith("wirelens: ") and "6.6" in taps.stderr, taps.stderr


@as_root
def test_a_kernel_without_packet_rings_is_met_with_what_it_lacks(
    link: Link, tmp_path: Path
) -> None:
    rules = filtered.code(has_ring=False)
    found = ran(filtered.command(tmp_path, rules, "flows", "-i", "wl0", "--duration", "1s"), PLAIN)
    assert found.status == 1 and not found.stdout
    assert found.stderr.startswith("wirelens: ") and "TPACKET_V3" in found.stderr, found.stderr
    doctor = ran(filtered.command(tmp_path, rules, "doctor", "-i", "wl0"), PLAIN)
    assert doctor.status == 1 and "TPACKET_V3" in doctor.stdout.decode()


@as_root
def test_a_kernel_without_bpf_and_io_uring_captures_and_records(link: Link, tmp_path: Path) -> None:
    rules = filtered.code(without=(filtered.BPF, filtered.IO_URING_SETUP))
    log = tmp_path / "log"
    words = ("packetlog", "record", "-i", "wl0", "-o", log, "--mode", "log-all", "--fixed-mode",
             "-c", "30", "--filter", "udp")  # fmt: skip
    process = subprocess.Popen(
        filtered.command(tmp_path, rules, *words), env=PLAIN, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("listening"):
            break
    else:
        raise AssertionError("it does not listen")
    link.send(datagrams(30))
    rest = process.communicate(timeout=20)[1]
    assert process.returncode == 0, rest
    assert "30 packets captured" in rest
    shown = ran([str(PROGRAM), "packetlog", "query", "-l", str(log), "--list", "hosts"], PLAIN)
    assert shown.status == 0 and b"198.18.0.1" in shown.stdout


def test_without_libpcap_only_filters_are_refused(tmp_path: Path) -> None:
    environment = PLAIN | {"LD_LIBRARY_PATH": os.fspath(tmp_path)}
    # A file of that name that is no library goes before the machine's.
    for name in ("libpcap.so.0.8", "libpcap.so.1", "libpcap.so"):
        (tmp_path / name).write_text("no library")
    plain = ran([str(PROGRAM), "top", "-q", "-r", str(DEMO)], environment)
    assert plain.status == 0 and plain.stdout
    found = ran([str(PROGRAM), "top", "-q", "-r", str(DEMO), "tcp"], environment)
    assert found.status == 1 and not found.stdout
    assert "install the package libpcap0.8" in found.stderr, found.stderr
