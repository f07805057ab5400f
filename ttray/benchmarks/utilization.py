"""How busy the slots are: planned steps / executed environment steps.

Collects the plan of every preset, discount and strategy with 64 slots, split as for one, two and four actors.
Expected: 1 everywhere. A slot whose trajectories
are done is not stepped any more, so only an episode that terminates early could leave a slot idle among
others that run, and none of these environments has one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ttray.benchmarks.report import Finding, Result
from ttray.core import dcs
from ttray.core.batch import BatchInfo
from ttray.core.quotas import choose_split, trajectory_lengths
from ttray.rollout.environment import EnvironmentMaker
from ttray.rollout.policies import fresh_policy
from ttray.rollout.quota import collect_quota
from ttray.rollout.slots import SlotPool
from ttray.runs.presets import PRESETS

NUM_SLOTS = 64
NUM_ACTORS = (1, 2, 4)


@dataclass(frozen=True)
class Plan:
    """A strategy of the paper's experiments.

    Attributes:
        preset: Name.
        environment: Its gymnasium id.
        gamma: Discount; None for the uniform strategy, which has none.
        strategy: The plan.
    """

    preset: str
    environment: str
    gamma: float | None
    strategy: dcs.DataCollectionStrategy


def plans() -> Iterator[Plan]:
    """Gives the truncated strategies of all presets and discounts, and their uniform ones."""
    for preset in PRESETS.values():
        for gamma in preset.gammas:
            strategy = dcs.truncated(preset.horizon, preset.budget, gamma)
            yield Plan(preset.name, preset.environment, gamma, strategy)
        uniform = dcs.uniform(preset.horizon, preset.budget)
        yield Plan(preset.name, preset.environment, None, uniform)


def utilization(plan: Plan, num_actors: int) -> float:
    """Planned steps / executed slot-steps of a real collection, split as for so many actors."""
    maker = EnvironmentMaker.of(plan.environment)
    facts, pool = maker.facts(), SlotPool(maker)
    info = BatchInfo(plan.environment, 0, 0, plan.strategy, plan.gamma, facts.distribution.describe())
    policy = fresh_policy(facts, seed=0)
    quotas = choose_split(trajectory_lengths(plan.strategy), num_actors, NUM_SLOTS)
    executed = sum(
        collect_quota(pool.take, policy, info, quota, num_slots=NUM_SLOTS)[1].num_slot_steps
        for quota in quotas
    )
    return plan.strategy.budget / executed


def run() -> Result:
    """Collects all plans."""
    findings = []
    for plan in plans():
        case = plan.preset + (", uniform" if plan.gamma is None else f", γ = {plan.gamma:g}")
        for number in NUM_ACTORS:
            quantity = f"{number} actor{'s' * (number > 1)}"
            findings.append(Finding(case, quantity, (utilization(plan, number),), at_least=1.0))
            print(findings[-1].line(), flush=True)
    return Result("utilization", "Planned steps / executed environment steps", tuple(findings))


if __name__ == "__main__":
    run()
