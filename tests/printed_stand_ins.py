"""What stands in for the names in printed commands, and a folder in which they can be typed."""

import gzip
import os
import re
import shutil
import subprocess
from pathlib import Path

from command import DEMO, PROGRAM, ROOT, wirelens
from printed import PrintedCommand, blocks

_SAMPLES = ROOT / "testdata/testbed"

# What is there in a clone, for reading.
_OF_THE_CLONE = ("crates", "testbed", "testdata", "tools", "Cargo.toml", ".venv")
# In these, commands write beside what is there.
_WRITTEN_INTO = ("models", "docs", "bench")

# Names that the reader's own captures and models have in our pages.
_CAPTURES = {
    "capture.pcap": DEMO,
    "capture.pcapng": DEMO,
    "day.pcap": DEMO,
    "span.pcap": DEMO,
    "FILE": DEMO,
    "CAPTURE": DEMO,
    "captures/demo.pcapng": DEMO,
    "day/demo.pcapng": DEMO,
    "folder/demo.pcapng": DEMO,
    "monday.pcap": DEMO,
    "tuesday.pcap": _SAMPLES / "attacks/lan.pcapng.gz",
    "one.pcap": _SAMPLES / "congestion/before.pcapng.gz",
    "before.pcap": _SAMPLES / "congestion/before.pcapng.gz",
    "after.pcap": _SAMPLES / "congestion/after.pcapng.gz",
    "before.pcapng": _SAMPLES / "congestion/before.pcapng.gz",
    "after.pcapng": _SAMPLES / "congestion/after.pcapng.gz",
    "sender.pcapng": ROOT / "testdata/l4s/sender.pcap.gz",
    "call.pcapng": _SAMPLES / "calls/sender.pcapng.gz",
    "my-model": ROOT / "testdata/cascade",
    "RUN": _SAMPLES / "congestion",
    "testbed-runs/congestion-1": _SAMPLES / "congestion",
    "testbed-runs/congestion-7": _SAMPLES / "congestion",
}
# What a killed run leaves; in the way of runs that write anew.
PARTIAL = "flows.parquet.partial"
# Folders of a log that a recorder has left, wherever a page has it.
_LOGS = ("packetlog", "log", "srv/log")
# Places outside of the folder, and a router that is not at hand.
_REWRITTEN = (
    (r"/srv/", "srv/"),
    (r"/var/lib/", "var/lib/"),
    (r"ssh router tcpdump -w -( -i \w+)?", "cat capture.pcap"),
)


def rewritten(text: str) -> str:
    """A command as it is typed in the folder."""
    for seen, typed in _REWRITTEN:
        text = re.sub(seen, typed, text)
    return text


def uses_stand_ins(command: PrintedCommand) -> bool:
    """Whether output cannot be what is shown to the byte."""
    tops = {name.partition("/")[0] for name in _CAPTURES} | {PARTIAL}
    return any(word.partition("/")[0] in tops for word in command.words)


class StandIns:
    """What takes a while to make, made once and copied into each folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._compressed()
        self._log()
        self._partial()
        self._verdicts()
        self._settings()
        # Numbers of anomalous frames of a capture.
        (self.folder / "frames.txt").write_text("12\n13\n")

    def _compressed(self) -> None:
        data = DEMO.read_bytes()
        for name in ("capture.pcap.gz", "two.pcapng.gz"):
            (self.folder / name).write_bytes(gzip.compress(data, 1))
        target = self.folder / "capture.pcap.zst"
        subprocess.run(["zstd", "-q", DEMO, "-o", target], check=True)

    def _log(self) -> None:
        done = wirelens("packetlog", "record", "-q", "-r", DEMO, "-o", self.folder / "log",
                        "--model", ROOT / "models/packetlog")  # fmt: skip
        assert done.status == 0, done.stderr

    def _partial(self) -> None:
        """A file of flows as a killed run leaves it: some rows, and a part of the next."""
        whole = self.folder / "flows.parquet"
        done = wirelens("flows", "-q", "-r", DEMO, "-o", whole)
        assert done.status == 0, done.stderr
        data = whole.read_bytes()
        (self.folder / PARTIAL).write_bytes(data + data[4:4000])
        whole.unlink()

    def _verdicts(self) -> None:
        """What a sensor said of flows."""
        done = wirelens("classify", "-q", "-r", DEMO, "--model", ROOT / "models/services",
                        "-o", self.folder / "sensor.parquet")  # fmt: skip
        assert done.status == 0, done.stderr

    def _settings(self) -> None:
        """The settings that the guide prints."""
        page = "docs/guide/packetlog.md"
        found = [block for block in blocks(page) if block.language == "toml"]
        (self.folder / "log.toml").write_text("\n".join(found[0].lines) + "\n")
        run = [block.lines for block in blocks("docs/guide/run.md") if block.language == "toml"]
        laptop = next(lines for lines in run if 'read = "capture.pcapng"' in lines)
        # One folder sees several runs.
        text = "\n".join(laptop).replace("output =", "force = true\noutput =")
        (self.folder / "wirelens.toml").write_text(text + "\n")

    def folder_at(self, folder: Path, *, was_killed: bool = False) -> Path:
        """A folder in which printed commands can be typed: as a clone, with a reader's files.

        With `was_killed` a run that was killed has left its file there.
        """
        folder.mkdir(parents=True)
        for name in _OF_THE_CLONE:
            if (ROOT / name).exists():
                (folder / name).symlink_to(ROOT / name)
        for name in _WRITTEN_INTO:
            (folder / name).mkdir()
            for path in (ROOT / name).iterdir():
                (folder / name / path.name).symlink_to(path)
        (folder / "venv").symlink_to(ROOT / ".venv")
        for place in ("bin", "target/release"):
            (folder / place).mkdir(parents=True)
            (folder / place / "wirelens").symlink_to(PROGRAM)
        for name, source in _CAPTURES.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target)
            else:
                target.symlink_to(source)
        for name in _LOGS:
            shutil.copytree(self.folder / "log", folder / name)
        shutil.copytree(ROOT / "models/packetlog", folder / "srv/models/our-traffic")
        shutil.copytree(ROOT / "testdata/l4s/model", folder / "models/mine")
        (folder / "var/lib/node_exporter").mkdir(parents=True)
        for path in self.folder.iterdir():
            if path.is_file() and (was_killed or path.name != PARTIAL):
                (folder / path.name).symlink_to(path)
        return folder


def environment(folder: Path) -> dict[str, str]:
    """That of a shell in the folder."""
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    return os.environ | {"PATH": path, "LC_ALL": "C.UTF-8", "TZ": "UTC", "NO_COLOR": "1"}
