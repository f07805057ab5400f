"""Samples with Sample Factory, in the environment that it needs for itself; `sample_factory` starts it.

    python sample_factory_program.py ENVIRONMENT HORIZON NUM_WORKERS NUM_SLOTS

When its processes are there it prints `0`. For each number of steps that it then reads, it samples so many
and prints how many it made. It imports nothing of ttray, which needs a newer gymnasium.
"""

from __future__ import annotations

import os
import sys
import tempfile
from functools import partial
from typing import Any

import gymnasium
import torch
from sample_factory.algo.sampling.simplified_sampling_api import SyncSamplingAPI
from sample_factory.algo.utils.env_info import obtain_env_info_in_a_separate_process
from sample_factory.algo.utils.rl_utils import samples_per_trajectory
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env


def make(horizon: int, name: str, *_: Any, **__: Any) -> gymnasium.Env:
    """An environment whose episodes end at the horizon."""
    return gymnasium.make(name, max_episode_steps=horizon, disable_env_checker=True)


def main(environment: str, horizon: int, num_workers: int, num_slots: int) -> None:
    """See the module."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # it logs to where answers would go
    torch.set_num_threads(1)
    register_env(environment, partial(make, horizon))
    with tempfile.TemporaryDirectory() as directory:
        options = {
            "env": environment,
            "train_dir": directory,
            "device": "cpu",
            "num_workers": num_workers,
            "num_envs_per_worker": num_slots,
            "use_rnn": False,
            "encoder_mlp_layers": "64 32",
            "nonlinearity": "tanh",
            "normalize_input": False,
            "decorrelate_envs_on_one_worker": False,
        }
        words = " ".join(f"--{name} {value}" for name, value in options.items()).split()
        parser, _ = parse_sf_args(words)
        settings = parse_full_cfg(parser, words)
        sampler = SyncSamplingAPI(settings, obtain_env_info_in_a_separate_process(settings))
        sampler.start()
        sampler.get_trajectories_sync()
        print(0, file=answers, flush=True)
        for line in sys.stdin:
            asked, made = int(line), 0
            while made < asked:
                made += samples_per_trajectory(sampler.get_trajectories_sync())
            print(made, file=answers, flush=True)
        sampler.stop()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
