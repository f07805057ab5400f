"""The columns are written down once, and the documentation says the same."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ttray.data.schema import COLUMNS, checksum, table_of

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "schema.md"


def test_the_documented_columns_are_the_columns():
    section = PAGE.read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) ?\|$", section, re.MULTILINE)
    documented = [(name, kind.replace("\\", ""), meaning) for name, kind, meaning in rows]
    assert documented == [(column.name, str(column), column.meaning) for column in COLUMNS]


WITHOUT_PANDAS = """
import sys
import numpy as np
from ttray.data.schema import COLUMNS, arrays_of, canonical, from_message, table_of, to_message
whole = {name: np.arange(4) // 2 for name in ("trajectory", "action")}
steps = {name: np.array([1, 0, 0, 1], np.int32) for name in ("t", "length")}
vectors = {"obs": np.ones((4, 2), np.float32), "dist_inputs": np.ones((4, 3), np.float32)}
others = {"reward": np.ones(4), "log_prob": np.ones(4, np.float32), "terminated": np.arange(4) == 2}
table = table_of({**whole, **steps, **vectors, **others, "last_obs": np.ones((2, 2), np.float32)})
table = canonical(from_message(*to_message(table)))
columns = {column.name: arrays_of(table, column.name) for column in COLUMNS}
print(columns["t"][0], columns["terminated"][0], "pandas" in sys.modules)
"""


def test_a_table_costs_an_env_runner_no_pandas():
    assert importlib.util.find_spec("pandas")  # RLlib's; else there would be nothing to see
    program = [sys.executable, "-c", WITHOUT_PANDAS]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[0 1 0 1] [False False  True False] False"


def columns():
    """Of one trajectory of six steps, every value its own."""
    steps = np.arange(6)
    return {
        "trajectory": np.zeros(6, dtype=np.int64),
        "length": np.full(6, 6, dtype=np.int32),
        "t": steps.astype(np.int32),
        "obs": np.arange(12, dtype=np.float32).reshape(6, 2),
        "action": steps,
        "reward": steps + 0.5,
        "log_prob": -steps.astype(np.float32),
        "terminated": steps == 5,
        "last_obs": np.array([[12.0, 13.0]], dtype=np.float32),
    }


def swapped(name, one, other):
    changed = columns()
    changed[name][[one, other]] = changed[name][[other, one]]
    return changed


CHANGES = {
    "two rewards": swapped("reward", 1, 2),
    "two observations": swapped("obs", 0, 3),
    "two actions": swapped("action", 4, 5),
    "a bit": {**columns(), "terminated": np.arange(6) == 4},
    "a last observation": {**columns(), "last_obs": np.array([[13.0, 12.0]], dtype=np.float32)},
    "a column": {**columns(), "dist_inputs": np.zeros((6, 2), dtype=np.float32)},
    "another shape": {**columns(), "obs": columns()["obs"].reshape(6, 2)[:, :1]},
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_checksum_notices_values_that_have_changed_places_and_whatever_else_is_other(change):
    table = table_of(columns())
    assert checksum(table) == checksum(table_of(columns()))
    assert checksum(table) != checksum(table_of(CHANGES[change]))
