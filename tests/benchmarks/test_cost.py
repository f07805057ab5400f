"""What a result costs: when a level counts as reached, and a small comparison from training to picture."""

import math

import pytest
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from ttray.benchmarks import cost, ppo
from ttray.benchmarks.cost import Curve, Goal, findings_of, reached_at
from ttray.benchmarks.ppo import EpisodeReturns
from ttray.benchmarks.report import Result


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


def curve(algorithm, seed, returns):
    count = range(1, len(returns) + 1)
    return Curve(algorithm, seed, [100 * i for i in count], [0.5 * i for i in count], returns)


def found(*curves):
    return {(f.case, f.quantity): f.values for f in findings_of("Dam", 3.0, curves)}


def test_trials_that_miss_a_level_are_shown_as_bounds():
    high, late, low = [3.0] * 4, [0.0, 3.0, 3.0, 3.0], [0.0] * 4
    values = found(
        *(curve("TTPOIS", seed, high) for seed in range(2)),
        *(curve("POIS", seed, returns) for seed, returns in enumerate([late, low])),
        *(curve("PPO", seed, late) for seed in range(2)),
    )
    assert values == {
        ("Dam ≥ 3, TT-POIS", "steps"): (300, 300),
        ("Dam ≥ 3, TT-POIS", "seconds"): (1.5, 1.5),
        ("Dam ≥ 3, POIS", "steps, 1 of 2 ≥"): (400, 400),
        ("Dam ≥ 3, POIS", "seconds, 1 of 2 ≥"): (2.0, 2.0),
        ("Dam ≥ 3, PPO", "steps"): (400, 400),
        ("Dam ≥ 3, PPO", "seconds"): (2.0, 2.0),
        ("Dam ≥ 3, POIS", "× our steps ≥"): (4 / 3, 4 / 3),
        ("Dam ≥ 3, POIS", "× our seconds ≥"): (4 / 3, 4 / 3),
        ("Dam ≥ 3, PPO", "× our steps"): (4 / 3, 4 / 3),
        ("Dam ≥ 3, PPO", "× our seconds"): (4 / 3, 4 / 3),
    }


def test_a_ratio_is_an_upper_bound_where_we_miss_and_left_out_where_both_do():
    high, low = [3.0] * 4, [0.0] * 4
    values = found(curve("TTPOIS", 0, low), curve("POIS", 0, low), curve("PPO", 0, high))
    assert values["Dam ≥ 3, PPO", "× our steps ≤"] == (0.75,)
    assert not any(case.endswith(" POIS") and "our" in quantity for case, quantity in values)


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


def test_a_small_comparison_from_training_to_picture(local_ray, monkeypatch, capsys):
    goal = Goal("corridor-sparse-1300", 0.99, 3, (-1000.0, 1000.0))
    monkeypatch.setattr(cost, "GOALS", (goal,))
    # Several batches in little time.
    quick = (
        PPOConfig()
        .training(train_batch_size=1000, minibatch_size=500, num_epochs=1)
        .env_runners(num_envs_per_env_runner=10)
    )
    monkeypatch.setattr(ppo, "PPOConfig", quick.copy)
    result = cost.run(num_seeds=1)

    curves = result.series["environments"][goal.preset]["curves"]
    assert [each["algorithm"] for each in curves] == ["TTPOIS", "POIS", "PPO"]
    assert [each["num_env_steps"] for each in curves] == [
        [1300, 2600, 3900],
        [1300, 2600, 3900],
        [1000, 2000, 3000, 4000],  # the budget, made up to a whole batch
    ]
    for each in curves:
        assert len(each["time_s"]) == len(each["discounted_return"]) == len(each["num_env_steps"])
        assert each["time_s"] == sorted(each["time_s"])
        assert all(map(math.isfinite, each["discounted_return"]))
    assert [f.values[0] for f in result.findings if f.quantity == "steps"] == [3900, 3900, 3000]
    assert sum(f.quantity == "steps, 0 of 1 ≥" for f in result.findings) == 3

    again = Result.from_json(result.to_json())
    assert again.findings == result.findings
    figure = cost.draw(again)
    assert len(figure.axes) == 2
    cost.plt.close(figure)
    lines = capsys.readouterr().out.splitlines()
    assert [finding.line() for finding in result.findings] == lines[-len(result.findings) :]
    assert max(map(len, lines)) <= 80


def test_presets_without_a_goal_are_refused():
    with pytest.raises(ValueError, match="no goal for lake; choose of dam, corridor-dense"):
        cost.run(iterations={"lake": 1})
