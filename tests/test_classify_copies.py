"""Copies of captures are one family, however they are compressed; shared flows are reported."""

import gzip
import shutil
from pathlib import Path
from typing import Any

import captures
import pyarrow
import pytest
from command import DEMO
from wirelens import DamagedCaptureWarning, compat
from wirelens.classify import copies, dataset
from wirelens.classify.labels import FlowLabel, LabelTable, flow_key
from wirelens.classify.recipe import Recipe
from wirelens.found import found_captures

FRAMES = list(captures.read_pcapng(DEMO))
WEB = flow_key(6, "192.0.2.1", 50000, "198.51.100.7", 443)
DHCP = flow_key(17, "0.0.0.0", 68, "255.255.255.255", 67)
IDLE_NS = 120 * 10**9


def zstd(path: Path, content: bytes) -> Path:
    with pyarrow.CompressedOutputStream(str(path), "zstd") as file:
        file.write(content)
    return path


def test_a_capture_and_its_compressed_copies_have_the_same_content(tmp_path: Path) -> None:
    content = DEMO.read_bytes()
    (tmp_path / "a.gz").write_bytes(gzip.compress(content[:5000]) + gzip.compress(content[5000:]))
    found = [copies.hash_of(path) for path in (DEMO, tmp_path / "a.gz",
                                               zstd(tmp_path / "a.zst", content))]  # fmt: skip
    assert len({one.content for one in found}) == 1
    assert len({one.stored for one in found}) == 3
    assert not any(one.is_opaque for one in found)


def test_what_cannot_be_decompressed_is_compared_as_it_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(DEMO.read_bytes())[:-100])
    path = zstd(tmp_path / "a.zst", DEMO.read_bytes())
    monkeypatch.setattr(compat, "find", lambda name: None)
    hashes = {0: copies.hash_of(cut), 1: copies.hash_of(path)}
    assert all(one.content == one.stored for one in hashes.values())
    (message,) = copies.opaque_message([cut, path], hashes)
    assert message.startswith("1 captures, such as a.zst, are compressed by Zstandard, which needs")


def loaded(paths: list[Path]) -> dataset.Dataset:
    """All flows of captures, each of a class of its own."""
    names = [f"class-{place % 2}" for place in range(len(paths))]
    rows = [FlowLabel(line, str(path), None, name)
            for line, (path, name) in enumerate(zip(paths, names, strict=True))]  # fmt: skip
    source = dataset.Source(paths, LabelTable("t", rows), [path.name for path in paths])
    return dataset.load(source, Recipe(), 1, flows_min=1)


def test_a_compressed_copy_is_of_the_family_of_its_capture(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.pcap", "b.pcap", "copy.pcap.gz")]
    captures.write_pcap(paths[0], FRAMES[:500])
    shifted = [captures.Frame(one.time_ns + 10**13, one.data, one.wire_len) for one in FRAMES[:500]]
    captures.write_pcap(paths[1], shifted)
    with gzip.open(paths[2], "wb") as file, paths[0].open("rb") as content:
        shutil.copyfileobj(content, file)
    flows = loaded(paths)
    by_capture = dict(zip(flows.capture_of.tolist(), flows.families.tolist(), strict=True))
    assert by_capture == {0: "a.pcap", 1: "b.pcap", 2: "a.pcap"}
    # Copies are one family, and the other capture was made hours later.
    assert flows.meetings() == []


def test_flows_that_continue_in_a_capture_of_another_family_are_reported(tmp_path: Path) -> None:
    paths = [tmp_path / "a.pcap", tmp_path / "b.pcap"]
    for path, frames in zip(paths, (FRAMES[:1000], FRAMES[1000:2000]), strict=True):
        captures.write_pcap(path, frames)
    (message,) = loaded(paths).meetings()
    assert "flows have the ends of a flow in a capture of another family" in message
    assert f"{paths[0]} and {paths[1]}: if they are the same flow" in message


def test_families_that_have_a_flow_in_common_are_one(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("b.pcap", "a.pcap", "c.pcap")]
    # The second is a piece of the first; the third begins amid its flows.
    for path, frames in zip(paths, (FRAMES[:1000], FRAMES[:600], FRAMES[1000:2000]), strict=True):
        captures.write_pcap(path, frames)
    flows = loaded(paths)
    assert len(flows.meetings()) == 1
    joined = flows.with_copies_joined()
    by_capture = dict(zip(joined.capture_of.tolist(), joined.families.tolist(), strict=True))
    assert by_capture == {0: "a.pcap", 1: "a.pcap", 2: "c.pcap"}
    assert "c.pcap: if they are the same flow" in joined.meetings()[0]


def test_flows_are_the_same_by_ends_and_first_microsecond() -> None:
    first = [10**18 + 999, 10**18, 10**18 + 1000, 10**18, 10**18, None, None]
    keys = [WEB, WEB, WEB, DHCP, DHCP, WEB, WEB]
    flows = copies.Flows(keys, list("bacdefg"), first, first)
    found = copies.families_with_copies(flows, list("1234567"))
    assert found == ["a", "a", "c", "d", "e", "f", "g"]


@pytest.mark.parametrize(
    ("key", "gap_ns", "families", "count"),
    [
        (WEB, IDLE_NS, ("a", "b"), 1),
        (WEB, IDLE_NS + 1, ("a", "b"), 0),
        (WEB, IDLE_NS, ("a", "a"), 0),
        # Hosts without an address are alike in every network.
        (DHCP, 0, ("a", "b"), 0),
    ],
)
def test_flows_meet_within_the_idle_timeout(
    key: Any, gap_ns: int, families: tuple[str, str], count: int
) -> None:
    first = [10**18, 10**18 + 5 + gap_ns]
    flows = copies.Flows([key] * 2, families, first, [10**18 + 5, first[1]])
    found = list(copies.meetings(flows, IDLE_NS))
    assert found == [(1, 0)] * count


def test_a_long_flow_meets_a_later_one_beyond_shorter_ones() -> None:
    first, last = [0, 10, 20 * IDLE_NS], [30 * IDLE_NS, 20, 20 * IDLE_NS]
    flows = copies.Flows([WEB] * 3, ["a", "b", "c"], first, last)
    assert list(copies.meetings(flows, IDLE_NS)) == [(1, 0), (2, 0)]
    timeless = copies.Flows([WEB] * 2, ["a", "b"], [None, None], [None, None])
    assert list(copies.meetings(timeless, IDLE_NS)) == []


def test_captures_that_cannot_be_read_are_warned_of(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    shutil.copy(DEMO, folder / "a.pcapng")
    # The magic of pcap, and a version that there is none of.
    (folder / "b.pcap").write_bytes(bytes.fromhex("d4c3b2a1 63000000") + bytes(16))
    captures, refused = found_captures([folder])
    assert captures == [str(folder / "a.pcapng")]
    assert len(refused) == 1 and "b.pcap" in refused[0]
    with pytest.warns(DamagedCaptureWarning, match="b.pcap") as caught:
        assert dataset.captures_of([folder]) == [folder / "a.pcapng"]
    assert caught[0].filename == __file__
