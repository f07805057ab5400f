"""The worker: an ordinary object that collects quotas, and answers errors instead of raising them.

`RemoteWorker` is the same object in a process of its own. What happens when that process dies is the
dispatcher's business; a worker keeps nothing that a new one could not make again.
"""

from __future__ import annotations

import logging
import os
import socket
import traceback
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import ray
import torch

from ttray.core.batch import BatchInfo
from ttray.core.quotas import Quota
from ttray.core.schema import from_message, to_message
from ttray.rollout.environment import EnvironmentMaker
from ttray.rollout.policies import Policy
from ttray.rollout.quota import RolloutError, RolloutStats, collect_quota
from ttray.rollout.slots import SlotPool

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Work:
    """What all quotas of one iteration have in common; put into the object store once.

    Attributes:
        info: The batch that is collected.
        policy: With its weights: a worker has no policy of its own that could be stale.
        num_slots: Slots that a worker may use.
    """

    info: BatchInfo
    policy: Policy
    num_slots: int

    def name(self, quota: Quota) -> str:
        """What a log calls a quota of this work: the ids from which its trajectories can be made again."""
        return f"iteration {self.info.iteration}, trajectories {quota.start} to {quota.stop - 1}"


@dataclass(frozen=True)
class Outcome:
    """What became of a quota: a table with its statistics, or the text of an error.

    Attributes:
        table: The transitions, or None.
        stats: What they cost, or None.
        error: Why there are none, or None.
        worker: Host and process that answered.
    """

    table: pa.Table | None
    stats: RolloutStats | None
    error: str | None
    worker: str

    def __getstate__(self) -> dict[str, Any]:
        """To be sent: the table as one message."""
        return self.__dict__ | {"table": None if self.table is None else to_message(self.table)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Shares the memory of the message, which is that of the object store."""
        message = state["table"]
        self.__dict__.update(state | {"table": None if message is None else from_message(*message)})


class RolloutWorker:
    """Collects one quota after another.

    Args:
        maker: Of the environments.
    """

    def __init__(self, maker: EnvironmentMaker) -> None:
        self._pool = SlotPool(maker)

    def run_quota(self, work: Work, quota: Quota) -> Outcome:
        """Collects a quota; an environment that fails is an error in the outcome, not a raise.

        After an error the environments are made anew: the next try starts from fresh ones.
        """
        worker = f"{socket.gethostname()}, process {os.getpid()}"
        try:
            table, stats = collect_quota(
                self._pool.take, work.policy, work.info, quota, num_slots=work.num_slots
            )
        except Exception as error:
            self._pool.discard()
            # A RolloutError tells it all; others (an environment that cannot be made) need their place.
            known = isinstance(error, RolloutError)
            text = str(error) if known else f"{work.info.environment}: {traceback.format_exc().rstrip()}"
            logger.warning("%s: %s", work.name(quota), text)
            return Outcome(None, None, text, worker)
        return Outcome(table, stats, None, worker)

    def ping(self) -> int:
        """Answers with the process id."""
        return os.getpid()


class RemoteWorker(RolloutWorker):
    """A worker in a process of its own."""

    def __init__(self, maker: EnvironmentMaker) -> None:
        # Workers share the cores of their node; a thread pool in each would only thrash.
        torch.set_num_threads(1)
        super().__init__(maker)


def start_workers(maker: EnvironmentMaker, number: int) -> dict[int, Any]:
    """Starts workers as actors that Ray restarts whenever they die; returns their handles by number."""
    if not ray.is_initialized():
        ray.init()
    actor_class = ray.remote(num_cpus=1, max_restarts=-1)(RemoteWorker)
    return {index: actor_class.remote(maker) for index in range(number)}
