"""`wirelens feedback`: which flows it collects, what it writes about them, and what it refuses."""

import csv
import importlib.util
import json
import os
import random
import re
import struct
import subprocess
import sys
from collections import Counter

import classify_flows
import pytest
import wirelens
from command import DEMO, ROOT
from wirelens.classify.labels import protocol_number, read_labels
from wirelens.feedback.__main__ import main
from wirelens.feedback.choice import Candidates
from wirelens.feedback.headers import packet_at, packet_len
from wirelens.feedback.table import sources_of
from wirelens.feedback.verdicts import Verdict, domain_of

FLOW = ("community_id", "first_ns")
SERVICES_PAYLOAD_BYTES, SERVICES_PACKETS = 24, 3
LIBRARIES = ("numpy", "sklearn", "lightgbm")
MISSING = [name for name in LIBRARIES if importlib.util.find_spec(name) is None]


def run(*arguments, status=0):
    assert main(["feedback", *map(str, arguments)]) == status


def rows_of(folder):
    with (folder / "flows.tsv").open(newline="", encoding="utf-8") as text:
        return list(csv.DictReader(text, delimiter="\t"))


def collected(folder, *arguments):
    run("-r", DEMO, "--model", "services", "-o", folder, *arguments)
    return rows_of(folder)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """What is collected of the capture that ships."""
    folder = tmp_path_factory.mktemp("feedback") / "demo"
    return folder, collected(folder, "-n", 60)


@pytest.fixture(scope="module")
def verdicts():
    """All verdicts on that capture, by flow."""
    rows = wirelens.classify_flows(DEMO, "services")
    return {(row.community_id, row.first_ns): row for row in rows}


def table_of(path, verdicts, **changes):
    """Verdicts as `wirelens classify` writes them, as JSON lines."""
    with path.open("w", encoding="utf-8") as out:
        for row in verdicts.values():
            out.write(json.dumps({**row._asdict(), **changes}) + "\n")
    return path


def made_up(count, seed=1):
    """Verdicts of some services, many of which are equally uncertain."""
    dice = random.Random(seed)
    found = []
    for index in range(count):
        port = dice.choice((53, 443, 443, 443, 8080, 20_000 + index))
        guess = dice.choice(("dns", "tls", "tls", "http"))
        server = f"198.51.100.{dice.randrange(40)}"
        found.append(
            Verdict(f"1:{index}", "tcp", "192.0.2.1", 40_000 + index % 20_000, server, port, index,
                    "unknown", guess, dice.randrange(20) / 20, "slow", 3, "last-stage", "m@0")
        )  # fmt: skip
    return found


def chosen_of(verdicts, count, limit=100_000, alike=3, seed=1):
    candidates = Candidates(limit, alike, seed)
    most = 0
    for verdict in verdicts:
        candidates.add(verdict)
        most = max(most, len(candidates))
    return candidates.chosen(count), most


def test_rows_have_what_the_model_said(demo, verdicts):
    _, rows = demo
    assert len(rows) == 60
    for row in rows:
        one = verdicts[row["community_id"], int(row["first_ns"])]
        assert (row["guess"], row["verdict"], row["cause"]) == (one.guess, one.label, one.cause)
        assert float(row["probability"]) == pytest.approx(one.guess_confidence, abs=1e-4)
        assert (row["src_ip"], row["dst_ip"]) == (one.src_ip, one.dst_ip)
        assert row["label"] == "" and row["source"] == "demo.pcapng"
        assert one.cause != "protocol" and one.guess_confidence < 0.95


def test_each_group_has_a_turn_before_one_has_two(verdicts):
    flows = [Verdict(*(getattr(row, name) for name in Verdict._fields[:-2]))
             for row in verdicts.values() if row.cause != "protocol"]  # fmt: skip
    groups = {flow.group for flow in flows}
    found, _ = chosen_of(flows, len(groups) + 5)
    assert {flow.group for flow in found[: len(groups)]} == groups
    first = [flow.uncertainty for flow in found[: len(groups)]]
    assert first == sorted(first, reverse=True)


def test_the_least_certain_flow_of_a_group_comes_first():
    found, _ = chosen_of(made_up(3000), 500, alike=3000)
    by_group = {}
    for flow in found:
        by_group.setdefault(flow.group, []).append(flow.uncertainty)
    assert any(len(values) > 1 for values in by_group.values())
    assert all(values == sorted(values, reverse=True) for values in by_group.values())


def test_few_flows_of_the_same_server_port_and_guess_are_enough(tmp_path):
    rows = collected(tmp_path / "two", "--alike", 2, "-n", 300)
    ends = Counter((row["dst_ip"], row["protocol"], row["dst_port"], row["guess"]) for row in rows)
    assert max(ends.values()) == 2
    # Most of them stand for more flows than are here.
    most = max(rows, key=lambda row: int(row["alike"]))
    assert int(most["alike"]) > 10


def test_a_flow_that_two_tables_have_is_collected_once(tmp_path, verdicts):
    one = table_of(tmp_path / "one.jsonl", verdicts)
    two = table_of(tmp_path / "two.jsonl", verdicts)
    run("--verdicts", one, "--verdicts", two, "--model", "services", "-o", tmp_path / "f")
    rows = rows_of(tmp_path / "f")
    assert rows and len({tuple(row[name] for name in FLOW) for row in rows}) == len(rows)


@pytest.mark.parametrize("limit", [60, 64, 200, 1000])
def test_bounded_memory_changes_no_choice(limit):
    flows = made_up(3000)
    unbounded, most = chosen_of(flows, 30)
    assert most == 3000
    bounded, most = chosen_of(flows, 30, limit)
    assert most <= limit
    assert bounded == unbounded


def test_the_choice_depends_on_the_seed_alone(tmp_path, demo):
    _, rows = demo
    assert collected(tmp_path / "again", "-n", 60) == rows
    others = collected(tmp_path / "other", "-n", 60, "--seed", 2)
    assert others != rows
    flows = made_up(500)
    assert chosen_of(flows, 100)[0] == chosen_of(flows[::-1], 100)[0]


def test_groups_know_servers_of_answers_and_registered_domains():
    ask = Verdict("a", "udp", "192.0.2.1", 50_000, "198.51.100.7", 53, 1, "dns", "dns", 0.5, "slow",
                  1, "ended", "m@0")  # fmt: skip
    answer = ask._replace(src_ip="198.51.100.7", src_port=53, dst_ip="192.0.2.1", dst_port=50_000)
    assert ask.alike_key == answer.alike_key and ask.group == answer.group
    assert ask._replace(server_name="a.example.org").group != ask.group
    assert domain_of("a.b.example.org.") == domain_of("example.ORG") == "example.org"
    assert domain_of("www.shop.co.uk") == "shop.co.uk"
    assert domain_of("192.0.2.1") == "192.0.2.1"


def test_names_of_servers_part_groups_and_are_not_written(tmp_path, verdicts):
    names = {key: f"cdn{index}.site{index % 5}.example" for index, key in enumerate(verdicts)}
    table = tmp_path / "named.jsonl"
    with table.open("w", encoding="utf-8") as out:
        for key, row in verdicts.items():
            out.write(json.dumps({**row._asdict(), "server_name": names[key]}) + "\n")
    run("--verdicts", table, "--model", "services", "-n", 12, "-o", tmp_path / "named")
    run("--verdicts", table_of(tmp_path / "v.jsonl", verdicts), "--model", "services", "-n", 12,
        "-o", tmp_path / "bare")  # fmt: skip
    assert rows_of(tmp_path / "named") != rows_of(tmp_path / "bare")
    for path in (tmp_path / "named").iterdir():
        assert "example" not in path.read_text(encoding="utf-8")


def test_training_knows_every_protocol_by_the_name_that_rows_have():
    source = (ROOT / "crates/packet/src/layers.rs").read_text(encoding="utf-8")
    named = re.findall(r'^    [A-Z0-9_]+ = (\d+), "([a-z0-9-]+)";$', source, flags=re.MULTILINE)
    assert len(named) > 20
    assert {name: protocol_number(name) for _, name in named} == {
        name: int(number) for number, name in named
    }


def test_packets_of_headers_give_the_same_verdicts(demo):
    folder, rows = demo
    again = {(row.community_id, row.first_ns): row
             for row in wirelens.classify_flows(folder / "flows.pcapng", "services")}  # fmt: skip
    assert len(again) == len(rows)
    for row in rows:
        one = again[row["community_id"], int(row["first_ns"])]
        assert one.guess == row["guess"]
        assert one.guess_confidence == pytest.approx(float(row["probability"]), abs=1e-4)


def packets_of(folder):
    return list(wirelens.packets(folder / "flows.pcapng", payload=65_535))


def test_payload_is_cut_after_what_the_model_reads(demo, tmp_path):
    folder, rows = demo
    cut = packets_of(folder)
    assert max(len(packet.payload or b"") for packet in cut) == SERVICES_PAYLOAD_BYTES
    per_flow = Counter(
        frozenset([(one.src_ip, one.src_port), (one.dst_ip, one.dst_port)]) for one in cut
    )
    assert max(per_flow.values()) <= SERVICES_PACKETS
    collected(tmp_path / "full", "-n", 60, "--privacy", "full")
    full = packets_of(tmp_path / "full")
    assert len(full) == len(cut)
    assert max(len(packet.payload or b"") for packet in full) > 200
    # Lengths by the headers stay.
    assert [one.payload_len for one in full] == [one.payload_len for one in cut]
    card = (folder / "feedback.md").read_text(encoding="utf-8")
    assert f"the first {SERVICES_PAYLOAD_BYTES} bytes" in card
    assert "all of their payload" in (tmp_path / "full/feedback.md").read_text(encoding="utf-8")


def test_the_first_packet_of_each_flow_has_the_row_as_a_comment(demo):
    folder, rows = demo
    content = (folder / "flows.pcapng").read_bytes()
    for row in rows:
        text = f"row {row['row']}: guess {row['guess']} ({row['probability']}), {row['verdict']}"
        assert content.count(text.encode()) == 1


def _v4(protocol, transport, fragment=0, total=None):
    total = 20 + len(transport) if total is None else total
    return struct.pack(
        ">BBHHHBBH4s4s", 0x45, 0, total, 1, fragment, 64, protocol, 0, bytes([192, 0, 2, 1]),
        bytes([198, 51, 100, 7]),
    ) + transport  # fmt: skip


TCP = struct.pack(">HHIIBBHHH", 50_000, 443, 1, 1, 0x80, 0x18, 1, 0, 0) + bytes(12)
ENDS = ("192.0.2.1", "198.51.100.7")


@pytest.mark.parametrize(
    ("packet", "kept", "length"),
    [
        (_v4(6, TCP + b"secret"), 0, 52),
        (_v4(6, TCP + b"secret"), 4, 56),
        (_v4(6, TCP + b"secret"), 40, 58),
        (_v4(6, TCP + b"secret"), None, 58),
        # What a link adds to short frames is not the packet's.
        (_v4(17, bytes(8) + b"ab", total=30) + b"padding", None, 30),
        (_v4(17, bytes(8) + b"ab", total=30) + b"padding", 24, 30),
        # The second fragment begins within the payload.
        (_v4(17, b"secret of a later fragment", fragment=185), 24, 20),
        # A protocol whose header is not known.
        (_v4(99, b"secret"), 24, 20),
        # The length that an offload leaves to the link.
        (_v4(6, TCP + b"secret", total=0), None, 58),
        (_v4(6, TCP[:10]), 24, 30),
    ],
)
def test_only_headers_and_wanted_bytes_are_kept(packet, kept, length):
    frame = bytes(12) + b"\x08\x00" + packet
    start = packet_at(frame, *ENDS)
    assert start == 14
    assert packet_len(frame[start:], kept) == length


def test_headers_end_after_extensions_of_ipv6():
    ends = bytes(15) + b"\x01" + bytes(15) + b"\x02"
    udp = bytes(8) + b"secret"
    options = bytes([17, 0]) + bytes(6)
    first = bytes([17, 0, 0, 1]) + bytes(4)
    later = bytes([17, 0, 0, 9]) + bytes(4)
    for kind, extension, length in (
        (0, options, 40 + 8 + 8 + 2), (44, first, 40 + 8 + 8 + 2), (44, later, 40 + 8),
        (60, options[:4], 40),
    ):  # fmt: skip
        content = extension + (udp if len(extension) == 8 else b"")
        packet = struct.pack(">IHBB", 6 << 28, len(content), kind, 64) + ends + content
        assert packet_at(b"\x00" * 4 + packet, "::1", "::2") == 4
        assert packet_len(packet, 2) == length


def test_addresses_elsewhere_are_no_header():
    frame = bytes(14) + bytes([192, 0, 2, 1, 198, 51, 100, 7]) + _v4(6, TCP)
    assert packet_at(frame, *ENDS) == 22
    assert packet_at(frame[:25], *ENDS) is None
    assert packet_at(frame, "192.0.2.1", "::1") is None


def test_verdicts_of_tables_give_the_same_flows(tmp_path, demo, verdicts):
    _, rows = demo
    flows = {tuple(row[name] for name in FLOW) for row in rows}
    capture = {"capture": str(DEMO)}
    paths = [table_of(tmp_path / "v.jsonl", verdicts, **capture), tmp_path / "v.csv"]
    with paths[1].open("w", newline="", encoding="utf-8") as out:
        first = {**next(iter(verdicts.values()))._asdict(), **capture}
        writer = csv.DictWriter(out, first)
        writer.writeheader()
        writer.writerows({**row._asdict(), **capture} for row in verdicts.values())
    if importlib.util.find_spec("pyarrow"):
        paths.append(tmp_path / "v.parquet")
        # The program's own file, whose times are timestamps; it does not name a single capture.
        wirelens.classify_flows([DEMO.parent / "names.pcap", DEMO], "services").to_parquet(paths[2])
    for path in paths:
        folder = tmp_path / f"of-{path.suffix[1:]}"
        run("--verdicts", path, "--model", "services", "-n", 60, "-o", folder)
        found = {tuple(row[name] for name in FLOW) for row in rows_of(folder)}
        assert len(found & flows) > 40
        assert path.suffix == ".parquet" or found == flows
        assert {row["source"] for row in rows_of(folder)} >= {"demo.pcapng"}
        assert not (folder / "flows.pcapng").exists()


def test_verdicts_of_other_models_are_left_out(tmp_path, verdicts, capsys):
    table = table_of(tmp_path / "v.jsonl", verdicts, model="services@000000000000")
    run("--verdicts", table, "--model", "services", "-o", tmp_path / "f", status=2)
    assert "no verdict of services@" in capsys.readouterr().err
    both = ("--verdicts", table, "--verdicts", table_of(tmp_path / "w.jsonl", verdicts))
    run(*both, "--model", "services", "-o", tmp_path / "f")
    card = (tmp_path / "f/feedback.md").read_text(encoding="utf-8")
    assert f"| of other models, left out | {len(verdicts)} |" in card


def test_a_folder_with_labels_is_not_replaced_unless_asked(tmp_path, demo, capsys):
    folder = tmp_path / "mine"
    collected(folder, "-n", 5)
    (folder / "flows.tsv").write_text("labelled", encoding="utf-8")
    typed = ("-r", DEMO, "--model", "services", "-o", folder)
    run(*typed, status=1)
    assert "--force" in capsys.readouterr().err
    assert (folder / "flows.tsv").read_text(encoding="utf-8") == "labelled"
    run(*typed, "-n", 5, "--force")
    assert len(rows_of(folder)) == 5
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("years", encoding="utf-8")
    run("-r", DEMO, "--model", "services", "-o", other, "--force", status=1)
    assert "was not written by" in capsys.readouterr().err
    assert [path.name for path in other.iterdir()] == ["thesis.tex"]


def test_without_an_uncertain_flow_nothing_is_written(tmp_path, capsys):
    run("-r", DEMO, "--model", "services", "--below", "0.01", "-o", tmp_path / "f")
    assert "nothing was written" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ((), "neither; wanted: one of them"),
        (("-r", DEMO, "--verdicts", DEMO), "both; wanted: one of them"),
        (("-r", "-"), "captures are read twice"),
        (("-r", DEMO, "-n", 10, "--candidates", 19), "wanted: at least 20"),
        (("-r", DEMO, "--label", "guess"), "wanted: a name that no other column has"),
        (("--verdicts", "missing.jsonl"), "missing.jsonl: no such file"),
        (("--verdicts", DEMO), "suffix '.pcapng'; wanted: .jsonl"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, capsys, typed, said):
    run(*typed, "-q", "--model", "services", "-o", tmp_path / "f", status=2)
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "no flows"),
        ("{", "row 1: not JSON"),
        ("[1]", "row 1: not an object"),
        ('{"label": "dns"}', "no column community_id (it has label)"),
    ],
)
def test_what_is_no_table_of_verdicts_is_refused(tmp_path, capsys, content, said):
    table = tmp_path / "v.jsonl"
    table.write_text(content, encoding="utf-8")
    run("--verdicts", table, "--model", "services", "-o", tmp_path / "f", status=2)
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"guess_confidence": 1.5}, "row 1: guess_confidence 1.5; wanted: 0 to 1"),
        ({"guess_confidence": None}, "a probability in guess_confidence"),
        ({"src_port": "http"}, "wanted: whole numbers in src_port"),
        ({"guess": None}, "guess None; wanted: text"),
        ({"window_start_ns": 1}, "verdicts on windows"),
    ],
)
def test_values_that_verdicts_do_not_have_are_refused(tmp_path, capsys, verdicts, change, said):
    table = table_of(tmp_path / "v.jsonl", verdicts, **change)
    run("--verdicts", table, "--model", "services", "-o", tmp_path / "f", status=2)
    assert said in capsys.readouterr().err


def test_models_that_are_none_of_flows_are_refused(tmp_path, capsys):
    for model, said in (
        ("video-rate", "a model of windows"), ("no-such", "no shipped model"),
        (f"{tmp_path}/", "no cascade.json"),
    ):  # fmt: skip
        run("-r", DEMO, "--model", model, "-o", tmp_path / "f", status=1)
        assert said in capsys.readouterr().err


def test_captures_are_named_by_the_end_that_no_other_has():
    found = sources_of(["/a/x/one.pcap", "/a/y/one.pcap", "/a/y/two.pcap", "/a/two.pcap/z.pcap"])
    assert list(found.values()) == ["x/one.pcap", "y/one.pcap", "two.pcap", "z.pcap"]


def test_labels_find_their_flows_and_empty_ones_are_counted(demo, tmp_path):
    folder, rows = demo
    path = tmp_path / "flows.tsv"
    fill(folder / "flows.tsv", path, lambda row: row["guess"] if int(row["row"]) % 2 else "")
    labels = read_labels(path)
    assert (len(labels.rows), labels.blank) == (30, 30)
    assert all(row.first_ns == row.last_ns and row.file is None for row in labels.rows)


def fill(source, target, label):
    """Fills the labels in."""
    with source.open(newline="", encoding="utf-8") as text:
        rows = list(csv.DictReader(text, delimiter="\t"))
    with target.open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, rows[0], delimiter="\t")
        writer.writeheader()
        writer.writerows({**row, "label": label(row)} for row in rows)


@pytest.mark.train
@pytest.mark.skipif(
    bool(MISSING), reason=f"not installed: {', '.join(MISSING)}; bash tools/setup.sh train"
)
def test_training_takes_the_labels(tmp_path, capsys):
    from wirelens.classify.__main__ import main as classify

    captures = tmp_path / "captures"
    table = classify_flows.make(captures)
    with table.open(newline="", encoding="utf-8") as text:
        truth = {(row["file"], row["src"], row["sport"]): row["app"]
                 for row in csv.DictReader(text, delimiter="\t")}  # fmt: skip
    run("-r", captures, "--model", "services", "--below", "1", "--alike", 500, "-n", 1000,
        "-o", tmp_path / "f")  # fmt: skip
    assert len(rows_of(tmp_path / "f")) == len(truth)
    # Half of the labels in one table, half in another, which are given together.
    blank, tables = 7, [tmp_path / "one.tsv", tmp_path / "two.tsv"]
    for part, path in enumerate(tables):
        fill(tmp_path / "f/flows.tsv", path, lambda row, part=part: (
            truth[row["source"], row["src_ip"], row["src_port"]]
            if int(row["row"]) > blank and int(row["row"]) % 2 == part else ""
        ))  # fmt: skip
    typed = ["train", "-r", captures, "--flows", tables[0], "--flows", tables[1],
             "--families", "decision-tree", "--depths", "1", "-o", tmp_path / "model"]  # fmt: skip
    capsys.readouterr()
    assert classify([str(word) for word in typed]) == 0
    said = capsys.readouterr()
    assert f"{len(truth) + blank} rows of the table have no label" in said.err
    assert f"{blank} of {len(truth)} flows have no label and are left out" in said.err
    assert "match no flow" not in said.err


def test_the_module_runs_as_the_command_hands_it_on():
    done = subprocess.run(
        [sys.executable, "-m", "wirelens.feedback", "feedback", "--help"],
        capture_output=True, text=True, check=False, env=os.environ | {"COLUMNS": "100"},
    )  # fmt: skip
    assert done.returncode == 0 and done.stderr == ""
    assert "Usage: wirelens feedback [OPTIONS] --model <DIR|NAME> --output <DIR>" in done.stdout
