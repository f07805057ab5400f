"""Verdicts follow from data by a rule: small data of which the verdicts are known."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paper import markdown
from paper.claims import tables
from ttray.runs.curve_pictures import PER_DECISION

BETTER = "TT-POIS is better than POIS on Dam, Reacher and Supply Chain, whatever γ"


def put(directory, name, rows):
    pq.write_table(pa.Table.from_pylist(rows), directory / f"{name}.parquet")


def curves(preset, gamma, finals):
    """Two iterations of three seeds, which end a little around the final return of each method."""
    return [
        {
            "preset": preset,
            "gamma": gamma,
            "algorithm": method,
            "seed": seed,
            "iteration": iteration,
            "num_env_steps": 100 * iteration,
            "discounted_return": value,
            "episode_return_mean": value,
        }
        for method, final in finals.items()
        for seed in range(3)
        for iteration, value in enumerate([0.0, final + 0.01 * seed] * 3, 1)
    ]


def cells_of(directory, name):
    _, _, *lines = tables(directory)[name]
    return [line[2:-2].split(" | ") for line in lines]


def verdicts(directory):
    return {
        claim: (verdict.strip("*"), measured) for claim, verdict, measured in cells_of(directory, "claims")
    }


def cases(directory):
    return {case: cells for case, *cells in cells_of(directory, "cases")}


def test_without_data_nothing_is_claimed(tmp_path):
    found = verdicts(tmp_path)
    assert len(found) == 12
    assert {verdict for verdict, _ in found.values()} == {"not run"}


@pytest.mark.parametrize(
    ("with_truncation", "verdict", "word"),
    [
        ((5.0, 5.0), "holds", "better"),
        ((5.0, 2.0), "holds in part", "level"),
        ((2.0, 2.0), "does not hold", "level"),
        ((5.0, 1.0), "does not hold", "worse"),
    ],
)
def test_a_claim_holds_in_all_cases_or_in_part_or_not(tmp_path, with_truncation, verdict, word):
    for preset, value in zip(("dam", "reacher"), with_truncation, strict=True):
        put(tmp_path, preset, curves(preset, 0.95, {"TTPOIS": value, "POIS": 2.0}))
    found, counted = verdicts(tmp_path)[BETTER]
    assert found == verdict
    assert word in counted
    difference, *_ = cases(tmp_path)["reacher, γ = 0.95"]
    assert difference.replace("-0.000", "0.000").startswith(f"{3 * (with_truncation[1] - 2.0) / 5:.3f} ± ")
    assert difference.endswith(f", {word}")


def test_figures_that_share_runs_count_them_once(tmp_path):
    rows = curves("dam", 0.95, {"TTPOIS": 2.02, "POIS": 2.0})
    put(tmp_path, "dam", rows)
    alone = verdicts(tmp_path), cases(tmp_path)
    put(tmp_path, "main", rows)
    assert (verdicts(tmp_path), cases(tmp_path)) == alone


def test_advantages_budgets_and_weights_are_judged(tmp_path):
    rows = [
        row
        for gamma, value in ((0.999, 3.0), (0.95, 5.0))
        for row in curves("dam", gamma, {"TTPOIS": value, "POIS": 2.0, PER_DECISION: 9.0})
    ]
    put(tmp_path, "dam", rows)
    put(tmp_path, "dam-4320", curves("dam-4320", 0.95, {"TTPOIS": 2.0, "POIS": 5.0}))
    found = verdicts(tmp_path)
    assert found["the smaller γ, the larger the advantage, where there is one"][0] == "holds"
    budgets = "does not hold", "the same in 0, the opposite in 1 of 1"
    assert found["budgets change nothing of this"] == budgets
    (weights,) = (each for claim, each in found.items() if claim.startswith("beyond the paper"))
    assert weights[0] == "holds"
    assert cases(tmp_path)["dam, γ = 0.95"][-1] == "500 of 600"
    assert cases(tmp_path)["dam-4320, γ = 0.95"][-2:] == ["", ""]


def test_a_page_keeps_all_but_the_tables_that_are_given(tmp_path):
    page = tmp_path / "page.md"
    text = "# Title\n\n<!-- claims -->\nold\n<!-- end -->\n<!-- other -->\nkept\n<!-- end -->\n"
    page.write_text(text)
    markdown.fill(page, {"claims": ["new", "lines"]})
    assert page.read_text() == text.replace("old", "new\nlines")
