"""The algorithm on a real local Ray: the same bits whatever happens, checkpoints, evaluation, registry."""

import copy
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import ray
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.tune.registry import get_trainable_cls
from ray.tune.trainable import trainable

import ttray
from tests.support.modules import OwnModule
from tests.support.small import small_config, trained, weights_of
from ttray.data.batch import Batch
from ttray.data.ragged import as_tensors
from ttray.data.schema import from_message, to_message
from ttray.estimators.bound_monitor import BoundMonitor

pytestmark = pytest.mark.usefixtures("local_ray")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Three iterations in this process: the algorithm after them, and what it left on the way.

    `start` and `first` are its checkpoints before and after the first iteration; the module and the weights
    of `first` are beside it.
    """
    directory = tmp_path_factory.mktemp("undisturbed")
    algorithm = small_config().build_algo()
    algorithm.save_to_path(directory / "start")
    results, batches = [algorithm.train()], [algorithm.last_batch]
    first_module, first_weights = copy.deepcopy(algorithm.get_module()), weights_of(algorithm)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        algorithm.save_to_path("first")  # relative on purpose
    for _ in range(2):
        results.append(algorithm.train())
        batches.append(algorithm.last_batch)
    yield SimpleNamespace(
        algorithm=algorithm,
        results=results,
        batches=batches,
        first_module=first_module,
        first_weights=first_weights,
        start=directory / "start",
        first=directory / "first",
        weights=weights_of(algorithm),
        digest=ttray.digest(algorithm.last_batch),
    )
    algorithm.stop()


@pytest.fixture(scope="module")
def started_runners():
    """An algorithm with two env runners, whose processes take seconds to start, and weights of its own."""
    algorithm = small_config(num_env_runners=2, quotas_per_env_runner=3, seed=5).build_algo()
    yield algorithm
    algorithm.stop()


@pytest.fixture
def two_runners(started_runners, undisturbed):
    """That algorithm where the undisturbed one was before its first iteration."""
    started_runners.restore_from_path(undisturbed.start)
    return started_runners


def train_on(algorithm, iterations):
    for _ in range(iterations):
        algorithm.train()
    return weights_of(algorithm), ttray.digest(algorithm.last_batch)


def assert_same(found, undisturbed):
    assert np.array_equal(found[0], undisturbed.weights)
    assert found[1] == undisturbed.digest


def test_same_seed_gives_identical_weights(undisturbed):
    assert_same(trained(small_config()), undisturbed)


def test_another_seed_gives_other_weights(undisturbed):
    weights, digest = trained(small_config(seed=1))
    assert not np.array_equal(weights, undisturbed.weights)
    assert digest != undisturbed.digest


# The first of those that share the two runners: nothing was collected with them before.
def test_a_fresh_group_collects_with_the_restored_weights_not_its_own(started_runners, undisturbed):
    assert not np.array_equal(weights_of(started_runners), undisturbed.first_weights)
    started_runners.restore_from_path(undisturbed.first)
    assert np.array_equal(weights_of(started_runners), undisturbed.first_weights)
    started_runners.train()
    assert ttray.digest(started_runners.last_batch) == ttray.digest(undisturbed.batches[1])


def test_two_env_runners_change_no_bit(two_runners, undisturbed):
    assert_same(train_on(two_runners, 3), undisturbed)


def test_result_has_the_published_metrics(undisturbed):
    first, second, _ = undisturbed.results
    sampled, learned = second["env_runners"], second["learners"]["default_policy"]
    assert {
        "discounted_return", "episode_return_mean", "num_env_steps_sampled", "num_env_steps_sampled_lifetime",
        "num_trajectories", "num_trajectories_recollected", "num_quotas_redispatched", "num_env_steps_saved",
        "num_quotas_backed_up", "num_env_runners", "slot_utilization", "sample_time_s", "is_gain_followed",
    } <= set(sampled)  # fmt: skip
    assert sampled["num_env_steps_sampled"] == 240
    assert sampled["num_env_steps_sampled_lifetime"] == 480
    assert 0.0 < sampled["slot_utilization"] <= 1.0
    assert isinstance(learned["stop_reason"], str)
    assert isinstance(learned["step_sizes"], list)
    assert learned["bound_after"] >= learned["bound_before"]
    before = first["env_runners"]["discounted_return"]
    assert before != sampled["discounted_return"]
    assert sampled["measured_gain"] == sampled["discounted_return"] - before
    assert sampled["predicted_gain"] == first["learners"]["default_policy"]["gain"]
    assert first["env_runners"]["predicted_gain"] == first["env_runners"]["measured_gain"] == 0.0
    assert {"collect", "improve", "publish"} <= set(second["timers"])


def test_discounted_return_is_the_estimate_of_the_last_batch(undisturbed):
    result, table = undisturbed.results[0], undisturbed.batches[0]
    n = ttray.dcs.truncated(40, 240, 0.9).samples_per_step
    t, reward = np.asarray(table["t"]), np.asarray(table["reward"])
    assert result["env_runners"]["discounted_return"] == pytest.approx((0.9**t * reward / n[t]).sum())
    assert result["env_runners"]["episode_return_mean"] == pytest.approx((reward / n[t]).sum())


def test_checkpoint_continues_with_the_same_bits(monkeypatch, undisturbed):
    monkeypatch.chdir(undisturbed.first.parent)
    restored = ttray.TTPOIS.from_checkpoint("first")
    try:
        assert restored.training_iteration == 1
        assert_same(train_on(restored, 2), undisturbed)
    finally:
        restored.stop()


def test_a_run_without_a_seed_continues_as_the_same_run(tmp_path):
    algorithm = small_config(seed=None).build_algo()
    algorithm.train()
    algorithm.save_to_path(tmp_path / "checkpoint")
    algorithm.train()
    expected = weights_of(algorithm)
    algorithm.stop()
    restored = ttray.TTPOIS.from_checkpoint(tmp_path / "checkpoint")
    restored.train()
    assert np.array_equal(weights_of(restored), expected)
    restored.stop()


def test_restoring_never_leaves_a_quota_with_other_weights(tmp_path, two_runners):
    two_runners.train()
    two_runners.save_to_path(tmp_path / "older")
    older = weights_of(two_runners)
    two_runners.train()
    expected = ttray.digest(two_runners.last_batch)
    for _ in range(5):
        two_runners.restore_from_path(tmp_path / "older")
        assert np.array_equal(weights_of(two_runners), older)
        two_runners.train()
        assert ttray.digest(two_runners.last_batch) == expected


# The last of those that share the two runners: it kills one.
def test_a_killed_runner_changes_no_bit(two_runners, undisturbed):
    two_runners.train()
    pids = list(two_runners.worker_processes().values())
    assert len(set(pids)) == 2
    os.kill(pids[0], signal.SIGKILL)
    assert_same(train_on(two_runners, 2), undisturbed)


class CountingCallback(RLlibCallback):
    calls: ClassVar[list[str]] = []

    def on_train_result(self, **kwargs):
        self.calls.append("train")

    def on_evaluate_end(self, *, evaluation_metrics, **kwargs):
        self.calls.append(f"evaluate {evaluation_metrics['env_runners']['num_trajectories']}")


@pytest.fixture(scope="module")
def evaluated():
    """An algorithm after three iterations with an evaluation in the second, and the second's result."""
    CountingCallback.calls.clear()
    config = small_config().callbacks(CountingCallback)
    algorithm = config.evaluation(evaluation_interval=2, evaluation_duration=30).build_algo()
    results = [algorithm.train() for _ in range(3)]
    yield algorithm, results[1]["evaluation"]["env_runners"]
    algorithm.stop()


# The first of those that share the algorithm: the next one evaluates by hand.
def test_callbacks_are_called(evaluated):
    assert CountingCallback.calls == ["train", "evaluate 30", "train", "train"]


def test_evaluation_is_of_exactly_so_many_trajectories_with_an_interval(evaluated):
    algorithm, inside = evaluated
    alone, again = (algorithm.evaluate()["env_runners"] for _ in range(2))
    for result in (inside, alone):
        assert result["num_trajectories"] == 30
        assert result["num_env_steps_sampled"] == 30 * 40
        assert (
            result["discounted_return_low"] < result["discounted_return"] < result["discounted_return_high"]
        )
    assert alone["discounted_return"] == again["discounted_return"]


def test_evaluation_changes_no_training_bit(evaluated, undisturbed):
    algorithm, _ = evaluated
    assert_same((weights_of(algorithm), ttray.digest(algorithm.last_batch)), undisturbed)


def test_both_algorithms_are_known_by_name():
    assert get_trainable_cls("TTPOIS") is ttray.TTPOIS
    assert get_trainable_cls("POIS") is ttray.POIS


@pytest.mark.parametrize("environment", ["ttray/SupplyChain-v0", "ttray/Reacher-v0", "CartPole-v1"])
def test_the_other_action_spaces_train(environment):
    algorithm = small_config(environment=environment, horizon=20, budget=120, seed=3).build_algo()
    try:
        before = weights_of(algorithm)
        result = algorithm.train()
        assert np.isfinite(weights_of(algorithm)).all()
        assert result["learners"]["default_policy"]["gain"] > 0
        assert not np.array_equal(before, weights_of(algorithm))
    finally:
        algorithm.stop()


def test_one_env_runner_changes_no_bit_of_a_users_own_module():
    spec = RLModuleSpec(module_class=OwnModule)
    results = [
        trained(
            small_config(num_env_runners=number, quotas_per_env_runner=3).rl_module(rl_module_spec=spec),
            iterations=2,
        )
        for number in (0, 1)
    ]
    assert np.array_equal(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]


def test_module_on_the_driver_follows_the_learner(undisturbed):
    state = undisturbed.algorithm.get_module().state_dict()
    flat = np.concatenate([value.numpy().reshape(-1) for value in state.values()])
    assert np.array_equal(flat, weights_of(undisturbed.algorithm))


def test_collect_takes_a_module_and_a_checkpoint(undisturbed):
    strategy = ttray.dcs.truncated(40, 240, 0.9)
    tables = [
        ttray.collect("ttray/Dam-v0", strategy=strategy, policy=policy, iteration=1, dist_inputs=False)
        for policy in (undisturbed.first_module, undisturbed.first)
    ]
    assert ttray.digest(tables[0]) == ttray.digest(tables[1]) == ttray.digest(undisturbed.batches[1])


def addresses_of(table):
    """The memory of every column, as ranges of addresses."""
    buffers = [b for column in table.columns for chunk in column.chunks for b in chunk.buffers() if b]
    return [(buffer.address, buffer.address + buffer.size) for buffer in buffers if buffer.size]


def object_store():
    """The memory that this process shares with Ray's object store, as ranges of addresses."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    ranges = [line.split()[0].split("-") for line in maps if "/plasma" in line]
    return [(int(start, 16), int(stop, 16)) for start, stop in ranges]


def assert_within(inner, outer):
    for start, stop in inner:
        assert any(low <= start and stop <= high for low, high in outer), f"{start:x} to {stop:x}"


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="this system does not tell what is mapped")
@pytest.mark.parametrize("how", ["batch", "message"])
def test_table_survives_the_object_store_without_a_copy(how):
    table = ttray.collect("ttray/Dam-v0", strategy=ttray.dcs.truncated(40, 240, 0.9), num_slots=8)
    # A batch goes to a remote learner as it is; what an env runner collected comes as a message.
    got = ray.get(ray.put(Batch.of(table) if how == "batch" else to_message(table)))
    fetched = got.table if how == "batch" else from_message(*got)
    assert ttray.digest(fetched) == ttray.digest(table)
    assert_within(addresses_of(fetched), object_store())
    with pytest.raises(AssertionError):
        assert_within(addresses_of(table), object_store())
    batch = as_tensors(fetched)
    for tensor in (batch.t, batch.obs, batch.action, batch.reward, batch.log_prob, batch.dist_inputs):
        assert_within([(tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes)], addresses_of(fetched))


def test_a_return_that_does_not_follow_is_told_once(monkeypatch, caplog):
    monkeypatch.setattr(BoundMonitor, "problem", property(lambda _: "no gain"))
    trained(small_config())
    assert [each.getMessage() for each in caplog.records if each.name == "ttray.forecast"] == [
        "iteration 1: no gain"
    ]


def test_an_algorithm_leaves_no_directory_in_the_home(monkeypatch, tmp_path):
    monkeypatch.setattr(trainable, "DEFAULT_STORAGE_PATH", str(tmp_path / "ray_results"))
    trained(small_config(), iterations=1)
    assert not list(tmp_path.iterdir())


def test_runs_without_a_seed_begin_with_different_networks():
    found = []
    for _ in range(2):
        algorithm = small_config(seed=None).build_algo()
        found.append(weights_of(algorithm))
        assert algorithm.config.seed == algorithm.get_state()["ttray"]["run_seed"]
        algorithm.stop()
    assert not np.array_equal(*found)


def test_another_discount_keeps_what_is_known_of_observations(tmp_path, caplog):
    first = small_config().env_runners(observation_filter="mean_std").build_algo()
    first.train()
    known = first.get_state()["ttray"]["experience"]["moments"]
    first.save_to_path(tmp_path / "saved")
    first.stop()
    other = small_config(gamma=0.5).env_runners(observation_filter="mean_std").build_algo()
    other.restore_from_path(tmp_path / "saved")
    experience = other.get_state()["ttray"]["experience"]
    other.stop()
    assert known["count"] == experience["moments"]["count"] == 240
    assert np.array_equal(known["squares"], experience["moments"]["squares"])
    assert "observed" not in experience
    assert "another horizon or discount than 40 and 0.5" in caplog.text
