"""Short ways to make batches and to run slots, shared by the environments' tests."""

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

import ttray.envs

# A reach of 0.1 makes Reacher replace targets within the tests' episodes.
PARAMETERS: dict[str, dict[str, Any]] = {"ttray/Reacher-v0": {"reach_distance": 0.1}}
HORIZONS = {
    "ttray/Evaluation-v0": 100,
    "ttray/CorridorSparse-v0": 100,
    "ttray/CorridorDense-v0": 1000,
    "ttray/Dam-v0": 360,
    "ttray/SupplyChain-v0": 30,
    "ttray/Reacher-v0": 200,
}
ALL = ttray.envs.ENVIRONMENT_IDS
NOISY = tuple(name for name in ALL if "Reacher" not in name)


def batch(env_id: str, num_envs: int, **parameters: Any) -> gymnasium.vector.VectorEnv:
    return gymnasium.make_vec(
        env_id,
        num_envs=num_envs,
        vectorization_mode="vector_entry_point",
        **(PARAMETERS.get(env_id, {}) | parameters),
    )


def some_actions(env: gymnasium.vector.VectorEnv, steps: int, seed: int) -> NDArray[Any]:
    """Actions of `steps` steps, `[steps, slots, ...]`."""
    env.action_space.seed(seed)
    return np.stack([env.action_space.sample() for _ in range(steps)])


def only(slot: int, num_envs: int) -> dict[str, Any]:
    mask = np.zeros(num_envs, np.bool_)
    mask[slot] = True
    return {"reset_mask": mask}


def seeds_with(slot: int, seed: int, num_envs: int) -> list[int | None]:
    return [seed if index == slot else None for index in range(num_envs)]


def episode(
    env: gymnasium.vector.VectorEnv, slot: int, seed: int, own: NDArray[Any], others: NDArray[Any]
) -> list[NDArray[Any]]:
    """Reset one slot and run it with its `own` actions while its neighbours do something else.

    Returns:
        The slot's observations `[steps + 1, ...]`, rewards and terminations.
    """
    first, _ = env.reset(seed=seeds_with(slot, seed, env.num_envs), options=only(slot, env.num_envs))
    observations, rewards, terminations = [first[slot]], [], []
    for step, action in enumerate(own):
        actions = others[step].copy()
        actions[slot] = action
        observation, reward, terminated, truncated, _ = env.step(actions)
        assert not truncated.any()
        observations.append(observation[slot])
        rewards.append(reward[slot])
        terminations.append(terminated[slot])
    return [np.array(observations), np.array(rewards), np.array(terminations)]


def assert_same_bits(first: list[NDArray[Any]], second: list[NDArray[Any]]) -> None:
    for left, right in zip(first, second, strict=True):
        assert left.dtype == right.dtype
        assert left.tobytes() == right.tobytes()
