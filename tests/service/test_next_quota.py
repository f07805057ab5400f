"""What a worker has at hand while it is at something else: sent beforehand, copied, and lost with it."""

import os
import signal
from collections import Counter

import ray
from ray.exceptions import ActorUnavailableError

from tests.support.environments import mixed_strategy, policy_for, probe
from tests.support.service import checked_digest, local_service
from ttray.data.batch import digest
from ttray.service.channel import Answer
from ttray.service.service import RolloutService
from ttray.service.worker import RolloutWorker, sign_of_life
from ttray.settings.training import DispatchSettings

MAKER = probe()


class Desk:
    """A worker in this process that does what lies on it when it is told to."""

    needs, is_spare = "nothing", False

    def __init__(self):
        self.worker, self.open, self.sent = RolloutWorker(MAKER), [], []

    def send(self, shared, quota, on_answer):
        self.sent.append(quota.index)
        self.open.append((shared, quota, on_answer))

    def finish(self):
        """Does what came first."""
        shared, quota, on_answer = self.open.pop(0)
        on_answer(Answer(*self.worker.collect(ray.get(shared), quota)))

    def die(self):
        lost, self.open = self.open, []
        for *_, on_answer in reversed(lost):  # nobody promises an order
            on_answer(Answer(ActorUnavailableError("gone", None), None))

    def ping(self, on_answer):
        on_answer(sign_of_life())

    def kill(self):
        pass


class Office:
    """A few desks, and a rollout service that sends them quotas while a script says what they do."""

    def __init__(self, number):
        self.desks = [Desk() for _ in range(number)]

    def channels(self, alive, demand):
        return dict(enumerate(self.desks))

    def stop(self, idle):
        pass

    def collect(self, script, *, backup_quotas=False):
        settings = DispatchSettings(
            quotas_per_env_runner=4, backup_quotas=backup_quotas, determinism_check="off"
        )
        rollouts = RolloutService(MAKER, supplier=self, settings=settings)
        steps = script(*self.desks)
        handle = rollouts.collect(
            mixed_strategy(), policy_for(MAKER), on_progress=lambda _: next(steps, None)
        )
        expected = local_service(MAKER).collect(mixed_strategy(), policy_for(MAKER))
        assert digest(handle.batch().table) == digest(expected.batch().table)
        return handle.stats


def test_a_worker_has_its_next_quota_before_the_last_is_answered(local_ray):
    def script(first, second):
        while True:
            for desk in (first, second):
                num_left = 8 - len(first.sent + second.sent)
                assert len(desk.open) == 2 or num_left < 2  # one for each of them
                if desk.open:
                    desk.finish()
                yield

    office = Office(2)
    stats = office.collect(script)
    assert sorted(office.desks[0].sent + office.desks[1].sent) == list(range(8))
    assert stats.num_quotas_redispatched == 0


def test_nobody_waits_for_what_a_late_worker_has_at_hand(local_ray):
    def script(quick, _):
        while True:
            if quick.open:
                quick.finish()
            yield

    office = Office(2)
    stats = office.collect(script, backup_quotas=True)
    quick, late = (desk.sent for desk in office.desks)
    assert len(late) == 2
    assert sorted(quick) == list(range(8))
    assert stats.num_quotas_backed_up == 1  # what it had begun
    assert stats.num_quotas_redispatched == 0


def test_what_a_dead_worker_had_at_hand_runs_elsewhere_and_is_not_to_blame(local_ray):
    deaths = []

    def script(first, second):
        while True:
            if len(deaths) < 5 and len(second.open) == 2:
                deaths.append([quota.index for _, quota, _ in second.open])
                second.die()
            elif desk := next((each for each in (first, second) if each.open), None):
                desk.finish()
            yield

    office = Office(2)
    stats = office.collect(script)
    assert len(deaths) == 5
    assert stats.num_quotas_redispatched == 5  # of each two that were lost, one had begun
    sent = Counter(office.desks[0].sent + office.desks[1].sent)
    lost = Counter(index for both in deaths for index in both)
    assert all(sent[index] > number for index, number in lost.items())


def test_a_stopped_worker_holds_up_nothing_that_it_has_at_hand(service):
    work = service.work()
    expected = service.undisturbed(work)
    victim = service.pids()[0]
    rollouts = service.rollouts(quotas_per_env_runner=4, backup_quotas=True)
    rollouts.collect_work(work)
    os.kill(victim, signal.SIGSTOP)
    try:
        handle = rollouts.collect_work(work)
    finally:
        os.kill(victim, signal.SIGCONT)
    assert checked_digest(handle, work) == expected
    assert handle.stats.num_quotas_redispatched == 0
    # What it does now is for nobody; whoever counts on it again has the same bits.
    assert checked_digest(rollouts.collect_work(work), work) == expected
