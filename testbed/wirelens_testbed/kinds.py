"""The kinds of scenario, each a package that knows how to parse and perform its own."""

from __future__ import annotations

import importlib
from typing import Any, Protocol, cast

from wirelens_testbed.failure import ScenarioError
from wirelens_testbed.scenario import Table

NAMES = ("demo", "congestion", "services", "attacks", "calls", "latency", "l4s")


class Kind(Protocol):
    """What the package of a kind offers."""

    NAME: str

    def parse(self, table: Table) -> Any:
        """Reads the scenario into a plan, or says what is wrong with it."""

    def programs(self, plan: Any) -> dict[str, str]:
        """The programs that a plan needs, each with its Debian package."""

    def perform(self, plan: Any, run: Any) -> None:
        """Builds the network, records, acts, states the truth and the checks."""


def of(name: str) -> Kind:
    """The kind of this name."""
    if name not in NAMES:
        raise ScenarioError(f"kind is {name!r}, wanted one of {', '.join(NAMES)}")
    return cast(Kind, importlib.import_module(f"wirelens_testbed.{name}"))


def parse(drawn: dict[str, Any]) -> tuple[Kind, Any]:
    """The kind of a drawn scenario, and the plan that it makes of it; nothing may be left over."""
    table = Table(drawn)
    kind = of(table.take("kind", str))
    table.take("seed", int, 0)  # whoever runs the scenario has looked at it
    plan = kind.parse(table)
    table.finish()
    return kind, plan
