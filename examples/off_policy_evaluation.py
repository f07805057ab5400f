"""Judges a policy by data that another one recorded, and then runs it to see who was right.

    python examples/off_policy_evaluation.py

In the evaluation domain the return of every policy is known. The recorded policy takes either action with
the same probability; the one in question prefers the first a little. If it were much further away, few
trajectories would have all the weight, and `problems` would say that the answer is worthless.

Expect estimates of about 11.1, which is the truth, and what is proven: a lower and an upper bound, each with
probability 0.95. Cantelli's lower bounds are far below, and would hold if divergences were known. Student's
are near, and hold for many trajectories only. This starts no Ray.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import ttray
from ttray.data.ragged import as_tensors
from ttray.envs.evaluation import MEAN_REWARDS, expected_return
from ttray.estimators.on_policy import on_policy

ENVIRONMENT, HORIZON, GAMMA = "ttray/Evaluation-v0", 20, 0.9
ENV_CONFIG = {"horizon": HORIZON}
DELTA = 0.05
# Rewards are normal, so this holds but for one in very many of them.
MAX_REWARD = float(MEAN_REWARDS.max()) + 0.5


class Constant:
    """A policy that takes the actions with the same probabilities everywhere.

    Args:
        probabilities: Of the actions.
    """

    def __init__(self, *probabilities: float) -> None:
        self.probabilities = probabilities

    def __call__(self, obs: NDArray[np.float32]) -> NDArray[np.float32]:
        """From observations `[rows, 1]` to logits `[rows, 2]`."""
        return np.tile(np.log(self.probabilities).astype(np.float32), (len(obs), 1))


def main() -> None:
    """Records, judges, and compares with the truth."""
    recorded, in_question = Constant(0.5, 0.5), Constant(0.55, 0.45)
    strategy = ttray.dcs.truncated(horizon=HORIZON, budget=40_000, gamma=GAMMA)

    table = ttray.collect(ENVIRONMENT, strategy=strategy, policy=recorded, env_config=ENV_CONFIG, seed=0)
    found = ttray.ope([table], policy=in_question, delta=DELTA, max_reward=MAX_REWARD)
    print(f"recorded: {table.num_rows:,} steps of another policy, {found.num_trajectories:,} trajectories")
    print(*found.problems, sep="\n", end="")
    if found.guaranteed is not None:
        print(f"proven: at least {found.guaranteed.low:.3f}, at most {found.guaranteed.high:.3f}")
    for row in found.estimators:
        cantelli = "none known" if row.cantelli is None else f"{row.cantelli:.3f}"
        print(
            f"{row.name:28}  estimate {row.estimate:.3f} ± {row.standard_error:.3f}, lower bounds: Cantelli "
            f"{cantelli}, Student {row.students:.3f}; worth {row.effective_sample_size:,.0f} trajectories"
        )

    own = ttray.collect(ENVIRONMENT, strategy=strategy, policy=in_question, env_config=ENV_CONFIG, seed=1)
    run = on_policy(as_tensors(own), strategy, gamma=GAMMA, delta=DELTA)
    truth = expected_return(in_question.probabilities, HORIZON, GAMMA)
    print(f"the policy itself: {run.low:.3f} to {run.high:.3f}, in closed form {truth:.3f}")


if __name__ == "__main__":
    main()
