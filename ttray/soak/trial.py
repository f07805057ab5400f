"""A soak: a training whose workers are killed, compared in every iteration with one left in peace."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

from ray.exceptions import RayError

from ttray.boundary.fields import check_count, check_positive
from ttray.data.batch import digest
from ttray.numerics.memory import resident_bytes
from ttray.rllib.algorithm import TTPOIS
from ttray.runs.run import Run
from ttray.runs.signals import stop_requests
from ttray.settings.training import SETTINGS
from ttray.soak.clients import through_service
from ttray.soak.fault_injector import FaultInjector
from ttray.soak.nodes import ray_to_disturb
from ttray.soak.result import Iteration, SoakResult
from ttray.soak.schedule import Schedule

OnIteration = Callable[[SoakResult], None]


def soak(
    run: Run,
    *,
    minutes: float = 30.0,
    every_s: float = 10.0,
    num_nodes: int = 0,
    num_clients: int = 0,
    stop_s: tuple[float, float] = (2.0, 15.0),
    on_iteration: OnIteration | None = None,
) -> SoakResult:
    """Trains a run while its workers are killed, and the same run in this process, where nothing dies.

    The second is a step behind, so that a difference is known in the iteration in which it arises, and ends
    the soak; so does Ctrl-C, or an error of the disturbed training, which is then in the result.

    Args:
        run: What to train; needs env runners, for somebody must die.
        minutes: When to stop. The clock, and the injector, start after the first iteration.
        every_s: Mean time between disturbances.
        num_nodes: Of a cluster inside this machine, whose nodes are lost, too; 0 for an embedded Ray.
        num_clients: Other programs that collect through the same service, and are killed, too; with 0 there
            is no service, and the run has its env runners for itself.
        stop_s: The shortest and the longest time for which an env runner is stopped.
        on_iteration: Told the result so far.
    """
    if not isinstance(run.num_env_runners, int) or run.num_env_runners < 1:
        raise ValueError(f"a soak needs a number of env runners to disturb, found {run.num_env_runners!r}")
    check_positive("minutes", minutes)
    check_count("num_nodes", num_nodes, 0)
    check_count("num_clients", num_clients, 0)
    schedule = Schedule(
        run.seed, every_s, loses_nodes=num_nodes > 0, kills_clients=num_clients > 0, stop_s=stop_s
    )
    calm = _in_peace(run).config()
    for config in (run.config(), calm):
        config.validate()
    result = SoakResult(run, schedule)
    with (
        stop_requests() as requests,
        ray_to_disturb(run.num_env_runners, num_nodes) as nodes,
        through_service(run, num_clients) as (disturbed, clients),
    ):
        pair = disturbed.config().build_algo(), calm.build_algo()
        processes = pair[0].worker_processes if clients is None else clients.processes_of_service
        injector = FaultInjector(schedule, processes, nodes, clients)
        result.disturbances = injector.struck
        try:
            first = _iteration(pair, injector)  # env runners start, and nobody strikes
            result.iterations.append(replace(first, begun_s=-first.time_s))
            with injector:
                while injector.now_s < 60.0 * minutes and not requests and result.is_same:
                    result.iterations.append(_iteration(pair, injector))
                    if clients is not None:
                        clients.check()
                    if on_iteration:
                        on_iteration(result)
        except (RuntimeError, RayError) as error:  # of the disturbed one: the other has nothing to fail on
            result.error = str(error)
        finally:
            for algorithm in pair:
                algorithm.stop()
    return result


def _in_peace(run: Run) -> Run:
    """The same run in this process."""
    settings = {key: value for key, value in run.settings.items() if SETTINGS[key].changes_results}
    return replace(run, num_env_runners=0, label_selector=None, settings=settings)


def _iteration(pair: tuple[TTPOIS, TTPOIS], injector: FaultInjector) -> Iteration:
    """Trains both for an iteration, the injector beside the first of them alone."""
    disturbed, calm = pair
    begun_s = injector.now_s
    with injector.striking():
        counts = disturbed.train()["env_runners"]
        ended_s = injector.now_s
    calm.train()
    return Iteration(
        begun_s=begun_s,
        time_s=ended_s - begun_s,
        num_env_runners=int(counts["num_env_runners"]),
        num_quotas_redispatched=int(counts["num_quotas_redispatched"]),
        num_quotas_backed_up=int(counts["num_quotas_backed_up"]),
        memory_bytes=resident_bytes(),
        is_same=_bits_of(disturbed) == _bits_of(calm),
    )


def _bits_of(algorithm: TTPOIS) -> tuple[str, str]:
    """Digests of the weights after an iteration and of its batch."""
    hasher = hashlib.sha256()
    for name, weight in sorted(algorithm.get_module().state_dict().items()):
        hasher.update(name.encode() + weight.numpy().tobytes())
    return hasher.hexdigest(), digest(algorithm.last_batch)
