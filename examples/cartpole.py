"""Two policies for CartPole, as plain functions, to evaluate and to compare.

    ttray evaluate cartpole:careful --env CartPole-v1 --to 5% --range 0 1
    ttray rank cartpole:careful cartpole:hasty --env CartPole-v1 --range 0 1

Run in this directory: the first earns about 480 of 500, the second about 42, and that the first is better is
proven after some 6,000 steps.
"""

import numpy as np

import ttray


def careful(observations: np.ndarray) -> np.ndarray:
    """Pushes the cart to where the pole leans, or will lean soon."""
    return (observations[:, 2] + observations[:, 3] > 0).astype(int)


def hasty(observations: np.ndarray) -> np.ndarray:
    """Pushes the cart to where the pole leans."""
    return (observations[:, 2] > 0).astype(int)


if __name__ == "__main__":
    found = ttray.rank({"careful": careful, "hasty": hasty}, environment="CartPole-v1", reward_range=(0, 1))
    print(found)
    assert found.order == ("careful", "hasty") or list(found.order) == ["careful", "hasty"]
