"""What a result costs: when a level counts as reached, and a small comparison from training to picture."""

import math

import gymnasium
import pytest
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from benchmarks import cost, cost_views, ppo
from benchmarks.cost import Curve, findings_of, reached_at
from benchmarks.methods import METHODS
from benchmarks.ppo import EpisodeReturns
from benchmarks.report import Result
from benchmarks.return_targets import GOALS, Goal


@pytest.mark.parametrize(
    ("returns", "expected"),
    [
        ([], None),
        ([5.0, 5.0], None),  # not enough iterations to tell
        ([0.0, 1.0, 2.0, 2.0], None),
        ([3.0, 3.0, 3.0, 0.0], 2),
        ([0.0, 8.0, 0.0, 0.0], None),  # one lucky batch
        ([0.0, 7.0, 0.0, 1.0, 3.0, 4.0, 2.0], 6),
        ([0.0, 0.0, 4.0, 5.0], 3),
    ],
    ids=["nothing", "too short", "never", "at once", "spike", "after a spike", "at the end"],
)
def test_a_level_is_reached_by_the_mean_of_three_iterations(returns, expected):
    assert reached_at(returns, 3.0) == expected


GOAL = Goal(
    "corridor-sparse-0.99",
    0.99,
    2600,
    (-1000.0, 1000.0),
    {"preset": "corridor-sparse-1300", "importance_weights": "per_decision", "baseline": "per_step"},
    {"preset": "corridor-sparse-1300"},
    {-1000.0: 5000},
)


def curve(method, seed, returns):
    count = range(1, len(returns) + 1)
    return Curve(method, seed, [100 * i for i in count], [0.5 * i for i in count], returns)


def found(*curves):
    return {(f.case, f.quantity): f.values for f in findings_of(GOAL, 3.0, curves)}


def test_trials_that_miss_a_level_are_shown_as_bounds():
    high, late, low = [3.0] * 4, [0.0, 3.0, 3.0, 3.0], [0.0] * 4
    values = found(
        *(curve("fast", seed, high) for seed in range(2)),
        *(curve("pois", seed, returns) for seed, returns in enumerate([late, low])),
        *(curve("sb3-ppo", seed, late) for seed in range(2)),
        curve("rllib-ppo", 1, low),
    )
    title = "CorridorSparse .99 ≥ 3"
    assert values == {
        (f"{title}, with baselines", "steps"): (300, 300),
        (f"{title}, with baselines", "seconds"): (1.5, 1.5),
        (f"{title}, POIS", "steps, 1 of 2 ≥"): (400, 400),
        (f"{title}, POIS", "seconds, 1 of 2 ≥"): (2.0, 2.0),
        (f"{title}, PPO (SB3)", "steps"): (400, 400),
        (f"{title}, PPO (SB3)", "seconds"): (2.0, 2.0),
        (f"{title}, PPO (RLlib)", "steps, 0 of 1 ≥"): (400,),
        (f"{title}, PPO (RLlib)", "seconds, 0 of 1 ≥"): (2.0,),
        (f"{title}, PPO (SB3)", "× our steps"): (4 / 3, 4 / 3),
        (f"{title}, PPO (SB3)", "× our seconds"): (4 / 3, 4 / 3),
        (f"{title}, PPO (RLlib)", "× our steps ≥"): (4 / 3,),
        (f"{title}, PPO (RLlib)", "× our seconds ≥"): (4 / 3,),
    }


def test_a_ratio_is_an_upper_bound_where_we_miss_and_left_out_where_both_do():
    high, low = [3.0] * 4, [0.0] * 4
    values = found(curve("fast", 0, low), curve("sb3-ppo", 0, low), curve("rllib-ppo", 0, high))
    assert values["CorridorSparse .99 ≥ 3, PPO (RLlib)", "× our steps ≤"] == (0.75,)
    assert not any("SB3" in case and "our" in quantity for case, quantity in values)


def test_returns_of_episodes_that_go_on_in_the_next_batch_are_whole():
    runner = SingleAgentEnvRunner(
        config=PPOConfig()
        .environment("ttray:ttray/CorridorSparse-v0", env_config={"max_episode_steps": 7})
        .env_runners(num_env_runners=0)
    )
    rewards, ended = [], {0.5: EpisodeReturns(0.5), 1.0: EpisodeReturns(1.0)}
    for _ in range(3):
        pieces = runner.sample(num_timesteps=10, random_actions=True)
        rewards += [reward for piece in pieces for reward in piece.get_rewards()]
        for returns in ended.values():
            returns.add(pieces)
    runner.stop()
    assert len(rewards) == 30
    for gamma, returns in ended.items():
        whole = [sum(gamma**t * rewards[start + t] for t in range(7)) for start in range(0, 28, 7)]
        assert math.isclose(returns.take_mean(), sum(whole) / 4)


def test_returns_of_a_wrapped_environment_are_those_of_its_episodes():
    returns = EpisodeReturns(0.5)
    environment = ppo.Recorded(gymnasium.make("ttray:ttray/CorridorSparse-v0", max_episode_steps=7), returns)
    environment.reset(seed=0)
    environment.action_space.seed(0)
    by_hand = []
    for _ in range(3):
        environment.reset()
        rewards = [environment.step(environment.action_space.sample())[1] for _ in range(7)]
        by_hand.append(sum(0.5**t * reward for t, reward in enumerate(rewards)))
    assert math.isclose(returns.take_mean(), sum(by_hand) / 3)
    assert math.isclose(returns.take_mean(), sum(by_hand) / 3)  # no episode has ended since


@pytest.fixture
def quick_methods(monkeypatch):
    """Two of ours and RLlib's PPO, whose batches are small; the other PPO is no dependency of the tests."""
    quick = (
        PPOConfig()
        .training(train_batch_size=1000, minibatch_size=500, num_epochs=1)
        .env_runners(num_envs_per_env_runner=10)
    )
    monkeypatch.setattr(ppo, "PPOConfig", quick.copy)
    chosen = {name: METHODS[name] for name in ("pois", "fast", "rllib-ppo")}
    monkeypatch.setattr(cost, "METHODS", chosen)
    monkeypatch.setattr(cost_views, "METHODS", chosen)


def test_a_small_comparison_from_training_to_table_and_picture(
    local_ray, quick_methods, tmp_path, monkeypatch, capsys
):
    result = cost.run(1, (GOAL,), tmp_path)

    curves = result.series["environments"][GOAL.name]["curves"]
    assert [each["method"] for each in curves] == ["pois", "fast", "rllib-ppo"]
    assert [each["num_env_steps"] for each in curves] == [
        [1300, 2600],
        [1300, 2600],
        [1000, 2000, 3000],  # the budget, made up to a whole batch
    ]
    for each in curves:
        assert len(each["time_s"]) == len(each["discounted_return"]) == len(each["num_env_steps"])
        assert each["time_s"] == sorted(each["time_s"])
        assert all(map(math.isfinite, each["discounted_return"]))
    settings = result.series["environments"][GOAL.name]["settings"]
    assert settings["fast"]["importance_weights"] == "per_decision"
    assert settings["pois"]["importance_weights"] == "trajectory"
    assert settings["rllib-ppo"]["train_batch_size"] == 4000  # RLlib's own: the small one is of this test
    lines = capsys.readouterr().out.splitlines()
    assert [finding.line() for finding in result.findings] == lines[-len(result.findings) :]
    assert max(map(len, lines)) <= 100

    again = Result.from_json(result.to_json())
    assert again.findings == result.findings
    *_, last = cost_views.table(again)
    assert last.startswith("| CorridorSparse .99 ≥ 1000 | ≥ 2,600, ")
    figure = cost_views.draw(again)
    assert len(figure.axes) == 1

    # What is finished is not done again; what is missing is.
    (tmp_path / GOAL.name / "fast" / "0.parquet").unlink()
    begun = []
    train = cost._train
    monkeypatch.setattr(
        cost, "_train", lambda goal, name, *rest: begun.append(name) or train(goal, name, *rest)
    )
    resumed = cost.run(1, (GOAL,), tmp_path)
    assert begun == ["fast"]
    returns = [each["discounted_return"] for each in resumed.series["environments"][GOAL.name]["curves"]]
    assert returns == [each["discounted_return"] for each in curves]


def test_an_interrupted_comparison_is_of_what_is_finished(local_ray, quick_methods, tmp_path, monkeypatch):
    train = cost._train

    def interrupted(goal, name, *rest):
        if name == "rllib-ppo":
            raise KeyboardInterrupt
        return train(goal, name, *rest)

    monkeypatch.setattr(cost, "_train", interrupted)
    result = cost.run(1, (GOAL,), tmp_path)
    assert [each["method"] for each in result.series["environments"][GOAL.name]["curves"]] == ["fast"]
    assert cost_views.table(result)[-1].endswith("|  |")  # no PPO


def test_stable_baselines_ppo_reports_the_returns_of_its_episodes():
    pytest.importorskip("stable_baselines3")
    with METHODS["sb3-ppo"].begin(GOAL, 0) as advance:
        (first, value), (second, _) = advance(), advance()
    assert (first, second) == (2048, 4096)
    assert math.isfinite(value)
    assert METHODS["sb3-ppo"].settings(GOAL)["n_steps"] == 2048


def test_every_goal_can_be_run_by_all_of_our_methods():
    for goal in GOALS:
        for algorithm in ("POIS", "TTPOIS"):
            assert goal.papers_run(algorithm, 0).environment == goal.environment
        assert goal.run(0).importance_weights == "per_decision"
        assert list(goal.levels) == sorted(goal.levels)
        assert set(goal.most_steps) <= set(goal.levels)
    assert len({goal.name for goal in GOALS}) == len(GOALS)
