"""Which of three candidates is proven better than the policy in use, by recordings of that policy alone?

    python examples/proven_improvement.py

A controller balances CartPole for 50 steps, not very well, and has been recorded. Rewards are known to lie
between 0 and 1, which is all that a proof needs. Three candidates push more or less hard; none of them was
chosen by looking at the recording. Each is compared with the upper end of what the recorded controller earns.

Expect that only the hardest one is proven better; the second is better too, and more recordings would prove
it. A fresh evaluation of all three agrees. This starts no Ray.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import ttray

ENVIRONMENT, HORIZON, GAMMA = "CartPole-v1", 50, 1.0
RANGE = (0.0, 1.0)
Policy = Callable[[NDArray[np.float32]], NDArray[np.float32]]


def controller(gain: float) -> Policy:
    """Pushes to the side to which the pole leans or falls, the surer the larger the gain."""

    def policy(obs: NDArray[np.float32]) -> NDArray[np.float32]:
        push = gain * (5.0 * obs[:, 2] + obs[:, 3])
        return np.stack([-0.5 * push, 0.5 * push], axis=1).astype(np.float32)

    return policy


def main() -> None:
    """Records, asks for proofs, and checks the answers."""
    plan = ttray.dcs.uniform(horizon=HORIZON, budget=20_000)
    recorded = ttray.collect(ENVIRONMENT, strategy=plan, policy=controller(0.6), gamma=GAMMA, seed=1)
    used = ttray.evaluate_table(recorded, reward_range=RANGE)
    print(f"in use: return {used.low:.1f} to {used.high:.1f}")
    proven, right = [], True
    for gain in (0.3, 0.8, 1.2):
        found = ttray.ope([recorded], policy=controller(gain), reward_range=RANGE, better_than=used.high)
        fresh = ttray.evaluate_table(
            ttray.collect(ENVIRONMENT, strategy=plan, policy=controller(gain), gamma=GAMMA, seed=2)
        )
        assert found.guaranteed is not None
        low, high = found.guaranteed.low, found.guaranteed.high
        verdict = "proven better" if found.is_better else "not proven better"
        print(
            f"gain {gain}: return {low:.1f} to {high:.1f}, {verdict}; Cantelli's lower bound "
            f"{found['per_decision'].cantelli:.1f}, a fresh evaluation {fresh.estimate:.1f}"
        )
        proven += [gain] if found.is_better else []
        right = right and low <= fresh.high and high >= fresh.low
    print(f"proven better: gain {proven}; fresh evaluations {'agree' if right else 'disagree'}")


if __name__ == "__main__":
    main()
