"""Every key of the settings of `wirelens run`: rows depend on it, it says itself that they do not,
or it is refused by name."""

import re
from pathlib import Path

import pytest
from command import DEMO, Ran, wirelens

EXAMPLE = wirelens("run", "--init").stdout.decode()
# What each table needs to be whole; rows go to standard output.
ROWS = 'output = "-"\nformat = "csv"\n'
BASE = {
    "input": "", "run": "", "top": ROWS, "flows": ROWS, "classify": f'{ROWS}model = "services"\n',
    "packetlog": 'output = "log"\nfixed-mode = true\n', "cca": ROWS, "latency": ROWS,
    "unanswered": ROWS, "traffic": ROWS,
    "l4s": f'{ROWS}model = "l4s"\nto = ["*:443"]\n',
}  # fmt: skip
# By table and key: a value; `works` where rows differ, `same` where they do not depend on it by its
# own words, `refused` where captures are read; and what else has to be given.
KEYS = {
    "input": {
        "filter": ('"udp"', "works"), "count": ("100", "works"), "snaplen": ("200", "same"),
        "drop-duplicates": ('"5ms"', "same"),
        "buffer-size": ('"1M"', "refused"), "duration": ('"1s"', "refused"),
        "promiscuous": ("false", "refused"), "latency": ('"low"', "refused"),
        "pace": ("1000.0", "same"),
    },
    "run": {
        "seed": ("1", "same"), "threads": ("2", "same"),
        # Of files: tests/test_private_outputs.py has some. Of interfaces: tests/test_jail.py.
        "file-mode": ('"0640"', "same"), "user": ('"nobody"', "refused"),
        # Of faults, which none of these runs has; tests/test_faults.py makes some.
        "faults-max": ("1", "same"), "quarantine": ('"there"', "same"),
        "simulate": ('["fault=other@1"]', "refused"),
    },
    "top": {
        "by": ('"port"', "works"), "rows": ("3", "works"), "sort": ('"packets"', "works"),
        "window": ('"1s"', "works"), "max-keys": ("64", "works", 'by = "flow"\nrows = 0\n'),
        "hash-names": (f'"{DEMO}"', "works", 'by = "name"\n'),
    },
    "flows": {
        "idle-timeout": ('"1s"', "works"), "active-timeout": ('"1s"', "works"),
        "window": ('"1s"', "works"), "stats": ("true", "works"),
        "names": ('"nfstream"', "works"), "max-flows": ("64", "works"),
        "macs": ("true", "works"), "read-names": ("true", "works"), "hash-names": (f'"{DEMO}"', "works"),
        # Of files, folders and records; `test_exports.py` has them.
        "partition": ('"hour"', "refused"), "rotate-bytes": ('"1M"', "refused"),
        "rotate-time": ('"1h"', "refused"), "biflow": ("true", "refused"),
        "enterprise": ("32473", "refused"),
    },
    "classify": {
        "classes": ('"device"', "same"), "unknown-below": ("0.99", "works"),
        "waiting-max": ("1024", "same"), "max-flows": ("64", "works"),
        # The model that is named remembers no hosts; test_classify_hosts.py has one that does.
        "by": ('"host"', "refused"), "hosts-max": ("64", "same"),
        # Workers need [nats]; test_workers.py has a broker.
        "workers": ("true", "refused"), "deadline": ('"1s"', "refused"),
        "under-way-max": ("64", "refused"),
        # Of more flows than this capture has; test_classify_drift.py has them.
        "drift-flows": ("100", "same"),
    },
    "packetlog": {
        # What is in a log is the matter of `test_packetlog*.py`.
        "model": ('"packetlog"', "same"), "mode": ('"log-all"', "same"),
        # No file of this model is there; test_packetlog_calibrate.py makes some.
        "calibration": ('"none.json"', "refused"),
        "events": ('"more.jsonl"', "same"), "log": ('{ file-time = "1s" }', "same"),
        "hindsight": ('"1s"', "same"), "hindsight-bytes": ('"32M"', "same"),
        "hindsight-reach": ('"host"', "same"),
        # Of interfaces; test_packetlog_kernel_run.py has one.
        "offload": ('"xdp"', "refused"), "mirror": ("true", "refused"),
    },
    "cca": {
        "every": ('"100ms"', "works"), "rows": ("1", "works"), "slot": ('"10ms"', "works"),
        "max-flows": ("1", "works"),
        # Of two taps, which the one capture here is not.
        "passed": ('"first"', "refused"), "sample": ("0.5", "refused"),
        "each-packet": ("true", "refused"), "egress-offset": ('"1ms"', "refused"),
    },
    "latency": {
        "by": ('"packet"', "works"), "every": ('"1s"', "works", 'by = "destination"\n'),
        "delayed-ack": ('"1ms"', "works"), "sharp-change": ('"1ms"', "works"),
        "sharp-share": ("0.9", "works"), "max-flows": ("64", "works"),
        "max-waiting": ("64", "works"),
        # Of two taps, which the one capture here is not.
        "egress-offset": ('"1ms"', "refused"),
    },
    "l4s": {
        "every": ('"1s"', "works"),
        # Of L4S packets, which are none in this capture; tests/test_l4s_*.py have them.
        "margin": ('"1ms"', "same"), "max-share": ("0.1", "same"), "silence": ('"1ms"', "same"),
        "late": ('"1ms"', "same"), "tune": ('"1s"', "same"),
    },
    "unanswered": {"least-packets": ("2", "works")},
    "traffic": {"every": ('"10s"', "works")},
}  # fmt: skip
# Of which the settings above are made, and what other tests are about.
OTHERS = {
    "input": {"read", "interface"}, "classify": {"model"},
    "packetlog": {"output", "fixed-mode", "settings"}, "cca": {"model", "ingress", "egress"},
    "latency": {"egress"}, "l4s": {"model", "to"},
}  # fmt: skip
WITH_ROWS = {"output", "format", "force"}


def keys_of_example(table: str) -> set[str]:
    text = re.split(r"^(?:# )?\[", EXAMPLE.partition(f"\n[{table}]\n")[2], flags=re.M)[0]
    return set(re.findall(r"^(?:# )?([a-z][a-z-]*) = ", text, re.M))


def ran(folder: Path, application: str, tables: dict[str, str]) -> Ran:
    """A run over the capture that ships, with these lines in tables."""
    folder.mkdir()
    text = f'[input]\nread = "{DEMO}"\n{tables.get("input", "")}[run]\n{tables.get("run", "")}'
    text += f"[{application}]\n{BASE[application]}{tables.get(application, '')}"
    (folder / "wirelens.toml").write_text(text)
    return wirelens("run", "-q", "-c", "wirelens.toml", cwd=folder)


def test_every_key_of_the_example_has_a_row() -> None:
    tables = re.findall(r"^\[(\w+)\]$", EXAMPLE, re.M)
    assert set(tables) == KEYS.keys() == BASE.keys()
    for table in tables:
        known = KEYS[table].keys() | OTHERS.get(table, set())
        assert keys_of_example(table) - WITH_ROWS == known - WITH_ROWS, table


@pytest.mark.parametrize("table", KEYS)
def test_a_key_has_an_effect_or_is_refused_by_name(table: str, tmp_path: Path) -> None:
    application = table if table not in ("input", "run") else "flows"
    for key, (value, kind, *more) in KEYS[table].items():
        beside = "".join(more)
        before = ran(tmp_path / f"{key}-without", application, {table: beside})
        after = ran(tmp_path / f"{key}-with", application, {table: f"{beside}{key} = {value}\n"})
        if kind == "refused":
            assert after.status == 2 and key in after.stderr, (key, after.stderr)
        else:
            assert (before.status, after.status) == (0, 0), (key, after.stderr)
            assert (before.stdout != after.stdout) == (kind == "works"), key


@pytest.mark.parametrize(
    ("table", "lines", "named"),
    [
        ("flows", 'names = "nfstream"\nstats = true\n', "stats"),
        ("flows", 'names = "nfstream"\nmacs = true\n', "macs"),
        ("flows", 'names = "nfstream"\nwindow = "1s"\n', "window"),
    ],
)
def test_keys_without_effect_beside_another_are_refused_by_name(
    table: str, lines: str, named: str, tmp_path: Path
) -> None:
    application = table if table != "run" else "flows"
    refused = ran(tmp_path / "run", application, {table: lines})
    assert refused.status == 2 and named in refused.stderr, refused.stderr


def test_threads_beside_a_replay_are_refused_by_name(tmp_path: Path) -> None:
    refused = ran(tmp_path / "run", "flows", {"input": "pace = 1000.0\n", "run": "threads = 2\n"})
    assert refused.status == 2 and "threads" in refused.stderr, refused.stderr
