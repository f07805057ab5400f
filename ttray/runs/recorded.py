"""`ttray.evaluate_table`: estimates the return of a policy from batches it collected before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from ttray.boundary.fields import check_delta, check_gamma
from ttray.data.batch import Batch, read_parquet
from ttray.estimators.batch_intervals import interval_of_batches
from ttray.estimators.in_rounds import Question, StepMeans
from ttray.runs.return_interval import ReturnInterval, numbered
from ttray.settings.reward_ranges import known_range

Table: TypeAlias = pa.Table | str | Path
"""A table of `ttray.collect`, or the path of a Parquet file with one."""


@dataclass(frozen=True, repr=False)
class TableEvaluation(ReturnInterval):
    """The return of the policy that collected some batches, between two numbers; for one look at all of them.

    Attributes:
        num_tables: Batches.
    """

    num_tables: int

    def _in(self) -> str:
        return f", {numbered(self.num_tables, 'table')}"


def evaluate_table(
    tables: Table | Sequence[Table],
    *,
    gamma: float | None = None,
    delta: float = 0.05,
    reward_range: float | tuple[float, float] | None = None,
) -> TableEvaluation:
    """Evaluates the policy that collected some batches: estimates its return, with an interval.

    Pass all tables, and look once: picking the tables that please, or looking again whenever there is one
    more, makes the interval wrong. To stop when it is accurate enough, use `ttray.evaluate`.

    Args:
        tables: Tables of `ttray.collect`, or paths of Parquet files with them; one, or several of the same
            policy, environment and horizon, each with another seed or iteration.
        gamma: Discount. Default: that of the tables, or 1 (none).
        delta: Probability that the interval fails.
        reward_range: Smallest and largest possible reward: makes the interval a guarantee. Or only the
            largest minus the smallest, for a wider one. Without it the interval is Student's, for many
            trajectories. A reward outside the range is an error.
    """
    delta, known = check_delta(delta), known_range(reward_range)
    given = [tables] if isinstance(tables, pa.Table | str | Path) else list(tables)
    if not given:
        raise ValueError("found no tables; pass at least one")
    names = [f"table {at}" if isinstance(each, pa.Table) else str(each) for at, each in enumerate(given)]
    batches = [Batch.of(each if isinstance(each, pa.Table) else read_parquet(each)) for each in given]
    first = batches[0].info
    _check_together(batches, names)
    if gamma is None:
        gamma = _common_discount(batches)
    question = Question(first.environment, first.strategy.horizon, check_gamma(gamma), delta, known)
    found = interval_of_batches(
        [(each.info.strategy, each.tensors) for each in batches],
        gamma=question.gamma,
        delta=delta,
        reward_range=None if known is None else known.pair,
    )
    means = StepMeans(question.horizon)
    for each in batches:
        means.add(each.info.strategy, each.tensors)
    return TableEvaluation(**means.described(question, found), num_tables=len(batches))


def _common_discount(batches: Sequence[Batch]) -> float:
    """The one discount of all batches; 1 where they have none."""
    found = {1.0 if each.info.gamma is None else each.info.gamma for each in batches}
    if len(found) > 1:
        raise ValueError(f"the tables have the discounts {sorted(found)}; pass gamma (--gamma)")
    return found.pop()


def _check_together(batches: Sequence[Batch], names: Sequence[str]) -> None:
    """Raises ValueError unless the batches are independent ones of one policy."""
    first = batches[0].info
    seen: dict[tuple[int, int], str] = {}
    for batch, name in zip(batches, names, strict=True):
        info = batch.info
        for what, one, other in (
            ("environment", first.environment, info.environment),
            ("horizon", first.strategy.horizon, info.strategy.horizon),
            ("policy", first.weights_digest, info.weights_digest),
        ):
            if one != other:
                raise ValueError(
                    f"{names[0]} has the {what} {one} and {name} {other}; pass tables of one policy, "
                    "collected in one way"
                )
        origin = info.seed, info.iteration
        if origin in seen:
            raise ValueError(
                f"{seen[origin]} and {name} have the same seed {info.seed} and iteration {info.iteration}: "
                "the same trajectories, which would count as new evidence; pass each once"
            )
        seen[origin] = name
