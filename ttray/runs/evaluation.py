"""`ttray.evaluate`: estimates a return, to an accuracy or for a budget."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ray.rllib.core.rl_module.rl_module import RLModule

from ttray.boundary.fields import check_delta, check_flag
from ttray.data.ragged import RaggedBatch, as_tensors
from ttray.estimators.batch_intervals import interval_of_batches
from ttray.estimators.in_rounds import Question
from ttray.estimators.on_policy import OnPolicyEstimate, in_rounds
from ttray.estimators.sequential import SequentialInterval
from ttray.estimators.two_stage import collect_in_rounds, planned_for_real
from ttray.numerics.seeding import FIRST_EVALUATION_ITERATION
from ttray.plans.dcs import DataCollectionStrategy, check_plan
from ttray.plans.planners import check_strategy
from ttray.rllib.policies import PolicySource
from ttray.rollout.environment import EnvironmentMaker, EnvSource
from ttray.runs.anytime import AnytimeEvaluation
from ttray.runs.collect import Collector
from ttray.runs.rounds_line import OnRound, RoundsLine
from ttray.runs.subject import Subject
from ttray.runs.to_accuracy import evaluate_to_accuracy, kept_rounds
from ttray.service.progress import OnProgress
from ttray.service.warm_service import Service
from ttray.settings.accuracy import Accuracy
from ttray.settings.reward_ranges import known_range
from ttray.settings.training import DispatchSettings


@dataclass(frozen=True)
class Evaluation(OnPolicyEstimate):
    """The return of a policy, and the fresh batch that tells it.

    Attributes:
        environment: In which it was collected.
        gamma: Discount.
        delta: Probability that an interval fails.
        horizon: Longest trajectory.
        num_rounds: In which the batch was planned and collected.
        num_env_steps: Collected.
        num_planned_steps: Of the budget; more than were collected where episodes ended early.
        num_trajectories: Collected.
        num_look_steps: Made before, to see how long episodes are; 0 unless `real_steps` was asked for.
        betting: The same trajectories by the newer kind of interval (docs/guide/evaluate.md), for one look
            at their end: guaranteed if the range of rewards is known, mostly narrower than Hoeffding's.
    """

    environment: str
    gamma: float
    delta: float
    horizon: int
    num_rounds: int
    num_env_steps: int
    num_planned_steps: int
    num_trajectories: int
    num_look_steps: int
    betting: SequentialInterval


def evaluate(
    policy: PolicySource,
    *,
    environment: EnvSource | EnvironmentMaker | None = None,
    accuracy: float | str | None = None,
    max_budget: int | None = None,
    budget: int | None = None,
    delta: float = 0.05,
    reward_range: float | tuple[float, float] | None = None,
    gamma: float | None = None,
    horizon: int | None = None,
    deterministic: bool = False,
    trust: bool = False,
    directory: str | Path | None = None,
    seed: int = 0,
    real_steps: bool = False,
    strategy: str | None = None,
    num_env_runners: int | str = 0,
    num_slots: int = 64,
    label_selector: dict[str, str] | None = None,
    service: str | Service | None = None,
    priority: float = 1.0,
    env_config: dict[str, Any] | None = None,
    module_class: type[RLModule] | None = None,
    actions: str | None = None,
    settings: DispatchSettings | None = None,
    on_progress: OnProgress | None = None,
    on_round: OnRound | None = None,
) -> AnytimeEvaluation | Evaluation:
    """Evaluates a policy on fresh trajectories: estimates its return, with an interval.

    With `accuracy`, rounds are collected until the interval is narrow enough, each planned from those before
    it. You may look after every round, and stop at any, without losing confidence. With `max_budget` alone
    the rounds spend it. With `budget` one batch of a fixed size is collected.

    Nothing in a directory is unpickled, so a stranger's runs no code. Environments and modules that it names
    are used only if they are registered here, or given.

    Args:
        policy: The path of a run or checkpoint of ttray, which also names environment, horizon and discount;
            or anything that `ttray.collect` takes, together with an environment.
        environment: A gymnasium id, an `Env` class or a function that returns an `Env`. Not needed for a
            policy trained by ttray on a registered environment without arguments.
        accuracy: Half-width of the interval to reach: a number, or a share of the estimate, as "5%".
        max_budget: Stop after about this many steps in all. If they do not suffice, the interval is wider
            than asked, and the result says so.
        budget: Collect one batch of this many planned steps instead of rounds. Default for a run, if there is
            no accuracy: its own budget.
        delta: Probability that an interval fails.
        reward_range: Smallest and largest possible reward: makes the interval a guarantee. Or only the
            largest minus the smallest, for a wider one. 0, which ended episodes earn, is always included.
            Default: the environment's `metadata["reward_range"]`; without either the interval is asymptotic,
            and says so. A reward outside the range is an error.
        gamma: Discount. Default: that of the training, or 1 (none).
        horizon: Longest trajectory. Default: that of the training, or the environment's time limit.
        deterministic: Whether the policy takes its likeliest action (the mean of a Gaussian) instead of
            sampling.
        trust: Allow loading a file that can run code when it is loaded: a model of Stable-Baselines3
            (`.zip`), a checkpoint of RLlib, TorchScript.
        directory: Keep the rounds here. After a kill the same call goes on from them, with the same bits.
        seed: Random seed. No seed repeats trajectories that were trained on.
        real_steps: With a budget: make it count real steps where episodes end early. A look at some whole
            episodes, for a tenth of the budget at most, tells how long they are; it is not part of the
            estimate.
        strategy: With a budget, how to plan: "truncated" (default), "exact", "uniform", "adaptive" or the
            name of your own planner. "adaptive" spends a fifth of the budget to see where rewards vary, and
            plans the rest by that.
        num_env_runners: Worker processes, on the Ray cluster around or on a local one; "auto" for as many as
            the cluster has CPUs; 0 collects in this process. Results do not depend on it.
        num_slots: Environments that each worker steps side by side. Results do not depend on it.
        label_selector: Use only nodes with these labels, for example to stay on one type of CPU.
        service: Service whose workers collect instead of workers of this call: a `ttray.Service`, or the name
            given to `ttray service start`. Results do not depend on it.
        priority: Share in that service beside its other clients: twice as much gets twice as many quotas.
        env_config: Arguments of the environment. Default: as trained.
        module_class: Class of the policy's module, if it is not ttray's own.
        actions: How actions of a foreign RLModule reach a bounded Box: "rescaled" from -1..1 to its bounds,
            as RLlib does by default, or "clipped". Not needed for algorithms, whose own way is known.
        settings: Time-outs and retries.
        on_progress: Called with the progress of a collection. Unless given, a line on the terminal or in the
            notebook shows it.
        on_round: Called with the interval after every round. Return True to stop there; the interval is as
            valid.

    Returns:
        With an accuracy or `max_budget` an `AnytimeEvaluation`, else an `Evaluation`: both have `estimate`,
        `low`, `high`, `num_env_steps` and `num_rounds`.

    Raises:
        EvaluationStopped: Ctrl-C, as the KeyboardInterrupt that it is; `so_far` is what the rounds until then
            tell.
    """
    delta = check_delta(delta)
    wanted = None if accuracy is None else Accuracy.of(accuracy)
    is_in_rounds = wanted is not None or max_budget is not None
    _check_together(is_in_rounds, budget, strategy, check_flag("real_steps", real_steps), directory)
    strategy = check_strategy(strategy or "truncated")
    known_range(reward_range)  # before an environment is made
    subject = Subject.of(policy, environment, env_config, trust=check_flag("trust", trust))
    known = known_range(reward_range, subject.maker.facts().reward_range)
    horizon, gamma = subject.horizon(horizon), subject.gamma(gamma)
    if is_in_rounds:
        max_budget = None if max_budget is None else check_plan(horizon, max_budget, gamma)[1]
    else:
        _, budget, _ = check_plan(horizon, subject.budget(budget), gamma)
    question = Question(subject.maker.name, horizon, gamma, delta, known, wanted, max_budget, seed)
    line = RoundsLine() if is_in_rounds and on_progress is None and on_round is None else None
    with Collector(
        subject.maker,
        policy=subject.policy,
        module_class=module_class,
        actions=actions,
        deterministic=deterministic,
        num_env_runners=num_env_runners,
        num_slots=num_slots,
        seed=seed,
        settings=settings,
        label_selector=label_selector,
        service=service,
        priority=priority,
        on_progress=line.on_progress if line else on_progress,
    ) as collector:
        if budget is not None:
            return _of_fixed_size(question, collector, strategy, budget, real_steps)
        where = None if directory is None else Path(directory).absolute()  # some environments change it
        try:
            return evaluate_to_accuracy(
                question,
                collector,
                kept=kept_rounds(where, question, subject, deterministic=deterministic) if where else None,
                directory=where,
                on_round=line.on_round if line else on_round or _ignore,
            )
        finally:
            if line:
                line.end()


def _ignore(_: SequentialInterval) -> None:
    pass


def _check_together(
    is_in_rounds: bool,
    budget: int | None,
    strategy: str | None,
    real_steps: bool,
    directory: str | Path | None,
) -> None:
    """Raises ValueError for settings of both ways to evaluate."""
    if not is_in_rounds:
        if directory is not None:
            raise ValueError(
                "directory keeps the rounds of an evaluation to an accuracy; pass accuracy (--to) or "
                "max_budget (--max-budget), or leave it out"
            )
        return
    for name, flag, is_given in (
        ("budget", "--budget", budget is not None),
        ("strategy", "--strategy", strategy is not None),
        ("real_steps", "--real-steps", real_steps),
    ):
        if is_given:
            raise ValueError(
                f"{name} ({flag}) is for one batch of a fixed size; an evaluation to an accuracy (--to) "
                "plans its rounds from data, with max_budget (--max-budget) as a limit: leave it out"
            )


def _of_fixed_size(
    question: Question, collector: Collector, strategy: str, budget: int, real_steps: bool
) -> Evaluation:
    """Collects one batch by a strategy, or two where the strategy plans from data."""
    horizon, gamma, known = question.horizon, question.gamma, question.reward_range

    def collect_round(planned: DataCollectionStrategy, number: int) -> RaggedBatch:
        iteration = FIRST_EVALUATION_ITERATION + number
        return as_tensors(collector.collect(planned, iteration=iteration, gamma=gamma))

    num_look_steps = 0
    if real_steps:
        budget, num_look_steps = planned_for_real(
            collect_round, strategy, horizon=horizon, budget=budget, gamma=gamma
        )
    rounds = collect_in_rounds(collect_round, strategy, horizon=horizon, budget=budget, gamma=gamma)
    width = None if known is None else known.width
    found = in_rounds(rounds, gamma=gamma, delta=question.delta, reward_range=width)
    return Evaluation(
        **asdict(found),
        environment=question.environment,
        gamma=gamma,
        delta=question.delta,
        horizon=horizon,
        num_rounds=len(rounds),
        num_env_steps=sum(len(each.batch.reward) for each in rounds),
        num_planned_steps=sum(each.strategy.budget for each in rounds),
        num_trajectories=sum(each.strategy.num_trajectories for each in rounds),
        num_look_steps=num_look_steps,
        betting=interval_of_batches(
            [(each.strategy, each.batch) for each in rounds],
            gamma=gamma,
            delta=question.delta,
            reward_range=None if known is None else known.pair,
            seed=question.seed % 2**63,
        ),
    )
