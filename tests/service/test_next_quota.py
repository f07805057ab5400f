"""What a worker has at hand while it is at something else: sent beforehand, taken back, and lost with it."""

import os
import signal
from collections import Counter
from functools import partial

import ray
from ray.exceptions import ActorUnavailableError, TaskCancelledError

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
        call = shared, quota, on_answer
        self.open.append(call)
        return partial(self.take_back, call)

    def take_back(self, call):
        self.open.remove(call)
        call[-1](Answer(TaskCancelledError(), None))

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

    def collect(self, script):
        settings = DispatchSettings(quotas_per_env_runner=4, backup_quotas=False, determinism_check="off")
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
                more = len({*range(8)} - {*first.sent, *second.sent})
                assert len(desk.open) == 2 or not more
                if desk.open:
                    desk.finish()
                yield

    office = Office(2)
    stats = office.collect(script)
    assert sorted(office.desks[0].sent + office.desks[1].sent) == list(range(8))
    assert stats.num_quotas_redispatched == 0


def test_who_is_idle_gets_what_another_has_at_hand(local_ray):
    def script(quick, slow):
        yield
        while quick.open or len(slow.open) == 2:
            if quick.open:
                quick.finish()
            yield
        slow.finish()

    office = Office(2)
    stats = office.collect(script)
    quick, slow = (desk.sent for desk in office.desks)
    assert len(slow) == 2
    assert Counter(quick + slow) == Counter([*range(8), slow[1]])
    assert set(quick) == {*range(8)} - {slow[0]}
    assert stats.num_quotas_redispatched == stats.num_quotas_backed_up == 0


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


def test_a_stopped_worker_never_begins_what_others_have_done(service):
    work = service.work()
    expected = service.undisturbed(work)
    victim = service.pids()[0]
    rollouts = service.rollouts(backup_quotas=True)
    while rollouts.collect_work(work).stats.num_quotas < 8:
        pass  # on a busy machine one may have been late, and is then not counted on
    before = ray.get(service.actors[0].num_quotas.remote())
    # So that it is still at the first when it hears that the next is taken back: Ray may have to say it again,
    # after two seconds.
    service.fail(delay_s=0.015)
    os.kill(victim, signal.SIGSTOP)
    try:
        handle = rollouts.collect_work(work)
    finally:
        os.kill(victim, signal.SIGCONT)
    assert checked_digest(handle, work) == expected
    assert handle.stats.num_quotas_redispatched == 0
    assert ray.get(service.actors[0].num_quotas.remote()) <= before + 1
