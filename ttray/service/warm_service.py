"""`ttray.Service`: workers that stay between calls, of this process or under a name for many.

In one process they end with the `with` block. Under a name they live on a Ray until they are stopped, and
every process that joins it may use them.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Self

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, GetTimeoutError

from ttray.boundary.fields import check_count, optional
from ttray.rollout.environment import EnvironmentMaker
from ttray.service.builds import BuildError, check_build
from ttray.service.channel import when_done
from ttray.service.cluster_address import is_on_cluster
from ttray.service.connection import connect
from ttray.service.lease_terms import Wish
from ttray.service.leases import Leases
from ttray.service.lent_workers import Lender, LentWorkers, OnAnswer, ServiceError
from ttray.service.own_code import own_modules
from ttray.service.pool_worker import NUM_ENVIRONMENTS
from ttray.service.residents import check_name, join_resident
from ttray.service.residents import names as residents
from ttray.service.sent_work import Seals
from ttray.service.service_actor import (
    NAMESPACE,
    Ticking,
    WorkersOfService,
    end_actors,
    start_actor,
    worker_name,
)
from ttray.service.waiting import ask
from ttray.service.worker_needs import WorkerNeeds
from ttray.settings.rules import (
    check_label_selector,
    check_num_env_runners,
    check_priority,
    check_service,
)

_STARTS_S = 60.0
_AGAIN_S = 0.5

_OF_PROCESS = "of-process-"
_numbers = itertools.count(1)
_here: dict[str, Service] = {}
_named: dict[str, _NamedLender] = {}
_connecting = threading.Lock()


class Service:
    """Workers that stay: a context manager, for `service=` of everything that collects.

    They start with the first call that needs them, keep their environments for the next, and end with the
    block. Several threads may use them at once, and share them.

    Args:
        num_env_runners: Workers: processes of their own, of one CPU each.
        label_selector: Labels of the nodes that they may use.
        max_workers_per_client: Most workers that one call, or one training, has at a time; all unless given.
        num_environments: Kinds of environments that each worker keeps.
    """

    def __init__(
        self,
        num_env_runners: int,
        *,
        label_selector: dict[str, str] | None = None,
        max_workers_per_client: int | None = None,
        num_environments: int = NUM_ENVIRONMENTS,
    ) -> None:
        self._number = check_number(num_env_runners)
        check_label_selector(label_selector, self._number)
        self._needs = WorkerNeeds(label_selector=label_selector)
        self._most = _check_most(max_workers_per_client)
        self._num_environments = check_count("num_environments", num_environments)
        self.name = f"{_OF_PROCESS}{os.getpid()}-{next(_numbers)}"
        """By which settings know it, in this process."""
        self.seals, self.tried = Seals(), set[tuple[str, str]]()
        self.most = min(self._most or self._number, self._number)
        self._lock = threading.Lock()
        self._workers: WorkersOfService | None = None
        self._leases: Leases | None = None
        self._ticking: Ticking | None = None
        self._is_over = False
        _here[self.name] = self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the workers; there is no way back."""
        with self._lock:
            self._is_over = True
            _here.pop(self.name, None)
            if self._ticking is not None and self._workers is not None:
                self._ticking.stop()
                end_actors(self._workers.actors.values())
                self._workers = self._leases = self._ticking = None

    @property
    def actors(self) -> Mapping[int, Any]:
        """The Ray actors that collect, by number; started if they are not."""
        self._start()
        return {} if self._workers is None else self._workers.actors

    def status(self) -> dict[str, Any]:
        """Workers and clients, what they are at, and how long they wait."""
        found = {"workers": [], "clients": []} if self._leases is None else self._leases.status()
        return {"service": self.name, "needs": str(self._needs), "most": self.most, **found}

    def _start(self) -> Leases:
        with self._lock:
            if self._is_over:
                raise _closed(self.name)
            if self._leases is None:
                connect(self._number)
                self._workers = WorkersOfService(self._number, self._needs, self._num_environments)
                self._leases = Leases(self._number, self._workers, most=self._most, expires=False)
                self._ticking = Ticking(self._leases, self.name)
            return self._leases

    def wish(self, wish: Wish, on_answer: OnAnswer) -> None:
        """See `Lender`."""
        self._start().wish(wish, on_answer)

    def forget(self, client: str) -> None:
        """See `Lender`."""
        if self._leases is not None:
            self._leases.forget(client)

    @staticmethod
    def start(
        name: str,
        num_env_runners: int,
        *,
        label_selector: dict[str, str] | None = None,
        max_workers_per_client: int | None = None,
        num_environments: int = NUM_ENVIRONMENTS,
    ) -> None:
        """Starts a service under a name on the Ray that this process is connected to, or joins.

        It stays until it is stopped, or that Ray is: an embedded one ends with its process. `ttray service
        start` starts one that stays where there is no cluster.

        Args:
            name: For `service=` and `--service`.
            num_env_runners: As for `Service`, and so all others.
            label_selector: See there.
            max_workers_per_client: See there.
            num_environments: See there.

        Raises:
            ServiceError: There is one of that name.
        """
        check_name(name)
        number = check_number(num_env_runners)
        check_label_selector(label_selector, number)
        most = _check_most(max_workers_per_client)
        check_count("num_environments", num_environments)
        connect(number)
        try:
            needs = WorkerNeeds(label_selector=label_selector)
            actor = start_actor(name, number, needs, most, num_environments)
            ray.get(actor.hello.remote(), timeout=_STARTS_S)
        except ValueError as problem:
            raise ServiceError(
                f"there is a service {name!r} already; use it, stop it (ttray service stop {name}), or "
                "choose another name"
            ) from problem

    @staticmethod
    def stop(name: str) -> None:
        """Ends a service and its workers; who uses it gets an error.

        Raises:
            ServiceError: There is none of that name.
        """
        actor = _actor_of(name)
        ray.kill(actor)
        end_actors(
            ray.get_actor(each, namespace=NAMESPACE)
            for each in _named_actors()
            if each.startswith(worker_name(name))
        )
        _named.pop(name, None)

    @staticmethod
    def status_of(name: str) -> dict[str, Any]:
        """The workers of a service and its clients, what they are at, and how long they wait.

        Raises:
            ServiceError: There is none of that name.
        """
        found: dict[str, Any] = _answer_of(name, _actor_of(name).status)
        return found


class _NamedLender:
    """A service under a name, as this process sees it."""

    def __init__(self, name: str) -> None:
        self.name, self._actor = name, _actor_of(name)
        greeting = _answer_of(name, self._actor.hello)
        try:
            check_build(greeting.get("build"), f"service {name!r}")
        except BuildError as problem:
            raise BuildError(
                f"{problem}; then start the service again (ttray service stop {name}, ttray service start)"
            ) from None
        self.actors: Mapping[int, Any] = greeting["actors"]
        self.most: int = greeting["most"]
        self.seals, self.tried = Seals(), set[tuple[str, str]]()
        self.session = ray.get_runtime_context().get_job_id()

    def is_current(self) -> bool:
        """Whether the service is still the one that this process knows."""
        try:
            return bool(
                ray.is_initialized()
                and self.session == ray.get_runtime_context().get_job_id()
                and ray.get_actor(self.name, namespace=NAMESPACE) == self._actor
            )
        except ValueError:
            return False

    def wish(self, wish: Wish, on_answer: OnAnswer) -> None:
        when_done(self._actor.wish.remote(wish), on_answer)

    def forget(self, client: str) -> None:
        self._actor.forget.remote(client)


def lender_of(service: str) -> Lender:
    """The service of a name; joins the Ray where it is.

    Raises:
        ServiceError: There is none.
        BuildError: It computes with other software than this process.
    """
    if service in _here:
        return _here[service]
    if service.startswith(_OF_PROCESS):
        raise _closed(service)
    with _connecting:
        known = _named.get(service)
        if known is None or not known.is_current():
            known = _named[service] = _NamedLender(service)
        return known


def _closed(name: str) -> ServiceError:
    return ServiceError(f"service {name} is closed; collect inside of its with block, in its process")


def lent_workers(service: str | Service, maker: EnvironmentMaker, priority: float = 1.0) -> LentWorkers:
    """The workers of a service for one client, which may be told of in its status.

    Args:
        service: Its name, or a `ttray.Service`.
        maker: Of the environments.
        priority: Beside other clients.
    """
    return LentWorkers(lender_of(check_service(service)), maker.name, check_priority(priority))


def known_maker(service: str | Service, maker: EnvironmentMaker) -> EnvironmentMaker:
    """The maker of the same environments that was used there before, if any: it knows their facts."""
    return lender_of(check_service(service)).seals.same(maker, own_modules())


def _actor_of(name: str) -> Any:
    """The actor of a service, on the Ray around, or on the one that `ttray service start` has started."""
    check_name(name)
    if not join_resident(name) and not ray.is_initialized():
        if not is_on_cluster():
            raise _missing(name, "this machine", residents())
        connect(0)
    try:
        return ask("where a service is", partial(ray.get_actor, name, namespace=NAMESPACE))
    except ValueError:
        found = [each for each in _named_actors() if worker_name("") not in each]
        where = f"the Ray at {ray.get_runtime_context().gcs_address}"
        raise _missing(name, where, found) from None


def _answer_of(name: str, method: Any) -> Any:
    """What the actor of a service answers, once it does: it may be about to be started again."""
    deadline = time.monotonic() + _STARTS_S
    while True:
        try:
            return ray.get(method.remote(), timeout=_STARTS_S)
        except ActorUnavailableError as problem:
            if time.monotonic() > deadline:
                raise ServiceError(f"service {name!r} does not come back: {problem}") from None
            time.sleep(_AGAIN_S)
        except (ActorDiedError, GetTimeoutError) as problem:
            raise ServiceError(
                f"service {name!r} does not answer ({type(problem).__name__}); stop it and start it again "
                f"(ttray service stop {name}, ttray service start {name})"
            ) from None


def _missing(name: str, where: str, others: list[str]) -> ServiceError:
    there = f"; there is {', '.join(others)}" if others else ""
    return ServiceError(
        f"there is no service {name!r} on {where}{there}. Start it (ttray service start {name}), or leave "
        "service out"
    )


def _named_actors() -> list[str]:
    found = ask("which services there are", partial(ray.util.list_named_actors, all_namespaces=True))
    return sorted(each["name"] for each in found if each["namespace"] == NAMESPACE)


def check_number(number: Any) -> int:
    """Returns a number of workers for a service."""
    found = check_num_env_runners(number)
    if not isinstance(found, int) or found < 1:
        raise ValueError(f"a service needs a number of env runners, at least 1, found {found!r}")
    return found


_check_most = partial(optional(partial(check_count, minimum=1)), "max_workers_per_client")
