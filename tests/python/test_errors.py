"""Each way to fail has an exception of its own, with the text of the command."""

import gzip
import os
import warnings
from pathlib import Path
from typing import Any

import pytest
import wirelens
from captures import Frame, write_pcap
from command import DEMO
from command import wirelens as command

QUESTIONS = [wirelens.top, wirelens.flows, wirelens.packets]
PACKET = Frame(10**18, bytes(60), 60)


def text_of_command(*arguments: Any) -> str:
    ran = command("top", *arguments)
    assert ran.status in (1, 2)
    return ran.stderr.removeprefix("wirelens: ").strip()


def make_inputs(folder: Path) -> None:
    (folder / "empty").write_bytes(b"")
    (folder / "text").write_text("Dear reader")
    (folder / "header").write_bytes(bytes.fromhex("d4c3b2a1 63000000") + bytes(16))
    (folder / "folder").mkdir()


@pytest.mark.parametrize(
    ("name", "error", "base"),
    [
        ("nothing", wirelens.CaptureNotFoundError, FileNotFoundError),
        ("empty", wirelens.EmptyCaptureError, ValueError),
        ("text", wirelens.NotACaptureError, ValueError),
        ("header", wirelens.NotACaptureError, ValueError),
        ("folder", wirelens.NotACaptureError, ValueError),
        ("empty/below", wirelens.CaptureUnreadableError, OSError),
    ],
)
@pytest.mark.parametrize("question", QUESTIONS)
def test_inputs(tmp_path: Path, question: Any, name: str, error: Any, base: Any) -> None:
    make_inputs(tmp_path)
    with pytest.raises(error) as caught:
        question(tmp_path / name)
    assert type(caught.value) is error
    assert isinstance(caught.value, wirelens.WirelensError) and isinstance(caught.value, base)
    assert str(caught.value) == text_of_command("-r", tmp_path / name)


@pytest.mark.parametrize("question", QUESTIONS)
def test_filters(question: Any) -> None:
    with pytest.raises(wirelens.FilterError) as caught:
        question(DEMO, filter="prot 4")
    assert isinstance(caught.value, ValueError)
    assert str(caught.value) == text_of_command("-r", DEMO, "prot 4")


def test_a_filter_that_is_refused_late(tmp_path: Path) -> None:
    write_pcap(tmp_path / "raw.gz", [PACKET], link=101)
    (tmp_path / "raw.gz").write_bytes(gzip.compress((tmp_path / "raw.gz").read_bytes()))
    for question in QUESTIONS:
        with pytest.raises(wirelens.FilterError):
            list(question(tmp_path / "raw.gz", filter="ether host 1:2:3:4:5:6"))


@pytest.mark.parametrize(
    "options",
    [
        {"by": "colour"}, {"sort": "name"}, {"n": -1}, {"window": "5 fortnights"}, {"window": 0},
        {"window": -1.5}, {"threads": 0}, {"threads": 257}, {"count": 0}, {"snaplen": -1},
        {"max_keys": 63}, {"seed": -1}, {"seed": 2**64},
    ],
)  # fmt: skip
def test_options(options: dict[str, Any]) -> None:
    ((name, value),) = options.items()
    with pytest.raises(wirelens.OptionError, match=f"^{name}: ") as caught:
        wirelens.top(DEMO, **options)
    assert isinstance(caught.value, ValueError)
    assert str(value).rstrip("0") in str(caught.value)


@pytest.mark.parametrize("options", [{"batch_size": 0}, {"frame": -1}, {"payload": 1 << 25}])
def test_options_of_packets(options: dict[str, Any]) -> None:
    with pytest.raises(wirelens.OptionError, match="wanted a number from"):
        wirelens.packets(DEMO, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"idle_timeout": 0}, {"active_timeout": "soon"}, {"window": -1.5}, {"names": "zeek"},
        {"max_flows": 63}, {"seed": -1}, {"batch_size": 0}, {"threads": 0}, {"count": 0},
    ],
)  # fmt: skip
def test_options_of_flows(options: dict[str, Any]) -> None:
    ((name, value),) = options.items()
    with pytest.raises(wirelens.OptionError, match=f"^{name}: ") as caught:
        wirelens.flows(DEMO, **options)
    assert str(value).rstrip("0") in str(caught.value)


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    table = wirelens.top(DEMO)
    with pytest.raises(wirelens.OutputError, match="there is no folder") as caught:
        table.to_parquet(tmp_path / "none" / "top.parquet")
    assert isinstance(caught.value, OSError)
    with pytest.raises(wirelens.OutputError, match="is a folder"):
        wirelens.flows(DEMO).to_parquet(tmp_path)
    (tmp_path / "top.parquet").touch()
    with pytest.raises(wirelens.OutputExistsError, match="overwrite=True") as exists:
        table.to_parquet(tmp_path / "top.parquet")
    assert isinstance(exists.value, FileExistsError)


def test_sources_that_are_none() -> None:
    with pytest.raises(wirelens.OptionError, match="an empty list"):
        wirelens.top([])
    with pytest.raises(wirelens.OptionError, match="standard input can be read only once"):
        wirelens.packets(["-", "-"])
    with pytest.raises(TypeError):
        wirelens.top(DEMO, n="many")  # type: ignore[arg-type]


def test_damage_is_a_warning_and_results_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "cut.pcapng"
    path.write_bytes(DEMO.read_bytes()[:-700])
    said = command("top", "-q", "-r", path).stderr.removeprefix("wirelens: ").strip()
    stream = wirelens.packets(path)
    asked: list[Any] = [
        lambda: wirelens.top(path, n=0).column("packets"),
        lambda: list(stream),
        lambda: list(stream.batches()),
        lambda: stream.to_polars().rows(),
        lambda: stream.to_parquet(tmp_path / "cut.parquet") or [1],
    ]
    for ask in asked:
        with pytest.warns(wirelens.DamagedCaptureWarning) as caught:
            assert ask()
        (warning,) = caught
        assert str(warning.message) == said
        assert warning.filename == __file__, "it points at the line that asked"
    assert stream.damages == [said]
    with warnings.catch_warnings():
        warnings.simplefilter("error", wirelens.DamagedCaptureWarning)
        with pytest.raises(wirelens.WirelensError):
            wirelens.top(path)


def test_a_file_of_a_folder_that_cannot_be_read_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "a.pcapng").symlink_to(DEMO)
    (tmp_path / "broken.pcap").write_bytes(b"\xd4\xc3\xb2\xa1" + bytes(3))
    said = command("top", "-q", "-r", tmp_path).stderr.removeprefix("wirelens: ").strip()
    assert "broken.pcap" in said
    with pytest.warns(wirelens.DamagedCaptureWarning) as caught:
        assert wirelens.top(tmp_path).column("packets")
    assert [str(warning.message) for warning in caught] == [said]


def test_packets_of_a_link_type_that_is_not_decoded_are_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "radio.pcap"
    write_pcap(path, [Frame(n, b"\x41\x88", 2) for n in range(5)], link=195)
    said = "5 packets of link type IEEE802_15_4_WITHFCS (195)"
    for ask in (lambda: list(wirelens.flows(path)), lambda: len(wirelens.top(path))):
        with pytest.warns(wirelens.CaptureWarning, match="5 packets of link type") as caught:
            assert not ask()
        (warning,) = caught
        assert said in str(warning.message) and warning.filename == __file__


def test_names_need_not_be_text(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/\xff.pcap"
    with open(name, "wb") as file:
        file.write(DEMO.read_bytes())
    assert len(list(wirelens.packets(os.fsdecode(name)))) == 4944
