"""Sources of workers: asked before every collection who the dispatcher may use.

A fixed number of actors, or as many as the cluster has CPUs for.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import ray

from ttray.rollout.environment import EnvironmentMaker
from ttray.service.channel import ActorChannel, Channel
from ttray.service.connection import connect
from ttray.service.room import room
from ttray.service.waiting import NoAnswerError
from ttray.service.worker import RemoteWorker
from ttray.service.worker_needs import WorkerNeeds
from ttray.settings.rules import check_label_selector, check_num_env_runners

logger = logging.getLogger(__name__)

_FIRST_REQUEST = 8  # actors, of a cluster that has hardly any CPUs
_CLOSING_S = 5.0  # for environments to close; one that hangs is killed
_WORTH_S = 0.05  # a worker is worth having if the plan gives it at least this much to do


@dataclass(frozen=True)
class Demand:
    """What there is to do.

    Attributes:
        num_trajectories: Of the next plan.
        worker_time_s: What such a plan takes, added up over workers, or None while nobody knows.
    """

    num_trajectories: int
    worker_time_s: float | None

    @property
    def num_workers(self) -> int | None:
        """How many workers such a plan keeps busy, or None while nobody knows."""
        if self.worker_time_s is None:
            return None
        return max(min(self.num_trajectories, int(self.worker_time_s / _WORTH_S)), 1)


class WorkerSource(Protocol):
    """Gives workers."""

    def channels(self, alive: Collection[int], demand: Demand) -> Mapping[int, Channel]:
        """The workers from now on, by number; a number is never given twice.

        Args:
            alive: Those that answer, as far as is known.
            demand: What there is to do.
        """

    def stop(self, idle: Collection[int]) -> None:
        """Ends what was started.

        Args:
            idle: Those that would answer at once if they were asked to end by themselves.
        """


class Actors:
    """A fixed number of actors, which Ray restarts whenever they die.

    Args:
        maker: Of the environments.
        number: How many; those that find no place wait until there is one.
        needs: Of each.
    """

    def __init__(self, maker: EnvironmentMaker, number: int, needs: WorkerNeeds) -> None:
        self._maker = maker
        self._number = number
        self._needs = needs
        self._channels: dict[int, ActorChannel] = {}
        self._next = 0

    def _start(self, number: int, *, is_spare: bool = False) -> None:
        for _ in range(number):
            worker, self._next = self._next, self._next + 1  # first: an interruption must not give it twice
            actor = self._actor_class.remote(self._maker)
            self._channels[worker] = ActorChannel(actor, str(self._needs), is_spare=is_spare)

    @cached_property
    def _actor_class(self) -> Any:
        """Made when there is a Ray, which knows of placement groups."""
        return ray.remote(**self._needs.options())(RemoteWorker)

    def channels(self, alive: Collection[int], demand: Demand) -> Mapping[int, Channel]:
        """Always the same, from the first time on."""
        missing = self._number - len(self._channels)
        if missing:
            connect(self._number)
            self._start(missing)
        return self._channels

    def stop(self, idle: Collection[int]) -> None:
        """Kills them; those that have nothing to do close their environments before."""
        asked = [self._channels[worker].actor.close.remote() for worker in self._channels.keys() & set(idle)]
        if asked:
            ray.wait(asked, num_returns=len(asked), timeout=_CLOSING_S)
        for channel in self._channels.values():
            ray.kill(channel.actor)
        self._channels = {}


class AutoActors(Actors):
    """As many plain actors as the cluster has CPUs for, looked at before every collection.

    Where the plan would keep more of them busy, some more are started, which wait for a CPU: an autoscaler,
    if there is one, sees them and adds nodes, within the limits of its cluster. A request for resources would
    replace that of another run, because a cluster has only one; actors that wait add up, and end with the
    driver.

    Args:
        maker: Of the environments.
        needs: Of each.
    """

    def __init__(self, maker: EnvironmentMaker, needs: WorkerNeeds) -> None:
        super().__init__(maker, 0, needs)
        self._num_asked_for = 0

    def channels(self, alive: Collection[int], demand: Demand) -> Mapping[int, Channel]:
        """Starts actors where CPUs are free, and ends those for which there are none any more."""
        connect("auto")
        for worker in self._channels.keys() & set(alive):
            self._channels[worker].is_spare = False
        members = [worker for worker, channel in self._channels.items() if not channel.is_spare]
        num_spare = len(self._channels) - len(members)
        try:
            total, free = room(self._needs)
        except NoAnswerError:  # goes on with those that are there
            self._start(0 if members else 1)
            return self._channels
        free -= min(num_spare, free)  # they are about to take them
        # Those that are starting hold CPUs already, or will take some of the free ones: never fewer. One
        # always waits, for the first node.
        num_mine = len(set(members) & set(alive))
        useful = max(len(members), min(num_mine + free, demand.num_trajectories))
        wanted = max(min(useful, total), 1)
        if wanted > len(members):
            logger.info("starting %d env runners: %d CPUs of %d are free", wanted - len(members), free, total)
            self._start(wanted - len(members))
        # First those that are not alive, then the youngest.
        order = sorted(members, key=lambda worker: (worker in alive, -worker))
        self._end(order[: max(len(members) - wanted, 0)])
        self._ask_for_more(demand, total)
        return self._channels

    def _end(self, workers: Sequence[int]) -> None:
        for worker in workers:
            logger.info("env runner %d has no CPU any more and is ended", worker)
            ray.kill(self._channels.pop(worker).actor)

    def _ask_for_more(self, demand: Demand, total: int) -> None:
        """Has as many wait as the plan would keep busy, at most twice of what there is at a time."""
        if demand.num_workers is not None:
            wanted = min(demand.num_workers, max(2 * total, _FIRST_REQUEST))
            self._num_asked_for = max(self._num_asked_for, wanted)
        missing = self._num_asked_for - len(self._channels)
        if missing > 0:
            logger.info("%d more env runners wait for CPUs that an autoscaler may add", missing)
            self._start(missing, is_spare=True)


def worker_source(
    maker: EnvironmentMaker, num_env_runners: int | str, needs: WorkerNeeds
) -> WorkerSource | None:
    """The supplier for a number of env runners or "auto"; None for 0, which is this process.

    Raises:
        ValueError: It is neither, or the labels are none.
    """
    number = check_num_env_runners(num_env_runners)
    check_label_selector(needs.label_selector, number)
    if isinstance(number, str):
        return AutoActors(maker, needs)
    return Actors(maker, number, needs) if number else None
