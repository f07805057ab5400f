"""Steps per second of the batched environments: `python -m ttray.experiments.benchmarks.envs`.

Compares each with the same dynamics as 64 single environments in gymnasium's `SyncVectorEnv`
(bare classes, without the wrappers that `gymnasium.make` adds), and Reacher also with the bare
physics and with Gymnasium's own `Reacher-v5`. What is compared runs in turns, in the same process,
and medians over the rounds are printed. Policies and the bookkeeping of rollouts are not measured.
Expected: every line ends in "ok".
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import gymnasium
import mujoco
import numpy as np
from gymnasium.envs.mujoco.reacher_v5 import ReacherEnv as GymnasiumReacher
from gymnasium.vector import SyncVectorEnv
from numpy.typing import NDArray

from ttray.envs.corridor import CorridorDenseEnv, CorridorSparseEnv
from ttray.envs.dam import DamEnv
from ttray.envs.evaluation import EvaluationEnv
from ttray.envs.reacher import ReacherEnv, model_path
from ttray.envs.supply_chain import SupplyChainEnv

NUM_SLOTS = 64
MIN_RATIO, MIN_SHARE_OF_PHYSICS, MIN_RATIO_TO_GYMNASIUM = 20.0, 0.8, 1.3


@dataclass(frozen=True)
class Rate:
    """Medians of one environment's rounds.

    Attributes:
        name: What was measured.
        batched: Steps per second of the batched environment.
        other: Steps per second of what it is compared with.
        ratio: Median over the rounds of batched / other.
        target: What the ratio has to reach.
    """

    name: str
    batched: float
    other: float
    ratio: float
    target: float

    @property
    def verdict(self) -> str:
        """Whether the target is reached."""
        return "ok" if self.ratio >= self.target else "SLOW"


def run(rounds: int = 7, numpy_steps: int = 1000, reacher_steps: int = 60) -> list[Rate]:
    """Measure all environments, print a table and return its lines.

    Args:
        rounds: Rounds over which medians are taken.
        numpy_steps: Steps of a batch in one round, for the environments in NumPy.
        reacher_steps: Steps of a batch in one round, for Reacher.
    """
    print(f"{NUM_SLOTS} slots, steps/s, medians of {rounds} rounds")
    print(f"{'':<26}{'batched':>12}{'other':>12}{'ratio':>9}{'target':>9}")
    rates: list[Rate] = []
    for single in (EvaluationEnv, CorridorSparseEnv, CorridorDenseEnv, DamEnv, SupplyChainEnv):
        batched, sync = _batched(single), SyncVectorEnv([single] * NUM_SLOTS)
        # The slow side takes fewer steps, or it would be most of the benchmark.
        fast = _actions(batched, numpy_steps)
        slow = fast[: max(numpy_steps // 50, 1)]
        rates += _compare(
            partial(_steps_per_s, batched, fast),
            {f"{_name(single)} : sync": (partial(_steps_per_s, sync, slow), MIN_RATIO)},
            rounds,
        )
    reacher = _batched(ReacherEnv)
    single_reachers = SyncVectorEnv([ReacherEnv] * NUM_SLOTS)
    gymnasium_reachers = SyncVectorEnv([GymnasiumReacher] * NUM_SLOTS)
    actions = _actions(reacher, reacher_steps)
    rates += _compare(
        partial(_steps_per_s, reacher, actions),
        {
            "Reacher : sync": (partial(_steps_per_s, single_reachers, actions), 0.0),
            "Reacher : Reacher-v5 sync": (
                partial(_steps_per_s, gymnasium_reachers, actions),
                MIN_RATIO_TO_GYMNASIUM,
            ),
            "Reacher : bare mj_step": (partial(_physics_per_s, actions), MIN_SHARE_OF_PHYSICS),
        },
        rounds,
    )
    print(f"\n{'µs per reset of a slot':<26}{'one of 64':>12}{'all 64':>12}")
    for single in (
        EvaluationEnv,
        CorridorSparseEnv,
        CorridorDenseEnv,
        DamEnv,
        SupplyChainEnv,
        ReacherEnv,
    ):
        one, every = _reset_us(_batched(single), rounds)
        print(f"{_name(single):<26}{one:>12.1f}{every:>12.1f}")
    return rates


def _compare(
    batched: Callable[[], float],
    others: dict[str, tuple[Callable[[], float], float]],
    rounds: int,
) -> list[Rate]:
    """Measure in turns, so that a busy moment of the machine hits both sides; print the lines."""
    found: list[list[float]] = []
    for _ in range(rounds):
        found.append([batched(), *(other() for other, _ in others.values())])
    columns = list(zip(*found, strict=True))
    rates = []
    for (name, (_, target)), column in zip(others.items(), columns[1:], strict=True):
        ratios = [fast / slow for fast, slow in zip(columns[0], column, strict=True)]
        rate = Rate(
            name=name,
            batched=statistics.median(columns[0]),
            other=statistics.median(column),
            ratio=statistics.median(ratios),
            target=target,
        )
        bound = f"{rate.target:>9.1f}  {rate.verdict}" if rate.target else ""
        print(f"{rate.name:<26}{rate.batched:>12,.0f}{rate.other:>12,.0f}{rate.ratio:>9.2f}{bound}")
        rates.append(rate)
    return rates


def _steps_per_s(env: gymnasium.vector.VectorEnv, actions: NDArray[np.generic]) -> float:
    env.reset(seed=0)
    start = time.perf_counter()
    for action in actions:
        env.step(action)
    return len(actions) * NUM_SLOTS / (time.perf_counter() - start)


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


def _reset_us(env: gymnasium.vector.VectorEnv, rounds: int) -> tuple[float, float]:
    """Return the µs per slot of seeded resets, of one slot at a time and of all at once."""
    one, every = [], []
    env.reset(seed=0)
    for _ in range(rounds):
        start = time.perf_counter()
        for slot in range(NUM_SLOTS):
            mask = np.zeros(NUM_SLOTS, np.bool_)
            mask[slot] = True
            env.reset(seed=[slot] * NUM_SLOTS, options={"reset_mask": mask})
        one.append(time.perf_counter() - start)
        start = time.perf_counter()
        env.reset(seed=0)
        every.append(time.perf_counter() - start)
    return (
        statistics.median(one) / NUM_SLOTS * 1e6,
        statistics.median(every) / NUM_SLOTS * 1e6,
    )


def _batched(single: type[gymnasium.Env]) -> gymnasium.vector.VectorEnv:
    return gymnasium.make_vec(f"ttray/{_name(single)}-v0", num_envs=NUM_SLOTS)


def _name(single: type[gymnasium.Env]) -> str:
    return single.__name__.removesuffix("Env")


def _actions(env: gymnasium.vector.VectorEnv, steps: int) -> NDArray[np.generic]:
    """Draw actions `[steps, slots, ...]`."""
    env.action_space.seed(0)
    return np.stack([env.action_space.sample() for _ in range(steps)])


if __name__ == "__main__":
    run()
