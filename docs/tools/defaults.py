"""Shows the defaults of arguments as values, where the code names a constant: an extension of griffe.

`num_iterations: int = Run.num_iterations` is read as `num_iterations: int = 60`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import griffe

from ttray.runs.own_settings import ALL_SETTINGS, NUM_ENV_RUNNERS

# What the settings of a run are if nothing is said.
DEFAULTS = {name: each.default for name, each in ALL_SETTINGS.items()} | {"num_env_runners": NUM_ENV_RUNNERS}


class Defaults(griffe.Extension):
    """Replaces names by what they stand for, once all modules are read."""

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **_: Any) -> None:
        """Called with the whole package."""
        for function in functions_of(pkg):
            for each in function.parameters:
                each.default = value_of(each, loader.modules_collection)


def functions_of(scope: Any) -> Iterator[griffe.Function]:
    """All functions and methods below a module or a class."""
    for member in scope.members.values():
        if member.is_alias:
            continue
        if member.is_function:
            yield member
        elif member.is_module or member.is_class:
            yield from functions_of(member)


def value_of(parameter: griffe.Parameter, modules: griffe.ModulesCollection) -> Any:
    """The default as a value where it is a setting or a constant of ttray."""
    value = parameter.default
    if str(value).startswith("Run."):
        return repr(DEFAULTS[parameter.name])
    while isinstance(value, griffe.Expr) and value.canonical_path.startswith("ttray."):
        try:
            found = modules[value.canonical_path]
        except KeyError:
            break
        if not found.is_attribute:
            break
        value = found.value
    return value
