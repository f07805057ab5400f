"""What to train, as a value: every setting that holds, and the RLlib configuration made of them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from difflib import get_close_matches
from functools import cache, partial
from typing import Any, Self

from ttray.core.checks import Check, check_count, check_kind, check_one_of, optional, settle, shown
from ttray.rllib.config import POISConfig, TTPOISConfig
from ttray.rllib.settings import CHECKS, MAX_SEED
from ttray.runs.tasks import choose_task
from ttray.service.settings import check_label_selector

ALGORITHMS = {"TTPOIS": TTPOISConfig, "POIS": POISConfig}
_MAX_ITERATIONS = 10**6  # each has a row in memory and in `metrics.csv`

# Of the fields that nothing else completes; None is for what the preset or the algorithm says.
_FIELD_CHECKS: Mapping[str, Check] = {
    "algorithm": partial(check_one_of, choices=ALGORITHMS),
    "seed": partial(check_count, minimum=0, maximum=MAX_SEED),
    "num_iterations": partial(check_count, maximum=_MAX_ITERATIONS),
    "num_env_runners": CHECKS["num_env_runners"],
    "label_selector": CHECKS["label_selector"],
    "checkpoint_every": partial(check_count, maximum=_MAX_ITERATIONS),
    "keep": partial(check_count, maximum=_MAX_ITERATIONS),
    **{name: optional(CHECKS[name]) for name in ("delta", "strategy", "importance_weights", "baseline")},
    "settings": partial(check_kind, kind=Mapping),
}


@dataclass(frozen=True)
class Run:
    """What to train.

    Attributes:
        preset: Name of a preset, whose settings hold where nothing else is said; the dam's if neither this
            nor an environment is named, None with an environment of one's own.
        algorithm: "TTPOIS" or "POIS".
        gamma: Discount, 0 < γ ≤ 1; the preset's smallest unless given.
        seed: Of everything random.
        num_iterations: When to stop.
        num_env_runners: Remote collectors, or "auto" for as many as the cluster has CPUs for; 0 collects in
            the driver. Changes no result.
        label_selector: Labels of the nodes that env runners may use, e.g. to stay on one type of CPU.
        checkpoint_every: Iterations between checkpoints.
        keep: Checkpoints to keep.
        environment: Gymnasium id of an environment of one's own, in place of a preset. Then horizon and
            budget are needed, and the defaults of `TTPOISConfig` hold for all else.
        horizon: Longest trajectory in place of the preset's.
        budget: Environment steps per iteration in place of the preset's.
        delta: Confidence of the bound in place of the preset's.
        strategy: How batches are planned in place of the preset's, or of the algorithm's.
        importance_weights: "trajectory" or "per_decision" in place of the preset's.
        baseline: "none" or "per_step" in place of the preset's.
        hidden_sizes: Widths of the network's hidden layers.
        num_offline_iterations: Offline iterations per batch.
        importance_weight_clip: Largest importance weight; None where not applied.
        min_max_reward: Smallest value for the largest absolute reward; None where not applied.
        settings: Arguments of `TTPOISConfig.training` and `TTPOISConfig.env_runners` that have no name above,
            such as `gain_tolerance`; and, in place of a preset's, of those that have.
    """

    preset: str | None = None
    algorithm: str = "TTPOIS"
    gamma: float | None = None
    seed: int = 0
    num_iterations: int = 60
    num_env_runners: int | str = 2
    label_selector: dict[str, str] | None = None
    checkpoint_every: int = 10
    keep: int = 3
    environment: str | None = None
    horizon: int | None = None
    budget: int | None = None
    delta: float | None = None
    strategy: str | None = None
    importance_weights: str | None = None
    baseline: str | None = None
    hidden_sizes: tuple[int, ...] = field(init=False)
    num_offline_iterations: int = field(init=False)
    importance_weight_clip: float | None = field(init=False)
    min_max_reward: float | None = field(init=False)
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """A run from settings of all kinds by name, such as those that a file holds."""
        own = {each.name for each in fields(cls) if each.init} - {"settings"}
        return cls(
            **{key: value for key, value in settings.items() if key in own},
            settings={key: value for key, value in settings.items() if key not in own},
        )

    def to_settings(self) -> dict[str, Any]:
        """Every setting that holds, by name: what `of` makes the same run of."""
        named = asdict(self)
        return named | named.pop("settings")

    def __post_init__(self) -> None:
        settle(self, _FIELD_CHECKS)
        check_label_selector(self.label_selector, self.num_env_runners)
        for key in self.settings:
            if key not in setting_names():
                raise ValueError(f"there is no setting {shown(key)}{_meant(key)}")
        given = {key: CHECKS[key](key, value) for key, value in self.settings.items()}
        task = choose_task(
            preset_name=self.preset,
            environment=self.environment,
            horizon=self.horizon,
            budget=self.budget,
            gamma=self.gamma,
        )
        defaults = _defaults(self.algorithm)
        settings = task.preset or defaults
        complete: dict[str, Any] = {
            "preset": task.preset and task.preset.name,
            "gamma": task.gamma,
            "environment": task.environment,
            "horizon": task.horizon,
            "budget": task.budget,
            "delta": settings.delta if self.delta is None else self.delta,
            "strategy": self.strategy or settings.strategy or defaults.strategy,
            "importance_weights": self.importance_weights or settings.importance_weights,
            "baseline": self.baseline or settings.baseline,
            "hidden_sizes": tuple(settings.hidden_sizes),
            "num_offline_iterations": settings.num_offline_iterations,
            "importance_weight_clip": settings.importance_weight_clip,
            "min_max_reward": settings.min_max_reward,
        }
        complete |= {key: given.pop(key) for key in list(given) if key in complete}
        complete["settings"] = given
        for name, value in complete.items():
            object.__setattr__(self, name, value)

    @property
    def subject(self) -> str:
        """What is learned, in a word: the preset, or the environment where there is none."""
        return self.preset or str(self.environment)

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
    """What `Run.settings` may name."""
    return frozenset().union(*_names_by_method().values())


def _meant(key: str) -> str:
    close = get_close_matches(str(key), setting_names(), n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; choose of {', '.join(sorted(setting_names()))}"
