"""The columns are written down once, and the documentation says the same."""

import re
from pathlib import Path

from ttray.core.schema import COLUMNS

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"


def test_the_documented_columns_are_the_columns():
    section = PAGE.read_text().split("## The Arrow schema")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) ?\|$", section, re.MULTILINE)
    documented = [(name, kind.replace("\\", ""), meaning) for name, kind, meaning in rows]
    assert documented == [(column.name, str(column), column.meaning) for column in COLUMNS]
