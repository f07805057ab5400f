"""The columns are written down once, and the documentation says the same."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

from ttray.core.schema import COLUMNS

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"


def test_the_documented_columns_are_the_columns():
    section = PAGE.read_text().split("## The Arrow schema")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) ?\|$", section, re.MULTILINE)
    documented = [(name, kind.replace("\\", ""), meaning) for name, kind, meaning in rows]
    assert documented == [(column.name, str(column), column.meaning) for column in COLUMNS]


WITHOUT_PANDAS = """
import sys
import numpy as np
from ttray.core.schema import COLUMNS, arrays_of, canonical, from_message, table_of, to_message
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
