"""`TTPOISConfig` and `POISConfig`: RLlib's fluent configuration, validated before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any, Self, TypeVar

from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.core.learner.learner import Learner
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from ttray.core import planning
from ttray.core.checks import settle
from ttray.core.dcs import DataCollectionStrategy
from ttray.core.improvement import ImprovementSettings
from ttray.core.parts import ROWS_OF_TWO_PARTS
from ttray.core.search import SearchSettings
from ttray.rllib import inherited
from ttray.rllib.catalog_module import CatalogModule, check_model_config
from ttray.rllib.env_runner import QuotaEnvRunner
from ttray.rllib.filtered_module import FilteredModule
from ttray.rllib.learner import WholeBatchLearner
from ttray.rllib.module import PolicyModule
from ttray.rllib.settings import CHECKS
from ttray.rollout.policies import DEFAULT_HIDDEN_SIZES
from ttray.service.settings import DispatchSettings, check_num_env_runners

_MIN_ROWS_OF_WORKERS = 100_000  # fewer are quicker in the learner alone (`ttray bench optimisation`)
_Settings = TypeVar("_Settings", SearchSettings, DispatchSettings)


class TTPOISConfig(AlgorithmConfig):
    """Configuration of TT-POIS.

    Example:
        >>> config = (
        ...     TTPOISConfig()
        ...     .environment("ttray/Dam-v0")
        ...     .training(horizon=360, budget=8640, gamma=0.95, delta=0.7)
        ...     .debugging(seed=0)
        ... )
        >>> result = config.build_algo().train()
    """

    def __init__(self, algo_class: type | None = None) -> None:
        if algo_class is None:
            from ttray.rllib.algorithm import TTPOIS  # the algorithm needs its config, and this the reverse

            algo_class = TTPOIS
        super().__init__(algo_class=algo_class)
        # Required, and therefore invalid until they are set.
        self.horizon = 0
        self.budget = 0
        self.gamma = 0.99
        self.delta = 0.7
        self.strategy = "truncated"
        self.importance_weights = "trajectory"
        self.baseline = "none"
        self.importance_weight_clip: float | None = None
        self.min_max_reward: float | None = None
        self.hidden_sizes: Sequence[int] = DEFAULT_HIDDEN_SIZES
        self.num_learner_threads: int | None = None
        self.optimise_on = "auto"
        # The settings of the search and of the dispatcher have the names and defaults of their classes.
        for settings in (SearchSettings(), DispatchSettings()):
            for name, default in asdict(settings).items():
                setattr(self, name, default)

        self.env_runner_cls = QuotaEnvRunner
        self.num_env_runners = 0
        self.auto_env_runners = False
        self.label_selector: dict[str, str] | None = None
        self.num_envs_per_env_runner = 64
        # The density is of the raw action; the slots clip what goes to the environment.
        self.normalize_actions = False
        # Quotas carry their weights and the dispatcher looks after lost runners: RLlib need not wait
        # for a runner that restarts, nor merge connector states that do not exist.
        self.env_runner_health_probe_timeout_s = 0.2
        self._dont_auto_sync_env_runner_states = True
        self.evaluation_duration = 100

    def training(
        self,
        *,
        horizon: int = NotProvided,
        budget: int = NotProvided,
        delta: float = NotProvided,
        strategy: str = NotProvided,
        importance_weights: str = NotProvided,
        baseline: str = NotProvided,
        num_offline_iterations: int = NotProvided,
        importance_weight_clip: float | None = NotProvided,
        min_max_reward: float | None = NotProvided,
        line_search: str = NotProvided,
        hidden_sizes: Sequence[int] = NotProvided,
        gradient_tolerance: float = NotProvided,
        gain_tolerance: float = NotProvided,
        max_line_search_evaluations: int = NotProvided,
        num_learner_threads: int | None = NotProvided,
        optimise_on: str = NotProvided,
        **kwargs: Any,
    ) -> Self:
        """Sets what TT-POIS optimises, and how.

        Args:
            horizon: Steps of the longest trajectory, T. Required.
            budget: Environment steps per iteration, Λ. Required.
            delta: Confidence level of the bound; larger is bolder.
            strategy: "truncated" (the paper's), "exact" (the integer optimum), "uniform" (POIS), "adaptive"
                (each batch planned by how rewards varied in those before), or the name of a planner of your
                own (`ttray.planning.register`).
            importance_weights: "trajectory", one weight for all rewards of a trajectory (the paper's), or
                "per_decision", for each reward the ratios up to its own step: a bound that is never wider.
            baseline: "none" (the paper's), or "per_step" to subtract the mean rewards of the batches before.
            num_offline_iterations: Gradient steps per batch.
            importance_weight_clip: Upper limit of a weight in the estimate, or None.
            min_max_reward: Lower limit of the reward bound R_max, which is otherwise that of the batch; with
                a baseline, of what remains of the rewards.
            line_search: "parabola" (the paper's), "cubic" (as good steps with half of the evaluations) or
                "binary".
            hidden_sizes: Units of the hidden layers.
            gradient_tolerance: Stop when the gradient's norm is smaller.
            gain_tolerance: Stop when a line search gains less.
            max_line_search_evaluations: Of the bound, per line search.
            num_learner_threads: Threads of the learner; None for as many as torch would use: one per core in
                the driver, one in an actor. The weights are the same for any number.
            optimise_on: Who computes the bound: the "learner", which fetches all rows; the "workers" (env
                runners), each on the rows that it collected; or "auto", workers if there are several and the
                budget is large, at least 16,384 steps for each of a given number. No more of them collect
                than the batch has parts (of some 4,096 to 8,192 rows). The weights are the same.
            **kwargs: Arguments of `AlgorithmConfig.training`, e.g. `gamma`.
        """
        super().training(**kwargs)
        return self._assign(
            horizon=horizon,
            budget=budget,
            delta=delta,
            strategy=strategy,
            importance_weights=importance_weights,
            baseline=baseline,
            num_offline_iterations=num_offline_iterations,
            importance_weight_clip=importance_weight_clip,
            min_max_reward=min_max_reward,
            line_search=line_search,
            hidden_sizes=hidden_sizes,
            gradient_tolerance=gradient_tolerance,
            gain_tolerance=gain_tolerance,
            max_line_search_evaluations=max_line_search_evaluations,
            num_learner_threads=num_learner_threads,
            optimise_on=optimise_on,
        )

    def env_runners(
        self,
        *,
        quotas_per_env_runner: int | None = NotProvided,
        quota_timeout_s: float = NotProvided,
        max_quota_attempts: int = NotProvided,
        env_runner_wait_s: float = NotProvided,
        backup_quotas: bool = NotProvided,
        determinism_check: str = NotProvided,
        label_selector: dict[str, str] | None = NotProvided,
        **kwargs: Any,
    ) -> Self:
        """Sets who collects, and how patient the dispatcher is.

        `num_env_runners="auto"` collects on as many actors as the cluster has CPUs for, and follows it
        when it grows or shrinks. They are actors of ttray's own, because RLlib's group has a fixed number.

        Args:
            quotas_per_env_runner: How finely the plan is split; None chooses.
            quota_timeout_s: A runner that needs longer for a quota is killed and restarted.
            max_quota_attempts: How often a quota may fail by an error of its environment before training
                stops with an error. Deaths and hangs of its env runner are counted apart, up to twice as
                many each.
            env_runner_wait_s: How long to go on without any runner alive.
            label_selector: Labels of the nodes that runners may use, e.g. to stay on one type of CPU.
            backup_quotas: Whether idle runners get copies of quotas that have been out for long.
            determinism_check: "error" or "warn" if a trajectory of the first batch has other bits when it is
                collected twice; "off" does not try.
            **kwargs: Arguments of `AlgorithmConfig.env_runners`. `observation_filter="mean_std"` normalises
                what the policy sees by the observations of the batches before.
        """
        if (slots := kwargs.get("num_envs_per_env_runner", NotProvided)) is not NotProvided:
            # Here already: RLlib compares it with 0, whatever it is.
            kwargs["num_envs_per_env_runner"] = CHECKS["num_envs_per_env_runner"](
                "num_envs_per_env_runner", slots
            )
        super().env_runners(**kwargs)
        if kwargs.get("num_env_runners", NotProvided) is not NotProvided:
            self._settle_auto(kwargs["num_env_runners"])
        return self._assign(
            quotas_per_env_runner=quotas_per_env_runner,
            quota_timeout_s=quota_timeout_s,
            max_quota_attempts=max_quota_attempts,
            env_runner_wait_s=env_runner_wait_s,
            backup_quotas=backup_quotas,
            determinism_check=determinism_check,
            label_selector=label_selector,
        )

    def _settle_auto(self, number: int | str) -> None:
        """RLlib's own number is 0 where ttray chooses it."""
        number = check_num_env_runners(number)
        self.auto_env_runners = isinstance(number, str)
        self.num_env_runners = 0 if isinstance(number, str) else number

    def _assign(self, **settings: Any) -> Self:
        for name, value in settings.items():
            if value is not NotProvided:
                setattr(self, name, value)
        return self

    def build_algo(self, *args: Any, **kwargs: Any) -> Algorithm:
        """Builds the algorithm; see `AlgorithmConfig.build_algo`."""
        # Here too, because RLlib copies the config through a dictionary in which -1 means "not set".
        self.validate()
        return super().build_algo(*args, **kwargs)

    def validate(self) -> None:
        """Gives every setting its plain type; ValueError for what cannot work, with what was found."""
        settle(self, CHECKS)
        if isinstance(self.num_env_runners, str):  # from a dictionary
            self._settle_auto(self.num_env_runners)
        inherited.refuse(self)
        super().validate()
        self.data_collection_strategy()
        self._check_model()

    def _check_model(self) -> None:
        if self._rl_module_spec is None and self.model_config:
            check_model_config(self.model_config, tuple(self.hidden_sizes))
        if self.optimise_on == "workers" and not self._has_env_runners():
            raise ValueError(
                "optimise_on='workers' needs env runners that hold the rows, found num_env_runners=0; "
                "call config.env_runners(num_env_runners=...) or choose 'learner' or 'auto'"
            )

    def _has_env_runners(self) -> bool:
        return self.auto_env_runners or self.num_env_runners > 0

    def needs_ray(self) -> bool:
        """Whether anything is done in another process."""
        return self._has_env_runners() or self.num_learners > 0

    def optimises_on_workers(self) -> bool:
        """Whether the env runners compute the bound."""
        if self.optimise_on == "auto":
            several = self.auto_env_runners or self.num_env_runners > 1
            least = max(
                _MIN_ROWS_OF_WORKERS, self.num_env_runners * ROWS_OF_TWO_PARTS
            )  # else some collect nothing
            return several and self.budget >= least
        return self.optimise_on == "workers"

    def data_collection_strategy(self, observed: planning.Observed | None = None) -> DataCollectionStrategy:
        """The plan of an iteration.

        Args:
            observed: What the batches before it told; None for the first one.
        """
        return planning.plan(
            self.strategy, horizon=self.horizon, budget=self.budget, gamma=self.gamma, observed=observed
        )

    def improvement_settings(self) -> ImprovementSettings:
        """What the learner needs."""
        return ImprovementSettings(
            gamma=self.gamma,
            delta=self.delta,
            importance_weights=self.importance_weights,
            baseline=self.baseline,
            importance_weight_clip=self.importance_weight_clip,
            min_max_reward=self.min_max_reward,
            num_learner_threads=self.num_learner_threads,
            search=self._settings(SearchSettings),
        )

    def dispatch_settings(self) -> DispatchSettings:
        """What the dispatcher needs."""
        return self._settings(DispatchSettings)

    def _settings(self, kind: type[_Settings]) -> _Settings:
        return kind(**{field.name: getattr(self, field.name) for field in fields(kind)})

    def get_rl_module_spec(self, *args: Any, **kwargs: Any) -> RLModuleSpec:
        """Of the module, behind its filter if there is one; see `AlgorithmConfig.get_rl_module_spec`."""
        return self._filtered(super().get_rl_module_spec(*args, **kwargs))

    def get_multi_rl_module_spec(self, *args: Any, **kwargs: Any) -> MultiRLModuleSpec:
        """The same, as learners ask for it."""
        spec = super().get_multi_rl_module_spec(*args, **kwargs)
        spec.rl_module_specs = {name: self._filtered(each) for name, each in spec.rl_module_specs.items()}
        return spec

    def _filtered(self, spec: RLModuleSpec) -> RLModuleSpec:
        return spec if self.observation_filter == "NoFilter" else FilteredModule.around(spec)

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        """The paper's network, or RLlib's default model where `rl_module(model_config=...)` says which."""
        if self.model_config:
            return RLModuleSpec(module_class=CatalogModule, model_config=self.model_config)
        return RLModuleSpec(
            module_class=PolicyModule,
            model_config={"hidden_sizes": tuple(self.hidden_sizes), "seed": self.seed or 0},
        )

    def get_default_learner_class(self) -> type[Learner]:
        """The learner of whole batches."""
        return WholeBatchLearner


class POISConfig(TTPOISConfig):
    """Configuration of POIS: the same with trajectories of full length only."""

    def __init__(self, algo_class: type | None = None) -> None:
        if algo_class is None:
            from ttray.rllib.algorithm import POIS

            algo_class = POIS
        super().__init__(algo_class=algo_class)
        self.strategy = "uniform"
