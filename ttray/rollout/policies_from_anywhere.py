"""`ttray.policies`: makes policies of functions and of other frameworks' models.

`ttray.evaluate` and `ttray.collect` take most of these as they are; these functions say more of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ttray.rollout.acting import Actor
from ttray.rollout.functions import FunctionActor
from ttray.rollout.sb3 import Sb3Actor
from ttray.rollout.sb3_files import load_model


def function(act: Callable[..., Any], *, initial_state: Any = None, batched: bool = True) -> Actor:
    """A policy that is a function from observations to actions.

    Example:
        >>> import ttray
        >>> def act(observations):
        ...     return (observations[:, 2] > 0).astype(int)  # CartPole: to where the pole leans
        >>> policy = ttray.policies.function(act)

    Args:
        act: `act(observations)` or `act(observations, rng)`; with an initial state `act(observations, state)`
            or `act(observations, state, rng)`, which returns actions and the next state. Observations and
            actions have the shapes of the environment's spaces with an axis more, for rows; so has the state.
            Nothing is clipped: the environment gets what `act` answers. `rng` draws for each row from the
            stream of its trajectory (see `ttray.rollout.row_generators`): `rng.normal(means, 0.1)`. Random
            numbers from elsewhere would depend on how many trajectories run side by side.
        initial_state: What it remembers when an episode begins, of one episode: an array, or a tuple or dict
            of arrays.
        batched: Whether it takes many observations at once; if not it is called with one, without the axis
            for rows, and `rng` is a `numpy.random.Generator`.

    Returns:
        A policy for `ttray.collect` and `ttray.evaluate`.
    """
    return FunctionActor(act, initial_state=initial_state, is_batched=batched)


def sb3(model: Any, *, deterministic: bool = False, normalize: Any = None) -> Actor:
    """A model of Stable-Baselines3 or sb3-contrib (PPO, A2C, SAC, TD3, DQN, RecurrentPPO, …).

    It acts as its own `predict` does, with its preprocessing and with actions rescaled or clipped as there.
    What it samples comes from the streams of the trajectories, so results can be repeated.

    Args:
        model: One that is loaded; or the path of one, by whose loading runs what is pickled in it: only for
            files that you trust.
        deterministic: Whether it takes the action that it likes best, as in `predict(deterministic=True)`.
        normalize: A `VecNormalize` that it was trained with, or the path to which one was saved (which is
            unpickled); that of the model's own environment unless given. A file does not tell that
            there was one.

    Returns:
        A policy for `ttray.collect` and `ttray.evaluate`.
    """
    found = load_model(Path(model).expanduser()) if isinstance(model, str | Path) else model
    return Sb3Actor(found, deterministic=deterministic, normalize=normalize)
