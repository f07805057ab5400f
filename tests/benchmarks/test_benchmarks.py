"""Benchmarks: what they report, keep and draw. How fast anything is, is not judged here."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from stable_baselines3.common.vec_env import DummyVecEnv

from benchmarks import growth, iteration, models, optimisation, policies, policy_speeds, startup
from benchmarks.cases import Case
from benchmarks.idle import idle_shares
from benchmarks.report import Finding, Reporter, Result, plural
from benchmarks.suite import BENCHMARKS, Benchmark, measure, update_page
from benchmarks.tables import table

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
    values = (1_234_567.0, 99_999.0, 2_345_678.0)
    line = Finding("CorridorDense, 2 env runners", "publishing + rest", values, at_most=20).line()
    for part in ("CorridorDense, 2 env runners", "1235k", "100k–2346k", "≤ 20", "missed"):
        assert part in line
    assert len(line) <= 80


@pytest.mark.parametrize(
    ("number", "counted"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (1_000, "1,000 rows")]
)
def test_only_one_is_singular(number, counted):
    assert plural(number, "row") == counted


def test_a_reporter_prints_at_once_and_keeps_what_it_found(capsys):
    report = Reporter("core", "a title")
    report.say("a heading")
    first, second = Finding("a", "b", (1.0,), at_most=3.0), Finding("a", "c", (2.0, 4.0))
    report.add(first)
    assert capsys.readouterr().out == f"a heading\n{first.line()}\n"
    report.add(second)
    assert capsys.readouterr().out == f"{second.line()}\n"
    assert report.result({"points": [1]}) == Result("core", "a title", (first, second), {"points": [1]})


@pytest.mark.parametrize(
    ("last", "shown"),
    [
        (Finding("b", "2 env runners", (1.0,), at_least=1.0), [("all 2 plans", "share", (1.0,))]),
        (Finding("b", "x", (0.9,), at_least=1.0), [("a", "x", (1.0,)), ("b", "x", (0.9,))]),
        (Finding("b", "x", (1.0,), at_least=0.5), [("a", "x", (1.0,)), ("b", "x", (1.0,))]),
    ],
    ids=["equal", "another value", "another target"],
)
def test_equal_findings_become_one(last, shown, capsys):
    report = Reporter("core", "a title")
    report.add_folded("all 2 plans", "share", [Finding("a", "x", (1.0,), at_least=1.0), last])
    findings = report.result().findings
    assert [(finding.case, finding.quantity, finding.values) for finding in findings] == shown
    assert capsys.readouterr().out.splitlines() == [finding.line() for finding in findings]


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
        assert page.read_text() == text.replace("old\n", "\n".join(table(result_of())) + "\n")


def test_cases_that_were_measured_alike_are_lines_of_one_table():
    def of_case(case, *, least=0.5, without=()):
        yield Finding(case, "steps/s", (1.0, 3.0))
        yield Finding(case, "share", (0.4,), at_least=0.5)
        if "ratio" not in without:
            yield Finding(case, "ratio", (2.0,), at_least=least)

    findings = (
        *of_case("a"),
        Finding("alone", "share", (0.5,), at_most=0.5),
        *of_case("b", least=4.0),
        *of_case("c", without=("ratio",)),
    )
    assert table(Result("core", "a title", findings)) == [
        "|  | steps/s | share, ≥ 0.5 | ratio |",
        "|---|---|---|---|",
        "| a | 2 (1–3) | 0.4, missed | 2, ≥ 0.5 ok |",
        "| b | 2 (1–3) | 0.4, missed | 2, ≥ 4 missed |",
        "| c | 2 (1–3) | 0.4, missed |  |",
        "",
        "|  |  | median | rounds | target |  |",
        "|---|---|---|---|---|---|",
        "| alone | share | 0.5 |  | ≤ 0.5 | ok |",
    ]


def test_more_quantities_than_cases_are_the_lines():
    findings = tuple(Finding(case, quantity, (1.0,), at_most=2.0) for case in "abc" for quantity in "vwxyz")
    head, _, *lines = table(Result("core", "a title", findings))
    assert head == "|  | a | b | c |"
    assert lines == [f"| {quantity}, ≤ 2 | 1, ok | 1, ok | 1, ok |" for quantity in "vwxyz"]


def test_a_single_finding_is_one_line():
    finding = Finding("all 2 plans", "planned ÷ executed", (1.0,), at_least=1.0)
    assert table(Result("core", "a title", (finding,))) == ["all 2 plans: planned ÷ executed = 1 (≥ 1: ok)."]


def test_no_finding_is_lost_where_a_quantity_comes_twice():
    findings = tuple(Finding(case, quantity, (1.0,)) for case in "abc" for quantity in ("x", "y", "x"))
    assert len(table(Result("core", "a title", findings))) == 2 + len(findings)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_published_results_are_drawn_from_their_data(name):
    result = Result.from_json((DOCS / "performance" / f"{name}.json").read_text())
    assert result.name == name
    figure = BENCHMARKS[name].draw(result)
    assert figure.axes


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
    assert BENCHMARKS[result.name].draw(result).axes


def test_growth_tells_time_and_memory_of_a_plan():
    # More than what tests before may have left to this process.
    case = Case("ttray/CorridorDense-v0", horizon=1_000, budget=1_000_000, gamma=0.99)
    cost = growth._collect(case, num_quotas=2)
    assert cost.time_s > 0.0
    assert cost.table_bytes > 1_000_000 * 40  # of the plan's rows, not of those that load the code
    assert cost.peak_bytes > 0


def test_the_parts_of_an_iteration_add_up(local_ray, capsys):
    result = iteration.run(num_env_runners=(0,), rounds=1, warm_up=0)
    lines_of(result, capsys)
    found = {finding.quantity: finding.values for finding in result.findings}
    for index, total in enumerate(found["iteration"]):
        assert sum(found[part][index] for part in iteration.PARTS) == pytest.approx(total)
        assert all(found[part][index] >= 0.0 for part in iteration.PARTS)


def test_optimisation_compares_with_the_network_and_the_padded_form(local_ray, capsys):
    result = optimisation.run(
        cases=(("supply-chain", 0.95),), thread_rows=(9_000,), worker_rows=(9_000,), sizes=(), rounds=1
    )
    lines_of(result, capsys)
    assert [finding.quantity for finding in result.findings] == [
        "bound ÷ forward", "bound ÷ own forward", "grad ÷ fwd + bwd", "grad ÷ own fwd + bwd",
        "padded ÷ bound", "padded ÷ grad", "Fisher product ÷ grad",
        "ms, 1 thread", "1 → 2 threads",
        "1 → 2 workers", "learner ÷ 2 workers", "bytes, sums", "bytes, gradient",
    ]  # fmt: skip
    bytes_sent = {finding.quantity: finding.median for finding in result.findings[-2:]}
    assert bytes_sent["bytes, gradient"] > bytes_sent["bytes, sums"] > 2 * 4 * 3_000  # two copies of weights


def test_models_are_compared_with_rllibs_runner(local_ray, capsys):
    case = replace(models.CASES[0], case=Case("CartPole-v1", horizon=10, budget=640, gamma=None))
    result = models.run(cases=(case,), rounds=1, seconds=0.1)
    lines_of(result, capsys)
    quantities = [finding.quantity for finding in result.findings]
    assert quantities == ["steps/s", "× RLlib", "× RLlib, batch's Λ", "÷ default network"]
    assert all(value > 0.0 for finding in result.findings for value in finding.values)


def test_only_complete_episodes_throw_steps_away():
    case = Case("ttray/CorridorSparse-v0", horizon=20, gamma=0.8, budget=500)
    theirs, ours = idle_shares(case, rounds=1)
    assert 0.0 < theirs.median < 1.0
    assert ours.values == (0.0,)


def test_startup_times_every_command_in_turns(monkeypatch, capsys, tmp_path):
    log = tmp_path / "log"
    write = "import os, sys; open(sys.argv[1], 'a').write(f'{sys.argv[2]} {os.getpid()}' + chr(10))"
    commands = {name: (("-c", write, str(log), name), 60.0) for name in ("a", "b")}
    monkeypatch.setattr(startup, "COMMANDS", commands)
    monkeypatch.setattr(startup, "FIRST_ITERATION", 'print(\'{"sleep": 2, "wake": 1}\')')
    result = startup.run(rounds=2)
    lines_of(result, capsys)
    assert [(finding.case, len(finding.values)) for finding in result.findings[:2]] == [("a", 2), ("b", 2)]
    phases = [(finding.quantity, finding.values) for finding in result.findings[2:]]
    assert phases == [("first iteration", (3, 3)), ("sleep", (2, 2)), ("wake", (1, 1))]
    calls = [line.split() for line in log.read_text().splitlines()]
    assert [name for name, _ in calls] == ["a", "b"] * 3  # once more, before the rounds
    assert len({process for _, process in calls}) == 6


def test_startup_does_not_time_a_command_that_fails(monkeypatch):
    monkeypatch.setattr(startup, "COMMANDS", {"a": (("-c", "raise SystemExit(3)"), None)})
    with pytest.raises(subprocess.CalledProcessError, match="status 3"):
        startup.run(rounds=1)


def test_the_first_iteration_in_one_process_needs_no_ray():
    phases = startup._first_iteration()  # fails if one was started
    assert next(iter(phases)) == "interpreter"
    assert list(phases)[-2:] == ["algorithm", "first iteration"]
    assert min(phases.values()) > 0.0


def test_policies_of_other_frameworks_are_compared_with_these(local_ray, monkeypatch, capsys):
    monkeypatch.setattr(policies, "PAIRS", {name: policies.PAIRS[name] for name in ("SB3 PPO", "ONNX")})
    monkeypatch.setattr(policy_speeds, "NUM_ENV_RUNNERS", 1)
    result = policies.run(4, 2_000, horizons={"ttray/Dam-v0": 5}, episodes={1: 2, 2: 4}, rounds=1)
    lines_of(result, capsys)
    worth = ["own mean", "estimate", "low", "high", "holds it"]
    here = ["steps/s", "× evaluate_policy", "environment alone"]
    elsewhere = ["steps/s", "× SubprocVecEnv", "× DummyVecEnv"]
    assert [each.quantity for each in result.findings] == [*worth, *worth, *here, *here, *elsewhere]
    assert [each.case for each in result.findings[-9::3]] == [
        "Dam, 1 environment", "Dam, 2 environments", "Dam, 1 env runner"
    ]  # fmt: skip
    assert all(each.median > 0.0 for each in result.findings[-9:])


def test_only_steps_of_episodes_that_are_evaluated_make_a_speed():
    case = policy_speeds._Case("CartPole-v1", 5)
    with case.ours(3, 7, 0) as ours, case.theirs(3, 7, DummyVecEnv) as theirs:
        assert ours() == theirs() == 7 * 5
    assert case.alone(3)() >= policy_speeds._STEPS_ALONE
