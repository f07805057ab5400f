"""How the optimisation grows: with threads, with env runners that hold the rows, and with the rows.

What is timed is a step of the search: a gradient and two evaluations of the bound, as a line search needs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any

import gymnasium
import ray
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from benchmarks import memory
from benchmarks.report import Finding, Reporter, plural
from benchmarks.stragglers import GivenActors
from benchmarks.timing import duration_s, in_turns, ratios
from ttray.optim.local_evaluator import BoundEvaluator, LocalEvaluator
from ttray.optim.modules import trainable_parameters
from ttray.optim.shard_bound import BoundSpec, Request
from ttray.optim.shards import cut
from ttray.plans import dcs
from ttray.rllib.learner import forward_train
from ttray.rllib.policies import policy_of_module
from ttray.rollout.environment import EnvironmentMaker
from ttray.runs.presets import PRESETS
from ttray.runs.run import Run
from ttray.service.connection import connect
from ttray.service.handle import BatchHandle
from ttray.service.remote_evaluator import RemoteEvaluator
from ttray.service.service import RolloutService
from ttray.service.shard_cache import as_array
from ttray.service.worker import RemoteWorker
from ttray.settings.improvement import ImprovementSettings

THREAD_ROWS = (8_640, 10**5, 10**6)
WORKER_ROWS = (10**4, 10**5, 10**6)
SIZES = (10**5, 10**7)

_MIN_THREADS, _MIN_WORKERS = 1.7, 1.6  # times as fast with two
_FEW, _LARGE = 10**5, 10**6  # rows from which these are promised
_MAX_TIME_PER_ROW, _MAX_GIB = 1.2, 12.0


@dataclass(frozen=True)
class _Problem:
    """A preset's policy and a plan of any size."""

    preset: str
    gamma: float
    rows: int

    @property
    def settings(self) -> ImprovementSettings:
        return Run.of(preset=self.preset, gamma=self.gamma, num_env_runners=0).config().improvement_settings()

    def module(self) -> nn.Module:
        config = Run.of(preset=self.preset, gamma=self.gamma, num_env_runners=0).config()
        environment = gymnasium.make(PRESETS[self.preset].environment)
        built: nn.Module = config.get_rl_module_spec(env=environment).build()
        return built

    def service(self) -> RolloutService:
        return RolloutService(EnvironmentMaker.of(PRESETS[self.preset].environment))

    def collect(self, service: RolloutService, module: nn.Module, in_parts: bool = False) -> BatchHandle:
        strategy = dcs.truncated(PRESETS[self.preset].horizon, self.rows, self.gamma)
        return service.collect(strategy, policy_of_module(module), gamma=self.gamma, in_parts=in_parts)

    def spec(self, module: nn.Module, handle: BatchHandle) -> BoundSpec:
        return BoundSpec(handle.info, module, forward_train, self.settings)


def run_threads(report: Reporter, sizes: Sequence[int], rounds: int) -> None:
    """A step of the search with one and with two threads of one process, in turns."""
    for rows in sizes:
        problem = _Problem("dam", 0.95, rows)
        module = problem.module()
        with problem.service() as service:
            handle = problem.collect(service, module)
        spec = problem.spec(module, handle)
        with (
            LocalEvaluator.whole(spec, handle.batch(), 1) as one,
            LocalEvaluator.whole(spec, handle.batch(), 2) as two,
        ):
            found = in_turns({"1": _step_of(one, module), "2": _step_of(two, module)}, rounds)
        case, least = f"dam, {rows:,} rows", _MIN_THREADS if rows >= _FEW else None
        report.add(
            Finding(case, "ms, 1 thread", tuple(1e3 * second for second in found["1"])),
            Finding(case, "1 → 2 threads", ratios(found["1"], found["2"]), at_least=least),
        )


def run_workers(report: Reporter, sizes: Sequence[int], rounds: int) -> None:
    """The same in the learner and by one and two env runners, and what travels."""
    connect(2)
    maker = EnvironmentMaker.of(PRESETS["dam"].environment)
    actors = [ray.remote(num_cpus=1)(RemoteWorker).remote(maker) for _ in range(2)]
    for rows in sizes:
        problem = _Problem("dam", 0.95, rows)
        module = problem.module()
        found: dict[str, list[float]] = {}
        for number in (1, 2):
            service = RolloutService(maker, supplier=GivenActors(actors[:number]))
            while True:  # until all of them hold rows
                handle = problem.collect(service, module, in_parts=True)
                if handle.stats.num_env_runners == len(handle.workers) == number:
                    break
            spec = problem.spec(module, handle)
            with RemoteEvaluator(spec, handle, timeout_s=600.0, num_threads=1) as holder:
                found |= in_turns({str(number): _step_of(holder, module)}, rounds)
        with LocalEvaluator.whole(spec, handle.batch(), os.cpu_count() or 1) as here:
            found |= in_turns({"learner": _step_of(here, module)}, rounds)
        case, least = f"dam, {rows:,} rows", _MIN_WORKERS if rows >= _LARGE else None
        report.add(
            Finding(case, "1 → 2 workers", ratios(found["1"], found["2"]), at_least=least),
            Finding(case, "learner ÷ 2 workers", ratios(found["learner"], found["2"])),
        )
        for what in ("sums", "gradient"):
            report.add(Finding(case, f"bytes, {what}", (float(_bytes_of(spec, handle, module, what)),)))
    for actor in actors:
        ray.kill(actor)


def run_sizes(report: Reporter, sizes: Sequence[int], rounds: int) -> None:
    """Time per row and the peak of memory of a process that collects and optimises, by the rows."""
    per_row: list[tuple[float, ...]] = []
    for rows in sizes:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            times, peak_gib = pool.submit(_optimise, rows, rounds).result()
        per_row.append(tuple(1e9 * second / rows for second in times))
        case = plural(rows, "row")
        report.add(
            Finding(case, "ns per row", per_row[-1]),
            Finding(case, "peak, GiB", (peak_gib,), at_most=_MAX_GIB),
        )
    ratio = ratios(per_row[-1], per_row[0])
    report.add(
        Finding(f"{sizes[-1]:,} ÷ {sizes[0]:,} rows", "time per row", ratio, at_most=_MAX_TIME_PER_ROW)
    )


def _optimise(rows: int, rounds: int) -> tuple[list[float], float]:
    problem = _Problem("corridor-dense", 0.99, rows)
    module = problem.module()
    with problem.service() as service:
        handle = problem.collect(service, module)
    with LocalEvaluator.whole(problem.spec(module, handle), handle.batch(), os.cpu_count() or 1) as holder:
        times = in_turns({"": _step_of(holder, module)}, rounds)[""]
    return times, memory.peak() / 2**30


def _step_of(holder: BoundEvaluator, module: nn.Module) -> Callable[[], float]:
    """Times a gradient and two evaluations a little beside the behaviour policy."""
    moved = _moved(module)
    holder.answer(Request("facts"))  # who is asked first fetches and prepares

    def step() -> None:
        holder.answer(Request("gradient", moved, -0.1))
        holder.answer(Request("sums", moved))
        holder.answer(Request("sums", moved))

    return partial(duration_s, step)


def _moved(module: nn.Module) -> Tensor:
    start = parameters_to_vector(trainable_parameters(module)).detach()
    return start + 1e-3 * torch.randn(start.shape, generator=torch.Generator().manual_seed(0))


def _bytes_of(spec: BoundSpec, handle: BatchHandle, module: nn.Module, what: Any) -> int:
    """Bytes that travel for a request to all workers and for their answers, without Ray's own."""
    moved = _moved(module)
    sent = received = 0
    parts = cut(spec.info.strategy)
    for worker in handle.workers:
        mine = [r for r, maker in zip(handle.receipts, handle.makers, strict=True) if maker == worker]
        sent += len(ray.cloudpickle.dumps((what, as_array(moved), -0.1, [r.quota for r in mine])))
        # A range of parts covers at most two nodes on each level of the tree.
        nodes = len(mine) * max(len(parts).bit_length() - 1, 1)
        value = moved.double() if what == "gradient" else torch.zeros(2, dtype=torch.float64)
        received += len(ray.cloudpickle.dumps({(n, n + 1): as_array(value) for n in range(nodes)}))
    return sent + received
