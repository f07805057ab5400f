"""Random ragged batches with early terminations, for every action distribution."""

import numpy as np

from ttray.data import batch as batches
from ttray.data.schema import table_of
from ttray.plans.dcs import DataCollectionStrategy
from ttray.plans.quotas import trajectory_lengths
from ttray.policies import distributions

KINDS = {
    "categorical": distributions.Categorical(4),
    "multi_categorical": distributions.MultiCategorical((3, 2, 4)),
    "diagonal_gaussian": distributions.DiagonalGaussian(2),
}


def random_noise(distribution, rows, rng):
    noise = np.empty((rows, distribution.noise_size), dtype=np.float32)
    distribution.draw_noise(rng, noise)
    return noise


def random_actions(distribution, inputs, rng):
    return distribution.act(
        np.asarray(inputs, dtype=np.float32), random_noise(distribution, len(inputs), rng)
    )


def random_inputs(distribution, rows, rng, scale=0.3):
    return scale * rng.standard_normal((rows, distribution.num_inputs))


def info_for(strategy: DataCollectionStrategy, distribution, **changes) -> batches.BatchInfo:
    values = {
        "environment": "test/Random-v0",
        "seed": 3,
        "iteration": 7,
        "strategy": strategy,
        "gamma": strategy.gamma,
        "distribution": distribution.describe(),
    }
    return batches.BatchInfo(**(values | changes))


def table_for(info: batches.BatchInfo, **columns):
    """A table as a collected batch has it, its metadata included."""
    return table_of(columns).replace_schema_metadata(info.to_metadata())


def random_table(strategy, distribution, seed=0, *, early=0.3, obs_size=3, rewards=None):
    """A valid table in which a share `early` of the trajectories ends before its planned length."""
    rng = np.random.default_rng(seed)
    lengths = trajectory_lengths(strategy)
    rows_of = np.where(rng.random(len(lengths)) < early, rng.integers(1, lengths + 1), lengths)
    trajectory = np.repeat(np.arange(len(lengths)), rows_of)
    starts = np.cumsum(rows_of) - rows_of
    t = (np.arange(len(trajectory)) - np.repeat(starts, rows_of)).astype(np.int32)
    terminated = np.zeros(len(trajectory), dtype=bool)
    terminated[(starts + rows_of - 1)[rows_of < lengths]] = True
    inputs = random_inputs(distribution, len(trajectory), rng).astype(np.float32)
    return table_for(
        info_for(strategy, distribution),
        trajectory=trajectory,
        length=np.repeat(lengths, rows_of).astype(np.int32),
        t=t,
        obs=rng.standard_normal((len(trajectory), obs_size)).astype(np.float32),
        action=random_actions(distribution, inputs, rng),
        reward=rng.standard_normal(len(trajectory)) if rewards is None else rewards(t),
        log_prob=rng.standard_normal(len(trajectory)).astype(np.float32),
        dist_inputs=inputs,
        last_obs=rng.standard_normal((len(lengths), obs_size)).astype(np.float32),
        terminated=terminated,
    )
