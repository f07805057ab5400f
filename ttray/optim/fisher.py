"""The metric of natural directions: the mean KL divergence that a small step makes, and its Hessian.

F = E[Jᵀ M J], with the Jacobian J of the policy's outputs in its parameters and the Fisher information M of
the action distribution in those outputs: the Hessian of the mean KL divergence from the policy as it is, in
which second derivatives of the network have no part. F is never built, only multiplied with: J v forwards,
Jᵀ back.

The mean is over states as the return counts them, step t of each trajectory with γ^t/n_t, so that F does not
depend on the plan, and a divergence in F is that of the bound's penalty to second order. Some rows are enough
for a direction. They are drawn in proportion to these weights, hence count alike; each part of a batch
draws its share of them, which depends on the plan and on its own rows alone.
"""

from __future__ import annotations

from threading import Lock

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from ttray.data.ragged import RaggedBatch
from ttray.estimators.surrogate import discount_per_sample
from ttray.optim.modules import Forward, flat_gradient
from ttray.plans.dcs import DataCollectionStrategy
from ttray.policies.distributions import ActionDistribution
from ttray.settings.improvement import ImprovementSettings

_GOLDEN = 0.6180339887498949  # its multiples fill [0, 1) evenly, and in step with no length of trajectories

_FORWARD_MODE = Lock()  # torch knows one forward derivative at a time, of all threads together


class FisherRows:
    """Rows of a part that stand for all of them, and the product of its share of F with a vector.

    Args:
        rows: Of the part.
        strategy: The plan of the whole batch.
        distribution: Of actions.
        settings: The discount of the return, how many rows the whole batch should draw, and the brake.
    """

    def __init__(
        self,
        rows: RaggedBatch,
        strategy: DataCollectionStrategy,
        distribution: ActionDistribution,
        settings: ImprovementSettings,
    ) -> None:
        of_step = torch.from_numpy(discount_per_sample(strategy, settings.gamma))
        weights = of_step[rows.t.long()]
        up_to = torch.cumsum(of_step, 0)
        planned = up_to[rows.length - 1].sum() / torch.dot(of_step, _counts(strategy))
        chosen, times = drawn(weights, max(round(settings.search.num_fisher_rows * planned.item()), 1))
        self._obs = rows.obs[chosen]
        self._weights = times * (weights.sum() / times.sum())
        self._distribution, self._log_std_brake = distribution, settings.search.log_std_brake

    def product(self, forward: Forward, module: nn.Module, vector: Tensor) -> Tensor:
        """`[parameters + 1]`, the sum over the rows of w Jᵀ M J v, and that of their weights w.

        Args:
            forward: Calls a module.
            module: With the parameters at which F is taken.
            vector: v, `[parameters]`, of those that are trained.
        """
        inputs, moved, parameters = _pushed(forward, module, self._obs, vector)
        with torch.no_grad():
            pulled = self._distribution.fisher_product(inputs, moved, self._log_std_brake)
            pulled = (pulled * self._weights[:, None]).to(inputs.dtype)
        return torch.cat([flat_gradient(inputs, parameters, pulled), self._weights.sum()[None]])


def mean_product(total: Tensor) -> Tensor:
    """`[parameters]`, F v, from what the products of all parts add up to."""
    return total[:-1] / total[-1]


def drawn(weights: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Positions in proportion to weights, in ascending order, and how often each was drawn.

    If there are not more than that, all of them, each as often as it weighs.

    Args:
        weights: `[rows]`, above 0.
        number: How many to draw.
    """
    if len(weights) <= number:
        return torch.arange(len(weights)), weights
    order = torch.arange(number, dtype=torch.float64)
    # One in each of equally heavy stretches.
    targets = (order + torch.frac((order + 1.0) * _GOLDEN)) / number
    reached = torch.cumsum(weights, 0)
    positions = torch.searchsorted(reached / reached[-1], targets, right=True).clamp_(max=len(weights) - 1)
    chosen, times = torch.unique_consecutive(positions, return_counts=True)
    return chosen, times.double()


def _counts(strategy: DataCollectionStrategy) -> Tensor:
    return torch.from_numpy(strategy.samples_per_step.astype(float))


def _pushed(
    forward: Forward, module: nn.Module, obs: Tensor, vector: Tensor
) -> tuple[Tensor, Tensor, list[nn.Parameter]]:
    """Outputs that can be differentiated, how a step v of the parameters moves them, and these parameters."""
    names = {name: each for name, each in module.named_parameters() if each.requires_grad}
    parameters = list(names.values())
    pieces = vector.split([each.numel() for each in parameters])
    with torch.enable_grad(), _FORWARD_MODE, forward_ad.dual_level():
        duals = {
            f"module.{name}": forward_ad.make_dual(each, piece.view_as(each))
            for (name, each), piece in zip(names.items(), pieces, strict=True)
        }
        try:
            outputs = torch.func.functional_call(_Called(module, forward), duals, (obs,))
        except NotImplementedError as problem:
            raise ValueError(
                "natural directions need torch's forward derivatives of the policy; one of its operations "
                f"has none: {problem} Replace it (an autograd.Function needs a jvp), or choose "
                "direction='gradient'"
            ) from problem
        inputs, moved = forward_ad.unpack_dual(outputs)
    moved = torch.zeros_like(inputs) if moved is None else moved
    return inputs, moved.detach(), parameters


class _Called(nn.Module):
    """A module that is called by another function, for torch's tool that exchanges parameters."""

    def __init__(self, module: nn.Module, forward: Forward) -> None:
        super().__init__()
        self.module, self._function = module, forward

    def forward(self, obs: Tensor) -> Tensor:
        """Calls it."""
        return self._function(self.module, obs)
