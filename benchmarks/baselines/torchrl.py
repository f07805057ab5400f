"""TorchRL's collectors."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from gymnasium.spaces import Box, Discrete
from torch import nn
from torch.distributions import Categorical, Independent

from benchmarks.baselines.episodes import Episodes, make_single
from benchmarks.cases import Case, Sample
from ttray.numerics.threads import torch_threads
from ttray.rollout.policies import DEFAULT_HIDDEN_SIZES


@contextmanager
def torchrl(case: Case, num_workers: int, num_slots: int) -> Iterator[Sample]:
    """Samples with TorchRL: a `Collector` in this process, or a `MultiSyncCollector` with its own.

    The environment is a `GymWrapper` around a vector environment, the natively batched one where there is
    one. TorchRL's own way to run single environments side by side, `SerialEnv`, works as well, but pays for
    every slot what the wrapper pays once: with 64 slots it is 7 to 20 times slower.

    Args:
        case: What to sample; a batch is as large as its budget, rounded up to whole steps of all slots.
        num_workers: 1 for this process, otherwise so many processes.
        num_slots: Environments per process.
    """
    from torchrl.collectors import Collector, MultiSyncCollector

    make = partial(_make, case, num_slots)
    num_all = num_workers * num_slots
    frames = -(-case.budget // num_all) * num_all
    with torch_threads(1):
        policy = _policy(case)
        # The policy has no state that would have to know where an episode begins.
        options = {"frames_per_batch": frames, "auto_register_policy_transforms": False}
        collector = (
            Collector(make, policy, track_traj_ids=False, **options)
            if num_workers == 1
            else MultiSyncCollector([make] * num_workers, policy, num_threads=1, num_sub_threads=1, **options)
        )
        try:
            batches = iter(collector)

            def sample(num_steps: int) -> int:
                made = 0
                while made < num_steps:
                    made += next(batches).numel()
                return made

            yield sample
        finally:
            collector.shutdown()


def _make(case: Case, num_slots: int) -> Any:
    from torchrl.envs import GymWrapper

    return GymWrapper(Episodes.of(case, num_slots), categorical_action_encoding=True)


def _policy(case: Case) -> Any:
    """The network with the distribution of the action space; records log-probabilities too."""
    from tensordict.nn import AddStateIndependentNormalScale, TensorDictModule
    from torchrl.modules import IndependentNormal, ProbabilisticActor

    environment = make_single(case)
    (obs_size,), space = environment.observation_space.shape, environment.action_space
    environment.close()
    layers: list[nn.Module] = []
    sizes = (obs_size, *DEFAULT_HIDDEN_SIZES)
    for fan_in, fan_out in itertools.pairwise(sizes):
        layers += [nn.Linear(fan_in, fan_out), nn.Tanh()]
    inputs = ["logits"]
    distribution: Callable[..., Any]
    if isinstance(space, Box):
        inputs, distribution = ["loc", "scale"], IndependentNormal
        (size,) = space.shape
        layers += [nn.Linear(sizes[-1], size), AddStateIndependentNormalScale(size)]
    elif isinstance(space, Discrete):
        distribution = Categorical
        layers.append(nn.Linear(sizes[-1], int(space.n)))
    else:
        distribution = _choices
        shape = (len(space.nvec), int(space.nvec[0]))  # all of ours have equal numbers of choices
        layers += [nn.Linear(sizes[-1], shape[0] * shape[1]), nn.Unflatten(-1, shape)]
    return ProbabilisticActor(
        TensorDictModule(nn.Sequential(*layers), in_keys=["observation"], out_keys=inputs),
        in_keys=inputs,
        distribution_class=distribution,
        return_log_prob=True,
    )


def _choices(logits: torch.Tensor) -> Independent:
    return Independent(Categorical(logits=logits), 1)
