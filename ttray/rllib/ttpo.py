"""TTPO: the algorithm that learns quickest here, and proves least.

Truncated trajectories by what surprises a critic, ratios per state over the last batches, natural gradients.
Its objective is no bound on the return: for one take TTPOIS, or TTPOIS with `baseline="value"`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from ray.rllib.core.learner.learner import Learner

from ttray.boundary.fields import Check
from ttray.plans import critic_plans, planners
from ttray.plans.dcs import DataCollectionStrategy
from ttray.rllib.algorithm import TTPOIS
from ttray.rllib.config import TTPOISConfig
from ttray.rllib.settings import CHECKS
from ttray.rllib.state_learner import StateLearner
from ttray.rollout.environment_facts import EnvironmentFacts
from ttray.settings.training import SETTINGS

_DEFAULTS: Mapping[str, Any] = {
    "horizon": 0,
    "budget": 1000,
    "gamma": 0.99,
    "delta": 0.8,  # κ = √((1 − δ)/δ) = ½
    "importance_weights": "per_decision",
    "importance_weight_clip": 10.0,
    "baseline": "value",
    "direction": "natural",
    "line_search": "geometric",
    "num_offline_iterations": 3,
    "log_std_brake": 11.0,
    "critic_passes": 10,
    "hidden_sizes": (64, 64),
    "initial_std": 0.5,
}
_FIXED = ("importance_weights", "baseline", "penalty")


class TTPOConfig(TTPOISConfig):
    """Configuration of TTPO, with defaults for an environment of which nothing is known.

    Example:
        >>> algorithm = TTPOConfig().environment("Pendulum-v1").debugging(seed=0).build_algo()
        >>> result = algorithm.train()

    `horizon` need not be set: it is then the environment's time limit, or 4/(1 − γ) where that is shorter,
    with what comes later told by the critic. `strategy="truncated"` plans n_t ∝ γ^t σ_t, and more steps where
    episodes end early, so that about `budget` are made.
    """

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class=algo_class or TTPO)
        for name, value in _DEFAULTS.items():
            setattr(self, name, value)
        self.observation_filter = "auto"

    def _checks(self) -> Mapping[str, Check]:
        is_open = isinstance(self.horizon, int) and self.horizon == 0
        return {name: check for name, check in CHECKS.items() if not (is_open and name == "horizon")}

    def validate(self) -> None:
        """See `TTPOISConfig.validate`."""
        super().validate()
        for name in _FIXED:
            if (found := getattr(self, name)) != (wanted := _DEFAULTS.get(name, SETTINGS[name].default)):
                raise ValueError(
                    f"TTPO always has {name}={wanted!r}, found {found!r}; choose TTPOISConfig for other ones"
                )
        if self.optimise_on == "workers":
            raise ValueError(
                "TTPO optimises on the learner, which keeps the rows of the last batches, found "
                "optimise_on='workers'; leave it out, or choose TTPOISConfig"
            )

    @property
    def has_bound(self) -> bool:
        """Never: what it gains is in units of advantages."""
        return False

    def optimises_on_workers(self) -> bool:
        """Never: see `validate`."""
        return False

    def completed(self, facts: EnvironmentFacts) -> Self:
        """See `TTPOISConfig.completed`."""
        found = super().completed(facts)
        if found.horizon:
            return found
        changed = found.copy(copy_frozen=False)
        changed.horizon = self._horizon(facts.time_limit)
        return changed

    def _horizon(self, time_limit: int | None) -> int:
        return self.horizon or critic_plans.horizon_for(self.gamma, self.budget, time_limit)

    def data_collection_strategy(
        self, observed: planners.Observed | None = None, share_made: float = 1.0
    ) -> DataCollectionStrategy:
        """The plan of an iteration, see `TTPOISConfig.data_collection_strategy`.

        Before the environment is known, a horizon that is left open is the longest that it can become.
        """
        horizon, budget = self._horizon(None), critic_plans.budget_for(self.budget, share_made)
        if self.strategy == "truncated":
            return critic_plans.by_surprise(horizon, budget, self.gamma, observed)
        return planners.plan_of_run(
            self.strategy, horizon=horizon, budget=budget, gamma=self.gamma, observed=observed
        )

    def get_default_learner_class(self) -> type[Learner]:
        """The learner of the last batches."""
        return StateLearner


class TTPO(TTPOIS):
    """Policy search state by state, with truncated trajectories and a critic; see `TTPOConfig`."""

    config: TTPOConfig

    @classmethod
    def get_default_config(cls) -> TTPOConfig:
        """A config to fill in."""
        return TTPOConfig()
