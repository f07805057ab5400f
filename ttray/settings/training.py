"""The settings of TT-POIS, by who needs them: planning, the improvement, its search, and the workers.

This is where a setting is added: as a field here, and in the code that uses it. `TTPOISConfig` and its
methods, `--set`, the files of runs, what may change when a run goes on, and the table of settings follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any

from ttray.boundary.fields import check_delta, check_gamma
from ttray.plans.planners import STRATEGIES, check_strategy
from ttray.plans.strategy import MAX_HORIZON
from ttray.settings.accuracy import Accuracy
from ttray.settings.critic import CriticSettings, StateSettings
from ttray.settings.model import Rule, Setting, setting, settings_class, settings_of
from ttray.settings.reward_ranges import known_range
from ttray.settings.rules import (
    AMOUNT,
    FLAG,
    HIDDEN_SIZES,
    LABELS,
    MAX_BATCH_STEPS,
    MAX_ROUNDS,
    MAX_SLOTS,
    NOT_NEGATIVE,
    NUM_ENV_RUNNERS,
    PRIORITY,
    SERVICE,
    count,
    one_of,
    or_none,
    positive,
)

_MAX_THREADS = 1_024  # more than any machine has cores
_MAX_QUOTAS, _MAX_ATTEMPTS = 10**4, 10**3
_MAX_WAIT_S = 1e7  # four months

_STRATEGY = Rule(lambda _, value: check_strategy(value), "the name of a planner", STRATEGIES)
_ACCURACY = Rule(
    lambda _, value: None if value is None else Accuracy.of(value),
    'a number above 0, a share such as "5%", or None',
)
_REWARD_RANGE = Rule(
    lambda _, value: value if known_range(value) else None, "(smallest, largest), their difference, or None"
)


@settings_class
class PlanSettings:
    """What is collected in an iteration."""

    horizon: Annotated[int, count(MAX_HORIZON)] = setting("Longest trajectory in steps, T.")
    budget: Annotated[int, count(MAX_BATCH_STEPS)] = setting(
        "Environment steps to plan per batch, Λ; episodes that end early use fewer."
    )
    strategy: Annotated[str, _STRATEGY] = setting(
        'How batches are planned: "truncated" (the paper\'s), "exact" (the integer optimum), "uniform" '
        '(POIS), "adaptive" (from how rewards varied in the batches before), or the name of a '
        "planner of your own (`ttray.planning.register`).",
        default="truncated",
    )


@settings_class
class SearchSettings:
    """How a search climbs, and when it stops."""

    num_offline_iterations: Annotated[int, count(MAX_ROUNDS)] = setting(
        "Most gradient steps per batch.", default=10
    )
    line_search: Annotated[str, one_of("cubic", "parabola", "binary", "geometric")] = setting(
        'How the step size is found: "parabola" (the paper\'s), "cubic" (as good steps with half of the '
        'evaluations), "binary", or "geometric" (1.6 times as far while that gains, else half as far).',
        default="parabola",
    )
    gradient_tolerance: Annotated[float, NOT_NEGATIVE] = setting(
        "Stop when the norm of the gradient is below this.", default=1e-4
    )
    gain_tolerance: Annotated[float, NOT_NEGATIVE] = setting(
        "Stop when a line search gains less than this (its gain is kept).", default=1e-4
    )
    max_line_search_evaluations: Annotated[int, count(MAX_ROUNDS)] = setting(
        "Most evaluations of the bound per line search.", default=30
    )
    direction: Annotated[str, one_of("gradient", "natural")] = setting(
        'Where a step goes: along the "gradient" (the paper\'s), or the "natural" gradient, which gains most '
        "for a change of the policy rather than of its parameters.",
        default="gradient",
    )
    num_fisher_products: Annotated[int, count(MAX_ROUNDS)] = setting(
        "Most conjugate-gradient steps for a natural direction; each costs about as much as a gradient on "
        "`num_fisher_rows`.",
        default=8,
    )
    num_fisher_rows: Annotated[int, count()] = setting(
        "About how many rows of a batch the KL divergence for natural directions is averaged over.",
        default=1000,
    )
    fisher_damping: Annotated[float, positive(1e100)] = setting(
        "Damping: added to the diagonal of the Hessian of that divergence.", default=0.01
    )
    first_kl: Annotated[float, positive(1e100)] = setting(
        "KL divergence of the first candidate along the first natural direction; later ones begin with that "
        "of the last accepted step.",
        default=0.01,
    )
    log_std_brake: Annotated[float, positive(1e100)] = setting(
        "How many times a change of a Gaussian's log standard deviation counts in that divergence: natural "
        "steps move it so many times less.",
        default=1.0,
    )


@settings_class
class ObjectiveSettings:
    """What is optimised on a batch."""

    gamma: Annotated[float, Rule(lambda _, value: check_gamma(value), "a number in (0, 1]")] = setting(
        "Discount.", default=0.99
    )
    delta: Annotated[float, Rule(lambda _, value: check_delta(value), "a number in (0, 1)")] = setting(
        "Probability that the bound fails; larger is bolder.", default=0.7
    )
    importance_weights: Annotated[str, one_of("trajectory", "per_decision")] = setting(
        'Importance weights: "trajectory", one for all rewards of a trajectory (the paper\'s), or '
        '"per_decision", for each reward the ratios up to its own step, which never widens the bound.',
        default="trajectory",
    )
    baseline: Annotated[str, one_of("none", "per_step", "value")] = setting(
        'Baseline subtracted from rewards: "none" (the paper\'s), "per_step", the mean rewards of earlier '
        'batches, or "value", what a critic trained on earlier batches expects of each state.',
        default="none",
    )
    penalty: Annotated[str, one_of("largest", "second_moment")] = setting(
        'What the width of the bound is made of: the "largest" value that the batch has of what is weighted '
        '(the paper\'s), or the "second_moment" of all of them, which is narrower and holds in the limit of '
        'many samples; it needs baseline="value" and weights per decision.',
        default="largest",
    )
    importance_weight_clip: Annotated[float | None, or_none(positive())] = setting(
        "Largest importance weight in the estimate; None for no limit.", default=None
    )
    min_max_reward: Annotated[float | None, or_none(positive())] = setting(
        "Smallest value of R_max, which is otherwise the largest reward of the batch (with a baseline: of "
        "what remains of the rewards).",
        default=None,
    )
    num_learner_threads: Annotated[int | None, or_none(count(_MAX_THREADS))] = setting(
        "Threads of the learner; None for torch's default: one per core in the driver, one in an actor.",
        default=None,
        changes_results=False,
    )


@settings_class
class LearnerSettings:
    """The network that learns, where it is ttray's own, and where the bound is computed."""

    hidden_sizes: Annotated[tuple[int, ...], HIDDEN_SIZES] = setting(
        "Units of each hidden layer.", default=(64, 32)
    )
    initial_std: Annotated[float | None, or_none(positive())] = setting(
        "Standard deviation with which Gaussian actions of ttray's own network begin, as a share of half of "
        "the range of each; None for 1, whatever the range is.",
        default=None,
    )
    optimise_on: Annotated[str, one_of("auto", "learner", "workers")] = setting(
        'Who computes the bound: the "learner", which fetches all rows; the "workers" (env runners), each on '
        'the rows that it collected; or "auto", workers if there are several and the budget is large, at '
        "least 16,384 steps for each of a given number. No more of them collect than the batch has parts (of "
        "some 4,096 to 8,192 rows).",
        default="auto",
        changes_results=False,
    )


@settings_class
class DispatchSettings:
    """How a plan is dealt out, and what is done when nothing comes back."""

    quotas_per_env_runner: Annotated[int | None, or_none(count(_MAX_QUOTAS))] = setting(
        "How finely the plan is split; None for as many parts, up to 4, as do not make the vector slots much "
        "narrower or the quotas too small to be worth sending.",
        default=None,
        changes_results=False,
    )
    quota_timeout_s: Annotated[float, positive(_MAX_WAIT_S)] = setting(
        "Seconds after which a worker that has not delivered its quota is killed and restarted.",
        default=600.0,
        changes_results=False,
    )
    max_quota_attempts: Annotated[int, count(_MAX_ATTEMPTS)] = setting(
        "Attempts at a quota whose environment raises before the collection gives up. Deaths and hangs of "
        "workers are counted separately, with twice the limit: they need not be the quota's fault.",
        default=3,
        changes_results=False,
    )
    env_runner_wait_s: Annotated[float, positive(_MAX_WAIT_S)] = setting(
        "Seconds to wait when no worker is alive. Nodes that an autoscaler starts take minutes to come.",
        default=300.0,
        changes_results=False,
    )
    backup_quotas: Annotated[bool, FLAG] = setting(
        "Whether idle workers get copies of quotas that take unusually long.",
        default=True,
        changes_results=False,
    )
    determinism_check: Annotated[str, one_of("error", "warn", "off")] = setting(
        'What to do if a trajectory of the first batch differs when it is collected again: "error" or '
        '"warn"; "off" does not check.',
        default="error",
        changes_results=False,
    )


@settings_class
class WorkerSettings:
    """Who collects; those of RLlib that have these names, with ttray's defaults, and labels of nodes."""

    num_env_runners: Annotated[int | str, NUM_ENV_RUNNERS] = setting(
        'Worker processes that collect; 0 collects in this process, "auto" uses as many as the cluster has '
        "CPUs, as it grows and shrinks.",
        default=0,
        changes_results=False,
    )
    num_envs_per_env_runner: Annotated[int, count(MAX_SLOTS)] = setting(
        "Environments that each worker steps side by side.", default=64, changes_results=False
    )
    num_cpus_per_env_runner: Annotated[float, AMOUNT] = setting(
        "CPUs per worker.", default=1, changes_results=False
    )
    label_selector: Annotated[dict[str, str] | None, LABELS] = setting(
        "Use only nodes with these labels, such as one type of CPU.",
        default=None,
        changes_results=False,
    )
    service: Annotated[str | None, or_none(SERVICE)] = setting(
        "Service whose workers collect (`ttray.Service`, `ttray service start`), in place of env runners.",
        default=None,
        changes_results=False,
    )
    priority: Annotated[float, PRIORITY] = setting(
        "In that service, beside its other clients: twice as much gets twice as many quotas.",
        default=1.0,
        changes_results=False,
    )


@settings_class
class LearnersSettings:
    """RLlib's setting of this name."""

    num_learners: Annotated[int, count(minimum=0)] = setting(
        "Remote learners; 0 learns in this process.", default=0, changes_results=False
    )


@settings_class
class EvaluationSettings:
    """How `evaluate()` judges a policy in training: what `evaluation_config` may have."""

    explore: Annotated[bool, FLAG] = setting(
        "Whether the policy samples its actions; else it takes the likeliest, of a Gaussian the mean.",
        default=True,
    )
    accuracy: Annotated[Accuracy | None, _ACCURACY] = setting(
        'Half the width that the interval is to have, or a share of the estimate, as "5%": rounds are '
        "collected until it has, in place of `evaluation_duration` trajectories.",
        default=None,
    )
    max_budget: Annotated[int | None, or_none(count(MAX_BATCH_STEPS))] = setting(
        "Most steps of all rounds, about; without an accuracy they are spent.", default=None
    )
    delta: Annotated[float, Rule(lambda _, value: check_delta(value), "a number in (0, 1)")] = setting(
        "Probability that the interval of the rounds fails.", default=0.05
    )
    reward_range: Annotated[Any, _REWARD_RANGE] = setting(
        "Smallest and largest possible reward, as for `ttray.evaluate`; unless given, as the environment "
        "declares.",
        default=None,
    )

    @property
    def is_in_rounds(self) -> bool:
        """Whether rounds are collected, in place of a number of trajectories."""
        return self.accuracy is not None or self.max_budget is not None


# By the method of the config that takes them.
_CLASSES = {
    "training": (
        PlanSettings,
        ObjectiveSettings,
        SearchSettings,
        CriticSettings,
        StateSettings,
        LearnerSettings,
    ),
    "env_runners": (WorkerSettings, DispatchSettings),
    "learners": (LearnersSettings,),
}

SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        name: found
        for method, classes in _CLASSES.items()
        for each in classes
        for name, found in settings_of(each, method).items()
    }
)
"""Every setting of the algorithm, by name."""
