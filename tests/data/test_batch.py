import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from tests.support.make_batches import KINDS, random_table
from ttray.data import batch
from ttray.data.ragged import as_tensors
from ttray.data.schema import array_of, canonical, from_message, last_obs_of, table_of, to_message
from ttray.data.validation import validate
from ttray.plans import dcs
from ttray.policies.distributions import Categorical

STRATEGY = dcs.truncated(horizon=12, budget=90, gamma=0.8)


@pytest.fixture(params=KINDS)
def table(request):
    return random_table(STRATEGY, KINDS[request.param], seed=1)


def without(table, trajectory):
    return table.filter(np.asarray(table["trajectory"]) != trajectory)


def replaced(table, name, values):
    position = table.schema.get_field_index(name)
    return table.set_column(position, table.schema.field(name), pa.array(values))


def test_schema_is_the_published_one(table):
    types = {field.name: str(field.type) for field in table.schema}
    action = types.pop("action")
    assert action in {
        "int64",
        "fixed_size_list<item: int64>[3]",
        "fixed_size_list<item: float>[2]",
    }
    inputs = table.schema.field("dist_inputs").type.list_size
    assert types == {
        "trajectory": "int64",
        "length": "int32",
        "t": "int32",
        "obs": "fixed_size_list<item: float>[3]",
        "reward": "double",
        "log_prob": "float",
        "dist_inputs": f"fixed_size_list<item: float>[{inputs}]",
        "terminated": "bool",
        "last_obs": "list<item: float>",
    }


def test_metadata_survives_a_round_trip_through_parquet(table, tmp_path):
    batch.write_parquet(table, tmp_path / "batch.parquet")
    read = batch.read_parquet(tmp_path / "batch.parquet")
    assert read.equals(table)
    assert batch.BatchInfo.from_table(read) == batch.BatchInfo.from_table(table)
    assert batch.digest(read) == batch.digest(table)
    info = batch.BatchInfo.from_table(read)
    assert (info.environment, info.seed, info.iteration, info.gamma) == ("test/Random-v0", 3, 7, 0.8)
    assert info.strategy == STRATEGY
    assert info.strategy.kind == "truncated"


def test_the_digest_of_weights_is_in_the_file_and_need_not_be(table, tmp_path):
    info = batch.BatchInfo.from_table(table)
    assert info.weights_digest is None  # as in files of earlier versions
    assert b"ttray.weights_digest" not in table.schema.metadata
    known = replace(info, weights_digest="ab12")
    path = tmp_path / "batch.parquet"
    batch.write_parquet(table.replace_schema_metadata(known.to_metadata()), path)
    assert batch.BatchInfo.from_table(batch.read_parquet(path)) == known
    wrong = info.to_metadata() | {b"ttray.weights_digest": b"7"}
    batch.write_parquet(table.replace_schema_metadata(wrong), path)
    with pytest.raises(ValueError, match="weights_digest"):
        batch.read_parquet(path)


def test_the_declared_range_of_rewards_is_in_the_file_and_need_not_be(table, tmp_path):
    info = batch.BatchInfo.from_table(table)
    assert info.reward_range is None
    assert b"ttray.reward_range" not in table.schema.metadata
    known = replace(info, reward_range=(-1e300, 2))
    path = tmp_path / "batch.parquet"
    batch.write_parquet(table.replace_schema_metadata(known.to_metadata()), path)
    assert batch.BatchInfo.from_table(batch.read_parquet(path)) == known
    endless = b"[0, 1" + 400 * b"0" + b"]"
    for wrong in (b"7", b"[1]", b"[1, 0]", b"[0, NaN]", b"[0, Infinity]", b'["a", 1]', b"[null, 1]", endless):
        changed = info.to_metadata() | {b"ttray.reward_range": wrong}
        batch.write_parquet(table.replace_schema_metadata(changed), path)
        with pytest.raises(ValueError, match="reward_range must be the smallest and the largest reward"):
            batch.read_parquet(path)


def test_reading_another_parquet_file_is_a_value_error(tmp_path):
    path = tmp_path / "other.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(ValueError, match=r"other\.parquet is not a ttray batch"):
        batch.read_parquet(path)


def test_reading_a_later_format_version_names_both_versions(table, tmp_path):
    metadata = dict(table.schema.metadata) | {b"ttray.format_version": b"3"}
    pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "later.parquet")
    with pytest.raises(ValueError, match="format version 3, this program reads the versions 1, 2"):
        batch.read_parquet(tmp_path / "later.parquet")


def test_tensors_share_memory_with_the_table(table):
    tensors = as_tensors(table)
    for name in ("reward", "t", "log_prob"):
        address = table[name].chunk(0).buffers()[1].address
        assert getattr(tensors, name).data_ptr() == address, name
    assert tensors.obs.data_ptr() == table["obs"].chunk(0).values.buffers()[1].address
    assert tensors.obs.shape == (table.num_rows, 3)


def test_tensor_offsets_delimit_the_trajectories(table):
    tensors = as_tensors(table)
    ids = np.asarray(table["trajectory"])
    for i, (start, end) in enumerate(zip(tensors.offsets[:-1], tensors.offsets[1:], strict=True)):
        assert set(ids[start:end]) == {i}
        assert torch.equal(tensors.t[start:end], torch.arange(end - start, dtype=torch.int32))
    assert tensors.length.tolist() == sorted(tensors.length.tolist(), reverse=True)
    assert tensors.offsets[-1] == table.num_rows


def test_a_sliced_and_chunked_table_gives_the_same_tensors(table):
    chunked = pa.concat_tables([table.slice(0, 7), table.slice(7, 1), table.slice(8)])
    expected, found = as_tensors(table), as_tensors(chunked)
    for name in ("offsets", "length", "t", "obs", "action", "reward", "log_prob", "dist_inputs"):
        assert torch.equal(getattr(expected, name), getattr(found, name)), name


def test_joining_puts_the_tables_of_quotas_into_one_piece(table):
    info = batch.BatchInfo.from_table(table)
    quotas = [table.slice(0, 20), table.slice(20)]
    joined = batch.Batch.join(info, [quota.replace_schema_metadata() for quota in quotas])
    assert joined.table.equals(table, check_metadata=True)
    assert joined.table["obs"].num_chunks == 1


def test_joining_refuses_what_is_not_the_plan_or_not_one_batch(table):
    info = batch.BatchInfo.from_table(table)
    with pytest.raises(ValueError, match="does not fit its strategy"):
        batch.Batch.join(info, [table.slice(1)])
    wider = random_table(STRATEGY, Categorical(4), obs_size=5)
    with pytest.raises(ValueError, match="come from one environment"):
        batch.Batch.join(info, [table.replace_schema_metadata(), wider])


def test_a_batch_is_looked_at_as_tensors_once(table):
    whole = batch.Batch.of(table)
    assert whole.tensors is whole.tensors
    assert whole.tensors.reward.data_ptr() == table["reward"].chunk(0).buffers()[1].address


def test_a_batch_travels_as_one_message(table):
    whole = batch.Batch.of(table)
    assert whole.tensors is not None  # which stay behind
    arrived = pickle.loads(pickle.dumps(whole))
    assert arrived.info == whole.info
    assert arrived.table.equals(table, check_metadata=True)
    assert "tensors" not in vars(arrived)


def test_canonical_order_and_digest_do_not_depend_on_row_order(table):
    shuffled = table.take(np.random.default_rng(0).permutation(table.num_rows))
    assert canonical(shuffled).equals(table)
    assert batch.digest(shuffled) == batch.digest(table)
    assert canonical(table) is table


def test_a_message_is_the_same_table_in_one_piece_of_memory(table):
    half = table.num_rows // 2
    in_two = pa.concat_tables([table.slice(0, half), table.slice(half)])
    for sent in (table, in_two):
        schema, rows = to_message(sent)
        read = from_message(schema, rows)
        assert read.equals(table, check_metadata=True)
        memory = range(rows.address, rows.address + rows.size)
        buffers = [piece for column in read.columns for piece in column.chunk(0).buffers() if piece]
        assert all(piece.address in memory for piece in buffers)


def test_digest_sees_a_single_bit():
    table = random_table(STRATEGY, Categorical(4))
    rewards = table["reward"].to_numpy().copy()
    rewards[5] = np.nextafter(rewards[5], np.inf)
    assert batch.digest(replaced(table, "reward", rewards)) != batch.digest(table)


def test_a_table_that_fits_its_strategy_is_valid(table):
    validate(table, STRATEGY)
    validate(table.take(np.random.default_rng(0).permutation(table.num_rows)), STRATEGY)


def test_validation_names_missing_trajectories(table):
    with pytest.raises(ValueError, match=r"2 missing: trajectory 1, 4"):
        validate(without(without(table, 4), 1), STRATEGY)


def test_validation_names_duplicate_trajectories(table):
    again = table.filter(np.asarray(table["trajectory"]) == 3)
    with pytest.raises(ValueError, match=r"1 duplicate: trajectory 3"):
        validate(pa.concat_tables([table, again]), STRATEGY)


def test_validation_names_trajectories_of_wrong_length():
    table = random_table(STRATEGY, Categorical(4), early=0.0)
    last = np.flatnonzero(np.asarray(table["trajectory"]) == 2)[-1]
    with pytest.raises(ValueError, match=r"1 of wrong length: trajectory 2"):
        validate(table.take(np.delete(np.arange(table.num_rows), last)), STRATEGY)


def test_validation_names_unplanned_and_relabelled_trajectories(table):
    ids = np.asarray(table["trajectory"]).copy()
    ids[ids == 0] = 1000
    with pytest.raises(ValueError, match=r"1 missing: trajectory 0; 1 not planned: trajectory 1000"):
        validate(replaced(table, "trajectory", ids), STRATEGY)


def test_validation_sees_a_gap_inside_a_trajectory():
    table = random_table(STRATEGY, Categorical(4), early=0.0)
    with pytest.raises(ValueError, match=r"with missing steps: trajectory 0"):
        validate(table.take(np.delete(np.arange(table.num_rows), 1)), STRATEGY)


def test_validation_sees_steps_after_termination():
    table = random_table(STRATEGY, Categorical(4), early=0.0)
    terminated = np.zeros(table.num_rows, dtype=bool)
    terminated[1] = True
    with pytest.raises(ValueError, match=r"going on after termination: trajectory 0"):
        validate(replaced(table, "terminated", terminated), STRATEGY)


def test_validation_against_another_strategy_fails(table):
    with pytest.raises(ValueError, match="does not fit its strategy"):
        validate(table, dcs.uniform(horizon=12, budget=96))


def test_validation_of_an_empty_table_names_every_trajectory(table):
    with pytest.raises(ValueError, match=f"{STRATEGY.num_trajectories} missing"):
        validate(table.slice(0, 0), STRATEGY)


def test_columns_of_different_lengths_names_or_types_are_refused(table):
    arrays = {name: array_of(table, name) for name in table.schema.names if name != "last_obs"}
    arrays["last_obs"] = last_obs_of(table)
    assert table_of(arrays).equals(table)
    with pytest.raises(ValueError, match="a row for each of 21 trajectories"):
        table_of(arrays | {"last_obs": arrays["last_obs"][1:]})
    with pytest.raises(ValueError, match="same number of rows"):
        table_of(arrays | {"t": arrays["t"][1:]})
    with pytest.raises(ValueError, match="column 'reward' must be double, found float"):
        table_of(arrays | {"reward": arrays["reward"].astype(np.float32)})
    with pytest.raises(ValueError, match="column 'obs' must be"):
        table_of(arrays | {"obs": arrays["obs"][:, :, None]})
    with pytest.raises(ValueError, match=r"a batch has the columns trajectory, .* found .*surprise"):
        table_of(arrays | {"surprise": arrays["t"]})


def test_a_file_of_version_1_can_still_be_read():
    path = Path(__file__).parent / "data" / "version_1.parquet"
    table = batch.read_parquet(path)
    # As the program that wrote it has printed it.
    assert batch.digest(table) == "0a637f478694aa6a21963b9faac2528e696eb094113319ba12630c162f69d701"
    info = batch.BatchInfo.from_table(table)
    assert (info.environment, info.seed, info.iteration) == ("ttray/Dam-v0", 3, 2)
    validate(table, info.strategy)
    whole = batch.Batch.of(table)
    assert whole.tensors.behaviour_inputs.shape[0] == whole.table.num_rows == 24
    with pytest.raises(ValueError, match="written by version 1, which did not record last observations"):
        last_obs_of(table)


def test_a_batch_may_be_without_the_policys_outputs(table):
    narrow = table.drop_columns(["dist_inputs"])
    validate(narrow, STRATEGY)
    tensors = as_tensors(narrow)
    assert tensors.dist_inputs is None
    with pytest.raises(ValueError, match="no column dist_inputs; collect with dist_inputs=True"):
        _ = tensors.behaviour_inputs
    assert batch.digest(narrow) != batch.digest(table)


def test_last_observations_are_one_per_trajectory_and_on_its_last_row(table):
    last = last_obs_of(table)
    assert last.shape == (STRATEGY.num_trajectories, 3)
    ends = as_tensors(table).offsets[1:] - 1
    column = table["last_obs"].to_pylist()
    assert [row for row, values in enumerate(column) if values] == ends.tolist()
    assert np.array_equal(np.array([column[end] for end in ends.tolist()], np.float32), last)
    moved = pa.array([[], *column[:-1]], pa.list_(pa.float32()))
    wrong = table.set_column(table.column_names.index("last_obs"), "last_obs", moved)
    with pytest.raises(ValueError, match="with a last observation missing or not on the last step"):
        validate(wrong, STRATEGY)
