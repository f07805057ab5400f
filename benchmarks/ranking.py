"""Which policy is better: how often a ranking is wrong, and how many steps it takes.

Errors are counted over simulated rankings of made-up policies that are hard to tell apart, or that look
unlike until something rare happens. Costs are those of policies of quick presets after some iterations of
training, of PPOs of Stable-Baselines3, and of a function. For each, many full-length trajectories are
collected once, with the same seed: they stand for the environment, and those with the same number met the
same noise. Beside the ranking stand the same rule with noise of its own for each policy, the same rule with
full-length episodes, and Welch's test of a fixed size: the one that finds the true gap, as if it and the
variances were known, with the same two errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.evaluation_pools import Pool, PoolCase, collected_pool
from benchmarks.report import Finding, Reporter, Result
from benchmarks.simulated_evaluations import in_blocks
from ttray.estimators.blocks import Blocks, BlockSums
from ttray.estimators.ranking import SequentialRanking
from ttray.numerics.threads import torch_threads
from ttray.plans.dcs import DataCollectionStrategy
from ttray.runs.drawing import PALETTE, subplots

NUM_RANKINGS = 1000
NUM_REPEATS = 21

_DELTA = 0.05


@dataclass(frozen=True, eq=False)
class Contest:
    """Rankings of pools.

    Attributes:
        pools: One for each policy; trajectories with the same number are twins.
        common: Whether twins are drawn together.
        full_length: Whether all trajectories are of full length.
        indifference: Of the rankings.
        budget: Of the rankings.
        delta: Of the rankings.
    """

    pools: Mapping[str, Pool]
    common: bool = True
    full_length: bool = False
    indifference: float | None = None
    budget: int | None = None
    delta: float = _DELTA

    def run(self, seed: int) -> SequentialRanking:
        """One ranking, to its end."""
        pools = self.pools
        one = next(iter(pools.values()))
        lows, highs = zip(*(pool.reward_range for pool in pools.values()), strict=True)
        can_end = any(pool.can_end for pool in pools.values())
        ranking = SequentialRanking(
            list(pools),
            horizon=one.horizon,
            gamma=one.gamma,
            delta=self.delta,
            reward_range=(min(lows), max(highs)),
            indifference=self.indifference,
            budget=self.budget,
            seed=seed,
            can_end=can_end,
        )
        rng, blocks = np.random.default_rng(seed), ranking.blocks
        of_blocks = {name: in_blocks(pool, blocks) for name, pool in pools.items()}
        while (plan := ranking.next_plan()) is not None:
            reached = self._reached(plan, blocks)
            chosen = rng.integers(0, len(one.rewards), len(reached))
            found = {}
            for name in ranking.contenders:
                found[name] = _drawn(*of_blocks[name], reached, chosen)
                if not self.common:
                    chosen = rng.integers(0, len(one.rewards), len(reached))
            ranking.add_sums(found)
        return ranking

    def _reached(self, plan: DataCollectionStrategy, blocks: Blocks) -> NDArray[np.int64]:
        """`[trajectories]`, the blocks that each is planned to reach."""
        number = len(blocks.ends)
        if self.full_length:
            return np.full(max(1, plan.budget // blocks.horizon), number)
        return np.repeat(np.arange(1, number + 1), plan.trajectories_per_length[blocks.ends - 1])

    def is_wrong(self, found: SequentialRanking) -> bool:
        """Whether anything that a ranking claims is not so."""
        mean = {name: pool.mean for name, pool in self.pools.items()}
        for pair in found.pairs:
            gap = mean[pair.first] - mean[pair.second]
            if pair.better is not None and (gap if pair.better == pair.first else -gap) <= 0.0:
                return True
            if pair.is_equal and self.indifference is not None and abs(gap) > self.indifference:
                return True
        return False


def _drawn(
    sums: NDArray[np.float64],
    steps: NDArray[np.int64],
    reached: NDArray[np.int64],
    chosen: NDArray[np.int64],
) -> BlockSums:
    is_reached = np.arange(sums.shape[1]) < reached[:, None]
    made = steps[chosen] * is_reached
    return BlockSums(reached, sums[chosen] * is_reached, np.count_nonzero(made, 1), np.sum(made, 0))


def welch_steps(pools: Sequence[Pool], delta: float = _DELTA) -> float:
    """Steps of full-length episodes for Welch's test to find the gap of two policies.

    Two-sided with probability δ of a false claim, and 1 − δ of a right one, if the gap is the true one.
    """
    one, two = pools
    size = NormalDist().inv_cdf(1.0 - delta / 2.0) + NormalDist().inv_cdf(1.0 - delta)
    episodes = size**2 * (one.deviation**2 + two.deviation**2) / (one.mean - two.mean) ** 2
    return max(episodes, 2.0) * (one.steps_per_episode + two.steps_per_episode)


def made_up(name: str) -> Contest:
    """Policies that are hard to rank, by name of the case; noise of their own for each."""
    rng, size, horizon = np.random.default_rng(0), 1000, 10

    def pool(rewards: NDArray[np.float64]) -> Pool:
        return Pool(name, rewards, np.full(len(rewards), horizon), 0.95)

    level = rng.beta(2.0, 3.0, (size, 1))

    def shifted(shift: float) -> Pool:
        return pool(np.clip(level + 0.2 * rng.standard_normal((size, horizon)) + shift, 0.0, 1.0))

    same = shifted(0.0)
    if name == "equal":
        return Contest({"a": same, "b": same}, common=False, budget=20_000)
    if name == "tiny gap":
        return Contest({"a": same, "b": pool(np.clip(same.rewards + 1e-3, 0.0, 1.0))}, budget=20_000)
    if name == "catastrophe":  # looks better by a little, and once in fifty loses all from the middle on
        rewards = np.full((size, horizon), 0.51)
        rewards[: size // 50, horizon // 2 :] = 0.0
        return Contest({"a": pool(np.full((size, horizon), 0.508)), "b": pool(rewards)}, budget=20_000)
    if name == "six, two alike":
        pools = [same, same, *(shifted(0.05 * number) for number in range(1, 5))]
        return Contest(dict(zip("abcdef", pools, strict=True)), common=False, budget=30_000)
    raise ValueError(f"no such case: {name}")


MADE_UP = ("equal", "tiny gap", "catastrophe", "six, two alike")


@dataclass(frozen=True)
class Match:
    """Two policies of a preset, and what deciding between them may cost.

    Attributes:
        preset: With its environment.
        gamma: The discount.
        iterations: After which each is taken.
        at_most: Steps of both.
    """

    preset: str
    gamma: float
    iterations: tuple[int, int]
    at_most: int

    def pools(self) -> dict[str, Pool]:
        """Of both, by iteration."""
        cases = [PoolCase(self.preset, self.gamma, number) for number in self.iterations]
        return {case.name: _pool(case) for case in cases}


@dataclass(frozen=True)
class OtherMatch:
    """Two policies that ttray has not trained: PPOs of Stable-Baselines3, or one of them and a function.

    Attributes:
        environment: Gymnasium id.
        policies: Steps that a PPO was trained, or "lean" for the function that balances CartPole.
        horizon: T.
        pool_size: Whole trajectories of each.
        gamma: The discount; none unless given.
        at_most: Steps of both; None if there is no such target.
    """

    environment: str
    policies: tuple[int | str, int | str]
    horizon: int
    pool_size: int
    gamma: float = 1.0
    at_most: int | None = None

    def pools(self) -> dict[str, Pool]:
        """Of both, by name."""
        others = self.horizon, self.gamma, self.pool_size
        pools = [_pool_of_another(self.environment, each, *others) for each in self.policies]
        return {pool.name: pool for pool in pools}


@cache
def _pool(case: PoolCase) -> Pool:
    return case.pool()


@cache
def _pool_of_another(environment: str, which: int | str, horizon: int, gamma: float, size: int) -> Pool:
    task = environment.partition("-")[0] + f" {gamma:g}".replace(" 0.", " .").replace(" 1", "")
    name = f"{task} {which if isinstance(which, str) else f'PPO-{which // 1000}k'}"
    with torch_threads(1):
        policy = lean if which == "lean" else _ppo(environment, int(which))
        return collected_pool(name, environment, policy, horizon, gamma, size)


@cache
def _ppo(environment: str, num_steps: int) -> Any:
    import stable_baselines3

    return stable_baselines3.PPO("MlpPolicy", environment, device="cpu", seed=0).learn(num_steps)


def lean(observations: NDArray[Any]) -> NDArray[Any]:
    """Pushes the cart to where the pole leans and moves."""
    return (observations[:, 2] + 0.3 * observations[:, 3] > 0.05).astype(np.int64)


MATCHES = (
    Match("dam-fast", 0.95, (5, 10), 50_000),
    Match("dam-fast", 0.95, (10, 40), 50_000),
    Match("dam-fast", 0.95, (10, 20), 80_000),
    Match("dam-fast", 0.95, (20, 40), 80_000),
    Match("dam-fast", 0.95, (35, 40), 300_000),
    Match("dam-fast", 0.999, (10, 40), 65_000),
    Match("dam-fast", 0.999, (10, 20), 65_000),
    Match("dam-fast", 0.999, (20, 40), 65_000),
    Match("supply-chain-fast", 0.95, (10, 20), 15_000),
    Match("supply-chain-fast", 0.95, (20, 40), 15_000),
    Match("supply-chain-fast", 0.95, (30, 40), 42_000),
    OtherMatch("CartPole-v1", (20_000, 40_000), 500, 500),
    OtherMatch("CartPole-v1", (20_000, 40_000), 500, 500, 0.99),
    OtherMatch("CartPole-v1", ("lean", 40_000), 500, 500),
    OtherMatch("Hopper-v5", (20_000, 40_000), 1000, 300),
    OtherMatch("Hopper-v5", (20_000, 40_000), 1000, 300, 0.99),
)


def run(
    num_rankings: int = NUM_RANKINGS,
    num_repeats: int = NUM_REPEATS,
    matches: Sequence[Match | OtherMatch] = MATCHES,
    cases: Sequence[str] = MADE_UP,
) -> Result:
    """Counts errors and steps.

    Args:
        num_rankings: Of each made-up case.
        num_repeats: Rankings of each match.
        matches: Of policies.
        cases: Made-up ones.
    """
    report = Reporter("ranking", "Which policy is better: errors, and steps to a decision")
    for name in cases:
        contest = made_up(name)
        wrong = sum(contest.is_wrong(contest.run(seed)) for seed in range(num_rankings))
        report.add(Finding(name, "wrong claims", (wrong / num_rankings,), at_most=_DELTA))
    for match in matches:
        report.add(*findings_of(match.pools(), match.at_most, num_repeats))
    return report.result({"num_rankings": num_rankings, "num_repeats": num_repeats, "delta": _DELTA})


def findings_of(pools: Mapping[str, Pool], at_most: int | None, num_repeats: int) -> Iterator[Finding]:
    """Steps of all ways to decide, and how often the ranking was wrong.

    Args:
        pools: Of two policies.
        at_most: Steps that the ranking may take, if there is a target.
        num_repeats: Rankings.
    """
    one, two = pools.values()
    case = f"{one.name}, {two.name.rpartition(' ')[2]}"
    ours = Contest(pools)

    def steps(contest: Contest) -> tuple[float, ...]:
        return tuple(float(contest.run(seed).num_env_steps) for seed in range(num_repeats))

    found = steps(ours)
    usual = float(np.median(found))
    yield Finding(case, "gap", (two.mean - one.mean,))
    yield Finding(case, "steps", found, at_most=at_most)
    yield Finding(case, "wrong", (sum(ours.is_wrong(ours.run(seed)) for seed in range(num_repeats)),))
    own = float(np.median(steps(Contest(pools, common=False))))
    yield Finding(case, "× own noise", (usual / own,), at_most=1.1)
    full = float(np.median(steps(Contest(pools, full_length=True))))
    yield Finding(case, "full length ÷", (full / usual,), at_least=1.5)
    yield Finding(case, "Welch's ÷", (welch_steps([one, two]) / usual,))


def draw(result: Result) -> Any:
    """Steps to a decision of every match, of all ways to decide."""
    by_case: dict[str, dict[str, Finding]] = {}
    for finding in result.findings:
        by_case.setdefault(finding.case, {})[finding.quantity] = finding
    matches = {case: found for case, found in by_case.items() if "steps" in found}
    figure, axis = subplots(figsize=(8, 0.5 * len(matches) + 1.4))
    for row, found in enumerate(matches.values()):
        steps = found["steps"].median
        ways = {
            "ranking": steps,
            "noise of its own": steps / found["× own noise"].median,
            "full length": steps * found["full length ÷"].median,
            "Welch's, differences known": steps * found["Welch's ÷"].median,
        }
        for colour, marker, (way, value) in zip(PALETTE, "oxs|", ways.items(), strict=False):
            axis.plot(value, row, marker, color=colour, label=None if row else way)
    axis.set_xscale("log")
    names = [f"{case}: {found['gap'].median:.3g}" for case, found in matches.items()]
    axis.set_yticks(range(len(matches)), names, fontsize="small")
    axis.invert_yaxis()
    axis.set_xlabel("environment steps of both policies to a decision")
    axis.grid(axis="x", alpha=0.3)
    axis.legend(frameon=False, fontsize="small")
    return figure
