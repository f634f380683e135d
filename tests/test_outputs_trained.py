"""What training, evaluation and the testbed write, where it cannot be written: full or read-only.

Refused before the work where that can be known, and never half of it left.
"""

import importlib.util
from pathlib import Path

import pytest
from command import ROOT, Ran, wirelens
from disks import run
from packetlog_model import write_model
from testbed_runs import DATASETS, SCENARIOS, left_behind, need_root, testbed
from wirelens import written
from wirelens.errors import OutputError
from wirelens.packetlog import model

SAMPLES = ROOT / "testdata/testbed"
FULL, READ_ONLY = "size=64k", "ro,size=64k"
SAID = {
    FULL: ("No space left on device", "free some space"),
    READ_ONLY: ("Read-only file system", "that you may write to"),
}
# A library each that one of the commands cannot do without.
TRAINS = pytest.mark.skipif(
    importlib.util.find_spec("sklearn") is None,
    reason="not installed: sklearn; bash tools/setup.sh train",
)


def disk_of(folder: Path, options: str) -> Path:
    """A disk that takes nothing."""
    disk = folder / "disk"
    disk.mkdir()
    run("mount", "-t", "tmpfs", "-o", options, "tmpfs", disk)
    if options == FULL:
        (disk / "ballast").write_bytes(bytes(65_536))
    return disk


def refused(ran: Ran, path: Path, options: str, *names: str) -> None:
    """One line with the output, what is wrong and what to try; the disk is as it was."""
    assert ran.status == 1, ran
    said = [line for line in ran.stderr.splitlines() if line.startswith(("error: ", "wirelens: "))]
    assert len(said) == 1 and str(path) in said[0], ran.stderr
    assert all(part in said[0] for part in SAID[options]), ran.stderr
    assert "Traceback" not in ran.stderr
    disk = path.parent
    assert [one.name for one in disk.iterdir()] == (["ballast"] if options == FULL else [])


@pytest.mark.parametrize("options", SAID)
def test_outputs_are_tried_before_work_is_done(options: str, tmp_path: Path, mounts: None) -> None:
    disk = disk_of(tmp_path, options)
    for path in (disk / "model", disk / "deep/plots", disk):
        with pytest.raises(OutputError, match=SAID[options][0]) as error:
            written.check(tmp_path / "fine", None, path)
        assert f"`{path}`" in str(error.value) and SAID[options][1] in str(error.value)
    written.check(tmp_path / "new/folder", Path("/dev/null"))
    assert not (tmp_path / "new").exists(), "nothing is made by trying"


def test_a_model_that_does_not_fit_leaves_the_one_before(tmp_path: Path, mounts: None) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=96k", "tmpfs", disk)
    small = model.read(write_model(tmp_path / "small"))
    model.write(small, "a card", disk / "mine")
    before = {path.name: path.read_bytes() for path in (disk / "mine").iterdir()}
    assert set(before) == {"SHA256SUMS", "card.md", "model.json"}
    small.training["note"] = "x" * 90_000
    with pytest.raises(OutputError, match="No space left on device") as error:
        model.write(small, "another card", disk / "mine")
    assert f"`{disk / 'mine'}`" in str(error.value)
    assert {path.name: path.read_bytes() for path in (disk / "mine").iterdir()} == before
    assert model.read(disk / "mine").training == {}


def test_a_folder_is_whole_or_absent(tmp_path: Path, mounts: None) -> None:
    disk = disk_of(tmp_path, "size=64k,nr_inodes=16")
    with pytest.raises(OutputError, match="No space"), written.folder(disk / "cascade") as growing:
        (growing / "slow.onnx").write_bytes(bytes(65_537))
    assert not list(disk.iterdir())
    for text in ("first", "second"):
        with written.folder(disk / "cascade") as growing:
            (growing / "card.md").write_text(text)
        assert (disk / "cascade/card.md").read_text() == text
    assert [path.name for path in disk.iterdir()] == ["cascade"]


def test_a_folder_is_replaced_next_to_what_an_interrupted_run_left(tmp_path: Path) -> None:
    for name in ("cascade", "cascade.old", "cascade.partial"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "card.md").write_text(name)
    with written.folder(tmp_path / "cascade") as growing:
        (growing / "card.md").write_text("new")
    assert (tmp_path / "cascade/card.md").read_text() == "new"
    assert (tmp_path / "cascade.old/card.md").read_text() == "cascade.old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cascade", "cascade.old"]


def test_a_link_to_a_folder_is_replaced_and_what_it_names_stays(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/card.md").write_text("other")
    link = tmp_path / "cascade"
    link.symlink_to("other")
    with written.folder(link) as growing:
        (growing / "card.md").write_text("new")
    assert not link.is_symlink() and (link / "card.md").read_text() == "new"
    assert (tmp_path / "other/card.md").read_text() == "other"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cascade", "other"]


@pytest.mark.parametrize("kind", ["file", "link to nothing"])
def test_what_is_no_folder_is_refused_before_work_and_stays(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "cascade"
    path.write_text("a file") if kind == "file" else path.symlink_to("nothing")
    with pytest.raises(OutputError, match="cascade`: Not a directory"):
        written.check_free(path / "model.json", force=True)
    with pytest.raises(OutputError, match="cascade`: Not a directory"), written.folder(path):
        pytest.fail("it was begun")
    assert [one.name for one in tmp_path.iterdir()] == ["cascade"]


@pytest.mark.train
@TRAINS
@pytest.mark.parametrize("options", SAID)
@pytest.mark.parametrize("flag", ["-o", "--report", "--plots"])
def test_training_refuses_an_output_before_it_begins(
    options: str, flag: str, tmp_path: Path, mounts: None
) -> None:
    disk = disk_of(tmp_path, options)
    attacks = SAMPLES / "attacks"
    words = ["-r", attacks, "-q", *([] if flag == "-o" else ["-o", tmp_path / "fine"])]
    ran = wirelens("train", "packetlog", *words, flag, disk / "out", time_max_s=60)
    refused(ran, disk / "out", options)
    assert not (tmp_path / "fine").exists()


@pytest.mark.train
@TRAINS
@pytest.mark.parametrize("options", SAID)
@pytest.mark.parametrize("flag", ["-o", "--work", "--report", "--plots"])
def test_training_of_cascades_does_too(
    options: str, flag: str, tmp_path: Path, mounts: None
) -> None:
    disk = disk_of(tmp_path, options)
    words = ["--testbed", SAMPLES / "services", "-q"]
    words += [] if flag == "-o" else ["-o", tmp_path / "fine"]
    ran = wirelens("train", "classify", *words, flag, disk / "out", time_max_s=60)
    refused(ran, disk / "out", options)
    assert not list(tmp_path.glob("fine*"))


@pytest.mark.train
@TRAINS
@pytest.mark.parametrize("options", SAID)
@pytest.mark.parametrize("flag", ["-o", "--table", "--plots"])
def test_an_evaluation_refuses_an_output_before_it_begins(
    options: str, flag: str, tmp_path: Path, mounts: None
) -> None:
    disk = disk_of(tmp_path, options)
    mine = write_model(tmp_path / "mine")
    words = ["--model", mine, "-r", SAMPLES / "attacks", "-q", flag, disk / "out"]
    refused(wirelens("eval", "packetlog", *words, time_max_s=60), disk / "out", options)


@pytest.mark.train
@TRAINS
def test_a_model_that_turns_out_too_large_is_an_error(tmp_path: Path, mounts: None) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    # Room for what is tried, and not for the model.
    run("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk)
    words = ["-r", SAMPLES / "attacks", "-q", "--weight", "1", "--note", "x" * 70_000]
    ran = wirelens("train", "packetlog", *words, "-o", disk / "mine", time_max_s=120)
    assert ran.status == 1 and "Traceback" not in ran.stderr, ran
    assert f"cannot write `{disk / 'mine'}`: No space left on device" in ran.stderr
    assert not list((disk / "mine").iterdir()), "no half of a model"


@pytest.mark.testbed
@pytest.mark.parametrize("options", SAID)
@pytest.mark.parametrize("command", ["run", "make"])
def test_the_testbed_refuses_a_folder_before_there_is_traffic(
    command: str, options: str, tmp_path: Path, mounts: None
) -> None:
    disk = disk_of(tmp_path, options)
    what = SCENARIOS / "demo.toml" if command == "run" else DATASETS / "congestion-small.toml"
    done = testbed(command, what, "-o", disk / "runs", "-q")
    ran = Ran(done.returncode, done.stdout.encode(), done.stderr)
    if options == FULL:
        (disk / "runs").rmdir()  # an empty folder takes no room
    refused(ran, disk / "runs", options)
    assert not left_behind()


@pytest.mark.testbed
def test_a_disk_that_fills_up_during_a_run_is_an_error(tmp_path: Path, mounts: None) -> None:
    need_root()
    disk = tmp_path / "disk"
    disk.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", disk)
    done = testbed("run", SCENARIOS / "congestion-small.toml", "-o", disk, "-q")
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert "No space left on device" in done.stderr, done.stderr
    assert not list(disk.iterdir()) and not left_behind()
