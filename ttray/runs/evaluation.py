"""`ttray.evaluate` and `ttray.ope`: what a policy is worth, from a fresh batch or from recorded ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
from ray.rllib.core.rl_module.rl_module import RLModule

from ttray.core.batch import BatchInfo, read_parquet
from ttray.core.checks import check_delta, check_gamma, check_positive
from ttray.core.dcs import DataCollectionStrategy, check_plan
from ttray.core.distributions import from_description
from ttray.core.evaluation import OnPolicyEstimate, in_rounds
from ttray.core.off_policy import OffPolicyTable, compare_estimators
from ttray.core.planning import check_strategy
from ttray.core.ragged import RaggedBatch, as_tensors
from ttray.core.rounds import collect_in_rounds
from ttray.core.streams import FIRST_EVALUATION_ITERATION
from ttray.core.weighted import Recording
from ttray.rllib.policies import PolicySource, distribution_inputs
from ttray.rllib.policy_files import training_of
from ttray.rollout.environment import EnvSource
from ttray.runs.checkpoints import find_checkpoint
from ttray.runs.collect import collect
from ttray.service.progress import OnProgress


@dataclass(frozen=True)
class Evaluation(OnPolicyEstimate):
    """The return of a policy, and the fresh batch that tells it.

    Attributes:
        environment: In which it was collected.
        gamma: Discount.
        delta: Probability that an interval misses.
        horizon: Longest trajectory.
        num_rounds: In which the batch was planned and collected.
        num_env_steps: Collected.
        num_trajectories: Collected.
    """

    environment: str
    gamma: float
    delta: float
    horizon: int
    num_rounds: int
    num_env_steps: int
    num_trajectories: int


def evaluate(
    policy: str | Path,
    *,
    gamma: float | None = None,
    seed: int = 0,
    horizon: int | None = None,
    budget: int | None = None,
    strategy: str = "truncated",
    delta: float = 0.05,
    reward_range: float | None = None,
    num_env_runners: int | str = 0,
    label_selector: dict[str, str] | None = None,
    environment: EnvSource | None = None,
    env_config: dict[str, Any] | None = None,
    module_class: type[RLModule] | None = None,
    on_progress: OnProgress | None = None,
) -> Evaluation:
    """Evaluates a trained policy on a fresh batch: its return, with intervals.

    Nothing is unpickled: a directory from a stranger runs no code of theirs. What it names is made only if it
    is registered here, or given.

    Args:
        policy: Directory of a run, or of a checkpoint of TTPOIS or POIS.
        gamma: Discount; as trained unless given.
        seed: Of the batch. No seed gives a batch that was trained on.
        horizon: Longest trajectory; as trained unless given.
        budget: Environment steps; as trained unless given.
        strategy: "truncated", "exact", "uniform", "adaptive" or the name of a planner of your own. "adaptive"
            spends the budget in two rounds, a fifth by a plan between uniform and the paper's and the rest
            planned from that; in one where a fifth is less than four times the horizon.
        delta: Probability that an interval misses.
        reward_range: Largest minus smallest possible reward; as recorded unless given.
        num_env_runners: Remote collectors, on the Ray around, or an embedded one; "auto" for as many as the
            cluster has CPUs for; 0 collects in this process.
        label_selector: Labels of the nodes that env runners may use, e.g. to stay on one type of CPU.
        environment: A gymnasium id, an `Env` class or a function that returns an `Env`; needed if the policy
            was trained on one that has arguments or is not registered here.
        env_config: Its arguments; as trained unless given.
        module_class: Of a policy whose module is not ttray's own.
        on_progress: Told how far it is; a line on the terminal or in the notebook unless given.
    """
    delta, strategy = check_delta(delta), check_strategy(strategy)
    if reward_range is not None:
        reward_range = check_positive("reward_range", reward_range)
    checkpoint = find_checkpoint(policy)
    trained = training_of(checkpoint)
    maker = trained.maker(environment, env_config)
    horizon, budget, gamma = check_plan(
        trained.horizon if horizon is None else horizon,
        trained.budget if budget is None else budget,
        trained.gamma if gamma is None else gamma,
    )

    def collect_round(planned: DataCollectionStrategy, number: int) -> RaggedBatch:
        table = collect(
            maker,
            strategy=planned,
            policy=checkpoint,
            module_class=module_class,
            num_env_runners=num_env_runners,
            label_selector=label_selector,
            seed=seed,
            iteration=FIRST_EVALUATION_ITERATION + number,
            gamma=gamma,
            on_progress=on_progress,
        )
        return as_tensors(table)

    rounds = collect_in_rounds(collect_round, strategy, horizon=horizon, budget=budget, gamma=gamma)
    found = in_rounds(rounds, gamma=gamma, delta=delta, reward_range=reward_range)
    return Evaluation(
        **asdict(found),
        environment=maker.name,
        gamma=gamma,
        delta=delta,
        horizon=horizon,
        num_rounds=len(rounds),
        num_env_steps=sum(len(each.batch.reward) for each in rounds),
        num_trajectories=sum(each.strategy.num_trajectories for each in rounds),
    )


@dataclass(frozen=True)
class OffPolicyEvaluation(OffPolicyTable):
    """What recorded batches tell of a policy, by four estimators, and what was assumed.

    Attributes:
        recordings: What messages call the batches: their files, or their positions.
        gamma: Discount.
        delta: Probability that the return is below a bound.
        max_reward: Largest absolute reward that the bounds allow for.
    """

    recordings: tuple[str, ...]

    gamma: float
    delta: float
    max_reward: float


def ope(
    tables: Sequence[pa.Table | str | Path],
    *,
    policy: PolicySource,
    module_class: type[RLModule] | None = None,
    gamma: float | None = None,
    delta: float = 0.05,
    max_reward: float | None = None,
    importance_weight_clip: float | None = None,
) -> OffPolicyEvaluation:
    """Evaluates a policy on recorded batches of another one, without running it.

    Four estimators side by side: one weight for each trajectory (the paper's) or for each decision, both also
    self-normalised. Each has a standard error and lower bounds.

    Args:
        tables: What `ttray.collect` gave, or paths of Parquet files with that; each of them once.
        policy: The one to evaluate: an RLModule, the path of a run or of a checkpoint, or a function from
            observations to distribution inputs. Of a path nothing is unpickled.
        module_class: Of a path to a policy whose module is not ttray's own.
        gamma: Discount; that of the tables unless given.
        delta: Probability that the return is below a bound.
        max_reward: Largest absolute reward there can be; the largest recorded one unless given, with which
            the bounds are no guarantee.
        importance_weight_clip: Largest weight; biases the estimates.

    Returns:
        The estimators by name, e.g. `found["per_decision"].estimate`; `problems` and `is_worthless` tell when
        they are not to be trusted.
    """
    delta = check_delta(delta)
    if gamma is not None:
        gamma = check_gamma(gamma)
    if max_reward is not None:
        max_reward = check_positive("max_reward", max_reward)
    if importance_weight_clip is not None:
        importance_weight_clip = check_positive("importance_weight_clip", importance_weight_clip)
    if isinstance(policy, str | Path):
        policy = find_checkpoint(policy)
    if isinstance(tables, pa.Table | str | Path):
        raise ValueError(f"tables must be a list, found one {type(tables).__name__}; put it into a list")
    if not tables:
        raise ValueError("found no tables; pass at least one")
    recordings, discounts = [], set()
    for number, each in enumerate(tables):
        name = f"table {number}" if isinstance(each, pa.Table) else str(each)
        table = each if isinstance(each, pa.Table) else read_parquet(each)
        info, batch = BatchInfo.from_table(table), as_tensors(table)
        discounts.add(info.gamma)
        distribution = from_description(info.distribution)
        target = distribution_inputs(policy, batch.obs, distribution.num_inputs, module_class)
        compare = distribution.comparison(batch.behaviour_inputs, batch.action)
        recordings.append(Recording(batch, info.strategy, compare(target), name))
    gamma = _common(discounts) if gamma is None else gamma
    recorded = max(float(each.batch.reward.abs().max()) for each in recordings)
    bound_on_reward = recorded if max_reward is None else max_reward
    if bound_on_reward < recorded:
        raise ValueError(f"max_reward {max_reward} is below the recorded {recorded}; pass at least that")
    found = compare_estimators(
        recordings,
        gamma=gamma,
        delta=delta,
        max_reward=bound_on_reward,
        importance_weight_clip=importance_weight_clip,
    )
    return OffPolicyEvaluation(
        **{field.name: getattr(found, field.name) for field in fields(found)},
        recordings=tuple(each.name for each in recordings),
        gamma=gamma,
        delta=delta,
        max_reward=bound_on_reward,
    )


def _common(discounts: set[float | None]) -> float:
    """The one discount of all tables."""
    if len(discounts) == 1:
        (gamma,) = discounts
        if gamma is not None:
            return gamma
    raise ValueError(f"the tables have the discounts {sorted(map(str, discounts))}; pass gamma (--gamma)")
