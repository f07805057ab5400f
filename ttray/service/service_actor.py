"""The actor of a service that stays: it starts workers, and tells its leases what clients say.

It is named and detached, as its workers are: Ray starts each again when it dies, and a client whose workers
go on does not notice that the one who lent them is another now.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ray

from ttray.service.builds import build
from ttray.service.channel import ActorChannel
from ttray.service.lease_terms import Loan, Wish
from ttray.service.leases import Leases
from ttray.service.pool_worker import PoolWorker
from ttray.service.service_metrics import ServiceMetrics
from ttray.service.worker_needs import WorkerNeeds

NAMESPACE = "ttray"
"""Of the names of services in a cluster."""

_ANSWER_S = 1.0  # after which a client is answered though nothing has changed: so both know of each other
_TICK_S = 0.25
_CLOSING_S = 5.0  # for environments to close; one that hangs is killed
_MANY_CALLS = 10_000  # of clients that wait at the same time

logger = logging.getLogger(__name__)


class WorkersOfService:
    """The processes of a service's workers.

    Args:
        number: How many; those that find no place wait until there is one.
        needs: Of each.
        num_environments: Kinds of environments that each keeps.
        name: Of the service, if they are to outlive this process.
    """

    def __init__(self, number: int, needs: WorkerNeeds, num_environments: int, name: str = "") -> None:
        made = ray.remote(**needs.options())(PoolWorker)
        self.actors: dict[int, Any] = {
            worker: made.options(**_of_worker(name, worker)).remote(num_environments)
            for worker in range(number)
        }
        self._channels = {worker: ActorChannel(actor, str(needs)) for worker, actor in self.actors.items()}
        # Leases ask for it when an answer comes, in the thread of Ray that brings it: if that waits until Ray
        # has killed somebody, it waits for itself. One by one, because a ping is for the new process.
        self._hand = ThreadPoolExecutor(1, "hand of a service")

    def ping(self, worker: int, on_answer: Any) -> None:
        """See `Hands`."""
        self._hand.submit(self._channels[worker].ping, on_answer)

    def restart(self, worker: int) -> None:
        """See `Hands`."""
        self._hand.submit(self._channels[worker].kill)


def end_actors(actors: Iterable[Any]) -> None:
    """Ends workers; those that have nothing to do close their environments before."""
    actors = list(actors)
    asked = [actor.close.remote() for actor in actors]
    if asked:
        ray.wait(asked, num_returns=len(asked), timeout=_CLOSING_S)
    for actor in actors:
        ray.kill(actor)


def worker_name(name: str, worker: int | str = "") -> str:
    """What the actor of a service's worker is called."""
    return f"{name}: worker {worker}"


def _of_worker(name: str, worker: int) -> dict[str, Any]:
    if not name:
        return {}
    return {
        "name": worker_name(name, worker),
        "namespace": NAMESPACE,
        "lifetime": "detached",
        "get_if_exists": True,  # of the actor's predecessor
    }


class Ticking:
    """A thread that has leases look at the time, and tells the metrics of them.

    Args:
        leases: Whose.
        name: Of the service, for the metrics.
    """

    def __init__(self, leases: Leases, name: str) -> None:
        self._leases, self._metrics = leases, ServiceMetrics(name)
        self._is_over = threading.Event()
        threading.Thread(target=self._run, name=f"service {name}", daemon=True).start()

    def stop(self) -> None:
        """Ends it."""
        self._is_over.set()

    def _run(self) -> None:
        while not self._is_over.wait(_TICK_S):
            self._leases.tick()
            self._metrics.record(self._leases.status())


class ServiceActor:
    """A service in an actor of its own.

    Args:
        name: By which clients find it.
        number: Of workers.
        needs: Of each.
        most: Workers that one client may have at once; None for all.
        num_environments: Kinds of environments that each worker keeps.
    """

    def __init__(
        self, name: str, number: int, needs: WorkerNeeds, most: int | None, num_environments: int
    ) -> None:
        is_second = ray.get_runtime_context().was_current_actor_reconstructed
        self._name, self._needs = name, needs
        self._workers = WorkersOfService(number, needs, num_environments, name)
        self._leases = Leases(number, self._workers, most=most, is_second=is_second)
        self._most = min(most or number, number)
        self._ticking = Ticking(self._leases, name)

    async def hello(self) -> Mapping[str, Any]:
        """What a client must know; plain values, so that any version of ttray can read the build."""
        return {
            "build": build(),
            "actors": self._workers.actors,
            "most": self._most,
            "needs": str(self._needs),
        }

    async def wish(self, wish: Wish) -> Loan:
        """Hears a client; answers when there is something to tell, or after a second."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Loan] = loop.create_future()

        def on_loan(loan: Loan) -> None:
            loop.call_soon_threadsafe(_tell, answer, loan)

        self._leases.wish(wish, on_loan)
        done, _ = await asyncio.wait([answer], timeout=_ANSWER_S)
        if not done:
            self._leases.answer_now(wish)
        return await answer

    async def forget(self, client: str) -> None:
        """A client is gone."""
        self._leases.forget(client)

    async def status(self) -> dict[str, Any]:
        """Workers and clients."""
        return {
            "service": self._name,
            "process": os.getpid(),
            "needs": str(self._needs),
            "most": self._most,
            **self._leases.status(),
        }


def _tell(answer: asyncio.Future[Loan], loan: Loan) -> None:
    if not answer.done():
        answer.set_result(loan)


def start_actor(name: str, number: int, needs: WorkerNeeds, most: int | None, num_environments: int) -> Any:
    """Starts a service on the Ray that this process is connected to; ValueError if its name is taken."""
    made = ray.remote(num_cpus=0, max_restarts=-1, max_concurrency=_MANY_CALLS)(ServiceActor)
    return made.options(name=name, namespace=NAMESPACE, lifetime="detached").remote(
        name, number, needs, most, num_environments
    )
