"""Earlier batches used again: how likely their actions are under all policies that collected, and under one.

The rows of the last batches are samples of a mixture, with each policy's share of the rows: a target's ratio
is π̄ / Σ_i α_i π_i (the balance heuristic), which is small where any of them went often. Traces of advantages
are cut where the policy of now would not have acted as the one that collected did.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ttray.numerics.threads import torch_threads
from ttray.optim.modules import Forward
from ttray.optim.recent_batches import RecentBatch
from ttray.policies.distributions import ActionDistribution

_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class Likelihoods:
    """Of the rows of one batch.

    Attributes:
        log_share: `[rows]`, log π_now − log Σ_i α_i π_i: what is added to a log-ratio to the policy of now. 0
            where there is a single batch.
        traces: `[rows]`, min(1, π_now/π_i) with the policy i that collected; 1 in the newest batch.
    """

    log_share: Tensor
    traces: NDArray[np.float64]


def likelihoods(
    module: nn.Module, forward: Forward, batches: Sequence[RecentBatch], distribution: ActionDistribution
) -> list[Likelihoods]:
    """For each batch, its actions under the policies of all of them.

    Args:
        module: Any of the policies, to make the others of.
        forward: How to call it.
        batches: Of which the last one is of the policy of now.
        distribution: Of actions.
    """
    if len(batches) == 1:  # nothing to compare
        rows = len(batches[0].rows.t)
        return [Likelihoods(torch.zeros(rows, dtype=torch.float64), np.ones(rows))]
    policies = [_policy_of(module, batch) for batch in batches]
    numbers = torch.tensor([float(len(batch.rows.t)) for batch in batches], dtype=torch.float64)
    log_shares = torch.log(numbers / numbers.sum())[:, None]
    found = []
    with torch.no_grad(), torch_threads(1):
        for position, batch in enumerate(batches):
            log_probs = torch.stack([_log_prob(each, forward, batch, distribution) for each in policies])
            relative = log_probs - log_probs[-1]
            traces = torch.exp(-relative[position]).clamp(max=1.0)
            found.append(Likelihoods(-torch.logsumexp(log_shares + relative, 0), traces.numpy()))
    return found


def _policy_of(module: nn.Module, batch: RecentBatch) -> nn.Module:
    policy = copy.deepcopy(module)
    policy.load_state_dict({name: torch.tensor(value) for name, value in batch.policy.items()})
    return policy


def _log_prob(
    policy: nn.Module, forward: Forward, batch: RecentBatch, distribution: ActionDistribution
) -> Tensor:
    pieces = zip(batch.rows.obs.split(_ROWS_AT_ONCE), batch.rows.action.split(_ROWS_AT_ONCE), strict=True)
    return torch.cat([distribution.log_prob(forward(policy, obs), action).double() for obs, action in pieces])
