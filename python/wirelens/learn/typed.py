"""What options may hold, and a parser that refuses the rest in one line."""

import argparse
import math
import shutil
import sys
import textwrap
from collections.abc import Callable
from typing import Any, NoReturn

_UNITS_US = {"ns": 1e-3, "us": 1.0, "µs": 1.0, "ms": 1e3, "s": 1e6}
# Seeds of all libraries go this far.
SEED_MAX = 2**31 - 1
# Columns of help: as wide as the terminal, within these.
_WIDTH_MIN, _WIDTH_MAX = 50, 100


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help in the layout of the other commands: each option with its text below it."""

    def __init__(self, prog: str) -> None:
        width = min(max(shutil.get_terminal_size((_WIDTH_MAX, 24)).columns, _WIDTH_MIN), _WIDTH_MAX)
        super().__init__(prog, indent_increment=2, max_help_position=10, width=width)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        name = ", ".join(action.option_strings)
        name = name if name[:2] != "--" else "    " + name
        if action.nargs == 0:
            return name
        value = action.metavar or action.dest.upper().replace("_", "-")
        return f"{name} <{value}>{'...' if action.nargs == '+' else ''}"

    def _format_action(self, action: argparse.Action) -> str:
        text = self._split_lines(self._expand_help(action), self._width - 10)
        return "\n".join(
            [
                f"  {self._format_action_invocation(action)}",
                *(f"{'':10}{line}" for line in text),
                "\n",
            ]
        )

    def _expand_help(self, action: argparse.Action) -> str:
        text = super()._expand_help(action)
        choices = [str(choice) for choice in action.choices or () if action.metavar is None]
        if choices and "[possible values: " not in text:
            text += f" [possible values: {', '.join(choices)}]"
        return text


class Parser(argparse.ArgumentParser):
    """Prints help as the other commands do, and of a mistake one line."""

    def __init__(self, **settings: Any) -> None:
        settings["formatter_class"] = _Formatter
        super().__init__(add_help=False, **settings)
        self._optionals.title = "Options"
        self.add_argument("-h", "--help", action="help", help="Print help")

    def format_help(self) -> str:
        """Description, usage, options and examples."""
        formatter = self._get_formatter()
        formatter.add_text(textwrap.fill(self.description or "", formatter._width))
        formatter.add_text(self._usage())
        for group in self._action_groups[1:]:
            formatter.start_section(group.title)
            formatter.add_text(group.description)
            # As everywhere, --help is the last of its group.
            actions = sorted(group._group_actions, key=lambda action: action.dest == "help")
            formatter.add_arguments(actions)
            formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def format_usage(self) -> str:
        """The line of usage."""
        return f"{self._usage()}\n"

    def _usage(self) -> str:
        needed = [
            f" {action.option_strings[-1]} <{action.metavar}>"
            for action in self._actions
            if action.required and action.option_strings
        ]
        needed += [
            f" <{'|'.join(action.option_strings[-1] for action in group._group_actions)}>"
            for group in self._mutually_exclusive_groups
            if group.required
        ]
        return f"Usage: {self.prog} [OPTIONS]{''.join(needed)}"

    def error(self, message: str) -> NoReturn:
        """Ends the program as wrong usage."""
        print(f"error: {message}; `{self.prog} --help` shows all options", file=sys.stderr)
        sys.exit(2)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def time_us(text: str) -> float:
    """A time with its unit, in microseconds."""
    for unit, factor in sorted(_UNITS_US.items(), key=lambda item: -len(item[0])):
        value = _number(text.removesuffix(unit)) * factor
        if text.endswith(unit) and 0 < value < math.inf:
            return value
    raise argparse.ArgumentTypeError(f"{text!r}; wanted: a time such as 5ms or 800us")


def part(text: str) -> float:
    """A fraction, above 0."""
    value = _number(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r}; wanted: a fraction such as 0.2 or 20%")
    return value


def difference(text: str) -> float:
    """A difference of two F1 scores, which may be 0."""
    value = _number(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r}; wanted: 0 to 1")
    return value


def positive(text: str) -> float:
    """A number above 0."""
    value = _number(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r}; wanted: a number above 0")
    return value


def whole(lowest: int, highest: int = SEED_MAX) -> Callable[[str], int]:
    """A whole number within these, ends included."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not lowest <= int(text) <= highest:
            raise argparse.ArgumentTypeError(
                f"{text!r}; wanted: a whole number from {lowest} to {highest}"
            )
        return int(text)

    return read
