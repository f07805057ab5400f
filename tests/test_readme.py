"""README.md: figures are those of the benchmarks' files, and five minutes are enough to read it."""

import json
import re
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
OURS, THEIRS = "with baselines", "PPO (SB3)"


def findings(name):
    """Medians of a published benchmark by case and quantity."""
    found = json.loads((ROOT / f"docs/performance/{name}.json").read_text())["findings"]
    return {(each["case"], each["quantity"]): median(each["values"]) for each in found}


def of(name, quantity, end=""):
    return [
        value for (case, what), value in findings(name).items() if what == quantity and case.endswith(end)
    ]


def ratios(quantity):
    """Theirs ÷ ours at each goal that all seeds of both reached."""
    cost = findings("cost")
    goals = {case.rpartition(", ")[0] for case, _ in cost}
    reached = [goal for goal in goals if all((f"{goal}, {who}", quantity) in cost for who in (OURS, THEIRS))]
    return [cost[f"{goal}, {THEIRS}", quantity] / cost[f"{goal}, {OURS}", quantity] for goal in reached], len(
        goals
    )


def short(value):
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def spread(values):
    return f"{short(min(values))} to {short(max(values))} times"


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        ("full episodes, Hoeffding", f"{spread(of('evaluation', 'same, full length'))} fewer"),
        ("full episodes, empirical Bernstein", f"{spread(of('evaluation', 'Bernstein ÷ ours'))} fewer"),
        ("the same test on full episodes", f"{spread(of('ranking', 'full length ÷'))} fewer"),
        ("RLlib", f"{spread(of('sampling', '× RLlib', '1 env runner'))} as many"),
        ("TorchRL", f"{spread(of('sampling', '× TorchRL', '1 env runner'))} as many"),
        ("Stable-Baselines3", f"{spread(of('sampling', '× SB3', '1 env runner'))} as many"),
        ("PPO (Stable-Baselines3)", f"{spread(ratios('seconds')[0])} less"),
        ("PPO (Stable-Baselines3)", f"{spread(ratios('steps')[0])} fewer"),
    ],
)
def test_the_table_beside_the_alternatives_is_what_was_measured(beside, said):
    assert f"| {beside} | {said} |" in TEXT


def test_the_number_of_goals_is_that_of_the_comparison():
    reached, goals = ratios("seconds")
    assert f"CPU time to a return, {len(reached)} of {goals} goals" in TEXT


def test_the_promises_are_those_of_the_benchmarks():
    service, plans = findings("service"), findings("utilization")
    assert service["98 real env runners", "same bits"] == 1.0
    assert "98 workers give the batch of a single process" in TEXT
    assert min(plans.values()) == 1.0
    assert "all 120 plans" in TEXT
    assert "all 120 plans" in (ROOT / "docs/performance.md").read_text()
    soak = (ROOT / "docs/notes/soak.md").read_text()
    for said in ("125 kills", "33", "14 lost nodes"):
        assert said in soak
        assert said in TEXT
    assert "1335 iterations" in soak
    assert "1,335 iterations" in TEXT


def test_it_is_read_in_five_minutes():
    prose = re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL)
    assert len(prose.split()) / 220 < 5.0
