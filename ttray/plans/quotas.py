"""From a plan to work for workers: trajectories, quotas, and the slots of a vector environment.

A strategy says how many trajectories of each length to collect. Here they get ids, longest first;
each worker gets a quota, a range of consecutive ids; and each quota is packed into the slots of a
vector environment. The paper says nothing about this: it is what makes its strategies cheap to run.
Consecutive ids have similar lengths, so the slots of a quota finish together, and the tables of the
quotas concatenated in order are sorted. Nothing here runs an environment or knows about Ray.

Every function checks that it neither lost nor invented work: a missing trajectory would bias the
estimate.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ttray.boundary.fields import check_count, check_descending_counts
from ttray.plans.dcs import DataCollectionStrategy

__all__ = [
    "Packing",
    "Quota",
    "choose_split",
    "pack",
    "split",
    "trajectory_lengths",
]

_MAX_QUOTAS_PER_WORKER = 4
_MIN_STEPS_OF_FINE_QUOTA = 20_000
_MAX_WIDENING = 1.25  # how many more vector steps a finer split may take


@dataclass(frozen=True)
class Quota:
    """The trajectories that one worker collects at a time: ids `start` to `stop` - 1.

    Attributes:
        index: Position among the quotas of the same split.
        start: The first trajectory id.
        stop: One after the last trajectory id.
    """

    index: int
    start: int
    stop: int

    @property
    def num_trajectories(self) -> int:
        """How many trajectories the quota has, at least 1."""
        return self.stop - self.start

    @property
    def trajectories(self) -> range:
        """The trajectory ids."""
        return range(self.start, self.stop)


@dataclass(frozen=True, eq=False)
class Packing:
    """Which trajectories each slot of a vector environment runs, one after the other.

    Attributes:
        order: Positions in the packed lengths, grouped by slot, `[num_trajectories]` int64.
        offsets: Slot i runs `order[offsets[i]:offsets[i + 1]]`, `[num_slots + 1]` int64.
        num_vector_steps: Steps until the last slot is done: the load of the fullest slot.
    """

    order: NDArray[np.int64]
    offsets: NDArray[np.int64]
    num_vector_steps: int

    @property
    def num_slots(self) -> int:
        """How many slots are used; each has at least one trajectory."""
        return len(self.offsets) - 1

    def positions(self, slot: int) -> NDArray[np.int64]:
        """Returns what the slot runs, in order: positions in the packed lengths."""
        return self.order[self.offsets[slot] : self.offsets[slot + 1]]


def trajectory_lengths(strategy: DataCollectionStrategy) -> NDArray[np.int32]:
    """Returns the length of each trajectory id, `[num_trajectories]` int32, longest first."""
    lengths = np.arange(strategy.horizon, 0, -1, dtype=np.int32)
    repeated = np.repeat(lengths, strategy.trajectories_per_length[::-1])
    _check_conserved("trajectories", len(repeated), strategy.num_trajectories)
    _check_conserved("steps", int(repeated.sum(dtype=np.int64)), strategy.budget)
    return repeated


def split(lengths: ArrayLike, num_quotas: int) -> list[Quota]:
    """Splits the trajectories into consecutive quotas of nearly the same number of steps.

    The largest quota has as few steps as any consecutive split allows, and the quotas differ by at
    most the longest trajectory (that both are possible is a theorem of Bárány and Grinberg). Within
    these limits each quota takes its fair share of what the quotas before it left.

    Args:
        lengths: Length of each trajectory id, `[num_trajectories]`, longest first.
        num_quotas: How many quotas to make. Fewer are made if there are fewer trajectories, since
            no quota is empty.
    """
    lengths = check_descending_counts("lengths", lengths)
    num_quotas = min(check_count("num_quotas", num_quotas), len(lengths))
    # Steps before each id. A list, because bisect reads single elements.
    before = np.concatenate([[0], np.cumsum(lengths)]).tolist()
    total, longest = before[-1], int(lengths[0])

    def earliest_starts(most: int) -> list[int]:
        """The earliest id at which each quota, from the last, can start with `most` steps each."""
        starts = [len(lengths)]
        for _ in range(num_quotas):
            starts.append(bisect_left(before, before[starts[-1]] - most))
        return starts

    fair = -(-total // num_quotas)
    candidates = range(max(fair, longest), fair + longest + 1)
    fits = bisect_left(candidates, True, key=lambda most: earliest_starts(most)[-1] == 0)
    most = candidates[fits]
    least = max(most - longest, 1)
    # The ids at which the remaining quotas can start and all have `least` to `most` steps are
    # exactly those from `earliest` to `latest`: no trajectory is longer than most - least + 1, so
    # the reach of one start leaves no gap to that of the next.
    earliest = earliest_starts(most)[::-1]
    latest = [len(lengths)]
    for _ in range(num_quotas):
        latest.append(bisect_right(before, before[latest[-1]] - least) - 1)
    latest.reverse()

    edges = [0]
    for k in range(1, num_quotas + 1):
        done = before[edges[-1]]
        low = max(earliest[k], bisect_left(before, done + least))
        high = min(latest[k], bisect_right(before, done + most) - 1)
        share = done + (total - done) / (num_quotas - k + 1)
        nearest = bisect_left(before, share)
        if 2 * share < before[nearest] + before[nearest - 1]:
            nearest -= 1
        edges.append(min(max(nearest, low), high))
    quotas = [Quota(i, *edges[i : i + 2]) for i in range(num_quotas)]
    _check_conserved("trajectories", sum(quota.num_trajectories for quota in quotas), len(lengths))
    _check_conserved("quotas with trajectories", len(set(edges)) - 1, num_quotas)
    return quotas


def choose_split(lengths: ArrayLike, num_workers: int, num_slots: int) -> list[Quota]:
    """Splits the plan: fine enough to share out the tail, coarse enough to keep slots busy.

    Up to 4 quotas per worker. A quota takes as many vector steps as its longest trajectory has, however
    few its slots are, so a finer split of equally long trajectories multiplies the work of environments
    whose cost is per vector step. Mixed lengths split well: each quota holds similar ones. A finer split is
    taken if it needs at most 25 % more vector steps and its quotas have 20,000 steps or more: sending a quota
    costs about 5 ms, which smaller ones would not earn back.

    Args:
        lengths: Length of each trajectory id, `[num_trajectories]`, longest first.
        num_workers: How many will share the quotas.
        num_slots: How many slots the vector environment of each has.
    """
    lengths = check_descending_counts("lengths", lengths)
    num_workers = check_count("num_workers", num_workers)
    # An experiment splits the same plan in each of its iterations.
    return list(_chosen_split(lengths.tobytes(), num_workers, check_count("num_slots", num_slots)))


@lru_cache(maxsize=8)
def _chosen_split(lengths_bytes: bytes, num_workers: int, num_slots: int) -> tuple[Quota, ...]:
    lengths = np.frombuffer(lengths_bytes, dtype=np.int64)

    def vector_steps(quotas: list[Quota]) -> int:
        return sum(pack(lengths[quota.start : quota.stop], num_slots).num_vector_steps for quota in quotas)

    coarse = split(lengths, num_workers)
    affordable = int(lengths.sum()) // (num_workers * _MIN_STEPS_OF_FINE_QUOTA)
    for per_worker in range(min(_MAX_QUOTAS_PER_WORKER, affordable), 1, -1):
        fine = split(lengths, num_workers * per_worker)
        if vector_steps(fine) <= _MAX_WIDENING * vector_steps(coarse):
            return tuple(fine)
    return tuple(coarse)


def pack(lengths: ArrayLike, num_slots: int) -> Packing:
    """Packs the trajectories of one quota into slots, longest first onto the least loaded slot.

    Uses the fewest slots that finish as early as `num_slots` would. The slots are sorted by their load, so
    that those which are done are always behind those which are not, and need not be stepped.

    Args:
        lengths: Length of each trajectory of the quota, `[num_trajectories]`, longest first.
        num_slots: How many slots the vector environment has.
    """
    lengths = check_descending_counts("lengths", lengths)
    # An experiment packs the same plan in each of its iterations.
    return _packed(lengths.tobytes(), check_count("num_slots", num_slots))


@lru_cache(maxsize=32)
def _packed(lengths_bytes: bytes, num_slots: int) -> Packing:
    lengths = np.frombuffer(lengths_bytes, dtype=np.int64)
    slot_of, num_vector_steps = _level(lengths, num_slots)
    loads = np.bincount(slot_of, weights=lengths).astype(np.int64)
    rank = np.empty_like(loads)
    rank[np.argsort(-loads, kind="stable")] = np.arange(len(loads))
    order = np.argsort(rank[slot_of], kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rank[slot_of]))])
    _check_conserved("trajectories", int(np.sum(np.bincount(order) == 1)), len(lengths))
    _check_conserved("steps", int(loads.sum()), int(lengths.sum()))
    _check_conserved("slots with trajectories", int(np.sum(np.diff(offsets) > 0)), len(offsets) - 1)
    _check_conserved("steps of the fullest slot", int(loads.max()), num_vector_steps)
    order.flags.writeable = offsets.flags.writeable = False
    return Packing(order, offsets, num_vector_steps)


def _level(lengths: NDArray[np.int64], num_slots: int) -> tuple[NDArray[np.int64], int]:
    """Returns the slot of each trajectory and the load of the fullest, by levelling the loads."""
    most = min(num_slots, len(lengths))
    slot_of, num_vector_steps = _deal(lengths, most)
    # More slots never finish later, so the fewest can be bisected.
    candidates = range(-(-int(lengths.sum()) // num_vector_steps), most)
    fewest = candidates.start + bisect_left(
        candidates, True, key=lambda num_slots: _deal(lengths, num_slots)[1] <= num_vector_steps
    )
    return _deal(lengths, fewest) if fewest < most else (slot_of, num_vector_steps)


def _deal(lengths: NDArray[np.int64], num_slots: int) -> tuple[NDArray[np.int64], int]:
    """Returns the slot of each trajectory, `[num_trajectories]`, and the load of the fullest slot.

    Of equally loaded slots the lowest is next, so that the same lengths are always dealt alike.
    """
    # One integer per slot, load * num_slots + slot: compares like a tuple, in half the time.
    heap = list(range(num_slots))
    slots = []
    for growth in (lengths * num_slots).tolist():
        least = heap[0]
        slots.append(least % num_slots)
        heapq.heapreplace(heap, least + growth)
    return np.array(slots, dtype=np.int64), max(heap) // num_slots


def _check_conserved(what: str, found: int, planned: int) -> None:
    if found != planned:
        raise RuntimeError(f"planned {planned} {what} but dealt out {found}: a bug in ttray")
