"""The parts of the testbed that work at packet speed, as the library runs them: told lines, asked
for a report."""

import json
import os
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

from command import ENVIRONMENT, PROGRAM, Ran

END_TIME_MAX_S = 20


def place(namespace: int, device: str) -> str:
    """A device in a namespace without a name, as a companion is told it."""
    return f"/proc/{os.getpid()}/fd/{namespace}:{device}"


class Companion:
    """A run of `wirelens testbed relay` or `record`; killed, at the latest, when its block ends."""

    def __init__(self, folder: Path, *arguments: str | Path) -> None:
        self._err = folder / f"{arguments[0]}-{len(list(folder.glob('*.err')))}.err"
        with self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [PROGRAM, "testbed", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=err,
                env=ENVIRONMENT,
            )
        assert self.process.stdin and self.process.stdout
        self._stdin, self._stdout = self.process.stdin, self.process.stdout

    def __enter__(self) -> "Companion":
        try:
            assert self._stdout.readline() == b"ready\n", self._err.read_text()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        self._stdout.close()

    def tell(self, line: str) -> None:
        self._stdin.write(f"{line}\n".encode())
        self._stdin.flush()

    def end(self) -> dict[str, Any]:
        """Closes its input; what it reports then."""
        ran = self.ended()
        assert (ran.status, ran.stderr) == (0, "")
        (line,) = ran.stdout.splitlines()
        report: dict[str, Any] = json.loads(line)
        return report

    def ended(self) -> Ran:
        """Closes its input and waits for it."""
        printed, _ = self.process.communicate(timeout=END_TIME_MAX_S)
        return Ran(self.process.returncode, printed, self._err.read_text())

    def kill(self) -> None:
        """As the kernel does when memory is short: it can clean up nothing."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def cpu_time_s(self) -> float:
        """What it has computed so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return sum(int(ticks) for ticks in fields[11:13]) / os.sysconf("SC_CLK_TCK")
