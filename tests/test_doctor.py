"""`wirelens doctor`: on interfaces of the test's own, as a user without rights, on narrow
terminals. What it reads in `/proc` and `/sys` is tested in `crates/doctor`. Parts that need root
are skipped without it."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import tempfile
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import DEMO, PROGRAM, ROOT, Ran, wirelens
from lab import Link, ip, new_link

Check = dict[str, str | None]
WIDTH = 40


@pytest.fixture
def link() -> Iterator[Link]:
    with new_link() as made:
        yield made


def checks(*arguments: str | Path, status: int | None = None) -> dict[str, Check]:
    ran = wirelens("doctor", "--json", *arguments)
    found = json.loads(ran.stdout)
    problems = [check for check in found["checks"] if check["level"] == "problem"]
    assert len(problems) == found["problems"]
    assert ran.status == (1 if problems else 0) and ran.stderr == ""
    assert status is None or ran.status == status, problems
    return {check["name"]: check for check in found["checks"]}


def ethtool(*words: str) -> None:
    subprocess.run(["ethtool", *words], check=True, capture_output=True, timeout=10)


def test_the_line_for_offloads_switches_them_off(link: Link) -> None:
    ethtool("-K", "wl0", "gro", "on", "tso", "on", "gso", "on")
    before = checks("-i", "wl0", status=0)["offloads wl0"]
    assert before["level"] == "warning" and "GRO, TSO, GSO on" in str(before["seen"])
    assert before["change"] == "sudo ethtool -K wl0 gro off tso off gso off"
    ethtool(*str(before["change"]).split()[2:])
    after = checks("-i", "wl0", status=0)["offloads wl0"]
    assert (after["level"], after["change"]) == ("ok", None)


def test_an_interface_that_is_down_or_absent_is_named(link: Link) -> None:
    assert checks("-i", "wl0")["interface wl0"]["level"] == "ok"
    ip("link set wl1 down")
    assert checks("-i", "wl0")["interface wl0"]["level"] == "warning"
    ip("link set wl0 down")
    down = checks("-i", "wl0", status=0)["interface wl0"]
    assert (down["level"], down["change"]) == ("warning", "sudo ip link set dev wl0 up")
    absent = checks("-i", "wl7", status=1)["interface wl7"]
    assert absent["level"] == "problem" and "wl0" in str(absent["wanted"])
    # Nothing is up: that is a warning, and everything else is still looked at.
    ip("link set lo down")
    alone = checks(status=0)
    assert alone["interfaces"]["level"] == "warning" and "clock" in alone


def test_the_line_for_queues_sets_them(link: Link) -> None:
    ip("link del wl0")
    ip(
        "link add wl0 numrxqueues 4 numtxqueues 4 type veth peer name wl1 numrxqueues 4 numtxqueues 4"
    )
    ethtool("-L", "wl0", "rx", "1", "tx", "1")
    before = checks("-i", "wl0")["queues wl0"]
    processors = len(os.sched_getaffinity(0))
    if processors < 2:
        pytest.skip("needs two processors")
    assert (before["level"], str(before["seen"]).partition(",")[0]) == (
        "warning",
        "1 of 4 receive queues",
    )
    assert before["change"] == f"sudo ethtool -L wl0 rx {min(processors, 4)}"
    ethtool(*str(before["change"]).split()[2:])
    after = checks("-i", "wl0")["queues wl0"]
    assert (after["level"], after["change"]) == ("ok", None)


def test_packet_steering_is_read_where_sys_shows_the_interface(link: Link) -> None:
    """`/sys` of the link's namespace, in a mount namespace of a shell's own."""
    script = (
        "mount -t sysfs sysfs /sys && {0} doctor --json -i wl0; "
        "echo 1 >/sys/class/net/wl0/queues/rx-0/rps_cpus && {0} doctor --json -i wl0; true"
    )
    shown = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", script.format(PROGRAM)],
        check=True, capture_output=True, text=True, timeout=30,
    ).stdout  # fmt: skip
    off, on = (
        {check["name"]: check for check in json.loads(line)["checks"]}
        for line in re.findall(r"^\{.*?^\}|^\{.*\}$", shown, re.MULTILINE | re.DOTALL)
    )
    name = "packet steering wl0"
    # A pair of interfaces has no card, whose interrupts would come to one processor.
    assert (off[name]["level"], on[name]["level"]) == ("ok", "ok")
    assert str(off[name]["seen"]).startswith("off, and not needed")
    assert on[name]["seen"] == "RPS to processors 0"
    assert "interrupts wl0" not in on and "queues wl0" not in on


def as_nobody(*arguments: str | Path) -> Ran:
    """Without rights, without a locale, and with a home that is not there."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become a user without rights")
    done = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs",
         "--inh-caps=-all", "--bounding-set=-all", str(PROGRAM), *map(str, arguments)],
        cwd="/", env={"HOME": "/nonexistent"}, capture_output=True, timeout=30, check=False,
    )  # fmt: skip
    return Ran(done.returncode, done.stdout, done.stderr.decode())


def test_a_user_without_rights_is_named_the_capability(link: Link) -> None:
    ran = as_nobody("doctor", "--json", "-i", "wl0")
    assert (ran.status, ran.stderr) == (1, "")
    found = {check["name"]: check for check in json.loads(ran.stdout)["checks"]}
    capture = found["packet capture"]
    assert capture["level"] == "problem" and "CAP_NET_RAW" in capture["seen"]
    assert capture["change"] == f"sudo setcap cap_net_raw=eip {PROGRAM}"
    problems = [name for name, check in found.items() if check["level"] == "problem"]
    assert problems == ["packet capture"], "what works without rights is no problem"
    assert found["disk here"]["level"] == "warning"
    assert found["offloads wl0"]["level"] in ("ok", "warning"), "asking takes no right"
    # The same by the capture itself.
    assert as_nobody("flows", "-i", "wl0").status == 1


def test_settings_that_read_captures_need_no_right() -> None:
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "wirelens.toml"
        path.parent.chmod(0o755)
        for settings, level in [
            (f'[input]\nread = "{DEMO}"', "ok"),
            ('[input]\ninterface = "lo"', "problem"),
            ("", "problem"),
        ]:
            path.write_text(f'{settings}\n[flows]\noutput = "/tmp/flows.csv"\n')
            ran = as_nobody("doctor", "--json", "-c", path)
            found = {check["name"]: check for check in json.loads(ran.stdout)["checks"]}
            assert found["settings"]["level"] == "ok", found["settings"]
            assert found["packet capture"]["level"] == level, settings
            assert "CAP_NET_RAW is missing" in str(found["packet capture"]["seen"])


def test_the_budget_of_a_log_is_read_whichever_way_its_table_is_written(tmp_path: Path) -> None:
    for head in ("[packetlog]", "[[packetlog]]"):
        (tmp_path / "log.toml").write_text(
            f'[input]\nread = "{DEMO}"\n{head}\noutput = "log"\nlog = {{ keep-bytes = "1M" }}\n'
        )
        ran = wirelens("doctor", "--json", "-c", "log.toml", cwd=tmp_path)
        found = {check["name"]: check for check in json.loads(ran.stdout)["checks"]}
        assert "budget 1 MiB" in found["disk [packetlog]"]["seen"], head


def on_terminal(columns: int) -> list[str]:
    """The lines on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    process = subprocess.Popen([PROGRAM, "doctor"], stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    output = b""
    try:
        while piece := os.read(ours, 4096):
            output += piece
    except OSError:
        pass  # the last one has closed the terminal
    os.close(ours)
    assert process.wait(30) in (0, 1)
    return output.decode("ascii").splitlines()


def test_a_narrow_terminal_has_a_narrow_layout() -> None:
    lines = on_terminal(WIDTH)
    assert any(re.fullmatch(r"(ok|unknown): kernel", line) for line in lines), lines
    long = [line for line in lines if len(line) > WIDTH]
    # Command lines are whole, to be copied; and so are paths and addresses.
    assert all("sudo " in line or " " not in line.strip() for line in long), long
    wide = on_terminal(120)
    assert len(wide) < len(lines) and max(map(len, wide)) <= 120


def test_settings_are_examined(tmp_path: Path) -> None:
    path = tmp_path / "wirelens.toml"
    log, history = tmp_path / "log", tmp_path / "history"
    path.write_text(
        f'[input]\ninterface = "lo"\n[packetlog]\noutput = "{log}"\n'
        f'log = {{ keep-bytes = "900T", when-full = "overwrite" }}\n'
        f'[history]\nfolder = "{history}"\nkeep-bytes = "1M"\n[traffic]\n'
    )
    found = checks("-c", path)
    assert found["settings"]["level"] == "ok" and "interface lo" in found
    budget = found["disk [packetlog]"]
    assert budget["level"] == "warning" and "budget" in str(budget["seen"])
    assert str(budget["change"]).startswith("keep-bytes = ")
    assert "budget 1 MiB" in str(found["disk [history]"]["seen"])
    assert not log.exists() and not history.exists()
    # Without a budget the disk fills up.
    path.write_text(f'[input]\ninterface = "lo"\n[packetlog]\noutput = "{log}"\n')
    assert "no budget" in str(checks("-c", path)["disk [packetlog]"]["seen"])
    path.write_bytes(b"[flows]\r\nidle = 3\r\n")
    wrong = checks("-c", path, status=1)["settings"]
    assert wrong["level"] == "problem" and "idle-timeout" in str(wrong["seen"])
    assert wrong["change"] == f"wirelens run -c {path} --check"
    assert checks("-c", tmp_path / "none.toml", status=1)["settings"]["level"] == "problem"


def test_what_goes_to_a_collector_needs_no_disk(tmp_path: Path) -> None:
    path = tmp_path / "wirelens.toml"
    for output, is_there in (("udp://127.0.0.1:4739", False), (f"{tmp_path}/flows.ipfix", True)):
        path.write_text(f'[input]\ninterface = "lo"\n[flows]\noutput = "{output}"\n')
        assert ("disk [flows]" in checks("-c", path)) == is_there


def test_the_settings_of_the_service_are_examined() -> None:
    found = checks("-c", ROOT / "deploy/systemd/wirelens.toml")
    assert found["settings"]["level"] == "ok"
    assert {"disk [packetlog]", "disk [history]"} <= found.keys()
