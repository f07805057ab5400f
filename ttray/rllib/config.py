"""`TTPOISConfig` and `POISConfig`: RLlib's fluent configuration, validated before anything starts."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Self, TypeVar

from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.core.learner.learner import Learner
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from ttray.boundary.fields import Check, coerce
from ttray.optim.shards import ROWS_OF_TWO_PARTS
from ttray.plans import planners
from ttray.plans.dcs import DataCollectionStrategy
from ttray.rllib import unsupported_settings
from ttray.rllib.catalog_module import CatalogModule, check_model_config
from ttray.rllib.critic_module import CriticModule
from ttray.rllib.environments import FunctionOfEnvironment
from ttray.rllib.learner import WholeBatchLearner
from ttray.rllib.module import PolicyModule
from ttray.rllib.normalized_module import NormalizedModule, needs_filter
from ttray.rllib.settings import CHECKS, lists_settings
from ttray.rollout.environment_facts import EnvironmentFacts
from ttray.service.worker_needs import WorkerNeeds
from ttray.settings.critic import CriticSettings, StateSettings
from ttray.settings.improvement import ImprovementSettings
from ttray.settings.rules import check_num_env_runners
from ttray.settings.training import (
    SETTINGS,
    DispatchSettings,
    EvaluationSettings,
    SearchSettings,
)

_MIN_ROWS_OF_WORKERS = 100_000  # fewer are quicker in the learner alone (`python -m benchmarks optimisation`)
_Settings = TypeVar(
    "_Settings", SearchSettings, ImprovementSettings, DispatchSettings, CriticSettings, StateSettings
)


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

    env: Any

    def __init__(self, algo_class: type | None = None) -> None:
        if algo_class is None:
            from ttray.rllib.algorithm import TTPOIS  # the algorithm needs its config, and this the reverse

            algo_class = TTPOIS
        super().__init__(algo_class=algo_class)
        for name, setting in SETTINGS.items():
            # Until it is set, what is required is 0, which is invalid.
            setattr(self, name, 0 if setting.is_required else setting.default)
        self.auto_env_runners = False
        self.module_seed: int | None = None  # of a learner's module, where the algorithm seeds nothing itself
        # The density is of the raw action; the slots clip what goes to the environment.
        self.normalize_actions = False
        self.evaluation_duration = 100

    @lists_settings
    def training(self, **settings: Any) -> Self:
        """Sets what TT-POIS optimises, and how.

        `validate` checks the values: until then Tune may have a search in the place of one.

        Args:
            **settings: Settings by name, and arguments of `AlgorithmConfig.training`.
        """
        super().training(**self._set("training", settings))
        return self

    @lists_settings
    def env_runners(self, **settings: Any) -> Self:
        """Sets who collects, and how patient the dispatcher is.

        Args:
            **settings: Settings by name, and arguments of `AlgorithmConfig.env_runners`.
                `observation_filter="mean_std"` normalises what the policy sees by the observations of the
                batches before.
        """
        super().env_runners(**self._set("env_runners", settings))
        if settings.get("num_env_runners", NotProvided) is not NotProvided:
            self._settle_auto(self.num_env_runners)
        return self

    def _set(self, method: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Sets those of a method that are in the model, and returns the others, which are RLlib's."""
        own = {name for name, setting in SETTINGS.items() if setting.method == method}
        for name in own & settings.keys():
            if settings[name] is not NotProvided:
                setattr(self, name, settings[name])
        return {name: value for name, value in settings.items() if name not in own}

    def _settle_auto(self, number: int | str) -> None:
        """RLlib's own number is 0 where ttray chooses it."""
        number = check_num_env_runners(number)
        self.auto_env_runners = isinstance(number, str)
        self.num_env_runners = 0 if isinstance(number, str) else number

    def build_algo(self, *args: Any, **kwargs: Any) -> Algorithm:
        """Builds the algorithm; see `AlgorithmConfig.build_algo`."""
        # Here too, because RLlib copies the config through a dictionary in which -1 means "not set".
        self.validate()
        return super().build_algo(*args, **kwargs)

    def validate(self) -> None:
        """Gives every setting its plain type; ValueError for what cannot work, with what was found."""
        coerce(self, self._checks())
        if isinstance(self.num_env_runners, str):  # from a dictionary
            self._settle_auto(self.num_env_runners)
        if self.service is not None:
            self._settle_auto(0)
        unsupported_settings.refuse(self)
        if (environment := FunctionOfEnvironment.of(self.env)) is not self.env:  # else it may be frozen
            self.env = environment
        super().validate()
        self.data_collection_strategy()
        self._check_model()

    def _checks(self) -> Mapping[str, Check]:
        return CHECKS

    @property
    def has_critic(self) -> bool:
        """Whether there is a value function beside the policy."""
        return self.baseline == "value"

    @property
    def has_bound(self) -> bool:
        """Whether what is optimised promises a return."""
        return True

    def completed(self, facts: EnvironmentFacts) -> Self:
        """The same with what only the environment can tell.

        Args:
            facts: Of it.
        """
        if self.observation_filter != "auto":
            return self
        changed = self.copy(copy_frozen=False)
        changed.observation_filter = "mean_std" if needs_filter(facts.observation_space) else "NoFilter"
        return changed

    def _check_model(self) -> None:
        if self.penalty == "second_moment" and (self.baseline, self.importance_weights) != (
            "value",
            "per_decision",
        ):
            raise ValueError(
                "penalty='second_moment' is for what surprises a critic, weighted step by step: set "
                f"baseline='value' and importance_weights='per_decision', found {self.baseline!r} and "
                f"{self.importance_weights!r}"
            )
        if self.model_config and "rl_module_spec" not in unsupported_settings.changed_settings(self):
            check_model_config(self.model_config, tuple(self.hidden_sizes))
        if self.optimise_on == "workers" and not self._has_env_runners():
            raise ValueError(
                "optimise_on='workers' needs env runners of its own that hold the rows, found "
                f"{f'service={self.service!r}' if self.service else 'num_env_runners=0'}; "
                "call config.env_runners(num_env_runners=...) or choose 'learner' or 'auto'"
            )

    def _has_env_runners(self) -> bool:
        return self.auto_env_runners or self.num_env_runners > 0

    def needs_ray(self) -> bool:
        """Whether anything is done in another process."""
        return self._has_env_runners() or self.service is not None or self.num_learners > 0

    def optimises_on_workers(self) -> bool:
        """Whether the env runners compute the bound."""
        if self.optimise_on == "auto":
            several = self.auto_env_runners or self.num_env_runners > 1
            least = max(
                _MIN_ROWS_OF_WORKERS, self.num_env_runners * ROWS_OF_TWO_PARTS
            )  # else some collect nothing
            return several and self.budget >= least
        return self.optimise_on == "workers"

    def data_collection_strategy(
        self, observed: planners.Observed | None = None, share_made: float = 1.0
    ) -> DataCollectionStrategy:
        """The plan of an iteration; computed once per run where it does not depend on data.

        Args:
            observed: What the batches before it told; None for the first one.
            share_made: Of the steps that were planned for the batch before.
        """
        return planners.plan_of_run(
            self.strategy, horizon=self.horizon, budget=self.budget, gamma=self.gamma, observed=observed
        )

    def improvement_settings(self) -> ImprovementSettings:
        """What the learner needs."""
        return self._settings(
            ImprovementSettings,
            search=self._settings(SearchSettings),
            critic=self._settings(CriticSettings),
            states=self._settings(StateSettings),
        )

    def worker_needs(self) -> WorkerNeeds:
        """What each remote worker needs of a node."""
        return WorkerNeeds(
            num_cpus=self.num_cpus_per_env_runner,
            resources=dict(self.custom_resources_per_env_runner),
            label_selector=self.label_selector,
            env_vars=dict(self.extra_python_environs_for_worker),
            max_restarts=self.max_num_env_runner_restarts if self.restart_failed_env_runners else 0,
            is_reserved=not self.auto_env_runners,
        )

    def evaluation_settings(self) -> EvaluationSettings:
        """How `evaluate()` judges."""
        return EvaluationSettings(**(self.evaluation_config or {}))

    def dispatch_settings(self) -> DispatchSettings:
        """What the dispatcher needs."""
        return self._settings(DispatchSettings)

    def _settings(self, kind: type[_Settings], **others: Any) -> _Settings:
        names = [field.name for field in fields(kind) if field.name in SETTINGS]
        return kind(**{name: getattr(self, name) for name in names}, **others)

    @property
    def is_online(self) -> bool:
        """False, as RLlib's offline algorithms say it: RLlib makes no env runners."""
        return False

    def build_learner_connector(self, *args: Any, **kwargs: Any) -> None:
        """None: the learner takes a batch as it is."""

    def get_rl_module_spec(self, *args: Any, **kwargs: Any) -> RLModuleSpec:
        """Of the module, with a critic and behind a filter; see `AlgorithmConfig.get_rl_module_spec`."""
        return self._whole(super().get_rl_module_spec(*args, **kwargs))

    def get_multi_rl_module_spec(self, *args: Any, **kwargs: Any) -> MultiRLModuleSpec:
        """The same, as learners ask for it."""
        spec = super().get_multi_rl_module_spec(*args, **kwargs)
        spec.rl_module_specs = {name: self._whole(each) for name, each in spec.rl_module_specs.items()}
        return spec

    def _whole(self, spec: RLModuleSpec) -> RLModuleSpec:
        """With a critic beside it if there is one, and behind a filter."""
        if self.has_critic and spec.module_class is not NormalizedModule:
            spec = CriticModule.around(spec, self.critic_hidden_sizes, self._seed_of_module())
        return NormalizedModule.around(spec) if self.observation_filter == "mean_std" else spec

    def _seed_of_module(self) -> int:
        seed = self.seed if self.module_seed is None else self.module_seed
        return secrets.randbits(32) if seed is None else seed

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        """The paper's network, or RLlib's default model where `rl_module(model_config=...)` says which."""
        if self.model_config:
            return RLModuleSpec(module_class=CatalogModule, model_config=self.model_config)
        model_config = {"hidden_sizes": tuple(self.hidden_sizes), "seed": self._seed_of_module()}
        if self.initial_std is not None:
            model_config["initial_std"] = self.initial_std
        return RLModuleSpec(module_class=PolicyModule, model_config=model_config)

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
