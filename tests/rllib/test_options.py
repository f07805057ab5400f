"""Weights per decision, baselines and plans from data in training: the same bits whatever happens."""

import numpy as np
import pytest

import ttray
from tests.support.small import small_config, trained, weights_of
from ttray.data.batch import BatchInfo
from ttray.data.ragged import as_tensors
from ttray.estimators.baselines import PerStepBaseline
from ttray.plans import planners
from ttray.plans.planners import Observed
from ttray.service.builds import BuildError, build

pytestmark = pytest.mark.usefixtures("local_ray")

COMBINATIONS = {
    "per_decision": {"importance_weights": "per_decision"},
    "per_step": {"baseline": "per_step"},
    "adaptive": {"strategy": "adaptive"},
    "all": {"importance_weights": "per_decision", "baseline": "per_step", "strategy": "adaptive"},
}

# Ĵ and the bound of three iterations, recorded before there were any of these options.
PAPER = {
    "TTPOIS": (
        ttray.TTPOISConfig,
        {},
        [-7.707657536425798, -6.902704530706792, -7.08129903279888],
        [-14.572345912584717, -12.561114382234933, -12.864666374846296],
    ),
    "POIS": (
        ttray.POISConfig,
        {},
        [-7.547589373065665, -5.9188882194331045, -7.427225983750798],
        [-21.976876349261985, -17.522224496408178, -21.620760743046034],
    ),
    "clipped": (
        ttray.TTPOISConfig,
        {"importance_weight_clip": 5.0, "min_max_reward": 3.0, "delta": 0.5},
        [-7.707657536425798, -6.903318167070428, -7.438050492138563],
        [-20.691405447535274, -17.941399278651204, -19.554943341458436],
    ),
}


@pytest.fixture(scope="module")
def undisturbed():
    """Weights and last batch of three iterations in this process, by combination; found when first asked."""
    found = {}

    def find(name):
        if name not in found:
            found[name] = trained(small_config(**COMBINATIONS[name]))
        return found[name]

    return find


def assert_same(found, expected):
    assert np.array_equal(found[0], expected[0])
    assert found[1] == expected[1]


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_method_learns_what_it_learned_before(name):
    config_class, settings, returns, bounds = PAPER[name]
    algorithm = small_config(config_class, **settings).build_algo()
    try:
        results = [algorithm.train() for _ in range(3)]
    finally:
        algorithm.stop()
    # Other processors round otherwise; here they are the same bits.
    found = [result["env_runners"]["discounted_return"] for result in results]
    assert found == pytest.approx(returns, rel=1e-4)
    found = [result["learners"]["default_policy"]["bound_after"] for result in results]
    assert found == pytest.approx(bounds, rel=1e-4)


def test_every_option_changes_what_is_learned(undisturbed):
    paper = trained(small_config())
    learned = [paper[0], *(undisturbed(name)[0] for name in COMBINATIONS)]
    assert len({weights.tobytes() for weights in learned}) == len(learned)


def everything(**elsewhere):
    """All options at once: one that came to differ elsewhere would change the weights, whatever others do.

    And several parts, whose sums have an order.
    """
    config = small_config(**COMBINATIONS["all"], budget=16_384, **elsewhere)
    return config.env_runners(observation_filter="mean_std")


@pytest.fixture(scope="module")
def everything_here():
    return trained(everything(num_learner_threads=2))


@pytest.fixture(scope="module")
def started_elsewhere(tmp_path_factory):
    """Two env runners and a remote learner, whose processes take seconds to start, and their checkpoint."""
    config = everything(num_env_runners=2, num_envs_per_env_runner=3, quotas_per_env_runner=3)
    algorithm = config.learners(num_learners=1).build_algo()
    path = tmp_path_factory.mktemp("elsewhere") / "start"
    algorithm.save_to_path(path)
    yield algorithm, path
    algorithm.stop()


@pytest.mark.parametrize("where", ["learner", "workers"])
def test_env_runners_and_a_remote_learner_change_no_bit_whoever_computes_the_bound(
    started_elsewhere, everything_here, where
):
    algorithm, start = started_elsewhere
    algorithm.restore_from_path(start)
    algorithm.config = algorithm.config.copy(copy_frozen=False).training(optimise_on=where)
    for _ in range(3):
        algorithm.train()
        assert bool(algorithm._last.workers) == (where == "workers")
    assert_same((weights_of(algorithm), ttray.digest(algorithm.last_batch)), everything_here)


def test_a_remote_learner_that_computes_with_other_software_is_an_error(started_elsewhere):
    algorithm, _ = started_elsewhere

    def build_is(found):
        def change(_):
            from ttray.rllib import learner

            learner.build = found

        algorithm.learner_group.foreach_learner(change)

    build_is(lambda: "ttray 0.0")
    try:
        with pytest.raises(
            BuildError, match=r"the learner computes with other software(?s:.*)there: ttray 0\.0"
        ):
            algorithm.train()
    finally:
        build_is(build)


@pytest.mark.parametrize("name", COMBINATIONS)
def test_a_checkpoint_continues_with_the_same_bits(undisturbed, tmp_path, name):
    algorithm = small_config(**COMBINATIONS[name]).build_algo()
    algorithm.train()
    algorithm.save_to_path(tmp_path / "checkpoint")
    algorithm.stop()
    restored = ttray.TTPOIS.from_checkpoint(tmp_path / "checkpoint")
    try:
        restored.train()
        restored.train()
        assert_same((weights_of(restored), ttray.digest(restored.last_batch)), undisturbed(name))
    finally:
        restored.stop()


def test_batches_are_planned_and_baselines_computed_from_those_before():
    algorithm = small_config(**COMBINATIONS["all"]).build_algo()
    observed, baseline = None, PerStepBaseline.empty(40)
    try:
        for _ in range(3):
            algorithm.train()
            strategy = BatchInfo.from_table(algorithm.last_batch).strategy
            expected = planners.plan("adaptive", horizon=40, budget=240, gamma=0.9, observed=observed)
            assert strategy == expected
            rows = as_tensors(algorithm.last_batch)
            observed = (observed or Observed.empty(40, 0.9)).updated(rows, strategy, decay=0.5)
            baseline = baseline.updated(rows, strategy, decay=0.5)
        state = algorithm.get_state()["ttray"]["experience"]
    finally:
        algorithm.stop()
    assert strategy != ttray.dcs.truncated(40, 240, 0.9)
    for found, arrays in (("observed", observed.to_arrays()), ("baseline", baseline.to_arrays())):
        for key, values in arrays.items():
            assert np.array_equal(state[found][key], values)


def test_an_iteration_that_failed_is_done_again_with_the_same_plan_and_baseline(undisturbed, monkeypatch):
    algorithm = small_config(**COMBINATIONS["all"]).build_algo()
    try:
        algorithm.train()
        start, collect = weights_of(algorithm), algorithm._collect
        monkeypatch.setattr(algorithm, "_collect", lambda: (collect(), 1 / 0))
        with pytest.raises(ZeroDivisionError):
            algorithm.training_step()
        monkeypatch.undo()
        assert np.array_equal(weights_of(algorithm), start)
        algorithm.train()
        algorithm.train()
        assert_same((weights_of(algorithm), ttray.digest(algorithm.last_batch)), undisturbed("all"))
    finally:
        algorithm.stop()


def test_what_was_observed_for_another_discount_is_forgotten(tmp_path):
    algorithm = small_config(**COMBINATIONS["all"]).build_algo()
    algorithm.train()
    algorithm.save_to_path(tmp_path / "checkpoint")
    algorithm.stop()
    other = small_config(**(COMBINATIONS["all"] | {"gamma": 0.8})).build_algo()
    try:
        other.restore_from_path(tmp_path / "checkpoint")
        other.train()
        assert BatchInfo.from_table(other.last_batch).strategy == ttray.dcs.truncated(40, 240, 0.8)
    finally:
        other.stop()


def test_a_planner_of_ones_own_plans_training(monkeypatch):
    asked = []

    def full_length(horizon, budget, gamma, observed):
        asked.append(observed)
        return ttray.dcs.uniform(horizon, budget)

    monkeypatch.setattr(planners, "_PLANNERS", dict(planners._PLANNERS))
    planners.register("full_length", full_length)
    algorithm = small_config(strategy="full_length").build_algo()
    try:
        algorithm.train()
        algorithm.train()
        assert BatchInfo.from_table(algorithm.last_batch).strategy == ttray.dcs.uniform(40, 240)
    finally:
        algorithm.stop()
    assert asked[0] is None
    assert asked[-1].horizon == 40


@pytest.mark.parametrize(("strategy", "number"), [("truncated", 1), ("adaptive", 3), ("full_length", 3)])
def test_a_plan_is_made_once_per_run_or_once_per_batch_if_data_may_change_it(monkeypatch, strategy, number):
    asked = []
    of_strategy = {**planners._PLANNERS, "full_length": planners._PLANNERS["truncated"]}[strategy]

    def counted(*arguments):
        asked.append(arguments)
        return of_strategy(*arguments)

    monkeypatch.setattr(planners, "_PLANNERS", planners._PLANNERS | {strategy: counted})
    algorithm = small_config(strategy=strategy, budget=250).build_algo()
    try:
        for _ in range(3):
            algorithm.train()
            algorithm.steps()
    finally:
        algorithm.stop()
    assert len(asked) == number
