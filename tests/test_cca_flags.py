"""Every option of `cca`, with each kind of taps: it has an effect, or it is refused by name."""

import re
from pathlib import Path

import pytest
from command import ROOT, Ran, wirelens
from sealing import seal

RUN = ROOT / "testdata/testbed/congestion"
BEFORE, AFTER = RUN / "before.pcapng.gz", RUN / "after.pcapng.gz"

KINDS = {
    "one capture": ("-r", BEFORE),
    "two captures": ("-r", BEFORE, "--egress", AFTER),
    "one interface": ("-i", "nowhere0"),
    "two interfaces": ("-i", "nowhere0", "--egress", "nowhere1"),
}
CAPTURES = {"one capture", "two captures"}
INTERFACES = {"one interface", "two interfaces"}
TWO = {"two captures", "two interfaces"}
ALL = CAPTURES | INTERFACES

# What is given with each option, and with which taps it works.
OPTIONS: dict[str, tuple[tuple[str, ...], set[str]]] = {
    "--filter": (("tcp",), CAPTURES),
    "--count": (("100",), CAPTURES),
    "--snapshot-length": (("96",), CAPTURES),
    "--drop-duplicates": ((), CAPTURES),
    "--no-decap": ((), ALL - {"two interfaces"}),
    # By its own words results do not depend on them.
    "--threads": (("1",), ALL),
    "--seed": (("1",), ALL),
    "--check": ((), ALL),
    "--quiet": ((), ALL),
    "--duration": (("10ms",), INTERFACES),
    "--no-jail": ((), ALL),
    "--format": (("csv",), ALL),
    "--model": (("cca",), TWO),
    "--every": (("100ms",), ALL),
    "--slot": (("10ms",), ALL),
    "--rows": (("3",), ALL),
    "--passed": (("first",), TWO),
    "--sample": (("0.5",), TWO),
    "--each-packet": ((), {"two interfaces"}),
    "--egress-offset": (("1ms",), {"two captures"}),
    "--max-flows": (("5",), ALL - {"two interfaces"}),
    "--view": (("never",), {"two interfaces"}),
    "--act": (("up0",), {"two interfaces"}),
}
# What only works beside another option.
BESIDE_ACT = {
    "--act-rate": ("1mbit",), "--act-buffer": ("5000",), "--act-by": ("names",),
    "--act-after": ("2",), "--act-hold": ("1s",), "--act-events": ("events",),
    "--act-dry-run": (),
}  # fmt: skip
# Tested elsewhere, or what the four kinds are made of.
OTHERS = {
    "--read",
    "--file-mode",
    "--interface",
    "--egress",
    "--output",
    "--force",
    "--act-undo",
    "--help",
}


def ran_with(kind: str, *words: str | Path) -> Ran:
    return wirelens("cca", *KINDS[kind], *words)


def test_every_option_of_the_help_is_here() -> None:
    text = wirelens("cca", "--help").stdout.decode()
    found = set(re.findall(r"^\s+(?:-\w, )?(--[a-z-]+)", text, re.MULTILINE))
    assert found == OPTIONS.keys() | BESIDE_ACT.keys() | OTHERS


@pytest.mark.parametrize("kind", KINDS)
def test_an_option_without_effect_is_refused_by_name(kind: str) -> None:
    for option, (values, works_with) in OPTIONS.items():
        more = ("--model", "cca") if option == "--act" else ()
        ran = ran_with(kind, option, *values, *more)
        if kind in works_with:
            # Interfaces that are not there, or no root, are an error of another kind.
            assert ran.status in ({0} if kind in CAPTURES else {1}), (option, ran.stderr)
        else:
            assert ran.status == 2, (option, ran.stderr)
            assert option in ran.stderr or option == "--model", (option, ran.stderr)
            assert not ran.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_what_belongs_to_another_option_is_refused_without_it(kind: str) -> None:
    for option, values in BESIDE_ACT.items():
        ran = ran_with(kind, option, *values)
        assert ran.status == 2 and "--act" in ran.stderr, (option, ran.stderr)
        if kind != "two interfaces":
            ran = ran_with(kind, "--act", "up0", option, *values)
            assert ran.status == 2 and "--act: " in ran.stderr, (option, ran.stderr)


def test_acting_on_a_queue_that_one_tap_cannot_see_says_what_to_give() -> None:
    ran = ran_with("one interface", "--act", "up0", "--model", "cca")
    assert ran.status == 2 and "give the tap downstream of the queue with --egress" in ran.stderr
    ran = ran_with("one capture", "--act", "up0", "--model", "cca")
    assert ran.status == 2 and "give an interface with -i" in ran.stderr


def test_undoing_takes_no_other_option() -> None:
    for option, (values, _) in (
        OPTIONS | {name: (v, ALL) for name, v in BESIDE_ACT.items()}
    ).items():
        if option != "--quiet":
            ran = wirelens("cca", "--act-undo", "up0", option, *values)
            assert ran.status == 2 and "--act-undo" in ran.stderr, (option, ran.stderr)


def test_a_model_that_was_changed_after_training_is_refused(tmp_path: Path) -> None:
    shipped = ROOT / "models/cca"
    content = (shipped / "model.safetensors").read_bytes()
    (tmp_path / "SHA256SUMS").write_bytes((shipped / "SHA256SUMS").read_bytes())
    changed = content[:-1] + bytes([content[-1] ^ 1])
    (tmp_path / "model.safetensors").write_bytes(changed)
    words = ("cca", "-r", BEFORE, "--egress", AFTER, "--model", tmp_path)
    ran = wirelens(*words)
    assert ran.status == 1 and "was changed after training" in ran.stderr, ran.stderr
    (tmp_path / "SHA256SUMS").unlink()
    ran = wirelens(*words)
    assert ran.status == 1 and "SHA256SUMS" in ran.stderr, ran.stderr
    seal(tmp_path)
    assert wirelens(*words).status == 0
