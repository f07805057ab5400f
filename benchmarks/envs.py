"""Steps per second of the batched environments.

Compares each with the same dynamics as 64 single environments in gymnasium's `SyncVectorEnv`
(bare classes, without the wrappers that `gymnasium.make` adds), and Reacher also with the bare
physics and with Gymnasium's own `Reacher-v5`. What is compared runs in turns, in the same process,
and medians over the rounds are printed. Policies and the bookkeeping of rollouts are not measured.
"""

import time
from collections.abc import Callable
from functools import partial

import gymnasium
import mujoco
import numpy as np
from gymnasium.envs.mujoco.reacher_v5 import ReacherEnv as GymnasiumReacher
from gymnasium.vector import SyncVectorEnv
from numpy.typing import NDArray

from benchmarks.cases import NUM_SLOTS
from benchmarks.report import Finding, Reporter, Result
from benchmarks.timing import duration_s, in_turns, ratios
from ttray.envs.corridor import CorridorDenseEnv, CorridorSparseEnv
from ttray.envs.dam import DamEnv
from ttray.envs.evaluation import EvaluationEnv
from ttray.envs.reacher import ReacherEnv, model_path
from ttray.envs.supply_chain import SupplyChainEnv

MIN_RATIO, MIN_SHARE_OF_PHYSICS, MIN_RATIO_TO_GYMNASIUM = 20.0, 0.8, 1.3


def run(rounds: int = 7, numpy_steps: int = 1000, reacher_steps: int = 60) -> Result:
    """Measure all environments.

    Args:
        rounds: Rounds over which medians are taken.
        numpy_steps: Steps of a batch in one round, for the environments in NumPy.
        reacher_steps: Steps of a batch in one round, for Reacher.
    """
    report = Reporter("envs", "Batched environments against single ones")
    report.say(f"{NUM_SLOTS} slots, {rounds} rounds")
    for single in (EvaluationEnv, CorridorSparseEnv, CorridorDenseEnv, DamEnv, SupplyChainEnv):
        batched, sync = _batched(single), SyncVectorEnv([single] * NUM_SLOTS)
        # The slow side takes fewer steps, or it would be most of the benchmark.
        fast = _actions(batched, numpy_steps)
        slow = fast[: max(numpy_steps // 50, 1)]
        _compare(
            report,
            _name(single),
            partial(_steps_per_s, batched, fast),
            {"× SyncVectorEnv": (partial(_steps_per_s, sync, slow), MIN_RATIO)},
            rounds,
        )
    reacher = _batched(ReacherEnv)
    single_reachers = SyncVectorEnv([ReacherEnv] * NUM_SLOTS)
    gymnasium_reachers = SyncVectorEnv([GymnasiumReacher] * NUM_SLOTS)
    actions = _actions(reacher, reacher_steps)
    _compare(
        report,
        "Reacher",
        partial(_steps_per_s, reacher, actions),
        {
            "× SyncVectorEnv": (partial(_steps_per_s, single_reachers, actions), None),
            "× Reacher-v5": (partial(_steps_per_s, gymnasium_reachers, actions), MIN_RATIO_TO_GYMNASIUM),
            "÷ bare mj_step": (partial(_physics_per_s, actions), MIN_SHARE_OF_PHYSICS),
        },
        rounds,
    )
    for single in (EvaluationEnv, CorridorSparseEnv, CorridorDenseEnv, DamEnv, SupplyChainEnv, ReacherEnv):
        for what, found in _reset_us(_batched(single), rounds).items():
            report.add(Finding(_name(single), f"reset {what}, µs", found))
    return report.result()


def _compare(
    report: Reporter,
    name: str,
    batched: Callable[[], float],
    others: dict[str, tuple[Callable[[], float], float | None]],
    rounds: int,
) -> None:
    """Tell the rate of the batched environment, and how it compares with each of the others."""
    rates = in_turns({"steps/s": batched} | {other: rate for other, (rate, _) in others.items()}, rounds)
    ours = rates["steps/s"]
    report.add(Finding(name, "steps/s", tuple(ours)))
    for other, (_, target) in others.items():
        report.add(Finding(name, other, ratios(ours, rates[other]), at_least=target))


def _steps_per_s(env: gymnasium.vector.VectorEnv, actions: NDArray[np.generic]) -> float:
    def step_all() -> None:
        for action in actions:
            env.step(action)

    env.reset(seed=0)
    return len(actions) * NUM_SLOTS / duration_s(step_all)


def _physics_per_s(actions: NDArray[np.generic]) -> float:
    """Return the steps/s of the physics alone: two `mj_step` a step, under the same controls."""
    model = mujoco.MjModel.from_xml_path(str(model_path()))
    slots = [mujoco.MjData(model) for _ in range(NUM_SLOTS)]
    generator = np.random.default_rng(0)
    for data in slots:
        data.qpos[:] = generator.uniform(-0.1, 0.1, 4)
        mujoco.mj_forward(model, data)
    duration_s = 0.0
    for action in actions:
        for data, control in zip(slots, action, strict=True):
            data.ctrl[:] = control
        start = time.perf_counter()
        for data in slots:
            mujoco.mj_step(model, data, 2)
        duration_s += time.perf_counter() - start
    return len(actions) * NUM_SLOTS / duration_s


def _reset_us(env: gymnasium.vector.VectorEnv, rounds: int) -> dict[str, tuple[float, ...]]:
    """Return the µs per slot of seeded resets, of one slot at a time and of all at once."""

    def reset_each() -> None:
        for slot in range(NUM_SLOTS):
            mask = np.zeros(NUM_SLOTS, np.bool_)
            mask[slot] = True
            env.reset(seed=[slot] * NUM_SLOTS, options={"reset_mask": mask})

    env.reset(seed=0)
    measures = {
        "of one": partial(duration_s, reset_each),
        "of all": partial(duration_s, partial(env.reset, seed=0)),
    }
    found = in_turns(measures, rounds)
    return {what: tuple(1e6 * time_s / NUM_SLOTS for time_s in times) for what, times in found.items()}


def _batched(single: type[gymnasium.Env]) -> gymnasium.vector.VectorEnv:
    return gymnasium.make_vec(f"ttray/{_name(single)}-v0", num_envs=NUM_SLOTS)


def _name(single: type[gymnasium.Env]) -> str:
    return single.__name__.removesuffix("Env")


def _actions(env: gymnasium.vector.VectorEnv, steps: int) -> NDArray[np.generic]:
    """Draw actions `[steps, slots, ...]`."""
    env.action_space.seed(0)
    return np.stack([env.action_space.sample() for _ in range(steps)])
