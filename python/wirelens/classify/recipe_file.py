"""A recipe: the options of `wirelens train classify` in a file, so that a model can be made anew.

The keys of the TOML file are names of options without dashes. A list is joined by commas, or for
an option that may be given several times, such as `drop`, is one of each; a table `[set]` has
parameters by family. Options that are typed come behind those of the file, so they replace them or,
where they add up, are added.
"""

import tomllib
from pathlib import Path
from typing import Any

from wirelens.errors import OptionError

# Of which each entry is an option of its own.
_REPEATED = ("drop", "keep", "place", "uncertainty", "thresholds")
# Whose value is a path, from the folder of the recipe.
_PATHS = ("known-ports", "classes", "names")


def options(path: Path) -> list[str]:
    """What the file says, as it would be typed."""
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise OptionError(f"{path}: no such file; wanted: a recipe in TOML") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"{path}: {error}; wanted: a recipe in TOML") from error
    found: list[str] = []
    for name, value in told.items():
        if name == "set":
            found += _parameters(path, value)
        elif value is True:
            found.append(f"--{name}")
        elif name in _REPEATED:
            found += [f"--{name}={one}" for one in (value if isinstance(value, list) else [value])]
        elif isinstance(value, list):
            found.append(f"--{name}={','.join(map(str, value))}")
        elif name in _PATHS:
            found.append(f"--{name}={path.parent / str(value)}")
        elif isinstance(value, str | int | float) and value is not False:
            found.append(f"--{name}={value}")
        else:
            raise OptionError(
                f"{path}: {name} is {value!r}; wanted: text, a number, a list or true"
            )
    return found


def _parameters(path: Path, families: Any) -> list[str]:
    """`[set.lightgbm]` and so on, as `--set` has it."""
    if not isinstance(families, dict) or not all(isinstance(f, dict) for f in families.values()):
        raise OptionError(f"{path}: set: wanted: a table for each family, such as [set.lightgbm]")
    return [
        f"--set={family}.{name}={value}"
        for family, parameters in families.items()
        for name, value in parameters.items()
    ]
