"""`wirelens.classify_flows` says what `wirelens classify` says, and where models are found."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas
import pyarrow
import pytest
import wirelens
from captures import write_pcap
from command import DEMO, ROOT
from command import wirelens as command

MODEL = ROOT / "testdata/cascade"


def of_command(*arguments: str | Path) -> list[dict[str, str]]:
    ran = command("classify", "-q", "-r", DEMO, "--model", MODEL, "--format", "csv", *arguments)
    assert ran.status == 0, ran.stderr
    return ran.rows


def as_text(value: object) -> str:
    return "" if value is None else str(value)


@pytest.mark.parametrize("options", [{}, {"consumers": 3, "seed": 5, "batch_size": 7}])
def test_verdicts_are_those_of_the_command(options: dict[str, int]) -> None:
    verdicts = wirelens.classify_flows(DEMO, MODEL, **options)
    wanted = of_command()
    frame = verdicts.to_pandas()
    assert list(frame.columns) == list(wanted[0])
    assert len(frame) == len(wanted)
    assert str(frame.dtypes["other_segmentation"]) == "int8"
    texts = ["src_ip", "src_port", "community_id"]
    texts += ["label", "stage", "packets_used", "cause", "model"]
    assert [[as_text(getattr(row, name)) for name in texts] for row in verdicts] == [
        [row[name] for name in texts] for row in wanted
    ]
    numbers = frame[["confidence", "wait_ns", "other_segmentation"]].astype(float)
    for name, values in numbers.items():
        assert values.tolist() == [float(row[str(name)]) for row in wanted]


def test_closing_lines_and_counts_are_those_of_the_command() -> None:
    verdicts = wirelens.classify_flows(DEMO, "services", waiting_max=0)
    rows = pyarrow.table(verdicts)
    told = command("classify", "-r", DEMO, "--model", "services", "--waiting-max", "0").stderr
    assert verdicts.summary == told
    counts = verdicts.counts
    assert counts is not None
    assert counts["verdicts"] == len(rows) == sum(counts["ended"].values())
    full = rows.column("cause").to_pylist().count("full")
    assert counts["no_room_to_wait"] == full > 0
    icmp = [row for row in of_command() if row["protocol"] not in ("tcp", "udp")]
    assert counts["neither_tcp_nor_udp"] == len(icmp) > 0
    assert "verdicts by" in verdicts.summary


def test_what_cannot_be_meant_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    def refused(kind: type[Exception], message: str, **options: object) -> None:
        with pytest.raises(kind, match=message):
            wirelens.classify_flows(DEMO, **{"model": MODEL, **options})  # type: ignore[arg-type]

    refused(wirelens.ModelError, "nobody: no shipped model has this name", model="nobody")
    refused(wirelens.ModelError, "no such file", model=tmp_path)
    refused(wirelens.ModelError, "SHA-256", model=ROOT / "testdata/cascade-changed")
    refused(wirelens.OptionError, "every: .*trained on flows", every="1s")
    refused(wirelens.OptionError, "every", every="soon")
    refused(wirelens.OptionError, "consumers: `0`", consumers=0)
    refused(wirelens.OptionError, "waiting_max: `-1`", waiting_max=-1)
    refused(wirelens.OptionError, "batch_size", batch_size=0)
    refused(wirelens.FilterError, "filter", filter="tcp port nowhere at all")
    with pytest.raises(wirelens.CaptureNotFoundError):
        wirelens.classify_flows(tmp_path / "nothing.pcap", MODEL)


def test_a_capture_without_a_flow_has_no_verdict(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pcap"
    write_pcap(empty, [])
    verdicts = wirelens.classify_flows(empty, MODEL)
    assert list(verdicts) == []
    assert verdicts.counts is not None and verdicts.counts["verdicts"] == 0


def test_a_damaged_capture_is_warned_of_and_its_beginning_judged(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcapng"
    cut.write_bytes(DEMO.read_bytes()[:500_000])
    with pytest.warns(wirelens.DamagedCaptureWarning):
        rows = wirelens.classify_flows(cut, MODEL).to_pandas()
    assert 0 < len(rows) < len(of_command())


def test_models_that_ship_are_found_by_name_from_any_folder(tmp_path: Path) -> None:
    found = wirelens.classify_flows(DEMO, "services").to_pandas()
    assert found.model.str.startswith("services@").all()
    # Nor is the checkout looked at: the package has its own.
    models = Path(wirelens.__file__).parent / "models"
    for name in ("services", "categories", "devices", "video-rate"):
        for shipped in (ROOT / "models" / name).iterdir():
            assert (models / name / shipped.name).read_bytes() == shipped.read_bytes()
    ran = subprocess.run(
        [sys.executable, "-m", "wirelens", "classify", "-q", "-r", DEMO, "--model", "devices",
         "-o", "out.csv"],
        cwd=tmp_path, check=False, capture_output=True, env=dict(os.environ, PATH="/usr/bin:/bin"),
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert pandas.read_csv(tmp_path / "out.csv").model.str.startswith("devices@").all()


def test_a_folder_here_is_never_taken_for_a_model_that_ships(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(MODEL, tmp_path / "services")
    monkeypatch.chdir(tmp_path)
    assert wirelens.classify_flows(DEMO, "services").head(1)[0].model.startswith("services@")
    assert wirelens.classify_flows(DEMO, "./services").head(1)[0].model.startswith("by-hand@")
    assert wirelens.classify_flows(DEMO, Path("services")).head(1)[0].model.startswith("by-hand@")
