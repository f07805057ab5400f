"""An RLlib algorithm that RLlib gives no env runners: workers of ttray's own collect.

RLlib's would be waited for until they have a place, make environments that no quota uses, and start a Ray
also where nothing is remote. What RLlib asks of them is answered here; what a user asks of them is refused,
with the way to get it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from ray.rllib.core import COMPONENT_ENV_RUNNER, COMPONENT_LEARNER, COMPONENT_RL_MODULE, DEFAULT_MODULE_ID
from ray.rllib.core.rl_module.rl_module import RLModule

from ttray.rllib.config import TTPOISConfig
from ttray.rllib.rllib_internals import QuietAlgorithm
from ttray.rollout.environment_facts import EnvironmentFacts


class NoEnvRunners:
    """Stands where RLlib looks for its env runners; false, as the None of its offline algorithms is."""

    def __bool__(self) -> bool:
        return False

    def num_remote_env_runners(self) -> int:
        """None is RLlib's."""
        return 0

    def sync_weights(self, **_: Any) -> None:
        """Nothing to do: quotas carry their weights."""

    def stop(self) -> None:
        """Nothing to do: the service ends its workers."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"RLlib has no env runners here, and so no {name}: ttray's own workers collect. To sample with "
            "the policy call ttray.collect(policy=algorithm.get_module()), to judge it algorithm.evaluate()"
        )


class OwnWorkersAlgorithm(QuietAlgorithm):
    """RLlib's algorithm with a learner, and a module of its own in place of env runners."""

    config: TTPOISConfig
    env_creator: Any

    def setup_learner(self, facts: EnvironmentFacts) -> None:
        """Builds what RLlib builds, and the module that acts.

        Args:
            facts: Of the environment, for its spaces.
        """
        asked = self.config
        # What RLlib is shown: nobody collects for it, in evaluations neither, and the learner seeds itself,
        # for RLlib's way of seeding loads torch's compiler, which takes a second.
        self.config = asked.copy(copy_frozen=False)
        self.config.num_env_runners, self.config.optimise_on = 0, "learner"
        self.config.evaluation_interval = None
        self.config.seed, self.config.module_seed = None, asked.seed
        self.config.observation_space = facts.observation_space
        self.config.action_space = facts.action_space
        self.config.freeze()
        super().setup(self.config)
        self._module: RLModule = self.config.get_rl_module_spec(inference_only=not asked.has_critic).build()
        self.config, self.env_runner_group = asked, NoEnvRunners()

    def get_module(self, module_id: str = DEFAULT_MODULE_ID) -> Any:
        """The policy, with the weights that the next quotas carry; None for another id than the default."""
        return self._module if module_id == DEFAULT_MODULE_ID else None

    def learned_weights(self) -> dict[str, Any]:
        """The weights of the learner's module, by module."""
        state = self.learner_group.get_state(
            components=f"{COMPONENT_LEARNER}/{COMPONENT_RL_MODULE}", inference_only=not self.config.has_critic
        )
        found: dict[str, Any] = state[COMPONENT_LEARNER][COMPONENT_RL_MODULE]
        return found

    def show_weights(self, weights: Mapping[str, Any]) -> None:
        """Gives the module that acts these weights."""
        self._module.set_state(weights[DEFAULT_MODULE_ID])

    def restore_env_runners(self, env_runner_group: Any) -> list[int]:
        """None is RLlib's; the service restores its workers itself."""
        return []

    def set_state(self, state: dict[str, Any]) -> None:
        """Takes over a state; the env runner in one of version 0.1.0 has nothing to tell."""
        super().set_state({name: each for name, each in state.items() if name != COMPONENT_ENV_RUNNER})
