"""Tests whether a row of a policy's answer has the same bits beside any other rows.

A trajectory must not depend on the slot that it runs in, so a row's bits may not depend on its place or its
neighbours. Matrix products break that in general, and mostly keep it where every call has the same number of
rows, or a multiple of 16. So calls are filled up to such a number, and a trial with the same numbers in every
process proves that this is enough. Where it is not, rows are asked for one by one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

logger = logging.getLogger(__name__)

ONE_BY_ONE = (1,)
NUM_TRIAL_ROWS = 128  # more rows than a call has, so that neighbours change
_WIDTHS = ((16, 32, 48, 64), (64,))  # rows of a call: several if all give the same bits, or a single one
_NUM_ORDERS = 3
_KNOWN: dict[str, tuple[int, ...]] = {}  # of this process: the widths that were proved for a kind of policy

Trial = Callable[[NDArray[np.int64]], Sequence[NDArray[Any]]]
"""From the numbers of rows, `[width]` of `NUM_TRIAL_ROWS`, to the arrays `[width, ...]` that answer them."""


def proved_widths(
    kind: str, name: str, make_trial: Callable[[], Trial], check_single: Callable[[], None] | None = None
) -> tuple[int, ...]:
    """With how many rows a policy may be called, by a trial when its kind is first used in this process.

    Args:
        kind: What tells its kind from others.
        name: Of the policy, for the log.
        make_trial: Gives something to try; whatever it draws is the same in every process.
        check_single: Raises if the policy cannot answer one row alone.
    """
    if kind not in _KNOWN:
        _KNOWN[kind] = next(
            (widths for widths in _WIDTHS if _is_independent(make_trial(), widths)), ONE_BY_ONE
        )
        if _KNOWN[kind] == ONE_BY_ONE:
            if check_single is not None:
                check_single()
            logger.warning(
                "%s: a row of its output depends on the other rows of a call, so rows are computed one by "
                "one: the same bits everywhere, but slow. Layers that mix rows (batch normalisation without "
                "stored statistics, means over a batch) are the usual cause",
                name,
            )
        else:
            logger.info("%s: proved that rows are independent in calls of %s rows", name, _KNOWN[kind])
    return _KNOWN[kind]


def _is_independent(trial: Trial, widths: tuple[int, ...]) -> bool:
    """Whether rows have the same bits in other orders, beside other rows, and in calls of these widths."""
    generator = np.random.default_rng(0)
    first: list[bytes] | None = None
    for width in widths:
        for _ in range(_NUM_ORDERS):
            order = generator.permutation(NUM_TRIAL_ROWS)
            # What is missing in the last call is filled up with rows from the first.
            calls = [order[at : at + width] for at in range(0, NUM_TRIAL_ROWS, width)]
            calls = [np.concatenate([call, order[: width - len(call)]]) for call in calls]
            columns = zip(*(trial(call) for call in calls), strict=True)
            outputs = []
            for parts in columns:
                found = np.concatenate([np.asarray(part) for part in parts])[:NUM_TRIAL_ROWS]
                sorted_back = np.empty_like(found)
                sorted_back[order] = found
                outputs.append(sorted_back.tobytes())
            first = outputs if first is None else first
            if outputs != first:
                return False
    return True
