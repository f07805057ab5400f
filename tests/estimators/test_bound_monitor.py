"""Whether the bound's gains are followed by gains in return."""

import pytest

from ttray.estimators.bound_monitor import WINDOW, BoundMonitor


def told(returns, gain):
    found = BoundMonitor()
    for each in returns:
        found = found.after(each, gain)
    return found


NOISE = [0.1, -0.1] * WINDOW


@pytest.mark.parametrize(
    ("returns", "gain", "is_followed"),
    [
        ([0.0 + noise for noise in NOISE], 1.0, False),
        ([-0.5 * k + noise for k, noise in enumerate(NOISE)], 1.0, False),
        ([0.5 * k + noise for k, noise in enumerate(NOISE)], 1.0, True),  # rises, if less than promised
        ([0.0 + noise for noise in NOISE], 0.001, True),  # nothing much was promised
        ([0.0] * (WINDOW - 1), 1.0, True),  # too early to tell
        ([3.0] * WINDOW, 0.0, True),
    ],
    ids=["level", "falls", "rises", "no promise", "early", "nothing happens"],
)
def test_a_return_that_does_not_follow_is_told(returns, gain, is_followed):
    problem = told(returns, gain).problem
    assert (problem is None) == is_followed
    if problem:
        assert "the bound promised a gain of 10 over 10 iterations" in problem
        assert "take a larger budget or a smaller delta" in problem


def test_gains_are_compared_with_the_batch_that_follows():
    first = BoundMonitor()
    assert first.predicted_gain == first.measured_gain(3.0) == 0.0
    second = first.after(3.0, 0.5)
    assert second.predicted_gain == 0.5
    assert second.measured_gain(3.25) == 0.25


def test_it_remembers_a_window_and_survives_a_checkpoint():
    found = told(range(2 * WINDOW), 1.0)
    assert found.returns == tuple(range(WINDOW, 2 * WINDOW))
    assert BoundMonitor.from_state(found.to_state()) == found
