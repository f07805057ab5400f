"""The commands' work as Python calls, on a real run directory: train, collect, evaluate, ope."""

import dataclasses
import math

import gymnasium
import numpy as np
import pyarrow as pa
import pytest

import ttray
from ttray.data.batch import write_parquet
from ttray.numerics.seeding import FIRST_EVALUATION_ITERATION
from ttray.plans import dcs

pytestmark = pytest.mark.usefixtures("local_ray")

PLAN = dcs.truncated(10, 120, 0.9)


@pytest.fixture(scope="module")
def trained(local_ray, tmp_path_factory):
    rows = []
    result = ttray.train(
        environment="ttray/SupplyChain-v0",
        gamma=0.9,
        horizon=10,
        budget=60,
        num_iterations=2,
        num_env_runners=0,
        directory=tmp_path_factory.mktemp("trained"),
        on_iteration=rows.append,
    )
    assert result.rows == rows
    return result


def test_training_tells_where_its_files_are(trained):
    assert [row["iteration"] for row in trained.rows] == [1, 2]
    for path in (trained.metrics, trained.picture):
        assert path.exists()
        assert path.parent == trained.directory
    assert trained.checkpoint == trained.directory / "checkpoints" / "000002"
    assert trained.checkpoint.exists()
    assert trained.run.name == "ttray-SupplyChain-v0-TTPOIS-0.9-0"


def test_training_again_goes_on_and_another_run_is_refused(trained):
    settings = {"gamma": 0.9, "horizon": 10, "budget": 60, "num_env_runners": 0}
    again = ttray.train(
        environment="ttray/SupplyChain-v0", num_iterations=2, directory=trained.directory, **settings
    )
    assert [row["discounted_return"] for row in again.rows] == [
        row["discounted_return"] for row in trained.rows
    ]
    with pytest.raises(ValueError, match="holds a run with preset=None, not 'supply-chain'"):
        ttray.train(preset="supply-chain", directory=trained.directory, **settings)


def test_a_run_directory_and_its_checkpoint_are_the_same_policy(trained):
    tables = [
        ttray.collect("ttray/SupplyChain-v0", strategy=PLAN, policy=policy)
        for policy in (trained.directory, str(trained.directory), trained.checkpoint)
    ]
    assert len({ttray.digest(table) for table in tables}) == 1
    fresh = ttray.collect("ttray/SupplyChain-v0", strategy=PLAN)
    assert ttray.digest(fresh) != ttray.digest(tables[0])
    with pytest.raises(ValueError, match="nowhere is no directory; pass that of a run or of a checkpoint"):
        ttray.collect("ttray/SupplyChain-v0", strategy=PLAN, policy="nowhere")


def test_an_evaluation_is_of_the_run_and_of_fresh_data(trained):
    found = ttray.evaluate(trained.directory, budget=120, seed=3)
    assert (found.environment, found.gamma, found.horizon) == ("ttray/SupplyChain-v0", 0.9, 10)
    assert (found.num_env_steps, found.num_trajectories) == (120, PLAN.num_trajectories)
    assert found.low <= found.estimate <= found.high
    table = ttray.collect(
        "ttray/SupplyChain-v0",
        strategy=PLAN,
        policy=trained.checkpoint,
        seed=3,
        iteration=FIRST_EVALUATION_ITERATION,
    )
    by_hand = ttray.ope([table], policy=trained.directory)  # its own data: all weights are 1
    for row in by_hand.estimators:
        assert row.estimate == pytest.approx(found.estimate, rel=1e-4)
    assert ttray.evaluate(trained.directory, budget=120, seed=3, num_env_runners=1) == found


def test_an_adaptive_evaluation_is_made_in_rounds_with_the_same_bits_anywhere(trained):
    arguments = {"budget": 240, "seed": 3, "strategy": "adaptive"}
    found = ttray.evaluate(trained.directory, **arguments)
    assert (found.num_rounds, found.num_env_steps) == (2, 240)
    assert found.low < found.estimate < found.high
    assert ttray.evaluate(trained.directory, num_env_runners=1, **arguments) == found
    assert ttray.evaluate(trained.directory, budget=120, seed=3, strategy="adaptive") == ttray.evaluate(
        trained.directory, budget=120, seed=3
    )


def test_an_environment_that_says_its_range_of_rewards_makes_a_guarantee(trained):
    def saying(reward_range):
        def make():
            environment = gymnasium.make("ttray/SupplyChain-v0")
            environment.unwrapped.metadata = {"reward_range": reward_range}
            return environment

        return make

    arguments = {"budget": 120, "seed": 3}
    assert ttray.evaluate(trained.directory, **arguments).guaranteed is None
    found = ttray.evaluate(trained.directory, environment=saying((-900.0, 100.0)), **arguments)
    assert (found.is_range_known, found.reward_range) == (True, 1000.0)
    assert found.guaranteed == (
        found.estimate - found.hoeffding_width,
        found.estimate + found.hoeffding_width,
    )
    assert found.betting.is_guaranteed
    assert found.betting.low < found.estimate < found.betting.high
    with pytest.raises(ValueError, match=r"the reward [\d.]+ of trajectory \d+, step \d+, is outside of"):
        ttray.evaluate(trained.directory, environment=saying((-900.0, -1.0)), **arguments)
    unbounded = ttray.evaluate(trained.directory, environment=saying((-math.inf, math.inf)), **arguments)
    assert unbounded.guaranteed is None
    with pytest.raises(ValueError, match=r"must be \(smallest, largest\)"):
        ttray.evaluate(trained.directory, environment=saying("wide"), **arguments)


def test_ope_takes_tables_and_files_alike(trained, tmp_path):
    table = ttray.collect("ttray/SupplyChain-v0", strategy=PLAN, policy=trained.directory)
    write_parquet(table, tmp_path / "batch.parquet")
    path = tmp_path / "batch.parquet"
    found = ttray.ope([table], policy=trained.directory, max_reward=1000.0)
    read = ttray.ope([path], policy=trained.checkpoint, max_reward=1000.0)
    assert (found.recordings, read.recordings) == (("table 0",), (str(path),))
    assert dataclasses.replace(read, recordings=found.recordings) == found
    assert (found.gamma, found.delta, found.max_reward) == (0.9, 0.05, 1000.0)
    with pytest.raises(ValueError, match=r"given twice, .*: table 0 and .*batch.parquet; pass each once"):
        ttray.ope([table, path], policy=trained.directory)


def test_ope_of_rewards_that_are_all_0_claims_no_bound_without_being_told_one(trained):
    table = ttray.collect("ttray/SupplyChain-v0", strategy=PLAN, policy=trained.directory)
    at = table.schema.get_field_index("reward")
    table = table.set_column(
        at, table.schema.field(at), pa.array(np.zeros(len(table)), table.schema.field(at).type)
    )
    found = ttray.ope([table], policy=trained.directory)
    for row in found.estimators:
        assert row.estimate == row.standard_error == 0.0
        assert row.students == row.bootstrap == -math.inf
    assert found["trajectory"].cantelli == found["per_decision"].cantelli == -math.inf
    assert "every recorded reward is 0" in found.problems[0]
    assert not found.is_worthless
    told = ttray.ope([table], policy=trained.directory, max_reward=100.0)
    assert -math.inf < told["per_decision"].cantelli < 0.0


def test_ope_names_the_file_that_spoils_the_answer(trained, tmp_path):
    def orders_little(obs):
        return np.tile(np.linspace(0.0, -8.0, 75, dtype=np.float32), (len(obs), 1))

    paths = []
    for name, policy in (("near", trained.directory), ("far", orders_little)):
        paths.append(tmp_path / f"{name}.parquet")
        write_parquet(ttray.collect("ttray/SupplyChain-v0", strategy=PLAN, policy=policy), paths[-1])
    assert not ttray.ope(paths[:1], policy=trained.directory, max_reward=100.0).problems
    found = ttray.ope(paths, policy=trained.directory)
    assert found.is_worthless
    assert any(f"most of it in {paths[1]}" in problem for problem in found.problems)


def test_ope_refuses_what_it_cannot_use(trained):
    table = ttray.collect("ttray/SupplyChain-v0", strategy=PLAN)
    other = ttray.collect("ttray/SupplyChain-v0", strategy=PLAN, gamma=0.5)
    with pytest.raises(ValueError, match="found no tables; pass at least one"):
        ttray.ope([], policy=trained.directory)
    with pytest.raises(ValueError, match="found one Table; put it into a list"):
        ttray.ope(table, policy=trained.directory)
    with pytest.raises(ValueError, match=r"the tables have the discounts \['0.5', '0.9'\]; pass gamma"):
        ttray.ope([table, other], policy=trained.directory)
    without = ttray.collect("ttray/SupplyChain-v0", strategy=dcs.uniform(10, 60))
    with pytest.raises(ValueError, match=r"discounts \['None'\]; pass gamma"):
        ttray.ope([without], policy=trained.directory)
