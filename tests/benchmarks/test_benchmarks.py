"""Benchmarks: what they report, keep and draw. How fast anything is, is not judged here."""

import json
from pathlib import Path

import pytest

from ttray.benchmarks import growth, iteration, optimisation, sampling
from ttray.benchmarks.peers import Case
from ttray.benchmarks.report import Finding, Result
from ttray.benchmarks.suite import BENCHMARKS, Benchmark, measure, update_page
from ttray.runs.drawing import plt

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("values", "target", "verdict"),
    [
        ((1.0, 3.0, 2.0), {"at_least": 2.0}, "ok"),
        ((1.0, 9.0, 1.9), {"at_least": 2.0}, "missed"),
        ((1.0, 3.0, 2.0), {"at_most": 2.0}, "ok"),
        ((2.1,), {"at_most": 2.0}, "missed"),
        ((2.1,), {}, ""),
    ],
)
def test_the_median_decides(values, target, verdict):
    assert Finding("a", "b", values, **target).verdict == verdict


def test_a_line_shows_median_spread_target_and_verdict_in_eighty_columns():
    finding = Finding("CorridorDense, 2 actors", "steps/s", (1_234_567.0, 99_999.0, 2_345_678.0), at_least=20)
    line = finding.line()
    for part in ("CorridorDense, 2 actors", "1235k", "100k to 2346k", "≥ 20", "ok"):
        assert part in line
    assert len(line) <= 80


def result_of(name="core"):
    return Result(name, "a title", (Finding("a", "b", (1.0, 2.5), at_most=3.0),), {"points": [1]})


def test_results_are_kept_as_json_with_the_machine_they_are_of():
    text = result_of().to_json()
    assert Result.from_json(text) == result_of()
    assert set(json.loads(text)["machine"]["versions"]) >= {"ray", "torch", "numpy"}


def test_measuring_writes_data_and_a_picture(tmp_path, monkeypatch):
    drawn = BENCHMARKS["core"].draw
    monkeypatch.setitem(BENCHMARKS, "core", Benchmark(result_of, drawn, "nothing"))
    assert measure("core", tmp_path / "new") == result_of()
    assert Result.from_json((tmp_path / "new" / "core.json").read_text()) == result_of()
    assert (tmp_path / "new" / "core.png").read_bytes().startswith(b"\x89PNG")


def test_a_page_gets_the_tables_and_keeps_its_words(tmp_path):
    page = tmp_path / "page.md"
    text = (
        "# Title\n\n<!-- bench core -->\nold\n<!-- end -->\nwords\n<!-- bench envs -->\nkept\n<!-- end -->\n"
    )
    page.write_text(text)
    (tmp_path / "core.json").write_text(result_of().to_json())
    for _ in range(2):  # the second time nothing changes
        update_page(page, tmp_path)
        assert page.read_text() == text.replace("old\n", "\n".join(result_of().table()) + "\n")


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_published_results_are_drawn_from_their_data(name):
    result = Result.from_json((DOCS / "performance" / f"{name}.json").read_text())
    assert result.name == name
    figure = BENCHMARKS[name].draw(result)
    assert figure.axes
    plt.close(figure)


def test_the_page_shows_the_published_results(tmp_path):
    page = tmp_path / "page.md"
    published = (DOCS / "performance.md").read_text()
    assert all(f"<!-- bench {name} -->" in published for name in BENCHMARKS)
    page.write_text(published)
    update_page(page, DOCS / "performance")
    assert page.read_text() == published


def lines_of(result, capsys):
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert {finding.line() for finding in result.findings} <= set(lines)
    assert Result.from_json(result.to_json()) == result
    plt.close(BENCHMARKS[result.name].draw(result))


def test_growth_drives_simulated_actors(local_ray, capsys):
    result = growth.run(rows=(), horizons=(), quotas=(), actors=(5,), budget=2_000, rounds=1)
    lines_of(result, capsys)
    cases = [finding.case for finding in result.findings]
    assert cases == ["5 actors", "5 actors", "a call of a real actor"]


def test_growth_tells_time_and_memory_of_a_plan():
    cost = growth._collect(growth._Plan(budget=100_000, num_quotas=2))
    assert cost.time_s > 0.0
    assert cost.table_bytes > 100_000 * 40  # of the plan's rows, not of those that load the code
    assert cost.peak_bytes > 0


def test_the_parts_of_an_iteration_add_up(local_ray, capsys):
    result = iteration.run(num_actors=(0,), rounds=2, warm_up=0)
    lines_of(result, capsys)
    found = {finding.quantity: finding.values for finding in result.findings}
    for index, total in enumerate(found["iteration"]):
        assert sum(found[part][index] for part in iteration.PARTS) == pytest.approx(total)
        assert all(found[part][index] >= 0.0 for part in iteration.PARTS)


def test_optimisation_compares_with_the_network_and_the_padded_form(capsys):
    result = optimisation.run(cases=(("supply-chain", 0.95),), rounds=1)
    lines_of(result, capsys)
    assert [finding.quantity for finding in result.findings] == [
        "bound ÷ forward", "grad ÷ fwd + bwd", "padded ÷ bound", "padded ÷ grad",
    ]  # fmt: skip


def test_only_complete_episodes_throw_steps_away():
    case = Case("ttray/CorridorSparse-v0", horizon=20, gamma=0.8, budget=500)
    theirs, ours = sampling.idle_shares(case, rounds=1)
    assert 0.0 < theirs.median < 1.0
    assert ours.values == (0.0,)
