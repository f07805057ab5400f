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

    horizon: Annotated[int, count(MAX_HORIZON)] = setting("Steps of the longest trajectory, T.")
    budget: Annotated[int, count(MAX_BATCH_STEPS)] = setting(
        "Planned environment steps of a batch, Λ; episodes that end early make fewer."
    )
    strategy: Annotated[str, _STRATEGY] = setting(
        'How batches are planned: "truncated" (the paper\'s), "exact" (the integer optimum), "uniform" '
        '(POIS), "adaptive" (each batch planned by how rewards varied in those before), or the name of a '
        "planner of your own (`ttray.planning.register`).",
        default="truncated",
    )


@settings_class
class SearchSettings:
    """How a search climbs, and when it stops."""

    num_offline_iterations: Annotated[int, count(MAX_ROUNDS)] = setting(
        "Gradient steps per batch, at most.", default=10
    )
    line_search: Annotated[str, one_of("cubic", "parabola", "binary", "geometric")] = setting(
        'How the size of a step is found: "parabola" (the paper\'s), "cubic" (as good steps with half of the '
        'evaluations), "binary", or "geometric" (1.6 times as far while that gains, else half as far).',
        default="parabola",
    )
    gradient_tolerance: Annotated[float, NOT_NEGATIVE] = setting(
        "Stop when the gradient's norm is smaller.", default=1e-4
    )
    gain_tolerance: Annotated[float, NOT_NEGATIVE] = setting(
        "Stop when a line search gains less; its gain is kept.", default=1e-4
    )
    max_line_search_evaluations: Annotated[int, count(MAX_ROUNDS)] = setting(
        "Evaluations of the bound per line search, at most.", default=30
    )
    direction: Annotated[str, one_of("gradient", "natural")] = setting(
        'Where a step goes: along the "gradient" (the paper\'s), or the "natural" gradient, which gains most '
        "for a change of the policy rather than of its parameters.",
        default="gradient",
    )
    num_fisher_products: Annotated[int, count(MAX_ROUNDS)] = setting(
        "Steps of conjugate gradients for a natural direction, at most; each costs about a gradient on "
        "`num_fisher_rows`.",
        default=8,
    )
    num_fisher_rows: Annotated[int, count()] = setting(
        "Rows of a batch, about, whose mean KL divergence is the measure of natural directions.", default=1000
    )
    fisher_damping: Annotated[float, positive(1e100)] = setting(
        "What is added to the diagonal of the Hessian of that divergence.", default=0.01
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
        'What has a weight: "trajectory", one for all rewards of a trajectory (the paper\'s), or '
        '"per_decision", for each reward the ratios up to its own step: a bound that is never wider.',
        default="trajectory",
    )
    baseline: Annotated[str, one_of("none", "per_step", "value")] = setting(
        'What is subtracted from rewards: "none" (the paper\'s), "per_step", the mean rewards of the batches '
        'before, or "value", what a critic expects of each state, who learned from the batches before.',
        default="none",
    )
    penalty: Annotated[str, one_of("largest", "second_moment")] = setting(
        'What the width of the bound is made of: the "largest" value that the batch has of what is weighted '
        '(the paper\'s), or the "second_moment" of all of them, which is narrower and holds in the limit of '
        'many samples; it needs baseline="value" and weights per decision.',
        default="largest",
    )
    importance_weight_clip: Annotated[float | None, or_none(positive())] = setting(
        "Upper limit of a weight in the estimate; None for no limit.", default=None
    )
    min_max_reward: Annotated[float | None, or_none(positive())] = setting(
        "Lower limit of the reward bound R_max, which is otherwise that of the batch; with a baseline, of "
        "what remains of the rewards.",
        default=None,
    )
    num_learner_threads: Annotated[int | None, or_none(count(_MAX_THREADS))] = setting(
        "Threads of the learner; None for as many as torch would use: one per core in the driver, one in an "
        "actor.",
        default=None,
        changes_results=False,
    )


@settings_class
class LearnerSettings:
    """The network that learns, where it is ttray's own, and where the bound is computed."""

    hidden_sizes: Annotated[tuple[int, ...], HIDDEN_SIZES] = setting(
        "Units of the hidden layers.", default=(64, 32)
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
        "A worker that needs longer for a quota is killed and restarted.",
        default=600.0,
        changes_results=False,
    )
    max_quota_attempts: Annotated[int, count(_MAX_ATTEMPTS)] = setting(
        "How often a quota may fail by an error of its environment before the collection gives up. Deaths "
        "and hangs of its worker are counted apart, up to twice as many each: they need not be its fault.",
        default=3,
        changes_results=False,
    )
    env_runner_wait_s: Annotated[float, positive(_MAX_WAIT_S)] = setting(
        "How long to go on without any worker alive. Nodes that an autoscaler starts take minutes to come.",
        default=300.0,
        changes_results=False,
    )
    backup_quotas: Annotated[bool, FLAG] = setting(
        "Whether idle workers get copies of quotas that have been out for long.",
        default=True,
        changes_results=False,
    )
    determinism_check: Annotated[str, one_of("error", "warn", "off")] = setting(
        'What to do if a trajectory of the first batch has other bits when it is collected twice: "error" or '
        '"warn"; "off" does not try.',
        default="error",
        changes_results=False,
    )


@settings_class
class WorkerSettings:
    """Who collects; those of RLlib that have these names, with ttray's defaults, and labels of nodes."""

    num_env_runners: Annotated[int | str, NUM_ENV_RUNNERS] = setting(
        'Remote collectors; 0 collects in the driver, "auto" on as many as the cluster has CPUs for, and '
        "follows it when it grows or shrinks.",
        default=0,
        changes_results=False,
    )
    num_envs_per_env_runner: Annotated[int, count(MAX_SLOTS)] = setting(
        "Environments side by side in each collector.", default=64, changes_results=False
    )
    num_cpus_per_env_runner: Annotated[float, AMOUNT] = setting(
        "CPUs that each collector needs.", default=1, changes_results=False
    )
    label_selector: Annotated[dict[str, str] | None, LABELS] = setting(
        "Labels of the nodes that collectors may use, such as one type of CPU.",
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
        "Learners in actors of their own; 0 learns in the driver.", default=0, changes_results=False
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
