"""Python packages of the tests and tools: each in one version, with the hashes of its files, and
installed in no other way."""

import re
from collections import defaultdict

import pytest
from command import ROOT

ASKED = {path.stem: path for path in (ROOT / "tools").glob("requirements-*.in")}
LISTS = {name: path.with_suffix(".txt") for name, path in ASKED.items()}
PIN = re.compile(r"(?P<name>[a-z0-9.-]+)==(?P<version>[^ ;]+)(?: ; (?P<where>.+))?")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")
INSTALL = re.compile(r"-m pip install(?:[^\n]*\\\n)*[^\n]*")


def pins(text: str) -> dict[tuple[str, str], str]:
    """Of each package, and where it is meant, its version.

    Raises
    ------
    ValueError
        If a package has no version or no hash.
    """
    found = {}
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    for entry in text.replace("\\\n", " ").splitlines():
        words = re.split(r" +(?=--hash)", entry.strip())
        pin = PIN.fullmatch(words[0].strip())
        hashes = [HASH.fullmatch(word.strip()) for word in words[1:]]
        if pin is None or not hashes or None in hashes:
            raise ValueError(f"{words[0]}: wanted: NAME==VERSION and its hashes")
        found[pin["name"], pin["where"] or ""] = pin["version"]
    return found


def disagreements(lists: dict[str, str]) -> list[str]:
    """Packages that two lists have in two versions for the same Python."""
    versions: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for name, text in lists.items():
        for package, version in pins(text).items():
            versions[package][version] = name
    return [f"{package}: {by}" for package, by in versions.items() if len(by) > 1]


def test_every_package_of_every_list_has_a_version_and_hashes() -> None:
    assert {path.name for path in (ROOT / "tools").glob("requirements-*.txt")} == {
        path.name for path in LISTS.values()
    }
    for name, path in LISTS.items():
        found = pins(path.read_text())
        versions = {(package, version) for (package, _), version in found.items()}
        asked = [line for line in ASKED[name].read_text().splitlines() if not line.startswith("#")]
        for line in asked:
            package, _, version = line.partition("==")
            assert (package, version) in versions, f"{line}; try: bash tools/pins.sh"


def test_lists_of_one_environment_have_one_version_of_each_package() -> None:
    texts = {name: path.read_text() for name, path in LISTS.items()}
    assert not disagreements(texts)
    known = texts["requirements-test"]
    other = known.replace("pytest==", "pytest==1.")
    assert len(disagreements({"a": known, "b": other})) == 1


@pytest.mark.parametrize(
    "text",
    ["numpy\n", "numpy==2.4.6\n", "numpy>=2 \\\n    --hash=sha256:" + "0" * 64 + "\n",
     "numpy==2.4.6 \\\n    --hash=md5:" + "0" * 32 + "\n"],
)  # fmt: skip
def test_a_package_without_a_version_or_a_hash_is_found(text: str) -> None:
    with pytest.raises(ValueError, match="wanted: NAME==VERSION and its hashes"):
        pins(text)


def unhashed(script: str) -> list[str]:
    """Calls of pip that take files without a hash. What is only printed, to be typed, is no call,
    and the wheel that was built here needs none."""
    script = "\n".join(line for line in script.splitlines() if "printf" not in line)
    calls = INSTALL.findall(script)
    return [call for call in calls if not {"--require-hashes", "--no-deps"} & set(call.split())]


def test_scripts_install_no_file_without_a_hash() -> None:
    scripts = {path.name: path.read_text() for path in (ROOT / "tools").glob("*.sh")}
    installing = {name for name, text in scripts.items() if INSTALL.search(text)}
    assert installing >= {"setup.sh", "portable.sh"}
    assert not [call for text in scripts.values() for call in unhashed(text)]
    assert unhashed('"$VENV/bin/python" -m pip install --quiet \\\n  --requirement "$list"')
