"""Planners: from a budget, and from what was observed so far, to a data collection strategy.

An open registry: whoever has a better idea registers it under a name. The paper plans for the worst case,
rewards of all steps perfectly correlated. Really Var[Ĵ] = Σ_t f_t/n_t with
f_t = γ^2t Var(r_t) + 2 Σ_{t'>t} γ^(t+t') Cov(r_t, r_t'), which any batch estimates without bias. "adaptive"
plans a batch from those before it: the estimate of the return then is unbiased given its plan. The best plan
under n_t ≥ n_{t+1} ≥ 1 pools f to non-increasing blocks and takes n_t ∝ √(block mean).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ttray.core import dcs
from ttray.core.checks import check_gamma, check_one_of, check_positive, check_real, check_text, shown
from ttray.core.dcs import DataCollectionStrategy

__all__ = ["Observed", "Planner", "adaptive", "names", "plan", "register", "required_budget"]

if TYPE_CHECKING:  # planning itself needs no torch, whose import takes seconds
    from ttray.core.ragged import RaggedBatch

# Chosen by simulation with the rewards of seven environments, one to four batches before, and in rounds.
_PRIOR_SAMPLES = 6.0  # what an expectation counts for beside the samples of a step
_EXPONENTS = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the worst case; the expectation is one of these
_LATE_SHARE = 0.02  # of it, for rewards that vary more and more
_LEAST_SHARE = 0.2  # of it, which every step keeps


@dataclass(frozen=True, eq=False)
class Observed:
    """What the batches so far tell of f_t; a value that `updated` replaces.

    Attributes:
        gamma: The discount that is part of f_t.
        weighted_sums: `[horizon]`, the estimates of f_t times their weights, summed over batches.
        weights: `[horizon]`, the sums of their weights n_t − 1; 0 where nothing is known of a step.
    """

    gamma: float
    weighted_sums: NDArray[np.float64]
    weights: NDArray[np.float64]

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", check_gamma(self.gamma))
        for name in ("weighted_sums", "weights"):
            values = np.array(getattr(self, name), dtype=np.float64)
            values.flags.writeable = False
            object.__setattr__(self, name, values)
        shapes = self.weighted_sums.shape, self.weights.shape
        sound = np.isfinite(self.weighted_sums).all() and np.isfinite(self.weights).all()
        if shapes[0] != shapes[1] or len(shapes[0]) != 1 or not sound or (self.weights < 0).any():
            raise ValueError(
                "observations have one finite sum and one weight of at least 0 for each step, found shapes "
                f"{shapes[0]} and {shapes[1]}; pass what `to_arrays` returned"
            )

    @classmethod
    def empty(cls, horizon: int, gamma: float) -> Observed:
        """Before the first batch."""
        zeros = np.zeros(dcs.check_horizon(horizon))
        return cls(gamma, zeros, zeros)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, ArrayLike]) -> Observed:
        """Restores what `to_arrays` returned, bit by bit."""
        sums, weights = np.asarray(arrays["weighted_sums"]), np.asarray(arrays["weights"])
        return cls(float(np.asarray(arrays["gamma"])), sums, weights)

    def to_arrays(self) -> dict[str, NDArray[np.float64]]:
        """Everything that was observed, for a checkpoint."""
        return {
            "gamma": np.array(self.gamma),
            "weighted_sums": self.weighted_sums.copy(),
            "weights": self.weights.copy(),
        }

    @property
    def horizon(self) -> int:
        """T, the number of steps."""
        return len(self.weights)

    def variances(self) -> NDArray[np.float64]:
        """The mean estimate of f_t, `[horizon]`; NaN where no batch had two samples of a step."""
        known = self.weights > 0.0
        return np.where(known, self.weighted_sums / np.where(known, self.weights, 1.0), np.nan)

    def updated(
        self, batch: RaggedBatch, strategy: DataCollectionStrategy, *, decay: float = 1.0
    ) -> Observed:
        """What is known after one more batch.

        Args:
            batch: The whole batch.
            strategy: Its plan.
            decay: What earlier batches count for beside this one, in [0, 1]: 1 for the same policy, less for
                one that changes.
        """
        if strategy.horizon != self.horizon:
            raise ValueError(
                f"the observations have {self.horizon} steps, the batch was planned for {strategy.horizon}; "
                "start with Observed.empty of the same horizon"
            )
        return self.updated_by(step_variances(batch, strategy, self.gamma), strategy, decay=decay)

    def updated_by(
        self, variances: NDArray[np.float64], strategy: DataCollectionStrategy, *, decay: float = 1.0
    ) -> Observed:
        """The same, from the estimates of f_t in the batch, `[horizon]`."""
        decay = check_real("decay", decay, lambda x: 0 <= x <= 1, "a number in [0, 1]")
        weights = strategy.samples_per_step - 1.0
        return Observed(
            self.gamma, decay * self.weighted_sums + weights * variances, decay * self.weights + weights
        )


def step_variances(
    batch: RaggedBatch,
    strategy: DataCollectionStrategy,
    gamma: float,
    weights: NDArray[np.float64] | float = 1.0,
) -> NDArray[np.float64]:
    """Estimates f_t from a batch, `[horizon]`, in O(rows): Var[Ĵ] of any plan is Σ_t f_t/n_t.

    Cov(r_t, r_t') is that of the n_t' trajectories planned to reach the later step, ended ones with reward 0,
    so f_t is unbiased where all later steps have two samples; what one sample cannot tell is left out.

    Args:
        batch: The whole batch.
        strategy: Its plan.
        gamma: The discount.
        weights: `[horizon]`, what the rewards of each step count for in Ĵ.
    """
    means = np.bincount(batch.t.numpy(), batch.reward.numpy(), strategy.horizon) / strategy.samples_per_step
    return centred_products(batch, strategy, gamma, means, weights)


def centred_products(
    batch: RaggedBatch,
    strategy: DataCollectionStrategy,
    gamma: float,
    means: NDArray[np.float64],
    step_weights: NDArray[np.float64] | float = 1.0,
) -> NDArray[np.float64]:
    """What trajectories bring to f_t, `[horizon]`; those of a whole batch add up to `step_variances`.

    Args:
        batch: Some trajectories of a batch.
        strategy: The plan of the whole.
        gamma: The discount.
        means: Of the rewards of each step in the whole batch, `[horizon]`.
        step_weights: As for `step_variances`.
    """
    samples, horizon = strategy.samples_per_step, strategy.horizon
    t, reward = batch.t.numpy(), batch.reward.numpy()
    offsets, length = batch.offsets.numpy(), batch.length.numpy()
    rows = np.diff(offsets)
    discounts = check_gamma(gamma) ** np.arange(horizon) * step_weights
    # With w_t = γ^t/(n_t − 1) and r̃ = r − its mean, f_t = γ^t Σ_τ r_t (w_t r̃_t + 2 Σ_{t'>t} w_t' r̃_t').
    weights = np.where(samples > 1, discounts / np.maximum(samples - 1, 1), 0.0)
    centred = weights[t] * (reward - means[t])
    running = np.concatenate(([0.0], np.cumsum(centred)))
    means_up_to = np.concatenate(([0.0], np.cumsum(weights * means)))
    # From an episode's end to its planned length, r̃ is minus the mean.
    after_end = means_up_to[rows] - means_up_to[length]
    later = np.repeat(running[offsets[1:]] + after_end, rows) - running[1:]
    sums = np.bincount(t, reward * (centred + 2.0 * later), horizon)
    return np.asarray(discounts * sums, dtype=np.float64)


Planner = Callable[[int, int, float, Observed | None], DataCollectionStrategy]
"""From horizon, budget, discount and what was observed (None: nothing yet) to a strategy."""


def _truncated(horizon: int, budget: int, gamma: float, _: Observed | None) -> DataCollectionStrategy:
    return dcs.truncated(horizon, budget, gamma)


def _uniform(horizon: int, budget: int, _: float, __: Observed | None) -> DataCollectionStrategy:
    return dcs.uniform(horizon, budget)


def _exact(horizon: int, budget: int, gamma: float, _: Observed | None) -> DataCollectionStrategy:
    return dcs.exact(horizon, budget, gamma)


def between(horizon: int, budget: int, gamma: float, exponent: float) -> DataCollectionStrategy:
    """The best plan for f_t ∝ c_t^exponent: from uniform, 0, to the paper's worst case, 1.

    Args:
        horizon: T, the longest trajectory.
        budget: Λ, all of which is spent; at least `horizon`.
        gamma: The discount, in (0, 1].
        exponent: Of the paper's step costs c_t.
    """
    horizon, budget, gamma = dcs.check_plan(horizon, budget, gamma)
    return for_variances(dcs.step_costs(horizon, gamma) ** exponent, budget, gamma)


def adaptive(
    horizon: int, budget: int, gamma: float, observed: Observed | None = None
) -> DataCollectionStrategy:
    """Plans for the variances that were observed; before that, as the paper does.

    Estimates from few samples are noisy, even negative. So they are shrunk towards an expectation: of the
    powers c_t^0 (uniform) to c_t^1 (the worst case) the one whose plan has the smallest variance by the
    estimates, which is told well because it is a sum over all steps. A small part of it is f_t ∝ γ^t, rewards
    that vary more the later they come, without which steps that it thinks little of would never be looked at.
    Steps that were never seen twice are planned by that expectation alone, and no step for less than a share
    of it.

    Args:
        horizon: T, the longest trajectory.
        budget: Λ, all of which is spent; at least `horizon`.
        gamma: The discount, in (0, 1].
        observed: Of batches of the same horizon and discount.
    """
    horizon, budget, gamma = dcs.check_plan(horizon, budget, gamma)
    if observed is None:
        return dcs.truncated(horizon, budget, gamma)
    if (observed.horizon, observed.gamma) != (horizon, gamma):
        raise ValueError(
            f"the observations are of horizon {observed.horizon} and discount {observed.gamma}, the plan of "
            f"{horizon} and {gamma}; start again with Observed.empty"
        )
    variances = observed.variances()
    known = ~np.isnan(variances)
    if not known.any():
        return dcs.truncated(horizon, budget, gamma)
    total = float(variances[known].sum())
    if not total > 0.0:  # nothing was seen to vary, as where rewards are rare: no reason for either extreme
        return between(horizon, budget, gamma, 0.5)
    # Relative to the total, the variance of a full-length return: rewards of any size give the same plan.
    found = np.where(known, variances, 0.0) / total
    expected = _expected(found, known, budget, gamma)
    trust = observed.weights / (observed.weights + _PRIOR_SAMPLES)
    shrunk = trust * found + (1.0 - trust) * expected
    return for_variances(np.maximum(_pooled(shrunk), _LEAST_SHARE * expected), budget, gamma)


def _expected(
    found: NDArray[np.float64], known: NDArray[np.bool_], budget: int, gamma: float
) -> NDArray[np.float64]:
    """What f_t is expected to be, `[horizon]`, of a total of 1 over the known steps like what was found."""
    costs = dcs.step_costs(len(found), gamma)
    powers = [costs**exponent for exponent in _EXPONENTS]
    variances = []
    for power in powers:
        samples = np.maximum(np.sqrt(power) * (budget / np.sqrt(power).sum()), 1.0)
        variances.append(float((found / samples).sum()))
    best = powers[int(np.argmin(variances))]
    late = gamma ** np.arange(len(found))
    return (1.0 - _LATE_SHARE) * best / best[known].sum() + _LATE_SHARE * late / late[known].sum()


def for_variances(variances: ArrayLike, budget: int, gamma: float) -> DataCollectionStrategy:
    """The plan with the smallest Σ_t f_t/n_t, but for rounding to whole samples.

    Args:
        variances: f_t, `[horizon]`, of which the sums of neighbours that rise are above 0.
        budget: Λ, all of which is spent; at least the horizon.
        gamma: The discount that is part of them.
    """
    pooled = _pooled(np.asarray(variances, dtype=np.float64))
    return DataCollectionStrategy(dcs.allocate(pooled, budget), kind="adaptive", gamma=gamma)


def _pooled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """`[horizon]`, non-increasing: neighbours that rise share their mean (adjacent violators are pooled)."""
    totals: list[float] = []
    sizes: list[int] = []
    for value in values.tolist():
        total, size = value, 1
        while totals and totals[-1] * size <= total * sizes[-1]:
            total, size = total + totals.pop(), size + sizes.pop()
        totals.append(total)
        sizes.append(size)
    return np.repeat(np.array(totals) / np.array(sizes), sizes)


_PLANNERS: dict[str, Planner] = {
    "truncated": _truncated,
    "uniform": _uniform,
    "exact": _exact,
    "adaptive": adaptive,
}
_FROM_DATA = {"adaptive"}


def register(name: str, planner: Planner, *, from_data: bool = False) -> None:
    """Makes a planner known by a name, for settings.

    Args:
        name: One that is not taken.
        planner: Must depend on its arguments only, so that a resumed run plans the same.
        from_data: Whether it uses what was observed. An evaluation with it is made in rounds.
    """
    if check_text("name", name) in _PLANNERS:
        raise ValueError(f"there already is a planner {name!r}; choose another name")
    _PLANNERS[name] = planner
    if from_data:
        _FROM_DATA.add(name)


def is_from_data(strategy: str) -> bool:
    """Whether the planner of that name uses what was observed."""
    return strategy in _FROM_DATA


def names() -> tuple[str, ...]:
    """The planners that there are."""
    return tuple(_PLANNERS)


def check_strategy(name: str) -> str:
    """Returns the name of a planner that there is."""
    return check_one_of("strategy", name, _PLANNERS)


def plan(
    strategy: str, *, horizon: int, budget: int, gamma: float, observed: Observed | None = None
) -> DataCollectionStrategy:
    """Plans the strategy of that name, which may not exceed the budget.

    Args:
        strategy: A registered name.
        horizon: T, the longest trajectory.
        budget: Λ, the number of samples to spend.
        gamma: The discount, in (0, 1]; "uniform" ignores it.
        observed: What the batches so far told, which all but "adaptive" ignore.
    """
    strategy = check_strategy(strategy)
    horizon, budget, gamma = dcs.check_plan(horizon, budget, gamma)
    planned = _PLANNERS[strategy](horizon, budget, gamma, observed)
    if planned.horizon != horizon or planned.budget > budget:
        raise ValueError(
            f"the planner {strategy!r} returned a plan of horizon {planned.horizon} and budget "
            f"{planned.budget} for horizon {horizon} and budget {budget}; it must keep to both"
        )
    return planned


# How many budgets to check below the bisected one, because the width of a truncated strategy can
# rise. In 20,000 random cases of T ≤ 400, no budget did worse than one more than 2 samples smaller.
_LOOK_BACK = 8


def required_budget(
    epsilon: float,
    *,
    delta: float,
    horizon: int,
    gamma: float,
    strategy: str = "truncated",
    reward_range: float = 1.0,
) -> int:
    """Returns the smallest budget whose Hoeffding width is at most epsilon: the PAC question.

    For "uniform" it is the smallest multiple of the horizon. The widths of "uniform" and "exact"
    fall with every sample. That of "truncated" does not quite: where steps have few samples, its
    rounding can make one more sample hurt, which in all cases measured the next two made up for.
    The answer always meets epsilon; for "truncated", that no smaller budget does is certain for the
    eight budgets below it and an observation for the rest.

    Args:
        epsilon: The half-width to reach.
        delta: The probability of missing, in (0, 1).
        horizon: T, the longest trajectory.
        gamma: The discount of the return, in (0, 1].
        strategy: How the budget is spent, see `plan`.
        reward_range: Largest minus smallest possible reward.
    """
    epsilon = check_positive("epsilon", epsilon)
    horizon, strategy = dcs.check_horizon(horizon), check_strategy(strategy)
    unit = horizon if strategy == "uniform" else 1

    def suffices(units: int) -> bool:
        planned = plan(strategy, horizon=horizon, budget=units * unit, gamma=gamma)
        width = dcs.hoeffding_width(planned, gamma=gamma, delta=delta, reward_range=reward_range)
        return width <= epsilon

    low = high = horizon // unit
    while not suffices(high):
        if high == dcs.MAX_BUDGET // unit:
            raise ValueError(
                f"epsilon={epsilon} with delta={shown(delta)}, horizon={horizon}, gamma={shown(gamma)} and "
                f"reward_range={shown(reward_range)} takes a budget above {dcs.MAX_BUDGET} samples; ask for "
                "a larger epsilon or delta, or a shorter horizon"
            )
        low, high = high, min(2 * high, dcs.MAX_BUDGET // unit)
    answer = low + bisect_left(range(low, high), True, key=suffices)
    below = range(max(horizon, answer - _LOOK_BACK), answer) if strategy == "truncated" else ()
    return unit * next(filter(suffices, below), answer)
