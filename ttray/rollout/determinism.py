"""Checks that an environment is a function of its seed and actions, which reproducibility needs.

The first steps of one trajectory are collected a second time: in another slot, where another trajectory ran
before, and, where there are env runners, in another process. That shows what depends on anything else within
these steps; nothing is claimed of later ones.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import zip_longest

import numpy as np
import pyarrow as pa

from ttray.data.batch import BatchInfo
from ttray.data.schema import array_of
from ttray.plans.dcs import DataCollectionStrategy
from ttray.plans.quotas import Quota, trajectory_lengths
from ttray.policies.distributions import from_description
from ttray.rollout.acting import ActingPolicy
from ttray.rollout.policies import Policy
from ttray.rollout.policy_contract import answer_of, name_of
from ttray.rollout.quota import collect_quota
from ttray.rollout.slots import Slots

_NUM_STEPS = 32
_COMPARED = ("obs", "action", "reward", "terminated")


class Where(Enum):
    """Where a sample is collected again."""

    SLOT = "another slot"
    PROCESS = "another process"


_CAUSES = {
    Where.SLOT: (
        "likely causes: reset() ignores its seed (it must call super().reset(seed=seed) and draw from "
        "self.np_random); random numbers from numpy.random or random, which all environments share; state "
        "kept from episode to episode, as of the wrappers NormalizeObservation (use "
        'env_runners(observation_filter="mean_std") instead) and NormalizeReward (leave it out: the bound '
        "does not depend on the scale of rewards)"
    ),
    Where.PROCESS: (
        "likely causes: the order of a set, or hash() of a text, which differ from process to process "
        "(PYTHONHASHSEED; sort what is in the set); os.getpid(), id(), the clock, or files and variables "
        "that differ between the driver and its env runners"
    ),
}


_OF_ACTORS = (
    "it chose another action after the same observations, with the same random numbers. Likely causes: "
    "random numbers of its own (it must draw them from the rng that it is given: act(observations, rng)), "
    "dropout, state that it keeps between calls (ttray.policies.function(act, initial_state=...) keeps it "
    "for it, slot by slot), or what differs from process to process"
)


@dataclass(frozen=True)
class Sample:
    """The first steps of a trajectory as they were collected, small enough to travel.

    Attributes:
        trajectory: Its id.
        steps: For each column that is compared, a checksum of every step.
    """

    trajectory: int
    steps: dict[str, list[int]]


def sample_of(table: pa.Table, quota: Quota) -> Sample:
    """Takes the sample that is to be collected again.

    Args:
        table: What was collected.
        quota: Which trajectories it holds.
    """
    # The second, because the first slot ran the first, and is where the sample will run.
    trajectory = quota.start + min(1, quota.stop - quota.start - 1)
    rows = np.flatnonzero(array_of(table, "trajectory") == trajectory)[:_NUM_STEPS]
    return Sample(trajectory, _checksums(table.slice(rows[0], len(rows))))


def find_difference(
    make_slots: Callable[[int], Slots],
    policy: Policy | ActingPolicy,
    info: BatchInfo,
    sample: Sample,
    where: Where,
) -> str | None:
    """Collects a sample again; tells where it differs, or None.

    Args:
        make_slots: In which it is collected again.
        policy: That collected it.
        info: The batch that it belongs to.
        sample: What was collected.
        where: Compared with where it was collected first.

    Raises:
        RolloutError: It cannot be collected.
    """
    trajectory = sample.trajectory
    counts = np.zeros(min(int(trajectory_lengths(info.strategy)[trajectory]), _NUM_STEPS), dtype=np.int64)
    counts[-1] = trajectory + 1
    short = replace(info, strategy=DataCollectionStrategy.from_trajectories_per_length(counts))
    again, _ = collect_quota(make_slots, policy, short, Quota(0, trajectory, trajectory + 1), num_slots=1)
    second = _checksums(again)
    steps = {name: _first_difference(first, second[name]) for name, first in sample.steps.items()}
    found = [(step, name) for name, step in steps.items() if step is not None]
    if not found:
        return None
    step, name = min(found, key=lambda each: each[0])  # of one step, the first column
    if name == "action":  # another one for the same observation and the same noise
        blame = f"the policy {name_of(policy)} is the cause: "
        if isinstance(policy, ActingPolicy):
            blame += _OF_ACTORS
        else:
            num_inputs = from_description(info.distribution).num_inputs
            blame += _of_policy(policy, array_of(again, "obs"), num_inputs, where)
    else:
        blame = _CAUSES[where]
    return (
        f"trajectory {trajectory} of {info.environment} has another {name} at step {step} when it is "
        f"collected again, in {where.value} with the same seed; {blame}"
    )


def _checksums(table: pa.Table) -> dict[str, list[int]]:
    return {name: [zlib.crc32(row.tobytes()) for row in array_of(table, name)] for name in _COMPARED}


def _of_policy(policy: Policy, obs: np.ndarray, num_inputs: int, where: Where) -> str:
    """What is wrong with a policy that answers other bits to the same observations."""

    def asked(rows: np.ndarray) -> np.ndarray:
        return answer_of(policy, rows.copy(), (len(rows), num_inputs))

    alone = np.concatenate([asked(obs[at : at + 1]) for at in range(len(obs))])
    together, again = asked(obs), asked(obs)
    if together.tobytes() != again.tobytes():
        return (
            "called twice with the same observations it answers other numbers. Likely causes: "
            "dropout, noise or random numbers of its own (actions are sampled for "
            "it), state that it keeps between calls"
        )
    if together.tobytes() != alone.tobytes():
        return (
            "its answer to an observation depends on the others in the same call. Likely causes: "
            "layers that mix rows (batch normalisation, means over a batch), or a "
            "matrix product, whose low bits depend on the number of rows: in NumPy write "
            "(obs[:, None, :] @ weights)[:, 0, :], in torch make it an RLModule, for which ttray takes care"
        )
    return (
        f"it answered other numbers to the same observations in {where.value}. Likely causes: what differs "
        "from process to process (the order of a set, hash() of a text, os.getpid(), files and variables), "
        "or state that it keeps between calls"
    )


def _first_difference(first: Sequence[int], second: Sequence[int]) -> int | None:
    pairs = zip_longest(first, second)
    return next((step for step, (one, other) in enumerate(pairs) if one != other), None)
