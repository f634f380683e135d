"""`wirelens run`: applications on one pass say what their commands say, and settings that make no
sense are explained."""

import csv
import re
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from captures import Frame, read_pcapng, write_pcap
from command import DEMO, PROGRAM, ROOT, captures, in_parallel, part_of, wirelens
from run_settings import SEED, SINGLE, all_on, differing, run, written

SECOND = 10**9
CAPTURES = [DEMO, *sorted((ROOT / "testdata/testbed").rglob("*.pcap*"))]


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.name)
def test_rows_are_those_of_the_commands(tmp_path: Path, capture: Path) -> None:
    assert differing(tmp_path, capture) is None


@pytest.mark.wide
@pytest.mark.parametrize(
    "folder", ["attacks", "devices", "formats", "latency", "malformed", "services"]
)
def test_rows_are_those_of_the_commands_on_any_capture(tmp_path: Path, folder: str) -> None:
    def one(path: Path) -> str | None:
        # Captures of one name lie in several folders.
        place = Path(tempfile.mkdtemp(dir=tmp_path))
        return differing(place, path)

    paths = part_of(captures(folder))
    found = {path.name: told for path, told in in_parallel(one, paths) if told}
    assert not found


def test_rows_of_a_folder_name_their_captures(tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    folder.mkdir()
    for name in ("a.pcapng", "b.pcapng"):
        (folder / name).write_bytes(DEMO.read_bytes())
    assert differing(tmp_path, folder) is None
    tables = all_on(tmp_path, folder)
    ran = run(tmp_path, written(tables), "-q")
    assert ran.status == 0, ran.stderr
    assert "a.pcapng" in (tmp_path / "flows.csv").read_text()


@pytest.mark.parametrize("settings", [{}, {"names": "nfstream"}, {"window": "1s"}], ids=str)
def test_many_flows_are_the_same_on_any_number_of_threads(
    tmp_path: Path, settings: dict[str, object]
) -> None:
    """Flows that end all the time, and more that are left than cross threads at once; the example
    application and the packet log beside them."""
    capture = tmp_path / "many.pcap"
    write_pcap(capture, many_flows())
    of_threads = {}
    for count in (1, 2, 5):
        folder = tmp_path / str(count)
        folder.mkdir()
        tables = all_on(folder, capture)
        tables["flows"] |= {"idle-timeout": "120s"} | settings
        tables["unanswered"] = {"output": folder / "unanswered.csv"}
        # A block that waits for the clock is cut where the machine happens to be.
        tables["packetlog"] = {"output": folder / "log", "log": {"flush": "1h"}}
        if "names" in settings:
            # NFStream's columns have statistics already.
            del tables["flows"]["stats"]
        if "window" in settings:
            # A model of flows is asked about whole ones.
            del tables["classify"]
        ran = run(folder, written(tables), "--threads", str(count))
        assert ran.status == 0, ran.stderr
        rows = {path.name: path.read_bytes() for path in folder.glob("*.csv")}
        kept = [path.read_bytes() for path in sorted((folder / "log").glob("*.pcapng"))]
        of_threads[count] = (rows, kept, ran.stderr.replace(str(folder), ""))
    assert of_threads[2] == of_threads[1]
    assert of_threads[5] == of_threads[1]
    rows, kept, _ = of_threads[1]
    assert rows["flows.csv"].count(b"\n") > 30_000 and kept


def many_flows() -> Iterator[Frame]:
    """30,000 flows of one packet, or one each way, over ten minutes: early ones end, late ones are
    left."""
    for number in range(30_000):
        time_ns = number * 20_000_000
        client = (0x0A000000 + number, 1024 + number % 5000)
        server = (0xC0000200 + number % 7, (53, 123, 443)[number % 3])
        yield udp(time_ns, client, server, number % 90)
        if number % 2:
            yield udp(time_ns + 1_000_000, server, client, 20)


def udp(time_ns: int, source: tuple[int, int], target: tuple[int, int], size: int) -> Frame:
    """A UDP datagram between addresses and ports."""
    ports = struct.pack(">HHHH", source[1], target[1], 8 + size, 0)
    address = struct.pack(">II", source[0], target[0])
    header = struct.pack(">BBHHHBBH", 0x45, 0, 28 + size, 0, 0, 64, 17, 0)
    data = bytes(12) + b"\x08\x00" + header + address + ports + bytes(size)
    return Frame(time_ns, data, len(data))


def test_a_replay_says_the_same(tmp_path: Path) -> None:
    tables = all_on(tmp_path, DEMO)
    assert run(tmp_path, written(tables), "-q").status == 0
    kept = {name: (tmp_path / f"{name}.csv").read_bytes() for name in ("top", "flows")}
    for name in SINGLE:
        (tmp_path / f"{name}.csv").unlink()
    assert run(tmp_path, written(tables), "-q", "--pace", "1000").status == 0
    assert {name: (tmp_path / f"{name}.csv").read_bytes() for name in kept} == kept


def test_each_application_accounts_for_every_packet(tmp_path: Path) -> None:
    ran = run(tmp_path, written(all_on(tmp_path, DEMO)))
    assert ran.status == 0, ran.stderr
    for name in SINGLE:
        assert f"\n{name}: 4944 received = 4944 processed + 0 filtered" in ran.stderr


def test_what_init_prints_is_taken(tmp_path: Path) -> None:
    text = wirelens("run", "--init").stdout.decode()
    checked = run(tmp_path, text, "-r", DEMO, "--check")
    assert checked.status == 0, checked.stderr
    # Every line that is left out says the same as the default that it shows.
    plain = "\n".join(line.removeprefix("# ") if "= " in line and line[2:3].islower() else line
                      for line in text.splitlines() if "unless" not in line)  # fmt: skip
    for name in SINGLE:
        assert f"\n[{name}]\n" in plain


def test_settings_of_the_guide_are_taken(tmp_path: Path) -> None:
    before, places = (ROOT / "docs/guide/run.md").read_text().split("## Settings for five places")
    blocks = re.compile(r"```toml\n(.*?)```", re.DOTALL)
    whole = blocks.findall(places)
    # Those of two taps are in tests/test_run_taps.py.
    [rules] = [block for block in blocks.findall(before) if "[[rule]]" in block]
    assert len(whole) == 5
    applications = (
        '[classify]\nmodel = "services"\noutput = "a.csv"\n[packetlog]\n[cca]\noutput = "b.csv"\n'
        '[flows]\noutput = "c.csv"\n[[indicators]]\nname = "list"\nkind = "ip"\n'
        f'file = "{tmp_path}/list.txt"\n'
    )
    (tmp_path / "list.txt").write_text("192.0.2.1\n")
    for text in [*whole, applications + rules]:
        ran = run(tmp_path, text, "-r", DEMO, "--check")
        assert ran.status == 0, (text, ran.stderr)


Settings = dict[str, dict[str, object]]


def changed(**more: dict[str, object]) -> Callable[[Path], Settings]:
    """All applications, with some settings changed."""

    def tables(folder: Path) -> Settings:
        tables = all_on(folder, DEMO)
        for name, settings in more.items():
            tables.setdefault(name, {}).update(settings)
        return tables

    return tables


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        (changed(flow={"output": "x.csv"}), ": there is no table [flow]; did you mean `flows`?"),
        (changed(flows={"ouput": "-"}), "[flows] has no key `ouput`; did you mean `output`?"),
        (changed(flows={"bogus": 1}), "[flows] has no key `bogus`; wanted: one of output, format, force, idle-timeout,"),
        (changed(flows={"idle-timout": "3s"}), "[flows] has no key `idle-timout`; did you mean `idle-timeout`?"),
        (changed(flows={"idle-timeout": 5}), "[flows] idle-timeout: wanted a number with a unit"),
        (changed(flows={"idle-timeout": "60s"}), "[flows] wants an idle timeout of 60 s, [classify] wants 120 s"),
        (changed(flows={"window": "1s"}), "[flows] wants windows of 1 s"),
        (changed(top={"by": "sender"}), "[top] by: `sender` is not a key to aggregate by"),
        (changed(classify={"model": "servces"}), "[classify] model: servces: no shipped model"),
        (changed(classify={"unknown-below": 2}), "[classify] unknown-below: "),
        (changed(input={"pace": 0}), "[input] pace = 0; wanted 0.001"),
        (changed(run={"threads": 0}), "[run] threads = 0; wanted 1 to 256"),
        (changed(run={"threads": 2}, input={"pace": 1}), "threads has no effect on a replay"),
        (changed(input={"buffer-size": "1M"}), "buffer-size has no effect on captures"),
        (changed(flows={"format": "xml"}), "[flows] format: "),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_mistakes_are_told_with_their_line(
    tmp_path: Path, tables: Callable[[Path], Settings], told: str
) -> None:
    ran = run(tmp_path, written(tables(tmp_path)), "--check")
    assert ran.status == 2
    line = next((line for line in ran.stderr.splitlines() if told in line), None)
    assert line, ran.stderr
    assert line.startswith(f"wirelens: {tmp_path}/wirelens.toml:")
    assert not list(tmp_path.glob("*.csv*"))


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    text = '[flows]\nidle = 1\nstats = 3\n[top]\nrows = "x"\n[tops]\n'
    ran = run(tmp_path, text, "-r", DEMO)
    lines = [line.split(": ")[1].rsplit(":", 1)[1] for line in ran.stderr.splitlines()]
    # Rows of flows and of top go nowhere as well.
    assert (ran.status, lines) == (2, ["1", "2", "3", "4", "5", "6"]), ran.stderr


def test_what_is_no_toml_is_told_with_its_line(tmp_path: Path) -> None:
    ran = run(tmp_path, "[flows]\noutput = x.csv\n", "-r", DEMO)
    assert ran.status == 2
    assert f"{tmp_path}/wirelens.toml:2: " in ran.stderr


def test_an_output_that_exists_ends_the_run_before_it_begins(tmp_path: Path) -> None:
    tables = all_on(tmp_path, DEMO) | {"packetlog": {"output": tmp_path / "log"}}
    tables["unanswered"] = {"output": tmp_path / "unanswered.csv"}
    (tmp_path / "unanswered.csv").write_text("mine")
    ran = run(tmp_path, written(tables))
    assert ran.status == 1 and not (tmp_path / "log").exists()
    (tmp_path / "unanswered.csv").unlink()
    (tmp_path / "classify.csv").write_text("mine")
    ran = run(tmp_path, written(tables))
    assert ran.status == 1
    assert "[classify] output: " in ran.stderr and "force = true" in ran.stderr
    assert (tmp_path / "classify.csv").read_text() == "mine"
    assert not (tmp_path / "flows.csv").exists(), "a file of rows, and no run"
    tables["classify"]["force"] = True
    assert run(tmp_path, written(tables), "-q").status == 0


def test_a_capture_is_no_output(tmp_path: Path) -> None:
    capture = tmp_path / "flows.csv"
    capture.write_bytes(DEMO.read_bytes())
    tables = all_on(tmp_path, capture)
    tables["flows"]["force"] = True
    ran = run(tmp_path, written(tables))
    assert ran.status == 2 and "would overwrite" in ran.stderr
    assert capture.read_bytes() == DEMO.read_bytes()


def test_a_full_disk_is_an_error_and_names_the_file(tmp_path: Path) -> None:
    tables = all_on(tmp_path, DEMO)
    tables["flows"] |= {"output": "/dev/full", "format": "csv"}
    ran = run(tmp_path, written(tables))
    assert ran.status == 1
    assert "/dev/full" in ran.stderr or "No space left" in ran.stderr


def test_rows_on_standard_output(tmp_path: Path) -> None:
    tables = all_on(tmp_path, DEMO)
    tables["classify"] |= {"output": "-", "format": "csv"}
    ran = run(tmp_path, written(tables), "-q")
    shown = ["-q", "--seed", str(SEED), "--format", "csv"]
    single = wirelens("classify", "--model", "services", "-r", DEMO, *shown)
    assert ran.stdout == single.stdout


def test_a_reader_that_has_seen_enough_ends_the_run_in_silence(tmp_path: Path) -> None:
    tables = all_on(tmp_path, DEMO)
    tables["flows"] |= {"output": "-", "format": "csv"}
    path = tmp_path / "wirelens.toml"
    path.write_text(written(tables))
    shell = f"{PROGRAM} run -q -c {path} | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ({"service": "ssh"}, "has no action"),
        ({"cca": True}, "has no condition"),
        (
            {"service": "ssh", "device": "Aria", "cca": True},
            "more than one of service, device",
        ),
        (
            {"service": "ssh", "keep": "full"},
            "keep: needs a [packetlog] table",
        ),
        ({"device": "Aria", "cca": True}, "no application of this run provides it"),
        ({"service": "sshh", "cca": True}, "has no `sshh`; did you mean `ssh`?"),
        (
            {"service": "ssh", "kep": "full"},
            "[rule] has no key `kep`; did you mean `keep`?",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_rules_that_make_no_sense_are_explained(
    tmp_path: Path, rule: dict[str, object], told: str
) -> None:
    ran = run(tmp_path, written(all_on(tmp_path, DEMO), [rule]), "--check")
    assert ran.status == 2
    assert told in ran.stderr


def frames_of(log: Path, flow: str, place: Path) -> list[Frame]:
    """The packets of a flow in a log."""
    found = place / "found.pcapng"
    asked = [
        "packetlog",
        "query",
        "-q",
        "-l",
        log,
        "--flow",
        flow,
        "-w",
        found,
        "--force",
    ]
    assert wirelens(*asked).status == 0
    return list(read_pcapng(found))


def test_a_log_is_that_of_the_command(tmp_path: Path) -> None:
    tables = {
        "input": {"read": DEMO},
        "run": {"seed": SEED},
        "packetlog": {"output": tmp_path / "a"},
    }
    tables["flows"] = {"output": tmp_path / "flows.csv"}
    ran = run(tmp_path, written(tables))
    assert ran.status == 0, ran.stderr
    single = [
        "packetlog",
        "record",
        "-r",
        DEMO,
        "-o",
        tmp_path / "b",
        "--seed",
        str(SEED),
    ]
    told = wirelens(*single).stderr
    assert [
        line
        for line in told.splitlines()
        if line.startswith("packetlog: ") and line not in ran.stderr
    ] == []
    logs = [
        {path.name: path.read_bytes() for path in (tmp_path / log).glob("*.pcapng")} for log in "ab"
    ]
    assert logs[0] == logs[1] and logs[0]


def test_packets_of_a_service_are_kept_whole_from_the_one_after_its_verdict(
    tmp_path: Path,
) -> None:
    """What a rule does begins behind the packet that decided, wherever batches end."""
    whole = [
        "packetlog",
        "record",
        "-q",
        "-r",
        DEMO,
        "-o",
        tmp_path / "all",
        "--mode",
        "log-all",
    ]
    assert wirelens(*whole).status == 0
    tables = all_on(tmp_path, DEMO)
    tables["packetlog"] = {"output": tmp_path / "log", "mode": "log-minimum"}
    rules = [{"service": ["http", "ssh"], "keep": "full"}]
    ran = run(tmp_path, written(tables, rules), "-q")
    assert ran.status == 0, ran.stderr
    rows = list(csv.DictReader((tmp_path / "classify.csv").open()))
    chosen = [
        row for row in rows if row["label"] in ("http", "ssh") and row["cause"] == "confident"
    ]
    assert len(chosen) > 3
    cut = 0
    for row in chosen:
        sent = frames_of(tmp_path / "all", row["community_id"], tmp_path)
        kept = {
            frame.time_ns: frame
            for frame in frames_of(tmp_path / "log", row["community_id"], tmp_path)
        }
        behind = int(row["packets_used"])
        for frame in sent[behind:]:
            assert kept[frame.time_ns].data == frame.data, row
        cut += sum(kept.get(frame.time_ns) != frame for frame in sent[:behind])
    assert cut, "packets before the verdict are kept by the mode"


def test_only_flows_of_many_bytes_are_followed(tmp_path: Path) -> None:
    tables = all_on(tmp_path, DEMO)
    assert run(tmp_path, written(tables), "-q").status == 0
    before = list(csv.DictReader((tmp_path / "cca.csv").open()))
    for name in SINGLE:
        tables[name]["force"] = True
    assert run(tmp_path, written(tables, [{"bytes": "16K", "cca": True}]), "-q").status == 0
    after = list(csv.DictReader((tmp_path / "cca.csv").open()))
    flows = list(csv.DictReader((tmp_path / "flows.csv").open()))
    heavy = {
        f["community_id"] for f in flows if int(f["src_bytes"]) + int(f["dst_bytes"]) >= 16 << 10
    }
    told = {row["community_id"] for row in after}
    assert told and told <= heavy and len(told) < len({row["community_id"] for row in before})


@pytest.mark.parametrize("rules", [[], [{"anomaly": "any", "cca": False}]])
def test_rules_change_nothing_but_what_they_are_about(
    tmp_path: Path, rules: list[dict[str, object]]
) -> None:
    tables = all_on(tmp_path, DEMO) | {"packetlog": {"output": tmp_path / "log"}}
    assert run(tmp_path, written(tables, rules), "-q").status == 0
    for name in ("top", "flows", "classify"):
        single = wirelens(*SINGLE[name][1], "-r", DEMO, "-q", "--format", "csv")
        assert (tmp_path / f"{name}.csv").read_bytes() == single.stdout, name


def test_flows_that_nobody_answered(tmp_path: Path) -> None:
    def segment(port: int, answers: bool, at_s: float) -> Frame:
        ends = bytes((10, 0, 0, 1)), bytes((10, 0, 0, 2))
        ports = port.to_bytes(2), (80).to_bytes(2)
        order = -1 if answers else 1
        udp = b"".join(ports[::order]) + (9).to_bytes(2) + bytes(2) + b"x"
        ip = bytes((0x45, 0, 0, 20 + len(udp), 0, 0, 0, 0, 64, 17, 0, 0)) + b"".join(ends[::order])
        data = bytes(12) + b"\x08\x00" + ip + udp
        return Frame(int((10**9 + at_s) * SECOND), data, len(data))

    capture = tmp_path / "a.pcap"
    frames = [segment(1, False, 0), segment(1, True, 1), segment(2, False, 2), segment(2, False, 3),
              segment(3, False, 4)]  # fmt: skip
    write_pcap(capture, frames)
    tables = {
        "input": {"read": capture},
        "unanswered": {"output": "-", "format": "csv"},
    }
    rows = run(tmp_path, written(tables), "-q").rows
    assert [(row["src_ip"], row["dst_port"], row["packets"]) for row in rows] == [
        ("10.0.0.1", "80", "2"), ("10.0.0.1", "80", "1")
    ]  # fmt: skip
    tables["unanswered"]["least-packets"] = 2
    assert len(run(tmp_path, written(tables), "-q").rows) == 1
