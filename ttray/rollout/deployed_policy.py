"""A policy for programs: observations in, actions of the environment out."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from ttray.rollout.environment_facts import distribution_of
from ttray.rollout.observations import rows_of
from ttray.rollout.policies import Policy
from ttray.rollout.policy_contract import answer_of, name_of, not_finite
from ttray.rollout.slots import action_adapter, obs_dtype


class DeployedPolicy:
    """A trained policy that acts; `ttray.load_policy` makes one.

    Args:
        policy: From flat rows to distribution inputs, as in rollouts.
        observation_space: Of the environment.
        action_space: Of the environment.
        seed: Of the actions that are sampled; other ones each time if None.

    Attributes:
        policy: From flat rows to distribution inputs.
        observation_space: Of the environment.
        action_space: Of the environment.
    """

    def __init__(
        self,
        policy: Policy,
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
        *,
        seed: int | None = None,
    ) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self.policy = policy
        self._distribution = distribution_of(action_space, "the policy")
        self._to_env = action_adapter(action_space)
        self._generator = np.random.default_rng(seed)

    def act(self, observations: Any, deterministic: bool = False) -> Any:
        """Actions as the environment takes them: in its action space, within its bounds, of its type.

        Args:
            observations: One, or a batch of them with an axis more, in the shape of their space or as flat
                rows. A batch gives the actions that its observations would one after the other.
            deterministic: Whether to take the likeliest action (of a Gaussian the mean), not to sample one.

        Returns:
            One action for one observation, an array of them for a batch.

        Raises:
            ValueError: The observations are not of their space, or have numbers that are not finite.
        """
        rows, is_single = self._rows(observations)
        inputs = self._inputs(rows)
        if deterministic:
            raw = self._distribution.mode(inputs)
        else:
            noise = np.empty((len(rows), self._distribution.noise_size), np.float32)
            self._distribution.draw_noise(self._generator, noise)
            raw = self._distribution.act(inputs, noise)
        actions = self._to_env(raw).astype(self.action_space.dtype, copy=False)
        return actions[0] if is_single else actions

    def distribution_inputs(self, observations: Any) -> NDArray[np.float32]:
        """What describes the distribution of actions: logits, or means and logarithms of deviations.

        Args:
            observations: As for `act`.

        Returns:
            `[num_inputs]` for one observation, `[rows, num_inputs]` for a batch; the bits of rollouts.
        """
        rows, is_single = self._rows(observations)
        inputs = self._inputs(rows)
        return inputs[0] if is_single else inputs

    def _rows(self, observations: Any) -> tuple[NDArray[Any], bool]:
        given, is_single = rows_of(self.observation_space, observations)
        if not np.isfinite(given).all():
            raise ValueError("observations must be finite numbers, found NaN or infinity among them")
        rows = given.astype(obs_dtype(self.observation_space), copy=False)
        if rows.dtype == np.uint8 and (rows != given).any():
            raise ValueError(f"observations must be whole numbers from 0 to 255, found {given.dtype} others")
        return rows, is_single

    def _inputs(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        inputs = answer_of(self.policy, rows, (len(rows), self._distribution.num_inputs))
        if len(wrong := np.flatnonzero(~np.isfinite(inputs).all(1))):
            raise not_finite(name_of(self.policy), inputs[wrong[0]], f"row {wrong[0]}")
        return inputs
