"""The worker: a plain object that collects quotas, and returns errors instead of raising them.

`RemoteWorker` is the same object in a process of its own: it answers with a receipt, and its table stays
in the object store of its node until somebody asks for it. What happens when that process dies is the
dispatcher's business; a worker keeps nothing that a new one could not make again.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa
import torch
from numpy.typing import NDArray

from ttray.data.batch import BatchInfo
from ttray.data.schema import to_message
from ttray.plans.quotas import Quota
from ttray.rollout.acting import ActingPolicy
from ttray.rollout.blame import told
from ttray.rollout.determinism import Sample, Where, find_difference, sample_of
from ttray.rollout.environment import EnvironmentMaker, MakingError
from ttray.rollout.policies import Policy
from ttray.rollout.policy_contract import PolicyError
from ttray.rollout.quota import RolloutError, collect_quota
from ttray.rollout.slots import SlotPool
from ttray.service.builds import build
from ttray.service.endings import end_quietly
from ttray.service.receipt import Failure, Receipt
from ttray.service.shard_cache import ShardCache, ShardReply, ShardRequest

Message: TypeAlias = tuple[bytes, pa.Buffer]
"""A table as it travels, see `data.schema.to_message`."""

Sign: TypeAlias = tuple[int, str, str]
"""A sign of life: the id of a process, its host and its build."""


@dataclass(frozen=True)
class Work:
    """What all quotas of one iteration have in common; put into the object store once.

    Attributes:
        info: The batch that is collected.
        policy: With its weights: a worker has no policy of its own that could be stale.
        num_slots: Slots that a worker may use.
        dist_inputs: Whether to record the policy's outputs.
        in_parts: Whether quotas are whole parts, so that workers can compute the bound on what they hold.
        checks_determinism: Whether the first quota's worker collects one of its trajectories twice.
    """

    info: BatchInfo
    policy: Policy | ActingPolicy
    num_slots: int
    dist_inputs: bool = True
    in_parts: bool = False
    checks_determinism: bool = False

    def name(self, quota: Quota) -> str:
        """What a log calls a quota of this work: the ids from which its trajectories can be made again."""
        return f"iteration {self.info.iteration}, trajectories {quota.start} to {quota.stop - 1}"


def sign_of_life() -> Sign:
    """Of this process."""
    return os.getpid(), socket.gethostname(), build()


class RolloutWorker:
    """Collects one quota after another.

    Args:
        maker: Of the environments.
    """

    def __init__(self, maker: EnvironmentMaker) -> None:
        self._pool = SlotPool(maker)
        self._shards = ShardCache()

    def collect(self, work: Work, quota: Quota) -> tuple[Receipt | Failure, pa.Table | None]:
        """Collects a quota; an environment that fails is a failure in the answer, not a raise.

        After an error the environments are made anew: the next try starts from fresh ones.
        """
        self._shards.clear()  # of the batch before, which may be as large
        process = os.getpid()
        try:
            table, stats = collect_quota(
                self._pool.take,
                work.policy,
                work.info,
                quota,
                num_slots=work.num_slots,
                dist_inputs=work.dist_inputs,
            )
            _end_fork(process)
            receipt = Receipt.of(table, work.info, quota, stats, name_of_worker())
            if work.checks_determinism and quota.start == 0:
                sample = sample_of(table, quota)
                found = self.find_difference(work, sample, Where.SLOT)
                receipt = replace(receipt, difference=found, sample=sample)
            return receipt, table
        except PolicyError as error:
            text = f"{work.info.environment}: {error}"
            return Failure(text, name_of_worker(), build(), is_of_policy=True), None
        except Exception as error:
            _end_fork(process)
            self._pool.discard()
            return Failure(_text_of(error, work.info.environment), name_of_worker(), build()), None

    def close(self) -> None:
        """Closes the environments: what they have started ends with them."""
        self._pool.discard()

    def find_difference(self, work: Work, sample: Sample, where: Where) -> str | None:
        """Collects a sample of a batch again; tells where it differs, or None."""
        try:
            return find_difference(self._pool.take, work.policy, work.info, sample, where)
        except RolloutError as problem:
            return (
                f"trajectory {sample.trajectory} could be collected once, but not in {where.value}: {problem}"
            )

    def run_quota(self, work: Work, quota: Quota) -> tuple[Receipt | Failure, Message | None]:
        """Collects a quota for somebody elsewhere: two objects, of which only the first is small."""
        try:
            answer, table = self.collect(work, quota)
        except KeyboardInterrupt as error:  # not of a person: nobody types here
            self._pool.discard()
            text = (
                f"run seed {work.info.seed}, {work.name(quota)}: {told('the environment or policy', error)}"
            )
            return Failure(f"{work.info.environment}: {text}", name_of_worker(), build()), None
        return answer, None if table is None else to_message(table)

    def answer_parts(self, question: ShardRequest, values: NDArray[Any] | None) -> ShardReply:
        """Answers a question about parts of a batch, wherever it was collected."""
        return self._shards.answer(question, values)

    def ping(self) -> Sign:
        """Gives a sign of life."""
        return sign_of_life()


def name_of_worker() -> str:
    """Host and process, for people."""
    return f"{socket.gethostname()}, process {os.getpid()}"


def _end_fork(process: int) -> None:
    """Ends a process that an environment has forked and let come back here: it is not who was asked."""
    if os.getpid() != process:
        os._exit(1)  # at once: what it would close belongs to the other


def _text_of(error: Exception, environment: str) -> str:
    """What to say of an error: some tell it all, others need their place."""
    if isinstance(error, RolloutError):
        return str(error)
    return f"{environment}: {error if isinstance(error, MakingError) else told('the worker', error)}"


class RemoteWorker(RolloutWorker):
    """A worker in a process of its own."""

    def __init__(self, maker: EnvironmentMaker) -> None:
        # Workers share the cores of their node; a thread pool in each would only thrash.
        torch.set_num_threads(1)
        end_quietly()
        super().__init__(maker)
