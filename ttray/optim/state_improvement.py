"""One improvement of a policy as TTPO makes it: state by state, from the last batches, with a critic's help.

What every row weighs and how good its action was is computed once, for all rows together: advantages are
centred and divided by their spread. Then the parts of all batches are evaluated as those of a bound are. The
objective is no bound (docs/algorithm.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from ttray.data.batch import BatchInfo
from ttray.estimators.advantages import discounted_from_there_on, discounts_per_sample, surprises
from ttray.optim.climb import climb
from ttray.optim.critic import Critic, values_of
from ttray.optim.fisher import FisherRows
from ttray.optim.local_evaluator import LocalEvaluator
from ttray.optim.modules import Forward, trainable_parameters
from ttray.optim.objectives import LARGEST_EXPONENT, StateObjective
from ttray.optim.recent_batches import RecentBatch
from ttray.optim.reuse import Likelihoods, likelihoods
from ttray.optim.shards import number_of_parts
from ttray.optim.state_part import StatePart, StateSpec
from ttray.policies.distributions import ActionDistribution, from_description
from ttray.settings.improvement import ImprovementSettings

_SMALLEST_SPREAD = 1e-12


@dataclass(frozen=True, eq=False)
class WeighedStates:
    """The rows of all batches, ready to be compared.

    Attributes:
        weights: For each batch `[rows]`, w; they add up to 1.
        advantages: Likewise Â, of mean 0 and standard deviation 1 under these weights.
        spread: What they were divided by.
        width: √(Σ w² Â²).
        surprises: Likewise δ.
        likelihoods: Likewise.
    """

    weights: list[NDArray[np.float64]]
    advantages: list[NDArray[np.float64]]
    spread: float
    width: float
    surprises: list[NDArray[np.float64]]
    likelihoods: list[Likelihoods]

    @classmethod
    def of(
        cls,
        critic: Critic,
        batches: Sequence[RecentBatch],
        known: list[Likelihoods],
        *,
        gamma: float,
        trace_decay: float,
    ) -> WeighedStates:
        """Weighs the rows of batches.

        Args:
            critic: Fitted to the batches before the newest one.
            batches: The newest one last.
            known: Of their rows.
            gamma: The discount.
            trace_decay: λ.
        """
        found = [surprises(batch.rows, values_of(critic, batch.rows), gamma) for batch in batches]
        advantages = [
            discounted_from_there_on(batch.rows, surprise, gamma * trace_decay * each.traces)
            for batch, surprise, each in zip(batches, found, known, strict=True)
        ]
        weights = [discounts_per_sample(batch.rows, batch.strategy, gamma) for batch in batches]
        total = sum(float(each.sum()) for each in weights)
        weights = [each / total for each in weights]
        pairs = list(zip(weights, advantages, strict=True))
        mean = sum(float(w @ a) for w, a in pairs)
        spread = math.sqrt(sum(float(w @ np.square(a - mean)) for w, a in pairs))
        advantages = [(each - mean) / max(spread, _SMALLEST_SPREAD) for each in advantages]
        pairs = list(zip(weights, advantages, strict=True))
        width = math.sqrt(sum(float(np.square(w * a).sum()) for w, a in pairs))
        return cls(weights, advantages, spread, width, found, known)


@dataclass(frozen=True, eq=False)
class StateImprovement:
    """What came of it.

    Attributes:
        metrics: Of the learner, by their published names.
        states: What was compared.
    """

    metrics: dict[str, Any]
    states: WeighedStates


def improve_by_states(
    module: nn.Module,
    forward: Forward,
    critic: Critic,
    batches: Sequence[RecentBatch],
    info: BatchInfo,
    settings: ImprovementSettings,
    *,
    last_kl: float | None = None,
) -> StateImprovement:
    """Moves a module's parameters to where TTPO's objective is higher.

    Args:
        module: Its parameters are changed in place; they stay as they are if nothing is gained.
        forward: How to call it, or a copy of it.
        critic: Fitted to the batches before the newest one.
        batches: The newest one, which the module as it is has sampled, last.
        info: Of the newest one.
        settings: Of the objective and the search.
        last_kl: The KL divergence of the last step of the batch before, if there was one.
    """
    distribution = from_description(info.distribution)
    known = likelihoods(module, forward, batches, distribution)
    states = WeighedStates.of(
        critic, batches, known, gamma=settings.gamma, trace_decay=settings.critic.trace_decay
    )
    start = parameters_to_vector(trainable_parameters(module)).detach()
    makers = part_makers(forward, distribution, batches, states, settings)
    beta = (1.0 - settings.delta) / settings.delta
    discounts = float((settings.gamma ** np.arange(info.strategy.horizon)).sum())
    with LocalEvaluator(module, makers, range(len(makers)), len(makers), settings.num_threads) as evaluator:
        objective = StateObjective(
            evaluator,
            width=math.sqrt(beta) * states.width,
            divergence_weight=settings.states.divergence_weight,
            # Changed everywhere by as much as one spread, actions would bring this much more return.
            unit=max(states.spread, _SMALLEST_SPREAD) * discounts,
        )
        metrics, sums = climb(module, objective, start, settings.search, last_kl=last_kl)
    # The geometric mean of d₂ over states.
    renyi2 = math.exp(min(sums.penalty.item(), LARGEST_EXPONENT))
    return StateImprovement(metrics | {"is_bound": False, "renyi2": renyi2}, states)


def part_makers(
    forward: Forward,
    distribution: ActionDistribution,
    batches: Sequence[RecentBatch],
    states: WeighedStates,
    settings: ImprovementSettings,
) -> list[Callable[[nn.Module], StatePart]]:
    """What makes the parts: the rows of all batches, the oldest first, in pieces of equally many.

    Every row has a weight of its own, so they may be cut anywhere.
    """
    spec = StateSpec(forward, distribution, settings)
    columns: tuple[Tensor, ...] = (
        torch.cat([batch.rows.obs for batch in batches]),
        torch.cat([batch.rows.action for batch in batches]),
        torch.from_numpy(np.concatenate(states.weights)),
        torch.from_numpy(np.concatenate(states.advantages)),
        torch.cat([each.log_share for each in states.likelihoods]),
    )
    newest, number = batches[-1], number_of_parts(len(columns[0]))
    pieces = list(zip(*(column.tensor_split(number) for column in columns), strict=True))

    def maker(index: int) -> Callable[[nn.Module], StatePart]:
        # How far a step goes is judged where the policy of now went.
        fisher = FisherRows(newest.rows, newest.strategy, distribution, settings) if index == 0 else None
        obs, action, weights, advantages, log_shares = (piece.clone() for piece in pieces[index])
        return lambda module: StatePart(spec, module, obs, action, weights, advantages, log_shares, fisher)

    return [maker(index) for index in range(number)]
