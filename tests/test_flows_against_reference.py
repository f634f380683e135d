"""Every flow of `wirelens flows` is the one that a second, plain program finds.

That program is flows_reference.py: it follows docs/guide/flows.md from the packets that tshark
finds, and is itself held to captures small enough to be worked out by hand (flows_cases.py).
Then every column of every row is compared, with default and with short time-outs, cut into
windows, and with statistics.

Frames in which tshark finds a header malformed or cut off ("doubtful") may belong to any flow. A
tuple whose packets in all rows are not those of tshark's other frames is set aside; what the
rows of those tuples hold beyond must be no more packets than there are doubtful ones.
"""

import csv
import os
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from ipaddress import ip_address
from math import isclose
from pathlib import Path

import pytest
from captures import is_pcap, overflowing_stamps, write_pcap
from command import DEMO, WIDE_DATA, captures, part_of, short, wirelens
from flows_cases import CASES, START_NS, udp
from flows_reference import (
    COLUMNS,
    SECOND_NS,
    STATS_COLUMNS,
    Flow,
    FlowTable,
    Row,
    Rules,
    Tuple,
    rows_of,
)
from reference import Packet, Reading, Tshark

# Options, the rules they stand for, and whether there are statistics.
MODES = {
    "default": ((), Rules(), False),
    "stats": (("--stats",), Rules(), True),
    "short": (
        ("--idle-timeout", "1s", "--active-timeout", "5s"),
        Rules(idle_ns=SECOND_NS, active_ns=5 * SECOND_NS),
        False,
    ),
    "window": (("--window", "1s"), Rules(window_ns=SECOND_NS), False),
    "no-decap": (("--no-decap",), Rules(decapsulate=False), False),
}

# Captures in which the two programs differ for a reason of their own.
FILES_THAT_DIFFER: dict[str, str] = {
    "formats/AlexeyVasile__03_mpls_pw_eth_ipv6_tcp_cw.pcap": "tshark takes the control word of "
    "the pseudowire for the beginning of its Ethernet",
}

# Folders, and how many of their packets are compared, of a million in all: the smallest captures
# up to a half of that, then others by a fixed seed. Of these, one in `PART_OF_SAMPLE` is read
# without WIDE=all: each takes a program three to five runs, all of them two to three CPU minutes.
BUDGETS = {"services": 30_000, "devices": 25_000, "attacks": 20_000, "formats": 36_000,
           "latency": 20_000}  # fmt: skip
PART_OF_SAMPLE = 3
SEED = 20261122


@pytest.fixture(scope="module")
def tshark() -> Iterator[Tshark]:
    reference = Tshark()
    yield reference
    reference.close()


# --- Captures made by hand ------------------------------------------------------------------


@pytest.fixture(scope="module")
def hand_made(
    tshark: Tshark, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Path, Reading]]:
    folder = tmp_path_factory.mktemp("captures")
    paths = [folder / f"{number}.pcap" for number in range(len(CASES))]
    for path, case in zip(paths, CASES.values(), strict=True):
        write_pcap(path, case.frames)
    pairs = zip(paths, tshark.read_joined(paths), strict=True)
    return dict(zip(CASES, pairs, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_the_reference_finds_what_was_worked_out(name: str, hand_made: dict) -> None:
    case, (_, reading) = CASES[name], hand_made[name]
    _, rules, _ = MODES[case.mode]
    found = []
    for flow in FlowTable(rules).read(reading.packets):
        for row in rows_of(flow, rules, with_stats=False):
            who = {"10.0.0.1": "a", "10.0.0.2": "b"}[row["src_ip"]]
            # A nanosecond more or less does not show.
            first, last = (round((row[n] - START_NS) / 1e6) for n in ("first_ns", "last_ns"))
            packets = row["src_packets"], row["dst_packets"]
            found.append((who, row["src_port"], first, last, *packets, row["end_reason"]))
    assert sorted(found) == sorted(case.flows)


@pytest.mark.parametrize("name", CASES)
def test_captures_made_by_hand_are_what_the_reference_finds(name: str, hand_made: dict) -> None:
    path, reading = hand_made[name]
    assert compare(path, reading, Findings(), tuple(MODES)) == []


def test_the_reference_names_flows_as_everybody_does(hand_made: dict) -> None:
    named = 0
    for _, reading in hand_made.values():
        for packet in reading.packets:
            at = packet.network(decapsulate=True)
            if packet.community_id and at.ports and not at.is_fragment:
                seen = Tuple.of(packet, decapsulate=True)
                assert seen is not None and seen.community_id == packet.community_id
                named += 1
    assert named > 100


def test_the_reference_adds_up_statistics(tshark: Tshark, tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    write_pcap(path, [udp(0, "a", 60), udp(1, "a", 100), udp(2, "b", 90), udp(4, "a", 140)])
    (flow,) = FlowTable(Rules()).read(tshark.read(path).packets)
    (row,) = rows_of(flow, Rules(), with_stats=True)
    assert tuple(row) == (*COLUMNS, *STATS_COLUMNS)
    sizes = [row[f"src_size_{name}"] for name in ("min", "mean", "std", "max")]
    assert sizes == [60, 100, 40, 140]
    gaps = [row[f"src_gap_{name}_ns"] for name in ("min", "mean", "std", "max")]
    assert gaps == [1e9, 2e9, pytest.approx(2**0.5 * 1e9, rel=1e-15), 3e9]
    assert [row[f"dst_size_{name}"] for name in ("min", "mean", "std", "max")] == [90, 90, None, 90]
    assert row["dst_gap_min_ns"] is None
    # 60, 100, 90 and 140: squares of the distances from 97.5 add up to 3275.
    assert row["both_size_std"] == pytest.approx((3275 / 3) ** 0.5, rel=1e-15)
    assert (row["dst_first_ns"], row["dst_last_ns"]) == (START_NS + 2 * SECOND_NS,) * 2


# --- Comparing ------------------------------------------------------------------------------


@dataclass
class Findings:
    """What a comparison of many captures came to."""

    complaints: list[str] = field(default_factory=list)
    files: int = 0
    packets: int = 0
    rows: Counter = field(default_factory=Counter)
    reasons: Counter = field(default_factory=Counter)
    doubtful: int = 0
    set_aside: int = 0
    backwards: int = 0
    late: int = 0
    steps: int = 0
    excused: set[str] = field(default_factory=set)


def tuple_key(row: Row) -> tuple:
    """What rows of one tuple share, whichever side they are written from."""
    ends = [(row["src_ip"], int(row["src_port"])), (row["dst_ip"], int(row["dst_port"]))]
    return (row["protocol"], row["community_id"], *sorted(ends))


def is_equal(seen: str, expected: object) -> bool:
    if expected is None:
        return seen == ""
    if isinstance(expected, float):
        return seen != "" and isclose(float(seen), expected, rel_tol=1e-9, abs_tol=1e-9)
    return seen == str(expected)


def sort_key(row: Row) -> tuple:
    # A flow that ends and its successor may begin at the same time; packets tell them apart.
    numbers = ("first_ns", "last_ns", "src_packets", "dst_packets", "src_bytes", "dst_bytes")
    return tuple(int(row[name] or 0) for name in numbers)


def by_tuple(rows: list[Row]) -> dict[tuple, list[Row]]:
    found = defaultdict(list)
    for row in rows:
        found[tuple_key(row)].append(row)
    for same in found.values():
        same.sort(key=sort_key)
    return found


def packets_of(rows: list[Row]) -> int:
    return sum(int(row[name]) for row in rows for name in ("src_packets", "dst_packets"))


def bytes_of(rows: list[Row]) -> int:
    return sum(int(row[name]) for row in rows for name in ("src_bytes", "dst_bytes"))


def difference(seen: Row, expected: Row) -> Iterator[str]:
    for name, value in expected.items():
        if not is_equal(seen[name], value):
            yield f"{name} {seen[name]!r}, not {value!r}"


def expected_rows(
    flows: list[Flow], rules: Rules, with_stats: bool, findings: Findings
) -> list[Row]:
    rows = []
    for flow in flows:
        for row in rows_of(flow, rules, with_stats):
            rows.append(row)
            findings.reasons[row["end_reason"]] += 1
        findings.backwards += flow.runs_backwards
    return rows


def compare_mode(path: Path, reading: Reading, mode: str, findings: Findings) -> Iterator[str]:
    options, rules, with_stats = MODES[mode]
    sure = [packet for packet in reading.packets if not packet.marks]
    doubtful = len(reading.packets) - len(sure)
    table = FlowTable(rules)
    if doubtful:
        # They take the capture's time on, and belong to no flow that is compared.
        sure = [without_headers(packet) if packet.marks else packet for packet in reading.packets]
    expected = by_tuple(expected_rows(table.read(sure), rules, with_stats, findings))
    ran = wirelens("flows", "-r", path, "--format", "csv", *options)
    if ran.status not in (0, 3):
        if reading.packets:
            yield f"exit status {ran.status}: {ran.stderr.strip()[-300:]}"
        return
    said = [counted(ran.stderr, "packets were late"), counted(ran.stderr, "clock steps")]
    if said != [table.late, table.clock_steps]:
        yield f"{said} packets late and clock steps, not {[table.late, table.clock_steps]}"
    findings.late += table.late
    findings.steps += table.clock_steps
    seen = by_tuple(ran.rows)
    findings.rows[mode] += len(ran.rows)
    if ran.rows:
        columns = [*COLUMNS, *(STATS_COLUMNS if with_stats else ())]
        yield from columns_that_differ(list(ran.rows[0]), columns, rules)
    beyond = 0
    for key in sorted({*expected, *seen}, key=str):
        ours, theirs = seen.get(key, []), expected.get(key, [])
        more = packets_of(ours) - packets_of(theirs)
        if doubtful and more > 0 and bytes_of(ours) >= bytes_of(theirs):
            beyond += more
            findings.set_aside += 1
            continue
        if len(ours) != len(theirs):
            yield f"{key}: {brief(ours)}, not {brief(theirs)}"
            continue
        for one, other in zip(ours, theirs, strict=True):
            if found := list(difference(one, other)):
                yield f"{key} at {one['first_ns']}: {'; '.join(found[:4])}"
    if beyond > doubtful:
        yield f"{beyond} packets in rows that tshark has not, {doubtful} doubtful ones"
    if not doubtful and packets_of(ran.rows) != table.packets:
        yield f"{packets_of(ran.rows)} packets in all rows, not {table.packets}"


def counted(summary: str, what: str) -> int:
    """A number of the summary; what is not mentioned did not happen."""
    found = re.search(rf"^flows: (\d+) {what}", summary, re.MULTILINE)
    return int(found[1]) if found else 0


def columns_that_differ(seen: list[str], wanted: list[str], rules: Rules) -> Iterator[str]:
    if rules.window_ns is not None:
        wanted = ["window_start_ns", *wanted]
    if seen != wanted:
        odd = [name for name in seen if name not in wanted]
        missing = [name for name in wanted if name not in seen]
        yield f"columns: not expected {odd}, missing {missing}, or in another order"


def without_headers(packet: Packet) -> Packet:
    return Packet(packet.time_ns, packet.wire_len, packet.captured_len, [])


def brief(rows: list[Row]) -> str:
    """Rows in a few words."""
    said = [
        f"{row['first_ns']}-{str(row['last_ns'])[-12:]} {row['src_packets']}/{row['dst_packets']} "
        f"{row['end_reason']}"
        for row in rows[:4]
    ]
    return f"{len(rows)} rows [{', '.join(said)}]"


def compare(path: Path, reading: Reading, findings: Findings, modes: tuple[str, ...]) -> list[str]:
    """Every difference between the two programs on one capture."""
    if "unknown or unsupported" in reading.complaint or overflowing_stamps(path):
        return []
    return [
        f"{mode}: {complaint}"
        for mode in modes
        for complaint in compare_mode(path, reading, mode, findings)
    ]


def sample(folder: str) -> list[Path]:
    """Captures of a folder by a fixed seed, as many as the budget of packets allows."""
    existing = set(captures(folder))
    root = WIDE_DATA / folder
    lines = csv.DictReader((root / "MANIFEST.tsv").open(), delimiter="\t")
    sizes = {root / line["file"]: int(line["packets"] or 0) for line in lines}
    by_size = sorted(existing, key=lambda path: (sizes[path], path))
    budget, taken = BUDGETS[folder], []
    while by_size and budget - sizes[by_size[0]] >= BUDGETS[folder] // 2:
        budget -= sizes[by_size[0]]
        taken.append(by_size.pop(0))
    random.Random(SEED).shuffle(by_size)
    for path in by_size:
        if sizes[path] <= budget:
            budget -= sizes[path]
            taken.append(path)
    return sorted(taken)


def check(tshark: Tshark, paths: list[Path], modes: tuple[str, ...]) -> Findings:
    """Compares captures, tshark once for many of them: it starts slowly."""
    findings = Findings()
    joinable = [path for path in paths if is_pcap(path)]
    groups = [joinable[at : at + 24] for at in range(0, len(joinable), 24)]
    groups += [[path] for path in paths if path not in joinable]

    def work(group: list[Path]) -> list[tuple[Path, Reading, list[str]]]:
        readings = tshark.read_joined(group) if len(group) > 1 else [tshark.read(group[0])]
        pairs = zip(group, readings, strict=True)
        return [(path, reading, compare(path, reading, findings, modes)) for path, reading in pairs]

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in pool.map(work, groups):
            for path, reading, complaints in done:
                judge(findings, path, reading, complaints)
    return findings


def judge(findings: Findings, path: Path, reading: Reading, complaints: list[str]) -> None:
    findings.files += 1
    findings.packets += len(reading.packets)
    findings.doubtful += sum(bool(packet.marks) for packet in reading.packets)
    name = short(path)
    if complaints and name in FILES_THAT_DIFFER:
        findings.excused.add(name)
        return
    findings.complaints += [f"{name}: {complaint}" for complaint in complaints[:8]]


def report(findings: Findings) -> None:
    """Fails with all that was found, or says what was compared."""
    print(
        f"{findings.files} captures, {findings.packets} packets ({findings.doubtful} doubtful), "
        f"rows {dict(findings.rows)}, reasons {dict(findings.reasons)}, "
        f"{findings.set_aside} tuples set aside, {findings.backwards} flows with stamps that run "
        f"backwards, {findings.late} packets late, {findings.steps} clock steps, "
        f"{len(findings.excused)} exceptions"
    )
    assert not findings.complaints, "\n".join(findings.complaints[:200])


def test_the_demo_capture_has_the_flows_of_the_reference(tshark: Tshark) -> None:
    findings = check(tshark, [DEMO], tuple(MODES))
    assert findings.packets > 4000
    report(findings)


def test_a_comparison_notices_one_byte_and_one_nanosecond(tshark: Tshark) -> None:
    for change in ("wire_len", "time_ns"):
        reading = tshark.read(DEMO)
        packet = next(p for p in reading.packets[100:] if p.networks)
        setattr(packet, change, getattr(packet, change) + 1)
        assert compare(DEMO, reading, Findings(), ("stats",))
    reading = tshark.read(DEMO)
    reading.packets[100].networks[-1].source = str(ip_address("192.0.2.1"))
    assert compare(DEMO, reading, Findings(), ("default",))


def test_all_packets_of_the_demo_capture_are_in_flows_or_have_none(tshark: Tshark) -> None:
    counted = tshark.run(["-r", str(DEMO), "-q", "-z", "io,stat,0"], "read").stdout.decode()
    numbers = [cell.strip() for cell in counted.splitlines()[-2].split("|")]
    frames, size = int(numbers[2]), int(numbers[3])
    rows = wirelens("flows", "-q", "-r", DEMO, "--format", "csv").rows
    outside = [packet for packet in tshark.read(DEMO).packets if not is_ip(packet)]
    assert packets_of(rows) + len(outside) == frames
    assert bytes_of(rows) + sum(packet.wire_len for packet in outside) == size


def is_ip(packet: Packet) -> bool:
    at = packet.network(decapsulate=True)
    return at is not None and at.name != "arp"


@pytest.mark.wide
@pytest.mark.parametrize("folder", BUDGETS)
def test_real_traffic_has_the_flows_of_the_reference(tshark: Tshark, folder: str) -> None:
    modes = tuple(MODES) if folder == "formats" else ("stats", "short", "window")
    paths = part_of(sample(folder), always=FILES_THAT_DIFFER, of=PART_OF_SAMPLE)
    findings = check(tshark, paths, modes)
    report(findings)
    known = {name for name in FILES_THAT_DIFFER if name.startswith(f"{folder}/")}
    assert findings.excused <= known
