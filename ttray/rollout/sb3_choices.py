"""How models of Stable-Baselines3 choose, by what their network gives or by one of their distributions.

What their `predict` draws from torch's generator is drawn from the stream of the trajectory here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttray.rollout.noise_ahead import Noise, log_exponentials, normals
from ttray.rollout.row_generators import RowGenerators

_LOG_STD_RANGE = (-20.0, 2.0)  # of SAC and its kin


class Choice(ABC):
    """From what a network gives, `[rows, outputs]`, to actions.

    Attributes:
        noise: What a sample needs; None if it is the likeliest action.
    """

    noise: Noise | None = None

    @abstractmethod
    def likeliest(self, outputs: NDArray[Any]) -> NDArray[Any]:
        """As by `predict(deterministic=True)`."""

    def drawn(self, outputs: NDArray[Any], noise: NDArray[Any]) -> NDArray[Any]:
        """A sample, as by `predict(deterministic=False)`."""
        raise NotImplementedError


class AsItIs(Choice):
    """The outputs are the action."""

    def likeliest(self, outputs: NDArray[Any]) -> NDArray[Any]:
        """See base class."""
        return outputs


class BestValue(Choice):
    """The outputs are values of the possibilities."""

    def likeliest(self, outputs: NDArray[Any]) -> NDArray[Any]:
        """See base class."""
        return outputs.argmax(1)


class FromLogits(Choice):
    """The outputs are logits of one choice, or of several beside each other.

    Args:
        sizes: Possibilities of each.
        is_single: Whether an action is a number and not a row of them.
    """

    def __init__(self, sizes: Sequence[int], *, is_single: bool) -> None:
        self._ends, self._is_single = np.cumsum(sizes)[:-1], is_single
        self.noise = Noise(log_exponentials, sum(sizes))

    def likeliest(self, outputs: NDArray[Any]) -> NDArray[Any]:
        """See base class."""
        if self._is_single:
            return outputs.argmax(1)
        return np.stack([part.argmax(1) for part in np.split(outputs, self._ends, axis=1)], axis=1)

    def drawn(self, outputs: NDArray[Any], noise: NDArray[Any]) -> NDArray[Any]:
        """See base class: the Gumbel-max trick."""
        return self.likeliest(outputs - noise)


class Gaussian(Choice):
    """The outputs are means.

    Args:
        std: Standard deviations.
    """

    def __init__(self, std: NDArray[np.float32]) -> None:
        self._std = std
        self.noise = Noise(normals, len(std))

    def likeliest(self, outputs: NDArray[Any]) -> NDArray[Any]:
        """See base class."""
        return outputs

    def drawn(self, outputs: NDArray[Any], noise: NDArray[Any]) -> NDArray[Any]:
        """See base class."""
        drawn: NDArray[Any] = outputs + self._std * noise
        return drawn


class SquashedGaussian(Choice):
    """The outputs are means and logarithms of standard deviations, of what is squashed by tanh.

    Args:
        size: Of an action.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self.noise = Noise(normals, size)

    def likeliest(self, outputs: NDArray[Any]) -> NDArray[Any]:
        """See base class."""
        squashed: NDArray[Any] = np.tanh(outputs[:, : self._size])
        return squashed

    def drawn(self, outputs: NDArray[Any], noise: NDArray[Any]) -> NDArray[Any]:
        """See base class."""
        mean, log_std = outputs[:, : self._size], outputs[:, self._size :]
        squashed: NDArray[Any] = np.tanh(mean + np.exp(np.clip(log_std, *_LOG_STD_RANGE)) * noise)
        return squashed


def drawn_from(distribution: Any, rng: RowGenerators) -> NDArray[Any]:
    """A sample of one of SB3's distributions."""
    kinds = {each.__name__ for each in type(distribution).__mro__}
    if "StateDependentNoiseDistribution" in kinds:
        found: NDArray[Any] = distribution.sample().numpy()  # draws nothing: its noise is one of the state
        return found
    inner = distribution.distribution
    if "DiagGaussianDistribution" in kinds:
        mean = inner.mean.numpy()
        found = mean + inner.stddev.numpy() * normals(rng, mean.shape)
        return np.tanh(found) if "SquashedDiagGaussianDistribution" in kinds else found
    if "CategoricalDistribution" in kinds:
        logits = inner.logits.numpy()
        return (logits - log_exponentials(rng, logits.shape)).argmax(1)
    if "MultiCategoricalDistribution" in kinds:
        parts = [each.logits.numpy() for each in inner]
        choice = FromLogits([part.shape[1] for part in parts], is_single=False)
        logits = np.concatenate(parts, axis=1)
        return choice.drawn(logits, log_exponentials(rng, logits.shape))
    probs = inner.probs.numpy()
    return (rng.random(probs.shape) < probs).astype(np.int8)  # of Bernoulli
