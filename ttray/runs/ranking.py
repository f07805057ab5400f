"""`ttray.rank`: finds out which of several policies is better, in few steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeVar

from ray.rllib.core.rl_module.rl_module import RLModule

from ttray.boundary.fields import check_delta, check_flag, check_positive
from ttray.data.ragged import as_tensors
from ttray.estimators.in_rounds import Question, StepMeans, guarantee_of
from ttray.estimators.ranking import RankingRound, SequentialRanking
from ttray.plans.dcs import check_plan
from ttray.rllib.policies import PolicySource
from ttray.rollout.environment import EnvironmentMaker, EnvSource
from ttray.runs.checkpoints import whole_checkpoints
from ttray.runs.collect import Collector
from ttray.runs.ranking_result import RankedPolicy, Ranking, told
from ttray.runs.round_files import round_files
from ttray.runs.rounds_line import RoundsLine
from ttray.runs.subject import Subject
from ttray.runs.to_accuracy import EvaluationStopped, identity, obtain, settings_of
from ttray.service.progress import OnProgress
from ttray.service.warm_service import Service
from ttray.settings.reward_ranges import known_range
from ttray.settings.training import DispatchSettings

OnRankingRound = Callable[[RankingRound], bool | None]
"""Told what is known after every round; may answer True for enough."""

_Value = TypeVar("_Value")


def rank(
    policies: Mapping[str, PolicySource] | str | Path,
    *,
    environment: EnvSource | EnvironmentMaker | None = None,
    delta: float = 0.05,
    indifference: float | None = None,
    best_only: bool | None = None,
    max_budget: int | None = None,
    reward_range: float | tuple[float, float] | None = None,
    gamma: float | None = None,
    horizon: int | None = None,
    deterministic: bool = False,
    trust: bool = False,
    directory: str | Path | None = None,
    seed: int = 0,
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
    on_round: OnRankingRound | None = None,
) -> Ranking:
    """Ranks policies by their returns, on fresh trajectories with the same noise for all.

    Rounds are collected until the order (or only the best) is proven, or what is left is equal within an
    indifference. Each round is planned from those before it; policies about which everything is known drop
    out. You may look after every round, and stop at any, without losing confidence.

    Policies that earn exactly the same are never told apart: give an indifference or `max_budget`, else their
    ranking goes on until it is stopped.

    Args:
        policies: By name, of any kind that `ttray.evaluate` takes; or the directory of a run, to rank its
            checkpoints.
        environment: A gymnasium id, an `Env` class or a function that returns an `Env`. Not needed if all
            policies are runs or checkpoints of ttray with one environment.
        delta: Probability that an interval fails: that anything said to be proven is wrong.
        indifference: ε: policies whose difference is proven to be within ±ε count as equal.
        best_only: Whether only the best is asked for. Default: yes for checkpoints, else no.
        max_budget: Stop after about this many steps of all policies together; what is open then stays open.
        reward_range: Smallest and largest possible reward: makes what is proven a guarantee; see
            `ttray.evaluate`. Without one it holds for many trajectories, and says so.
        gamma: Discount. Default: that of the training, or 1 (none).
        horizon: Longest trajectory. Default: that of the training, or the environment's time limit.
        deterministic: Whether the policy takes its likeliest action (the mean of a Gaussian) instead of
            sampling.
        trust: Allow loading a file that can run code when it is loaded: a model of Stable-Baselines3
            (`.zip`), a checkpoint of RLlib, TorchScript.
        directory: Keep the rounds here. After a kill the same call goes on from them, with the same bits.
        seed: Random seed.
        num_env_runners: Worker processes, on the Ray cluster around or on a local one; "auto" for as many as
            the cluster has CPUs; 0 collects in this process. Results do not depend on it.
        num_slots: Environments that each worker steps side by side. Results do not depend on it.
        label_selector: Use only nodes with these labels, for example to stay on one type of CPU.
        service: Service whose workers collect instead of workers of this call: a `ttray.Service`, or the name
            given to `ttray service start`. Results do not depend on it.
        priority: Share in that service beside its other clients: twice as much gets twice as many quotas.
        env_config: Arguments of the environment. Default: as trained.
        module_class: Class of the policies' modules, if they are not ttray's own.
        actions: How actions of a foreign RLModule reach a bounded Box: "rescaled" from -1..1 to its bounds,
            as RLlib does by default, or "clipped". Not needed for algorithms, whose own way is known.
        settings: Time-outs and retries.
        on_progress: Called with the progress of a collection. Unless given, a line on the terminal or in the
            notebook shows it.
        on_round: Called with what is known after every round. Return True to stop there; what is proven stays
            proven.

    Raises:
        EvaluationStopped: Ctrl-C, as the KeyboardInterrupt that it is; `so_far` is what the rounds until then
            tell.
    """
    delta = check_delta(delta)
    indifference = None if indifference is None else check_positive("indifference", indifference)
    known_range(reward_range)  # before an environment is made
    if isinstance(policies, str | Path):
        policies = {path.name: path for path in whole_checkpoints(Path(policies).expanduser())}
        best_only = True if best_only is None else best_only
    if len(policies) < 2:
        raise ValueError(f"a ranking is of two or more policies, found {', '.join(policies) or 'none'}")
    trust = check_flag("trust", trust)
    subjects = {
        name: Subject.of(policy, environment, env_config, trust=trust) for name, policy in policies.items()
    }
    first = next(iter(subjects.values()))
    horizon = _common("horizon", {name: each.horizon(horizon) for name, each in subjects.items()})
    gamma = _common("gamma", {name: each.gamma(gamma) for name, each in subjects.items()})
    _common("environment", {name: each.maker.name for name, each in subjects.items()})
    max_budget = None if max_budget is None else check_plan(horizon, max_budget, gamma)[1]
    question = Question(
        first.maker.name,
        horizon,
        gamma,
        delta,
        known_range(reward_range, first.maker.facts().reward_range),
        max_budget=max_budget,
        seed=seed,
    )
    ranked = _RankingInRounds(question, subjects, indifference, check_flag("best_only", bool(best_only)))
    line = RoundsLine(tell=told) if on_progress is None and on_round is None else None
    where = None if directory is None else Path(directory).absolute()  # some environments change it
    with Collector(
        first.maker,
        policy=first.policy,
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
        try:
            return ranked.run(collector, where, deterministic, line.on_round if line else on_round or _ignore)
        except KeyboardInterrupt:
            raise EvaluationStopped(ranked.result() if ranked.num_rounds else None, where) from None
        finally:
            if line:
                line.end()


def _ignore(_: RankingRound) -> None:
    pass


def _common(setting: str, found: Mapping[str, _Value]) -> _Value:
    """What all policies have in common; they were not trained for the same if they do not."""
    (first, value), *others = found.items()
    for name, other in others:
        if other != value:
            raise ValueError(
                f"{setting} is {value} of {first} and {other} of {name}, and only the same can be compared; "
                f"pass {setting}"
            )
    return value


class _RankingInRounds:
    """A ranking under way, and what its policies earned."""

    def __init__(
        self,
        question: Question,
        subjects: Mapping[str, Subject],
        indifference: float | None,
        best_only: bool,
    ) -> None:
        self._question, self._subjects = question, subjects
        self._indifference, self._best_only = indifference, best_only
        known = question.reward_range
        self._ranking = SequentialRanking(
            list(subjects),
            horizon=question.horizon,
            gamma=question.gamma,
            delta=question.delta,
            reward_range=None if known is None else known.pair,
            indifference=indifference,
            best_only=best_only,
            budget=question.max_budget,
            seed=question.seed % 2**63,
        )
        self._means = {name: StepMeans(question.horizon) for name in subjects}

    @property
    def num_rounds(self) -> int:
        """So far."""
        return self._ranking.num_rounds

    def run(
        self, collector: Collector, directory: Path | None, deterministic: bool, on_round: OnRankingRound
    ) -> Ranking:
        """Collects rounds, or reads them, until nothing is open or the budget is spent."""
        first = next(iter(self._subjects.values()))
        named = {
            "policies": {name: identity(each) for name, each in self._subjects.items()},
            **settings_of(self._question, first),
            "indifference": self._indifference,
            "best_only": self._best_only,
            "deterministic": deterministic,
        }
        with round_files(directory, named) if directory else nullcontext() as files:
            # As they were named when the ranking began: then these are the numbers in the names of files.
            names = self._subjects if files is None else files.settings["policies"]
            parts = {name: index for index, name in enumerate(names)}
            while (plan := self._ranking.next_plan()) is not None:
                batches, number = {}, self._ranking.num_rounds
                for name in self._ranking.contenders:
                    collector.use(self._subjects[name].policy)
                    table = obtain(plan, number, self._question, collector, files, parts[name])
                    batches[name] = as_tensors(table)
                found = self._ranking.add(plan, batches)
                for name, batch in batches.items():
                    self._means[name].add(plan, batch)
                if on_round(found):
                    break
        return self.result()

    def result(self) -> Ranking:
        """What all rounds so far tell; there must be one."""
        asked, ranking = self._question, self._ranking
        known = asked.reward_range
        return Ranking(
            order=ranking.order,
            is_decided=ranking.is_decided,
            pairs=ranking.pairs,
            policies=tuple(
                RankedPolicy(
                    name,
                    self._means[name].discounted(asked.gamma),
                    ranking.steps_of[name],
                    ranking.dropped_after.get(name),
                )
                for name in ranking.order
            ),
            is_guaranteed=ranking.is_guaranteed,
            guarantee=guarantee_of(known),
            environment=asked.environment,
            horizon=asked.horizon,
            gamma=asked.gamma,
            delta=asked.delta,
            reward_range=None if known is None else known.pair,
            indifference=self._indifference,
            best_only=self._best_only,
            num_env_steps=ranking.num_env_steps,
            num_rounds=ranking.num_rounds,
            num_fixed_steps=ranking.num_fixed_steps,
            history=tuple(ranking.rounds),
        )
