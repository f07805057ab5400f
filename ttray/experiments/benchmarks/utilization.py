"""How busy the slots are: `python -m ttray.experiments.benchmarks.utilization`.

For every preset, discount factor and strategy, and for one, two and four actors: planned steps / executed
slot-steps, as the quotas of the service are packed into 64 slots, and beside it the best possible. Nothing
is run. Expected: every number is at least 0.97 or within 0.08 of the best possible (0.005 with one actor).

The best possible ("limit") of a quota: no packing of its trajectories that takes at most 25 % more vector
steps has a higher utilisation, because the number of slots of a duration is at least Martello and Toth's
bound L2 for bin packing. It is below 0.97 where a quota holds a few long trajectories of different lengths:
two of them do not fit one after the other into the duration of the longest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ttray.core import dcs
from ttray.core.quotas import MAX_STRETCH, choose_split, pack, trajectory_lengths
from ttray.experiments.presets import PRESETS

NUM_SLOTS = 64
NUM_ACTORS = (1, 2, 4)


@dataclass(frozen=True)
class Utilization:
    """What a split into quotas and their packing give.

    Attributes:
        num_quotas: How many quotas.
        found: Planned steps / executed slot-steps.
        limit: The best possible of these quotas.
        num_vector_steps: Added up over the quotas.
    """

    num_quotas: int
    found: float
    limit: float
    num_vector_steps: int


@dataclass(frozen=True)
class Plan:
    """A strategy of the paper's experiments.

    Attributes:
        preset: Name.
        gamma: Discount; None for the uniform strategy, which has none.
        strategy: The plan.
    """

    preset: str
    gamma: float | None
    strategy: dcs.DataCollectionStrategy


def plans() -> Iterator[Plan]:
    """Gives the truncated strategies of all presets and discounts, and their uniform ones."""
    for preset in PRESETS.values():
        for gamma in preset.gammas:
            yield Plan(preset.name, gamma, dcs.truncated(preset.horizon, preset.budget, gamma))
        yield Plan(preset.name, None, dcs.uniform(preset.horizon, preset.budget))


def utilization(strategy: dcs.DataCollectionStrategy, num_actors: int) -> Utilization:
    """Splits and packs a plan as the service does."""
    lengths = trajectory_lengths(strategy).astype(np.int64)
    executed, least, vector_steps = 0, 0.0, 0
    quotas = choose_split(lengths, num_actors, NUM_SLOTS)
    for quota in quotas:
        of_quota = lengths[quota.start : quota.stop]
        packing = pack(of_quota, NUM_SLOTS)
        executed += packing.num_slots * packing.num_vector_steps
        vector_steps += packing.num_vector_steps
        least += packing.num_steps / limit(of_quota, int(MAX_STRETCH * packing.num_vector_steps))
    return Utilization(len(quotas), strategy.budget / executed, strategy.budget / least, vector_steps)


def limit(lengths: NDArray[np.int64], max_vector_steps: int) -> float:
    """Returns what no packing of the lengths, `[trajectories]` longest first, can exceed."""
    total = int(lengths.sum())
    shortest = max(int(lengths[0]), -(-total // NUM_SLOTS))
    return max(
        total / (duration * min_slots(lengths, duration))
        for duration in range(shortest, max_vector_steps + 1)
    )


def min_slots(lengths: NDArray[np.int64], duration: int) -> int:
    """Returns a number of slots below which the lengths cannot be run in this duration.

    The bound L2 of Martello and Toth, 1990: trajectories longer than half the duration need a slot each, and
    those between a threshold and the half use only the room that is left beside what they fit.
    """
    halves = lengths[2 * lengths <= duration]
    best = -(-int(lengths.sum()) // duration)
    for threshold in {0, *halves.tolist()}:
        alone = int(np.sum(lengths > duration - threshold))
        large = lengths[(lengths <= duration - threshold) & (2 * lengths > duration)]
        room = len(large) * duration - int(large.sum())
        small = int(halves[halves >= threshold].sum())
        best = max(best, alone + len(large) + max(0, -(-(small - room) // duration)))
    return best


def run() -> None:
    """Prints the table: utilisation / limit (number of quotas) for each number of actors."""
    print(f"planned / executed slot-steps with {NUM_SLOTS} slots / limit (quotas)")
    print(f"{'':<30}" + "".join(f"{f'{number} actors':>16}" for number in NUM_ACTORS))
    for plan in plans():
        name = f"{plan.preset} {'uniform' if plan.gamma is None else f'γ={plan.gamma}'}"
        found = [utilization(plan.strategy, number) for number in NUM_ACTORS]
        columns = [f"{one.found:.3f}/{one.limit:.3f} ({one.num_quotas})" for one in found]
        print(f"{name:<30}" + "".join(f"{column:>16}" for column in columns))


if __name__ == "__main__":
    run()
