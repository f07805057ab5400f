"""Rollouts: one process, one set of slots, one policy, one quota in; one Arrow table out. No Ray.

The plan is known up front, so the slots are packed and each is reset exactly when its trajectory reached
its planned length or its episode terminated. A trajectory is a pure function of (policy, run seed, iteration,
trajectory id): it has two random streams of its own (`ttray.core.streams`), and every row of policy
output depends on its own observation only.
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from ttray.core.batch import BatchInfo
from ttray.core.distributions import ActionDistribution, from_description
from ttray.core.quotas import Packing, Quota, pack, trajectory_lengths
from ttray.core.schema import table_of
from ttray.core.streams import TrajectoryStreams
from ttray.rollout.contract import ContractError
from ttray.rollout.policies import Policy
from ttray.rollout.slots import SlotError, Slots, SlotStep

_NOUNS = {"obs": "observation", "dist_inputs": "policy's output", "reward": "reward"}
_NOISE_STEPS, _NOISE_VALUES = 256, 2**19  # drawn ahead at most; changes the speed, never a value
_NEVER = np.iinfo(np.int64).max
_PIECE = 2**16  # distribution inputs: half a megabyte in float64


@dataclass(frozen=True)
class RolloutStats:
    """What a rollout cost.

    Attributes:
        num_env_steps: Transitions in the table.
        num_env_steps_saved: Planned steps that terminated episodes did not need.
        num_slot_steps: Environment steps executed, those of idle slots included.
        time_s: Seconds in all.
        environment_time_s: Seconds inside the environments, resets included.
        inference_time_s: Seconds inside the policy and the choice of actions.
    """

    num_env_steps: int
    num_env_steps_saved: int
    num_slot_steps: int
    time_s: float
    environment_time_s: float
    inference_time_s: float


class RolloutError(RuntimeError):
    """A trajectory could not be collected; the message says how to reproduce it."""

    def __init__(self, info: BatchInfo, trajectory: int, step: int, env_seed: int, what: str) -> None:
        super().__init__(
            f"{info.environment}: trajectory {trajectory} failed at step {step} "
            f"(run seed {info.seed}, iteration {info.iteration}; reset the environment with "
            f"seed={env_seed} to reproduce it): {what}"
        )


def collect_quota(
    make_slots: Callable[[int], Slots],
    policy: Policy,
    info: BatchInfo,
    quota: Quota,
    *,
    num_slots: int,
    dist_inputs: bool = True,
) -> tuple[pa.Table, RolloutStats]:
    """Collects the trajectories of a quota.

    Args:
        make_slots: Gives slots, as many as asked for.
        policy: Maps observations to distribution inputs.
        info: The batch that the quota belongs to.
        quota: Which trajectories.
        num_slots: Slots to use at most.
        dist_inputs: Whether to record the policy's outputs.

    Returns:
        The transitions in canonical order (without the metadata of a batch), and what they cost.

    Raises:
        RolloutError: The environment raised, gave a number that is not finite or what its spaces do not
            allow, or truncated an episode before its planned length.
    """
    lengths = trajectory_lengths(info.strategy)[quota.start : quota.stop]
    packing = pack(lengths, num_slots)
    run = _Run(make_slots(packing.num_slots), policy, info, quota, lengths, packing)
    return run.collect(dist_inputs)


class _Run:
    """The state of one `collect_quota`.

    Buffers are `[vector steps, slots, ...]`: a step writes one contiguous slice of each, and one gather
    at the end brings the rows into canonical order. A trajectory is known by its position in the quota.
    """

    def __init__(
        self,
        slots: Slots,
        policy: Policy,
        info: BatchInfo,
        quota: Quota,
        lengths: NDArray[np.int32],
        packing: Packing,
    ) -> None:
        self._slots, self._policy, self._info, self._quota = slots, policy, info, quota
        self._lengths: list[int] = lengths.tolist()
        self._distribution: ActionDistribution = from_description(info.distribution)
        self._streams = TrajectoryStreams.of(info.seed, info.iteration, quota.trajectories)
        self._env_seeds = self._streams.env_seeds
        num_slots = packing.num_slots
        self._now = 0  # vector steps taken
        # The slots are sorted by their load, so those that are done are at the end, and only the first
        # `_width` take part in a step.
        self._width = num_slots
        self._num_slot_steps = 0
        self._max_vector_steps = packing.num_vector_steps
        # Of each slot: its trajectories to come (last first), the one it runs, the vector step at which
        # that one ends, and the generator of its noise.
        self._queues: list[list[int]] = [packing.positions(slot)[::-1].tolist() for slot in range(num_slots)]
        self._position = [0] * num_slots
        self._running = np.zeros(num_slots, dtype=bool)
        self._end = np.full(num_slots, _NEVER)
        self._next_end = 0
        entropy = np.random.SeedSequence(0)  # of no consequence: every trajectory sets its own state
        self._generators = [np.random.Generator(np.random.PCG64(entropy)) for _ in range(num_slots)]
        # All slots step together, so their noise is read at one cursor; each draws its own ahead.
        noise_size = self._distribution.noise_size
        affordable = _NOISE_VALUES // (num_slots * noise_size)
        self._noise_steps = max(min(affordable, _NOISE_STEPS, self._max_vector_steps), 1)
        self._noise = np.zeros((num_slots, self._noise_steps, noise_size), dtype=np.float32)
        # Of each trajectory: where its rows are.
        self._slot_of = [0] * len(lengths)
        self._start = [0] * len(lengths)
        self._num_rows = [0] * len(lengths)
        # Those that have ended, and the observations after their last steps, in the same order.
        self._ended: list[int] = []
        self._last_obs: list[NDArray[Any]] = []
        self._buffers: dict[str, NDArray[Any]] = {}
        self._environment_time_s = self._inference_time_s = 0.0

    def collect(self, dist_inputs: bool) -> tuple[pa.Table, RolloutStats]:
        """Runs the quota to its end."""
        started = time.perf_counter()
        try:
            self._slots.expect(self._env_seeds)
            obs: NDArray[np.float32] | None = self._begin()
            while obs is not None:
                obs = self._step(obs)
        except RolloutError:
            raise
        except Exception as error:
            self._check_finite()  # the likely cause of what went wrong later
            raise self._failure_of(error) from error
        self._check_finite()
        table = self._table(dist_inputs)
        return table, RolloutStats(
            num_env_steps=table.num_rows,
            num_env_steps_saved=sum(self._lengths) - table.num_rows,
            num_slot_steps=table.num_rows if self._slots.skips_idle else self._num_slot_steps,
            time_s=time.perf_counter() - started,
            environment_time_s=self._environment_time_s,
            inference_time_s=self._inference_time_s,
        )

    def _step(self, obs: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """Acts in every slot; returns the next observations, or None when all is done."""
        cursor = self._now % self._noise_steps
        if cursor == 0:
            self._refill_noise()
        begun = time.perf_counter()
        inputs = self._policy(obs.copy())  # its own: some change what they are given
        assert inputs.shape == (len(obs), self._distribution.num_inputs)
        actions = self._distribution.act(inputs, self._noise[: self._width, cursor])
        acted = time.perf_counter()
        if not self._buffers:
            self._make_buffers(obs=obs, dist_inputs=inputs, action=actions)
        buffers, now, width = self._buffers, self._now, self._width
        # Before the environment moves on: it may reuse the memory of its observations.
        buffers["obs"][now, :width] = obs
        buffers["dist_inputs"][now, :width] = inputs
        buffers["action"][now, :width] = actions
        recorded = time.perf_counter()
        step = self._slots.step(actions, self._running[:width])
        self._environment_time_s += time.perf_counter() - recorded
        self._inference_time_s += acted - begun
        buffers["reward"][now, :width] = step.reward
        buffers["terminated"][now, :width] = step.terminated
        self._now += 1
        self._num_slot_steps += width
        if self._now < self._next_end and not step.any_ended():
            return step.obs
        return self._finish(step)

    def _begin(self) -> NDArray[np.float32]:
        """Begins the first trajectory of each slot; a packing leaves none without."""
        slots = range(self._slots.num_slots)
        for slot in slots:
            self._begin_next(slot)
        self._next_end = int(self._end.min())
        return self._reset(slots)

    def _finish(self, step: SlotStep) -> NDArray[np.float32] | None:
        """Ends what ended with the last step, and begins what comes next in those slots."""
        running = self._running[: self._width]
        ended = running & (step.terminated | (self._end[: self._width] == self._now))
        if step.truncated is not None:
            self._check_truncation(step.truncated & running & ~ended)
        to_reset = []
        (slots,) = ended.nonzero()
        # Before the resets, which may reuse the memory of the observations.
        self._last_obs.append(step.obs.take(slots, axis=0))
        for slot in slots.tolist():
            position = self._position[slot]
            self._ended.append(position)
            self._num_rows[position] = self._now - self._start[position]
            if self._begin_next(slot):
                to_reset.append(slot)
        self._next_end = int(self._end.min())
        if self._next_end == _NEVER:
            return None
        if not self._slots.skips_idle:
            # Idle slots between running ones step along, so one whose episode ended needs a reset too.
            to_reset += np.flatnonzero(step.terminated & ~running).tolist()
        obs = self._reset(to_reset) if to_reset else step.obs
        self._width = int(self._running.nonzero()[0][-1]) + 1
        return obs[: self._width]

    def _begin_next(self, slot: int) -> bool:
        """Puts the slot's next trajectory into it; false if there is none and it stays idle."""
        queue = self._queues[slot]
        if queue:
            position = queue.pop()
        else:
            # Early terminations leave slots without work: they take the last of who has most. It ends
            # earlier than it would have there, so the buffers are long enough.
            longest = max(self._queues, key=len)
            if not longest:
                self._running[slot], self._end[slot] = False, _NEVER
                return False
            position = longest.pop(0)
        self._running[slot] = True
        self._position[slot], self._slot_of[position], self._start[position] = position, slot, self._now
        self._end[slot] = self._now + self._lengths[position]
        self._generators[slot].bit_generator.state = self._streams.noise_state(position)
        self._draw_noise(slot)
        return True

    def _reset(self, slots: Sequence[int]) -> NDArray[np.float32]:
        """Resets slots to the start of their trajectories; returns the observations of all."""
        begun = time.perf_counter()
        obs = self._slots.reset(slots, [self._env_seeds[self._position[slot]] for slot in slots])
        self._environment_time_s += time.perf_counter() - begun
        return obs

    def _refill_noise(self) -> None:
        for slot in np.flatnonzero(self._running).tolist():
            if self._start[self._position[slot]] < self._now:  # else it drew its noise when it began
                self._draw_noise(slot)

    def _draw_noise(self, slot: int) -> None:
        """Draws the slot's noise from now to the end of the block or of its trajectory."""
        cursor = self._now % self._noise_steps
        stop = min(self._noise_steps, cursor + int(self._end[slot]) - self._now)
        self._distribution.draw_noise(self._generators[slot], self._noise[slot, cursor:stop])

    def _make_buffers(self, **first: NDArray[Any]) -> None:
        """Makes a buffer of each column, some by the values of the first step."""
        of_slots = np.zeros(self._slots.num_slots)
        first |= {"reward": of_slots, "terminated": of_slots.astype(bool)}
        # Zeros, of which the system makes memory only when it is written to.
        self._buffers = {
            name: np.zeros((self._max_vector_steps, *values.shape), dtype=values.dtype)
            for name, values in first.items()
        }

    def _table(self, dist_inputs: bool) -> pa.Table:
        """Gathers the rows of the trajectories one after the other, and gives the buffers back."""
        num_rows, num_slots = np.array(self._num_rows), self._slots.num_slots
        t = np.arange(num_rows.sum(), dtype=np.int32)
        t -= np.repeat((np.cumsum(num_rows) - num_rows).astype(np.int32), num_rows)
        firsts = np.array(self._start) * num_slots + np.array(self._slot_of)
        index = np.repeat(firsts, num_rows) + t.astype(np.int64) * num_slots
        size = self._distribution.num_inputs
        inputs = self._buffers.pop("dist_inputs").reshape(-1, size)
        columns = {}
        for name in list(self._buffers):
            buffer = self._buffers.pop(name)  # given back before the next is copied
            columns[name] = buffer.reshape(-1, *buffer.shape[2:]).take(index, axis=0)
        columns["log_prob"] = np.empty(len(t), dtype=np.float32)
        if dist_inputs:
            columns["dist_inputs"] = np.empty((len(t), size), dtype=inputs.dtype)
        # Piece by piece: what is copied and its float64 temporaries stay in the cache.
        rows = max(_PIECE // size, 1)
        for piece in (slice(start, start + rows) for start in range(0, len(t), rows)):
            chosen = inputs.take(index[piece], axis=0)
            tensors = torch.from_numpy(chosen), torch.from_numpy(columns["action"][piece])
            columns["log_prob"][piece] = self._distribution.log_prob(*tensors).numpy()
            if dist_inputs:
                columns["dist_inputs"][piece] = chosen
        as_they_ended = np.concatenate(self._last_obs)
        last_obs = np.empty(as_they_ended.shape, dtype=np.float32)  # also of images, whose `obs` are bytes
        last_obs[self._ended] = as_they_ended
        return table_of(
            columns
            | {
                "trajectory": np.repeat(np.arange(self._quota.start, self._quota.stop), num_rows),
                "length": np.repeat(np.array(self._lengths, dtype=np.int32), num_rows),
                "t": t,
                "last_obs": last_obs,
            }
        )

    def _check_truncation(self, truncated: NDArray[np.bool_]) -> None:
        if truncated.any():
            position = self._position[int(truncated.argmax())]
            raise self._failure(
                position,
                self._now - 1 - self._start[position],
                "the environment truncated its episode before the planned length "
                f"{self._lengths[position]}, which would bias the estimate; raise its time limit "
                "(max_episode_steps) or lower the horizon",
            )

    def _check_finite(self) -> None:
        """Raises for the first number of a trajectory that is not finite."""
        found = []
        for rank, name in enumerate(_NOUNS):
            # What was not recorded is zero, also in the step in which something went wrong.
            values = self._buffers.get(name, np.zeros(0))[: self._now + 1]
            # Bytes of images are, and to ask each would take as much memory again.
            if values.dtype.kind == "f" and not _is_surely_finite(values):
                bad = ~np.isfinite(values.reshape(*values.shape[:2], -1)).all(axis=2)
                bad &= self._owners()[: len(bad)] >= 0  # idle slots may hold anything
                for vector_step, slot in np.argwhere(bad)[:1].tolist():
                    position = int(self._owners()[vector_step, slot])
                    found.append((vector_step, slot, rank, position, name, values[vector_step, slot]))
        # Observed after the last step of a trajectory, where another may have begun already.
        last_obs = np.concatenate(self._last_obs or [np.zeros((0, 1))])
        if last_obs.dtype.kind == "f" and not _is_surely_finite(last_obs):
            for each in np.flatnonzero(~np.isfinite(last_obs).all(axis=1)).tolist():
                position = self._ended[each]
                after = self._start[position] + self._num_rows[position]
                found.append((after, self._slot_of[position], -1, position, "obs", last_obs[each]))
        if found:
            vector_step, _, _, position, name, value = min(found, key=lambda each: each[:3])
            raise self._failure(
                position, vector_step - self._start[position], f"the {_NOUNS[name]} is not finite: {value}"
            )

    def _owners(self) -> NDArray[np.int64]:
        """The trajectory that ran in each slot at each vector step, or -1, `[vector steps, slots]`."""
        owners = np.full((self._max_vector_steps, self._slots.num_slots), -1)
        for position, num_rows in enumerate(self._num_rows):
            start = self._start[position]
            owners[start : start + num_rows, self._slot_of[position]] = position
        for slot in np.flatnonzero(self._running).tolist():
            position = self._position[slot]
            owners[self._start[position] :, slot] = position
        return owners

    def _failure_of(self, error: Exception) -> RolloutError:
        """Blames the trajectory in whose slot the environment raised."""
        if isinstance(error, SlotError):
            slot, remark = error.slot, ""
            error = error.cause
        else:
            # A batch does not say which of its slots failed.
            slot = int(self._running.argmax())
            remark = f"one of {int(self._running.sum())} trajectories that ran as one batch raised\n"
        position = self._position[slot]
        # A breach of contract is told by its message; others need their place.
        told = isinstance(error, ContractError)
        text = str(error) if told else "".join(traceback.format_exception(error)).rstrip()
        return self._failure(position, self._now - self._start[position], remark + text)

    def _failure(self, position: int, step: int, what: str) -> RolloutError:
        return RolloutError(self._info, self._quota.start + position, step, self._env_seeds[position], what)


def _is_surely_finite(values: NDArray[np.floating]) -> bool:
    """Whether no number is infinite or NaN, without an array of answers; huge ones leave a doubt."""
    flat = values.reshape(-1)
    with np.errstate(over="ignore", invalid="ignore"):
        return math.isfinite(np.dot(flat, flat))
