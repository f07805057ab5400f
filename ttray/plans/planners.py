"""Planners: from a budget, and from what was observed so far, to a data collection strategy.

An open registry: whoever has a better idea registers it under a name. The paper plans for the worst case,
rewards of all steps perfectly correlated. Really Var[Ĵ] = Σ_t f_t/n_t with
f_t = γ^2t Var(r_t) + 2 Σ_{t'>t} γ^(t+t') Cov(r_t, r_t'), which any batch estimates without bias. "adaptive"
plans a batch from those before it: the estimate of the return then is unbiased given its plan. The best plan
under n_t ≥ n_{t+1} ≥ 1 pools f to non-increasing blocks and takes n_t ∝ √(block mean).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ttray.boundary.fields import brief, check_one_of, check_positive, check_text
from ttray.plans import dcs
from ttray.plans.reward_variances import Observed
from ttray.plans.strategy import DataCollectionStrategy

__all__ = ["Observed", "Planner", "adaptive", "names", "plan", "register", "required_budget"]

# Chosen by simulation with the rewards of seven environments, one to four batches before, and in rounds.
_PRIOR_SAMPLES = 6.0  # what an expectation counts for beside the samples of a step
_EXPONENTS = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the worst case; the expectation is one of these
_LATE_SHARE = 0.02  # of it, for rewards that vary more and more
_LEAST_SHARE = 0.2  # of it, which every step keeps


Planner = Callable[[int, int, float, Observed | None], DataCollectionStrategy]
"""From horizon, budget, discount and what was observed (None: nothing yet) to a strategy."""


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
    return for_variances(np.maximum(pooled(shrunk), _LEAST_SHARE * expected), budget, gamma)


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
    costs = pooled(np.asarray(variances, dtype=np.float64))
    return DataCollectionStrategy(dcs.allocate(costs, budget), kind="adaptive", gamma=gamma)


def pooled(values: NDArray[np.float64], sizes: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """`[horizon]`, non-increasing: neighbours that rise share their mean (adjacent violators are pooled).

    Args:
        values: One for each entry; their sum over an entry, where sizes are given.
        sizes: What each counts for in a mean, above 0; 1 unless given.
    """
    totals: list[float] = []
    pool_sizes: list[float] = []
    lengths: list[int] = []
    for value, own_size in zip(values.tolist(), [1] * len(values) if sizes is None else sizes, strict=True):
        total, size, length = value, own_size, 1
        while totals and totals[-1] * size <= total * pool_sizes[-1]:
            total, size, length = total + totals.pop(), size + pool_sizes.pop(), length + lengths.pop()
        totals.append(total)
        pool_sizes.append(size)
        lengths.append(length)
    return np.repeat(np.array(totals) / np.array(pool_sizes), lengths)


_PLANNERS: dict[str, Planner] = {
    "truncated": lambda horizon, budget, gamma, _: dcs.truncated(horizon, budget, gamma),
    "uniform": lambda horizon, budget, _, __: dcs.uniform(horizon, budget),
    "exact": lambda horizon, budget, gamma, _: dcs.exact(horizon, budget, gamma),
    "adaptive": adaptive,
}
_FROM_DATA = {"adaptive"}

STRATEGIES = tuple(_PLANNERS)
"""Planners that ttray brings."""

BATCH_STRATEGIES = tuple(name for name in STRATEGIES if name not in _FROM_DATA)
"""Those of them that need no batch before."""


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
    return _planned(check_strategy(strategy), *dcs.check_plan(horizon, budget, gamma), observed)


def plan_of_run(
    strategy: str, *, horizon: int, budget: int, gamma: float, observed: Observed | None = None
) -> DataCollectionStrategy:
    """The same, remembered until a run asks for another: once per run where no data are used.

    A planner of one's own may use them, however it was registered: it is asked once per batch.

    Args:
        strategy: See `plan`.
        horizon: See `plan`.
        budget: See `plan`.
        gamma: See `plan`.
        observed: See `plan`.
    """
    seen = None if strategy in BATCH_STRATEGIES else observed
    return _remembered(check_strategy(strategy), *dcs.check_plan(horizon, budget, gamma), seen)


def _planned(
    strategy: str, horizon: int, budget: int, gamma: float, observed: Observed | None
) -> DataCollectionStrategy:
    planned = _PLANNERS[strategy](horizon, budget, gamma, observed)
    if planned.horizon != horizon or planned.budget > budget:
        raise ValueError(
            f"the planner {strategy!r} returned a plan of horizon {planned.horizon} and budget "
            f"{planned.budget} for horizon {horizon} and budget {budget}; it must keep to both"
        )
    return planned


_remembered = lru_cache(maxsize=1)(_planned)  # one: the plan of a long horizon is large


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
        delta: Probability that the interval fails, in (0, 1).
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
                f"epsilon={epsilon} with delta={brief(delta)}, horizon={horizon}, gamma={brief(gamma)} and "
                f"reward_range={brief(reward_range)} takes a budget above {dcs.MAX_BUDGET} samples; ask for "
                "a larger epsilon or delta, or a shorter horizon"
            )
        low, high = high, min(2 * high, dcs.MAX_BUDGET // unit)
    answer = low + bisect_left(range(low, high), True, key=suffices)
    below = range(max(horizon, answer - _LOOK_BACK), answer) if strategy == "truncated" else ()
    return unit * next(filter(suffices, below), answer)
