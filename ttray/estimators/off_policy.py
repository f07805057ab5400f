"""Four off-policy estimates of a return, side by side, with the bounds that hold for each.

Beyond the paper's one weight for each trajectory: a weight for each decision, and both divided by their own
sums per step ("self-normalised"; of decisions, the consistent weighted per-decision estimator). With weights
ω, Ĵ = Σ_t γ^t μ̂_t and μ̂_t = Σ v ω r / D_t over the trajectories that plan step t, where v shares a step out
among recordings and their samples, and D_t is 1, or Σ v ω where self-normalised. Ended episodes keep
their last weight and earn 0 up to their planned lengths.

Cantelli's bound (with empirical divergences, as the paper's) is known for the two that are unbiased. All four
have a standard error, Student's bound and a bootstrap's, which hold for many trajectories only.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from ttray.boundary.fields import check_count, check_delta, check_gamma, check_positive
from ttray.data.ragged import RaggedBatch
from ttray.estimators.surrogate import Surrogate
from ttray.estimators.weighted_estimators import LARGEST_LOG_WEIGHT, Recording, WeightedMeans, WeightedSteps
from ttray.plans import dcs

_FEW = 10.0  # trajectories' worth of weight that an estimate must rest on, at the very least
_SMALL_SHARE = 0.05  # and the share of all trajectories

_ALL_ZERO = (
    "every recorded reward is 0, which says nothing of how large a reward can be: for bounds, give the "
    "largest (max_reward)"
)


@dataclass(frozen=True)
class EstimatorRow:
    """One estimator's answer. Lower bounds are one-sided, for probability 1 − δ.

    Attributes:
        name: "trajectory" or "per_decision", with "self_normalised_" before it where it is.
        estimate: Ĵ.
        standard_error: By the deviations from the mean of each step; asymptotic, and without the steps that
            have a single sample, which tell nothing of their variance.
        cantelli: A lower bound for any number of trajectories, were the divergences known (they are
            estimated, as in the paper); None for self-normalised weights, of which no such bound is known.
        students: A lower bound for many trajectories; a step with a single sample is allowed every reward.
        bootstrap: The same from resampling.
        effective_sample_size: Number of trajectories times the loss of precision to unequal weights.
        max_weight: The largest weight.
        dominant: Index of the recording with most of the squared weights.
        dominant_share: That share, in [0, 1].
    """

    name: str
    estimate: float
    standard_error: float
    cantelli: float | None
    students: float
    bootstrap: float
    effective_sample_size: float
    max_weight: float
    dominant: int
    dominant_share: float


@dataclass(frozen=True)
class OffPolicyTable:
    """All estimators on the same recordings.

    Attributes:
        estimators: One row for each.
        num_trajectories: Recorded.
        problems: Why answers are worthless, naming the estimator and the recording; empty if none is.
        is_worthless: Whether that is so of both unbiased estimators. The self-normalised ones alone are no
            answer: they look sound also where nothing is known.
    """

    estimators: tuple[EstimatorRow, ...]
    num_trajectories: int
    problems: tuple[str, ...]
    is_worthless: bool

    def __getitem__(self, name: str) -> EstimatorRow:
        """The row of that name."""
        return next(row for row in self.estimators if row.name == name)


def compare_estimators(
    recordings: Sequence[Recording],
    *,
    gamma: float,
    delta: float,
    max_reward: float | None,
    importance_weight_clip: float | None = None,
    num_resamples: int = 1000,
    seed: int = 0,
) -> OffPolicyTable:
    """Estimates the return of a policy from recordings of others, in four ways.

    Recordings are independent and count alike.

    Args:
        recordings: At least one, none of them twice; plans and behaviour policies may differ.
        gamma: The discount, in (0, 1].
        delta: Probability that a bound fails, in (0, 1).
        max_reward: Largest possible absolute reward; None where nothing tells, because all recorded ones
            are 0: the bounds are −∞ then, and a problem says so.
        importance_weight_clip: Largest weight; biases the estimates.
        num_resamples: Of the bootstrap.
        seed: Of the bootstrap.
    """
    gamma, delta = check_gamma(gamma), check_delta(delta)
    is_bounded = max_reward is not None
    # Any number in place of none: its bounds are dropped.
    max_reward = 1.0 if max_reward is None else check_positive("max_reward", max_reward)
    clip = math.exp(LARGEST_LOG_WEIGHT)
    if importance_weight_clip is not None:
        clip = min(clip, check_positive("importance_weight_clip", importance_weight_clip))
    num_resamples = check_count("num_resamples", num_resamples, maximum=10**6)
    check_recordings(recordings)
    cantelli = _cantelli_widths(recordings, gamma=gamma, delta=delta, max_reward=max_reward)
    rows = []
    for weighting in ("trajectory", "per_decision"):
        steps = WeightedSteps.of(
            recordings, per_decision=weighting == "per_decision", log_clip=math.log(clip)
        )
        for self_normalised in (False, True):
            answer = WeightedMeans(steps, gamma, self_normalised)
            resampled = answer.bootstrap(delta, num_resamples, np.random.default_rng(seed))
            unknown = answer.unknown(max_reward)
            width = math.inf if self_normalised else cantelli[weighting]
            dominant, share = steps.dominant(len(recordings))
            rows.append(
                EstimatorRow(
                    name=f"self_normalised_{weighting}" if self_normalised else weighting,
                    estimate=answer.estimate,
                    standard_error=answer.standard_error,
                    cantelli=None if self_normalised else answer.estimate - width,
                    students=answer.estimate - answer.quantile(delta) * answer.standard_error - unknown,
                    bootstrap=resampled - unknown,
                    effective_sample_size=answer.effective_sample_size,
                    max_weight=float(steps.weight.max()),
                    dominant=dominant,
                    dominant_share=share,
                )
            )
    if not is_bounded:
        rows = [_unbounded(row) for row in rows]
    number = steps.num_trajectories
    smallest = (
        -math.inf
        if not is_bounded
        else -max_reward * float(np.sum(gamma ** np.arange(recordings[0].strategy.horizon)))
    )
    found = {row.name: _problems(row, recordings, number, smallest) for row in rows}
    return OffPolicyTable(
        estimators=tuple(rows),
        num_trajectories=number,
        problems=(
            *_infinite(recordings),
            *([] if is_bounded else [_ALL_ZERO]),
            *(each for problems in found.values() for each in problems),
        ),
        is_worthless=all(found[row.name] for row in rows if row.cantelli is not None),
    )


def fingerprint(batch: RaggedBatch) -> str:
    """Hex digest of what happened in a batch: equal for the same recording, wherever it was read from."""
    hasher = hashlib.sha256()
    for tensor in (batch.offsets, batch.length, batch.t, batch.obs, batch.action, batch.reward):
        array = np.ascontiguousarray(tensor.numpy())
        hasher.update(f"{array.dtype.str} {array.shape}".encode())
        hasher.update(array.tobytes())
    return hasher.hexdigest()


def duplicates(recordings: Sequence[Recording]) -> tuple[tuple[int, int], ...]:
    """Pairs of indices (first, again) of recordings that are the same data."""
    first: dict[str, int] = {}
    found = []
    for index, each in enumerate(recordings):
        earlier = first.setdefault(fingerprint(each.batch), index)
        if earlier != index:
            found.append((earlier, index))
    return tuple(found)


def check_recordings(recordings: Sequence[Recording]) -> None:
    """Raises ValueError unless there are some, of one horizon, none of them twice."""
    if not recordings:
        raise ValueError("found no batches; pass at least one")
    horizons = sorted({each.strategy.horizon for each in recordings})
    if len(horizons) > 1:
        raise ValueError(
            f"the batches have the horizons {horizons}, so different returns; pass one horizon's"
        )
    if again := duplicates(recordings):
        named = "; ".join(f"{_name(recordings, i)} and {_name(recordings, j)}" for i, j in again)
        raise ValueError(
            f"the same recording was given twice, which would count as new evidence: {named}; pass each once"
        )


def _name(recordings: Sequence[Recording], index: int) -> str:
    return recordings[index].name or f"recording {index}"


def _cantelli_widths(
    recordings: Sequence[Recording], *, gamma: float, delta: float, max_reward: float
) -> dict[str, float]:
    """Of the means over recordings, whose variances add."""
    settings = {"gamma": gamma, "delta": delta, "max_reward": max_reward}
    widths: dict[str, list[float]] = {"trajectory": [], "per_decision": []}
    for each in recordings:
        surrogate = Surrogate(each.batch, each.strategy, gamma=gamma)
        # Every single d₂ is at least 1; below it is rounding.
        renyi2 = surrogate.renyi2_per_length(each.comparison).clamp(min=1.0).numpy()
        whole = dcs.off_policy_width(each.strategy, renyi2_per_length=renyi2, **settings)
        decision = dcs.per_decision_width(each.strategy, renyi2_per_length=renyi2, **settings)
        widths["trajectory"].append(whole)
        widths["per_decision"].append(decision)
    return {name: math.hypot(*each) / len(recordings) for name, each in widths.items()}


def _unbounded(row: EstimatorRow) -> EstimatorRow:
    none = -math.inf
    return replace(row, cantelli=None if row.cantelli is None else none, students=none, bootstrap=none)


def _infinite(recordings: Sequence[Recording]) -> list[str]:
    return [
        f"{_name(recordings, index)} has an infinite divergence: it can bound nothing, leave it out"
        for index, each in enumerate(recordings)
        if not bool(torch.isfinite(each.comparison.log_renyi2).all())
    ]


def _problems(
    row: EstimatorRow, recordings: Sequence[Recording], num_trajectories: int, smallest: float
) -> list[str]:
    """Of one estimator; `smallest` is the least that any policy can earn, −∞ if nobody knows."""
    found = []
    few = max(min(_FEW, num_trajectories / 2), _SMALL_SHARE * num_trajectories)
    if num_trajectories > 1 and row.effective_sample_size < few:
        spoilt = ""
        if len(recordings) > 1 and row.dominant_share > 0.5:
            spoilt = f", most of it in {_name(recordings, row.dominant)}"
        found.append(
            f"{row.name}: the weights are those of {row.effective_sample_size:.1f} of {num_trajectories:,} "
            f"trajectories{spoilt}: the policies are too far apart"
        )
    if math.isfinite(smallest) and row.cantelli is not None and row.cantelli <= smallest:
        found.append(
            f"{row.name}: Cantelli's bound says nothing: no policy can earn less than {smallest:,.4g}"
        )
    return found
