"""Policy evaluation: the squared error of Ĵ against the budget, truncated and adaptive against uniform.

On the Evaluation domain J is known in closed form, so every batch has an exact squared error. Data are
always collected by the uniform policy; the off-policy figure estimates, from the same batches, the policy
that takes the second action a little more often. The adaptive strategy is ours, not the paper's: it spends
the budget in two rounds, wherever that is enough for two, and is the truncated one elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from paper import markdown
from paper.trials import Row, Trial
from ttray.data.ragged import RaggedBatch
from ttray.envs.evaluation import expected_return
from ttray.estimators.intervals import mean_interval
from ttray.estimators.surrogate import Surrogate
from ttray.estimators.two_stage import Round, collect_in_rounds
from ttray.plans.dcs import DataCollectionStrategy
from ttray.policies.distributions import Categorical
from ttray.rollout.environment import EnvironmentMaker
from ttray.runs.drawing import PALETTE, STYLES, save, subplots
from ttray.service.service import RolloutService

HORIZONS = (100, 1000, 2000)
GAMMAS = (0.95, 0.995, 0.999)
STRATEGIES = ("truncated", "uniform", "adaptive")
TRAJECTORIES = (2, 5, 10, 20, 50)  # budgets in full-length trajectories: Λ = this × T
NUM_RUNS = 100
TARGET = (0.49, 0.51)  # the policy of the off-policy figure
_BEHAVIOUR = (0.5, 0.5)
_RUNS_PER_TRIAL = 25
_SLOTS = 512


@dataclass(frozen=True)
class Fixed:
    """A policy that looks at nothing.

    Attributes:
        probabilities: Of the actions.
    """

    probabilities: tuple[float, ...]

    def __call__(self, obs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the same logits for every row."""
        return np.tile(np.log(self.probabilities).astype(np.float32), (len(obs), 1))


def evaluation_trials(
    horizons: Sequence[int] = HORIZONS,
    gammas: Sequence[float] = GAMMAS,
    trajectories: Sequence[int] = TRAJECTORIES,
    num_runs: int = NUM_RUNS,
) -> tuple[Trial, ...]:
    """The trials of both evaluation figures, each with a share of the runs.

    Args:
        horizons: T.
        gammas: Discounts.
        trajectories: Budgets in multiples of T.
        num_runs: Batches per point.
    """
    return tuple(
        Trial(
            f"evaluation/{horizon}-{gamma}-{strategy}-{first}-{min(first + _RUNS_PER_TRIAL, num_runs)}",
            partial(
                _evaluate,
                horizon=horizon,
                gamma=gamma,
                strategy=strategy,
                budgets=[number * horizon for number in trajectories],
                seeds=range(first, min(first + _RUNS_PER_TRIAL, num_runs)),
            ),
        )
        for horizon in sorted(horizons, reverse=True)  # the longest first: the end is not one long trial
        for gamma in gammas
        for strategy in STRATEGIES
        for first in range(0, num_runs, _RUNS_PER_TRIAL)
    )


def _evaluate(
    _: Path, *, horizon: int, gamma: float, strategy: str, budgets: Sequence[int], seeds: Sequence[int]
) -> list[Row]:
    maker = EnvironmentMaker.of("ttray/Evaluation-v0", {"horizon": horizon})
    service = RolloutService(maker, num_slots=_SLOTS)
    exact = {
        "on-policy": expected_return(_BEHAVIOUR, horizon, gamma),
        "off-policy": expected_return(TARGET, horizon, gamma),
    }
    rows: list[Row] = []
    for number, budget in enumerate(budgets):

        def collect(plan: DataCollectionStrategy, number_of_round: int, number: int = number) -> RaggedBatch:
            # Other streams for every budget, and for every round.
            iteration = number + number_of_round * len(budgets)
            handle = service.collect(plan, Fixed(_BEHAVIOUR), iteration=iteration, gamma=gamma)
            return handle.batch().tensors

        for seed in seeds:
            service.seed = seed
            rounds = collect_in_rounds(collect, strategy, horizon=horizon, budget=budget, gamma=gamma)
            of_rounds = [_estimates(each, gamma) for each in rounds]
            estimates = {kind: sum(each[kind] for each in of_rounds) for kind in exact}
            rows += [
                {
                    "kind": kind,
                    "horizon": horizon,
                    "gamma": gamma,
                    "strategy": strategy,
                    "budget": budget,
                    "seed": seed,
                    "estimate": estimate,
                    "exact": exact[kind],
                    "squared_error": (estimate - exact[kind]) ** 2,
                }
                for kind, estimate in estimates.items()
            ]
    return rows


def _estimates(each: Round, gamma: float) -> dict[str, float]:
    """What one round adds to the estimate of each figure; a step's rewards count for its share of rounds."""
    batch, shares = each.batch, torch.from_numpy(each.weights)
    weighted = replace(batch, reward=batch.reward * shares[batch.t.long()])
    surrogate = Surrogate(weighted, each.strategy, gamma=gamma)
    behaviour, target = (
        torch.tensor([policy], dtype=torch.float64).log().expand(len(batch.t), -1)
        for policy in (_BEHAVIOUR, TARGET)
    )
    comparison = Categorical(2).comparison(behaviour, batch.action)(target)
    return {
        "on-policy": surrogate.on_policy().item(),
        "off-policy": surrogate.sums(comparison).estimate.item(),
    }


def draw_evaluation(kind: str, rows: Sequence[dict[str, Any]], path: Path) -> None:
    """A row of panels per horizon, a column per discount; mean squared error with its 95 % interval.

    Args:
        kind: "on-policy" or "off-policy".
        rows: Of the trials of both.
        path: File to write.
    """
    chosen = [row for row in rows if row["kind"] == kind]
    horizons, gammas = (sorted({row[key] for row in chosen}) for key in ("horizon", "gamma"))
    figure, axes = subplots(
        len(horizons),
        len(gammas),
        figsize=(3.6 * len(gammas), 2.8 * len(horizons)),
        squeeze=False,
    )
    for line, horizon in zip(axes, horizons, strict=True):
        for axis, gamma in zip(line, gammas, strict=True):
            here = [row for row in chosen if row["horizon"] == horizon and row["gamma"] == gamma]
            budgets = sorted({row["budget"] for row in here})
            for strategy, colour, style in zip(STRATEGIES, PALETTE, STYLES, strict=False):
                errors = [
                    [r["squared_error"] for r in here if r["strategy"] == strategy and r["budget"] == budget]
                    for budget in budgets
                ]
                mean, half = mean_interval(np.transpose(errors))
                axis.errorbar(
                    np.array(budgets) / 1000.0,
                    mean,
                    # A mean square is positive; on a logarithmic axis its interval ends there.
                    yerr=[np.minimum(half, 0.99 * mean), half],
                    color=colour,
                    linestyle=style,
                    marker="o",
                    markersize=3,
                    capsize=2,
                    label=strategy,
                )
            axis.set_xscale("log")
            axis.set_yscale("log")
            ticks = [budget / 1000.0 for budget in budgets]
            axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axis.set_xticks([], minor=True)
            axis.set_title(f"T = {horizon:,}, γ = {gamma}", fontsize="medium")
            axis.grid(alpha=0.3)
        line[0].set_ylabel("mean squared error")
    for axis in axes[-1]:
        axis.set_xlabel("budget Λ (thousands of steps)")
    axes[0][0].legend(frameon=False)
    figure.suptitle(f"{kind} evaluation, {len({row['seed'] for row in chosen})} runs", fontsize="medium")
    save(figure, path)


def summarise_evaluation(kind: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    """The ratios of mean squared errors to that of the uniform strategy; below 1 is better.

    Args:
        kind: "on-policy" or "off-policy".
        rows: Of the trials of both.
    """
    errors: dict[tuple[int, float, int, str], list[float]] = {}
    for row in rows:
        if row["kind"] == kind:
            key = (row["horizon"], row["gamma"], row["budget"] // row["horizon"], row["strategy"])
            errors.setdefault(key, []).append(row["squared_error"])
    budgets = sorted({number for _, _, number, _ in errors})
    lines = []
    for horizon, gamma in sorted({(horizon, gamma) for horizon, gamma, _, _ in errors}):
        for strategy in ("truncated", "adaptive"):
            ratios = [
                np.mean(errors[horizon, gamma, number, strategy])
                / np.mean(errors[horizon, gamma, number, "uniform"])
                for number in budgets
            ]
            lines.append([f"{horizon:,}", str(gamma), strategy, *(f"{ratio:.2f}" for ratio in ratios)])
    return markdown.table(["T", "γ", "strategy", *(f"Λ = {number} T" for number in budgets)], lines)
