"""The corridor, with a sparse and with a dense reward.

Appendix "Environment Details" of the paper, "Corridor Domain". The agent starts in the middle of a
line and has to reach its right end. Reaching it does not end the episode: the goal is absorbing and
the slot stays there.
"""

import math
from abc import abstractmethod
from statistics import NormalDist
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from ttray.boundary.fields import check_not_negative, check_within
from ttray.envs.batched import ChoiceEnv, SingleEnv

RIGHT, LEFT = 0, 1
GOAL_DISTANCE = 0.5


class CorridorVectorEnv(ChoiceEnv):
    """The dynamics of both corridors; observation: the position, `[slots, 1]`.

    Args:
        num_envs: Number of slots.
        x_max: Half of the corridor's length; the goal is at +x_max.
        success_probability: Probability p that a move goes where the action points.
        move_std: Standard deviation of a move's length around 1.
        block_size: Steps of noise drawn at once; changes the speed, never a value.
    """

    def __init__(
        self,
        num_envs: int,
        *,
        x_max: float,
        success_probability: float,
        move_std: float,
        block_size: int,
    ) -> None:
        if not GOAL_DISTANCE < x_max < math.inf:
            raise ValueError(
                f"x_max must be finite and above {GOAL_DISTANCE}, or the start is the goal; found {x_max!r}"
            )
        success_probability = check_within("success_probability", success_probability, 0.0, 1.0)
        super().__init__(
            num_envs,
            num_choices=2,
            observation_space=gymnasium.spaces.Box(-x_max, x_max, (1,), np.float32),
            values_per_step=2,
            block_size=block_size,
        )
        self._x_max = x_max
        self._move_std = check_not_negative("move_std", move_std)
        self._success_quantile = _normal_quantile(success_probability)
        self._position = np.zeros(num_envs)

    def _restart(self, slots: NDArray[np.intp]) -> None:
        self._position[slots] = 0.0

    def _advance(self, actions: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        count = len(actions)
        luck, deviation = self._noise.next_step()[:, :count]
        # Success is an event of a normal value too, so that the stream holds one kind of noise.
        succeeds = luck < self._success_quantile
        directions = np.where(succeeds == (actions == RIGHT), 1.0, -1.0)
        position = self._position[:count]
        at_goal = position > self._x_max - GOAL_DISTANCE
        moved = self._move_std * deviation
        moved += directions
        moved += position
        np.minimum(moved, self._x_max, out=moved)
        np.maximum(moved, -self._x_max, out=moved)
        np.copyto(moved, position, where=at_goal)
        self._position[:count] = moved
        return self._rewards(at_goal, directions), np.zeros(count, np.bool_)

    def _observe(self, count: int) -> NDArray[np.float32]:
        return self._position[:count].astype(np.float32)[:, None]

    @abstractmethod
    def _rewards(self, at_goal: NDArray[np.bool_], directions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the rewards `[slots]` of moves that began at the goal or not, `[slots]`."""


class CorridorSparseVectorEnv(CorridorVectorEnv):
    """A step that begins at the goal pays 1, any other 0; arguments as `CorridorVectorEnv`."""

    env_id = "ttray/CorridorSparse-v0"

    def __init__(
        self,
        num_envs: int = 1,
        *,
        x_max: float = 12.0,
        success_probability: float = 0.9,
        move_std: float = 0.1,
        block_size: int = 128,
    ) -> None:
        super().__init__(
            num_envs,
            x_max=x_max,
            success_probability=success_probability,
            move_std=move_std,
            block_size=block_size,
        )
        self.reward_range = 0.0, 1.0

    def _rewards(self, at_goal: NDArray[np.bool_], directions: NDArray[np.float64]) -> NDArray[np.float64]:
        return at_goal.astype(np.float64)


class CorridorDenseVectorEnv(CorridorVectorEnv):
    """A move to the right pays `reward`, one to the left costs it, the goal pays nothing.

    Args:
        num_envs: Number of slots.
        reward: Size of a move's reward.
        x_max: As in `CorridorVectorEnv`, and so the others.
        success_probability: See there.
        move_std: See there.
        block_size: See there.
    """

    env_id = "ttray/CorridorDense-v0"

    def __init__(
        self,
        num_envs: int = 1,
        *,
        reward: float = 0.2,
        x_max: float = 1000.0,
        success_probability: float = 0.9,
        move_std: float = 0.1,
        block_size: int = 128,
    ) -> None:
        super().__init__(
            num_envs,
            x_max=x_max,
            success_probability=success_probability,
            move_std=move_std,
            block_size=block_size,
        )
        self._reward = check_not_negative("reward", reward)
        self.reward_range = -self._reward, self._reward

    def _rewards(self, at_goal: NDArray[np.bool_], directions: NDArray[np.float64]) -> NDArray[np.float64]:
        rewards = directions * self._reward
        rewards[at_goal] = 0.0
        return rewards


class CorridorSparseEnv(SingleEnv):
    """The sparse corridor as a single environment; keywords as `CorridorSparseVectorEnv`."""

    batch_class = CorridorSparseVectorEnv


class CorridorDenseEnv(SingleEnv):
    """The dense corridor as a single environment; keywords as `CorridorDenseVectorEnv`."""

    batch_class = CorridorDenseVectorEnv


def _normal_quantile(probability: float) -> float:
    if probability in (0.0, 1.0):  # NormalDist refuses the two ends
        return math.inf if probability else -math.inf
    return NormalDist().inv_cdf(probability)
