"""How a setting is defined: a field of a pydantic dataclass, with its rule, its default and its help text.

Pydantic applies the rules whenever an object is made, so whoever holds one need not check it again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar, dataclass_transform

import pydantic
from pydantic_core import core_schema

from ttray.boundary.fields import Check

_Class = TypeVar("_Class", bound=type)


@dataclass(frozen=True)
class Rule:
    """What a setting may be; the metadata of its type.

    Attributes:
        check: From its name and a value to the plain value; ValueError with the rule and what was found.
        words: The same for people.
        choices: Where it takes one of several words: those that there are.
    """

    check: Check
    words: str
    choices: tuple[str, ...] = ()

    def __get_pydantic_core_schema__(self, _: Any, __: pydantic.GetCoreSchemaHandler) -> Any:
        return core_schema.with_info_plain_validator_function(
            lambda value, info: self.check(str(info.field_name), value)
        )


@dataclass(frozen=True)
class Setting:
    """A setting, as everything that is not its class sees it.

    Attributes:
        name: By which it is known everywhere.
        type: Of its plain values, as Python writes it.
        rule: What it may be.
        default: What holds if nothing is said; None, too, if it has to be said.
        is_required: Whether it has to be said.
        help: What it is for.
        method: The method of `TTPOISConfig` that takes it; empty if it is of a run alone.
        changes_results: Whether other values bring other results.
        may_change: Whether it may be another when a run goes on.
    """

    name: str
    type: str
    rule: Rule
    default: Any
    is_required: bool
    help: str
    method: str
    changes_results: bool
    may_change: bool

    @property
    def full_help(self) -> str:
        """What it is for, and whether that can be seen in results."""
        return self.help if self.changes_results else f"{self.help} Changes no result."

    def check(self, value: Any) -> Any:
        """Returns the plain value, or raises a ValueError with the name, the rule and what was found."""
        return self.rule.check(self.name, value)


def setting(
    help: str, *, default: Any = ..., changes_results: bool = True, may_change: bool | None = None
) -> Any:
    """A field that is a setting.

    Args:
        help: What it is for: a sentence or two.
        default: What holds if nothing is said; without one, it has to be said.
        changes_results: Whether other values bring other results.
        may_change: Whether it may be another when a run goes on; unless given, if it changes no result.
    """
    may_change = not changes_results if may_change is None else may_change
    extra: Any = {"changes_results": changes_results, "may_change": may_change}
    return pydantic.Field(default=default, description=help, json_schema_extra=extra)


@dataclass_transform(frozen_default=True, field_specifiers=(setting, field))
def settings_class(made: _Class) -> _Class:
    """Makes a frozen dataclass of settings, whose objects are plain values or a ValueError in plain words."""
    settings = pydantic.dataclasses.dataclass(
        made, frozen=True, config=pydantic.ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    )
    create = settings.__init__

    @wraps(create)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            create(self, *args, **kwargs)
        except pydantic.ValidationError as problem:
            raise _in_plain_words(problem) from None

    settings.__init__ = __init__  # type: ignore[method-assign]
    return settings  # type: ignore[return-value]  # pydantic's is a subclass in name only


def _in_plain_words(problem: pydantic.ValidationError) -> Exception:
    """The error of the rule that was broken first; TypeError for arguments that there are not."""
    first = problem.errors(include_url=False)[0]
    broken = first.get("ctx", {}).get("error")
    if isinstance(broken, ValueError):
        return broken
    where = ".".join(map(str, first["loc"]))
    return TypeError(f"{problem.title}: {where}: {first['msg'].lower()}")


def settings_of(made: type, method: str = "") -> dict[str, Setting]:
    """The settings that a class defines, by name.

    Args:
        made: A class of `settings_class`.
        method: The method of `TTPOISConfig` that takes them.
    """
    fields: dict[str, Any] = made.__pydantic_fields__  # type: ignore[attr-defined]
    return {
        name: Setting(
            name=name,
            type=_shown(found.annotation),
            rule=next(each for each in found.metadata if isinstance(each, Rule)),
            default=None if found.is_required() else found.default,
            is_required=found.is_required(),
            help=found.description,
            method=method,
            **found.json_schema_extra,
        )
        for name, found in fields.items()
        if found.json_schema_extra is not None
    }


def _shown(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)
