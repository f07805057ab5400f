"""An iteration and a restore happen whole or not at all, wherever they are interrupted."""

import json

import numpy as np
import pytest
from ray.rllib.algorithms import algorithm as rllib_algorithm
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

import ttray
from tests.support.interruptions import at_every_line, interrupted_after, interrupted_at
from tests.support.modules import RefusingModule
from tests.support.small import small_config, trained, weights_of
from ttray.rllib import algorithm as own_algorithm
from ttray.rllib import learner, standing, state_learner
from ttray.rllib.normalized_module import NormalizedModule

pytestmark = pytest.mark.usefixtures("local_ray")

SOURCES = {module.__file__ for module in (rllib_algorithm, own_algorithm, learner, standing)}
EVERYTHING = {"importance_weights": "per_decision", "baseline": "per_step", "strategy": "adaptive"}


def everything(**elsewhere):
    """All that an iteration remembers: the network, the filter, the baseline, the variances of the steps."""
    config = small_config(**EVERYTHING, **elsewhere).env_runners(observation_filter="mean_std")
    return config.evaluation(evaluation_interval=2, evaluation_duration=3)


def remembered(algorithm):
    state = algorithm.get_state()
    lifetime = algorithm.metrics.peek(("env_runners", "num_env_steps_sampled_lifetime"))
    own = json.dumps(state["ttray"], default=lambda value: np.asarray(value).tolist())
    return weights_of(algorithm).tobytes(), algorithm.training_iteration, lifetime, own


def test_an_iteration_interrupted_at_any_line_has_not_happened():
    expected = trained(everything())
    lines = []
    other = everything().build_algo()
    other.train()
    with at_every_line(SOURCES, lines.append):
        other.train()
    other.stop()
    algorithm = everything().build_algo()
    try:
        algorithm.train()
        before = remembered(algorithm)
        places = list(dict.fromkeys(lines))
        assert len(places) > 100
        for place in places:
            assert interrupted_at(SOURCES, place, algorithm.train), place
            assert remembered(algorithm) == before, place
        results = [algorithm.train() for _ in range(2)]
        assert results[-1]["training_iteration"] == 3
        assert results[-1]["env_runners"]["num_env_steps_sampled_lifetime"] == 3 * 240
        assert np.array_equal(weights_of(algorithm), expected[0])
        assert ttray.digest(algorithm.last_batch) == expected[1]
    finally:
        algorithm.stop()


class Failing(RLlibCallback):
    fails = False

    def on_train_result(self, **kwargs):
        if Failing.fails:
            raise ZeroDivisionError("in a callback")


def test_an_iteration_whose_callback_raises_has_not_happened(monkeypatch):
    algorithm = everything().callbacks(Failing).build_algo()
    try:
        algorithm.train()
        before = remembered(algorithm)
        monkeypatch.setattr(Failing, "fails", True)
        with pytest.raises(ZeroDivisionError):
            algorithm.train()
        assert remembered(algorithm) == before
    finally:
        algorithm.stop()


def test_a_second_interruption_while_the_first_is_undone_changes_no_bit(monkeypatch):
    expected = trained(everything(), iterations=2)
    algorithm = everything().build_algo()

    def interrupt(*_):
        raise KeyboardInterrupt

    try:
        algorithm.train()
        before = remembered(algorithm)
        with monkeypatch.context() as patch:
            patch.setattr(NormalizedModule, "set_filter", interrupt)
            patch.setattr(algorithm.learner_group, "set_state", interrupt)
            with pytest.raises(KeyboardInterrupt):
                algorithm.train()
        assert remembered(algorithm) == before
        algorithm.train()
        assert np.array_equal(weights_of(algorithm), expected[0])
    finally:
        algorithm.stop()


def test_an_iteration_of_ttpo_interrupted_after_the_critics_lesson_has_not_happened(monkeypatch):
    config = small_config(ttray.TTPOConfig)
    expected, _ = trained(small_config(ttray.TTPOConfig))
    algorithm, taught = config.build_algo(), state_learner.taught

    def interrupt(*arguments):
        taught(*arguments)
        raise KeyboardInterrupt

    try:
        algorithm.train()
        before = weights_of(algorithm)  # the critic's among them
        with monkeypatch.context() as patch:
            patch.setattr(state_learner, "taught", interrupt)
            with pytest.raises(KeyboardInterrupt):
                algorithm.train()
        assert np.array_equal(weights_of(algorithm), before)
        algorithm.train()
        algorithm.train()
        assert np.array_equal(weights_of(algorithm), expected)
    finally:
        algorithm.stop()


@pytest.fixture(scope="module")
def elsewhere():
    """Two env runners and a remote learner."""
    config = everything(num_env_runners=2, quotas_per_env_runner=3, environment="CartPole-v1")
    spec = RLModuleSpec(module_class=RefusingModule, model_config={})
    algorithm = config.learners(num_learners=1).rl_module(rl_module_spec=spec).build_algo()
    yield algorithm
    algorithm.stop()


def test_a_real_sigint_changes_no_bit(elsewhere, tmp_path):
    elsewhere.save_to_path(tmp_path / "start")
    for _ in range(3):
        elsewhere.train()
    expected = weights_of(elsewhere), ttray.digest(elsewhere.last_batch)
    elsewhere.restore_from_path(tmp_path / "start")
    waits = (0.0, 0.003, 0.01, 0.02, 0.04)  # into collecting, improving, evaluating
    assert True in [interrupted_after(wait_s, elsewhere.train) for wait_s in waits]
    elsewhere.restore_from_path(tmp_path / "start")
    assert interrupted_after(0.0, elsewhere.train)
    while elsewhere.training_iteration < 3:
        elsewhere.train()
    assert np.array_equal(weights_of(elsewhere), expected[0])
    assert ttray.digest(elsewhere.last_batch) == expected[1]


def test_any_error_in_a_remote_learner_is_told_and_the_learner_lives_on(elsewhere):
    def refuse(learner, value):
        learner.module["default_policy"].unwrapped().inner.refuses = value

    before = remembered(elsewhere)
    elsewhere.learner_group.foreach_learner(lambda learner: refuse(learner, True))
    with pytest.raises(RuntimeError, match="UnportableError: no more"):
        elsewhere.train()
    assert remembered(elsewhere) == before
    elsewhere.learner_group.foreach_learner(lambda learner: refuse(learner, False))
    elsewhere.train()


def test_a_failed_restore_leaves_the_algorithm_as_it_was(tmp_path):
    other = everything(hidden_sizes=(9,)).build_algo()
    other.train()
    other.save_to_path(tmp_path / "other")
    other.stop()
    expected = trained(everything())
    algorithm = everything().build_algo()
    try:
        algorithm.train()
        before = remembered(algorithm)
        with pytest.raises(RuntimeError, match="size mismatch"):
            algorithm.restore_from_path(tmp_path / "other")
        assert remembered(algorithm) == before
        state = algorithm.get_state()
        state["ttray"]["experience"] = None
        with pytest.raises(TypeError):
            algorithm.set_state(state | {"training_iteration": 7})
        assert remembered(algorithm) == before
        for _ in range(2):
            algorithm.train()
        assert np.array_equal(weights_of(algorithm), expected[0])
    finally:
        algorithm.stop()


def test_an_algorithm_that_was_stopped_says_so(tmp_path):
    algorithm = small_config().build_algo()
    algorithm.save_to_path(tmp_path / "start")
    algorithm.stop()
    for act in (algorithm.train, algorithm.evaluate, lambda: algorithm.restore_from_path(tmp_path / "start")):
        with pytest.raises(RuntimeError, match=r"was stopped.*build_algo"):
            act()
