"""What a slow or a stopped env runner costs: seconds of iterations, with and without copies of late quotas.

The env runners wait for a time in proportion to their steps, as for a slow simulator; so four of them take
the same time on any number of cores, and one can be slower than the others by a given factor.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import ray

from benchmarks.cases import Case
from ttray.data.batch import digest
from ttray.plans.quotas import Quota
from ttray.service.channel import ActorChannel, Channel
from ttray.service.receipt import Failure, Receipt
from ttray.service.service import RolloutService
from ttray.service.worker import Message, RemoteWorker, Work
from ttray.service.worker_sources import Demand
from ttray.settings.training import DispatchSettings

_CASE = Case("ttray/Dam-v0", horizon=360, budget=8_640, gamma=0.95)
_NUM_ENV_RUNNERS = 4


class GivenActors:
    """Supplies actors that somebody else starts and ends.

    Args:
        actors: With the methods of `RemoteWorker`.
    """

    def __init__(self, actors: Sequence[Any]) -> None:
        self._channels = {number: ActorChannel(actor) for number, actor in enumerate(actors)}

    def channels(self, alive: Collection[int], demand: Demand) -> Mapping[int, Channel]:
        """Always the same."""
        return self._channels

    def stop(self, idle: Collection[int]) -> None:
        """They are somebody else's."""


class _PacedWorker(RemoteWorker):
    """Waits after each quota, for so many seconds per step of it."""

    pause_s = 0.0

    def set_pause(self, pause_s: float) -> None:
        """From now on."""
        self.pause_s = pause_s

    def run_quota(self, work: Work, quota: Quota) -> tuple[Receipt | Failure, Message | None]:
        """See base class."""
        answer, message = super().run_quota(work, quota)
        if isinstance(answer, Receipt):
            time.sleep(self.pause_s * answer.num_rows)
        return answer, message


@dataclass(frozen=True)
class Delays:
    """Seconds of iterations, one after the other, all with the bits of the same iteration in one process.

    Attributes:
        undisturbed: Four alike.
        slow: One of four slower, with copies of what is late.
        without_copies: One of four slower, and everybody waits for it.
        stopped: One of four stopped by a signal all the time, with copies.
    """

    undisturbed: list[float]
    slow: list[float]
    without_copies: list[float]
    stopped: list[float]


def measure_delays(rounds: int, *, pause_s: float, slowness: float, stop_s: float) -> Delays:
    """Measures all, on the Ray that is connected.

    Args:
        rounds: Iterations of each kind, after a first one.
        pause_s: What env runners wait, per step.
        slowness: How many times longer the slow one waits.
        stop_s: How long one is stopped; two iterations at least.
    """
    actor_class = ray.remote(num_cpus=0, max_restarts=-1)(_PacedWorker)  # a CPU is no use for waiting
    actors = [actor_class.remote(_CASE.maker()) for _ in range(_NUM_ENV_RUNNERS)]
    try:
        first = actors[0]
        _seconds(_service_of(actors, backup_quotas=False), 0)  # loads code
        ray.get([actor.set_pause.remote(pause_s) for actor in actors])
        service = _service_of(actors, backup_quotas=True)
        undisturbed = [_seconds(service, number % 2) for number in range(rounds + 1)]
        stopped = _while_stopped(service, ray.get(first.ping.remote())[0], stop_s)
        ray.get(first.set_pause.remote(slowness * pause_s))
        service = _service_of(actors, backup_quotas=True)
        slow = [_seconds(service, number % 2) for number in range(rounds + 1)]
        ray.get(first.ping.remote())  # by then it has done what nobody waited for
        service = _service_of(actors, backup_quotas=False)
        without_copies = [_seconds(service, number % 2) for number in range(2)]
    finally:
        for actor in actors:
            ray.kill(actor)
    return Delays(undisturbed, slow, without_copies, stopped)


def _service_of(actors: Sequence[Any], *, backup_quotas: bool) -> RolloutService:
    settings = DispatchSettings(backup_quotas=backup_quotas)
    return RolloutService(_CASE.maker(), supplier=GivenActors(actors), settings=settings)


def _while_stopped(service: RolloutService, process: int, stop_s: float) -> list[float]:
    """Stops an env runner, without a chance to say so, and goes on collecting for a time."""
    os.kill(process, signal.SIGSTOP)
    try:
        until = time.monotonic() + stop_s
        times = [_seconds(service, 0), _seconds(service, 1)]
        while time.monotonic() < until:
            times.append(_seconds(service, len(times) % 2))
        return times
    finally:
        os.kill(process, signal.SIGCONT)


def _seconds(service: RolloutService, iteration: int) -> float:
    started = time.perf_counter()
    handle = service.collect_work(_CASE.work(iteration))
    time_s = time.perf_counter() - started
    assert digest(handle.batch().table) == _digest_alone(iteration), "an env runner changed the bits"
    return time_s


@cache
def _digest_alone(iteration: int) -> str:
    return digest(RolloutService(_CASE.maker()).collect_work(_CASE.work(iteration)).batch().table)
