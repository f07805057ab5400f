"""`evaluate()` of an algorithm: to an accuracy where `evaluation_config` asks for one."""

import numpy as np
import pytest

import ttray
from tests.support.small import small_config, weights_of


def corridor(**evaluation):
    config = small_config(environment="ttray/CorridorDense-v0", horizon=5, budget=40)
    return config.evaluation(evaluation_config=evaluation)


@pytest.fixture(scope="module")
def evaluated():
    """An algorithm that is evaluated to an accuracy in its second iteration, and that iteration's result."""
    algorithm = corridor(accuracy=0.2).evaluation(evaluation_interval=2).build_algo()
    results = [algorithm.train() for _ in range(2)]
    yield algorithm, results[1]["evaluation"]["env_runners"]
    algorithm.stop()


def test_an_algorithm_is_evaluated_to_an_accuracy(evaluated):
    algorithm, inside = evaluated
    alone, again = (algorithm.evaluate()["env_runners"] for _ in range(2))
    for found in (inside, alone):
        assert found["low"] <= found["estimate"] <= found["high"] <= found["low"] + 0.4
        assert found["is_guaranteed"] is True  # the environment declares the range of its rewards
        assert found["num_rounds"] > 1
        assert found["num_env_steps"] == found["num_env_steps_sampled"] > 40
        assert found["discounted_return"] == found["estimate"]
        assert (found["discounted_return_low"], found["discounted_return_high"]) == (
            found["low"],
            found["high"],
        )
        assert 0.0 < found["slot_utilization"] <= 1.0
    assert alone["estimate"] == again["estimate"]
    assert (alone["low"], alone["num_env_steps"]) == (inside["low"], inside["num_env_steps"])


def test_an_algorithm_from_a_checkpoint_is_evaluated_with_the_same_bits(evaluated, tmp_path):
    algorithm, inside = evaluated
    algorithm.save_to_path(tmp_path)
    other = corridor(accuracy=0.2).debugging(seed=7).build_algo()
    try:
        other.restore_from_path(tmp_path)
        found = other.evaluate()["env_runners"]
    finally:
        other.stop()
    assert [found[name] for name in ("estimate", "low", "high")] == [
        inside[name] for name in ("estimate", "low", "high")
    ]


def test_the_interval_is_that_of_ttray_evaluate(evaluated, tmp_path):
    algorithm, inside = evaluated
    algorithm.save_to_path(tmp_path)
    found = ttray.evaluate(tmp_path, accuracy=0.2)
    assert found.low <= inside["high"]
    assert inside["low"] <= found.high
    assert 0.5 < found.num_env_steps / inside["num_env_steps"] < 2.0


def test_evaluating_to_an_accuracy_changes_no_training_bit(evaluated):
    algorithm = corridor().build_algo()
    try:
        for _ in range(2):
            algorithm.train()
        assert np.array_equal(weights_of(algorithm), weights_of(evaluated[0]))
    finally:
        algorithm.stop()


def test_every_setting_of_an_evaluation_in_rounds_counts():
    algorithm = corridor(accuracy=0.5, delta=0.3, explore=False, max_budget=10**6).build_algo()
    spent = corridor(max_budget=200, reward_range=(-3, 3)).build_algo()
    try:
        found, of_budget = (each.evaluate()["env_runners"] for each in (algorithm, spent))
        careful = corridor(accuracy=0.5, delta=0.001, explore=False).build_algo()
        try:
            assert careful.evaluate()["env_runners"]["num_env_steps"] > found["num_env_steps"]
        finally:
            careful.stop()
        assert 100 < of_budget["num_env_steps"] <= 220
        assert of_budget["high"] - of_budget["low"] > 1.0
    finally:
        algorithm.stop()
        spent.stop()


def test_a_reward_outside_the_range_is_an_error():
    algorithm = corridor(accuracy=0.5, reward_range=(-1e-3, 1e-3)).build_algo()
    try:
        with pytest.raises(ValueError, match="reward"):
            algorithm.evaluate()
    finally:
        algorithm.stop()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"accuracy": 0}, "accuracy must be"),
        ({"accuracy": "a lot"}, "accuracy must be"),
        ({"accuracy": 1, "delta": 2}, "delta must be"),
        ({"accuracy": 1, "reward_range": (1, 0)}, "reward_range must be"),
        ({"max_budget": 0}, "max_budget must be"),
        ({"delta": 0.1}, "delta, of an interval from rounds; add accuracy"),
        ({"explore": "no"}, "explore must be"),
        ({"accuracies": 1}, "evaluation_config has accuracies; .* 'explore', 'accuracy'"),
    ],
    ids=str,
)
def test_what_cannot_be_asked_of_an_evaluation_is_refused(wrong, words):
    with pytest.raises(ValueError, match=words):
        corridor(**wrong).validate()


def test_a_number_of_trajectories_beside_an_accuracy_is_refused():
    config = corridor(accuracy=1).evaluation(evaluation_duration=30)
    with pytest.raises(ValueError, match="leave one of them out"):
        config.validate()
