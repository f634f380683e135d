"""What options may hold, and a parser that refuses the rest in one line."""

import argparse
import math
import sys
from collections.abc import Callable
from typing import NoReturn

_UNITS_US = {"ns": 1e-3, "us": 1.0, "µs": 1.0, "ms": 1e3, "s": 1e6}
# Seeds of all libraries go this far.
SEED_MAX = 2**31 - 1


class Parser(argparse.ArgumentParser):
    """Tells what is wrong, and not all there is above it."""

    def error(self, message: str) -> NoReturn:
        """Ends the program as wrong usage."""
        print(f"error: {message}; `{self.prog} --help` tells all options", file=sys.stderr)
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
    """A part of the whole, above 0."""
    value = _number(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r}; wanted: a part such as 0.2 or 20%")
    return value


def difference(text: str) -> float:
    """A difference of two F1, which may be none."""
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
