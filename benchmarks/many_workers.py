"""One driver and many env runners: what a quota costs the driver, and a hundred processes that share a plan.

The many are simulated: they answer at once, so that what is measured is the driver.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ray

from benchmarks import memory
from benchmarks.cases import Case
from benchmarks.stragglers import GivenActors
from ttray.data.batch import digest
from ttray.plans.quotas import Quota
from ttray.service.channel import Answer, Channel
from ttray.service.receipt import Receipt
from ttray.service.service import RolloutService, plan_quotas
from ttray.service.worker import RemoteWorker, RolloutWorker, Work, sign_of_life
from ttray.service.worker_sources import Demand
from ttray.settings.training import DispatchSettings

_SHORT = Case("ttray/CorridorDense-v0", horizon=10, budget=10, gamma=None)  # one trajectory of a quota
_SHARED = Case("ttray/Dam-v0", horizon=360, budget=86_400, gamma=0.95)
_NUM_CALLS = 1_000
_AT_A_TIME = 10  # processes that start together
_LEFT_FREE = 2 * 10**9  # bytes; Ray ends processes where less than a twentieth is left


class _ReadyWorkers:
    """Supplies simulated workers, which have an answer to every quota before they are asked."""

    needs, is_spare = "nothing", False

    def __init__(self, answers: Sequence[Answer], number: int) -> None:
        self._answers, self._number = answers, number

    def channels(self, alive: Collection[int], demand: Demand) -> dict[int, Channel]:
        return dict.fromkeys(range(self._number), self)

    def send(self, work: Any, quota: Quota, on_answer: Callable[[Answer], None]) -> None:
        on_answer(self._answers[quota.index])

    def ask(self, question: Any, values: Any, on_answer: Callable[[Any], None]) -> None:
        """Nobody computes a bound."""

    def ping(self, on_answer: Callable[[Any], None]) -> None:
        on_answer(sign_of_life())

    def kill(self) -> None:
        """Nobody hangs."""

    def stop(self, idle: Collection[int]) -> None:
        """Nothing was started."""


def driver_ms_per_quota(num_quotas: int, num_env_runners: int, rounds: int) -> list[float]:
    """The driver's own time for whole collections, from the plan to the proof, divided by their quotas.

    Without Python's search for garbage, as in `timeit`: it goes through all objects of this process, every
    few batches, and triples the time of the batch that it falls on.

    Args:
        num_quotas: Of one trajectory each; a multiple of the next.
        num_env_runners: Simulated ones.
        rounds: How many collections.
    """
    case = replace(_SHORT, budget=_SHORT.horizon * num_quotas)
    work = case.work(0)
    settings = DispatchSettings(quotas_per_env_runner=num_quotas // num_env_runners)
    quotas = plan_quotas(work, num_env_runners, settings)
    receipt, table = RolloutWorker(case.maker()).collect(work, quotas[0])
    assert isinstance(receipt, Receipt)
    answers = [Answer(replace(receipt, quota=quota), table) for quota in quotas]
    service = RolloutService(
        case.maker(), supplier=_ReadyWorkers(answers, num_env_runners), settings=settings
    )
    service.collect_work(work)  # meets its env runners
    times_ms = []
    gc.disable()
    try:
        for _ in range(rounds):
            started = time.thread_time()
            handle = service.collect_work(work)
            times_ms.append(1e3 * (time.thread_time() - started) / num_quotas)
            assert handle.stats.num_quotas == num_quotas
    finally:
        gc.enable()
    return times_ms


class _Idler:
    def run_quota(self, work: Work, quota: Quota) -> None:
        """Does nothing, so that only the calls cost."""


def microseconds_per_call(rounds: int) -> list[float]:
    """What sending a quota to a real env runner costs the driver, which the simulated ones do not show."""
    actor = ray.remote(num_cpus=0)(_Idler).remote()
    reference, quota = ray.put(_SHORT.work(0)), Quota(0, 0, 1)
    ray.get(actor.run_quota.remote(reference, quota))
    times_us = []
    for _ in range(rounds):
        started = time.perf_counter()
        calls = [actor.run_quota.remote(reference, quota) for _ in range(_NUM_CALLS)]
        times_us.append(1e6 * (time.perf_counter() - started) / _NUM_CALLS)
        ray.get(calls)
    ray.kill(actor)
    return times_us


@dataclass(frozen=True)
class Crowd:
    """A plan that many processes have shared.

    Attributes:
        number: Of the processes.
        used: Of those that had a part in it.
        start_s: Until all were there.
        collect_s: Of the collection.
        megabytes: Of memory of its own that a process has.
        is_same: Whether the batch has the bits of one process.
    """

    number: int
    used: int
    start_s: float
    collect_s: float
    megabytes: float
    is_same: bool


def collect_in_a_crowd(number: int) -> Crowd:
    """Collects a plan on real env runners of 0.02 CPU each, as many as there is memory for.

    They start ten at a time, and each collects a quota: by then it has all the memory that it will need, and
    what it takes from the others can be seen. Files that all of them have loaded are in memory once.

    Args:
        number: At most.
    """
    work, settings, started = _SHARED.work(0), DispatchSettings(), time.perf_counter()
    shared, quota = ray.put(work), plan_quotas(work, number, settings)[0]
    actor_class = ray.remote(num_cpus=0.02, max_restarts=-1)(RemoteWorker)
    actors: list[Any] = []
    processes: list[int] = []
    try:
        while num_more := min(_AT_A_TIME, number - len(actors), _num_that_fit(processes)):
            more = [actor_class.remote(_SHARED.maker()) for _ in range(num_more)]
            actors += more
            ray.get([actor.run_quota.remote(shared, quota) for actor in more])
            processes += [pid for pid, *_ in ray.get([actor.ping.remote() for actor in more])]
        start_s = time.perf_counter() - started
        service = RolloutService(_SHARED.maker(), supplier=GivenActors(actors), settings=settings)
        service.collect_work(work)  # meets its env runners
        handle = service.collect_work(work)
        return Crowd(
            number=len(actors),
            used=handle.stats.num_env_runners,
            start_s=start_s,
            collect_s=handle.stats.time_s,
            megabytes=sum(map(memory.own, processes)) / len(processes) / 1e6,
            is_same=digest(handle.batch().table) == _digest_alone(work),
        )
    finally:
        for actor in actors:
            ray.kill(actor)


def _digest_alone(work: Work) -> str:
    return digest(RolloutService(_SHARED.maker()).collect_work(work).batch().table)


def _num_that_fit(processes: Sequence[int]) -> int:
    """How many more processes like the last of these there is memory for."""
    if not processes:
        return _AT_A_TIME
    return max(0, memory.available() - _LEFT_FREE) // memory.own(processes[-1])
