"""Moments of observations: those of all batches together, kept bit by bit."""

import numpy as np
import pytest

from ttray.policies.running_mean_std import RunningMeanStd


def test_batches_one_by_one_are_as_all_at_once():
    rows = np.random.default_rng(0).normal(3.0, [1.0, 20.0, 0.01], (500, 3)).astype(np.float32)
    found = RunningMeanStd.empty(3)
    for part in np.split(rows, [1, 40, 300]):
        found = found + RunningMeanStd.of(part)
    assert found.count == 500
    np.testing.assert_allclose(found.mean, rows.mean(0, dtype=np.float64), rtol=1e-12)
    np.testing.assert_allclose(found.scale(), 1 / rows.std(0, dtype=np.float64), rtol=1e-4)


def test_what_never_changes_has_a_finite_scale():
    found = RunningMeanStd.of(np.full((9, 1), 7.0, np.float32))
    assert np.isfinite(found.scale()).all()
    assert RunningMeanStd.empty(2).scale() == pytest.approx(1.0)


def test_a_checkpoint_keeps_every_bit():
    found = RunningMeanStd.of(np.random.default_rng(1).normal(size=(30, 2)).astype(np.float32))
    again = RunningMeanStd.from_arrays(found.to_arrays())
    assert again.count == found.count
    assert again.mean.tobytes() == found.mean.tobytes()
    assert again.squares.tobytes() == found.squares.tobytes()
