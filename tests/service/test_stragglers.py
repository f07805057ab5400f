"""Workers that are slow or stopped delay nobody: idle ones get copies of what is late."""

import os
import signal
import threading
import time
from pathlib import Path
from queue import SimpleQueue

import pytest
import ray

from tests.support.environments import policy_for, probe, strategy_of
from tests.support.service import checked_digest
from ttray.service import worker_pool
from ttray.service.service import RolloutService
from ttray.service.stragglers import StragglerDetector
from ttray.service.worker import sign_of_life
from ttray.service.worker_sources import Demand


def test_a_stopped_worker_delays_neither_this_collection_nor_the_next(service):
    works = [service.work(iteration=iteration) for iteration in range(4)]
    expected = [service.undisturbed(work) for work in works]
    victim = service.pids()[0]
    rollouts = service.rollouts(backup_quotas=True)
    while (handle := rollouts.collect_work(works[0])).stats.num_quotas < 8:
        pass  # on a busy machine one may have been late, and is then not counted on
    assert checked_digest(handle, works[0]) == expected[0]
    os.kill(victim, signal.SIGSTOP)
    try:
        stopped = [rollouts.collect_work(work) for work in works[1:3]]
    finally:
        os.kill(victim, signal.SIGCONT)
    assert [checked_digest(*pair) for pair in zip(stopped, works[1:3], strict=True)] == expected[1:3]
    # The first had one of its quotas, unless it did not count on it, either; the second did not.
    assert stopped[0].stats.num_quotas_backed_up >= 1 or stopped[0].stats.num_quotas < 8
    assert stopped[0].stats.num_quotas_redispatched == 0
    assert stopped[1].stats.num_quotas <= 6
    assert service.pids()[0] == victim  # alive, and of use again
    assert checked_digest(rollouts.collect_work(works[3]), works[3]) == expected[3]


def test_a_worker_that_was_late_once_is_tried_again_and_counted_on(service):
    """Also where a plan has one quota for each, and therefore none for those that are not counted on."""
    work = service.work()
    expected = service.undisturbed(work)
    victim = service.pids()[0]
    rollouts = service.rollouts(backup_quotas=True, quotas_per_env_runner=1)
    rollouts.collect_work(work)
    os.kill(victim, signal.SIGSTOP)
    try:
        assert rollouts.collect_work(work).stats.num_quotas_backed_up >= 1
        assert rollouts.collect_work(work).stats.num_quotas <= 3
    finally:
        os.kill(victim, signal.SIGCONT)
    deadline = time.monotonic() + 60.0
    while (handle := rollouts.collect_work(work)).stats.num_quotas < 4:
        assert time.monotonic() < deadline
        assert checked_digest(handle, work) == expected
    assert checked_digest(handle, work) == expected


def test_a_service_ends_at_once_with_a_worker_that_is_stopped(local_ray):
    rollouts = RolloutService(probe(), num_env_runners=1)
    rollouts.collect(strategy_of(2), policy_for(probe()))
    (channel,) = rollouts._supplier.channels((), Demand(1, None)).values()
    victim, *_ = ray.get(channel.actor.ping.remote())
    os.kill(victim, signal.SIGSTOP)
    ending = threading.Thread(target=rollouts.close, daemon=True)
    ending.start()
    ending.join(timeout=30.0)
    assert not ending.is_alive()
    deadline = time.monotonic() + 60.0
    while Path(f"/proc/{victim}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_without_copies_a_stopped_worker_is_waited_for(service):
    work = service.work()
    expected = service.undisturbed(work)
    victim = service.pids()[0]
    rollouts = service.rollouts(backup_quotas=False)
    rollouts.collect_work(work)
    os.kill(victim, signal.SIGSTOP)
    finished = []

    def collect():
        finished.append(rollouts.collect_work(work))

    waiting = threading.Thread(target=collect)
    waiting.start()
    try:
        waiting.join(timeout=5.0)
        assert not finished
    finally:
        os.kill(victim, signal.SIGCONT)
    waiting.join(timeout=60.0)
    assert checked_digest(finished[0], work) == expected
    assert finished[0].stats.num_quotas_backed_up == 0


def test_a_worker_that_dies_with_a_copied_quota_is_not_missed(service):
    work = service.work()
    expected = service.undisturbed(work)
    victim = service.pids()[0]
    rollouts = service.rollouts(backup_quotas=True)
    rollouts.collect_work(work)
    os.kill(victim, signal.SIGSTOP)
    handle = rollouts.collect_work(work)
    os.kill(victim, signal.SIGKILL)
    assert checked_digest(handle, work) == expected
    again = rollouts.collect_work(work)
    assert checked_digest(again, work) == expected
    assert again.stats.num_quotas_redispatched == 0
    service.pids()


def test_a_worker_that_is_slow_and_has_no_place_is_missed_once(monkeypatch):
    class Silent:
        needs, is_spare = "1 CPU", False

        def ping(self, on_answer):
            pass

    monkeypatch.setattr(worker_pool, "_REPORT_EVERY_S", -1.0)  # all have waited for long
    found = worker_pool.WorkerPool(SimpleQueue())
    found.set_members(dict.fromkeys(range(4), Silent()))
    for worker in range(3):
        found._take_ping(worker, sign_of_life())
    assert found.num_expected(busy=set()) == 3
    found.slow.add(3)
    assert found.num_expected(busy={3}) == 3


def test_nobody_counts_on_a_spare_worker_or_misses_it_before_it_has_a_place(monkeypatch, caplog):
    class Spare:
        needs, is_spare = "1 CPU", True

        def ping(self, on_answer):
            pass

    monkeypatch.setattr(worker_pool, "_REPORT_EVERY_S", 0.0)
    found = worker_pool.WorkerPool(SimpleQueue())
    found.set_members(dict.fromkeys(range(4), Spare()))
    found._take_ping(0, sign_of_life())
    found._take_ping(1, sign_of_life())
    assert found.num_expected(busy=set()) == 2
    assert found.idle() == {0, 1}
    found.report_unplaced()
    assert caplog.messages == []


def test_late_is_three_times_the_median_but_not_below_a_floor():
    pace = StragglerDetector()
    pace.begin()
    assert pace.limit(100) == float("inf")  # nothing is known
    for time_s in (1.0, 2.0, 30.0):
        pace.note(time_s, 100)
    assert pace.limit(100) == pytest.approx(6.0)
    assert pace.limit(50) == pytest.approx(3.0)
    assert pace.limit(1) == 0.25
    pace.begin()
    assert pace.limit(100) == pytest.approx(6.0)  # what the last collection knew
    pace.note(5.0, 100)
    assert pace.limit(100) == pytest.approx(15.0)
