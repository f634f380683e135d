"""Writes what the program is made of, as CycloneDX 1.6 in JSON: crates, packages of its page, BPF
objects and models, all with their hashes; and, as excluded, the Python packages that test it.

    cargo metadata --locked --format-version 1 --filter-platform "$(rustc --print host-tuple)" |
      python3 tools/sbom.py [PROGRAM]

With a program, its SHA-256 is in the file. The same commit and program give the same file to the
byte.
"""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from libraries import PROGRAM, linked

ROOT = Path(__file__).parent.parent
BPF_FOLDERS = ("crates/capture/bpf", "testbed/bpf")
PIN = re.compile(r"^([a-z0-9.-]+)==([^ ;]+)", re.MULTILINE)
REGISTRY = "registry+"

Component = dict[str, Any]


def hashes(algorithm: str, content: str) -> list[dict[str, str]]:
    return [{"alg": algorithm, "content": content}]


def sha256(path: Path) -> list[dict[str, str]]:
    return hashes("SHA-256", hashlib.sha256(path.read_bytes()).hexdigest())


def package(kind: str, name: str, version: str, **more: Any) -> Component:
    """A package of a registry."""
    # The scope of a package of npm begins with the character that precedes a version.
    purl = f"pkg:{kind}/{name.replace('@', '%40')}@{version}"
    said = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    return said | more


def licensed(expression: str | None, file: str | None = None) -> list[dict[str, Any]]:
    """An expression, or the name of the file in which a package without one has its licence."""
    if expression is None:
        return [{"license": {"name": file or "not stated"}}]
    # As old packages write a choice.
    return [{"expression": re.sub(r" ?/ ?", " OR ", expression)}]


def crates(metadata: dict[str, Any]) -> Iterator[Component]:
    """Those that are linked into the program, with the hash by which cargo takes them."""
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    sums = {(one["name"], one["version"]): one.get("checksum") for one in lock}
    for one in linked(metadata):
        if not one["source"].startswith(REGISTRY):
            raise SystemExit(f"sbom: {one['id']}: not from a registry; wanted: a crate with a hash")
        name, version = one["name"], one["version"]
        digest = hashes("SHA-256", sums[name, version])
        licence = licensed(one["license"], one.get("license_file"))
        yield package("cargo", name, version, hashes=digest, licenses=licence)


def page() -> Iterator[Component]:
    """Packages whose code the page has; those that build it are not part of the program."""
    lock = json.loads((ROOT / "page/package-lock.json").read_text())["packages"]
    for path, one in sorted(lock.items()):
        if path and not one.get("dev"):
            algorithm, _, digest = one["integrity"].partition("-")
            found = hashes(algorithm.replace("sha", "SHA-"), base64.b64decode(digest).hex())
            name = path.removeprefix("node_modules/")
            yield package(
                "npm", name, one["version"], hashes=found, licenses=licensed(one["license"])
            )


def file(kind: str, path: Path, version: str) -> Component:
    """A file of the repository."""
    name = path.relative_to(ROOT).as_posix()
    return {
        "type": kind, "bom-ref": f"file:{name}", "name": name, "version": version,
        "hashes": sha256(path),
    }  # fmt: skip


def files(version: str) -> Iterator[Component]:
    """BPF objects, and the files of models that their sums list."""
    for folder in BPF_FOLDERS:
        for path in sorted((ROOT / folder).glob("*.bpf.o")):
            yield file("firmware", path, version)
    for sums in sorted(ROOT.glob("models/*/SHA256SUMS")):
        names = [line[66:] for line in sums.read_text().splitlines()]
        yield file("data", sums, version)
        for name in sorted(names):
            kind = "data" if name.endswith(".md") else "machine-learning-model"
            yield file(kind, sums.with_name(name), version)


def pins() -> Iterator[Component]:
    """Python packages of tests and tools: no part of what is installed. Their hashes, one for each
    file that a package has, are in the lists."""
    found = set()
    for path in (ROOT / "tools").glob("requirements-*.txt"):
        found |= set(PIN.findall(path.read_text()))
    for name, version in sorted(found):
        yield package("pypi", name, version, scope="excluded")


def epoch() -> datetime:
    """Of the commit, so that the file does not depend on when it is made."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    if seconds is None:
        ran = subprocess.run(
            ["git", "-C", ROOT, "log", "-1", "--format=%ct"],
            check=False, capture_output=True, text=True,
        )  # fmt: skip
        seconds = ran.stdout.strip() or str(int((ROOT / "Cargo.lock").stat().st_mtime))
    return datetime.fromtimestamp(int(seconds), UTC)


def bom(metadata: dict[str, Any], program: Path | None) -> dict[str, Any]:
    (ours,) = [one for one in metadata["packages"] if one["name"] == PROGRAM]
    version = ours["version"]
    subject: Component = {
        "type": "application", "bom-ref": PROGRAM, "name": PROGRAM, "version": version,
        "licenses": licensed(ours["license"]),
    }  # fmt: skip
    if program is not None:
        subject["hashes"] = sha256(program)
    components = [*crates(metadata), *page(), *files(version), *pins()]
    parts = [one["bom-ref"] for one in components if one.get("scope") != "excluded"]
    made = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"timestamp": epoch().strftime("%Y-%m-%dT%H:%M:%SZ"), "component": subject},
        "components": components,
        "dependencies": [{"ref": PROGRAM, "dependsOn": parts}],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(made, sort_keys=True))
    return {"serialNumber": f"urn:uuid:{serial}", **made}


if __name__ == "__main__":
    program = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    print(json.dumps(bom(json.load(sys.stdin), program), indent=1, ensure_ascii=False))
