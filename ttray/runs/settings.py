"""Settings by name, as people write them: `key=value` on a command line, or lines of a TOML file.

TOML has no word for None. It is written as "none" where it is a value of the setting (no limit, no preset);
of all others that is a word like any other, such as the baseline's.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ttray.boundary.fields import brief
from ttray.boundary.files import open_regular, read_bytes
from ttray.runs.run import check_setting, may_be_none

_NONE = "none"
_MAX_BYTES = 2**16  # of a file; a run's has a thousand


def parse_settings(assignments: Iterable[str]) -> dict[str, Any]:
    """Reads "key=value" texts: numbers, true and false, lists and words.

    Raises:
        ValueError: A text has no "=", or a key comes twice.
    """
    settings: dict[str, Any] = {}
    for text in assignments:
        key, sign, value = (part.strip() for part in text.partition("="))
        if not (key and sign and value):
            raise ValueError(f"a setting is written key=value, found {text!r}")
        if key in settings:
            raise ValueError(f"{key} is set twice, to {settings[key]!r} and to {value}")
        settings[key] = _meant(key, _value(value))
    return settings


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text  # a word without quotes


def read_settings(path: str | Path, *, trust: bool = False) -> dict[str, Any]:
    """Reads a TOML file of settings, such as the `run.toml` of a run.

    Args:
        path: Of the file.
        trust: Whether it may name a module to be imported for its environment: the code of that module runs.

    Raises:
        ValueError: The file cannot be read, or names a module and is not trusted.
    """
    path = Path(path).expanduser()
    try:
        found = tomllib.loads(read_bytes(path, _MAX_BYTES, is_named=True).decode("utf-8"))
    except OSError as problem:
        raise ValueError(f"{path} cannot be read: {problem.strerror}; pass the run.toml of a run") from None
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"{path} is no TOML file of settings: {problem}") from None
    environment = found.get("environment")
    if not trust and isinstance(environment, str) and ":" in environment:
        raise ValueError(
            f"{path} names the environment {brief(environment)}, whose module would be imported and run; if "
            "you trust it, pass --trust (in Python trust=True), or name the environment yourself with --env"
        )
    settings = {key: _meant(key, value) for key, value in found.items()}
    try:
        for key, value in settings.items():
            check_setting(key, value)
    except ValueError as problem:
        raise ValueError(f"{path}: {problem}") from None
    return settings


def write_settings(path: Path, settings: Mapping[str, Any]) -> None:
    """Writes what `read_settings` reads: numbers, words, lists of them, None, and tables of words."""
    lines = [f"{key} = {_to_toml(value)}\n" for key, value in settings.items()]
    with open_regular(path, "w", encoding="utf-8") as file:
        file.write("".join(lines))


def _meant(key: str, value: Any) -> Any:
    return None if value == _NONE and may_be_none(key) else value


def _to_toml(value: Any) -> str:
    if value is None:
        return json.dumps(_NONE)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_to_toml(key)} = {_to_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_to_toml(each) for each in value) + "]"
    # JSON's words for numbers, truth and strings are TOML's, but for one character that must be escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
