"""Noise that is drawn ahead: the numbers of one draw for each step, whatever begins when."""

import numpy as np
import pytest

from ttray.rollout import noise_ahead
from ttray.rollout.noise_ahead import Noise, NoiseAhead, log_exponentials, normals


@pytest.mark.parametrize("draw", [normals, log_exponentials])
@pytest.mark.parametrize(("most_steps", "most_values"), [(5, 2**19), (64, 1), (64, 2**19)])
def test_noise_is_what_each_trajectory_would_draw_step_by_step(draw, most_steps, most_values, monkeypatch):
    monkeypatch.setattr(noise_ahead, "_STEPS", most_steps)
    monkeypatch.setattr(noise_ahead, "_VALUES", most_values)
    noise, slots, lengths = Noise(draw, 3), NoiseAhead(Noise(draw, 3), 4, 2), np.random.default_rng(0)
    seeds, ends = [-1] * 4, [0] * 4
    generators, alone = [None] * 4, [None] * 4
    for now in range(200):
        width = 4 if now < 150 else 2  # the others are done
        for slot in range(width):
            if ends[slot] == now:
                seeds[slot] += 10
                ends[slot] = now + int(lengths.integers(1, 90))
                generators[slot], alone[slot] = (np.random.default_rng([seeds[slot], slot]) for _ in range(2))
                slots.begin(slot)
        found = slots.step(width, generators)[:width]
        assert np.array_equal(found, noise.of(alone[:width]))
