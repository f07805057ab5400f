"""A policy of RLlib is judged as RLlib lets it act, or not at all."""

import gymnasium
import numpy as np
import pytest
import torch
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.ppo import PPOConfig

import ttray
from tests.support.modules import StackModule, module_for
from ttray.data.schema import array_of
from ttray.plans.dcs import uniform
from ttray.rllib.sent_actions import rescaled

HORIZON, EPISODES = 50, 400
ENVIRONMENT = "InvertedPendulum-v5"  # its actions are between -3 and 3


def ppo(environment=ENVIRONMENT, normalize_actions=True, **settings):
    config = (
        PPOConfig()
        .environment(environment, normalize_actions=normalize_actions)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=16, **settings)
        .rl_module(model_config={"fcnet_hiddens": [8]})
        .debugging(seed=1, log_level="ERROR")
    )
    return config.build_algo()


@pytest.fixture(scope="module")
def algorithm(local_ray):
    found = ppo()
    module = found.learner_group._learner.module["default_policy"]
    layer, head = (
        next(each for each in part.modules() if isinstance(each, torch.nn.Linear))
        for part in (module.encoder, module.pi)
    )
    with torch.no_grad():
        # Pushes against the fall: weakly, or, rescaled, hard enough to balance for longer.
        layer.weight.copy_(torch.tensor([0.0, 0.1, 0.0, 0.01]).expand(8, 4))
        head.weight.copy_(torch.tensor([[1.25], [0.0]]).expand(2, 8))
        layer.bias.zero_()
        head.bias.copy_(torch.tensor([0.0, -2.0]))
    found.env_runner_group.sync_weights(from_worker_or_learner_group=found.learner_group)
    yield found
    found.stop()


def lengths_by_rllib(algorithm):
    """How long RLlib's own runner balances, at most up to the horizon, in each of its episodes."""
    episodes = algorithm.env_runner.sample(num_episodes=EPISODES, explore=True)
    return np.array([min(len(each), HORIZON) for each in episodes])


def lengths_by_ttray(policy, **arguments):
    plan = uniform(HORIZON, HORIZON * EPISODES)
    table = ttray.collect(ENVIRONMENT, strategy=plan, policy=policy, seed=3, **arguments)
    return np.unique(array_of(table, "trajectory"), return_counts=True)[1]


def test_an_algorithm_is_sampled_as_its_own_runner_samples(algorithm):
    theirs = lengths_by_rllib(algorithm)
    ours = lengths_by_ttray(algorithm)
    spread = np.sqrt(theirs.var() / len(theirs) + ours.var() / len(ours))
    assert abs(theirs.mean() - ours.mean()) < 4 * spread
    # Clipped, it is another policy, which this would see.
    clipped = lengths_by_ttray(algorithm.get_module(), actions="clipped")
    assert abs(theirs.mean() - clipped.mean()) > 8 * spread


def test_a_bare_module_needs_a_word_and_is_then_the_algorithms(algorithm):
    module = algorithm.get_module()
    with pytest.raises(ValueError, match='Pass actions="rescaled" or actions="clipped", or the algorithm'):
        lengths_by_ttray(module)
    assert (lengths_by_ttray(module, actions="rescaled") == lengths_by_ttray(algorithm)).all()


def test_rescaled_actions_are_recorded_as_the_environment_takes_them(algorithm):
    plan = uniform(4, 64)
    table = ttray.collect(ENVIRONMENT, strategy=plan, policy=algorithm, gamma=1.0)
    found = ttray.ope([table], policy=algorithm)["per_decision"]
    rewards = array_of(table, "reward").sum() / plan.num_trajectories
    assert found.estimate == pytest.approx(rewards, rel=1e-5)  # every weight is 1
    with pytest.raises(ValueError, match="does not say how its actions reach"):
        ttray.ope([table], policy=algorithm.get_module())


def test_what_the_error_for_a_checkpoint_of_rllib_advises_works(algorithm, tmp_path):
    algorithm.save_to_path(tmp_path)
    how = {"environment": ENVIRONMENT, "horizon": 10, "budget": 2000, "gamma": 0.9}
    with pytest.raises(
        ValueError, match=r"is a checkpoint of RLlib.*pickled.*--trust \(in Python trust=True\)"
    ):
        ttray.evaluate(tmp_path, **how)
    trusted = ttray.evaluate(tmp_path, **how, trust=True)
    spread = trusted.high - trusted.low
    assert abs(trusted.estimate - ttray.evaluate(algorithm, **how).estimate) < spread
    loaded = Algorithm.from_checkpoint(tmp_path)
    try:
        with pytest.raises(ValueError, match="pass environment"):
            ttray.evaluate(loaded)
        found = ttray.evaluate(loaded, environment=ENVIRONMENT, horizon=10, budget=200, gamma=0.9)
        again = ttray.evaluate(algorithm, environment=ENVIRONMENT, horizon=10, budget=200, gamma=0.9)
        assert found == again
    finally:
        loaded.stop()


def test_an_algorithm_that_does_more_than_its_module_has_no_density(local_ray):
    found = ppo(observation_filter="MeanStdFilter", explore=False)
    try:
        recorded = ttray.collect(ENVIRONMENT, strategy=uniform(4, 16), gamma=1.0)
        with pytest.raises(ValueError, match="PPO was configured with observation_filter, explore=False"):
            ttray.ope([recorded], policy=found)
    finally:
        found.stop()


def test_actions_are_sent_as_they_are_where_the_algorithm_does(local_ray):
    plan = uniform(4, 16)
    bounded, choices = (ppo(each, normalize_actions=False) for each in (ENVIRONMENT, "CartPole-v1"))
    try:
        assert "log_prob" not in ttray.collect(ENVIRONMENT, strategy=plan, policy=bounded).column_names
        with pytest.raises(ValueError, match=r'neither rescaled nor clipped .* pass actions="clipped"'):
            ttray.collect(ENVIRONMENT, strategy=plan, policy=bounded, actions="rescaled")
        assert ttray.collect(ENVIRONMENT, strategy=plan, policy=bounded, actions="clipped").num_rows > 0
        assert ttray.collect("CartPole-v1", strategy=plan, policy=choices).num_rows > 0
    finally:
        bounded.stop()
        choices.stop()


def test_an_action_that_cannot_be_chosen_is_rescaled_to_itself():
    fixed, free = rescaled(np.zeros((1, 4), np.float32), np.array([2.0, -3.0]), np.array([2.0, 3.0]))[0, :2]
    assert np.clip(fixed, 2.0, 2.0) == 2.0
    assert free == 0.0


def test_a_function_has_no_actions_to_rescale():
    with pytest.raises(ValueError, match='actions="rescaled" is for an RLModule or an algorithm'):
        lengths_by_ttray(lambda obs: np.zeros((len(obs), 2)), actions="rescaled")


@pytest.mark.parametrize("environment", ["CartPole-v1", "InvertedPendulum-v5"])
def test_only_where_it_makes_a_difference_anybody_is_asked(environment):
    module = module_for(gymnasium.make(environment), StackModule, hidden_sizes=(4,))
    plan = uniform(4, 16)
    if environment == "CartPole-v1":
        assert ttray.collect(environment, strategy=plan, policy=module).num_rows == 16
    else:
        with pytest.raises(ValueError, match='actions="rescaled" or actions="clipped"'):
            ttray.collect(environment, strategy=plan, policy=module)
