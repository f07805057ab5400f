"""Learning control: which trials there are, and a small comparison from training to table and picture."""

import math

import pytest

from benchmarks import control, control_views
from benchmarks.control_methods import METHODS, ZOO
from benchmarks.control_tasks import TASKS, ControlTask
from benchmarks.ppo import EpisodeReturns
from benchmarks.report import Result

TASK = ControlTask(
    "corridor",
    600,
    {-1000.0: 5000, 1000.0: None},
    {
        "environment": "ttray/CorridorSparse-v0",
        "algorithm": "TTPO",
        "gamma": 0.9,
        "horizon": 30,
        "budget": 300,
        "hidden_sizes": (4,),
    },
    length=40,
    marks=(200, 20_000),
)


def test_every_task_is_learned_by_ttpo_with_its_defaults():
    for task in TASKS:
        run = task.run_of(3)
        assert run.algorithm == "TTPO"
        assert run.horizon <= task.episode_length
        levels = list(task.most_steps)
        assert levels == sorted(levels)
        targets = [most for most in task.most_steps.values() if most]
        assert all(most < task.max_steps for most in targets)
    assert len({task.name for task in TASKS}) == len(TASKS)


def test_trials_are_each_task_with_each_method_that_can_learn_it_and_only_new_seeds():
    trials = [trial.name for trial, *_ in control._trials(TASKS)]
    assert len(set(trials)) == len(trials)
    assert {name.rpartition("/")[2] for name in trials} == {"3", "4", "5", "6", "7"}
    assert {name for name in trials if name.startswith("long-hopper")} == {
        f"long-hopper/ttpo/{seed}" for seed in (3, 4, 5)
    }
    assert "hopper/sb3-ppo-zoo/3" in trials
    assert "dam-0.999/sb3-ppo-zoo/3" not in trials  # nobody has tuned PPO for it
    of_plans = {name.split("/")[1] for name in trials if name.startswith("plan-")}
    assert of_plans == {"ttpo", "ttpo-uniform"}
    assert not any("uniform" in name for name in trials if not name.startswith("plan-"))


def test_a_million_steps_are_made_only_for_who_asks_for_them():
    def chosen(*patterns):
        return {
            trial.name
            for trial, task, *_ in control._trials(TASKS)
            if control._is_chosen(trial, task, patterns)
        }

    assert "hopper/ttpo/3" in chosen("*")
    assert "long-hopper/ttpo/3" not in chosen("*", "*/ttpo/*")
    assert chosen("long-hopper/*") == {f"long-hopper/ttpo/{seed}" for seed in (3, 4, 5)}


def test_a_trial_ends_at_its_level_behind_its_marks_or_when_it_is_solved():
    def is_done(task, *rows):
        return control._is_done(
            [
                {"num_env_steps": steps, "discounted_return": found, "fresh_sum": whole}
                for steps, found, whole in rows
            ],
            task,
        )

    task = ControlTask("a", 300, {1.0: None, 5.0: None}, TASK.run, marks=(200, 400))
    reached = [(steps, 5.0, math.nan) for steps in (50, 100, 150)]
    assert not is_done(task)
    assert not is_done(task, *reached)  # there is a mark to come
    assert is_done(task, *reached, (200, 0.0, 0.0))
    assert not is_done(task, (200, 0.0, 0.0))
    assert is_done(task, (300, 0.0, 0.0))
    solvable = ControlTask("b", 300, {5.0: None}, TASK.run, marks=(200,), solved=7.0)
    assert not is_done(solvable, *reached, (200, 5.0, 6.0))
    assert is_done(solvable, (200, 0.0, 7.0))


def test_a_small_comparison_from_training_to_table_and_picture(tmp_path, capsys):
    result = control.run(["corridor/ttpo/[34]"], tmp_path, [TASK])

    curves = result.series["curves"]["corridor"]["ttpo"]
    assert list(curves) == ["3", "4"]
    for rows in curves.values():
        assert [row["num_env_steps"] for row in rows] == [300, 600]
        for row in rows:  # a mark, and the end
            assert math.isfinite(row["fresh"])
            assert math.isfinite(row["fresh_sum"])
        assert 0.0 < rows[-1]["critic_s"] < rows[-1]["improve_s"]
    lines = capsys.readouterr().out.splitlines()
    assert [finding.line() for finding in result.findings] == lines[-len(result.findings) :]
    missed = [finding for finding in result.findings if "2 ≥" in finding.quantity]
    assert [(each.case, each.values) for each in missed] == [
        ("CorridorSparse .9 ≥ -1000, TTPO", (600, 600)),  # two iterations are too few to tell
        ("CorridorSparse .9 ≥ 1000, TTPO", (600, 600)),
    ]

    again = Result.from_json(result.to_json())
    head, _, easy, hard, _, _, _, mark, *_ = control_views.table(again)
    assert head == "| steps | target | TTPO |"
    assert easy.startswith("| CorridorSparse .9 ≥ -1000 | ≤ 5,000 | ≥ 600 (0 of 2) |")
    assert hard.startswith("| CorridorSparse .9 ≥ 1000 |  | ≥ 600 (0 of 2) |")
    assert mark.startswith("| CorridorSparse .9 at 200 | ")
    assert mark.endswith(" (2) |")
    assert len(control_views.draw(again).axes) == 1

    finished = (tmp_path / "corridor/ttpo/3.parquet").stat().st_mtime_ns
    control.run(["corridor/ttpo/*3"], tmp_path, [TASK])
    assert (tmp_path / "corridor/ttpo/3.parquet").stat().st_mtime_ns == finished  # not done again


@pytest.mark.parametrize("method", ["sb3-ppo-zoo", "sb3-trpo"])
def test_the_others_learn_with_the_same_observations_and_are_worth_what_their_episodes_say(method):
    pytest.importorskip("stable_baselines3")
    pytest.importorskip("sb3_contrib")
    task = next(task for task in TASKS if task.name == "inverted-double-pendulum")
    with METHODS[method].begin(task, 3) as learning:
        steps = learning.advance()["num_env_steps"]
        normalised = learning.policy.get_vec_normalize_env()
        assert normalised.norm_obs
        assert normalised.norm_reward == (method == "sb3-ppo-zoo")
        assert steps % learning.policy.n_steps == 0
        assert 1000 <= steps < 1000 + learning.policy.n_steps
        assert learning.policy.gamma == task.gamma
        fresh = control._fresh(learning, task, 3)
    assert 0.0 < fresh["fresh"] < fresh["fresh_sum"] < 9000.0


def test_no_mean_is_asked_for_before_an_episode_has_ended():
    returns = EpisodeReturns(0.5)
    returns.add_rewards("a", 0, [1.0], is_done=False)
    assert not returns.has_any
    returns.add_rewards("b", 0, [1.0, 1.0], is_done=True)
    assert returns.has_any
    assert returns.take_mean() == 1.5
    assert returns.has_any  # the mean of before stands in


def test_published_settings_are_of_tasks_that_there_are():
    assert set(ZOO) == {task.environment for task in TASKS if not task.environment.startswith("ttray/")}
