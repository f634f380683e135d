"""Settings as TOML: tables as dictionaries, in the text that the command reads."""

import datetime
import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from wirelens.errors import SettingsError

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def table(values: Mapping[str, Any], where: str) -> str:
    """The lines of one table, without its name; `where` names it in errors."""
    lines = [
        f"{_key(key)} = {_value(value, f'{where} {key}')}\n"
        for key, value in values.items()
        # As with arguments: None is what is not given.
        if value is not None
    ]
    return "".join(lines)


def tables(settings: Mapping[str, Any]) -> str:
    """The text of a file of settings: a table by each name, or several in a list."""
    parts = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            parts.append(f"[{_key(name)}]\n{table(value, f'[{name}]')}")
        elif isinstance(value, Sequence) and all(isinstance(one, Mapping) for one in value):
            parts += [f"[[{_key(name)}]]\n{table(one, f'[{name}]')}" for one in value]
        else:
            raise SettingsError(
                f"{name}: a value of type {type(value).__name__}; wanted: a dictionary for the "
                f"table [{name}], or a list of them"
            )
    return "".join(parts)


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise SettingsError(f"{key!r}: a key of type {type(key).__name__}; wanted: str")
    return key if _BARE_KEY.fullmatch(key) else _text(key)


def _text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SettingsError(
            f"{text!r}: not Unicode, which settings are; give a name whose bytes are UTF-8"
        ) from error
    # A string of JSON is one of TOML, once DEL is written as a number too.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any, where: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | os.PathLike):
        text = os.fspath(value)
        if isinstance(text, str):
            return _text(text)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        # Of its kind: the float64 of numpy writes itself as `np.float64(0.5)`.
        return float.__repr__(value)
    if isinstance(value, datetime.timedelta):
        return f'"{value // datetime.timedelta(microseconds=1)}us"'
    if isinstance(value, Mapping):
        pairs = (
            f"{_key(key)} = {_value(one, f'{where}.{key}')}"
            for key, one in value.items()
            if one is not None
        )
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return f"[{', '.join(_value(one, where) for one in value)}]"
    raise SettingsError(
        f"{where}: a value of type {type(value).__name__}; wanted: text, a number, a truth value, "
        "a path, a timedelta, a list or a dictionary"
    )
