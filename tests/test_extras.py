"""Extras of the Python package: pages name those that exist, and each installs packages that exist
under these names, in versions that the tests run with."""

import ast
import re
import sys
import tomllib

import printed
import pytest
from command import ROOT
from wirelens import compat

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
# `pip install '.[train]'`, and the same of a wheel.
INSTALLED = re.compile(r"pip install [^\n`]*?\.(?:whl)?\[([a-z, ]+)\]")
TOLD = re.compile(r"\bextra\s+`([^`]+)`")
# Packages by what is imported of them, where the names differ.
PACKAGES = {"sklearn": "scikit-learn", "xgboost": "xgboost-cpu"}
# Pages say how PyTorch is installed; SciPy comes with scikit-learn.
NOT_OF_AN_EXTRA = {"torch", "scipy"}


def texts() -> dict[str, str]:
    """What users read: pages, and the messages of the package and the command."""
    pages = [ROOT / name for name in ("README.md", *printed.pages())]
    sources = [*ROOT.glob("python/wirelens/**/*.py"), *ROOT.glob("crates/cli/src/**/*.rs")]
    return {str(path): path.read_text() for path in (*pages, *sources)}


def named() -> dict[str, set[str]]:
    """The extras that are named, each with where."""
    found: dict[str, set[str]] = {}
    for place, text in texts().items():
        lists = INSTALLED.findall(text) + TOLD.findall(text)
        for name in {name.strip() for names in lists for name in names.split(",")}:
            found.setdefault(name, set()).add(place)
    return found


def test_extras_that_are_named_exist_and_each_is_named() -> None:
    found = named()
    unknown = {name: places for name, places in found.items() if name not in EXTRAS}
    assert not unknown, f"{unknown}; pyproject.toml has {sorted(EXTRAS)}"
    guide = (ROOT / "docs/guide/install.md").read_text()
    assert all(f"`{name}`" in guide for name in EXTRAS), "docs/guide/install.md lists each"
    assert {"train", "polars", "onnx"} <= set(found)


def pins() -> dict[str, str]:
    """Versions of packages that the tests are run with."""
    names = ("test", "train", "ray")
    lists = [(ROOT / f"tools/requirements-{name}.in").read_text() for name in names]
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)$", "\n".join(lists), re.MULTILINE))


def number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_installs_what_the_tests_run_with(extra: str) -> None:
    have = pins()
    for requirement in EXTRAS[extra]:
        package, _, least = requirement.partition(">=")
        assert package in have, f"{package} of {extra}: no test installs it"
        assert number(have[package]) >= number(least), (requirement, have[package])


def bare(requirement: str) -> str:
    return requirement.partition(">=")[0]


def imported() -> set[str]:
    """Packages of others that modules of the package import anywhere."""
    names: set[str] = set()
    for path in (ROOT / "python/wirelens").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.partition(".")[0])
    return names - sys.stdlib_module_names - {"wirelens", "wirelens_testbed"}


def test_what_is_imported_is_brought_by_an_extra() -> None:
    others = imported() - NOT_OF_AN_EXTRA
    assert {"numpy", "safetensors"} <= others
    brought = {bare(requirement) for extra in EXTRAS.values() for requirement in extra}
    assert {PACKAGES.get(name, name) for name in others} <= brought


def test_messages_name_the_extra_that_brings_a_package() -> None:
    for name, extra in compat._EXTRAS.items():
        brought = {bare(requirement) for requirement in EXTRAS[extra]}
        assert PACKAGES.get(name, name) in brought, (name, extra)
