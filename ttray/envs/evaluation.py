"""The evaluation domain, where the return of any policy is known.

Appendix "Environment Details" of the paper, "Evaluation Domain".
The state is the step index and the two actions differ only in the mean reward of eleven steps, so
the value of a policy is a sum of eleven terms. The environment does not end at its horizon: later
steps pay nothing.
"""

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ttray.boundary.fields import check_count, check_not_negative, check_within
from ttray.envs.batched import ChoiceEnv, SingleEnv
from ttray.envs.slot_rng import LARGEST_NORMAL

# Mean rewards of the two actions at the eleven paying steps, `[2, 11]`.
MEAN_REWARDS = np.array(
    [
        [1.0, 4.0, 3.0, 1.0, 1.5, 0.4, 4.0, 4.1, 3.0, 2.0, 4.0],
        [4.0, 1.0, 1.0, 3.0, 4.0, 1.5, 0.1, 5.0, 1.0, 1.0, 4.0],
    ]
)


def reward_steps(horizon: int) -> NDArray[np.int64]:
    """Return the paying steps `[11]`: 0, T/10, ..., 9T/10 (rounded down) and T - 1.

    Args:
        horizon: Number of steps T, at least 11 so that the paying steps differ.
    """
    horizon = check_count("horizon", horizon, 11, 10**7)
    return np.append(np.arange(10) * horizon // 10, horizon - 1)


def mean_rewards(horizon: int) -> NDArray[np.float64]:
    """Return the mean reward of every step and action, `[horizon, 2]`."""
    steps = reward_steps(horizon)
    means = np.zeros((horizon, 2))
    means[steps] = MEAN_REWARDS.T
    return means


def expected_return(policy_probabilities: ArrayLike, horizon: int, gamma: float) -> float:
    """Return the expected discounted return of a policy, in closed form.

    Args:
        policy_probabilities: Probabilities of the two actions, `[2]` for a stationary policy or
            `[horizon, 2]` for one that depends on the step.
        horizon: Number of steps T.
        gamma: Discount factor in [0, 1].

    Returns:
        The sum over steps of gamma^t times the mean reward of the step under the policy.
    """
    means = mean_rewards(horizon)
    probabilities = np.asarray(policy_probabilities, np.float64)
    if probabilities.shape not in ((2,), (horizon, 2)):
        raise ValueError(
            f"policy_probabilities must have shape (2,) or ({horizon}, 2), found {probabilities.shape}"
        )
    if not (np.all(probabilities >= 0.0) and np.allclose(probabilities.sum(axis=-1), 1.0)):
        raise ValueError("policy_probabilities must be non-negative and sum to 1 at every step")
    discounts = check_within("gamma", gamma, 0.0, 1.0) ** np.arange(horizon)
    return float(discounts @ (means * probabilities).sum(axis=1))


class EvaluationVectorEnv(ChoiceEnv):
    """The batched evaluation domain; observation: the step index, `[slots, 1]`.

    Args:
        num_envs: Number of slots.
        horizon: Number of steps T over which the eleven paying steps are spread.
        reward_std: Standard deviation of a paying step's reward.
        block_size: Steps of noise drawn at once; changes the speed, never a value.
    """

    env_id = "ttray/Evaluation-v0"

    def __init__(
        self,
        num_envs: int = 1,
        *,
        horizon: int = 100,
        reward_std: float = 0.1,
        block_size: int = 128,
    ) -> None:
        reward_std = check_not_negative("reward_std", reward_std)
        means = mean_rewards(horizon)
        super().__init__(
            num_envs,
            num_choices=2,
            observation_space=gymnasium.spaces.Box(0.0, float(horizon), (1,), np.float32),
            values_per_step=1,
            block_size=block_size,
        )
        self._horizon = horizon
        self.reward_range = (
            float(means.min()) - LARGEST_NORMAL * reward_std,
            float(means.max()) + LARGEST_NORMAL * reward_std,
        )
        # One row more than the horizon: a slot that is stepped beyond it stays there and earns 0.
        self._means = np.append(means, np.zeros((1, 2)), axis=0).ravel()
        self._stds = np.zeros(horizon + 1)
        self._stds[reward_steps(horizon)] = reward_std
        self._steps = np.zeros(num_envs, np.int64)

    def _restart(self, slots: NDArray[np.intp]) -> None:
        self._steps[slots] = 0

    def _advance(self, actions: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        steps = self._steps[: len(actions)]
        noise = self._noise.next_step()[0, : len(actions)]
        rewards = self._stds.take(steps) * noise
        rewards += self._means.take(2 * steps + actions)
        steps += 1
        np.minimum(steps, self._horizon, out=steps)
        return rewards, np.zeros(len(actions), np.bool_)

    def _observe(self, count: int) -> NDArray[np.float32]:
        return self._steps[:count].astype(np.float32)[:, None]


class EvaluationEnv(SingleEnv):
    """The evaluation domain as a single environment; keywords as `EvaluationVectorEnv`."""

    batch_class = EvaluationVectorEnv
