"""What is evaluated: a policy with its environment, horizon and discount."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttray.boundary.fields import check_gamma
from ttray.plans.dcs import check_horizon
from ttray.rllib.policies import PolicySource
from ttray.rllib.policy_paths import loaded
from ttray.rollout.environment import EnvironmentMaker, EnvSource
from ttray.rollout.policy_files import DESCRIPTION, Training, training_of
from ttray.runs.checkpoints import find_checkpoint


@dataclass(frozen=True)
class Subject:
    """A policy in its environment.

    Attributes:
        policy: As `ttray.collect` takes it; of a run, its newest checkpoint.
        maker: Of the environments.
        training: How it was trained, if it is a run or checkpoint of ttray's own.
        file: The checkpoint or the file that it came from, if it did.
    """

    policy: PolicySource
    maker: EnvironmentMaker
    training: Training | None
    file: Path | None = None

    @classmethod
    def of(
        cls,
        policy: PolicySource,
        environment: EnvSource | EnvironmentMaker | None,
        env_config: dict[str, Any] | None,
        *,
        trust: bool = False,
    ) -> Subject:
        """Completes what a person said; what a path stands for is loaded.

        Raises:
            ValueError: Nothing tells the environment, or the policy is nowhere.
        """
        file = Path(policy).expanduser() if isinstance(policy, str | Path) else None
        policy = loaded(policy, trust=trust)
        if isinstance(policy, str | Path):
            policy = find_checkpoint(policy)
            training = training_of(policy)
            return cls(policy, training.maker(environment, env_config), training, policy)
        if environment is None:
            raise ValueError(
                f"only the directory of a run tells its environment, found a {type(policy).__name__}; pass "
                "environment"
            )
        is_there = file is not None and file.exists()
        maker = EnvironmentMaker.of(environment, env_config)
        return cls(policy, maker, None, file if is_there else None)

    def horizon(self, given: int | None) -> int:
        """The longest trajectory: as given, as trained, or the environment's time limit.

        Raises:
            ValueError: Nothing tells it.
        """
        if given is not None:
            return check_horizon(given)
        if self.training is not None:
            return self.training.horizon
        facts = self.maker.facts()
        if facts.time_limit is None:
            raise ValueError(
                f"{facts.name} has no time limit, so nothing tells how long a trajectory is; pass horizon "
                "(--horizon), or register it with max_episode_steps"
            )
        return check_horizon(facts.time_limit)

    def gamma(self, given: float | None) -> float:
        """The discount: as given, as trained, or none."""
        if given is not None:
            return check_gamma(given)
        return 1.0 if self.training is None else self.training.gamma

    def budget(self, given: int | None) -> int:
        """The planned steps of an evaluation of fixed size: as given, or as trained.

        Raises:
            ValueError: Nothing tells it, or a file asks for a large batch.
        """
        if given is not None:
            return given
        if self.training is None:
            raise ValueError(
                "nothing tells when to stop; pass accuracy (--to), the half-width that the interval is to "
                "have, or budget (--budget), the steps to plan"
            )
        self.maker.facts().check_asked(self.training.budget, f"the {DESCRIPTION}")
        return self.training.budget
