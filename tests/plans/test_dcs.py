"""Data collection strategies: against brute force, the paper's figures and its theorems."""

import itertools
import math
import pickle
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ttray.plans import dcs, planners
from ttray.plans.dcs import DataCollectionStrategy

GAMMAS = (0.1, 0.3, 0.5, 0.9, 0.99, 1 - 1e-12, 1.0)
NEARLY_ONE = 1 - 1e-12

gammas = st.one_of(st.just(1.0), st.just(NEARLY_ONE), st.floats(1e-3, 1))
fixed_planners = st.sampled_from([dcs.truncated, dcs.exact])


@st.composite
def problems(draw: st.DrawFn, max_horizon: int = 80, max_spare: int = 10**6) -> tuple[int, int, float]:
    horizon = draw(st.integers(1, max_horizon))
    return horizon, horizon + draw(st.integers(0, max_spare)), draw(gammas)


def all_strategies(horizon: int, budget: int, most: int | None = None) -> Iterator[tuple[int, ...]]:
    """Every non-increasing sequence of `horizon` positive integers that adds up to `budget`."""
    most = budget if most is None else most
    if horizon == 1:
        if 1 <= budget <= most:
            yield (budget,)
        return
    for first in range(1, min(most, budget - horizon + 1) + 1):
        for rest in all_strategies(horizon - 1, budget - first, first):
            yield (first, *rest)


def naive_costs(horizon: int, gamma: float) -> list[Fraction]:
    """c_t as defined, in exact arithmetic."""
    powers = [Fraction(gamma) ** t for t in range(horizon)]
    return [powers[t] ** 2 + 2 * powers[t] * sum(powers[t + 1 :]) for t in range(horizon)]


def objective(samples: Any, horizon: int, gamma: float) -> float:
    costs = naive_costs(horizon, gamma)
    return math.sqrt(sum(c / int(n) for c, n in zip(costs, samples, strict=True)))


def truncated_by_the_book(horizon: int, budget: int, gamma: float) -> list[int] | None:
    """The paper's definition, step by step: find the only h*, floor, hand out what is left.

    None where a share is an integer up to rounding, so that its floor is anybody's guess.
    """
    if budget == horizon:
        return [1] * horizon
    roots = [math.sqrt(c) for c in naive_costs(horizon, gamma)]
    for head in range(1, horizon + 1):
        shares = [root / sum(roots[:head]) * (budget - horizon + head) for root in roots]
        if all(x > 1 for x in shares[:head]) and all(x <= 1 for x in shares[head:]):
            break
    if head > 1 and any(abs(x - round(x)) < 1e-9 for x in shares[:head]):
        return None
    samples = [math.floor(x) for x in shares[:head]] + [1] * (horizon - head)
    left_over = budget - sum(samples)
    return [n + (t < left_over) for t, n in enumerate(samples)]


# Optimality


@pytest.mark.parametrize("gamma", GAMMAS)
def test_exact_equals_brute_force_and_truncated_is_within_root_two(gamma: float) -> None:
    for horizon in range(1, 7):
        for budget in range(horizon, 15):
            best = min(objective(n, horizon, gamma) for n in all_strategies(horizon, budget))
            optimal = dcs.exact(horizon, budget, gamma).samples_per_step
            closed_form = dcs.truncated(horizon, budget, gamma).samples_per_step
            assert objective(optimal, horizon, gamma) == pytest.approx(best, rel=1e-12)
            assert objective(closed_form, horizon, gamma) <= math.sqrt(2) * best * (1 + 1e-12)


@given(problems())
def test_no_exchange_of_two_samples_improves_exact(problem: tuple[int, int, float]) -> None:
    horizon, _, gamma = problem
    samples = dcs.exact(*problem).samples_per_step.astype(float)
    costs = dcs.step_costs(horizon, gamma)
    best_gain = np.max(costs / (samples * (samples + 1)))
    several = samples > 1
    losses = costs[several] / (samples[several] * (samples[several] - 1))
    assert best_gain <= np.min(losses, initial=np.inf) * (1 + 1e-9)


@given(problems())
def test_truncated_is_no_better_than_exact_and_within_root_two(
    problem: tuple[int, int, float],
) -> None:
    gamma = problem[2]
    ratio = dcs.width_ratio(dcs.truncated(*problem), dcs.exact(*problem), gamma=gamma)
    assert 1 - 1e-12 <= ratio <= math.sqrt(2)


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("horizon", [1, 2, 7, 30])
def test_truncated_follows_the_paper_definition(horizon: int, gamma: float) -> None:
    budgets = [*range(horizon, 3 * horizon + 1), 10 * horizon + 3, 1000 * horizon + 7]
    expected = {budget: truncated_by_the_book(horizon, budget, gamma) for budget in budgets}
    decided = {budget: samples for budget, samples in expected.items() if samples is not None}
    assert len(decided) >= 0.9 * len(budgets)
    for budget, samples in decided.items():
        planned = dcs.truncated(horizon, budget, gamma).samples_per_step
        assert planned.tolist() == samples, budget


# What every plan promises


@given(fixed_planners, problems(max_spare=dcs.MAX_BUDGET - 80))
# Where float64 hands out one sample too many, two too few, or cannot bisect any further.
@example(dcs.truncated, (9, 8034364405779612, 0.005694163788844645))
@example(dcs.truncated, (20, 8123310968849231, 3.9756320699635484e-11))
@example(dcs.exact, (1, 6904143215680818, 1.0))
def test_plans_spend_the_budget_on_non_increasing_positive_counts(
    planner: Callable[..., DataCollectionStrategy], problem: tuple[int, int, float]
) -> None:
    horizon, budget, gamma = problem
    planned = planner(horizon=horizon, budget=budget, gamma=gamma)
    samples = planned.samples_per_step
    assert sum(samples.tolist()) == planned.budget == budget
    assert len(samples) == planned.horizon == horizon
    assert samples.dtype == np.int64
    assert samples.min() >= 1
    assert np.all(np.diff(samples) <= 0)


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(1, 50))
def test_trajectories_and_samples_determine_each_other(counts: list[int], last: int) -> None:
    counts = [*counts, last]
    strategy = DataCollectionStrategy.from_trajectories_per_length(counts)
    assert strategy.trajectories_per_length.tolist() == counts
    assert strategy.trajectories_per_length.dtype == np.int64
    assert strategy.num_trajectories == sum(counts)
    assert strategy.budget == sum(h * m for h, m in enumerate(counts, start=1))
    assert DataCollectionStrategy(strategy.samples_per_step) == strategy


@pytest.mark.parametrize("planner", [dcs.truncated, dcs.exact])
@pytest.mark.parametrize("gamma", GAMMAS)
def test_smallest_budget_is_one_full_trajectory(
    planner: Callable[..., DataCollectionStrategy], gamma: float
) -> None:
    for horizon in (1, 2, 10, 500):
        strategy = planner(horizon, horizon, gamma)
        assert strategy.samples_per_step.tolist() == [1] * horizon
        assert strategy.num_trajectories == 1


def test_horizon_one_spends_everything_on_the_only_step() -> None:
    for strategy in (dcs.truncated(1, 9, 0.5), dcs.exact(1, 9, 0.5), dcs.uniform(1, 9)):
        assert strategy.samples_per_step.tolist() == [9]
        assert strategy.trajectories_per_length.tolist() == [9]


@pytest.mark.parametrize("planner", [dcs.truncated, dcs.exact])
def test_strong_discount_over_a_long_horizon_underflows_harmlessly(
    planner: Callable[..., DataCollectionStrategy],
) -> None:
    assert dcs.step_costs(5000, 0.3)[-1] == 0
    long, short = planner(5000, 5000 + 10**6, 0.3), planner(100, 100 + 10**6, 0.3)
    assert long.samples_per_step[:100].tolist() == short.samples_per_step.tolist()
    assert np.all(long.samples_per_step[100:] == 1)


@pytest.mark.parametrize("planner", [dcs.truncated, dcs.exact])
def test_plans_are_continuous_at_gamma_one(
    planner: Callable[..., DataCollectionStrategy],
) -> None:
    almost, one = planner(1000, 123_456, NEARLY_ONE), planner(1000, 123_456, 1.0)
    assert almost == one
    assert one != dcs.uniform(1000, 123_000)
    ratio = dcs.width_ratio(planner(1000, 100_000, 1.0), dcs.uniform(1000, 100_000), gamma=1.0)
    assert ratio == pytest.approx(0.943, abs=1e-3)  # not uniform even without a discount


# Step costs


def test_step_costs_without_a_discount_are_odd_numbers() -> None:
    np.testing.assert_allclose(dcs.step_costs(6, 1.0), [11, 9, 7, 5, 3, 1], rtol=1e-15)


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("horizon", [1, 2, 60])
def test_step_costs_are_accurate_to_the_last_digits(horizon: int, gamma: float) -> None:
    expected = [float(c) for c in naive_costs(horizon, gamma)]
    np.testing.assert_allclose(dcs.step_costs(horizon, gamma), expected, rtol=1e-13)


# The paper's figures


@pytest.mark.parametrize(
    ("horizon", "budget", "gamma", "first", "last", "percent"),
    [
        (100, 5000, 0.95, 255, 1, 61.46),
        (100, 5000, 0.99, 100, 3, 88.55),
        (1000, 10000, 0.9, None, None, 14.47),
        (1000, 10000, 0.95, None, None, 20.66),
        (1000, 10000, 0.99, None, None, 45.60),
        (1000, 10000, 0.995, None, None, 62.52),
        (1000, 10000, 0.999, None, None, 88.83),
    ],
)
def test_truncated_reproduces_the_printed_figures(
    horizon: int, budget: int, gamma: float, first: int | None, last: int | None, percent: float
) -> None:
    strategy = dcs.truncated(horizon, budget, gamma)
    if first is not None:
        assert (strategy.samples_per_step[0], strategy.samples_per_step[-1]) == (first, last)
    ratio = dcs.width_ratio(strategy, dcs.uniform(horizon, budget), gamma=gamma)
    assert round(100 * ratio, 2) == percent


# Uniform


def test_uniform_collects_full_trajectories_only() -> None:
    strategy = dcs.uniform(horizon=4, budget=20)
    assert strategy.trajectories_per_length.tolist() == [0, 0, 0, 5]
    assert (strategy.kind, strategy.gamma) == ("uniform", None)


def test_uniform_names_both_numbers_the_nearest_budgets_and_the_flag() -> None:
    with pytest.raises(ValueError, match=r"budget=23 and horizon=4; use 20 or 24$"):
        dcs.uniform(4, 23)
    assert dcs.uniform(4, 23, drop_remainder=True) == dcs.uniform(4, 20)


# Widths


def test_hoeffding_width_of_uniform_is_the_classical_one() -> None:
    horizon, count, gamma, delta = 12, 30, 0.9, 0.05
    return_range = 3 * sum(gamma**t for t in range(horizon))
    classical = return_range * math.sqrt(math.log(2 / delta) / (2 * count))
    width = dcs.hoeffding_width(
        dcs.uniform(horizon, horizon * count), gamma=gamma, delta=delta, reward_range=3
    )
    assert width == pytest.approx(classical, rel=1e-12)


def test_hoeffding_width_of_a_worked_example() -> None:
    strategy = DataCollectionStrategy([4, 1])  # γ = ½: c = (1 + 2·½, ¼)
    width = dcs.hoeffding_width(strategy, gamma=0.5, delta=0.2)
    assert width == pytest.approx(math.sqrt(0.5 * math.log(10) * (2 / 4 + 0.25)), rel=1e-14)


def test_off_policy_width_of_uniform_is_that_of_pois() -> None:
    horizon, count, gamma, delta, renyi2 = 12, 30, 0.9, 0.3, 1.7
    phi = 2 * sum(gamma**t for t in range(horizon))
    pois = phi * math.sqrt((1 - delta) / delta * renyi2 / count)
    strategy = dcs.uniform(horizon, horizon * count)
    divergences = [math.nan] * (horizon - 1) + [renyi2]  # lengths without trajectories are ignored
    tight = dcs.off_policy_width(
        strategy, gamma=gamma, delta=delta, max_reward=2, renyi2_per_length=divergences
    )
    loose = dcs.loose_off_policy_width(strategy, gamma=gamma, delta=delta, max_reward=2, renyi2=renyi2)
    assert tight == pytest.approx(pois, rel=1e-12)
    assert loose == pytest.approx(pois, rel=1e-12)


@given(problems(), st.floats(0, 1), st.floats(0.01, 0.99))
def test_loose_off_policy_width_bounds_the_tight_one(
    problem: tuple[int, int, float], log_renyi2: float, delta: float
) -> None:
    horizon, _, gamma = problem
    strategy = dcs.truncated(*problem)
    common: dict[str, Any] = {"gamma": gamma, "delta": delta, "max_reward": 1.5}
    divergences = np.exp(log_renyi2 * np.arange(1, horizon + 1) / horizon)
    tight = dcs.off_policy_width(strategy, renyi2_per_length=divergences, **common)
    loose = dcs.loose_off_policy_width(strategy, renyi2=float(divergences[-1]), **common)
    assert tight <= loose * (1 + 1e-12)
    # Equal divergences leave nothing to lose: Σ m_h φ_h² = Σ c_t/n_t.
    tight = dcs.off_policy_width(strategy, renyi2_per_length=np.full(horizon, divergences[-1]), **common)
    assert tight == pytest.approx(loose, rel=1e-9)


def test_infinite_divergence_gives_an_infinite_width_and_no_nan() -> None:
    strategy = DataCollectionStrategy([3, 1, 1])
    common: dict[str, Any] = {"gamma": 0.9, "delta": 0.1, "max_reward": 1.0}
    unused = [1.0, math.inf, 2.0]  # no trajectory has length 2
    used = [math.inf, 1.0, 1.0]
    assert math.isfinite(dcs.off_policy_width(strategy, renyi2_per_length=unused, **common))
    assert dcs.off_policy_width(strategy, renyi2_per_length=used, **common) == math.inf
    assert dcs.loose_off_policy_width(strategy, renyi2=math.inf, **common) == math.inf


# The budget for an accuracy


def smallest_budget(epsilon: float, name: str, horizon: int, gamma: float) -> int:
    step = horizon if name == "uniform" else 1
    return next(
        budget
        for budget in itertools.count(horizon, step)
        if width_of(name, horizon, budget, gamma) <= epsilon
    )


def width_of(name: str, horizon: int, budget: int, gamma: float) -> float:
    planned = planners.plan(name, horizon=horizon, budget=budget, gamma=gamma)
    return dcs.hoeffding_width(planned, gamma=gamma, delta=0.1, reward_range=2)


@pytest.mark.parametrize("name", ["truncated", "uniform", "exact"])
@pytest.mark.parametrize(("horizon", "gamma"), [(1, 0.5), (3, 0.9), (10, 0.99), (30, 1.0)])
def test_required_budget_is_the_smallest_of_all(name: str, horizon: int, gamma: float) -> None:
    at_least = width_of(name, horizon, horizon, gamma)
    # The widths themselves are the accuracies at which an off-by-one would show.
    own = [width_of(name, horizon, horizon * k, gamma) for k in (1, 2, 3)]
    for epsilon in [*own, *np.geomspace(2 * at_least, at_least / 4, 12).tolist()]:
        found = planners.required_budget(
            epsilon, delta=0.1, horizon=horizon, gamma=gamma, strategy=name, reward_range=2
        )
        assert found == smallest_budget(epsilon, name, horizon, gamma), epsilon


def test_required_budget_sees_the_dips_in_the_width_of_truncated() -> None:
    horizon, gamma = 295, 0.9976823243759186
    widths = [width_of("truncated", horizon, budget, gamma) for budget in range(300, 520)]
    rises = np.flatnonzero(np.diff(widths) > 0)
    assert rises.size  # otherwise this test shows nothing
    for epsilon in np.take(widths, rises).tolist():
        found = planners.required_budget(epsilon, delta=0.1, horizon=horizon, gamma=gamma, reward_range=2)
        assert found == smallest_budget(epsilon, "truncated", horizon, gamma)


def test_truncated_needs_less_budget_than_uniform_for_the_same_accuracy() -> None:
    question: dict[str, Any] = {"delta": 0.1, "horizon": 360, "gamma": 0.95}
    needed = {
        name: planners.required_budget(0.5, strategy=name, **question)
        for name in ("exact", "truncated", "uniform")
    }
    assert needed["exact"] <= needed["truncated"] < needed["uniform"] / 5


# The strategy as a value


def test_strategy_is_a_read_only_copy_even_after_pickling() -> None:
    mine = np.array([3, 2, 1])
    strategy = DataCollectionStrategy(mine, kind="exact", gamma=0.9)
    mine[0] = 100
    again = pickle.loads(pickle.dumps(strategy))
    assert (again.kind, again.gamma, again) == ("exact", 0.9, strategy)
    for each in (strategy, again):
        assert each.samples_per_step.tolist() == [3, 2, 1]
        with pytest.raises(ValueError, match="read-only"):
            each.samples_per_step[0] = 7


def test_strategies_are_equal_if_they_collect_the_same_samples() -> None:
    planned, listed = dcs.uniform(3, 6), DataCollectionStrategy([2, 2, 2])
    assert planned == listed
    assert hash(planned) == hash(listed)
    assert planned != DataCollectionStrategy([2, 2, 1])
    assert planned != DataCollectionStrategy([2, 2])
    assert planned != [2, 2, 2]


def test_repr_is_short_and_tells_the_plan() -> None:
    assert repr(dcs.truncated(1000, 10000, 0.9)) == (
        "DataCollectionStrategy(truncated, horizon=1000, budget=10000, gamma=0.9, num_trajectories=908)"
    )


def test_numpy_integers_and_an_integer_gamma_are_numbers_too() -> None:
    strategy = dcs.truncated(np.int32(5), np.uint64(20), 1)
    assert strategy == dcs.truncated(5, 20, 1.0)
    assert type(strategy.budget) is type(strategy.horizon) is type(strategy.num_trajectories) is int


# Bad input

UNIFORM = DataCollectionStrategy([2, 2])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dcs.truncated(10, 9, 0.9), "budget=9 and horizon=10; raise the budget"),
        (lambda: dcs.exact(10, 9, 0.9), "budget=9 and horizon=10; raise the budget"),
        (lambda: dcs.uniform(10, 9), "budget=9 and horizon=10; raise the budget"),
        (lambda: dcs.truncated(1, 2**53 + 1, 0.9), "budget=9007199254740993"),
        (lambda: dcs.truncated(0, 9, 0.9), "horizon must be an integer, at least 1, found 0"),
        (lambda: dcs.exact(-3, 9, 0.9), "horizon must be .* found -3"),
        (lambda: dcs.step_costs(0, 0.9), "horizon must be .* found 0"),
        (lambda: dcs.truncated(5.5, 9, 0.9), "horizon must be an integer.* found 5.5"),
        (lambda: dcs.truncated(5, 9.0, 0.9), "budget must be an integer.* found 9.0"),
        (lambda: dcs.uniform(5, math.nan), "budget must be an integer.* found nan"),
        (lambda: dcs.uniform(True, 9), "horizon must be an integer.* found True"),
        (lambda: dcs.truncated(5, 9, 0), r"gamma must be a discount in \(0, 1\], found 0"),
        (lambda: dcs.exact(5, 9, 1.01), "gamma .* found 1.01"),
        (lambda: dcs.step_costs(5, -0.5), "gamma .* found -0.5"),
        (lambda: dcs.step_costs(5, math.nan), "gamma .* found nan"),
        (lambda: dcs.step_costs(5, "0.9"), "gamma .* found '0.9'"),
        (lambda: planners.plan("best", horizon=5, budget=9, gamma=1), "one of truncated, uni.* found 'best'"),
        (lambda: DataCollectionStrategy([]), r"not empty, found shape \(0,\)"),
        (lambda: DataCollectionStrategy([[1]]), r"one-dimensional .* found shape \(1, 1\)"),
        (lambda: DataCollectionStrategy([2.5, 1]), r"integers, found \[2.5 1. \]"),
        (lambda: DataCollectionStrategy([math.nan]), r"integers, found \[nan\]"),
        (lambda: DataCollectionStrategy([True]), r"integers, found \[ ?True\]"),
        (lambda: DataCollectionStrategy([3, 1, 2]), "not increase, found 1 and then 2 at index 2"),
        (lambda: DataCollectionStrategy([3, 0]), "at least 1 everywhere, found 0"),
        (lambda: DataCollectionStrategy([3, 1], gamma=2), "gamma .* found 2"),
        (
            lambda: DataCollectionStrategy.from_trajectories_per_length([3, 0]),
            r"full-length trajectory, found \[3 0\]",
        ),
        (
            lambda: DataCollectionStrategy.from_trajectories_per_length([3, -1, 1]),
            r"not be negative .* found \[ 3 -1  1\]",
        ),
        (lambda: dcs.hoeffding_width(UNIFORM, gamma=1, delta=0), r"delta .*\(0, 1\), found 0"),
        (lambda: dcs.hoeffding_width(UNIFORM, gamma=1, delta=1.0), "delta .* found 1.0"),
        (lambda: dcs.hoeffding_width(UNIFORM, gamma=1, delta=math.nan), "delta .* found nan"),
        (lambda: dcs.hoeffding_width(UNIFORM, gamma=1.5, delta=0.1), "gamma .* found 1.5"),
        (
            lambda: dcs.hoeffding_width(UNIFORM, gamma=1, delta=0.1, reward_range=math.inf),
            "reward_range must be a finite number above 0, found inf",
        ),
        (
            lambda: dcs.width_ratio(UNIFORM, dcs.uniform(3, 3), gamma=1),
            "same horizon only, found 2 and 3",
        ),
        (
            lambda: dcs.off_policy_width(UNIFORM, gamma=1, delta=0.1, max_reward=1, renyi2_per_length=[1.0]),
            r"shape \(2,\), found \(1,\)",
        ),
        (
            lambda: dcs.off_policy_width(
                UNIFORM, gamma=1, delta=0.1, max_reward=1, renyi2_per_length=[1.0, math.nan]
            ),
            "at least 1, found nan",
        ),
        (
            lambda: dcs.off_policy_width(
                UNIFORM, gamma=1, delta=1.5, max_reward=1, renyi2_per_length=[1.0, 1.0]
            ),
            "delta .* found 1.5",
        ),
        (
            lambda: dcs.loose_off_policy_width(UNIFORM, gamma=1, delta=0.1, max_reward=1, renyi2=0.5),
            "at least 1, found 0.5",
        ),
        (
            lambda: dcs.loose_off_policy_width(UNIFORM, gamma=1, delta=0.1, max_reward=-1, renyi2=1.0),
            "max_reward .* found -1",
        ),
        (
            lambda: planners.required_budget(0, delta=0.1, horizon=5, gamma=1),
            "epsilon must be a finite number above 0, found 0",
        ),
        (
            lambda: planners.required_budget(math.nan, delta=0.1, horizon=5, gamma=1),
            "epsilon .* found nan",
        ),
        (
            lambda: planners.required_budget(1e-12, delta=0.1, horizon=5, gamma=1),
            "epsilon=1e-12 .* takes a budget above 9007199254740992",
        ),
        (
            lambda: planners.required_budget(1, delta=0.1, horizon=5.0, gamma=1, strategy="uniform"),
            "horizon .* found 5.0",
        ),
        (
            lambda: planners.required_budget(1, delta=0.1, horizon=5, gamma=1, strategy="best"),
            "strategy must be one of truncated, uniform, exact.* found 'best'",
        ),
    ],
)
def test_bad_input_is_named_with_its_fix(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
