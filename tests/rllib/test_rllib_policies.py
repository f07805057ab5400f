"""Algorithms of RLlib act as in RLlib: with a memory, with connectors and sampling of their own."""

import numpy as np
import pytest
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.connectors.env_to_module import FlattenObservations, MeanStdFilter, PrevActionsPrevRewards
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

import ttray
from tests.support.environments import strategy_of
from ttray.data.schema import array_of
from ttray.rllib.algorithm_actors import actor_of_algorithm
from ttray.rllib.connected_actor import ConnectedActor
from ttray.rllib.module_actor import ModuleActor
from ttray.rollout.acting import Actor

PLAN = strategy_of(*[0] * 11, 5, *[0] * 6, 3)


def ppo(environment, connectors=None, **model):
    return (
        PPOConfig()
        .environment(environment)
        .env_runners(env_to_module_connector=connectors)
        .training(train_batch_size_per_learner=64, minibatch_size=64, num_epochs=1)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[16], **model))
    )


def filtered(env, spaces, device):
    return MeanStdFilter()


def remembering(env, spaces, device):
    return [PrevActionsPrevRewards(), FlattenObservations()]


LSTM = {"use_lstm": True, "lstm_cell_size": 16, "max_seq_len": 4}
CONFIGS = {
    "LSTM": ppo("CartPole-v1", **LSTM),
    "LSTM, rescaled": ppo("Pendulum-v1", **LSTM),
    "not clipped": ppo("Pendulum-v1").environment(normalize_actions=False, clip_actions=False),
    "without exploration": ppo("Pendulum-v1").env_runners(explore=False),
    "filter": ppo("Pendulum-v1", filtered),
    "previous actions and rewards": ppo("CartPole-v1", remembering, **LSTM),
    "SAC": SACConfig()
    .environment("Pendulum-v1")
    .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[16], head_fcnet_hiddens=[]))
    .training(train_batch_size_per_learner=16, num_steps_sampled_before_learning_starts=4),
    "DQN": DQNConfig().environment("CartPole-v1"),
}
ONE_BY_ONE = {"filter", "previous actions and rewards", "DQN"}


@pytest.fixture(scope="module")
def built(local_ray):
    made = {}

    def build(name):
        if name not in made:
            config = CONFIGS[name].env_runners(num_env_runners=0, num_envs_per_env_runner=4)
            made[name] = config.debugging(seed=1, log_level="ERROR").build_algo()
            made[name].train()
        return made[name]

    yield build
    for each in made.values():
        each.stop()


def collect(algorithm, policy=None, **how):
    policy = algorithm if policy is None else policy
    return ttray.collect(algorithm.config.env, strategy=PLAN, policy=policy, seed=2, **how)


@pytest.mark.parametrize("name", CONFIGS)
def test_slots_change_no_bit_and_a_checkpoint_is_the_algorithm(built, name, tmp_path):
    algorithm = built(name)
    tables = [collect(algorithm, num_slots=slots) for slots in (1, 8, 64)]
    algorithm.save_to_path(tmp_path)
    with pytest.raises(ValueError, match=r"a checkpoint of RLlib, and such files are pickled.*--trust"):
        collect(algorithm, tmp_path)
    tables.append(collect(algorithm, str(tmp_path), trust=True))
    tables.append(collect(algorithm, ttray.policies.rllib(tmp_path)))
    assert len({ttray.digest(table) for table in tables}) == 1
    assert "log_prob" not in tables[0].column_names


@pytest.mark.parametrize("name", sorted(CONFIGS.keys() - ONE_BY_ONE))
def test_what_is_computed_at_once_is_what_the_connectors_give(built, name):
    algorithm, runner = built(name), built(name).env_runner
    quick = actor_of_algorithm(algorithm, deterministic=True)
    assert isinstance(quick, ModuleActor)
    slow = ConnectedActor(
        "PPO",
        algorithm.get_module(),
        runner._env_to_module,
        runner._module_to_env,
        deterministic=True,
        num_steps=0,
    )
    actions = [array_of(collect(algorithm, each), "action") for each in (quick, slow)]
    np.testing.assert_allclose(actions[0], actions[1], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", sorted(ONE_BY_ONE))
def test_other_connectors_are_called_as_in_rllib(built, name):
    algorithm = built(name)
    assert isinstance(actor_of_algorithm(algorithm), ConnectedActor)
    state = algorithm.env_runner._env_to_module.get_state()
    collect(algorithm)
    assert repr(algorithm.env_runner._env_to_module.get_state()) == repr(state)  # nothing is learnt from it


@pytest.mark.parametrize("name", ["LSTM", "filter", "previous actions and rewards", "SAC"])
def test_returns_are_those_of_rllibs_own_runner(built, name):
    algorithm = built(name)
    horizon, episodes = 12, 100
    runner = algorithm.env_runner
    theirs = []
    while len(theirs) < episodes:
        for each in runner.sample(num_timesteps=4 * horizon, explore=True, force_reset=True):
            if len(each) >= horizon or each.is_terminated:
                theirs.append(sum(each.get_rewards()[:horizon]))
    plan = ttray.dcs.uniform(horizon, horizon * episodes)
    table = ttray.collect(algorithm.config.env, strategy=plan, policy=algorithm, seed=4)
    ours = np.bincount(array_of(table, "trajectory"), array_of(table, "reward"))
    error = np.sqrt(np.var(theirs) / len(theirs) + ours.var() / len(ours))
    assert abs(np.mean(theirs) - ours.mean()) < 4 * error


def test_a_module_with_a_memory_acts_by_itself(built):
    algorithm = built("LSTM")
    assert ttray.digest(collect(algorithm, algorithm.get_module())) == ttray.digest(collect(algorithm))
    with pytest.raises(ValueError, match="is recurrent"):
        ttray.ope([ttray.collect("CartPole-v1", strategy=PLAN, gamma=1.0)], policy=algorithm.get_module())
    with pytest.raises(ValueError, match="does not say how its actions reach"):
        collect(built("LSTM, rescaled"), built("LSTM, rescaled").get_module())


def test_an_algorithm_of_other_spaces_is_refused(built):
    for name in ("LSTM", "filter"):
        environment = "Pendulum-v1" if name == "LSTM" else "CartPole-v1"
        with pytest.raises(ValueError, match="was trained with observations of Box"):
            ttray.collect(environment, strategy=PLAN, policy=built(name))


def test_what_is_no_checkpoint_of_one_policy_is_told(built, tmp_path):
    built("LSTM").save_to_path(tmp_path)
    (tmp_path / "env_runner" / "state.pkl").unlink()
    with pytest.raises(ValueError, match="is no checkpoint of one RLlib policy"):
        collect(built("LSTM"), tmp_path, trust=True)


def test_a_policy_of_rllib_is_one_of_those_that_act(built):
    assert isinstance(ttray.policies.rllib(built("SAC"), deterministic=True), Actor)
