"""One improvement of a policy: the TT-POIS bound of a batch as a function of a module's parameters.

Joins the parts of a batch (`local_evaluator`, wherever they are) and `climb` to a torch module. The behaviour
policy is the module as it stands: its densities are computed by the same forward pass as the target's, so
that at the start every ratio is exactly 1. The recorded `log_prob` is only compared with them, which costs no
pass of its own.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.utils import parameters_to_vector

from ttray.data.batch import BatchInfo
from ttray.estimators.surrogate import Sums
from ttray.optim.climb import climb
from ttray.optim.local_evaluator import BoundEvaluator
from ttray.optim.modules import trainable_parameters
from ttray.optim.objectives import BoundObjective
from ttray.optim.part_facts import PartFacts
from ttray.optim.shard_bound import Request
from ttray.settings.improvement import ImprovementSettings


class StaleBatchError(RuntimeError):
    """The batch was not sampled by the policy that the learner would improve."""


def check_sampled_by(info: BatchInfo, digest: str) -> None:
    """Raises StaleBatchError if a batch tells that other weights sampled it; one of long ago tells nothing.

    Args:
        info: The batch.
        digest: Of the learner's weights.
    """
    if info.weights_digest not in (None, digest):
        raise StaleBatchError(
            f"the batch of iteration {info.iteration} was sampled with other weights than the learner's, "
            f"which importance sampling would turn into bias: their digests are {info.weights_digest} and "
            f"{digest}. Collect it again with the current weights"
        )


def improve(
    module: nn.Module,
    evaluator: BoundEvaluator,
    settings: ImprovementSettings,
    *,
    last_kl: float | None = None,
) -> dict[str, Any]:
    """Moves a module's parameters to where the bound of a batch is higher.

    Args:
        module: Its parameters are changed in place; they stay as they are if nothing is gained.
        evaluator: Of all parts of a batch that was sampled by the module as it is.
        settings: Of the bound and the search.
        last_kl: The KL divergence of the last step of the batch before, if there was one.

    Returns:
        The metrics of the learner, by their published names.

    Raises:
        StaleBatchError: The recorded log-probabilities are not the module's: of other weights, or of a module
            that acts otherwise than it is trained, which no digest tells.
    """
    facts: PartFacts = evaluator.answer(Request("facts"))
    _check_densities(facts)
    start = parameters_to_vector(trainable_parameters(module)).detach()
    at_start = Sums(*torch.tensor([facts.estimate, facts.penalty], dtype=torch.float64))
    max_reward, fixed = _scales(facts, settings)
    objective = BoundObjective(
        evaluator,
        delta=settings.delta,
        max_reward=max_reward,
        fixed_penalty=fixed,
        known=(start, at_start),
    )
    metrics, sums = climb(module, objective, start, settings.search, last_kl=last_kl)
    # The mean of d̂₂(h) over the lengths, weighted as in the penalty; at the start all are 1.
    renyi2 = (sums.penalty / at_start.penalty).item() if at_start.penalty else 1.0
    return metrics | {"is_bound": True, "renyi2": renyi2}


def _scales(facts: PartFacts, settings: ImprovementSettings) -> tuple[float, float]:
    """R_max, and the part of the penalty that no policy changes, in the penalty's unit.

    That is what the first states bring where a critic says what they are worth: docs/algorithm.md (5).
    """
    first = facts.first_values
    if settings.penalty == "second_moment":
        return 1.0, 0.0 if first is None else first.variance_of_mean
    largest = max(facts.max_abs_reward, settings.min_max_reward or 0.0)
    if first is None or largest == 0.0:
        return largest, 0.0
    relative = (first.high - first.low) / largest
    return largest, (relative**2 + 2.0 * relative * first.discounts) / first.number


def _check_densities(facts: PartFacts) -> None:
    if facts.stale is not None:
        ids, recorded, found = facts.stale
        raise StaleBatchError(
            f"{facts.num_stale} trajectories were sampled by another policy than the learner's, which "
            f"importance sampling would turn into bias: trajectory {', '.join(map(str, ids))}"
            f"{', ...' if facts.num_stale > len(ids) else ''} (log-probability {recorded:.6f} "
            f"recorded, {found:.6f} here). Collect the batch again with the current weights; a module of "
            "your own must compute the same in _forward_exploration as in _forward_train"
        )
