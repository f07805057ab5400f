"""How busy the slots are: planned steps / executed environment steps.

Collects the plan of every preset, discount and strategy with 64 slots, split as for one, two and four env
runners. Expected: 1 everywhere. A slot whose trajectories are done is not stepped any more, so only an
episode that terminates early could leave a slot idle among others that run, and none of these environments
has one.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.cases import NUM_SLOTS, Case
from benchmarks.report import Finding, Reporter, Result, plural
from ttray.plans.quotas import choose_split, trajectory_lengths
from ttray.rollout.quota import collect_quota
from ttray.rollout.slots import SlotPool
from ttray.runs.presets import PAPER_PRESETS

NUM_ENV_RUNNERS = (1, 2, 4)


def cases() -> Iterator[tuple[str, Case]]:
    """Gives, by name, the truncated strategies of all presets and discounts, and their uniform ones."""
    for preset in PAPER_PRESETS.values():
        for gamma in (*preset.gammas, None):
            name = f"{preset.name}, " + ("uniform" if gamma is None else f"γ = {gamma:g}")
            yield name, Case(preset.environment, preset.horizon, preset.budget, gamma)


def utilization(case: Case, num_env_runners: int) -> float:
    """Planned steps / executed slot-steps of a real collection, split as for so many env runners."""
    work, pool = case.work(iteration=0), SlotPool(case.maker())
    quotas = choose_split(trajectory_lengths(work.info.strategy), num_env_runners, NUM_SLOTS)
    executed = sum(
        collect_quota(pool.take, work.policy, work.info, quota, num_slots=NUM_SLOTS)[1].num_slot_steps
        for quota in quotas
    )
    return case.budget / executed


def run() -> Result:
    """Collects all plans."""
    report = Reporter("utilization", "Planned steps / executed environment steps")
    report.say(f"{NUM_SLOTS} slots; every preset, discount and strategy")
    findings = [
        Finding(name, plural(number, "env runner"), (utilization(case, number),), at_least=1.0)
        for name, case in cases()
        for number in NUM_ENV_RUNNERS
    ]
    report.add_folded(f"all {plural(len(findings), 'plan')}", "planned ÷ executed", findings)
    return report.result()
