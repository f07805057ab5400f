"""`ttray.ope`: evaluates a policy on recorded batches of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
from ray.rllib.core.rl_module.rl_module import RLModule

from ttray.boundary.fields import (
    MAX_NUMBER,
    brief,
    check_count,
    check_delta,
    check_flag,
    check_gamma,
    check_positive,
    check_within,
)
from ttray.data.batch import BatchInfo, read_parquet
from ttray.data.ragged import as_tensors
from ttray.estimators.halves import halves
from ttray.estimators.off_policy import OffPolicyTable, check_recordings, compare_estimators
from ttray.estimators.recorded_bounds import RecordedBounds, recorded_bounds
from ttray.estimators.reward_ranges import check_reward_range, check_rewards
from ttray.estimators.weighted_estimators import Recording
from ttray.policies.distributions import from_description
from ttray.rllib.policies import PolicySource, distribution_inputs
from ttray.runs.checkpoints import find_checkpoint
from ttray.settings.reward_ranges import known_range


@dataclass(frozen=True)
class OffPolicyEvaluation(OffPolicyTable):
    """What recorded batches tell of a policy: what is proven, what four estimators say, what was assumed.

    Attributes:
        recordings: What messages call the batches: their files, or their positions.
        gamma: Discount.
        delta: Probability that a bound fails.
        max_reward: Largest absolute reward that the estimators' bounds allow for.
        is_range_declared: Whether the recordings say between which numbers rewards lie, not the caller.
        guaranteed: Proven bounds of the return, each with probability 1 − δ at least, for any number of
            trajectories, if the policy was chosen without looking at these; None where nothing is proven,
            because nobody has said between which numbers rewards lie, or recordings share their noise.
        is_split: Whether the estimators are of one half of the trajectories, to choose on, and the proof is
            by the other.
        num_proving: Trajectories that the proof rests on; 0 without one.
        better_than: The return that the policy was to be proven better than; None if not asked.
        is_better: Whether it is proven to be; None if not asked.
    """

    recordings: tuple[str, ...]

    gamma: float
    delta: float
    max_reward: float
    is_range_declared: bool
    guaranteed: RecordedBounds | None
    is_split: bool
    num_proving: int
    better_than: float | None
    is_better: bool | None


def ope(
    tables: Sequence[pa.Table | str | Path],
    *,
    policy: PolicySource,
    module_class: type[RLModule] | None = None,
    actions: str | None = None,
    gamma: float | None = None,
    delta: float = 0.05,
    max_reward: float | None = None,
    importance_weight_clip: float | None = None,
    reward_range: tuple[float, float] | None = None,
    better_than: float | None = None,
    split: bool = False,
    seed: int = 0,
) -> OffPolicyEvaluation:
    """Evaluates a policy on recorded batches of another one, without running it.

    If somebody has said between which numbers rewards lie, a lower and an upper bound of the return are
    proven: for any number of trajectories and any weights, with probability 1 − δ each. The policy must have
    been chosen without looking at these trajectories.

    Beside them stand four estimators, of which nothing is proven: one weight for each trajectory (the
    paper's) or for each decision, both also self-normalised, each with a standard error and lower bounds.

    Args:
        tables: What `ttray.collect` gave, or paths of Parquet files with that; each of them once. Those of a
            proof have different seeds or iterations, and stand in the order of collection.
        policy: The one to evaluate: an RLModule, an algorithm of RLlib, the path of a run or of a checkpoint,
            or a function from observations to distribution inputs. Of a path nothing is unpickled.
        module_class: Of a path to a policy whose module is not ttray's own.
        actions: "rescaled" or "clipped", of an RLModule that is not ttray's own, see `ttray.collect`.
        gamma: Discount; that of the tables unless given.
        delta: Probability that a bound fails.
        max_reward: Largest absolute reward there can be; by `reward_range` unless given, or the largest
            recorded one, with which no bound is a guarantee. Without `reward_range`, rewards lie between
            minus this and this.
        importance_weight_clip: Largest weight; biases the estimates. The proven bounds take none.
        reward_range: Smallest and largest possible reward; the 0 of ended episodes counts among them. By
            `max_reward` unless given, or as the environments of all tables have declared.
        better_than: A return: is it proven that the policy earns more?
        split: Whether the policy was, or will be, chosen by looking at these data: half of the trajectories,
            drawn by the seed, are for the four estimators, and only the others prove something. The choice
            must not have seen these others.
        seed: Of the two halves, and of the order in which trajectories are looked at.

    Returns:
        What is proven as `guaranteed.low`, `guaranteed.high` and `is_better`; the estimators by name, e.g.
        `found["per_decision"].estimate`; `problems` and `is_worthless` tell when these are not to be trusted.
    """
    delta, seed, split = check_delta(delta), check_count("seed", seed, 0), check_flag("split", split)
    if gamma is not None:
        gamma = check_gamma(gamma)
    if max_reward is not None:
        max_reward = check_positive("max_reward", max_reward)
    if importance_weight_clip is not None:
        importance_weight_clip = check_positive("importance_weight_clip", importance_weight_clip)
    if better_than is not None:
        better_than = check_within("better_than", better_than, -MAX_NUMBER, MAX_NUMBER)
    given = _given(reward_range, max_reward)
    if isinstance(policy, str | Path):
        policy = find_checkpoint(policy)
    if isinstance(tables, pa.Table | str | Path):
        raise ValueError(f"tables must be a list, found one {type(tables).__name__}; put it into a list")
    if not tables:
        raise ValueError("found no tables; pass at least one")
    recordings, origins = [], []
    for number, each in enumerate(tables):
        name = f"table {number}" if isinstance(each, pa.Table) else str(each)
        table = each if isinstance(each, pa.Table) else read_parquet(each)
        info, batch = BatchInfo.from_table(table), as_tensors(table)
        origins.append(info)
        distribution = from_description(info.distribution)
        target = distribution_inputs(policy, batch.obs, distribution.num_inputs, module_class, actions)
        compare = distribution.comparison(batch.behaviour_inputs, batch.action)
        recordings.append(Recording(batch, info.strategy, compare(target), name))
    known = known_range(given, _declared(origins))
    if better_than is not None and known is None:
        raise ValueError(
            "better_than asks for a proof, which needs the smallest and the largest possible reward; pass "
            "reward_range (--range)"
        )
    gamma = _common({each.gamma for each in origins}) if gamma is None else gamma
    bound_on_reward = recorded = max(float(each.batch.reward.abs().max()) for each in recordings)
    if max_reward is not None:
        if max_reward < recorded:
            raise ValueError(f"max_reward {max_reward} is below the recorded {recorded}; pass at least that")
        bound_on_reward = max_reward
    if known is not None:
        for each in recordings:
            check_rewards(each.batch, check_reward_range(known.pair, can_end=True), can_end=True)
        if max_reward is None and given is not None:
            bound_on_reward = max(recorded, -known.low, known.high)
    names = tuple(each.name for each in recordings)
    shown, proving = recordings, recordings
    if split:
        check_recordings(recordings)
        parts = [halves(each, seed, number) for number, each in enumerate(recordings)]
        shown, proving = [first for first, _ in parts], [second for _, second in parts]
    found = compare_estimators(
        shown,
        gamma=gamma,
        delta=delta,
        max_reward=bound_on_reward or None,
        importance_weight_clip=importance_weight_clip,
    )
    problems, bounds = list(found.problems), None
    if known is not None:
        shared = _shared_noise(origins, names)
        problems += shared
        if not shared:
            bounds = recorded_bounds(proving, gamma=gamma, delta=delta, reward_range=known.pair, seed=seed)
            problems += [_CONTRADICTION] if bounds.is_contradictory else []
    return OffPolicyEvaluation(
        **{
            **{field.name: getattr(found, field.name) for field in fields(found)},
            "problems": tuple(problems),
        },
        recordings=names,
        gamma=gamma,
        delta=delta,
        max_reward=bound_on_reward,
        is_range_declared=known is not None and known.is_declared,
        guaranteed=bounds,
        is_split=split,
        num_proving=0 if bounds is None else sum(each.strategy.num_trajectories for each in proving),
        better_than=better_than,
        is_better=None if better_than is None else bounds is not None and bounds.proves(better_than),
    )


_CONTRADICTION = (
    "the proven bounds exclude every return: by chance, which is rare, or because the range of rewards, or "
    "how probable the recorded actions were, is not as said"
)


def _given(reward_range: Any, max_reward: float | None) -> tuple[float, float] | None:
    """The range that the caller gave: not its width alone, which would not say where it lies."""
    if reward_range is not None and not isinstance(reward_range, tuple | list):
        raise ValueError(
            f"reward_range must be (smallest, largest) of the possible rewards, found {brief(reward_range)}"
        )
    if reward_range is None and max_reward is not None:
        return -max_reward, max_reward
    return reward_range if reward_range is None else tuple(reward_range)


def _declared(origins: Sequence[BatchInfo]) -> tuple[float, float] | None:
    """The range that all recordings declare, from the smallest to the largest."""
    found = [each.reward_range for each in origins if each.reward_range is not None]
    if len(found) < len(origins):
        return None
    return min(low for low, _ in found), max(high for _, high in found)


def _shared_noise(origins: Sequence[BatchInfo], names: Sequence[str]) -> list[str]:
    """Recordings that are not independent, so that together they prove nothing."""
    first: dict[tuple[int, int], str] = {}
    found = []
    for info, name in zip(origins, names, strict=True):
        earlier = first.setdefault((info.seed, info.iteration), name)
        if earlier != name:
            found.append(
                f"{earlier} and {name} have the same seed {info.seed} and iteration {info.iteration}, so the "
                "same noise: together they prove nothing; collect each with another seed, or pass one"
            )
    return found


def _common(discounts: set[float | None]) -> float:
    """The one discount of all tables."""
    if len(discounts) == 1:
        (gamma,) = discounts
        if gamma is not None:
            return gamma
    raise ValueError(f"the tables have the discounts {sorted(map(str, discounts))}; pass gamma (--gamma)")
