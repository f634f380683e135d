"""With low latency the thread that reads an interface comes before all others (decision 0052)."""

import os
import subprocess
from pathlib import Path

import pytest
from command import PROGRAM
from lab import Listening, datagrams, new_link, wait_until

SCHED_OTHER, SCHED_RR = 0, 2
SETTINGS = """
[input]
interface = "wl0"
{latency}
[flows]
output = "flows.jsonl"
[latency]
output = "latency.jsonl"
"""


def classes(pid: int) -> list[int]:
    """The scheduling class of each thread, those in real time last."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sorted(os.sched_getscheduler(int(task.name)) & 0xFF for task in tasks)


@pytest.mark.parametrize(
    ("latency", "wanted"), [('latency = "low"', SCHED_RR), ("", SCHED_OTHER)]
)
def test_one_thread_reads_in_real_time(
    tmp_path: Path, latency: str, wanted: int
) -> None:
    settings = tmp_path / "wirelens.toml"
    text = SETTINGS.format(latency=latency)
    settings.write_text(text.replace('output = "', f'output = "{tmp_path}/'))
    with new_link() as link, Listening(tmp_path, "run", "-c", settings) as run:
        link.send(datagrams(20))
        wait_until(lambda: classes(run.process.pid)[-1] == wanted, "it reads")
        *others, last = classes(run.process.pid)
        assert last == wanted and len(others) >= 2 and set(others) == {SCHED_OTHER}
        assert run.end().status == 0


def test_without_the_permission_it_reads_as_others_do(tmp_path: Path) -> None:
    with new_link() as link:
        without = ["setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice"]
        out = tmp_path / "flows.jsonl"
        command = [
            PROGRAM,
            "flows",
            "-i",
            "wl0",
            "--latency",
            "low",
            "-c",
            "20",
            "-o",
            out,
        ]
        run = subprocess.Popen([*without, *command], stderr=subprocess.PIPE, text=True)
        try:
            assert run.stderr
            next(line for line in run.stderr if "listening on" in line)
            link.send(datagrams(20))
            _, said = run.communicate(timeout=30)
        finally:
            run.kill()
        assert run.returncode == 0 and "20 packets captured" in said, said
