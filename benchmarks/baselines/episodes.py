"""The environments of the peers: episodes that end at the horizon of a case."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv, VectorWrapper
from numpy.typing import NDArray

from benchmarks.cases import Case
from ttray.envs.batched import BatchStep, Seeds


class Episodes(VectorWrapper):
    """A vector environment with AutoresetMode.DISABLED whose episodes end at a horizon.

    Also clips actions to their Box, as the policies of TorchRL do not.

    Args:
        environment: What to wrap.
        horizon: Longest episode.
        resets: Whether slots that ended are reset by the next step, whose action they ignore
            (AutoresetMode.NEXT_STEP); otherwise by the caller.
    """

    def __init__(self, environment: VectorEnv, horizon: int, *, resets: bool = False) -> None:
        super().__init__(environment)
        # TorchRL reads the attribute, RLlib the metadata.
        self.autoreset_mode = AutoresetMode.NEXT_STEP if resets else AutoresetMode.DISABLED
        self.metadata = {**environment.metadata, "autoreset_mode": self.autoreset_mode}
        self._horizon = horizon
        self._resets = resets
        self._to_environment = clip_of(environment.single_action_space)
        self._age = np.zeros(environment.num_envs, np.int64)
        self._ended = np.zeros(environment.num_envs, np.bool_)

    @classmethod
    def of(cls, case: Case, num_slots: int, *, resets: bool = False) -> Episodes:
        """Wraps the natively batched environment, or single ones where there is none."""
        batch: VectorEnv = case.maker().make_batch(num_slots) or SyncVectorEnv(
            [partial(make_single, case)] * num_slots, autoreset_mode=AutoresetMode.DISABLED
        )
        return cls(batch, case.horizon, resets=resets)

    def reset(
        self, *, seed: Seeds = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Resets all slots, or those of `options["reset_mask"]`."""
        mask = (options or {}).get("reset_mask", slice(None))
        self._age[mask] = 0
        self._ended[mask] = False
        return self.env.reset(seed=seed, options=options)

    def step(self, actions: NDArray[Any]) -> BatchStep:
        """Steps every slot once."""
        obs, rewards, terminated, truncated, info = self.env.step(self._to_environment(actions))
        self._age += 1
        truncated = truncated | (self._age >= self._horizon)
        if self._resets:
            if self._ended.any():
                obs, info = self.env.reset(options={"reset_mask": self._ended})
                self._age[self._ended] = 0
                rewards[self._ended] = 0.0
                terminated, truncated = terminated & ~self._ended, truncated & ~self._ended
            self._ended = terminated | truncated
        return obs, rewards, terminated, truncated, info


def make_single(case: Case) -> gymnasium.Env:
    """Makes one environment that truncates itself at the horizon."""
    # The checker's wrapper costs as much as a small environment.
    return gymnasium.make(case.environment, max_episode_steps=case.horizon, disable_env_checker=True)


def is_batched(case: Case) -> bool:
    """Whether the environment has a natively batched form."""
    batch = case.maker().make_batch(1)
    if batch is None:
        return False
    batch.close()
    return True


def clip_of(space: gymnasium.Space) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Brings actions into a Box; those of other spaces are as they have to be."""
    if isinstance(space, Box):
        low, high = space.low, space.high
        return lambda actions: np.clip(actions, low, high)
    return lambda actions: actions
