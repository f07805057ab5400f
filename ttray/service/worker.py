"""The worker: an ordinary object that collects quotas, and answers errors instead of raising them.

`RemoteWorker` is the same object in a process of its own: it answers with a receipt, and its table stays
in the object store of its node until somebody asks for it. What happens when that process dies is the
dispatcher's business; a worker keeps nothing that a new one could not make again.
"""

from __future__ import annotations

import logging
import os
import socket
import traceback
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa
import torch
from numpy.typing import NDArray

from ttray.core.batch import BatchInfo
from ttray.core.quotas import Quota
from ttray.core.schema import to_message
from ttray.rollout.determinism import find_difference
from ttray.rollout.environment import EnvironmentMaker
from ttray.rollout.policies import Policy
from ttray.rollout.quota import RolloutError, collect_quota
from ttray.rollout.slots import SlotPool
from ttray.service.receipt import Failure, Receipt
from ttray.service.shelf import Question, Reply, Shelf

logger = logging.getLogger(__name__)

Message: TypeAlias = tuple[bytes, pa.Buffer]
"""A table as it travels, see `core.schema.to_message`."""


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
    policy: Policy
    num_slots: int
    dist_inputs: bool = True
    in_parts: bool = False
    checks_determinism: bool = False

    def name(self, quota: Quota) -> str:
        """What a log calls a quota of this work: the ids from which its trajectories can be made again."""
        return f"iteration {self.info.iteration}, trajectories {quota.start} to {quota.stop - 1}"


class RolloutWorker:
    """Collects one quota after another.

    Args:
        maker: Of the environments.
    """

    def __init__(self, maker: EnvironmentMaker) -> None:
        self._pool = SlotPool(maker)
        self._shelf = Shelf()

    def collect(self, work: Work, quota: Quota) -> tuple[Receipt | Failure, pa.Table | None]:
        """Collects a quota; an environment that fails is a failure in the answer, not a raise.

        After an error the environments are made anew: the next try starts from fresh ones.
        """
        self._shelf.clear()  # of the batch before, which may be as large
        worker = f"{socket.gethostname()}, process {os.getpid()}"
        try:
            table, stats = collect_quota(
                self._pool.take,
                work.policy,
                work.info,
                quota,
                num_slots=work.num_slots,
                dist_inputs=work.dist_inputs,
            )
            receipt = Receipt.of(table, work.info, quota, stats, worker)
            if work.checks_determinism and quota.start == 0:
                found = find_difference(self._pool.take, work.policy, work.info, quota, table)
                receipt = replace(receipt, difference=found)
            return receipt, table
        except Exception as error:
            self._pool.discard()
            # A RolloutError tells it all; others (an environment that cannot be made) need their place.
            known = isinstance(error, RolloutError)
            text = str(error) if known else f"{work.info.environment}: {traceback.format_exc().rstrip()}"
            logger.warning("%s: %s", work.name(quota), text)
            return Failure(text, worker), None

    def run_quota(self, work: Work, quota: Quota) -> tuple[Receipt | Failure, Message | None]:
        """Collects a quota for somebody elsewhere: two objects, of which only the first is small."""
        answer, table = self.collect(work, quota)
        return answer, None if table is None else to_message(table)

    def answer_parts(self, question: Question, values: NDArray[Any] | None) -> Reply:
        """Answers a question about parts of a batch, wherever it was collected."""
        return self._shelf.answer(question, values)

    def ping(self) -> int:
        """Answers with the process id."""
        return os.getpid()


class RemoteWorker(RolloutWorker):
    """A worker in a process of its own."""

    def __init__(self, maker: EnvironmentMaker) -> None:
        # Workers share the cores of their node; a thread pool in each would only thrash.
        torch.set_num_threads(1)
        super().__init__(maker)
