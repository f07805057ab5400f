import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.rolling import batch

RIGHT, LEFT = 0, 1


def goal_probabilities(steps: int, x_max: int, p: float) -> NDArray[np.float64]:
    """P(at the goal before step t) of a walk with steps of exactly 1, always to the right."""
    states = np.zeros(2 * x_max + 1)
    states[x_max] = 1.0
    goal = []
    for _ in range(steps):
        goal.append(states[-1])
        moved = np.zeros_like(states)
        moved[1:] += p * states[:-1]
        moved[:-2] += (1.0 - p) * states[1:-1]
        moved[0] += (1.0 - p) * states[0]  # clipped at the left end
        moved[-1] += states[-1]  # absorbing
        states = moved
    return np.array(goal)


def test_the_goal_is_reached_with_the_probability_of_the_walk() -> None:
    slots, steps = 5000, 40
    env = batch("ttray/CorridorSparse-v0", slots, x_max=6.0, success_probability=0.7, move_std=0.0)
    env.reset(seed=0)
    rewards = np.array([env.step(np.full(slots, RIGHT))[1] for _ in range(steps)])
    expected = goal_probabilities(steps, 6, 0.7)
    error = np.sqrt(expected * (1.0 - expected) / slots)
    assert np.all(np.abs(rewards.mean(axis=1) - expected) <= 4.5 * error)
    assert 0.5 < expected[-1] < 1.0


@pytest.mark.parametrize("action", [RIGHT, LEFT])
@pytest.mark.parametrize("p", [0.9, 0.6])
def test_moves_have_the_direction_and_the_spread_of_the_formula(action: int, p: float) -> None:
    slots, steps = 500, 100
    # No end of the corridor is within reach, so every difference of positions is a whole move.
    env = batch("ttray/CorridorDense-v0", slots, success_probability=p, x_max=200.0)
    before, _ = env.reset(seed=0)
    taken = [env.step(np.full(slots, action)) for _ in range(steps)]
    positions = np.array([before, *(observation for observation, *_ in taken)])[:, :, 0]
    rewards = np.array([reward for _, reward, *_ in taken]).reshape(-1)
    moves = np.diff(positions.astype(np.float64), axis=0).reshape(-1)
    intended = 1.0 if action == RIGHT else -1.0
    succeeded = np.sign(moves) == intended
    assert succeeded.mean() == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / len(moves)))
    deviations = moves - np.sign(moves)
    assert deviations.mean() == pytest.approx(0.0, abs=4 * 0.1 / np.sqrt(len(moves)))
    assert deviations.std() == pytest.approx(0.1, rel=0.02)
    # Success says nothing about the deviation: the two are independent.
    assert np.corrcoef(succeeded, deviations)[0, 1] == pytest.approx(0.0, abs=4 / np.sqrt(len(moves)))
    np.testing.assert_array_equal(rewards, 0.2 * np.sign(moves))


def test_dense_mean_reward_follows_the_formula() -> None:
    slots, steps = 500, 100
    env = batch("ttray/CorridorDense-v0", slots)
    env.reset(seed=3)
    rewards = np.array([env.step(np.full(slots, LEFT))[1] for _ in range(steps)])
    assert set(np.unique(rewards)) == {-0.2, 0.2}
    assert rewards.mean() == pytest.approx(-0.16, abs=4 * 0.12 / np.sqrt(slots * steps))


@pytest.mark.parametrize(("probability", "expected"), [(1.0, 1.0), (0.0, -1.0)])
def test_certain_success_and_certain_failure(probability: float, expected: float) -> None:
    env = batch("ttray/CorridorDense-v0", 100, success_probability=probability, move_std=0.0, x_max=50.0)
    env.reset(seed=0)
    np.testing.assert_array_equal(env.step(np.full(100, RIGHT))[0], expected)


def test_the_goal_pays_from_the_next_step_and_is_never_left() -> None:
    env = batch("ttray/CorridorSparse-v0", 1, success_probability=1.0, move_std=0.0, x_max=3.0)
    env.reset(seed=0)
    trace = [env.step([RIGHT]) for _ in range(3)] + [env.step([LEFT]) for _ in range(3)]
    assert [step[0].item() for step in trace] == [1, 2, 3, 3, 3, 3]
    assert [step[1].item() for step in trace] == [0, 0, 0, 1, 1, 1]
    assert not any(step[2].item() for step in trace)


def test_the_goal_of_the_dense_corridor_pays_nothing() -> None:
    env = batch("ttray/CorridorDense-v0", 1, success_probability=1.0, move_std=0.0, x_max=3.0)
    env.reset(seed=0)
    assert [env.step([RIGHT])[1].item() for _ in range(5)] == [0.2, 0.2, 0.2, 0.0, 0.0]


@pytest.mark.parametrize(("x_max", "reached"), [(3.5, False), (3.49, True)])
def test_the_goal_begins_strictly_within_half_a_step(x_max: float, reached: bool) -> None:
    env = batch("ttray/CorridorSparse-v0", 1, success_probability=1.0, move_std=0.0, x_max=x_max)
    env.reset(seed=0)
    for _ in range(3):
        env.step([RIGHT])
    assert env.step([LEFT])[1].item() == float(reached)


def test_positions_are_clipped_at_the_left_end() -> None:
    env = batch("ttray/CorridorSparse-v0", 64)
    env.reset(seed=0)
    positions = np.array([env.step(np.full(64, LEFT))[0] for _ in range(100)])
    assert positions.min() == -12.0
    # The left end holds nobody: failed moves lead away from it.
    assert positions[-50:].max() > -11.5
