"""Receipts check_covers_plan the plan, rows stay where they were made, and lost rows are made again."""

import dataclasses
import math
import os
import signal
from itertools import pairwise

import numpy as np
import pytest
import ray

import ttray
from tests.support.environments import mixed_strategy, policy_for, probe, strategy_of
from tests.support.service import checked_digest, local_service
from ttray.data.batch import digest
from ttray.service.handle import BatchHandle
from ttray.service.receipt import check_covers_plan

# Tables of 100 kB and more stay in the object store; smaller ones travel with the answer.
LARGE = ttray.dcs.truncated(horizon=360, budget=40_000, gamma=0.95)


@pytest.fixture(scope="module")
def small():
    """A collected batch of three quotas, in this process."""
    rollouts = local_service(probe(), quotas_per_env_runner=3)
    return rollouts.collect(mixed_strategy(), policy_for(probe()), iteration=3, gamma=0.9)


def test_what_is_reported_has_the_same_bits_for_any_number_of_workers(service):
    work = service.work("ttray/Dam-v0", strategy=LARGE)
    alone = local_service(service.makers["ttray/Dam-v0"]).collect_work(work)
    table = alone.batch().table
    t, reward = np.asarray(table["t"]), np.asarray(table["reward"])
    n = LARGE.samples_per_step
    assert alone.undiscounted_return == math.fsum((1.0 / n)[t] * reward)
    assert alone.discounted_return == pytest.approx(math.fsum(0.9**t * reward / n[t]), rel=1e-12)
    assert alone.max_abs_reward == np.abs(reward).max()
    for num_actors, per_actor in [(1, 3), (2, 2), (4, 5)]:
        handle = service.rollouts(num_actors, quotas_per_env_runner=per_actor).collect_work(work)
        assert handle.undiscounted_return == alone.undiscounted_return
        assert handle.discounted_return == alone.discounted_return
        assert handle.max_abs_reward == alone.max_abs_reward


def test_rows_outlive_the_process_that_made_them_and_are_fetched_once(service):
    work = service.work("ttray/Dam-v0", strategy=LARGE)
    expected = service.undisturbed(work)
    handle = service.rollouts(1).collect_work(work)
    assert handle.transfer_time_s == 0.0
    (pid,) = service.pids(1)
    os.kill(pid, signal.SIGKILL)
    assert checked_digest(handle, work) == expected
    assert handle.batch() is handle.batch()
    service.pids(1)


def test_a_handle_travels_without_its_rows_and_is_read_elsewhere(service):
    @ray.remote(num_cpus=0)
    def read(handle):
        return digest(handle.batch().table), handle.undiscounted_return

    work = service.work("ttray/Dam-v0", strategy=LARGE)
    expected = service.undisturbed(work)
    handle = service.rollouts(2).collect_work(work)
    assert ray.get(read.remote(handle)) == (expected, handle.undiscounted_return)
    here = local_service(service.makers["ttray/Dam-v0"]).collect_work(work)
    # Beside the environment of the tests, whose source travels with it: less than a byte per row.
    environment = len(ray.cloudpickle.dumps(service.makers["ProbeEnv"]))
    assert len(ray.cloudpickle.dumps(handle)) - environment < LARGE.budget
    assert ray.get(read.remote(here)) == (expected, handle.undiscounted_return)


def test_a_receipt_is_small_whatever_its_quota_holds(service):
    work = service.work("ttray/Dam-v0", strategy=LARGE)
    (receipt,) = service.rollouts(1, quotas_per_env_runner=1).collect_work(work).receipts
    assert receipt.num_rows == LARGE.budget
    assert len(ray.cloudpickle.dumps(receipt)) < 2_000


def test_receipts_that_are_not_the_plan_are_refused(small):
    first, second, third = small.receipts
    check_covers_plan([first, second, third], mixed_strategy())
    fewer = dataclasses.replace(second, num_rows=second.num_rows - 1)
    for wrong in (
        [first, third],
        [first, second],
        [second, third],
        [first, second, second],
        [first, fewer, third],
    ):
        with pytest.raises(RuntimeError, match="a bug in ttray"):
            check_covers_plan(wrong, mixed_strategy())
    with pytest.raises(RuntimeError, match="a bug in ttray"):
        check_covers_plan([first, second, third], strategy_of(1, 1))


def test_lost_rows_with_other_bits_are_an_error(service, small):
    @ray.remote(num_cpus=0)
    class Shortlived:
        def message(self):
            return None

    lost = Shortlived.remote()
    ray.kill(lost)
    references = [lost.message.remote() for _ in small.receipts]
    table = small.batch().table
    offsets = np.cumsum([0, *(receipt.num_rows for receipt in small.receipts)])
    tables = [table.slice(start, stop - start) for start, stop in pairwise(offsets)]

    def handle_of(again):
        return BatchHandle(small.info, small.receipts, references, small.stats, lambda _: again)

    assert digest(handle_of(tables).batch().table) == digest(table)
    with pytest.raises(RuntimeError, match="have other bits when they are collected again"):
        handle_of([tables[1], tables[0], tables[2]]).batch()


def test_a_batch_without_a_discount_has_no_discounted_return():
    handle = local_service(probe()).collect(strategy_of(2), policy_for(probe()))
    with pytest.raises(ValueError, match="without a discount"):
        _ = handle.discounted_return
