"""`ttray.rank`: which of several policies is better, decided with as few steps as it takes."""

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
    """Ranks policies by what they earn, on fresh trajectories with the same noise for all.

    Rounds are collected until the order is proven, or only the best, or until what is left is equal within an
    indifference. Each is planned from those before it; a policy of which nothing is open takes no part in
    later ones. One may look after every round, and stop at any, without a loss of confidence.

    Policies that earn exactly the same are never told apart: give an indifference or `max_budget`, else their
    ranking goes on until it is stopped.

    Args:
        policies: By name, of any kind that `ttray.evaluate` takes; or the directory of a run, whose
            checkpoints are then ranked, named by their iterations.
        environment: A gymnasium id, an `Env` class or a function that returns an `Env`; needed unless all
            policies are runs or checkpoints of ttray, of one environment.
        delta: Probability that an interval fails, any of them: that anything said to be proven is wrong.
        indifference: ε: policies whose difference is proven to be within ±ε count as equal.
        best_only: Whether only the best is asked for; of checkpoints yes, else no, unless given.
        max_budget: Most steps of all policies, about. If they do not suffice, the result says so.
        reward_range: Smallest and largest possible reward, for a guarantee; see `ttray.evaluate`. Without one
            what is said holds in the limit of many trajectories, and says so.
        gamma: Discount; as trained for directories, else 1, none, unless given.
        horizon: Longest trajectory; as trained for directories, else the environment's time limit, unless
            given.
        deterministic: Whether policies take their likeliest action (of a Gaussian the mean), not samples.
        trust: Whether a path may be loaded by which code runs that is in the file, see `ttray.collect`.
        directory: Where to keep the rounds. The same call goes on from there after a kill, with the same
            bits.
        seed: Of the trajectories.
        num_env_runners: Remote collectors, on the Ray around, or an embedded one; "auto" for as many as the
            cluster has CPUs for; 0 collects in this process. The bits are the same for any number.
        num_slots: Vector slots of each env runner; the bits are the same for any number.
        label_selector: Labels of the nodes that env runners may use, e.g. to stay on one type of CPU.
        service: Whose workers collect, in place of env runners of this call: a `ttray.Service`, or the name
            of one that `ttray service start` has started. The bits are the same.
        priority: In that service, beside its other clients: twice as much gets twice as many quotas.
        env_config: Arguments of the environment; as trained unless given.
        module_class: Of policies whose module is not ttray's own.
        actions: "rescaled" or "clipped", of an RLModule that is not ttray's own, see `ttray.collect`.
        settings: Time-outs and retries.
        on_progress: Told how far a collection is; a line on the terminal or in the notebook unless given.
        on_round: Told what is known after every round; the same line unless given. If it answers True, the
            ranking ends there, and what is proven is as good.

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
        parts = {name: index for index, name in enumerate(self._subjects)}
        with round_files(directory, named) if directory else nullcontext() as files:
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
