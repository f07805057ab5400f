"""Channels: how the dispatcher talks to a remote worker.

An answer is put into a queue by whoever receives it, so the dispatcher never asks all of its workers
whether one of them has something: what an answer costs does not depend on how many workers there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import ray

from ttray.plans.quotas import Quota
from ttray.service.receipt import Failure, Receipt
from ttray.service.shard_cache import ShardReply, ShardRequest


@dataclass(frozen=True)
class Answer:
    """What came back of a quota.

    Attributes:
        outcome: A receipt, the failure of an environment, or the error in which the call ended.
        table: Where the rows are: whatever the handle of the batch can fetch.
    """

    outcome: Receipt | Failure | Exception
    table: Any


class Channel(Protocol):
    """A worker elsewhere."""

    needs: str
    """What it needs to be placed, for logs."""

    is_spare: bool
    """Whether nobody counts on it, or misses it, before it has a place."""

    def send(self, work: Any, quota: Quota, on_answer: Callable[[Answer], None]) -> None:
        """Sends a quota; `on_answer` is called once, from any thread."""

    def ask(
        self, question: ShardRequest, values: Any, on_answer: Callable[[ShardReply | Exception], None]
    ) -> None:
        """Asks about parts that the worker holds; `on_answer` is called once, from any thread."""

    def ping(self, on_answer: Callable[[Any], None]) -> None:
        """Asks whether the worker is alive; `on_answer` gets anything, or the exception."""

    def kill(self) -> None:
        """Ends the process of the worker, which Ray then starts again."""


class ActorChannel:
    """A Ray actor with the methods of `RemoteWorker`.

    Args:
        actor: Its handle. It must be restartable (`max_restarts`), or a death is for good.
        needs: What it needs to be placed, for logs.
        is_spare: Whether nobody counts on it before it has a place.
    """

    def __init__(self, actor: Any, needs: str = "1 CPU", *, is_spare: bool = False) -> None:
        self.actor, self.needs, self.is_spare = actor, needs, is_spare
        self._run_quota = actor.run_quota.options(num_returns=2)

    def send(self, work: ray.ObjectRef, quota: Quota, on_answer: Callable[[Answer], None]) -> None:
        """Sends a quota. The table stays where it is made; this process owns the reference to it."""
        receipt, table = self._run_quota.remote(work, quota)
        when_done(receipt, lambda outcome: on_answer(Answer(outcome, table)))

    def ask(
        self, question: ShardRequest, values: Any, on_answer: Callable[[ShardReply | Exception], None]
    ) -> None:
        """Asks about parts; values that are a reference are fetched where they are needed."""
        when_done(self.actor.answer_parts.remote(question, values), on_answer)

    def ping(self, on_answer: Callable[[Any], None]) -> None:
        """Asks whether the actor is alive."""
        when_done(self.actor.ping.remote(), on_answer)

    def kill(self) -> None:
        """Ends the process; Ray starts another."""
        ray.kill(self.actor, no_restart=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # A learner elsewhere asks the same actor.
        return ActorChannel, (self.actor, self.needs)


def when_done(reference: ray.ObjectRef, on_done: Callable[[Any], None]) -> None:
    """Calls with what is behind a reference, or the exception in its place, once it is there."""

    def pass_on(future: Any) -> None:
        problem = future.exception()
        on_done(future.result() if problem is None else problem)

    reference.future().add_done_callback(pass_on)
