"""`ttray plan --to`: a forecast from a pilot of the policy, and the worst case beside it."""

import json
from functools import partial

import pytest
import typer

import ttray
from tests.support.commands import answer_of
from tests.support.sb3_models import trained as sb3_model
from ttray.cli.app import app
from ttray.cli.terminal import run
from ttray.plans.planners import required_budget

COMMAND = typer.main.get_command(app)


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: answer_of(partial(run, COMMAND), arguments, capsys)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return ttray.train(
        environment="ttray/CorridorSparse-v0",
        gamma=0.99,
        horizon=50,
        budget=200,
        num_iterations=1,
        num_env_runners=0,
        directory=tmp_path_factory.mktemp("trained"),
    ).directory


def test_a_pilot_forecasts_what_the_evaluation_then_takes(call, trained):
    found = json.loads(call("plan", "--to", "1.5", "--policy", trained, "--json").out)
    assert (found["horizon"], found["gamma"], found["delta"]) == (50, 0.99, 0.05)  # as evaluate has them
    assert found["reward_range"] == [0.0, 1.0]  # as the environment says
    assert 200 < found["num_pilot_steps"] < 12_000
    took = ttray.evaluate(trained, accuracy=1.5).num_env_steps
    assert took / 3 < found["num_expected_steps"] < 3 * took
    worst = required_budget(1.5, delta=0.05, horizon=50, gamma=0.99, reward_range=1.0)
    assert found["worst_case"] == worst > found["num_expected_steps"]
    told = call("plan", "--to", "1.5", "--policy", trained)
    assert f"worst case  {worst:,} steps to ±1.5, if nothing is known of the policy" in told.out
    assert "pilot " in told.out
    assert max(map(len, told.out.splitlines())) <= 80


def test_a_pilot_of_another_framework_s_file_is_flown_for_who_trusts_it(call):
    sb3_model("PPO").save("model.zip")
    basis = ("plan", "--to", "20", "--policy", "model.zip", "--env", "CartPole-v1", "--range", "0", "1")
    refused = call(*basis)
    assert refused.code == 2
    assert "--trust" in refused.err
    sampled = json.loads(call(*basis, "--trust", "--json").out)
    assert sampled["num_expected_steps"] < sampled["worst_case"]
    likeliest = json.loads(call(*basis, "--trust", "--deterministic", "--json").out)
    assert likeliest["estimate"] != sampled["estimate"]


def test_an_accuracy_may_be_a_share_of_what_the_pilot_earns(call, trained):
    found = json.loads(call("plan", "--to", "90%", "--policy", trained, "--json").out)
    assert found["accuracy"] == pytest.approx(0.9 * found["estimate"], rel=0.2)


def test_without_a_policy_there_is_only_the_worst_case_and_it_says_so(call):
    arguments = ("plan", "--to", "20", "--env", "CartPole-v1", "--range", "0", "1")
    found = json.loads(call(*arguments, "--json").out)
    assert (found["horizon"], found["gamma"]) == (500, 1.0)
    assert found["num_expected_steps"] is None
    assert found["worst_case"] == required_budget(20, delta=0.05, horizon=500, gamma=1.0)
    assert "only the worst case: with --policy" in call(*arguments).out
    width = json.loads(call(*arguments[:5], "--reward-range", "1", "--json").out)
    assert width["worst_case"] == found["worst_case"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--to", "5%", "--env", "CartPole-v1", "--range", "0", "1"), "a share of the return needs a policy"),
        (("--to", "5", "--preset", "dam"), "depends on the range of rewards (--range LOW HIGH)"),
        (("--to", "5", "--range", "0", "1"), "depends on the horizon"),
        (("--policy", "runs"), "pass --to"),
    ],
)
def test_what_is_missing_is_named(call, arguments, message):
    done = call("plan", *arguments)
    assert done.code == 2
    assert message in done.err
