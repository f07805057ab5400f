"""What to train, as a value: every setting that holds, and the RLlib configuration made of them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from difflib import get_close_matches
from functools import cache, partial
from typing import Any, Self

from ttray.core.checks import (
    Check,
    check_count,
    check_gamma,
    check_kind,
    check_one_of,
    check_text,
    optional,
    settle,
    shown,
)
from ttray.rllib.config import POISConfig, TTPOISConfig
from ttray.rllib.settings import CHECKS, MAX_SEED, OF_THE_CLUSTER
from ttray.runs.presets import preset
from ttray.runs.tasks import choose_task
from ttray.service.settings import check_label_selector

ALGORITHMS = {"TTPOIS": TTPOISConfig, "POIS": POISConfig}
_MAX_ITERATIONS = 10**6  # each has a row in memory and in `metrics.csv`

# What the configuration of RLlib does not know, or not as a run has it.
_OWN_CHECKS: Mapping[str, Check] = {
    "preset": optional(lambda _, value: preset(value).name),
    "algorithm": partial(check_one_of, choices=ALGORITHMS),
    "environment": check_text,
    "gamma": lambda _, value: check_gamma(value),
    "seed": partial(check_count, minimum=0, maximum=MAX_SEED),
    "num_iterations": partial(check_count, maximum=_MAX_ITERATIONS),
    "checkpoint_every": partial(check_count, maximum=_MAX_ITERATIONS),
    "keep": partial(check_count, maximum=_MAX_ITERATIONS),
}

CHANGE_NO_RESULT = frozenset({"num_iterations", "checkpoint_every", "keep"}) | OF_THE_CLUSTER
"""Settings that may be others when a run goes on: how far, and where and how patiently it is computed."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """What to train: every setting that holds. `Run.of` completes what a person says.

    Attributes:
        preset: Name of the preset that the settings come from; None with an environment of one's own.
        algorithm: "TTPOIS" or "POIS".
        environment: Gymnasium id.
        horizon: Longest trajectory.
        budget: Environment steps per iteration.
        gamma: Discount, 0 < γ ≤ 1.
        seed: Of everything random.
        num_iterations: When to stop.
        num_env_runners: Remote collectors, or "auto" for as many as the cluster has CPUs for; 0 collects in
            the driver. Changes no result.
        label_selector: Labels of the nodes that env runners may use, e.g. to stay on one type of CPU.
        checkpoint_every: Iterations between checkpoints.
        keep: Checkpoints to keep.
        delta: Confidence of the bound.
        strategy: How batches are planned.
        importance_weights: "trajectory" or "per_decision".
        baseline: "none" or "per_step".
        hidden_sizes: Widths of the network's hidden layers.
        num_offline_iterations: Offline iterations per batch.
        importance_weight_clip: Largest importance weight; None where not applied.
        min_max_reward: Smallest value for the largest absolute reward; None where not applied.
        settings: Arguments of `TTPOISConfig.training` and `TTPOISConfig.env_runners` that have no name above,
            such as `gain_tolerance`.
    """

    preset: str | None
    algorithm: str = "TTPOIS"
    gamma: float
    seed: int = 0
    num_iterations: int = 60
    num_env_runners: int | str = 2
    label_selector: dict[str, str] | None = None
    checkpoint_every: int = 10
    keep: int = 3
    environment: str
    horizon: int
    budget: int
    delta: float
    strategy: str
    importance_weights: str
    baseline: str
    hidden_sizes: tuple[int, ...]
    num_offline_iterations: int
    importance_weight_clip: float | None
    min_max_reward: float | None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, *, settings: Mapping[str, Any] | None = None, **said: Any) -> Self:
        """Completes what a person said: by the preset, or by the defaults of `TTPOISConfig`.

        The dam's preset if neither a preset nor an environment is named. An environment of one's own needs a
        budget, and a horizon unless it has a time limit.

        Args:
            settings: Arguments of `TTPOISConfig.training` and `TTPOISConfig.env_runners` by name, before
                all else.
            **said: Any setting by name, such as those that a file holds. None is for what was not said,
                unless it is a value of that setting.
        """
        check_kind("settings", {} if settings is None else settings, Mapping)
        for name in settings or ():
            if name not in setting_names():
                raise _unknown(name)
        said |= settings or {}
        said = {name: value for name, value in said.items() if value is not None or may_be_none(name)}
        algorithm = _OWN_CHECKS["algorithm"]("algorithm", said.get("algorithm", cls.algorithm))
        task = choose_task(
            preset_name=said.pop("preset", None),
            environment=said.pop("environment", None),
            horizon=said.pop("horizon", None),
            budget=said.pop("budget", None),
            gamma=said.pop("gamma", None),
        )
        defaults = _defaults(algorithm)
        source = task.preset or defaults
        named: dict[str, Any] = {
            "delta": source.delta,
            "strategy": source.strategy or defaults.strategy,
            "importance_weights": source.importance_weights,
            "baseline": source.baseline,
            "hidden_sizes": tuple(source.hidden_sizes),
            "num_offline_iterations": source.num_offline_iterations,
            "importance_weight_clip": source.importance_weight_clip,
            "min_max_reward": source.min_max_reward,
        }
        others = said.keys() - _names_of_fields()
        return cls(
            preset=None if task.preset is None else task.preset.name,
            environment=task.environment,
            horizon=task.horizon,
            budget=task.budget,
            gamma=task.gamma,
            settings={name: value for name, value in said.items() if name in others},
            **named | {name: value for name, value in said.items() if name not in others},
        )

    def to_settings(self) -> dict[str, Any]:
        """Every setting that holds, by name: what `of` makes the same run of."""
        named = asdict(self)
        return named | named.pop("settings")

    def __post_init__(self) -> None:
        settle(self, {name: _check_of(name) for name in _names_of_fields()})
        check_label_selector(self.label_selector, self.num_env_runners)
        for name in self.settings:
            if name not in setting_names() or name in _names_of_fields():
                raise _unknown(name)
        checked = {name: CHECKS[name](name, value) for name, value in self.settings.items()}
        object.__setattr__(self, "settings", checked)
        if self.preset is not None and preset(self.preset).environment != self.environment:
            raise ValueError(
                f"preset {self.preset!r} is of {preset(self.preset).environment}, found environment "
                f"{shown(self.environment)}; leave one of them out"
            )

    @property
    def subject(self) -> str:
        """What is learned, in a word: the preset, or the environment where there is none."""
        return self.preset or self.environment

    @property
    def file_name(self) -> str:
        """The subject as a part of a file's name."""
        return self.subject.replace("/", "-").replace(":", "-")

    @property
    def name(self) -> str:
        """Tells runs apart, if they differ in nothing but subject, algorithm, discount and seed."""
        return f"{self.file_name}-{self.algorithm}-{self.gamma}-{self.seed}"

    def config(self) -> TTPOISConfig:
        """The RLlib configuration of this run."""
        config = (
            ALGORITHMS[self.algorithm]()
            .environment(self.environment)
            .env_runners(num_env_runners=self.num_env_runners, label_selector=self.label_selector)
            .training(
                horizon=self.horizon,
                budget=self.budget,
                gamma=self.gamma,
                delta=self.delta,
                strategy=self.strategy,
                importance_weights=self.importance_weights,
                baseline=self.baseline,
                num_offline_iterations=self.num_offline_iterations,
                importance_weight_clip=self.importance_weight_clip,
                min_max_reward=self.min_max_reward,
                hidden_sizes=self.hidden_sizes,
            )
            .debugging(seed=self.seed, log_level="ERROR")
        )
        for method, names in _names_by_method().items():
            getattr(config, method)(**{key: value for key, value in self.settings.items() if key in names})
        return config


@cache
def _defaults(algorithm: str) -> TTPOISConfig:
    """To be read only. A config of RLlib's has hundreds of settings, and the paper's figures 900 runs."""
    return ALGORITHMS[algorithm]()


@cache
def _names_by_method() -> Mapping[str, frozenset[str]]:
    """Our own arguments of the config's methods, and those of RLlib that a run may want to change."""
    ours = {
        method: frozenset(
            name
            for name, parameter in inspect.signature(getattr(TTPOISConfig, method)).parameters.items()
            if parameter.kind is parameter.KEYWORD_ONLY
        )
        for method in ("training", "env_runners")
    }
    ours["env_runners"] |= {"num_envs_per_env_runner", "num_cpus_per_env_runner"}
    return ours | {"learners": frozenset({"num_learners"})}


def setting_names() -> frozenset[str]:
    """Arguments of the config, by which `settings` of `Run.of` may change what a preset says."""
    return frozenset().union(*_names_by_method().values())


@cache
def _names_of_fields() -> frozenset[str]:
    return frozenset(each.name for each in fields(Run)) - {"settings"}


def _check_of(name: str) -> Check:
    return _OWN_CHECKS.get(name) or CHECKS[name]


@cache
def may_be_none(name: str) -> bool:
    """Whether None is a value of a setting, which files and command lines write as "none"."""
    if name not in setting_names() | _names_of_fields():
        return False
    try:
        return _check_of(name)(name, None) is None
    except ValueError:
        return False


def _unknown(name: str) -> ValueError:
    names = sorted(setting_names())
    close = get_close_matches(str(name), names, n=1)
    meant = f"; did you mean {close[0]!r}?" if close else f"; choose of {', '.join(names)}"
    return ValueError(f"there is no setting {shown(name)}{meant}")
