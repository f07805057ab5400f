"""Policies from hell: functions and modules that are wrong, told as the policy's fault in one line.

A case is a policy for CartPole (four numbers observed, two choices) and words of its error.
"""

import importlib
import os
import sys
import threading
import traceback
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchSquashedGaussian
from torch import nn
from torch.nn import functional

import ttray
from tests.support.modules import OwnModule, RecurrentModule, StackModule, module_for
from ttray.plans.dcs import uniform
from ttray.rollout.policy_contract import PolicyError
from ttray.service.dispatcher import CollectionError
from ttray.service.service import DeterminismError
from ttray.settings.training import DispatchSettings


def raises(obs):
    raise KeyError("no such weight")


def exits(obs):
    sys.exit("no weights")


def fails_in_a_library(obs):
    return np.linalg.inv(obs)


def forgets_to_return(obs):
    obs + 1


def squeezes(obs):
    return np.zeros((len(obs), 2), dtype=np.float32).squeeze()


def a_matrix(obs):
    return np.zeros((len(obs), 2)).view(np.matrix)


def of_one_row(obs):
    return np.zeros(2, dtype=np.float32)


def too_many_outputs(obs):
    return np.zeros((len(obs), 3), dtype=np.float32)


def integers(obs):
    return np.zeros((len(obs), 2), dtype=np.int64)


def objects(obs):
    return np.full((len(obs), 2), None)


def a_list(obs):
    return [[0.0, 0.0]] * len(obs)


def a_dictionary(obs):
    return {Columns.ACTION_DIST_INPUTS: np.zeros((len(obs), 2))}


def tensors(obs):
    return torch.zeros(len(obs), 2)


def tensors_with_gradients(obs):
    return torch.zeros(len(obs), 2, requires_grad=True) + 1


def not_a_number(obs):
    return np.full((len(obs), 2), np.nan, dtype=np.float32)


def infinite(obs):
    return np.full((len(obs), 2), np.inf, dtype=np.float32)


def beyond_float32(obs):
    return np.full((len(obs), 2), 1e300)


class HasEverything:
    """As a mock does: whatever attribute it is asked for, it has it, and that one as well."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, obs):
        return self


class TrainingBatchNorm(OwnModule):
    """Normalises over the rows of a call, of which one alone has no variance."""

    def setup(self):
        super().setup()
        self.body.append(nn.BatchNorm1d(12, track_running_stats=False))


class WrongInputs(OwnModule):
    def setup(self):
        super().setup()
        self.body[0] = nn.Linear(7, 12)


class WrongOutputs(OwnModule):
    def setup(self):
        super().setup()
        self.head = nn.Linear(12, 5)


class WholeNumbers(OwnModule):
    def _forward(self, batch, **kwargs):
        return {Columns.ACTION_DIST_INPUTS: self.head(self.body(batch[Columns.OBS].long()))}


class AnswersATensor(OwnModule):
    def _forward(self, batch, **kwargs):
        return self.head(self.body(batch[Columns.OBS]))


class WithoutLogits(OwnModule):
    def _forward(self, batch, **kwargs):
        return {Columns.ACTIONS: torch.zeros(len(batch[Columns.OBS]))}


class NotANumber(OwnModule):
    def _forward(self, batch, **kwargs):
        return {Columns.ACTION_DIST_INPUTS: torch.full((len(batch[Columns.OBS]), 2), torch.nan)}


class EndlessDropout(OwnModule):
    def _forward(self, batch, **kwargs):
        hidden = functional.dropout(self.body(batch[Columns.OBS]), training=True)
        return {Columns.ACTION_DIST_INPUTS: 50 * self.head(hidden)}


_random = np.random.default_rng(0)


def noisy(obs):
    return _random.standard_normal((len(obs), 2)).astype(np.float32)


def mixes_rows(obs):
    return np.repeat(obs[:, :1] - obs[:, :1].mean(0), 2, axis=1) * np.float32([50, -50])


FUNCTIONS = [
    (raises, "KeyError: 'no such weight' .*test_modules.py, line .*, in raises"),
    (exits, "SystemExit: no weights .*test_modules.py, line .*, in exits"),
    (fails_in_a_library, "LinAlgError: .*test_modules.py, line .*, in fails_in_a_library"),
    (forgets_to_return, "answered None; .*Does it return something?"),
    (of_one_row, r"an array of float32 of shape \(2,\); .*shape \(\d+, 2\)"),
    (too_many_outputs, r"an array of float32 of shape \(\d+, 3\); .*shape \(\d+, 2\)"),
    (a_matrix, "a matrix of float64 .*np.asarray"),
    (integers, "an array of int64 .*np.asarray"),
    (objects, "an array of object"),
    (a_list, "a list"),
    (a_dictionary, "a dict"),
    (HasEverything(), "answered a HasEverything"),
    (tensors, r"a torch tensor of torch.float32 of shape \(\d+, 2\).*numpy\(\)"),
    (tensors_with_gradients, r"a torch tensor .*detach\(\)"),
    (not_a_number, r"not finite: \[nan nan\] \((trajectory 0, step|row) 0"),
    (beyond_float32, r"not finite: \[inf inf\] \((trajectory 0, step|row) 0"),
    (infinite, r"not finite: \[inf inf\] \((trajectory 0, step|row) 0"),
]

MODULES = [
    (TrainingBatchNorm, "raised ValueError: .*mixes the rows of a call"),
    (WrongInputs, "raised RuntimeError: .*shapes cannot be multiplied"),
    (WrongOutputs, r"an array of float32 of shape \(\d+, 5\); .*shape \(\d+, 2\)"),
    (WholeNumbers, "raised RuntimeError: .*dtype.*test_modules.py, line .*, in _forward"),
    (AnswersATensor, "its _forward gives Tensor; .*with action_dist_inputs"),
    (WithoutLogits, r"its _forward gives a dictionary of \['actions'\]; .*with action_dist_inputs"),
    (NotANumber, r"not finite: \[nan nan\]"),
]

RANDOM = [
    (noisy, "called twice with the same observations it answers other numbers"),
    (mixes_rows, "depends on the others in the same call"),
    (EndlessDropout, "called twice with the same observations it answers other numbers. .*dropout"),
]


def named(case):
    return "" if isinstance(case, str) else getattr(case, "__name__", type(case).__name__)


def as_policy(case):
    if isinstance(case, type):
        return module_for(gymnasium.make("CartPole-v1"), case)
    return case


def collect(case, **arguments):
    return ttray.collect("CartPole-v1", strategy=uniform(8, 64), policy=as_policy(case), **arguments)


@pytest.mark.parametrize(("case", "words"), FUNCTIONS + MODULES, ids=named)
def test_a_wrong_policy_is_told_as_the_policys_fault_in_one_line(case, words, caplog):
    with pytest.raises(PolicyError, match=f"CartPole-v1: the policy {named(case)} .*{words}") as found:
        collect(case)
    message = str(found.value)
    assert "\n" not in message
    assert "Traceback" not in message + caplog.text
    assert "".join(traceback.format_exception(found.value)).count("Traceback") == 1


@pytest.mark.parametrize(("case", "words"), RANDOM, ids=named)
def test_a_policy_that_is_no_function_of_one_observation_is_the_cause(case, words):
    blamed = f"the policy {named(case)} is the cause: .*{words}"
    with pytest.raises(DeterminismError, match=blamed) as found:
        collect(case)
    assert "reset()" not in str(found.value)


def test_a_random_policy_is_collected_where_the_error_says_how(caplog):
    with pytest.raises(DeterminismError, match=r"settings=ttray\.settings\.training\.DispatchSettings"):
        collect(noisy)
    table = collect(noisy, settings=DispatchSettings(determinism_check="warn"))
    assert table.num_rows > 0
    assert "the policy noisy is the cause" in caplog.text


def test_a_wrong_policy_elsewhere_is_told_once(local_ray):
    with pytest.raises(PolicyError, match="the policy raises raised KeyError: 'no such weight'"):
        collect(raises, num_env_runners=1)


def test_a_policy_that_depends_on_its_process_is_the_cause(local_ray):
    driver = os.getpid()

    def of_its_process(obs):
        return np.full((len(obs), 2), 0 if os.getpid() == driver else (9, -9), dtype=np.float32)

    with pytest.raises(DeterminismError, match=r"of_its_process is the cause: .* in another process.*getpid"):
        collect(of_its_process, num_env_runners=1)


def test_a_policy_that_cannot_be_sent_is_told_as_such(local_ray):
    lock = threading.Lock()

    def locked(obs):
        with lock:
            return np.zeros((len(obs), 2), dtype=np.float32)

    with pytest.raises(
        PolicyError, match=r"locked cannot be sent to env runners: cannot pickle .*lock"
    ) as found:
        collect(locked, num_env_runners=1)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (OwnModule, "found the class OwnModule"),
        (as_policy(RecurrentModule), "RecurrentModule .* gives no state_out"),
        (3, "found a int"),
        (np.zeros(3), "found a ndarray"),
    ],
    ids=("class", "recurrent", "number", "array"),
)
def test_what_is_no_policy_is_refused(source, words):
    with pytest.raises(ValueError, match=words):
        ttray.collect("CartPole-v1", strategy=uniform(8, 64), policy=source)


@pytest.mark.parametrize("kind", [np.float16, np.float64, np.longdouble, ">f4"])
def test_floats_of_every_kind_are_recorded_as_float32(kind):
    def policy(obs, kind=np.float32):
        return np.stack((obs[:, 0] > 0, obs[:, 2] > 0), axis=1).astype(kind)

    tables = [ttray.collect("CartPole-v1", strategy=uniform(8, 64), policy=policy)]
    tables.append(ttray.collect("CartPole-v1", strategy=uniform(8, 64), policy=partial(policy, kind=kind)))
    assert ttray.digest(tables[0]) == ttray.digest(tables[1])


def test_code_that_workers_cannot_import_is_named(local_ray, tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    (tmp_path / "only_here.py").write_text(
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "class Own(CartPoleEnv): pass\n"
        "def policy(obs): return 0 * obs[:, :2]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)  # after the workers' processes have begun
    only_here = importlib.import_module("only_here")
    for environment, policy in ((only_here.Own, None), ("CartPole-v1", only_here.policy)):
        with pytest.raises(
            CollectionError, match=r"it cannot import only_here, where .*working_dir"
        ) as found:
            ttray.collect(environment, strategy=uniform(8, 64), policy=policy, num_env_runners=1)
        assert "Traceback" not in str(found.value)


@pytest.mark.parametrize(("case", "words"), FUNCTIONS + MODULES[1:], ids=named)
def test_off_policy_evaluation_tells_a_wrong_policy_as_well(case, words):
    table = collect(None)
    with pytest.raises(PolicyError, match=f"the policy {named(case)} .*{words}"):
        ttray.ope([table], policy=as_policy(case))


def test_a_module_that_samples_in_another_way_acts_but_has_no_density():
    module = module_for(gymnasium.make("Pendulum-v1"), StackModule, hidden_sizes=(4,))
    module.action_dist_cls = TorchSquashedGaussian
    how = {"policy": module, "actions": "rescaled"}
    table = ttray.collect("Pendulum-v1", strategy=uniform(8, 64), **how)
    assert "log_prob" not in table.column_names
    recorded = ttray.collect("Pendulum-v1", strategy=uniform(8, 64))
    with pytest.raises(ValueError, match="samples its actions by TorchSquashedGaussian"):
        ttray.ope([recorded], **how)
