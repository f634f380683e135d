"""The model `categories` that ships: what names say of a flow decides where ports do not.

Flows are built here, byte by byte. The last test judges the model on captures of families that
trained nothing and chose nothing, and needs the data set beside the repository.
"""

import csv
from pathlib import Path

import pytest
from captures import Frame, write_pcap
from command import DEMO, ROOT, WIDE_DATA, wirelens
from names_traffic import CLIENT, RESOLVER, Connection, asked, datagram, hello, query
from test_classify_services import ends_of, is_sealed, rows_of

MODEL = ROOT / "models/categories"
NAMES = ROOT / "testdata/names.pcap"
SAMPLE = ROOT / "testdata/testbed/services"


def verdicts(capture: Path, *options: str) -> list[dict[str, str]]:
    ran = wirelens("classify", "-q", "-r", capture, "--model", MODEL, "--format", "csv", *options)
    assert ran.status == 0, ran.stderr
    return ran.rows


def said_of(frames: list[bytes], tmp_path: Path) -> dict[str, dict[str, str]]:
    """Verdicts of flows by the client's port, of frames that come a millisecond apart."""
    capture = tmp_path / "flows.pcap"
    start = 1_700_000_000 * 10**9
    write_pcap(capture, (Frame(start + at * 10**6, data, len(data))
                         for at, data in enumerate(frames)))  # fmt: skip
    return {row["src_port"]: row for row in verdicts(capture)}


def suffix_of(name: str) -> str:
    """A domain that the list has for a class."""
    with (MODEL / "names.tsv").open(encoding="utf-8") as lines:
        rows = csv.DictReader(lines, delimiter="\t")
        return next(r["value"] for r in rows if (r["kind"], r["class"]) == ("suffix", name))


@pytest.mark.parametrize("name", ["streaming", "social_chat", "rtc", "file_cloud", "game"])
def test_the_name_in_a_hello_decides_on_a_port_that_all_use(name: str, tmp_path: Path) -> None:
    flow = Connection(50001, ("198.51.100.7", 443))
    host = f"edge7.{suffix_of(name)}"
    row = said_of([*flow.opening(), flow.say(0, hello(host))], tmp_path)["50001"]
    assert row["label"] == name, row
    assert (row["stage"], row["packets_used"], row["cause"]) == ("slow", "3", "last-stage")


def test_a_name_that_dns_gave_decides_at_the_first_packet(tmp_path: Path) -> None:
    host, server = f"video.{suffix_of('streaming')}", "198.51.100.8"
    named, other = Connection(50002, (server, 443)), Connection(50003, ("198.51.100.9", 443))
    frames = asked(40001, 7, host, server) + named.opening()[:1] + other.opening()[:1]
    rows = said_of(frames, tmp_path)
    assert (rows["40001"]["label"], rows["40001"]["packets_used"]) == ("dns", "1")
    assert (rows["50002"]["label"], rows["50002"]["packets_used"]) == ("streaming", "1")
    assert rows["50002"]["cause"] == "confident"
    # Of an address that nobody asked for a name is awaited.
    assert rows["50003"]["cause"] == "ended"


def test_what_bytes_identify_outweighs_the_port(tmp_path: Path) -> None:
    odd = Connection(50004, ("198.51.100.10", 4430))
    frames = [*odd.opening(), odd.say(1, b"SSH-2.0-OpenSSH_9.2\r\n")]
    assert said_of(frames, tmp_path)["50004"]["label"] == "remote_vpn"


def test_an_identified_protocol_of_no_class_is_unknown(tmp_path: Path) -> None:
    listed = {r["value"] for r in rows_of(MODEL / "names.tsv") if r["kind"] == "protocol"}
    assert "rtsp" not in listed
    flow = Connection(50005, ("198.51.100.11", 5540))
    frames = [*flow.opening(), flow.say(0, b"OPTIONS rtsp://192.0.2.1/ RTSP/1.0\r\nCSeq: 1\r\n\r\n")]
    row = said_of(frames, tmp_path)["50005"]
    assert (row["label"], row["guess_confidence"]) == ("unknown", "0.0"), row


def test_a_query_is_decided_at_its_packet_whatever_follows(tmp_path: Path) -> None:
    question = datagram((CLIENT, 40002), (RESOLVER, 53), query(3, "www.example.org"))
    row = said_of([question], tmp_path)["40002"]
    assert (row["label"], row["cause"], row["wait_ns"]) == ("dns", "confident", "0")


def test_threads_and_batches_change_nothing() -> None:
    for capture in (NAMES, DEMO):
        plain = verdicts(capture)
        assert plain == verdicts(capture, "--consumers", "3")
        assert plain == verdicts(capture, "--threads", "2")


def test_flows_are_labelled_as_they_are_classified() -> None:
    labelled = wirelens("flows", "-q", "-r", NAMES, "--model", MODEL, "--format", "csv")
    assert labelled.status == 0, labelled.stderr
    by_flow = {(r["community_id"], r["first_ns"]): r["label"] for r in labelled.rows}
    assert by_flow == {(r["community_id"], r["first_ns"]): r["label"] for r in verdicts(NAMES)}


def test_python_says_the_same() -> None:
    pytest.importorskip("numpy")
    from wirelens.classify import cascade, dataset
    from wirelens.classify.labels import FlowLabel, LabelTable

    model = cascade.load(MODEL)
    capture = next(SAMPLE.glob("*.pcapng*"))
    for path in (NAMES, DEMO, capture):
        rows = [FlowLabel(1, str(path), None, model.classes[0])]
        source = dataset.Source([path], LabelTable("one", rows), [str(path)])
        flows = dataset.load(
            source, model.recipe(), model.packets, flows_min=1, classes=model.classes,
            wait_ns=model.wait_ns, names_list=model.names_list, names_depths=model.names_depths,
        )  # fmt: skip
        found = model.predict(flows.sample)
        wanted = {
            (key, first): (model.classes[guess], pytest.approx(confidence, abs=1e-9), stage)
            for key, first, guess, confidence, stage in zip(
                flows.keys, flows.first_ns, found.guesses, found.confidences, found.stages,
                strict=True,
            )
        }  # fmt: skip
        stages = [stage.name for stage in model.stages]
        seen = {}
        for row in verdicts(path):
            key = key_of(row), int(row["first_ns"] or 0)
            confidence = float(row["guess_confidence"])
            seen[key] = row["guess"], confidence, stages.index(row["stage"])
        assert seen == wanted


def key_of(row: dict[str, str]) -> object:
    from wirelens.classify.labels import flow_key, protocol_number

    source, other = (row["src_ip"], int(row["src_port"])), (row["dst_ip"], int(row["dst_port"]))
    return flow_key(protocol_number(row["protocol"]), *source, *other)


@pytest.mark.wide
def test_most_flows_of_other_places_get_their_class() -> None:
    data = WIDE_DATA / "services"
    families = {r["file"]: r["note"].partition("family=")[2].split(";")[0].split()[0]
                for r in rows_of(data / "MANIFEST.tsv") if "family=" in r["note"]}  # fmt: skip
    truth: dict[tuple[str, object], str] = {}
    for row in rows_of(data / "flows.tsv"):
        ends = ends_of(*(row[column] for column in ("proto", "src", "sport", "dst", "dport")))
        if row["class"]:
            truth[row["file"], ends] = row["class"]
    right = named = known = 0
    for name, family in families.items():
        if not is_sealed(family):
            continue
        for row in verdicts(data / name):
            ends = ends_of(row["protocol"], row["src_ip"], row["src_port"], row["dst_ip"],
                           row["dst_port"])  # fmt: skip
            label = truth.get((name, ends))
            known += label is not None
            if label is not None and row["label"] != "unknown":
                named += 1
                right += row["label"] == label
    assert known > 1000 and named > 0.7 * known, (known, named)
    assert right > 0.93 * named, (right, named)
