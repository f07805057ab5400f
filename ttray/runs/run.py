"""A run as a value: all settings, and the RLlib configuration made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, asdict, field, fields
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, Self

from ttray.boundary.fields import brief, check_kind
from ttray.plans.critic_plans import horizon_for
from ttray.rllib.config import POISConfig, TTPOISConfig
from ttray.rllib.ttpo import TTPOConfig
from ttray.runs.own_settings import ALL_SETTINGS, NUM_ENV_RUNNERS, RunSettings
from ttray.runs.presets import BoundPreset, preset
from ttray.runs.tasks import choose_task, named_preset, time_limit
from ttray.settings.model import Rule, settings_class
from ttray.settings.rules import check_label_selector
from ttray.settings.training import SETTINGS

_CONFIGS: Mapping[str, type[TTPOISConfig]] = {
    "TTPOIS": TTPOISConfig,
    "POIS": POISConfig,
    "TTPO": TTPOConfig,
}


def _check_others(name: str, value: Any) -> dict[str, Any]:
    """Returns the plain values of settings that a run has no field for."""
    for each in check_kind(name, value, Mapping):
        if each not in SETTINGS or each in _names_of_fields():
            raise _unknown(each)
    return {each: SETTINGS[each].check(value[each]) for each in value}


def _rule(name: str) -> Rule:
    return SETTINGS[name].rule


@settings_class
class Run(RunSettings):
    """What to train: every setting that holds. `Run.of` completes what a person says.

    Those that presets and flags name are fields; `settings` holds all others that were said, by name.
    """

    _: KW_ONLY
    gamma: Annotated[float, _rule("gamma")]
    num_env_runners: Annotated[int | str, _rule("num_env_runners")] = NUM_ENV_RUNNERS
    label_selector: Annotated[dict[str, str] | None, _rule("label_selector")] = None
    horizon: Annotated[int, _rule("horizon")]
    budget: Annotated[int, _rule("budget")]
    delta: Annotated[float, _rule("delta")]
    strategy: Annotated[str, _rule("strategy")]
    importance_weights: Annotated[str, _rule("importance_weights")]
    baseline: Annotated[str, _rule("baseline")]
    hidden_sizes: Annotated[tuple[int, ...], _rule("hidden_sizes")]
    num_offline_iterations: Annotated[int, _rule("num_offline_iterations")]
    importance_weight_clip: Annotated[float | None, _rule("importance_weight_clip")]
    min_max_reward: Annotated[float | None, _rule("min_max_reward")]
    settings: Annotated[Mapping[str, Any], Rule(_check_others, "settings by name")] = field(
        default_factory=dict
    )

    @classmethod
    def of(cls, *, settings: Mapping[str, Any] | None = None, **said: Any) -> Self:
        """Completes what a person said: by the preset, or by the defaults of the algorithm.

        The dam's preset if neither a preset nor an environment is named. An environment alone is learned by
        TTPO, which needs no number. With a budget it is TTPOIS, unless another algorithm is named; it needs
        a horizon, too, unless the environment has a time limit.

        Args:
            settings: Arguments of `TTPOISConfig.training` and `TTPOISConfig.env_runners` by name, before
                all else.
            **said: Any setting by name, such as those that a file holds. None is for what was not said,
                unless it is a value of that setting.
        """
        check_kind("settings", {} if settings is None else settings, Mapping)
        for name in settings or ():
            if name not in SETTINGS:
                raise _unknown(name)
        said |= settings or {}
        said = {name: value for name, value in said.items() if value is not None or may_be_none(name)}
        chosen = named_preset(said.get("preset"), said.get("environment"))
        by_itself = "TTPOIS" if "budget" in said else "TTPO"
        algorithm = said.setdefault("algorithm", by_itself if chosen is None else chosen.algorithm)
        defaults = _defaults(ALL_SETTINGS["algorithm"].check(algorithm))
        if chosen is None and algorithm == "TTPO":
            said |= _unsaid_of_task(said, defaults)
        if chosen is not None and chosen.algorithm == algorithm:
            said = dict(chosen.settings) | said
        task = choose_task(
            preset_name=said.pop("preset", None),
            environment=said.pop("environment", None),
            horizon=said.pop("horizon", None),
            budget=said.pop("budget", None),
            gamma=said.pop("gamma", None),
        )
        # A preset's way of climbing a bound is of no use to TTPO, which has none.
        is_of_bounds = isinstance(task.preset, BoundPreset) and algorithm != "TTPO"
        learned_as = task.preset if is_of_bounds else defaults
        named = {
            each.name: getattr(learned_as, each.name)
            for each in fields(BoundPreset)
            if each.name in SETTINGS and not hasattr(task, each.name)
        }
        named["strategy"] = named["strategy"] or defaults.strategy
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
        check_label_selector(self.label_selector, self.num_env_runners)
        if self.preset is not None and preset(self.preset).environment != self.environment:
            raise ValueError(
                f"preset {self.preset!r} is of {preset(self.preset).environment}, found environment "
                f"{brief(self.environment)}; leave one of them out"
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
            _CONFIGS[self.algorithm]()
            .environment(self.environment)
            .debugging(seed=self.seed, log_level="ERROR")
        )
        for name, value in self.to_settings().items():
            if name in SETTINGS:
                getattr(config, SETTINGS[name].method)(**{name: value})
        return config


@cache
def _defaults(algorithm: str) -> TTPOISConfig:
    """To be read only. A config of RLlib's has hundreds of settings, and the paper's figures 900 runs."""
    return _CONFIGS[algorithm]()


def _unsaid_of_task(said: Mapping[str, Any], defaults: TTPOISConfig) -> dict[str, Any]:
    """Discount, budget and horizon of an environment of one's own, where TTPO need not be told."""
    gamma = SETTINGS["gamma"].check(said.get("gamma", defaults.gamma))
    budget = SETTINGS["budget"].check(said.get("budget", defaults.budget))
    horizon = said.get("horizon")
    if horizon is None:
        horizon = horizon_for(gamma, budget, time_limit(said["environment"]))
    return {"gamma": gamma, "budget": budget, "horizon": horizon}


def unsaid_settings() -> dict[str, Any]:
    """What the settings are that `Run.settings` does not name."""
    return {name: each.default for name, each in SETTINGS.items() if name not in _names_of_fields()}


@cache
def _names_of_fields() -> frozenset[str]:
    return frozenset(each.name for each in fields(Run)) - {"settings"}


def check_setting(name: str, value: Any) -> Any:
    """Returns the plain value of a setting; ValueError if there is no such setting, or it may not be that."""
    if name not in ALL_SETTINGS:
        raise _unknown(name)
    return ALL_SETTINGS[name].check(value)


@cache
def may_be_none(name: str) -> bool:
    """Whether None is a value of a setting, which files and command lines write as "none"."""
    try:
        return check_setting(name, None) is None
    except ValueError:
        return False


def _unknown(name: str) -> ValueError:
    names = sorted(SETTINGS)
    close = get_close_matches(str(name), names, n=1)
    meant = f"; did you mean {close[0]!r}?" if close else f"; choose of {', '.join(names)}"
    return ValueError(f"there is no setting {brief(name)}{meant}")
