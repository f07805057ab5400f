"""The metadata of a batch's table, as a file may hold it: every value is checked before it is used.

A declared schema: for each key, what it must be. Sizes are compared with the number of rows that are really
there before anything is allocated, so that a short file cannot ask for much memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from ttray.boundary.fields import (
    MAX_SEED,
    Check,
    brief,
    check_count,
    check_gamma,
    check_real,
    check_text,
    optional,
)
from ttray.plans.dcs import DataCollectionStrategy, check_horizon
from ttray.policies.distributions import from_description

FORMAT_VERSION = 2
_READABLE_VERSIONS = (1, 2)  # version 1: always with dist_inputs, never with last_obs
_PREFIX = "ttray."


def encode(values: Mapping[str, Any]) -> dict[bytes, bytes]:
    """Values as JSON under prefixed keys, with the version of the format."""
    versioned = {"format_version": FORMAT_VERSION, **values}
    return {(_PREFIX + key).encode(): json.dumps(value).encode() for key, value in versioned.items()}


def decode(metadata: Mapping[bytes, bytes] | None, num_rows: int) -> dict[str, Any]:
    """Reads what `encode` wrote for a batch: `environment`, `seed`, `iteration`, `strategy`, …

    Args:
        metadata: Of the schema of a table.
        num_rows: Of that table.

    Returns:
        The values by key; the strategy as a strategy.

    Raises:
        ValueError: A value is missing, of another type, out of range, or does not fit the others.
    """
    prefix = _PREFIX.encode()
    found = {
        key.removeprefix(prefix).decode(errors="replace"): _from_json(key, value)
        for key, value in (metadata or {}).items()
        if key.startswith(prefix)
    }
    version = found.get("format_version")
    if isinstance(version, bool) or version not in _READABLE_VERSIONS:
        raise ValueError(
            f"the table has ttray format version {brief(version)}, this program reads the versions "
            f"{', '.join(map(str, _READABLE_VERSIONS))}; pass a table written by ttray.collect or "
            "`write_parquet`"
        )
    if missing := _CHECKS.keys() - found.keys():
        raise ValueError(f"its metadata lack {', '.join(sorted(missing))}")
    values = {name: check(name, found[name]) for name, check in _CHECKS.items()}
    values |= {name: check(name, found.get(name)) for name, check in OPTIONAL_CHECKS.items()}
    strategy = _strategy(values.pop("strategy"), values.pop("horizon"), num_rows)
    if (budget := values.pop("budget")) != strategy.budget:
        raise ValueError(f"its budget is {budget}, but its strategy plans {strategy.budget} steps")
    return values | {"strategy": strategy}


def _from_json(key: bytes, value: bytes) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"{key.decode(errors='replace')} is no JSON: {problem}") from None


def _distribution(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be a mapping, found {brief(value)}")
    from_description(value)
    return value


def _mapping(name: str, value: Any) -> dict[str, Any]:
    wanted = {"kind", "gamma", "lengths", "trajectories"}
    if not isinstance(value, dict) or value.keys() != wanted:
        raise ValueError(f"{name} must have {', '.join(sorted(wanted))}, found {brief(value)}")
    return value


ORIGIN_CHECKS: Mapping[str, Check] = {
    "environment": check_text,
    "seed": partial(check_count, minimum=0, maximum=MAX_SEED),
    "iteration": partial(check_count, minimum=0),
    "gamma": optional(lambda _, value: check_gamma(value)),
}
"""What tells where a batch comes from: of files as of calls."""


def _reward_range(name: str, value: Any) -> tuple[float, float]:
    rule = "the smallest and the largest reward, two finite numbers"
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError(f"{name} must be {rule}, found {brief(value)}")
    low, high = (check_real(name, each, math.isfinite, rule) for each in value)
    if low > high:
        raise ValueError(f"{name} must be {rule}, found {brief(value)}")
    return low, high


OPTIONAL_CHECKS: Mapping[str, Check] = {
    "weights_digest": optional(check_text),
    "reward_range": optional(_reward_range),
}
"""What need not be known; files of before version 0.2 lack it."""

_CHECKS: Mapping[str, Check] = {
    **ORIGIN_CHECKS,
    "horizon": lambda _, value: check_horizon(value),
    "budget": check_count,
    "distribution": _distribution,
    "strategy": _mapping,
}


def _strategy(planned: Mapping[str, Any], horizon: int, num_rows: int) -> DataCollectionStrategy:
    counts = np.zeros(horizon, dtype=np.int64)
    pairs = _pairs(planned["lengths"], planned["trajectories"])
    total = 0
    for length, number in pairs:
        if not 1 <= length <= horizon or number < 1 or counts[length - 1]:
            raise ValueError(
                f"its strategy has {brief(number)} trajectories of length {brief(length)}; each length "
                f"from 1 to the horizon {horizon} may stand once, with at least one trajectory"
            )
        total += number
        if total > num_rows:  # each has a first step
            raise ValueError(f"its strategy has over {num_rows} trajectories, but it has {num_rows} rows")
        counts[length - 1] = number
    return DataCollectionStrategy.from_trajectories_per_length(
        counts, kind=check_text("kind", planned["kind"]), gamma=planned["gamma"]
    )


def _pairs(lengths: Any, numbers: Any) -> list[tuple[int, int]]:
    if not isinstance(lengths, list) or not isinstance(numbers, list) or len(lengths) != len(numbers):
        raise ValueError(
            "its strategy needs as many lengths as numbers of trajectories, found "
            f"{brief(lengths)} and {brief(numbers)}"
        )
    return [
        (check_count("a length", length, 0), check_count("a number of trajectories", number, 0))
        for length, number in zip(lengths, numbers, strict=True)
    ]
