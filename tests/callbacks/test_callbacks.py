"""Evaluations during somebody else's training: Stable-Baselines3, RLlib and Tune themselves train."""

import csv
import sys
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from ray import tune
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune.stopper import CombinedStopper, MaximumIterationStopper
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import StopTrainingOnRewardThreshold
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import DummyVecEnv

import ttray
from tests.support.small import small_config, weights_of
from ttray.callbacks import ProvenStopper, RLlibEvalCallback, SB3EvalCallback
from ttray.callbacks.repeated import RepeatedEvaluation

CARTPOLE = {"accuracy": "30%", "reward_range": (0, 1), "verbose": 0}


def ppo(environment="CartPole-v1"):
    return PPO("MlpPolicy", environment, n_steps=64, batch_size=64, n_epochs=2, seed=0, device="cpu")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A training with two evaluations: its model, its callback and where it wrote."""
    directory = tmp_path_factory.mktemp("sb3")
    model = ppo()
    model.set_logger(configure(str(directory), ["csv"]))
    callback = SB3EvalCallback(
        "CartPole-v1",
        eval_freq=80,
        log_path=directory / "log",
        best_model_save_path=directory / "best",
        **CARTPOLE,
    )
    return model.learn(192, callback=callback), callback, directory


def test_an_sb3_model_is_evaluated_to_an_accuracy_while_it_trains(trained):
    _, callback, directory = trained
    assert callback.evaluations_timesteps == [80, 160]
    for found in callback.evaluations:
        assert found.is_accurate
        assert found.is_guaranteed
        assert found.low < found.estimate < found.high
    assert callback.last_evaluation is callback.evaluations[1]
    assert callback.last_mean_reward == callback.last_evaluation.estimate
    rows = list(csv.DictReader((directory / "progress.csv").open()))
    logged = [row for row in rows if row["eval/low"]]
    for name, attribute in (("mean_reward", "estimate"), ("low", "low"), ("high", "high")):
        expected = [getattr(each, attribute) for each in callback.evaluations]
        assert [float(row[f"eval/{name}"]) for row in logged] == pytest.approx(expected)
    assert [int(row["eval/num_env_steps"]) for row in logged] == [
        each.num_env_steps for each in callback.evaluations
    ]


def test_the_best_sb3_model_and_all_evaluations_are_on_disk(trained):
    _, callback, directory = trained
    best = PPO.load(directory / "best" / "best_model", device="cpu")
    found = np.load(directory / "log" / "evaluations.npz")
    assert found["timesteps"].tolist() == [80, 160]
    assert found["results"].mean(1).tolist() == [each.estimate for each in callback.evaluations]
    assert found["low"].tolist() == [each.low for each in callback.evaluations]
    assert callback.best_mean_reward == max(each.estimate for each in callback.evaluations)
    # The model that was evaluated is the one that was saved.
    number = 1 + callback.evaluations.index(callback.best_evaluation)
    again = callback._evaluations.evaluate(best, callback._maker, number)
    assert (again.low, again.high) == (callback.best_evaluation.low, callback.best_evaluation.high)


@pytest.mark.parametrize("deterministic", [True, False])
def test_an_evaluation_changes_no_bit_of_an_sb3_training(deterministic):
    callback = SB3EvalCallback("CartPole-v1", eval_freq=50, deterministic=deterministic, **CARTPOLE)
    models = [ppo().learn(128), ppo().learn(128, callback=callback)]
    assert len(callback.evaluations) == 2
    alone, watched = (each.policy.state_dict() for each in models)
    assert all(alone[name].equal(watched[name]) for name in alone)


def test_an_sb3_model_is_the_best_if_it_is_estimated_or_if_it_is_proved_to_be(trained):
    found = replace(trained[1].evaluations[0], low=20.0, estimate=25.0, high=30.0)
    cases = [
        ((26.0, 31.0, 36.0), True, False),
        ((31.0, 33.0, 36.0), True, True),
        ((5.0, 7.0, 9.0), False, False),
    ]
    for new_best, column in (("estimated", 1), ("proven", 2)):
        callback = SB3EvalCallback("CartPole-v1", new_best=new_best, **CARTPOLE)
        assert callback._is_new_best(found)
        callback.best_evaluation = found
        for case in cases:
            low, estimate, high = case[0]
            assert (
                callback._is_new_best(replace(found, low=low, estimate=estimate, high=high)) is case[column]
            )


def test_an_sb3_training_stops_when_its_target_is_proved(capsys):
    # No policy drops the pole within five steps; one that acts at random drops it within 28.
    settings = CARTPOLE | {"accuracy": 0.1, "horizon": 30, "deterministic": False, "verbose": 1}
    easy, hard = (
        SB3EvalCallback("CartPole-v1", eval_freq=32, target=target, **settings) for target in (5, 28)
    )
    assert ppo().learn(128, callback=easy).num_timesteps == 32
    assert easy.last_evaluation.low >= 5
    assert "proved to be at least 5" in capsys.readouterr().out
    assert ppo().learn(64, callback=hard).num_timesteps == 64
    assert all(each.high < 28 for each in hard.evaluations)
    # What is known well enough is looked at no longer.
    assert not easy.last_evaluation.is_accurate
    assert not hard.last_evaluation.is_accurate


def test_callbacks_of_sb3_work_inside():
    inside = StopTrainingOnRewardThreshold(reward_threshold=5)
    callback = SB3EvalCallback("CartPole-v1", inside, eval_freq=32, **CARTPOLE)
    assert ppo().learn(128, callback=callback).num_timesteps == 32


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"accuracy": 0}, "accuracy must be"),
        ({"accuracy": "much"}, "accuracy must be"),
        ({"delta": 0}, "delta must be"),
        ({"reward_range": (1, 0)}, "reward_range must be"),
        ({"target": float("nan")}, "target must be"),
        ({"target": 9, "reward_range": None}, "CartPole-v1 declares none; pass reward_range"),
        ({"max_budget": 0}, "budget must be"),
        ({"horizon": 0}, "horizon must be"),
        ({"gamma": 0}, "gamma must be"),
        ({"eval_env": CartPoleEnv}, "has no time limit"),
        ({"eval_freq": 0}, "eval_freq must be"),
        ({"new_best": "luckiest"}, "new_best must be"),
        ({"seed": -1}, "seed must be"),
        ({"deterministic": 1}, "deterministic must be"),
        ({"eval_env": "NoSuch-v0"}, "NoSuch"),
        ({"eval_env": gymnasium.make("CartPole-v1")}, "pass a function that makes it"),
        ({"eval_env": DummyVecEnv([lambda: gymnasium.make("CartPole-v1")])}, "pass a function that makes it"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_what_cannot_be_evaluated_is_refused_before_anything_is_trained(wrong, words):
    with pytest.raises(ValueError, match=words):
        SB3EvalCallback(**({"eval_env": "CartPole-v1"} | CARTPOLE | wrong))


def test_who_has_no_sb3_has_the_others_and_is_told_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "stable_baselines3.common.callbacks", None)
    monkeypatch.delitem(sys.modules, "ttray.callbacks.sb3")
    monkeypatch.delitem(vars(ttray.callbacks), "SB3EvalCallback")
    assert ttray.callbacks.ProvenStopper is ProvenStopper
    with pytest.raises(ModuleNotFoundError, match="pip install stable-baselines3"):
        _ = ttray.callbacks.SB3EvalCallback
    with pytest.raises(AttributeError, match="no attribute 'KerasCallback'"):
        _ = ttray.callbacks.KerasCallback


def test_the_parts_of_delta_add_up_to_it_and_streams_are_fresh():
    evaluations = RepeatedEvaluation(accuracy=1, delta=0.1)
    assert evaluations.delta_of(1) == 0.05
    assert 0.0999 < sum(evaluations.delta_of(number) for number in range(1, 10_000)) < 0.1
    assert len({evaluations.seed_of(number) for number in range(1, 100)}) == 99


def test_an_algorithm_is_evaluated_every_so_often_and_trains_on_with_the_same_bits():
    callback = RLlibEvalCallback(accuracy=0.2, every=2, horizon=5, gamma=0.9)
    weights, results = [], []
    for config in (small_config(), small_config().callbacks(on_train_result=callback)):
        algorithm = config.build_algo()
        try:
            results = [algorithm.train() for _ in range(4)]
            weights.append(weights_of(algorithm))
        finally:
            algorithm.stop()
    assert np.array_equal(*weights)
    found = [result.get("anytime") for result in results]
    assert [each is not None for each in found] == [False, True, False, True]
    assert [each["num_evaluations"] for each in found if each] == [1, 2]
    assert [each["delta"] for each in found if each] == [0.05 / 2, 0.05 / 6]
    assert all(each["high"] - each["low"] <= 0.4 for each in found if each)


def test_an_algorithm_is_told_in_its_first_iteration_what_can_never_be_proved():
    callback = RLlibEvalCallback(accuracy=1, target=1, every=100, horizon=5)
    algorithm = small_config().callbacks(on_train_result=callback).build_algo()
    try:
        with pytest.raises(ValueError, match="ttray/Dam-v0 declares none; pass reward_range"):
            algorithm.train()
    finally:
        algorithm.stop()


def rllib_ppo(callback=None):
    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0)
        .training(train_batch_size=64, minibatch_size=64, num_epochs=1)
        .debugging(seed=0, log_level="ERROR")
    )
    return config if callback is None else config.callbacks(on_train_result=callback)


def test_an_evaluation_changes_no_bit_of_another_algorithm(local_ray):
    callback = RLlibEvalCallback(accuracy="30%", reward_range=(0, 1))
    weights = []
    for config in (rllib_ppo(), rllib_ppo(callback)):
        algorithm = config.build_algo()
        try:
            results = [algorithm.train() for _ in range(2)]
            weights.append(weights_of(algorithm))
        finally:
            algorithm.stop()
    assert np.array_equal(*weights)
    assert all(each["anytime"]["is_guaranteed"] for each in results)


@pytest.fixture(scope="module")
def proved(local_ray, tmp_path_factory):
    """RLlib's PPO in Tune, with a target that every policy reaches: none drops the pole within five steps."""
    callback = RLlibEvalCallback(accuracy=0.1, target=5, reward_range=(0, 1), every=2, horizon=30)
    run = tune.RunConfig(
        storage_path=str(tmp_path_factory.mktemp("tune")),
        stop=CombinedStopper(ProvenStopper(5), MaximumIterationStopper(6)),
        verbose=0,
    )
    (found,) = tune.Tuner("PPO", param_space=rllib_ppo(callback), run_config=run).fit()
    return found


def test_a_trial_of_tune_ends_when_its_target_is_proved(proved):
    assert proved.error is None
    assert proved.metrics["training_iteration"] == 2
    assert proved.metrics["anytime"]["low"] >= 5
    assert proved.metrics["anytime"]["is_guaranteed"]


def test_a_stopper_believes_proofs_only():
    stopper = ProvenStopper(7.0)
    proof = {"low": 7.0, "high": 9.0, "is_guaranteed": True}
    assert stopper("a", {"anytime": proof})
    assert not stopper("a", {"anytime": proof | {"low": 6.9}})
    assert not stopper("a", {})
    assert not stopper.stop_all()
    with pytest.raises(ValueError, match="prove nothing; pass reward_range"):
        stopper("a", {"anytime": proof | {"is_guaranteed": False}})
    with pytest.raises(ValueError, match="target must be"):
        ProvenStopper(float("nan"))
