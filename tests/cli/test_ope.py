"""`ttray ope` leads with what is proven, and its exit code says whether a policy is proven better."""

import json
from functools import partial

import pytest
import typer

import ttray
from tests.support.commands import answer_of
from ttray.cli.app import app
from ttray.cli.terminal import run
from ttray.data.batch import write_parquet
from ttray.plans import dcs

COMMAND = typer.main.get_command(app)


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: answer_of(partial(run, COMMAND), arguments, capsys)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return ttray.train(
        environment="ttray/SupplyChain-v0",
        gamma=0.9,
        horizon=5,
        budget=60,
        num_iterations=1,
        num_env_runners=0,
        directory=tmp_path_factory.mktemp("trained"),
    ).directory


@pytest.fixture(scope="module")
def recorded(trained, tmp_path_factory):
    """Two files of the policy itself, with weights of 1 but for low bits."""
    paths = []
    for seed in (1, 2):
        plan = dcs.uniform(5, 1000)
        table = ttray.collect("ttray/SupplyChain-v0", strategy=plan, policy=trained, gamma=0.9, seed=seed)
        paths.append(tmp_path_factory.mktemp("recorded") / f"{seed}.parquet")
        write_parquet(table, paths[-1])
    return paths


def test_what_is_proven_stands_first_with_its_conditions_and_the_rest_is_called_not_proven(
    call, trained, recorded
):
    done = call("ope", *recorded, "--policy", trained, "--range", "-900", "900")
    assert done.code == 0
    lines = done.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "PROVEN        by 400 trajectories, γ = 0.9"
    assert lines[1].startswith("  at least    ")
    assert lines[1].endswith("with probability 0.95")
    assert lines[2].startswith("  at most     ")
    text = " ".join(done.out.split())
    assert (
        "if every reward is from -900 to 900 (as given), and the policy was chosen without looking at" in text
    )
    assert "NOT PROVEN 2 batches, 400 trajectories, γ = 0.9" in text
    assert done.out.index("at most") < done.out.index("NOT PROVEN") < done.out.index("Cantelli")
    assert "as recorded" not in done.out


def test_without_a_range_nothing_is_proven_and_the_way_to_it_is_named(call, trained, recorded):
    done = call("ope", recorded[0], "--policy", trained)
    assert done.out.startswith("PROVEN        nothing: that needs the smallest and the largest possible\n")
    assert "--range" in done.out.splitlines()[1]
    assert "as recorded; others may be larger" in done.out
    asked = call("ope", recorded[0], "--policy", trained, "--better-than", "0")
    assert asked.code == 2
    assert "pass reward_range (--range)" in asked.err


def test_the_exit_code_is_0_only_for_a_policy_that_is_proven_better(call, trained, recorded):
    basis = ("ope", *recorded, "--policy", trained, "--range", "-900", "900")
    low = json.loads(call(*basis, "--json").out)["guaranteed"]["low"]
    proven = call(*basis, "--better-than", f"{low - 1.0}")
    assert proven.code == 0
    assert f"  better than {low - 1.0:.5g}: yes\n" in proven.out
    open_ = call(*basis, "--better-than", f"{low + 1.0}")
    assert open_.code == 4
    assert f"  better than {low + 1.0:.5g}: not proven\n" in open_.out
    as_json = call(*basis, "--better-than", f"{low + 1.0}", "--json")
    assert as_json.code == 4
    found = json.loads(as_json.out)
    assert (found["better_than"], found["is_better"]) == (low + 1.0, False)
    assert max(map(len, (proven.out + open_.out).splitlines())) <= 80


def test_a_split_proves_by_one_half_and_another_seed_draws_other_halves(call, trained, recorded):
    basis = ("ope", recorded[0], "--policy", trained, "--range", "-900", "900")
    done = call(*basis, "--split")
    assert "by 100 trajectories" in done.out
    assert "chosen without looking at this half of the data" in done.out
    assert "1 batch, 100 trajectories, the half to choose on, γ = 0.9" in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    first, same, other = (
        json.loads(call(*basis, "--split", "--json", "--seed", seed).out) for seed in ("0", "0", "1")
    )
    assert first == same
    assert first["guaranteed"] != other["guaranteed"]
    assert first["estimators"] != other["estimators"]
    whole = json.loads(call(*basis, "--json").out)
    assert (whole["num_proving"], first["num_proving"], first["num_trajectories"]) == (200, 100, 100)


def test_a_reward_outside_of_the_range_is_wrong_input(call, trained, recorded):
    done = call("ope", recorded[0], "--policy", trained, "--range", "-0.001", "0.001")
    assert done.code == 2
    assert "is outside of the range of rewards" in done.err


def test_help_tells_the_exit_codes(call):
    assert "exit code is 4" in " ".join(call("ope", "--help").out.split())
    assert "4 not proven (--better-than)" in " ".join(call("--help").out.split())
