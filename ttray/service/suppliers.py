"""Suppliers of workers: who the dispatcher may send quotas to, asked before every collection.

A fixed number of actors, or as many as the cluster has CPUs for. RLlib's env runners are supplied by
`ttray.rllib.env_runner`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import ray
from ray.autoscaler.sdk import request_resources

from ttray.rollout.environment import EnvironmentMaker
from ttray.service.channel import ActorChannel, Channel
from ttray.service.settings import check_label_selector, check_num_env_runners
from ttray.service.worker import RemoteWorker

logger = logging.getLogger(__name__)

_FIRST_REQUEST = 8  # CPUs, of a cluster that has hardly any
_WORTH_S = 0.05  # a worker is worth having if the plan gives it at least this much to do


@dataclass(frozen=True)
class Demand:
    """What there is to do.

    Attributes:
        num_trajectories: Of the next plan.
        worker_time_s: What the last plan of as many trajectories took, added up over workers, or None.
    """

    num_trajectories: int
    worker_time_s: float | None

    @property
    def num_workers(self) -> int | None:
        """How many workers such a plan keeps busy, or None while nobody knows."""
        if self.worker_time_s is None:
            return None
        return max(min(self.num_trajectories, int(self.worker_time_s / _WORTH_S)), 1)


class Supplier(Protocol):
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
    """A fixed number of plain actors, one CPU each, which Ray restarts whenever they die.

    Args:
        maker: Of the environments.
        number: How many; those that find no place wait until there is one.
        label_selector: Labels of the nodes that may be used, e.g. of one type of CPU.
    """

    def __init__(
        self, maker: EnvironmentMaker, number: int, label_selector: Mapping[str, str] | None = None
    ) -> None:
        # Spread: otherwise an actor inside a trial of Tune could only use what the trial has reserved.
        options: dict[str, Any] = {"num_cpus": 1, "max_restarts": -1, "scheduling_strategy": "SPREAD"}
        self._label_selector = dict(label_selector or {})
        if label_selector:
            options["label_selector"] = self._label_selector
        self._actor_class = ray.remote(**options)(RemoteWorker)
        self._maker = maker
        self._number = number
        self._channels: dict[int, ActorChannel] = {}
        self._next = 0

    def _start(self, number: int) -> None:
        for _ in range(number):
            self._channels[self._next] = ActorChannel(self._actor_class.remote(self._maker))
            self._next += 1

    def channels(self, alive: Collection[int], demand: Demand) -> Mapping[int, Channel]:
        """Always the same, from the first time on."""
        if not self._channels:
            start_ray()
            self._start(self._number)
        return self._channels

    def stop(self, idle: Collection[int]) -> None:
        """Kills them."""
        for channel in self._channels.values():
            ray.kill(channel.actor)
        self._channels = {}


class AutoActors(Actors):
    """As many plain actors as the cluster has CPUs for, looked at before every collection.

    The autoscaler, if there is one, is asked for as many CPUs as the plan keeps busy. It goes no further than
    the limits of its cluster, and the request is taken back at the end.

    Args:
        maker: Of the environments.
        label_selector: Labels of the nodes that may be used.
    """

    def __init__(self, maker: EnvironmentMaker, label_selector: Mapping[str, str] | None = None) -> None:
        super().__init__(maker, 0, label_selector)
        self._requested = 0

    def channels(self, alive: Collection[int], demand: Demand) -> Mapping[int, Channel]:
        """Starts actors where CPUs are free, and ends those for which there are none any more."""
        start_ray()
        total = int(ray.cluster_resources().get("CPU", 0.0))
        free = int(ray.available_resources().get("CPU", 0.0))
        mine = self._channels.keys() & set(alive)
        # Those that are starting hold CPUs already, or will take some of the free ones: never fewer. One
        # always waits, for the first node.
        wanted = max(min(max(len(self._channels), len(mine) + free), total, demand.num_trajectories), 1)
        if wanted > len(self._channels):
            logger.info(
                "starting %d env runners: %d CPUs of %d are free", wanted - len(self._channels), free, total
            )
            self._start(wanted - len(self._channels))
        self._end(len(self._channels) - wanted, mine)
        self._ask(demand, total)
        return self._channels

    def _end(self, number: int, alive: Collection[int]) -> None:
        """Ends actors: first those that are not alive, then the youngest."""
        for worker in sorted(self._channels, key=lambda worker: (worker in alive, -worker))[: max(number, 0)]:
            logger.info("env runner %d has no CPU any more and is ended", worker)
            ray.kill(self._channels.pop(worker).actor)

    def _ask(self, demand: Demand, total: int) -> None:
        """Asks for what the plan keeps busy, at most twice of what there is at a time."""
        if demand.num_workers is not None:
            wanted = min(demand.num_workers, max(2 * total, _FIRST_REQUEST))
            if wanted > self._requested:
                self._request(wanted)

    def _request(self, num_cpus: int) -> None:
        logger.info("asking the autoscaler for %d CPUs", num_cpus)
        request_resources(
            bundles=[{"CPU": 1}] * num_cpus, bundle_label_selectors=[self._label_selector] * num_cpus
        )
        self._requested = num_cpus

    def stop(self, idle: Collection[int]) -> None:
        """Kills them, and takes the request for CPUs back: it would stay in force for ever."""
        super().stop(idle)
        if self._requested:
            self._request(0)


def start_ray() -> None:
    """Starts an embedded Ray where none is connected."""
    if not ray.is_initialized():
        ray.init()


def supplier_of(
    maker: EnvironmentMaker, num_env_runners: int | str, label_selector: Mapping[str, str] | None = None
) -> Supplier | None:
    """The supplier for a number of env runners or "auto"; None for 0, which is this process.

    Raises:
        ValueError: It is neither, or the labels are none.
    """
    number = check_num_env_runners(num_env_runners)
    label_selector = check_label_selector(label_selector, number)
    if isinstance(number, str):
        return AutoActors(maker, label_selector)
    return Actors(maker, number, label_selector) if number else None
