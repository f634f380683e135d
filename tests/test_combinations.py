"""Every option of every command, in each way that the command is used: it has an effect, or it is
refused by name. `test_cca_flags.py` has the same for `cca`."""

import re
import struct
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
from captures import Frame, write_pcap
from command import DEMO, ROOT, wirelens

MANY = "manyflows"
HOSTS = str(ROOT / "testdata/cascade-hosts")


@dataclass(frozen=True)
class Option:
    """What is given with an option, and in which ways of use it works."""

    values: tuple[str, ...] = ()
    works: str = ""
    """Ways in which what is printed or written changes."""
    same: str = ""
    """Ways in which it works by its own words without that: threads, memory, order of work."""
    beside: tuple[str, ...] = ()
    """What else is given, in both runs that are compared."""
    read: str = ""
    """Another capture than the usual one, in which the difference can be seen."""


@dataclass(frozen=True, eq=False)
class Command:
    """A command, the ways in which it is used, and its options."""

    words: tuple[str, ...]
    ways: dict[str, tuple[str, ...]]
    options: dict[str, Option]
    others: frozenset[str] = field(default=frozenset({"--help"}))
    """Options of which the ways are made, and what is tested elsewhere."""


def inputs(works: str, same: str = "", live: str = "") -> dict[str, Option]:
    """What all commands that read captures have; `live` are the ways with an interface."""
    return {
        "--filter": Option(("udp",), works, live),
        "--count": Option(("100",), works, live),
        "--no-decap": Option((), works, live, read="tunnel"),
        # No packet is twice in the capture here; `test_duplicates.py` has some.
        "--drop-duplicates": Option((), "", f"{works} {live} {same}"),
        "--threads": Option(("1",), "", f"{works} {live} {same}"),
        "--seed": Option(("1",), "", f"{works} {live} {same}"),
        "--check": Option((), works, live),
        "--quiet": Option((), works, f"{live} {same}"),
        # tests/test_jail.py looks at what threads may do with it and without.
        "--no-jail": Option((), "", f"{works} {live} {same}"),
    }


def of_interface(live: str) -> dict[str, Option]:
    return {
        "--no-promiscuous-mode": Option((), "", live),
        "--buffer-size": Option(("512",), "", live),
        "--latency": Option(("low",), "", live),
        "--duration": Option(("10ms",), "", live),
        "--user": Option(("nobody",), "", live),
    }


READ, CSV, LIVE = ("-r", "{capture}"), ("--format", "csv"), ("-i", "nowhere0")
FILE = {
    "table": ("-r", "{capture}"), "csv": (*READ, *CSV), "live": LIVE, "live-csv": (*LIVE, *CSV),
}  # fmt: skip
COMMANDS = {
    "top": Command(
        ("top",),
        FILE,
        inputs("table csv", live="live live-csv") | of_interface("live live-csv") | {
            "--snapshot-length": Option(("70",), "", "table csv live live-csv"),
            "--by": Option(("port",), "table csv", "live live-csv"),
            "--rows": Option(("3",), "table csv", "live live-csv"),
            "--sort": Option(("packets",), "table csv", "live live-csv"),
            "--window": Option(("1s",), "table csv", "live live-csv"),
            "--max-keys": Option(
                ("64",), "table csv", "live live-csv", ("--by", "flow", "-n", "0"), MANY
            ),
            # Any file of 32 bytes or more is a key.
            "--hash-names": Option((str(DEMO),), "table csv", "live live-csv", ("--by", "name")),
        },
        frozenset({"--help", "--read", "--interface", "--format", "--output", "--force"}),
    ),
    "flows": Command(
        ("flows",),
        FILE | {
            "nfstream": (*READ, *CSV, "--names", "nfstream"),
            "model": (*READ, *CSV, "--model", "services"),
            "live-model": (*LIVE, *CSV, "--model", "services"),
            "eve": (*READ, "--format", "eve"),
            "ipfix": (*READ, "-o", "flows.ipfix"),
            "folders": (*READ, "-o", "flows", "--partition", "minute"),
        },
        inputs("table csv nfstream model eve ipfix folders", live="live live-csv live-model")
        | of_interface("live live-csv live-model")
        | {
            # A model says by which headers it was trained.
            "--no-decap": Option(
                (), "table csv nfstream eve ipfix folders", "live live-csv", read="tunnel"
            ),
            # Names in the payload are cut.
            "--snapshot-length": Option(
                ("200",), "eve", "table csv nfstream model ipfix folders live live-csv live-model"
            ),
            "--rows": Option(("3",), "table"),
            "--sort": Option(("packets",), "table"),
            "--idle-timeout": Option(
                ("1s",), "table csv nfstream eve ipfix folders", "live live-csv"
            ),
            "--active-timeout": Option(
                ("1s",), "table csv nfstream eve ipfix folders", "live live-csv"
            ),
            "--window": Option(("1s",), "table csv nfstream folders", "live live-csv"),
            "--stats": Option((), "csv model folders", "live-csv live-model"),
            "--macs": Option((), "csv model eve folders ipfix", "live-csv live-model"),
            "--names": Option(("nfstream",), "csv", "live-csv"),
            "--read-names": Option((), "table csv folders", "live live-csv"),
            "--hash-names": Option((str(DEMO),), "table csv eve folders", "live live-csv"),
            "--max-flows": Option(
                ("64",), "table csv nfstream model eve ipfix folders",
                "live live-csv live-model", read=MANY,
            ),
            "--partition": Option(("minute",)),
            # Parquet is written a row group at a time, which this capture does not fill.
            "--rotate-bytes": Option(("1K",), "ipfix", "folders"),
            "--rotate-time": Option(("5s",), "ipfix"),
            "--biflow": Option((), "ipfix"),
            "--enterprise": Option(("32473",), "ipfix"),
            "--model": Option(("services",), "csv eve folders", "live-csv"),
            "--unknown-below": Option(("0.99",), "model", "live-model"),
        },
        frozenset({"--help", "--read", "--interface", "--format", "--output", "--force"}),
    ),
    "classify": Command(
        ("classify", "--model", "services"),
        FILE | {"eve": (*READ, "--format", "eve"), "pace": (*READ, "--pace", "1000", *CSV)},
        inputs("table csv eve pace", live="live live-csv") | of_interface("live live-csv") | {
            "--no-decap": Option(),
            "--snapshot-length": Option(("200",), "", "table csv eve pace live live-csv"),
            "--pcapng": Option(("out.pcapng",), "table csv eve pace"),
            "--unknown-below": Option(("0.99",), "table csv eve pace", "live live-csv"),
            # The model that is named was trained on whole flows.
            "--every": Option(("1s",)),
            "--pace": Option(("1000",), "csv", "table eve"),
            "--consumers": Option(("2",), "", "table csv eve pace live live-csv"),
            "--waiting-max": Option(("1024",), "", "table csv eve pace live live-csv"),
            "--max-flows": Option(("64",), "table csv eve pace", "live live-csv", read=MANY),
            # The model that is named remembers no hosts.
            "--by": Option(("host",)),
            "--hosts-max": Option(("64",), "", "table csv eve pace live live-csv"),
        },
        frozenset({"--help", "--read", "--interface", "--format", "--output", "--force",
                   "--model"}),
    ),
    "classify --by host": Command(
        ("classify", "--model", HOSTS),
        {name: (*way, "--by", "host") for name, way in FILE.items()},
        inputs("table csv", live="live live-csv") | of_interface("live live-csv") | {
            "--no-decap": Option(),
            "--snapshot-length": Option(("200",), "", "table csv live live-csv"),
            "--pcapng": Option(("out.pcapng",)),
            # What hosts are does not depend on how sure a flow's verdict has to be.
            "--unknown-below": Option(("0.99",), "", "table csv live live-csv"),
            "--every": Option(("1s",)),
            "--pace": Option(("1000",), "", "table csv"),
            "--consumers": Option(("2",)),
            "--waiting-max": Option(("1024",), "", "table csv live live-csv"),
            "--max-flows": Option(("64",), "", "table csv live live-csv"),
            # Each host there has one flow, of which its row says all.
            "--hosts-max": Option(("64",), "table", "csv live live-csv", read=MANY),
        },
        frozenset({"--help", "--read", "--interface", "--format", "--output", "--force",
                   "--model", "--by"}),
    ),
    "latency": Command(
        ("latency",),
        FILE | {
            "packet": (*READ, *CSV, "--by", "packet"),
            "destination": (*READ, *CSV, "--by", "destination"),
        },
        inputs("table csv packet destination", live="live live-csv")
        | of_interface("live live-csv")
        | {
            # Nothing is answered in what the tunnels carry.
            "--no-decap": Option(
                (), "", "table csv packet destination live live-csv", read="tunnel"
            ),
            "--snapshot-length": Option(("200",), "", "table csv packet destination live live-csv"),
            "--by": Option(("destination",), "table csv", "live"),
            "--every": Option(("1s",), "destination"),
            "--rows": Option(("3",), "table", "live"),
            "--sort": Option(("p99",), "table", "live"),
            "--delayed-ack": Option(
                ("1ms",), "csv packet destination", "table live live-csv"
            ),
            "--sharp-change": Option(("1ms",), "csv packet destination", "table live live-csv"),
            "--sharp-share": Option(
                ("0.01",), "", "table csv packet destination live live-csv",
            ),
            "--max-flows": Option(("64",), "csv packet destination", "table live live-csv"),
            "--max-waiting": Option(("64",), "", "table csv packet destination live live-csv"),
        },
        frozenset({"--help", "--read", "--interface", "--format", "--output", "--force",
                   "--egress", "--egress-offset"}),
    ),
    "info": Command(
        ("info",),
        {"table": READ, "csv": (*READ, *CSV)},
        inputs("table csv") | {
            "--drop-duplicates": Option(), "--snapshot-length": Option(("70",), "table csv"),
        },
        frozenset({"--help", "--read", "--format", "--output", "--force"}),
    ),
    "nprint": Command(
        ("nprint",),
        {
            "packets": (*READ, "-4"), "flows": (*READ, "-4", "--depth", "2"),
            "steps": (*READ, "--depth", "2", "--sequences"), "schema": ("--schema", "-4"),
        },
        inputs("packets flows steps") | {
            "--no-decap": Option((), "packets flows steps schema", read="tunnel"),
            "--quiet": Option((), "packets flows steps", "schema"),
            "--snapshot-length": Option(("70",), "", "packets flows steps"),
            "--format": Option(("jsonl",), "packets flows steps"),
            "--output": Option(("out.csv",), "packets flows steps"),
            # Its place is taken by -4, which is given in three of these ways.
            "--ipv4": Option((), "packets flows schema"),
            "--ipv6": Option((), "packets flows schema"),
            "--tcp": Option((), "packets flows schema"),
            "--udp": Option((), "packets flows schema"),
            "--icmp": Option((), "packets flows schema"),
            "--payload": Option(("4",), "packets flows schema"),
            "--fill": Option(("2",), "packets flows schema", beside=("-t",)),
            "--exclude": Option(("ttl",), "packets flows schema"),
            "--no-addresses": Option((), "packets flows schema"),
            "--no-ports": Option((), "packets flows schema", beside=("-t",)),
            "--index": Option(("flow",), "packets"),
            "--relative-timestamps": Option((), "packets"),
            "--absolute-timestamps": Option((), "packets"),
            "--all-ip": Option((), "packets"),
            "--depth": Option(("3",), "packets schema"),
            "--idle-timeout": Option(("10ms",), "flows steps"),
            "--active-timeout": Option(("10ms",), "flows steps"),
            "--max-flows": Option(("64",), "flows steps", read=MANY),
        },
        frozenset({"--help", "--read", "--force", "--sequences", "--schema"}),
    ),
    "packetlog query": Command(
        ("packetlog", "query", "--log", "{log}"),
        {"count": (), "write": ("--write", "-"), "list": ("--list", "hosts")},
        {
            "--host": Option(("192.0.2.1",), "count write list"),
            "--flow": Option(("1:AAAAAAAAAAAAAAAAAAAAAAAAAAA=",), "count write list"),
            "--class": Option(("benign",), "count write list"),
            "--from": Option(("2030-01-01T00:00:00Z",), "count write list"),
            "--to": Option(("2020-01-01T00:00:00Z",), "count write list"),
            "--count": Option(("3",), "count write list"),
            "--list": Option(("sessions",), "count"),
            "--format": Option(("csv",), "list"),
            "--quiet": Option((), "count write list"),
            "--no-jail": Option((), "", "count write list"),
        },
        frozenset({"--help", "--log", "--write", "--force"}),
    ),
    "packetlog stats": Command(
        ("packetlog", "stats", "--log", "{log}"),
        {"table": (), "why": ("--why", "flows")},
        {
            "--format": Option(("csv",), "table why"),
            "--output": Option(("out.csv",), "table why"),
            "--host": Option(("192.0.2.1",), "why"),
            "--flow": Option(("1:AAAAAAAAAAAAAAAAAAAAAAAAAAA=",), "why"),
            "--no-jail": Option((), "", "table why"),
        },
        frozenset({"--help", "--log", "--force", "--why"}),
    ),
    "packetlog verify": Command(
        ("packetlog", "verify", "--log", "{log}"),
        {"head": ("--head",)},
        {"--anchor": Option(("heads",), ""), "--no-jail": Option((), "", "head")},
        # What `--anchor` does is the matter of `test_packetlog_verify.py`.
        frozenset({"--help", "--log", "--head"}),
    ),
    "packetlog record": Command(
        ("packetlog", "record", "-o", "log"),
        {"captures": READ, "live": LIVE},
        inputs("captures", live="live") | of_interface("live") | {
            # What is in a log is the matter of `test_packetlog*.py`: here nothing is refused.
            name: Option(values, "", "captures live") for name, values in {
                "--no-decap": (), "--drop-duplicates": (), "--snapshot-length": ("200",),
                "--model": ("packetlog",), "--mode": ("log-all",), "--file-bytes": ("8M",), "--file-time": ("1s",),
                "--keep-bytes": ("1G",), "--keep-time": ("1h",), "--when-full": ("overwrite",),
                "--direct": ("never",), "--block-bytes": ("1M",), "--blocks": ("8",),
                "--flush": ("1s",), "--sync": (), "--group-readable": (),
                "--notes": ("comment",), "--encoding": ("compact",), "--compress": (),
                "--anchor": ("../heads",), "--fixed-mode": (),
                "--hindsight": ("1s",), "--hindsight-bytes": ("32M",), "--hindsight-reach": ("host",),
                "--events": ("events.jsonl",), "--threads": ("1",), "--seed": ("1",),
            }.items()
        },
        # Of a calibration's file, `test_packetlog_calibrate.py` has some; of interfaces with
        # mirrored traffic, `test_packetlog_kernel.py`.
        frozenset({"--help", "--read", "--interface", "--output", "--settings", "--calibration",
                   "--offload", "--mirror"}),
    ),
    "packetlog calibrate": Command(
        ("packetlog", "calibrate", "-o", "calibration.json"),
        {"captures": (*READ, "--budget", "50%"), "live": (*LIVE, "--budget", "50%")},
        inputs("captures", live="live") | {
            # What is calibrated is the matter of `test_packetlog_calibrate.py`.
            name: Option(values, "", "captures live") for name, values in {
                "--no-decap": (), "--drop-duplicates": (), "--snapshot-length": ("200",),
                "--model": ("packetlog",), "--force": (), "--threads": ("1",), "--seed": ("1",),
                "--quiet": (), "--budget": ("40%",),
            }.items()
        } | {"--for": Option(("1s",), "", "live")},
        frozenset({"--help", "--read", "--interface", "--output", "--settings"}),
    ),
    "simulate packetlog": Command(
        ("simulate", "packetlog", "--format", "csv"),
        {"captures": READ, "workload": ("--workload", "w1", "--for", "100us")},
        inputs("captures") | {
            # What these change is the matter of other commands' tests.
            "--no-decap": Option((), "", "captures"),
            "--snapshot-length": Option(("200",), "", "captures"),
            "--model": Option(("packetlog",), "", "captures"),
            # The model that ships reads states of connections.
            "--integer": Option(),
            "--for": Option(("50us",), "workload"),
            "--gbps": Option(("100",), "captures workload"),
            "--mode": Option(("log-all",), "captures workload"),
            "--anomalous": Option(("{frames}",), "captures"),
            "--output": Option(("out.csv",), "captures workload"),
        },
        frozenset({"--help", "--read", "--workload", "--format", "--force"}),
    ),
}  # fmt: skip


def packet(source: int, port: int, size: int = 8) -> bytes:
    """An IPv4 packet of UDP."""
    udp = struct.pack("!4H", port, 53, 8 + size, 0) + bytes(size)
    head = struct.pack("!2B3H2BH2I", 69, 0, 20 + len(udp), 0, 0, 64, 17, 0, source, 0xC0000201)
    return head + udp


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Captures in which an effect can be seen, and a log."""
    folder = tmp_path_factory.mktemp("combinations")
    ethernet = bytes(12) + b"\x08\x00"
    inner = [packet(0x0A000001, 1000 + number) for number in range(20)]
    tunnelled = [
        struct.pack("!2B3H2BH2I", 69, 0, 20 + len(one), 0, 0, 64, 4, 0, 0xC6336401, 0xC6336402)
        + one for one in inner
    ]  # fmt: skip
    frames = [Frame(1_700_000_000 * 10**9 + at * 10**6, ethernet + one, 14 + len(one))
              for at, one in enumerate(tunnelled)]  # fmt: skip
    write_pcap(folder / "tunnel.pcap", frames)
    many = [packet(0x0A000000 + at % 5_000, 1000) for at in range(20_000)]
    frames = [Frame(1_700_000_000 * 10**9 + at * 10**5, ethernet + one, 14 + len(one))
              for at, one in enumerate(many)]  # fmt: skip
    write_pcap(folder / "many.pcap", frames)
    log = folder / "log"
    ran = wirelens("packetlog", "record", "-q", "-r", DEMO, "-o", log, "--fixed-mode")
    assert ran.status == 0, ran.stderr
    numbers = folder / "frames.txt"
    numbers.write_text("3\n")
    return {"": str(DEMO), "tunnel": str(folder / "tunnel.pcap"), MANY: str(folder / "many.pcap"),
            "log": str(log), "frames": str(numbers)}  # fmt: skip


@cache
def help_of(command: Command) -> dict[str, str]:
    """Its options, each with its short form or nothing."""
    words = [word for word in command.words if re.fullmatch("[a-z]+", word)]
    subcommand = words[:2] if words[0] in ("packetlog", "simulate") else words[:1]
    text = wirelens(*subcommand, "--help").stdout.decode()
    found = re.findall(r"^\s+(?:(-\w), )?(--[a-z0-9-]+)", text, re.MULTILINE)
    return {long: short for short, long in found}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_the_help_has_a_row(name: str) -> None:
    command = COMMANDS[name]
    found = help_of(command).keys()
    assert found - {"--file-mode"} == command.options.keys() | command.others
    # test_private_outputs.py has those that take it.
    assert ("--file-mode" in found) == ("--force" in found)


def seen(words: tuple[str, ...], folder: Path, with_messages: bool) -> tuple[object, str]:
    """Status, what was printed and written, and the messages."""
    folder.mkdir()
    ran = wirelens(*words, cwd=folder)
    files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    messages = ran.stderr if with_messages else ""
    return (ran.status, ran.stdout, files, messages), ran.stderr


def faults(name: str, way: str, places: dict[str, str], folder: Path) -> list[str]:
    """Options that are ignored, or refused without their names."""
    command, found = COMMANDS[name], []
    for number, (option, row) in enumerate(command.options.items()):
        capture = {"{capture}": places[row.read]}
        capture |= {f"{{{place}}}": places[place] for place in ("log", "frames")}
        given = (*command.words, *command.ways[way], *row.beside)
        words = tuple(capture.get(word, word) for word in given)
        more = (option, *(capture.get(word, word) for word in row.values))
        names = [name for name in (option, help_of(command)[option]) if name]
        if any(name in given for name in names):
            continue
        is_live = "nowhere0" in words
        told = option == "--quiet" or name == "packetlog query"
        after, messages = seen((*words, *more), folder / f"{number}-with", told)
        status = after[0]
        if way not in row.works.split() + row.same.split():
            if status != 2 or not any(re.search(rf"{name}\b", messages) for name in names):
                found.append(f"{option}: wanted: refused by name; seen: {status}, {messages}")
        elif status != (1 if is_live else 0):
            found.append(f"{option}: wanted: accepted; seen: {status}, {messages}")
        elif way in row.works.split():
            before, _ = seen(words, folder / f"{number}-without", told)
            if before == after:
                found.append(f"{option}: accepted, and nothing is different")
    return found


WAYS = [(name, way) for name, command in COMMANDS.items() for way in command.ways]


@pytest.mark.parametrize(("name", "way"), WAYS, ids=[" ".join(one) for one in WAYS])
def test_an_option_has_an_effect_or_is_refused_by_name(
    name: str, way: str, places: dict[str, str], tmp_path: Path
) -> None:
    assert faults(name, way, places, tmp_path) == []
