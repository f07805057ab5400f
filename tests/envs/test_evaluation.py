import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.rolling import batch
from ttray.envs.evaluation import expected_return, reward_steps


def simulated_returns(probabilities: NDArray[np.float64], horizon: int, gamma: float) -> NDArray[np.float64]:
    """Discounted returns of 4000 slots under a policy `[horizon, 2]`."""
    slots = 4000
    env = batch("ttray/Evaluation-v0", slots, horizon=horizon)
    env.reset(seed=0)
    uniform = np.random.default_rng(1)
    returns = np.zeros(slots)
    for step in range(horizon):
        actions = (uniform.random(slots) < probabilities[step, 1]).astype(np.int64)
        returns += gamma**step * env.step(actions)[1]
    return returns


def test_closed_form_return_matches_simulation_of_a_stationary_policy() -> None:
    returns = simulated_returns(np.tile([0.3, 0.7], (100, 1)), 100, 0.99)
    error = returns.std() / np.sqrt(len(returns))
    assert returns.mean() == pytest.approx(expected_return([0.3, 0.7], 100, 0.99), abs=4 * error)
    assert error < 0.05


def test_closed_form_return_matches_simulation_of_a_time_dependent_policy() -> None:
    share = np.linspace(0.0, 1.0, 100)
    policy = np.stack([1.0 - share, share], axis=1)
    returns = simulated_returns(policy, 100, 0.95)
    error = returns.std() / np.sqrt(len(returns))
    assert returns.mean() == pytest.approx(expected_return(policy, 100, 0.95), abs=4 * error)
    # The wrong way round in time it would be far off: the test could fail.
    assert abs(returns.mean() - expected_return(policy[::-1], 100, 0.95)) > 20 * error


def test_closed_form_return_by_hand() -> None:
    assert expected_return([1.0, 0.0], 100, 1.0) == pytest.approx(28.0)
    assert expected_return([0.0, 1.0], 100, 1.0) == pytest.approx(25.6)
    assert expected_return([0.5, 0.5], 2000, 1.0) == pytest.approx(26.8)
    assert expected_return([0.25, 0.75], 1000, 0.0) == pytest.approx(0.25 * 1 + 0.75 * 4)


@pytest.mark.parametrize("horizon", [100, 1000, 2000])
def test_rewards_are_paid_at_the_eleven_steps_of_the_paper(horizon: int) -> None:
    tenth = horizon // 10
    expected = [*range(0, horizon, tenth), horizon - 1]
    assert reward_steps(horizon).tolist() == expected
    env = batch("ttray/Evaluation-v0", 2, horizon=horizon)
    env.reset(seed=0)
    rewards = np.array([env.step([0, 1])[1] for _ in range(horizon + 5)])
    assert np.flatnonzero(rewards.any(axis=1)).tolist() == expected


def test_reward_noise_is_normal_with_standard_deviation_a_tenth() -> None:
    env = batch("ttray/Evaluation-v0", 20_000)
    env.reset(seed=0)
    rewards = env.step(np.zeros(20_000, np.int64))[1]
    assert rewards.mean() == pytest.approx(1.0, abs=4 * 0.1 / np.sqrt(20_000))
    assert rewards.std() == pytest.approx(0.1, rel=0.03)


def test_the_observation_is_the_step_index_and_stays_at_the_horizon() -> None:
    env = batch("ttray/Evaluation-v0", 1, horizon=11)
    seen = [env.reset(seed=0)[0].item()] + [env.step([0])[0].item() for _ in range(13)]
    assert seen == [*range(12), 11, 11]


@pytest.mark.parametrize(
    ("policy", "gamma", "message"),
    [
        ([0.5, 0.6], 0.9, "sum to 1"),
        ([-0.5, 1.5], 0.9, "non-negative"),
        ([np.nan, 1.0], 0.9, "non-negative"),
        ([0.2, 0.3, 0.5], 0.9, r"shape \(2,\) or \(100, 2\), found \(3,\)"),
        ([0.5, 0.5], 1.1, "gamma"),
    ],
)
def test_wrong_policies_are_refused(policy: list[float], gamma: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        expected_return(policy, 100, gamma)
