"""Trains TT-POIS on an environment of one's own, an ordinary `gymnasium.Env`.

    python examples/own_environment.py

A walker on a tightrope earns 1 for every step, and falls when it sways too far. A fall ends the episode
(`terminated`) before its planned length: such a trajectory has fewer rows, and earns nothing more. What an
environment must not do is to truncate itself within the horizon: the plan alone decides how long a
trajectory is.

Expect a line per iteration and, at the end, a return that rose from about 6.5 to about 15; who never falls
has 22.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import ray
from numpy.typing import NDArray

import ttray

HORIZON, BUDGET, GAMMA = 50, 2000, 0.96
LEFT, STAY, RIGHT = 0, 1, 2


class Tightrope(gymnasium.Env):
    """Leaning to one side makes one sway there; gusts of wind do the rest.

    Args:
        config: What RLlib gives every environment class: the `env_config`. May hold "wind", the standard
            deviation of a gust.
    """

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        self._wind = float((config or {}).get("wind", 0.05))
        self._sway = self._speed = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Starts upright. All randomness comes from `np_random`, so that a seed says what happens."""
        super().reset(seed=seed)
        self._sway, self._speed = 0.0, float(self.np_random.normal(0.0, self._wind))
        return self._observation(), {}

    def step(self, action: int) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Leans to the left, not at all, or to the right."""
        lean = 0.1 * (int(action) - STAY)
        self._speed += 0.1 * self._sway + lean + float(self.np_random.normal(0.0, self._wind))
        self._sway += self._speed
        return self._observation(), 1.0, abs(self._sway) > 1.0, False, {}

    def _observation(self) -> NDArray[np.float32]:
        return np.array([self._sway, self._speed], dtype=np.float32)


def main() -> None:
    """Collects one batch to look at, then trains for ten iterations in this process."""
    strategy = ttray.dcs.truncated(horizon=HORIZON, budget=BUDGET, gamma=GAMMA)
    table = ttray.collect(Tightrope, strategy=strategy, seed=0)
    planned, kept = strategy.num_trajectories, table.num_rows
    print(f"untrained: {planned} trajectories, {kept} of {BUDGET} planned steps: the others fell before")

    # RLlib wants a Ray, if only of this process: here without its dashboard and its talk.
    ray.init(include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    config = (
        ttray.TTPOISConfig()
        .environment(Tightrope)
        .training(horizon=HORIZON, budget=BUDGET, gamma=GAMMA, delta=0.9)
        .debugging(seed=0)
    )
    algorithm = config.build_algo()
    returns = []
    for iteration in range(10):
        found = algorithm.train()["env_runners"]
        returns.append(found["discounted_return"])
        print(f"{iteration}: return {returns[-1]:.2f}, {found['num_env_steps_sampled']:.0f} steps")
    algorithm.stop()
    print(f"the return rose from {returns[0]:.2f} to {returns[-1]:.2f}")


if __name__ == "__main__":
    main()
