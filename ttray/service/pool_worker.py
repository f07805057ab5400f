"""The worker of a service: it stays, and keeps environments and policies for whoever asks next.

What it collects has the bits of a worker that has just been started: environments are reset with the seed of
each trajectory, and each quota opens its policy anew.
"""

from __future__ import annotations

import torch
from ray import cloudpickle
from ray.exceptions import RayError

from ttray.plans.quotas import Quota
from ttray.rollout.blame import told
from ttray.service.builds import build
from ttray.service.endings import end_quietly
from ttray.service.own_code import look_there, others_than
from ttray.service.receipt import Failure, Receipt
from ttray.service.sent_work import Recent, SentWork
from ttray.service.worker import Message, RolloutWorker, Sign, name_of_worker, sign_of_life

NUM_ENVIRONMENTS = 4
"""Kinds of environments that a worker keeps: each may be a simulator with all its memory."""

_NUM_POLICIES = 8


class PoolWorker:
    """Collects quotas of any environment for any client."""

    def __init__(self, num_environments: int = NUM_ENVIRONMENTS) -> None:
        torch.set_num_threads(1)  # workers share the cores of their node
        end_quietly()
        self._workers: Recent[RolloutWorker] = Recent(num_environments, RolloutWorker.close)
        self._policies: Recent[bytes] = Recent(_NUM_POLICIES)

    def run_quota(self, sent: SentWork, quota: Quota) -> tuple[Receipt | Failure, Message | None]:
        """Collects a quota: two objects, of which only the first is small."""
        look_there(sent.directories)
        try:
            worker = self._workers.get(sent.maker.digest, lambda: _worker_for(sent))
            policy = self._policies.get(sent.policy.digest, lambda: sent.policy.content("a policy"))
            work = sent.whole(cloudpickle.loads(policy))
        except RayError:
            raise  # the client is gone, or its node
        except ModuleNotFoundError as missing:
            return self._failure(
                sent,
                f"the service's workers cannot import {missing.name}; install it where they run, or start "
                "the service where it is: ttray submit --working-dir . -- service start",
            ), None
        except Exception as error:
            return self._failure(sent, told("what a client sent", error)), None
        if sent.modules and (others := others_than(sent.modules)):
            return self._failure(
                sent,
                f"the worker has another {', '.join(others)} than the client; install the same on all nodes, "
                "or start the service again (ttray service stop, ttray service start)",
            ), None
        return worker.run_quota(work, quota)

    @staticmethod
    def _failure(sent: SentWork, text: str) -> Failure:
        return Failure(f"{sent.work.info.environment}: {text}", name_of_worker(), build())

    def ping(self) -> Sign:
        """Gives a sign of life."""
        return sign_of_life()

    def close(self) -> None:
        """Closes all environments."""
        self._workers.clear()


def _worker_for(sent: SentWork) -> RolloutWorker:
    return RolloutWorker(cloudpickle.loads(sent.maker.content("an environment")))
