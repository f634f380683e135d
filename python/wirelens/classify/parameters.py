"""Parameters of families that `--set` names: those that a library would pass over are refused."""

import warnings
from typing import Any

from wirelens import compat
from wirelens.errors import OptionError


def check(family: str, library: str | None, known: dict[str, Any], changed: dict[str, Any]) -> None:
    """Refuses names that nobody would look at, before anything is trained."""
    others = {name: value for name, value in changed.items() if name not in known}
    if not others:
        return
    if library is None:
        unused = list(others)
    elif library == "lightgbm":
        unused = _unused_by_lightgbm(family, others)
    elif library == "xgboost-cpu":
        unused = _unused_by_xgboost(family, others)
    else:
        # scikit-learn and our networks refuse what they do not know.
        return
    if unused:
        raise OptionError(
            f"--set {family}.{unused[0]}: {family} has no such parameter; wanted: such as "
            f"{', '.join(known)}"
        )


def _unused_by_lightgbm(family: str, changed: dict[str, Any]) -> list[str]:
    """LightGBM's list of names is not public; without it all are taken."""
    aliases = getattr(compat.need("lightgbm.basic", family), "_ConfigAliases", None)
    every = getattr(aliases, "_get_all_param_aliases", None)
    if every is None:
        return []
    known = {name for names in every().values() for name in names}
    return [name for name in changed if name not in known]


def _unused_by_xgboost(family: str, changed: dict[str, Any]) -> list[str]:
    """XGBoost tells in a warning while it trains: one tree of two rows."""
    xgboost = compat.need("xgboost", family)
    numpy = compat.need("numpy", family)
    unused = []
    for name, value in changed.items():
        data = xgboost.DMatrix(numpy.array([[0.0], [1.0]]), numpy.array([0, 1]))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            xgboost.train({name: value, "verbosity": 1, "nthread": 1}, data, 1)
        if any("are not used" in str(one.message) for one in told):
            unused.append(name)
    return unused
