"""Batches in the formats of others: RLlib's episodes and Minari's data sets."""

import sys

import numpy as np
import pytest
from gymnasium import spaces
from ray.rllib.core.columns import Columns

import ttray
from tests.support.environments import ACTION_SPACES, OBSERVATION_SPACES, ProbeEnv
from tests.support.make_batches import KINDS, random_table
from ttray.data.batch import BatchInfo
from ttray.data.trajectories import trajectories_of
from ttray.plans import dcs
from ttray.rllib.episodes import episodes
from ttray.runs.minari import write_minari

STRATEGY = dcs.truncated(horizon=12, budget=90, gamma=0.8)


@pytest.fixture(params=KINDS)
def table(request):
    return random_table(STRATEGY, KINDS[request.param])


def test_episodes_are_the_trajectories_and_cuts_are_truncations(table):
    found = episodes(table)
    assert len(found) == STRATEGY.num_trajectories
    assert sum(len(episode) for episode in found) == table.num_rows
    assert {episode.is_terminated for episode in found} == {True, False}
    for episode, trajectory in zip(found, trajectories_of(table), strict=True):
        assert episode.id_ == str(trajectory.id)
        assert episode.is_truncated == (not episode.is_terminated)
        assert episode.is_terminated == trajectory.is_terminated
        assert np.array_equal(episode.get_observations(), trajectory.all_obs)
        assert np.array_equal(episode.get_actions(), trajectory.action)
        assert np.array_equal(episode.get_rewards(), trajectory.reward)
        assert np.array_equal(episode.get_extra_model_outputs(Columns.ACTION_LOGP), trajectory.log_prob)
        inputs = episode.get_extra_model_outputs(Columns.ACTION_DIST_INPUTS)
        assert np.array_equal(inputs, trajectory.dist_inputs)


def test_trajectories_tell_the_same_as_the_columns(table):
    columns = {name: np.array(table[name].to_pylist()) for name in ("trajectory", "reward", "terminated")}
    for trajectory in trajectories_of(table.take(np.random.default_rng(0).permutation(table.num_rows))):
        rows = columns["trajectory"] == trajectory.id
        assert np.array_equal(columns["reward"][rows], trajectory.reward)
        assert columns["terminated"][rows][-1] == trajectory.is_terminated
        last = table["last_obs"].to_pylist()[np.flatnonzero(rows)[-1]]
        assert np.array_equal(np.float32(last), trajectory.last_obs)


def test_a_collected_batch_without_outputs_becomes_episodes_too():
    batch = ttray.collect("CartPole-v1", strategy=dcs.uniform(60, 240), dist_inputs=False)
    found = episodes(batch)
    assert [len(episode) for episode in found] == np.bincount(batch["trajectory"].to_numpy()).tolist()
    assert any(episode.is_terminated for episode in found)
    assert all(Columns.ACTION_DIST_INPUTS not in episode.extra_model_outputs for episode in found)


def test_a_minari_data_set_holds_the_same(table, tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    write_minari(table, "ttray/test/truncated-v0")
    found = minari.load_dataset("ttray/test/truncated-v0")
    assert found.total_episodes == STRATEGY.num_trajectories
    assert found.total_steps == table.num_rows
    for episode, trajectory in zip(found.iterate_episodes(), trajectories_of(table), strict=True):
        assert np.array_equal(episode.observations, trajectory.all_obs)
        assert np.array_equal(episode.actions, trajectory.action)
        assert np.array_equal(episode.rewards, trajectory.reward)
        assert bool(episode.terminations[-1]) == trajectory.is_terminated
        assert bool(episode.truncations[-1]) == (not trajectory.is_terminated)
        assert not episode.terminations[:-1].any()
        assert not episode.truncations[:-1].any()
        assert np.array_equal(episode.infos["log_prob"][:-1], trajectory.log_prob)
    assert BatchInfo.from_table(table).environment in found.storage.metadata["description"]


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Collects a batch, writes it for Minari, and reads the data set."""
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))

    def write(environment, *, given=False, **config):
        table = ttray.collect(environment, strategy=dcs.uniform(20, 60), env_config=config)
        write_minari(
            table, "ttray/test/own-v0", environment=environment if given else None, env_config=config
        )
        return table, minari.load_dataset("ttray/test/own-v0")

    return write


@pytest.mark.parametrize("name", ["Pendulum-v1", "ttray/Reacher-v0", "CartPole-v1"])
def test_the_environment_of_a_minari_data_set_can_be_recovered_and_repeats_it(written, name):
    table, found = written(name)
    environment = found.recover_environment()
    assert found.action_space == environment.action_space
    assert found.observation_space == environment.observation_space
    metadata = found.storage.get_episode_metadata(range(found.total_episodes))
    episodes_of = zip(found.iterate_episodes(), metadata, trajectories_of(table), strict=True)
    for episode, about, trajectory in episodes_of:
        observation, _ = environment.reset(seed=about["seed"])
        seen = [observation]
        for action, reward in zip(episode.actions, episode.rewards, strict=True):
            assert environment.action_space.contains(action)
            observation, earned, *_ = environment.step(action)
            seen.append(observation)
            assert earned == reward
        assert np.array_equal(np.float32(seen), episode.observations)
        if "raw_action" in episode.infos:
            assert np.array_equal(episode.infos["raw_action"][:-1], trajectory.action)
    environment.close()


@pytest.mark.parametrize("action", ["box", "matrix", "shifted", "multi", "binary"])
def test_actions_of_a_minari_data_set_are_those_that_the_environment_got(written, action):
    _, found = written(ProbeEnv, given=True, action=action)
    assert found.action_space == ACTION_SPACES[action]
    for episode in found.iterate_episodes():
        assert all(found.action_space.contains(each) for each in episode.actions)


@pytest.mark.parametrize("observation", OBSERVATION_SPACES)
def test_observations_of_a_minari_data_set_have_the_shape_of_their_space(written, observation):
    table, found = written(ProbeEnv, given=True, observation=observation)
    space = OBSERVATION_SPACES[observation]
    assert found.observation_space == space
    for episode, trajectory in zip(found.iterate_episodes(), trajectories_of(table), strict=True):
        for at, flat in enumerate(trajectory.all_obs):
            is_dict = isinstance(space, spaces.Dict)
            each = (
                {key: values[at] for key, values in episode.observations.items()}
                if is_dict
                else episode.observations[at]
            )
            assert space.contains(each)
            assert np.array_equal(np.float32(spaces.flatten(space, each)), flat)


def test_a_minari_data_set_of_an_environment_that_nobody_knows_is_flat_and_says_so(
    table, tmp_path, monkeypatch, caplog
):
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    write_minari(table, "ttray/test/flat-v0")
    assert "test/Random-v0 is not registered here" in caplog.text
    assert minari.load_dataset("ttray/test/flat-v0").env_spec is None


def test_a_minari_data_set_of_another_environment_is_refused(table):
    pytest.importorskip("minari")
    with pytest.raises(ValueError, match=r"the batch of test/Random-v0 has observations of 3 numbers"):
        write_minari(table, "ttray/test/other-v0", environment="CartPole-v1")


def test_without_minari_the_error_says_how_to_get_it(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(ValueError, match=r"pip install 'ttray\[minari\]'"):
        write_minari(table, "ttray/test/none-v0")
