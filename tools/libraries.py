"""Lists the libraries that are compiled into the program: name, version, licence, one a line.

Reads `cargo metadata` from standard input.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

PROGRAM = "wirelens"


Packages = list[dict[str, Any]]


def linked(metadata: dict[str, Any]) -> Packages:
    """Packages of others below the program, by name, those of its build scripts left out."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    ours = set(metadata["workspace_members"])
    (begin,) = [one for one in ours if packages[one]["name"] == PROGRAM]
    seen, waiting = {begin}, [begin]
    while waiting:
        for dependency in nodes[waiting.pop()]["deps"]:
            is_linked = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if is_linked and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                waiting.append(dependency["pkg"])
    found = [packages[one] for one in seen - ours]
    return sorted(found, key=lambda one: (one["name"], one["version"]))


def libraries(metadata: dict[str, Any]) -> Iterator[str]:
    """A line for each of them."""
    for package in linked(metadata):
        yield f"{package['name']} {package['version']}: {package['license']}"


if __name__ == "__main__":
    print("\n".join(libraries(json.load(sys.stdin))))
