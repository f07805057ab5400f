"""Batch files from anywhere: a batch, or one ValueError that names the file; nothing else, and no memory."""

import json
import resource

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.make_batches import KINDS, random_table
from ttray.data import batch
from ttray.plans import dcs

STRATEGY = dcs.truncated(horizon=6, budget=24, gamma=0.8)
TABLES = {name: random_table(STRATEGY, kind, seed=1) for name, kind in KINDS.items()}
KEYS = [key.decode() for key in TABLES["categorical"].schema.metadata]


def refused(table, path, match):
    pq.write_table(table, path)
    with pytest.raises(ValueError, match=match) as found:
        batch.read_parquet(path)
    assert path.name in str(found.value)


def with_metadata(table, **changes):
    """A table with other metadata; None takes a key away."""
    metadata = dict(table.schema.metadata)
    for key, value in changes.items():
        metadata[f"ttray.{key}".encode()] = value if isinstance(value, bytes) else json.dumps(value).encode()
    return table.replace_schema_metadata({key: value for key, value in metadata.items() if value != b"null!"})


def with_values(table, name, values):
    position = table.schema.get_field_index(name)
    return table.set_column(position, table.schema.field(name), values)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "batch.parquet"


@pytest.mark.parametrize(
    ("key", "value", "match"),
    [
        ("gamma", 5, "discount"),
        ("gamma", float("nan"), "discount"),
        ("gamma", "much", "discount"),
        ("budget", 25, "plans 24 steps"),
        ("budget", -1, "budget"),
        ("horizon", 2**62, "at most 10000000"),
        ("horizon", True, "horizon"),
        ("horizon", 7, "full-length"),
        ("seed", -1, "seed"),
        ("iteration", 1.5, "iteration"),
        ("environment", ["x"], "text"),
        ("environment", b"\xff", "no JSON"),
        ("environment", b"[" * 100_000, "no JSON"),
        ("distribution", {"kind": "categorical", "num_actions": -4}, "num_actions"),
        ("distribution", {"kind": "cauchy"}, "unknown action distribution"),
        ("distribution", 3, "mapping"),
        ("distribution", {"kind": "categorical", "num_actions": 5}, "dist_inputs"),
        ("distribution", {"kind": "diagonal_gaussian", "size": 2}, "floats"),
        ("strategy", {"kind": "x", "gamma": None, "lengths": [6], "trajectories": [2**60]}, "24 rows|rows"),
        ("strategy", {"kind": "x", "gamma": None, "lengths": [0], "trajectories": [1]}, "length 0"),
        ("strategy", {"kind": "x", "gamma": None, "lengths": [6, 6], "trajectories": [1, 1]}, "once"),
        ("strategy", {"kind": "x", "gamma": None, "lengths": 6, "trajectories": [1]}, "as many"),
        ("strategy", {"kind": "x", "gamma": None, "lengths": ["6"], "trajectories": [1]}, "integer"),
        ("strategy", {}, "must have"),
        ("format_version", 3, "format version 3"),
        ("format_version", True, "format version True"),
        ("seed", b"null!", "lack seed"),
    ],
)
def test_metadata_that_cannot_be_is_refused(path, key, value, match):
    refused(with_metadata(TABLES["categorical"], **{key: value}), path, match)


@pytest.mark.parametrize("name", ["reward", "log_prob", "obs", "dist_inputs", "last_obs"])
@pytest.mark.parametrize("value", [np.nan, np.inf, None])
def test_values_that_cannot_be_recorded_are_refused(path, name, value):
    table = TABLES["diagonal_gaussian"]
    rows = table[name].to_pylist()
    if isinstance(rows[-1], list):
        rows[-1] = [value, *rows[-1][1:]]
    else:
        rows[-1] = value
    expected = "nulls" if value is None else "1 values that are not finite"
    refused(with_values(table, name, pa.array(rows, table.schema.field(name).type)), path, expected)


@pytest.mark.parametrize(
    ("kind", "value"), [("categorical", 4), ("categorical", -1), ("multi_categorical", [0, 2, 0])]
)
def test_actions_that_cannot_be_chosen_are_refused(path, kind, value):
    table = TABLES[kind]
    rows = [*table["action"].to_pylist()[:-1], value]
    refused(
        with_values(table, "action", pa.array(rows, table.schema.field("action").type)),
        path,
        "actions must be",
    )


def test_a_file_that_is_not_its_plan_is_refused(path):
    refused(TABLES["categorical"].slice(1), path, "does not fit its strategy")
    table = TABLES["categorical"]
    refused(pa.concat_tables([table, table]), path, "does not fit its strategy")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1PAR1", b"no parquet" * 100])
def test_a_file_that_is_no_parquet_is_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"batch\.parquet is not a ttray batch"):
        batch.read_parquet(path)


def test_a_file_that_is_not_there_or_a_directory_is_refused(path):
    with pytest.raises(ValueError, match=r"there is no file .*batch\.parquet"):
        batch.read_parquet(path)
    path.mkdir()
    with pytest.raises(ValueError, match=r"batch\.parquet"):
        batch.read_parquet(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def read_or_refuse(path):
    """Reads a file; anything but a batch or a ValueError that names it fails the test."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        table = batch.read_parquet(path)
    except ValueError as problem:
        assert path.name in str(problem)  # noqa: PT017 - either outcome is right
    else:
        assert batch.Batch.of(table).tensors.obs.shape[0] == table.num_rows
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 * 1024


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(sorted(KINDS)), key=st.sampled_from(KEYS), value=JSON | st.binary(max_size=20))
def test_fuzzed_metadata_is_read_or_refused(path, kind, key, value):
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    metadata = dict(TABLES[kind].schema.metadata) | {key.encode(): text}
    pq.write_table(TABLES[kind].replace_schema_metadata(metadata), path)
    read_or_refuse(path)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(sorted(KINDS)),
    where=st.floats(0.0, 1.0, exclude_max=True),
    flip=st.integers(1, 255),
    cut=st.booleans(),
)
def test_flipped_and_cut_files_are_read_or_refused(path, kind, where, flip, cut):
    batch.write_parquet(TABLES[kind], path)
    data = bytearray(path.read_bytes())
    at = int(where * len(data))
    if cut:
        data = data[:at]
    else:
        data[at] ^= flip
    path.write_bytes(bytes(data))
    read_or_refuse(path)


WILD_CELLS = st.sampled_from(
    [None, -1, 0, 1, 5, 7, 2**31 - 1, -(2**31), 2**62, -(2**63), 0.5, 1e30, -0.0, np.nan, np.inf, True, False]
)
OTHER_TYPES = [pa.string(), pa.int8(), pa.float64(), pa.bool_(), pa.null(), pa.list_(pa.int64()), pa.binary()]


def with_other_cell(table, name, row, value):
    """One value of a column replaced, in a list its first; the same table if it does not fit."""
    cells = table[name].to_pylist()
    cell = cells[row % len(cells)]
    cells[row % len(cells)] = [value, *cell[1:]] if isinstance(cell, list) and cell else value
    try:
        return with_values(table, name, pa.array(cells, table.schema.field(name).type))
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return table


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(sorted(KINDS)),
    cells=st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 99), WILD_CELLS),
        min_size=1,
        max_size=3,
    ),
    compression=st.sampled_from(["snappy", "zstd", "none"]),
)
def test_fuzzed_values_are_read_or_refused(path, kind, cells, compression):
    table = TABLES[kind]
    for column, row, value in cells:
        table = with_other_cell(table, table.column_names[column % table.num_columns], row, value)
    pq.write_table(table, path, compression=compression)
    read_or_refuse(path)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(sorted(KINDS)),
    column=st.integers(0, 9),
    how=st.sampled_from(["drop", "rename", "twice", *OTHER_TYPES]),
    rows=st.sampled_from([None, 0, 1]),
)
def test_fuzzed_columns_are_read_or_refused(path, kind, column, how, rows):
    table = TABLES[kind].slice(0, rows)
    position = column % table.num_columns
    name = table.column_names[position]
    if how == "drop":
        table = table.drop_columns([name])
    elif how == "rename":
        table = table.rename_columns({name: name.upper()})
    elif how == "twice":
        table = table.append_column(name, table[name])
    else:
        table = table.set_column(position, name, pa.nulls(table.num_rows, how))
    pq.write_table(table, path)
    read_or_refuse(path)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(sorted(KINDS)),
    patches=st.lists(
        st.tuples(st.integers(1, 4000), st.binary(min_size=1, max_size=9)), min_size=1, max_size=4
    ),
    length=st.none() | st.integers(0, 2**32 - 1),
    magic=st.sampled_from([b"PAR1", b"PARE", b"ARRO"]),
)
def test_a_damaged_footer_is_read_or_refused(path, kind, patches, length, magic):
    """Where Parquet keeps its sizes and offsets: whatever they say, nothing large is allocated."""
    batch.write_parquet(TABLES[kind], path)
    data = bytearray(path.read_bytes())
    for from_end, patch in patches:
        at = max(len(data) - 8 - from_end, 0)
        data[at : at + len(patch)] = patch
    if length is not None:
        data[-8:-4] = length.to_bytes(4, "little")
    data[-4:] = magic
    path.write_bytes(bytes(data))
    read_or_refuse(path)
