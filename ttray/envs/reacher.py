"""The reacher: a two-jointed arm follows targets, on MuJoCo.

Section "Experiments" of the paper and its appendix "Environment Details", "Reacher". Gymnasium's
model, observation and reward of `Reacher-v5`, without its limit of 50 steps; a target that is
reached is replaced by another. Rendering is left out.
"""

import math
from pathlib import Path

import gymnasium
import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ttray.boundary.fields import check_count, check_not_negative
from ttray.envs.batched import BatchedEnv, SingleEnv

ARM_LENGTH = 0.21  # from the centre to the fingertip
TARGET_DISTANCE = 0.2  # of a target from the centre, at most

# Columns of the gathered physical state: joint angles, target, joint velocities, fingertip.
_ANGLES, _TARGET, _VELOCITIES, _FINGERTIP = slice(0, 2), slice(2, 4), slice(4, 6), slice(6, 8)


def model_path() -> Path:
    """Return the path of Gymnasium's own reacher model."""
    return Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / "reacher.xml"


class ReacherVectorEnv(BatchedEnv):
    """The batched reacher; observation `[slots, 10]`, action: two torques `[slots, 2]` in [-1, 1].

    With the same seed the initial state is that of Gymnasium's `Reacher-v5`: the draws have the
    same order.

    Args:
        num_envs: Number of slots.
        reach_distance: Distance below which a target counts as reached; 0 keeps the first target.
        distance_weight: Weight of the distance from fingertip to target.
        control_weight: Weight of the squared torques.
        frame_skip: Physical steps per action.
    """

    env_id = "ttray/Reacher-v0"

    def __init__(
        self,
        num_envs: int = 1,
        *,
        reach_distance: float = 0.02,
        distance_weight: float = 1.0,
        control_weight: float = 1.0,
        frame_skip: int = 2,
    ) -> None:
        super().__init__(
            num_envs,
            observation_space=gymnasium.spaces.Box(-np.inf, np.inf, (10,), np.float32),
            action_space=gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32),
            values_per_step=0,  # noise is needed by resets and new targets only
            block_size=1,
        )
        self._reach_distance = check_not_negative("reach_distance", reach_distance)
        self._distance_weight = check_not_negative("distance_weight", distance_weight)
        self._control_weight = check_not_negative("control_weight", control_weight)
        self._frame_skip = check_count("frame_skip", frame_skip, 1, 1_000)
        # Targets stay where they are put, and two torques are at most 1 each.
        farthest = ARM_LENGTH + TARGET_DISTANCE
        self.reward_range = -(self._distance_weight * farthest + 2.0 * self._control_weight), 0.0
        self._model = mujoco.MjModel.from_xml_path(str(model_path()))
        self._data = [mujoco.MjData(self._model) for _ in range(num_envs)]
        # Views into MuJoCo's memory, made once, since reading an attribute of MjData costs as much
        # as a copy; three per slot, in the order of the gathered state.
        self._controls = [data.ctrl for data in self._data]
        fingertip = self._model.body("fingertip").id
        self._views = [
            view for data in self._data for view in (data.qpos, data.qvel[:2], data.xpos[fingertip, :2])
        ]
        self._state = np.zeros((num_envs, 8))

    def _restart(self, slots: NDArray[np.intp]) -> None:
        for slot in slots.tolist():
            data = self._data[slot]
            generator = self._generator(slot)
            # Also forgets the warm start and the last control of the slot's earlier life.
            mujoco.mj_resetData(self._model, data)
            qpos = generator.uniform(-0.1, 0.1, 4)
            qpos[2:] = _draw_target(generator)
            qvel = generator.uniform(-0.005, 0.005, 4)
            qvel[2:] = 0.0
            data.qpos[:] = qpos
            data.qvel[:] = qvel
            mujoco.mj_forward(self._model, data)
            np.concatenate(self._views[3 * slot : 3 * slot + 3], out=self._state[slot])

    def _advance(self, actions: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        model, frame_skip, step = self._model, self._frame_skip, mujoco.mj_step
        count = len(actions)
        state = self._state[:count]
        for control, action in zip(self._controls[:count], actions, strict=True):
            control[:] = action
        for data in self._data[:count]:
            step(model, data, frame_skip)
        np.concatenate(self._views[: 3 * count], out=state.reshape(-1))
        distances = np.hypot(*(state[:, _FINGERTIP] - state[:, _TARGET]).T)
        rewards = -self._distance_weight * distances
        rewards -= self._control_weight * np.square(actions).sum(axis=1)
        for slot in np.flatnonzero(distances < self._reach_distance).tolist():
            target = _draw_target(self._generator(slot))
            self._data[slot].qpos[2:] = target
            self._state[slot, _TARGET] = target
        return rewards, np.zeros(count, np.bool_)

    def _observe(self, count: int) -> NDArray[np.float32]:
        state = self._state[:count]
        observations = np.empty((count, 10), np.float32)
        observations[:, 0:2] = np.cos(state[:, _ANGLES])
        observations[:, 2:4] = np.sin(state[:, _ANGLES])
        observations[:, 4:6] = state[:, _TARGET]
        observations[:, 6:8] = state[:, _VELOCITIES]
        observations[:, 8:10] = state[:, _FINGERTIP] - state[:, _TARGET]
        return observations

    def _checked_actions(self, actions: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.float64]:
        found = np.asarray(actions)
        if found.shape != shape or found.dtype.kind not in "fiu":
            raise ValueError(
                f"{self.env_id}: actions must be numbers of shape {shape}, "
                f"found {found.dtype} of shape {found.shape}"
            )
        torques = found.astype(np.float64, copy=False)
        # Written so that NaN fails as well.
        if not np.maximum.reduce(np.abs(torques), axis=None) <= 1.0:
            slot = int(np.flatnonzero(~(np.abs(torques) <= 1.0).all(axis=1))[0])
            raise ValueError(
                f"{self.env_id}: action {torques[slot].tolist()} in slot {slot} is out of range; "
                "allowed are numbers in [-1, 1] (clip what goes to the environment)"
            )
        return torques

    def _generator(self, slot: int) -> np.random.Generator:
        generator = self._noise.generators[slot]
        assert generator is not None, "a slot is seeded before it restarts"
        return generator


class ReacherEnv(SingleEnv):
    """The reacher as a single environment; keywords as `ReacherVectorEnv`."""

    batch_class = ReacherVectorEnv


def _draw_target(generator: np.random.Generator) -> NDArray[np.float64]:
    """Draw a target `[2]` uniformly from the disc of that radius, by rejection."""
    while True:
        target = generator.uniform(-TARGET_DISTANCE, TARGET_DISTANCE, 2)
        if math.hypot(*target) < TARGET_DISTANCE:
            return target
