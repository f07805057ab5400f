"""Validation rules that several settings share, and those longer than a line."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from typing import Any

from ttray.boundary.fields import (
    MAX_COUNT,
    brief,
    check_count,
    check_flag,
    check_not_negative,
    check_one_of,
    check_positive,
    check_sizes,
    check_text,
    optional,
    to_python,
)
from ttray.settings.model import Rule

MAX_BATCH_STEPS = 10**10
"""Environment steps of a batch: more rows than the object stores of a large cluster hold."""

MAX_ROUNDS = 10_000
"""Of a search: a thousand times the paper's; without tolerances it goes on to the last of them."""

MAX_SLOTS = 10**4
"""Vector slots of a worker."""

MAX_TRAINING_SEED = 2**32 - 1
"""Of a training: RLlib hands it to generators that take no more."""

_MAX_ENV_RUNNERS = 10**5  # a process each: more than Ray starts in one cluster
_MAX_LAYERS, _MAX_UNITS = 32, 2**14
_MAX_WEIGHTS = 2**24  # between hidden layers
_MAX_AMOUNT = 1e4  # CPUs of one process
_MAX_PRIORITY = 100.0  # else others would as good as starve


def count(maximum: int = MAX_COUNT, minimum: int = 1) -> Rule:
    """An integer."""
    check = partial(check_count, minimum=minimum, maximum=maximum)
    limits = f"at least {minimum}" if maximum == MAX_COUNT else f"{minimum} to {maximum:,}"
    return Rule(check, f"an integer, {limits}")


def positive(maximum: float | None = None) -> Rule:
    """A number above 0."""
    if maximum is None:
        return Rule(check_positive, "a number above 0")
    return Rule(partial(check_positive, maximum=maximum), f"a number above 0, at most {maximum:g}")


def one_of(*choices: str) -> Rule:
    """One of several words."""
    return Rule(partial(check_one_of, choices=choices), ", ".join(f'"{word}"' for word in choices), choices)


def or_none(rule: Rule) -> Rule:
    """The same for a setting that may be None."""
    return Rule(optional(rule.check), f"{rule.words}, or None", rule.choices)


NOT_NEGATIVE = Rule(check_not_negative, "a number, at least 0")
SHARE = Rule(partial(check_not_negative, maximum=1.0), "a number, 0 to 1")
FLAG = Rule(check_flag, "True or False")


def check_amount(name: str, value: Any) -> int | float:
    """Returns an amount of a resource; whole ones stay whole."""
    amount = check_not_negative(name, value, _MAX_AMOUNT)
    return int(amount) if isinstance(to_python(value), int) else amount


def check_budget(number: int) -> int:
    """Returns the environment steps of a batch."""
    return check_count("budget", number, maximum=MAX_BATCH_STEPS)


def check_num_slots(number: int, name: str = "num_slots") -> int:
    """Returns a number of vector slots."""
    return check_count(name, number, maximum=MAX_SLOTS)


def check_num_env_runners(number: int | str) -> int | str:
    """Returns a number of env runners or "auto"; everything else is a ValueError."""
    if isinstance(number, str) and number == "auto":
        return "auto"
    found = to_python(number)
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= _MAX_ENV_RUNNERS:
        raise ValueError(
            f'num_env_runners must be a whole number, at least 0, or "auto", and at most {_MAX_ENV_RUNNERS}, '
            f"found {brief(number)}"
        )
    return int(found)


def check_label_selector(
    selector: Mapping[str, str] | None, num_env_runners: int | str
) -> dict[str, str] | None:
    """Returns labels of nodes for env runners, or None for any node; everything else is a ValueError.

    Args:
        selector: From labels to the values that they must have.
        num_env_runners: For which they are.
    """
    if selector is None:
        return None
    is_of_texts = isinstance(selector, Mapping) and all(
        isinstance(text, str) and text for pair in selector.items() for text in pair
    )
    if not is_of_texts or not selector:
        raise ValueError(
            f'label_selector must map labels to values, as {{"cpu": "NAME"}} does, found {brief(selector)}'
        )
    if num_env_runners == 0:
        raise ValueError(
            f"label_selector={dict(selector)} chooses the nodes of env runners, and there are none; set "
            "num_env_runners (--env-runners), or leave the labels away"
        )
    return {
        check_text("label_selector", key): check_text("label_selector", selector[key]) for key in selector
    }


def check_service(service: Any) -> str:
    """Returns the name of a service; one of this process says it itself."""
    name = getattr(service, "name", None)
    name = check_text("service", name if isinstance(name, str) else service)
    if name == "none":  # which `--set` and files read as "no service"
        raise ValueError("service must have another name, found 'none', which means that there is no service")
    return name


def check_priority(priority: Any) -> float:
    """Returns a share beside others' 1."""
    found = check_positive("priority", priority, maximum=_MAX_PRIORITY)
    if found < 1 / _MAX_PRIORITY:
        raise ValueError(f"priority must be at least {1 / _MAX_PRIORITY:g}, found {brief(priority)}")
    return found


def check_hidden_sizes(name: str, value: Any) -> tuple[int, ...]:
    """Returns units of hidden layers, for a network that a machine can hold."""
    sizes = check_sizes(name, value, max_length=_MAX_LAYERS, maximum=_MAX_UNITS)
    if (number := sum(a * b for a, b in pairwise(sizes))) > _MAX_WEIGHTS:
        raise ValueError(f"{name} must have at most {_MAX_WEIGHTS:,} weights, found {number:,}")
    return sizes


AMOUNT = Rule(check_amount, f"a number, 0 to {_MAX_AMOUNT:g}")
HIDDEN_SIZES = Rule(check_hidden_sizes, f"integers, at most {_MAX_LAYERS} of them")
SERVICE = Rule(lambda _, value: check_service(value), "the name of a service")
PRIORITY = Rule(
    lambda _, value: check_priority(value), f"a number, {1 / _MAX_PRIORITY:g} to {_MAX_PRIORITY:g}"
)
# Whether there are env runners for the labels is asked elsewhere.
LABELS = Rule(lambda _, value: check_label_selector(value, "auto"), "labels and their values, or None")
NUM_ENV_RUNNERS = Rule(
    lambda _, value: check_num_env_runners(value), f'an integer, 0 to {_MAX_ENV_RUNNERS:,}, or "auto"'
)
