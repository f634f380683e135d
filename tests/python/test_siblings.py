"""Who imports whom in the package: applications are strangers, and what they share knows none."""

import ast
from pathlib import Path

import pytest

_PACKAGE = Path(__file__).resolve().parents[2] / "python/wirelens"
_APPLICATIONS = {"classify", "packetlog", "cca"}


def _modules_of(node: ast.AST, package: str) -> list[str]:
    """Full names of what a statement imports; of `from x import y` also x.y, which may be one."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        parts = package.split(".")
        above = parts[: len(parts) - node.level + 1] if node.level else []
        base = ".".join([*above, *([node.module] if node.module else [])])
        return [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return []


def _siblings_of(source: str, package: str) -> set[str]:
    """Applications that a module imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        for name in _modules_of(node, package):
            parts = name.split(".")
            if parts[0] == "wirelens" and len(parts) > 1 and parts[1] in _APPLICATIONS:
                found.add(parts[1])
    return found


@pytest.mark.parametrize("folder", [*sorted(_APPLICATIONS), "learn", "."])
def test_applications_import_no_other_application_and_what_they_share_imports_none(
    folder: str,
) -> None:
    files = sorted((_PACKAGE / folder).glob("*.py"))
    assert files, f"{folder} has no modules"
    package = "wirelens" if folder == "." else f"wirelens.{folder}"
    wrong = {
        path.name: found
        for path in files
        if (found := _siblings_of(path.read_text(), package) - {folder})
    }
    assert not wrong


@pytest.mark.parametrize(
    "source",
    [
        "import wirelens.cca.model",
        "from wirelens.cca import model",
        "from wirelens import cca",
        "def late():\n    from wirelens.cca.model import Model",
        "from ..cca import model",
        "from .. import cca",
    ],
)
def test_an_import_of_a_sibling_is_found_however_it_is_written(source: str) -> None:
    assert _siblings_of(source, "wirelens.packetlog") == {"cca"}
