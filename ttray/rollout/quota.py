"""Rollouts: one process, one set of slots, one policy, one quota in; one Arrow table out. No Ray.

The plan is known up front, so the slots are packed and each is reset exactly when its trajectory reached
its planned length or its episode terminated. A trajectory is a pure function of (policy, run seed, iteration,
trajectory id): it has two random streams of its own (`ttray.numerics.seeding`), and every row of policy
output depends on its own observation only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ttray.data.batch import BatchInfo
from ttray.numerics.seeding import TrajectoryStreams
from ttray.plans.quotas import Packing, Quota, pack, trajectory_lengths
from ttray.policies.distributions import ActionDistribution, from_description
from ttray.rollout.acting import ActingPolicy
from ttray.rollout.blame import told
from ttray.rollout.contract import ContractError
from ttray.rollout.policies import Policy
from ttray.rollout.policy_contract import PolicyError, answer_of, name_of, not_finite
from ttray.rollout.recording import Recording
from ttray.rollout.slots import SlotError, Slots, SlotStep

_NOUNS = {"obs": "observation", "reward": "reward"}
_NOISE_STEPS, _NOISE_VALUES = 256, 2**19  # drawn ahead at most; changes the speed, never a value
_NEVER = np.iinfo(np.int64).max


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
    policy: Policy | ActingPolicy,
    info: BatchInfo,
    quota: Quota,
    *,
    num_slots: int,
    dist_inputs: bool = True,
) -> tuple[pa.Table, RolloutStats]:
    """Collects the trajectories of a quota.

    Args:
        make_slots: Gives slots, as many as asked for.
        policy: Maps observations to distribution inputs, or acts.
        info: The batch that the quota belongs to.
        quota: Which trajectories.
        num_slots: Slots to use at most.
        dist_inputs: Whether to record the policy's outputs.

    Returns:
        The transitions in canonical order (without the metadata of a batch), and what they cost.

    Raises:
        RolloutError: The environment raised, gave a number that is not finite or what its spaces do not
            allow, or truncated an episode before its planned length.
        PolicyError: The policy raised, or answered what is no distribution of actions, or no actions.
    """
    lengths = trajectory_lengths(info.strategy)[quota.start : quota.stop]
    packing = pack(lengths, num_slots)
    run = _Run(make_slots(packing.num_slots), policy, info, quota, lengths, packing)
    return run.collect(dist_inputs)


class _Run:
    """The state of one `collect_quota`; a trajectory is known by its position in the quota."""

    def __init__(
        self,
        slots: Slots,
        policy: Policy | ActingPolicy,
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
        self._recording = Recording(len(lengths), num_slots, packing.num_vector_steps)
        # Of each slot: its trajectories to come (last first), the one it runs, the vector step at which
        # that one ends, and the generator of its noise.
        self._queues: list[list[int]] = [packing.positions(slot)[::-1].tolist() for slot in range(num_slots)]
        self._position = [0] * num_slots
        self._running = np.zeros(num_slots, dtype=bool)
        self._end = np.full(num_slots, _NEVER)
        self._next_end = 0
        entropy = np.random.SeedSequence(0)  # of no consequence: every trajectory sets its own state
        self._generators = [np.random.Generator(np.random.PCG64(entropy)) for _ in range(num_slots)]
        self._acting = policy.in_slots(num_slots) if isinstance(policy, ActingPolicy) else None
        # All slots step together, so their noise is read at one cursor; each draws its own ahead.
        noise_size = self._distribution.noise_size
        affordable = _NOISE_VALUES // (num_slots * noise_size)
        self._noise_steps = max(min(affordable, _NOISE_STEPS, packing.num_vector_steps), 1)
        self._noise = np.zeros((num_slots, self._noise_steps, noise_size), dtype=np.float32)
        self._environment_time_s = self._inference_time_s = 0.0

    def collect(self, dist_inputs: bool) -> tuple[pa.Table, RolloutStats]:
        """Runs the quota to its end."""
        started = time.perf_counter()
        try:
            self._slots.expect(self._env_seeds)
            obs: NDArray[np.float32] | None = self._begin()
            while obs is not None:
                obs = self._step(obs)
        except (RolloutError, PolicyError):
            raise
        except Exception as error:
            self._check_finite()  # the likely cause of what went wrong later
            if isinstance(error, SlotError):
                raise self._failure_of(error) from error
            raise
        self._check_finite()
        table = self._recording.table(self._quota, self._lengths, self._distribution, dist_inputs)
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
        now, width = self._now, self._width
        begun = time.perf_counter()
        chosen = self._act(obs)
        acted = time.perf_counter()
        # Before the environment moves on: it may reuse the memory of its observations.
        self._recording.write(now, obs=obs, **chosen)
        recorded = time.perf_counter()
        step = self._slots.step(chosen["action"], self._running[:width], clips=self._acting is None)
        self._environment_time_s += time.perf_counter() - recorded
        self._inference_time_s += acted - begun
        if self._acting is not None:
            self._acting.rewarded(step.reward)
        self._recording.write(now, reward=step.reward, terminated=step.terminated)
        self._now += 1
        self._num_slot_steps += width
        if self._now < self._next_end and not step.any_ended():
            return step.obs
        return self._finish(step)

    def _act(self, obs: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
        """The actions of a step, and what they were drawn from where the policy tells it."""
        if self._acting is not None:
            return {"action": self._acting.act(obs, self._generators)}
        cursor = self._now % self._noise_steps
        if cursor == 0:
            self._refill_noise()
        assert not isinstance(self._policy, ActingPolicy)
        # Its own observations: some policies change what they are given.
        inputs = answer_of(self._policy, obs.copy(), (len(obs), self._distribution.num_inputs))
        return {
            "dist_inputs": inputs,
            "action": self._distribution.act(inputs, self._noise[: self._width, cursor]),
        }

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
        self._recording.keep_last_obs(step.obs.take(slots, axis=0))
        for slot in slots.tolist():
            self._recording.end(slot, self._now)
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
        self._position[slot] = position
        self._recording.begin(position, slot, self._now)
        self._end[slot] = self._now + self._lengths[position]
        self._generators[slot].bit_generator.state = self._streams.noise_state(position)
        if self._acting is None:
            self._draw_noise(slot)
        else:
            self._acting.begin(slot)
        return True

    def _reset(self, slots: Sequence[int]) -> NDArray[np.float32]:
        """Resets slots to the start of their trajectories; returns the observations of all."""
        begun = time.perf_counter()
        obs = self._slots.reset(slots, [self._env_seeds[self._position[slot]] for slot in slots])
        self._environment_time_s += time.perf_counter() - begun
        return obs

    def _refill_noise(self) -> None:
        for slot in np.flatnonzero(self._running).tolist():
            # One that begins now has drawn its noise already.
            if self._recording.start[self._position[slot]] < self._now:
                self._draw_noise(slot)

    def _draw_noise(self, slot: int) -> None:
        """Draws the slot's noise from now to the end of the block or of its trajectory."""
        cursor = self._now % self._noise_steps
        stop = min(self._noise_steps, cursor + int(self._end[slot]) - self._now)
        self._distribution.draw_noise(self._generators[slot], self._noise[slot, cursor:stop])

    def _check_truncation(self, truncated: NDArray[np.bool_]) -> None:
        if truncated.any():
            position = self._position[int(truncated.argmax())]
            raise self._failure(
                position,
                self._now - 1 - self._recording.start[position],
                "the environment truncated its episode before the planned length "
                f"{self._lengths[position]}, which would bias the estimate; raise its time limit "
                "(max_episode_steps) or lower the horizon",
            )

    def _check_finite(self) -> None:
        """Raises for the first number of a trajectory that is not finite."""
        if (found := self._recording.first_not_finite(self._now)) is None:
            return
        position, step, column, value = found
        if column in ("dist_inputs", "action"):
            place = f"trajectory {self._quota.start + position}, step {step}"
            raise not_finite(name_of(self._policy), value, place)
        raise self._failure(position, step, f"the {_NOUNS[column]} is not finite: {value}")

    def _failure_of(self, error: SlotError) -> RolloutError:
        """Blames the trajectory in whose slot the environment raised."""
        slot, who = error.slot, "the environment"
        if slot is None:
            slot = int(self._running.argmax())
            who += f", in this or another of the {int(self._running.sum())} trajectories of a batch,"
        position = self._position[slot]
        # A breach of contract is told by its message; others need their place.
        cause = error.cause
        text = str(cause) if isinstance(cause, ContractError) else told(who, cause)
        return self._failure(position, self._now - self._recording.start[position], text)

    def _failure(self, position: int, step: int, what: str) -> RolloutError:
        return RolloutError(self._info, self._quota.start + position, step, self._env_seeds[position], what)
