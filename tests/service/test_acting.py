"""Policies that act, of every kind: the same bits for any number of workers and slots."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.connectors.env_to_module import MeanStdFilter
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

import ttray
from tests.support.environments import strategy_of
from tests.support.sb3_models import environment_of, trained
from tests.support.service import checked_digest, local_service
from ttray.data.batch import digest
from ttray.rllib.policies import policy_from
from ttray.rllib.policy_paths import loaded

CARTPOLE = strategy_of(*[0] * 9, 40, *[0] * 29, 12)


def functions():
    def lean(observations):
        return (observations[:, 2] > 0).astype(int)

    def noisy(observations, rng):
        return (rng.normal(observations[:, 2], 0.05) > 0).astype(int)

    def remembering(observations, state, rng):
        state = 0.9 * state + observations[:, 2]
        return (rng.normal(state, 0.05) > 0).astype(int), state

    return {
        "function": lean,
        "with noise": noisy,
        "with a memory": ttray.policies.function(remembering, initial_state=np.zeros(())),
    }


def assert_same_bits(service, environment, strategy, source, **how):
    """Collects with 0, 1 and 2 workers and 8 and 64 slots; gives the table."""
    maker = service.makers[environment]
    policy = policy_from(source, maker.facts(), seed=0, **how)
    work = replace(service.work(environment, strategy=strategy), policy=policy)
    tables = [
        local_service(maker).collect_work(replace(work, num_slots=slots)).batch().table for slots in (8, 64)
    ]
    found = {digest(table) for table in tables}
    for num_actors, slots in ((1, 8), (2, 64)):
        again = replace(work, num_slots=slots)
        found.add(checked_digest(service.rollouts(num_actors).collect_work(again), again))
    assert len(found) == 1
    return tables[0]


@pytest.mark.parametrize("name", functions())
def test_workers_and_slots_change_no_bit_of_a_function(service, name):
    assert_same_bits(service, "CartPole-v1", CARTPOLE, functions()[name])


@pytest.mark.parametrize("name", ["PPO", "SAC", "RecurrentPPO"])
def test_workers_and_slots_change_no_bit_of_a_model_of_stable_baselines(service, name):
    environment = environment_of(name)
    plan = CARTPOLE if environment == "CartPole-v1" else strategy_of(*[0] * 9, 30)
    assert_same_bits(service, environment, plan, trained(name))


@pytest.mark.parametrize("name", ["LSTM", "filter"])
def test_workers_and_slots_change_no_bit_of_an_algorithm_of_rllib(service, name):
    model = {"use_lstm": True, "lstm_cell_size": 16, "max_seq_len": 4} if name == "LSTM" else {}
    config = (
        PPOConfig()
        .environment("Pendulum-v1")
        .env_runners(num_env_runners=0)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[16], **model))
        .debugging(seed=1, log_level="ERROR")
    )
    if name == "filter":
        config.env_runners(env_to_module_connector=lambda env, spaces, device: MeanStdFilter())
    algorithm = config.build_algo()
    try:
        algorithm.env_runner.sample(num_timesteps=32)  # which fills the filter
        assert_same_bits(service, "Pendulum-v1", strategy_of(*[0] * 5, 20), algorithm)
    finally:
        algorithm.stop()


class Torques(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.Sequential(torch.nn.Linear(3, 30), torch.nn.Tanh(), torch.nn.Linear(30, 1))

    def forward(self, obs):
        return self.layers(obs)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("form", ["module", "script", "onnx"])
def test_workers_and_slots_change_no_bit_of_a_network(service, form, tmp_path):
    module = Torques()
    if form == "script":
        source = torch.jit.script(module)
    elif form == "onnx":
        axes = {"obs": {0: "rows"}}
        example, file = torch.zeros(1, 3), str(tmp_path / "model.onnx")
        torch.onnx.export(module, (example,), file, dynamo=False, input_names=["obs"], dynamic_axes=axes)
        source = loaded(file)
    else:
        source = module.layers
    assert_same_bits(service, "Pendulum-v1", strategy_of(*[0] * 9, 30), source)
