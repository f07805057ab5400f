"""Two policies for CartPole, as plain functions, to evaluate and to compare.

    python examples/cartpole.py
    ttray evaluate cartpole:careful --env CartPole-v1 --to 5% --range 0 1
    ttray rank cartpole:careful cartpole:hasty --env CartPole-v1 --range 0 1

The commands run in this directory. Expect about 480 of 500 for the first and about 45 for the second; that
the first is better is proven after some 5,000 steps.
"""

from typing import Any

from numpy.typing import NDArray

import ttray


def careful(observations: NDArray[Any]) -> NDArray[Any]:
    """Pushes the cart to where the pole leans, or will lean soon."""
    return (observations[:, 2] + observations[:, 3] > 0).astype(int)


def hasty(observations: NDArray[Any]) -> NDArray[Any]:
    """Pushes the cart to where the pole leans."""
    return (observations[:, 2] > 0).astype(int)


if __name__ == "__main__":
    policies = {"careful": careful, "hasty": hasty}
    print(ttray.rank(policies, environment="CartPole-v1", reward_range=(0, 1)))
