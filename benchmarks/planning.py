"""Plans from data beside the fixed ones: the standard deviation of Ĵ under the first policy.

For each case many full-length trajectories are collected once. They stand for the environment: batches are
drawn from them, so f_t is known exactly, and with it the variance of Ĵ under any plan, Σ_t f_t/n_t. The
oracle plans from that f. Only the adaptive plans vary, with the batches that they are made from; what is
reported is the root of their mean variance: of a plan from one or four batches before it, as in training, and
of an evaluation in rounds. Values are relative to the better of the two fixed plans.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks import tables
from benchmarks.cases import environment_name
from benchmarks.report import Finding, Reporter, Result
from ttray.data.batch import Batch
from ttray.data.ragged import RaggedBatch
from ttray.estimators.on_policy import in_rounds
from ttray.estimators.two_stage import collect_in_rounds
from ttray.optim.run_statistics import DECAY
from ttray.plans import dcs, planners
from ttray.plans.dcs import DataCollectionStrategy
from ttray.plans.planners import Observed
from ttray.plans.quotas import trajectory_lengths
from ttray.rollout.environment import EnvironmentMaker
from ttray.rollout.policies import fresh_policy
from ttray.runs.presets import PAPER_PRESETS
from ttray.service.service import RolloutService

POOL_SIZE = 2000
NUM_BATCHES = 200
NUM_BEFORE = (1, 4)  # batches that a plan in training is made from
DELTA = 0.1

Rewards = NDArray[np.float64]
"""`[trajectories, horizon]`, 0 after the end of an episode."""


@dataclass(frozen=True)
class PlanningCase:
    """An environment under its first policy.

    Attributes:
        environment: Gymnasium id.
        horizon: Longest trajectory.
        budget: Environment steps of a batch.
        gamma: Discount.
        hidden_sizes: Of the policy's network.
        gain: What the adaptive plan has to gain on the paper's, as a ratio of standard deviations.
    """

    environment: str
    horizon: int
    budget: int
    gamma: float
    hidden_sizes: tuple[int, ...]
    gain: float | None = None

    @classmethod
    def of(cls, preset: str, gamma: float, gain: float | None = None) -> PlanningCase:
        """With the settings of a preset."""
        found = PAPER_PRESETS[preset]
        return cls(found.environment, found.horizon, found.budget, gamma, found.hidden_sizes, gain)

    @property
    def title(self) -> str:
        """For lines and pictures, e.g. "Dam .95"."""
        return f"{environment_name(self.environment)} {self.gamma:g}".replace(" 0.", " .")

    def pool(self, size: int) -> Rewards:
        """Collects full-length trajectories."""
        with RolloutService(EnvironmentMaker.of(self.environment), num_slots=512, seed=0) as service:
            policy = fresh_policy(service.facts, seed=0, hidden_sizes=self.hidden_sizes)
            plan = dcs.uniform(self.horizon, size * self.horizon)
            handle = service.collect(plan, policy, iteration=0, gamma=self.gamma, dist_inputs=False)
            return _rewards(handle.batch(), self.horizon)


CASES = (
    PlanningCase.of("supply-chain", 0.95),
    PlanningCase.of("dam", 0.95, gain=0.9),
    PlanningCase.of("dam", 0.999),
    PlanningCase.of("corridor-sparse", 0.99),
    PlanningCase.of("corridor-dense", 0.99),
    PlanningCase.of("reacher", 0.95),
    PlanningCase("ttray/Evaluation-v0", 100, 2000, 0.95, (64, 32)),
)


def run(cases: tuple[PlanningCase, ...] = CASES, pool_size: int = POOL_SIZE) -> Result:
    """Compares the plans in all cases.

    Args:
        cases: What to plan for.
        pool_size: Trajectories that stand for an environment.
    """
    report = Reporter("planning", "Standard deviation of Ĵ by plan, relative to the better fixed plan")
    series = {}
    for case in cases:
        rewards = case.pool(pool_size)
        compared = compare(case, rewards)
        report.add(*findings_of(case, compared))
        series[case.title] = asdict(case) | compared
    return report.result(
        {"pool_size": pool_size, "num_batches": NUM_BATCHES, "delta": DELTA, "cases": series}
    )


def table(result: Result) -> list[str]:
    """A line per case, a column per plan."""
    findings = [
        replace(finding, case=case, quantity=f"{plan} {finding.quantity}")
        for finding in result.findings
        for case, _, plan in [finding.case.rpartition(", ")]
    ]
    return tables.table(replace(result, findings=tuple(findings)))


def compare(case: PlanningCase, rewards: Rewards) -> dict[str, float]:
    """Standard deviations of Ĵ by plan, and how often the interval after rounds holds the return."""
    variances = true_variances(rewards, case.gamma)

    def variance(plan: DataCollectionStrategy) -> float:
        return float((variances / plan.samples_per_step).sum())

    def plan(
        name: str, budget: int = case.budget, observed: Observed | None = None
    ) -> DataCollectionStrategy:
        return planners.plan(name, horizon=case.horizon, budget=budget, gamma=case.gamma, observed=observed)

    found = {name: math.sqrt(variance(plan(name))) for name in ("uniform", "truncated")}
    found["oracle"] = math.sqrt(variance(planners.for_variances(variances, case.budget, case.gamma)))
    rng = np.random.default_rng(0)
    in_training: dict[int, list[float]] = {number: [] for number in NUM_BEFORE}
    for _ in range(NUM_BATCHES):
        observed = Observed.empty(case.horizon, case.gamma)
        for number in range(1, max(NUM_BEFORE) + 1):
            planned = plan("adaptive", observed=observed if number > 1 else None)
            observed = observed.updated(drawn(rewards, planned, rng), planned, decay=DECAY)
            if number in in_training:
                in_training[number].append(variance(plan("adaptive", observed=observed)))
    for number, each in in_training.items():
        found[f"after {number}"] = math.sqrt(np.mean(each))
    return found | _in_rounds(case, rewards, rng)


def _in_rounds(case: PlanningCase, rewards: Rewards, rng: np.random.Generator) -> dict[str, float]:
    """The same of an evaluation in rounds, with the coverage of its interval and the bias of its estimate."""
    truth = float((rewards @ case.gamma ** np.arange(case.horizon)).mean())
    spread = float(rewards.max() - rewards.min())
    sums, errors, held = [], [], []
    for _ in range(NUM_BATCHES):
        rounds = collect_in_rounds(
            lambda plan, _: drawn(rewards, plan, rng),
            "adaptive",
            horizon=case.horizon,
            budget=case.budget,
            gamma=case.gamma,
        )
        sums.append(
            sum(
                (true_variances(rewards, case.gamma, each.weights) / each.strategy.samples_per_step).sum()
                for each in rounds
            )
        )
        found = in_rounds(rounds, gamma=case.gamma, delta=DELTA, reward_range=spread)
        held.append(found.low <= truth <= found.high)
        errors.append(found.estimate - truth)
    return {
        "rounds": math.sqrt(np.mean(sums)),
        "coverage": float(np.mean(held)),
        "bias in standard errors": float(np.mean(errors) / (np.std(errors) / math.sqrt(NUM_BATCHES))),
    }


def findings_of(case: PlanningCase, compared: dict[str, float]) -> Iterator[Finding]:
    """Ratios to the better fixed plan, that to the paper's, and the coverage of the interval."""
    best = min(compared["uniform"], compared["truncated"])
    for name in ("uniform", "truncated", "oracle"):
        yield Finding(f"{case.title}, {name}", "÷ better fixed", (compared[name] / best,))
    for name in (*(f"after {number}" for number in NUM_BEFORE), "rounds"):
        yield Finding(f"{case.title}, {name}", "÷ better fixed", (compared[name] / best,), at_most=1.05)
        if case.gain is not None:
            ratio = compared[name] / compared["truncated"]
            yield Finding(f"{case.title}, {name}", "÷ truncated", (ratio,), at_most=case.gain)
    yield Finding(f"{case.title}, rounds", "coverage", (compared["coverage"],), at_least=1.0 - DELTA)


def true_variances(
    rewards: Rewards, gamma: float, weights: NDArray[np.float64] | float = 1.0
) -> NDArray[np.float64]:
    """f_t of drawing trajectories from these, `[horizon]`; of weighted steps if weights are given."""
    discounted = rewards * gamma ** np.arange(rewards.shape[1]) * weights
    centred = discounted - discounted.mean(0)
    later = centred.sum(1, keepdims=True) - np.cumsum(centred, 1)
    return np.asarray((centred * (centred + 2.0 * later)).mean(0))


def drawn(rewards: Rewards, plan: DataCollectionStrategy, rng: np.random.Generator) -> RaggedBatch:
    """A batch whose trajectories are beginnings of some of these."""
    lengths = trajectory_lengths(plan).astype(np.int64)
    chosen = rng.integers(0, len(rewards), len(lengths))
    trajectory = np.repeat(np.arange(len(lengths)), lengths)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    t = np.arange(len(trajectory)) - offsets[trajectory]
    nothing = torch.zeros((len(t), 0))
    return RaggedBatch(
        offsets=torch.from_numpy(offsets),
        length=torch.from_numpy(lengths),
        t=torch.from_numpy(t.astype(np.int32)),
        obs=nothing,
        action=nothing,
        reward=torch.from_numpy(rewards[chosen[trajectory], t]),
        log_prob=nothing,
        dist_inputs=None,
    )


def _rewards(batch: Batch, horizon: int) -> Rewards:
    rows = batch.tensors
    rewards = np.zeros((len(rows.length), horizon))
    trajectory = np.repeat(np.arange(len(rows.length)), rows.offsets.diff().numpy())
    rewards[trajectory, rows.t.numpy()] = rows.reward.numpy()
    return rewards
