"""Waits for Ray with a time limit, and says what is waited for.

While the head of a cluster cannot be reached, most of what Ray is asked takes as long as that lasts, without
a word. So whoever needs an answer asks through these functions, and nobody calls Ray's own.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import ray
from ray.exceptions import GetTimeoutError

from ttray.service.head_monitor import problem_of_head

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

_PATIENCE_S = 10.0  # before a line says what is waited for
_AGAIN_S = 30.0  # between such lines
_LONGEST_S = 600.0  # for what travels: a large batch, over a slow network


class NoAnswerError(RuntimeError):
    """Ray has not answered in time."""


def ask(what: str, call: Callable[[], Answer]) -> Answer:
    """Calls a function of Ray that asks the head of the cluster.

    Args:
        what: It tells, for the log.
        call: The function; it goes on in a thread if it takes too long.

    Raises:
        NoAnswerError: It takes too long; the log says so already.
    """
    answer: Future[Answer] = Future()

    def work() -> None:
        try:
            answer.set_result(call())
        except BaseException as problem:
            answer.set_exception(problem)

    threading.Thread(target=work, name=f"asking Ray for {what}", daemon=True).start()
    try:
        return answer.result(timeout=_PATIENCE_S)
    except TimeoutError:
        if answer.done():
            raise  # by the function itself
        text = f"Ray has not told {what} for {_PATIENCE_S:.0f} s{_why()}"
        logger.warning("%s", text)
        raise NoAnswerError(text) from None


def fetch(what: str, references: Any) -> Any:
    """The objects behind references, as `ray.get` gives them.

    Args:
        what: They are, for the log.
        references: One or a list.

    Raises:
        GetTimeoutError: They have not come for too long: as good as lost.
        RayError: They are lost.
    """
    started = time.monotonic()
    wait_s = _PATIENCE_S
    while True:
        try:
            return ray.get(references, timeout=wait_s)
        except GetTimeoutError:
            waited_s, wait_s = time.monotonic() - started, _AGAIN_S
            logger.warning("waiting for %s for %.0f s%s", what, waited_s, _why())
            if waited_s > _LONGEST_S:
                raise


def _why() -> str:
    problem = problem_of_head()
    return "" if problem is None else f": the head of the Ray cluster cannot be reached ({problem})"
