"""A trained policy acts in a program that has no Ray, with the bits of rollouts."""

import json
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
import safetensors.torch
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple, flatten
from gymnasium.vector.utils import batch_space, iterate

import ttray
from tests.support.saved_policies import make_module, save
from ttray.data.ragged import as_tensors
from ttray.plans import dcs
from ttray.rllib.module import PolicyModule
from ttray.rllib.policies import policy_of_module
from ttray.rollout.observations import example_rows, rows_of
from ttray.rollout.policy_files import PAPERS_NETWORK

BOX = Box(-1.0, 1.0, (3,))
IMAGE = Box(0, 255, (12, 12, 3), np.uint8)
CONVOLUTIONS = {"conv_filters": [[8, 4, 2], [8, 4, 2]], "fcnet_hiddens": [16]}

OBSERVATIONS = {
    "box": BOX,
    "matrix": Box(-2.0, 2.0, (2, 4), np.float64),
    "number": Box(-2.0, 2.0, ()),
    "image": IMAGE,
    "discrete": Discrete(5, start=-2),
    "several": MultiDiscrete([3, 2, 4], start=[1, 0, -1]),
    "binary": MultiBinary((2, 3)),
    "dictionary": Dict({"b": Discrete(3), "a": Box(-1, 1, (2, 2)), "c": Tuple([MultiBinary(2), BOX])}),
}
ACTIONS = {
    "discrete": Discrete(4, start=7),
    "several": MultiDiscrete([3, 2], dtype=np.int32, start=[5, -1]),
    "binary": MultiBinary((2, 2)),
    "bounded": Box(np.array([[-0.5, -0.1]]), np.array([[0.1, 0.2]]), (1, 2), np.float64),
    "unbounded": Box(-np.inf, np.inf, (2,)),
}


@pytest.fixture
def policy_of(tmp_path):
    """Saves a module for two spaces, and loads it; the module as well."""

    def load(observation_space, action_space, *, seed=None, **options):
        module = make_module(observation_space, action_space, **options)
        return ttray.load_policy(save(module, tmp_path / "policy"), seed=seed), module

    return load


def batch_of(space, number=6):
    batch = batch_space(space, number)
    batch.seed(3)
    sample = batch.sample()
    return sample, list(iterate(batch, sample))


@pytest.mark.parametrize("space", OBSERVATIONS.values(), ids=OBSERVATIONS)
def test_observations_become_the_rows_of_batches_one_or_many_in_shape_or_flat(space):
    batch, singles = batch_of(space)
    expected = np.stack([np.asarray(flatten(space, each), np.float32) for each in singles])
    for given, is_one, rows in (
        (batch, False, expected),
        (expected, False, expected),
        (expected[2], expected.shape[1] > 1, expected[2:3]),  # one number in brackets is a batch of one
        *((each, True, expected[i : i + 1]) for i, each in enumerate(singles)),
    ):
        found, is_single = rows_of(space, given)
        assert is_single == is_one
        np.testing.assert_array_equal(found.astype(np.float32), rows)


@pytest.mark.parametrize("space", ACTIONS.values(), ids=ACTIONS)
@pytest.mark.parametrize("deterministic", [False, True])
def test_actions_are_in_their_space(policy_of, space, deterministic):
    policy, _ = policy_of(BOX, space, seed=0)
    observations, _ = batch_of(BOX, 200)
    actions = policy.act(observations, deterministic)
    assert len(actions) == 200
    assert actions.dtype == space.dtype
    for action in (*actions, policy.act(observations[0], deterministic)):
        assert space.contains(action)
    assert deterministic or len(np.unique(actions.reshape(200, -1), axis=0)) > 3  # no constant


def test_a_batch_gives_what_its_observations_give_one_after_the_other(policy_of):
    observations, _ = batch_of(BOX, 20)
    for space in ACTIONS.values():
        policy, _ = policy_of(BOX, space, seed=5)
        at_once = policy.act(observations)
        policy, _ = policy_of(BOX, space, seed=5)
        np.testing.assert_array_equal(np.stack([policy.act(each) for each in observations]), at_once)
        assert (policy.act(observations) != at_once).any()


def test_samples_have_the_distribution_and_the_mode_is_its_middle(policy_of):
    policy, _ = policy_of(BOX, ACTIONS["unbounded"], seed=0)
    observations = np.repeat(batch_of(BOX, 1)[0], 20_000, axis=0)
    mean, log_std = np.split(policy.distribution_inputs(observations[0]), 2)
    samples = policy.act(observations)
    np.testing.assert_allclose(samples.mean(0), mean, atol=0.05 * np.exp(log_std).max())
    np.testing.assert_allclose(samples.std(0), np.exp(log_std), rtol=0.05)
    np.testing.assert_array_equal(policy.act(observations[0], deterministic=True), mean)
    policy, _ = policy_of(BOX, ACTIONS["discrete"], seed=0)
    logits = policy.distribution_inputs(observations[0])
    frequencies = np.bincount(policy.act(observations) - 7, minlength=4) / len(observations)
    np.testing.assert_allclose(frequencies, np.exp(logits) / np.exp(logits).sum(), atol=0.02)
    assert policy.act(observations[0], deterministic=True) == 7 + logits.argmax()


@pytest.mark.parametrize("environment", ["Pendulum-v1", "CartPole-v1", "ttray/Dam-v0"])
@pytest.mark.parametrize("is_normalised", [False, True], ids=["raw", "normalised"])
def test_distribution_inputs_have_the_bits_that_a_rollout_recorded(tmp_path, environment, is_normalised):
    made = gymnasium.make(environment)
    module = make_module(made.observation_space, made.action_space, is_normalised=is_normalised)
    directory = save(module, tmp_path / "policy")
    batch = as_tensors(ttray.collect(environment, strategy=dcs.truncated(20, 400, 0.9), policy=directory))
    found = ttray.load_policy(directory).distribution_inputs(batch.obs.numpy())
    assert found.tobytes() == batch.dist_inputs.numpy().tobytes()


@pytest.mark.parametrize(
    ("space", "config"), [(IMAGE, CONVOLUTIONS), (BOX, {"fcnet_hiddens": [16]})], ids=["images", "vectors"]
)
def test_models_of_rllib_act_with_the_bits_of_rollouts_as_well(policy_of, space, config):
    policy, module = policy_of(space, ACTIONS["bounded"], seed=0, model_config=config)
    rows = example_rows(space, 100).astype(space.dtype)
    expected = policy_of_module(module)(rows)
    assert policy.distribution_inputs(rows).tobytes() == expected.tobytes()
    in_shape = rows.reshape(-1, *space.shape)
    assert policy.distribution_inputs(in_shape[3]).tobytes() == expected[3].tobytes()
    assert space.contains(in_shape[3])
    assert all(policy.action_space.contains(each) for each in policy.act(in_shape))


PROGRAM = """
import sys

sys.modules["ray"] = None  # nobody can import it
import ttray

for directory in sys.argv[1:]:
    policy = ttray.load_policy(directory, seed=0)
    observation = policy.observation_space.sample()
    assert policy.action_space.contains(policy.act(observation))
    print(policy.act([observation] * 2, deterministic=True).shape)
del sys.modules["ray"]
assert not [name for name in sys.modules if name.partition(".")[0] == "ray"]
"""


def test_the_papers_network_acts_where_there_is_no_ray(tmp_path):
    saved = [
        save(make_module(BOX, ACTIONS["bounded"], is_normalised=each), tmp_path / str(each))
        for each in (False, True)
    ]
    exported = ttray.export(saved[1], "safetensors", path=tmp_path / "exported")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *saved, exported], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["(2, 1, 2)"] * 3


def test_the_papers_network_is_known_by_the_name_of_its_class():
    assert f"{PolicyModule.__module__}:{PolicyModule.__qualname__}" == PAPERS_NETWORK


@pytest.mark.parametrize(
    ("space", "observations", "complaint"),
    [
        (BOX, np.zeros(4), r"must be of Box.*flat rows of 3 numbers; found .*shape \(4,\)"),
        (BOX, np.zeros((2, 2, 3)), "must be of Box"),
        (BOX, [[0.0, 0.0, 0.0], [0.0]], "must be of Box"),
        (BOX, ["a", "b", "c"], "must be of Box"),
        (BOX, None, "must be of Box"),
        (BOX, {"x": 1.0}, "must be of Box"),
        (BOX, [0.0, np.nan, 0.0], "finite"),
        (BOX, [0.0, np.inf, 0.0], "finite"),
        (Discrete(3), 3, "must be of Discrete"),
        (Discrete(3, start=1), 0, "must be of Discrete"),
        (Discrete(3), 1.0, "must be of Discrete"),
        (OBSERVATIONS["several"], [0, 0, 0], "must be of MultiDiscrete"),
        (OBSERVATIONS["dictionary"], {"a": np.zeros((2, 2))}, "must be of Dict"),
        (Tuple([BOX, Discrete(2)]), (np.zeros((4, 3)), np.zeros(5, int)), "must be of Tuple"),
        (Box(0, 255, (4,), np.uint8), [0.5, 0.1, 0.0, 0.0], "whole numbers from 0 to 255"),
    ],
)
def test_what_is_no_observation_is_refused(policy_of, space, observations, complaint):
    policy, _ = policy_of(space, Discrete(2))
    with pytest.raises(ValueError, match=complaint) as raised:
        policy.act(observations)
    assert len(str(raised.value).splitlines()) == 1


def of_another_size(described, weights):
    weights["layers.0.weight"] = torch.zeros(64, 4)


def without_a_layer(described, weights):
    del weights["layers.1.bias"]


def with_another_number(described, weights):
    weights["inner.mean"] = torch.zeros(3)


def of_other_layers(described, weights):
    described["module"]["model_config"]["hidden_sizes"] = [64, -1]


def of_layers_that_are_no_numbers(described, weights):
    described["module"]["model_config"]["hidden_sizes"] = 7


def without_spaces(described, weights):
    del described["module"]["action_space"]


def that_is_a_list(described, weights):
    described["module"] = ["ttray.rllib.module:PolicyModule"]


def filtered_without_a_filter(described, weights):
    described["module"]["is_filtered"] = True


@pytest.mark.parametrize(
    "damage",
    [
        of_another_size,
        without_a_layer,
        with_another_number,
        of_other_layers,
        of_layers_that_are_no_numbers,
        without_spaces,
        that_is_a_list,
        filtered_without_a_filter,
    ],
)
def test_files_that_do_not_belong_together_are_refused_in_a_line(tmp_path, damage):
    directory = save(make_module(BOX, Discrete(2)), tmp_path / "policy")
    description, weights = directory / "policy.json", directory / "policy.safetensors"
    described, found = json.loads(description.read_text()), safetensors.torch.load_file(weights)
    damage(described, found)
    description.write_text(json.dumps(described))
    safetensors.torch.save_file(found, weights)
    with pytest.raises(ValueError, match="holds no usable policy") as raised:
        ttray.load_policy(directory)
    assert len(str(raised.value).splitlines()) == 1
    assert len(str(raised.value)) < 1000


def test_weights_that_are_not_finite_are_told_when_they_act(tmp_path):
    module = make_module(BOX, Discrete(2))
    with torch.no_grad():
        module.layers[2].bias[0] = torch.nan
    policy = ttray.load_policy(save(module, tmp_path / "policy"))
    with pytest.raises(ValueError, match="not finite"):
        policy.act(np.zeros(3))
