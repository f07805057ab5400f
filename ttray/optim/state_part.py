"""A part of what TTPO optimises: rows of the newest batch and of earlier ones, each with its own weight.

The objective is Σ w ρ Â − κ √(Σ w² Â²) · exp(h/2 · Σ w log d₂), in which the first sum and the one of log d₂
add up over parts; docs/algorithm.md tells what it is, and that it is no bound. Answers the requests that
`shard_bound.Part` does, as far as a search has any.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ttray.optim.fisher import FisherRows
from ttray.optim.modules import Forward, flat_gradient
from ttray.optim.part_facts import WeightSums
from ttray.optim.shard_bound import Request
from ttray.policies.distributions import ActionDistribution
from ttray.settings.improvement import ImprovementSettings


@dataclass(frozen=True, eq=False)
class StateSpec:
    """What all parts have in common.

    Attributes:
        forward: How to call the module, or a copy of it.
        distribution: Of actions.
        settings: Of the training.
    """

    forward: Forward
    distribution: ActionDistribution
    settings: ImprovementSettings


class StatePart:
    """A part, ready to be evaluated by any copy of the module.

    Args:
        spec: Of all parts.
        module: A copy of the policy as it is before the search.
        obs: `[rows, obs_size]`, as everything here in memory of its own.
        action: `[rows, ...]`.
        weights: `[rows]`, w.
        advantages: `[rows]`, Â.
        log_shares: `[rows]`, see `reuse.Likelihoods`.
        fisher: Rows of the newest batch that tell how far a step goes, in one of the parts.
    """

    def __init__(
        self,
        spec: StateSpec,
        module: nn.Module,
        obs: Tensor,
        action: Tensor,
        weights: Tensor,
        advantages: Tensor,
        log_shares: Tensor,
        fisher: FisherRows | None,
    ) -> None:
        self._spec, self._obs, self._fisher = spec, obs, fisher
        self._weights, self._weighted_advantages = weights, weights * advantages
        self._log_shares = log_shares
        clip = spec.settings.importance_weight_clip
        self._log_clip = math.inf if clip is None else math.log(clip)
        with torch.no_grad():
            self._compare = spec.distribution.comparison(spec.forward(module, obs), action)

    def answer(self, request: Request, module: nn.Module, parameters: list[nn.Parameter]) -> Any:
        """Answers a request, see `shard_bound.Part`."""
        if request.what == "gradient":
            return self._gradient(module, parameters, request.of_penalty)
        if request.what == "fisher":
            return self._fisher_product(module, parameters, request)
        with torch.no_grad():
            target = self._spec.forward(module, self._obs)
            if request.what == "weights":
                log_ratios = self._compare(target).log_ratio + self._log_shares
                return WeightSums.of(log_ratios, len(log_ratios))
            return torch.stack(self._sums(target))

    def _sums(self, target: Tensor) -> tuple[Tensor, Tensor]:
        """Σ w ρ Â and Σ w log d₂."""
        compared = self._compare(target)
        # Clipping the logarithm keeps the gradient of an overflowing ratio at 0 instead of 0 · inf.
        ratios = torch.exp((compared.log_ratio + self._log_shares).clamp(max=self._log_clip))
        estimate = torch.dot(ratios, self._weighted_advantages)
        if of_entropy := self._spec.settings.states.entropy_weight:
            entropy = self._spec.distribution.entropy(target)
            estimate = estimate + of_entropy * torch.dot(self._weights, entropy)
        return estimate, torch.dot(self._weights, compared.log_renyi2)

    def _gradient(self, module: nn.Module, parameters: list[nn.Parameter], of_penalty: float) -> Tensor:
        with torch.enable_grad():
            estimate, divergence = self._sums(self._spec.forward(module, self._obs))
            return flat_gradient(estimate + of_penalty * divergence, parameters)

    def _fisher_product(self, module: nn.Module, parameters: list[nn.Parameter], request: Request) -> Tensor:
        if self._fisher is None:
            return torch.zeros(sum(each.numel() for each in parameters) + 1, dtype=torch.float64)
        assert request.values is not None
        return self._fisher.product(self._spec.forward, module, request.values[1])
