"""A run with every application, and what its `/metrics` say."""

import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from command import DEMO, ENVIRONMENT, PROGRAM

PATIENCE_S = 30

# Every application, twice where that is another one; alerts with a list and a destination.
EVERYTHING = f"""
[input]
read = "{DEMO}"
[top]
by = "flow"
window = "1s"
rows = 0
[traffic]
[flows]
read-names = true
[[classify]]
model = "services"
[[classify]]
model = "categories"
classes = "device"
[cca]
[latency]
[packetlog]
hindsight = "1s"
output = "log"
[l4s]
model = "l4s"
to = ["203.0.113.80:80"]
[unanswered]
[history]
[[alert]]
name = "large"
table = "flows"
when = "bytes > 100k"
[[indicators]]
name = "list"
kind = "ip"
file = "list.txt"
[[notify]]
name = "file"
kind = "jsonl"
to = "alerts.jsonl"
"""

Labels = frozenset[tuple[str, str]]
SAMPLE = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)(?:\{((?:[^"}]|"(?:\\.|[^"\\])*")*)\})? (\S+)')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:\\.|[^"\\])*)"')


@dataclass(frozen=True)
class Scrape:
    """The samples of a scrape, by name and labels."""

    text: str
    samples: dict[tuple[str, Labels], float]

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self.samples}

    def sum(self, name: str, **labels: str) -> float:
        """Of all samples of a name with these labels; there has to be one."""
        wanted = set(labels.items())
        found = [value for (of, has), value in self.samples.items() if of == name and wanted <= has]
        assert found, f"no sample of {name} with {labels}"
        return sum(found)


def parsed(text: str) -> Scrape:
    """Every line of a scrape; a sample that is there twice is a mistake."""
    samples: dict[tuple[str, Labels], float] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        key = (match[1], frozenset(LABEL.findall(match[2] or "")))
        assert key not in samples, f"twice: {line}"
        samples[key] = float(match[3])
    assert text.endswith("# EOF\n")
    return Scrape(text, samples)


class Run:
    """`wirelens run` with a page, until it is left."""

    def __init__(self, folder: Path, *arguments: str | Path) -> None:
        self._err = folder / "run.err"
        with self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [PROGRAM, "run", "--page", "0", *arguments], cwd=folder, stderr=err, env=ENVIRONMENT
            )

    @property
    def said(self) -> str:
        return self._err.read_text()

    def wait_for(self, pattern: str, time_max_s: float = PATIENCE_S) -> re.Match[str]:
        deadline = time.monotonic() + time_max_s
        while True:
            if found := re.search(pattern, self.said):
                return found
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, f"waited in vain for {pattern}: {self.said}"
            time.sleep(0.02)

    @property
    def address(self) -> str:
        return self.wait_for(r"http://(\S+)/")[1]

    def scrape(self) -> Scrape:
        with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=PATIENCE_S) as answer:
            return parsed(answer.read().decode())

    def end(self) -> str:
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(PATIENCE_S) == 0, self.said
        return self.said


@contextmanager
def running(folder: Path, *arguments: str | Path) -> Iterator[Run]:
    """A run that is ended at the latest when this is."""
    run = Run(folder, *arguments)
    try:
        yield run
    finally:
        run.process.kill()
        run.process.wait()


@contextmanager
def everything(folder: Path) -> Iterator[Run]:
    """A run of [`EVERYTHING`] that has read all."""
    (folder / "wirelens.toml").write_text(EVERYTHING)
    (folder / "list.txt").write_text("198.51.100.0/24\n")
    with running(folder, "-c", "wirelens.toml") as run:
        run.wait_for("the page stays open")
        yield run
