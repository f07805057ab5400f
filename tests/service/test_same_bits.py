"""The same bits for any number of actors, any split, and with an actor killed in the middle."""

import os
import signal

import pytest
import ray

import ttray
from tests.support.environments import strategy_of
from tests.support.service import ENVIRONMENTS, checked_digest, resident_bytes

ITERATIONS = range(3)


def plan(name):
    # CartPole's lengths reach beyond the fall.
    horizon = 120 if name == "CartPole-v1" else 50
    return ttray.dcs.truncated(horizon=horizon, budget=30 * horizon, gamma=0.95)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_actors_quotas_and_deaths_change_no_bit(service, name):
    works = [service.work(name, strategy=plan(name), iteration=iteration) for iteration in ITERATIONS]
    expected = [service.undisturbed(work) for work in works]
    assert len(set(expected)) == len(works)  # iterations differ, or equality would prove nothing
    print(f"\n{name}: {expected[0]}")
    service.pids()
    for num_actors, per_actor in [(1, 1), (1, 5), (2, None), (2, 3), (4, 1), (4, 4)]:
        rollouts = service.rollouts(num_actors, quotas_per_env_runner=per_actor)
        for work, digest in zip(works, expected, strict=True):
            handle = rollouts.collect_work(work)
            assert checked_digest(handle, work) == digest
            assert handle.stats.num_quotas_redispatched == 0

    rollouts = service.rollouts(2, quotas_per_env_runner=4)
    found = [checked_digest(rollouts.collect_work(works[0]), works[0])]
    victim = service.pids(2)[0]  # it has nothing at hand any more, not even what was taken back
    # Stopped, the victim keeps its quota; it dies when the others have delivered theirs.
    os.kill(victim, signal.SIGSTOP)

    def kill(progress):
        if victims and progress.num_trajectories > 0:
            os.kill(victims.pop(), signal.SIGKILL)

    victims = [victim]
    handle = rollouts.collect_work(works[1], kill)
    assert not victims
    assert handle.stats.num_quotas_redispatched == 1
    found.append(checked_digest(handle, works[1]))
    found.append(checked_digest(rollouts.collect_work(works[2]), works[2]))
    assert found == expected


def test_collect_gives_the_same_table_in_this_process_and_on_an_actor(service):
    strategy = strategy_of(3, 0, 0, 5, 0, 0, 0, 2)
    tables = [
        ttray.collect(
            "ttray/Dam-v0", strategy=strategy, num_env_runners=runners, num_slots=slots, seed=5, iteration=2
        )
        for runners, slots in [(0, 64), (0, 3), (1, 64)]
    ]
    assert len({ttray.digest(table) for table in tables}) == 1
    assert tables[0].schema.equals(tables[2].schema, check_metadata=True)
    others = [
        ttray.collect("ttray/Dam-v0", strategy=strategy, seed=6, iteration=2),
        ttray.collect("ttray/Dam-v0", strategy=strategy, seed=5, iteration=1),
    ]
    assert len({ttray.digest(table) for table in [tables[0], *others]}) == 3


def test_two_hundred_iterations_leave_nothing_behind(service):
    strategy = ttray.dcs.truncated(horizon=36, budget=720, gamma=0.95)
    work = service.work("ttray/Dam-v0", strategy=strategy)
    rollouts = service.rollouts(2)

    def memory():
        actors = ray.get([service.actors[number].rss.remote() for number in range(2)])
        actors.append(resident_bytes())  # and the driver
        available = ray.available_resources().get("object_store_memory", 0.0)
        return actors, ray.cluster_resources()["object_store_memory"] - available

    for _ in range(40):
        rollouts.collect_work(work).batch()
    actors_before, store_before = memory()
    for _ in range(200):
        rollouts.collect_work(work).batch()
    actors_after, store_after = memory()
    growth = [(after - before) / 2**20 for before, after in zip(actors_before, actors_after, strict=True)]
    stored = (store_after - store_before) / 2**20
    print(f"\nMiB per 200 iterations: actors and driver {growth}, object store {stored}")
    assert max(growth) < 6.0  # one batch kept per iteration would be more than 10
    assert stored < 1.0
