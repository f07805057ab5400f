"""Surprises of a critic and what they add up to, row by row as the definitions say."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.make_batches import KINDS, random_table
from ttray.data.ragged import as_tensors
from ttray.estimators.advantages import (
    CriticValues,
    SurprisingRows,
    discounted_from_there_on,
    discounts_per_sample,
    last_states,
    surprises,
)
from ttray.plans import dcs


def case(horizon, extra, seed):
    strategy = dcs.truncated(horizon, horizon + extra, 0.9)
    rows = as_tensors(random_table(strategy, KINDS["categorical"], seed))
    rng = np.random.default_rng(seed)
    values = CriticValues(rng.normal(size=len(rows.t)), rng.normal(size=len(rows.length)))
    return strategy, rows, values


@settings(max_examples=25)
@given(
    horizon=st.integers(1, 7),
    extra=st.integers(0, 20),
    gamma=st.sampled_from([0.3, 0.9, 1.0]),
    decay=st.sampled_from([0.0, 0.97, 1.0]),
    seed=st.integers(0, 2**16),
)
def test_surprises_and_their_sums_are_the_definitions(horizon, extra, gamma, decay, seed):
    _, rows, values = case(horizon, extra, seed)
    found = surprises(rows, values, gamma)
    traces = np.random.default_rng(seed + 1).random(len(found))
    sums = discounted_from_there_on(rows, found, gamma * decay * traces)
    offsets = rows.offsets.tolist()
    for trajectory, (first, last) in enumerate(itertools.pairwise(offsets)):
        after, later = values.lasts[trajectory], 0.0
        if rows.terminated[trajectory]:
            after = 0.0
        for row in reversed(range(first, last)):
            surprise = rows.reward[row].item() + gamma * after - values.states[row]
            assert found[row] == pytest.approx(surprise, rel=1e-12, abs=1e-12)
            later = surprise + later
            assert sums[row] == pytest.approx(later, rel=1e-12, abs=1e-12)
            later *= gamma * decay * traces[row]
            after = values.states[row]


def test_an_episode_that_ends_on_its_last_planned_step_has_nothing_after_it():
    _, rows, values = case(3, 9, 0)
    ended = torch.ones_like(rows.terminated)
    found = surprises(type(rows)(**(vars(rows) | {"terminated": ended})), values, 0.9)
    lasts = rows.offsets.numpy()[1:] - 1
    assert np.allclose(found[lasts], rows.reward.numpy()[lasts] - values.states[lasts])


def test_discounted_surprises_and_first_values_telescope_to_the_return_of_full_episodes():
    strategy, rows, values = case(6, 30, 1)
    rows = type(rows)(**(vars(rows) | {"terminated": torch.ones_like(rows.terminated)}))
    found = SurprisingRows.of(rows, values, 0.8)
    discounts = 0.8 ** rows.t.numpy()
    trajectory = np.repeat(np.arange(len(rows.length)), np.diff(rows.offsets.numpy()))
    surprise, reward = (
        np.bincount(trajectory, discounts * each.numpy()) for each in (found.rows.reward, rows.reward)
    )
    assert np.allclose(found.first_values + surprise, reward)
    per_sample = discounts_per_sample(rows, strategy, 0.8)
    assert np.allclose(per_sample, discounts / strategy.samples_per_step[rows.t.numpy()])


def test_batches_of_version_1_are_refused_in_plain_words():
    _, rows, _ = case(2, 4, 2)
    assert torch.equal(last_states(rows), rows.last_obs)
    with pytest.raises(ValueError, match="collect the batch again"):
        last_states(type(rows)(**(vars(rows) | {"last_obs": None})))
