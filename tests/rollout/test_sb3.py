"""Models of Stable-Baselines3: they act as their own `predict` does, and can be repeated."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete
from stable_baselines3 import PPO
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import FlattenExtractor

from tests.support.environments import ProbeEnv, roll, strategy_of
from tests.support.sb3_models import MODELS, environment_of, trained
from ttray.data.batch import digest
from ttray.data.trajectories import trajectories_of
from ttray.rollout.acting import ActingPolicy
from ttray.rollout.environment import EnvironmentMaker
from ttray.rollout.sb3 import Sb3Actor, is_model
from ttray.rollout.sb3_files import load_model

PLAN = strategy_of(*[0] * 6, 9, *[0] * 12, 5)


def acting(maker, model, **how):
    facts = maker.facts()
    return ActingPolicy(Sb3Actor(model, **how), facts.observation_space, facts.action_space)


def collected(maker, policy, **how):
    ((table,), _) = roll(maker, PLAN, policy=policy, **how)
    return table


@pytest.mark.parametrize("name", MODELS)
def test_the_likeliest_actions_are_those_of_predict(name):
    model, maker = trained(name), EnvironmentMaker.of(environment_of(name))
    table = collected(maker, acting(maker, model, deterministic=True))
    for trajectory in trajectories_of(table):
        state = None
        for step, (obs, action) in enumerate(zip(trajectory.obs, trajectory.action, strict=True)):
            expected, state = model.predict(
                obs, state=state, episode_start=np.array([step == 0]), deterministic=True
            )
            np.testing.assert_allclose(action, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_slots_change_no_bit_of_what_is_sampled(name):
    maker = EnvironmentMaker.of(environment_of(name))
    policy = acting(maker, trained(name))
    assert len({digest(collected(maker, policy, slots=slots)) for slots in (1, 8, 64)}) == 1


@pytest.mark.parametrize("name", MODELS)
def test_a_file_holds_the_same_policy_whatever_algorithm_wrote_it(name, tmp_path):
    maker = EnvironmentMaker.of(environment_of(name))
    trained(name).save(tmp_path / "model.zip")
    # The noise of gSDE is not in the file, but the same for all who load it.
    models = [trained(name) if name != "PPO, gSDE" else load_model(tmp_path / "model.zip")]
    models.append(load_model(tmp_path / "model.zip"))
    assert len({digest(collected(maker, acting(maker, each))) for each in models}) == 1
    models.append(trained(name))
    tables = [collected(maker, acting(maker, each, deterministic=True)) for each in models]
    assert len({digest(table) for table in tables}) == 1


@pytest.mark.parametrize("name", ["PPO, a Box", "SAC", "PPO", "DQN"])
def test_samples_have_the_distribution_of_predict(name):
    model, maker = trained(name), EnvironmentMaker.of(environment_of(name))
    if name == "DQN":
        model.exploration_rate = 0.5
    facts, number = maker.facts(), 3000
    policy = acting(maker, model).in_slots(64)
    obs = np.repeat(maker.make_single().reset(seed=0)[0][None].astype(np.float32), 64, axis=0)
    generators = [np.random.default_rng(seed) for seed in range(64)]
    ours = np.concatenate([policy.act(obs, generators) for _ in range(number // 64 + 1)])[:number]
    model.set_random_seed(0)
    # Row by row where it decides for a whole batch whether to explore.
    theirs = np.array([model.predict(obs[0])[0] for _ in range(number)])
    for moment in (lambda x: x, np.square):
        first, second = moment(ours.astype(float)), moment(theirs.astype(float))
        error = np.sqrt(first.var(0) / number + second.var(0) / number) + 1e-9
        assert (np.abs(first.mean(0) - second.mean(0)) < 4.5 * error).all(), facts.name


def test_the_statistics_of_its_environment_are_used(tmp_path):
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    maker = EnvironmentMaker.of("Pendulum-v1")
    environments = VecNormalize(DummyVecEnv([maker.make_single]), norm_reward=False)
    model = PPO("MlpPolicy", environments, n_steps=64, seed=0).learn(64)
    environments.save(tmp_path / "normalize.pkl")
    environments.training = False
    table = collected(maker, acting(maker, model, deterministic=True))
    obs = np.array(table["obs"].to_pylist(), np.float32)
    expected = model.predict(environments.normalize_obs(obs), deterministic=True)[0]
    np.testing.assert_allclose(np.array(table["action"].to_pylist()), expected, rtol=1e-4, atol=1e-5)
    model.save(tmp_path / "model.zip")
    alone = load_model(tmp_path / "model.zip")
    same = acting(maker, alone, deterministic=True, normalize=tmp_path / "normalize.pkl")
    assert digest(collected(maker, same)) == digest(table)
    assert digest(collected(maker, acting(maker, alone, deterministic=True))) != digest(table)
    with pytest.raises(ValueError, match="normalize must be a VecNormalize"):
        Sb3Actor(alone, normalize=3)


@pytest.mark.parametrize("observation", ["dict", "image"])
def test_dictionaries_and_images_are_preprocessed_as_in_training(observation):
    maker = EnvironmentMaker.of(ProbeEnv, {"observation": observation})
    policy = "CnnPolicy" if observation == "image" else "MultiInputPolicy"
    model = PPO(policy, maker.make_single(), n_steps=8, seed=0)
    facts = maker.facts()
    table = collected_small(maker, acting(maker, model, deterministic=True))
    space = facts.observation_space
    for obs, action in zip(table["obs"].to_pylist(), table["action"].to_pylist(), strict=True):
        if isinstance(space, Dict):
            shaped = {"a": np.array(obs[:2], np.float32), "b": np.argmax(obs[2:])}
        else:
            shaped = np.array(obs, np.uint8).reshape(space.shape)
        assert model.predict(shaped, deterministic=True)[0] == action


def collected_small(maker, policy):
    ((table,), _) = roll(maker, strategy_of(0, 3), policy=policy)
    return table


class Shifted(FlattenExtractor):
    def forward(self, observations):
        return super().forward(observations) + 0.7


class Turned(ActorCriticPolicy):
    def get_distribution(self, obs):
        return super().get_distribution(-obs)


def with_a_hook():
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=8, seed=0)
    model.policy.mlp_extractor.policy_net[0].register_forward_hook(lambda layer, given, found: -found)
    return model


OWN = {
    "features": lambda: PPO(
        "MlpPolicy", "CartPole-v1", n_steps=8, seed=0, policy_kwargs={"features_extractor_class": Shifted}
    ),
    "a method": lambda: PPO(Turned, "CartPole-v1", n_steps=8, seed=0),
    "a hook": with_a_hook,
    "layers": lambda: PPO(
        "MlpPolicy",
        "CartPole-v1",
        n_steps=8,
        seed=0,
        policy_kwargs={"net_arch": [30, 9], "activation_fn": torch.nn.ELU},
    ),
}


@pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")
def test_what_a_policy_does_of_its_own_it_does_here():
    maker, number = EnvironmentMaker.of("CartPole-v1"), 48
    obs = np.random.default_rng(0).standard_normal((number, 4)).astype(np.float32)
    generators = [np.random.default_rng(seed) for seed in range(number)]
    plain = PPO("MlpPolicy", "CartPole-v1", n_steps=8, seed=0).predict(obs, deterministic=True)[0]
    for name, make in OWN.items():
        model = make()
        found = acting(maker, model, deterministic=True).in_slots(number).act(obs, generators)
        assert np.array_equal(found, model.predict(obs, deterministic=True)[0]), name
        assert not np.array_equal(found, plain), name
        sampled = acting(maker, model).in_slots(number).act(obs, generators)
        assert 0 < np.mean(sampled) < 1, name


def test_a_model_of_other_spaces_is_refused():
    actor = Sb3Actor(trained("PPO"))
    observation, action = actor.observation_space, actor.action_space
    with pytest.raises(ValueError, match=r"PPO was trained with observations of Box.*wrappers"):
        actor.check_spaces(Box(-1, 1, (3,)), action)
    with pytest.raises(ValueError, match=r"PPO was trained with actions of Discrete\(2\)"):
        actor.check_spaces(observation, Discrete(3))


def test_what_draws_in_an_unknown_way_is_refused_unless_it_draws_nothing():
    class Own(ActorCriticPolicy):
        def _predict(self, observation, deterministic=False):
            return super()._predict(observation, deterministic)

    model = PPO(Own, "CartPole-v1", n_steps=8)
    spaces = model.observation_space, model.action_space
    with pytest.raises(ValueError, match="Own has a _predict of its own"):
        Sb3Actor(model).check_spaces(*spaces)
    Sb3Actor(model).made_deterministic().check_spaces(*spaces)


def test_what_is_no_model_is_told(tmp_path):
    (tmp_path / "model.zip").write_bytes(b"no zip")
    with pytest.raises(ValueError, match=r"model.zip is no model of Stable-Baselines3"):
        load_model(tmp_path / "model.zip")
    with pytest.raises(ValueError, match="there is no file"):
        load_model(tmp_path / "nowhere.zip")
    assert not is_model(3)
    assert is_model(trained("PPO"))
