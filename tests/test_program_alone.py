"""The program copied alone to an empty folder has its models, its completions and its manual."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from command import DEMO, PROGRAM, ROOT, Ran, wirelens

MODELS = ROOT / "models"
RUNS = ROOT / "testdata/testbed"
# Of what the guides ask each model.
ASKED: dict[str, tuple[str | Path, ...]] = {
    "services": ("classify", "-r", DEMO),
    "categories": ("classify", "-r", DEMO),
    "devices": ("classify", "-r", DEMO),
    "video-rate": ("classify", "-r", RUNS / "calls/sender.pcapng.gz", "--every", "1s"),
    "cca": ("cca", "-r", RUNS / "congestion/before.pcapng.gz",
            "--egress", RUNS / "congestion/after.pcapng.gz"),
    "cca-onetap": ("cca", "-r", DEMO),
    "l4s": ("l4s", "-r", ROOT / "testdata/l4s/sender.pcap.gz", "--to", "10.2.1.2"),
}  # fmt: skip


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with nothing but the program, which `wirelens` of these tests then is."""
    copy = tmp_path / "wirelens"
    shutil.copy(PROGRAM, copy)
    monkeypatch.setattr("command.PROGRAM", copy)
    return tmp_path


def asked(name: str, model: str | Path, folder: Path) -> Ran:
    ran = wirelens(
        *ASKED[name], "-q", "--seed", "1", "--model", model, "--format", "csv", cwd=folder
    )
    assert ran.status == 0, ran.stderr
    return ran


@pytest.mark.parametrize("name", ASKED)
def test_a_copied_program_answers_as_with_the_models_folder(alone: Path, name: str) -> None:
    by_name = asked(name, name, alone)
    assert by_name.rows
    assert by_name.stdout == asked(name, MODELS / name, alone).stdout
    assert [path.name for path in alone.iterdir()] == ["wirelens"]


def test_a_copied_program_records_packets(alone: Path) -> None:
    capture = RUNS / "attacks/lan.pcapng.gz"
    counts = []
    for model in ("packetlog", MODELS / "packetlog", "packetlog-kernel"):
        log = alone / f"log-{len(counts)}"
        ran = wirelens("packetlog", "record", "-q", "--seed", "1", "-r", capture,
                       "--model", model, "-o", log, cwd=alone)  # fmt: skip
        assert ran.status == 0, ran.stderr
        found = wirelens("packetlog", "query", "--log", log, "--class", "anomalous", cwd=alone)
        counts.append(found.stderr.splitlines()[0])
    assert "anomalous" in counts[0] and counts[0] == counts[1]


def test_no_folder_goes_before_a_model_that_ships(alone: Path) -> None:
    wanted = asked("services", "services", alone).stdout
    for folder in (alone / "services", alone / "models/services"):
        folder.mkdir(parents=True)
        (folder / "cascade.json").write_text("{}")
    assert asked("services", "services", alone).stdout == wanted
    ran = wirelens("classify", "-r", DEMO, "--model", "./services", cwd=alone)
    assert ran.status == 1 and ran.stderr.startswith("wirelens: ./services/"), ran.stderr


def test_an_unknown_name_is_met_with_those_that_ship(alone: Path) -> None:
    ran = wirelens("classify", "-r", DEMO, "--model", "servces", cwd=alone)
    assert ran.status == 1
    assert "(they are categories, devices, services, video-rate)" in ran.stderr


def completed(line: str, folder: Path) -> set[str]:
    """What bash offers at the end of a line, by the completions of the program in a folder."""
    script = (
        'source <(./wirelens completions bash); read -ra COMP_WORDS <<<"$LINE"\n'
        '[[ $LINE == *" " ]] && COMP_WORDS+=("")\n'
        "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_LINE=$LINE COMP_POINT=${#LINE}\n"
        "spec=($(complete -p wirelens)); index=0\n"
        'for word in "${spec[@]}"; do index=$((index + 1)); [[ $word == -F ]] && break; done\n'
        '"${spec[index]}" wirelens "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"\n'
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script], cwd=folder, check=False, capture_output=True, text=True,
        env=os.environ | {"LINE": line},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_bash_completes_commands_and_flags(alone: Path) -> None:
    assert completed("wirelens cla", alone) == {"classify"}
    assert completed("wirelens packetlog rec", alone) == {"record", "recover"}
    assert completed("wirelens classify --mod", alone) == {"--model"}
    assert {"csv", "jsonl", "parquet"} <= completed("wirelens top --format ", alone)
    assert completed("wirelens nothing-like-this", alone) == set()


@pytest.mark.parametrize(
    ("shell", "check"), [("bash", "bash -n"), ("zsh", "zsh -n"), ("fish", "fish --no-execute")]
)
def test_completions_are_scripts_of_their_shell(alone: Path, shell: str, check: str) -> None:
    ran = wirelens("completions", shell, cwd=alone)
    assert ran.status == 0, ran.stderr
    assert b"packetlog" in ran.stdout and b"--model" in ran.stdout
    if shutil.which(shell):
        (alone / "script").write_bytes(ran.stdout)
        subprocess.run([*check.split(), alone / "script"], check=True)


def test_every_command_of_the_help_has_a_page_without_warnings(alone: Path) -> None:
    pages = alone / "new/man1"
    assert wirelens("man", pages).status == 0
    # Once more: they are replaced.
    assert wirelens("man", pages).status == 0
    names = {page.name for page in pages.iterdir()}
    help_page = (ROOT / "docs/reference/commands.md").read_text(encoding="utf-8")
    commands = [line[3:] for line in help_page.splitlines() if line.startswith("## wirelens")]
    assert names == {command.replace(" ", "-") + ".1" for command in commands}
    for page in pages.iterdir():
        done = subprocess.run(
            ["groff", "-man", "-ww", "-Tutf8", "-K", "utf8", page], check=True, capture_output=True
        )
        assert done.stderr == b"", (page.name, done.stderr)
        assert page.stem.encode() in done.stdout.replace(b"\xe2\x80\x90", b"-").lower()
    text = (pages / "wirelens-packetlog-query.1").read_text(encoding="utf-8")
    assert ".SH OPTIONS" in text and "Examples" in text


def test_manual_pages_that_cannot_be_written_are_an_error_in_a_line(alone: Path) -> None:
    (alone / "file").write_text("")
    ran = wirelens("man", alone / "file/man1")
    assert (ran.status, ran.stderr.count("\n")) == (1, 1)
    assert ran.stderr.startswith(f"wirelens: {alone}/file/man1: ")
    assert wirelens("completions", "tcsh").status == 2
