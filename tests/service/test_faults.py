"""Exactly the plan, whatever dies: real faults on a real local Ray."""

import os
import signal
import time
import urllib.request
from dataclasses import replace

import numpy as np
import pytest
import ray

from tests.support.environments import SEED, ProbeEnv, env_seed, mixed_strategy, policy_for, probe, roll
from tests.support.service import checked_digest, local_service, service_on
from ttray.data.batch import digest
from ttray.data.validation import validate
from ttray.numerics.seeding import FIRST_EVALUATION_ITERATION
from ttray.rollout.environment import EnvironmentMaker
from ttray.rollout.policies import fresh_policy
from ttray.service.dispatcher import CollectionError
from ttray.service.service import RolloutService
from ttray.service.worker import RemoteWorker
from ttray.settings.training import DispatchSettings

BAD = 4  # a trajectory of 130 steps
# What the environment does inside step 70 of it, and what the error says.
ERRORS = {
    "raise": "ZeroDivisionError: the physics exploded",
    "nan_reward": "the reward is not finite: nan",
    "nan_obs": "the observation is not finite: [",
    "shape": "the observation has shape (1,), its space says (3,)",
    "list": "its space says an array of float32 of shape (3,); return np.asarray(..., dtype=np.float32)",
    "exit": "the environment tried to end the process (SystemExit: 0)",
    "truncate": "truncated its episode before the planned length 130",
}


@pytest.mark.parametrize("fault", [*ERRORS, "kill", "hang"])
def test_a_fault_that_happens_once_costs_one_quota_and_no_bit(service, tmp_path, caplog, fault):
    work = service.work()
    expected = service.undisturbed(work)
    service.pids()
    marker = tmp_path / "happened"
    service.fail(fault=fault, bad_seed=env_seed(BAD), bad_step=70, marker=str(marker))
    # Long enough for every other quota of a busy machine: what hangs is waited for that long.
    rollouts = service.rollouts(quota_timeout_s=20.0 if fault == "hang" else 120.0)
    handle = rollouts.collect_work(work)
    assert marker.exists()
    assert checked_digest(handle, work) == expected
    assert handle.stats.num_quotas_redispatched == 1
    assert handle.stats.num_trajectories_recollected == service.quota_of(work, BAD).num_trajectories
    assert handle.stats.num_trajectories == 22
    assert handle.stats.num_quotas == 8
    assert handle.stats.num_slot_steps == handle.stats.num_env_steps == work.info.strategy.budget
    quota = service.quota_of(work, BAD)
    name = f"iteration {work.info.iteration}, trajectories {quota.start} to {quota.stop - 1}"
    assert [record for record in caplog.records if record.message.startswith(name)]


def test_a_death_does_not_use_up_the_patience_with_errors(service, tmp_path):
    work = service.work()
    expected = service.undisturbed(work)
    service.pids()
    faults = {"bad_seed": env_seed(BAD), "bad_step": 70, "marker": str(tmp_path / "happened")}
    service.fail(fault=["kill", "raise"], **faults)
    # Two errors would be too many, and so would be four deaths.
    handle = service.rollouts(max_quota_attempts=2, quota_timeout_s=120.0).collect_work(work)
    assert checked_digest(handle, work) == expected
    assert handle.stats.num_quotas_redispatched == 2
    service.pids()
    service.fail(fault=["kill", "raise", "raise"], **faults | {"marker": str(tmp_path / "again")})
    with pytest.raises(
        CollectionError, match=r"in 2 attempts, and 1 in which its worker died(?s:.*)the physics exploded"
    ):
        service.rollouts(max_quota_attempts=2, quota_timeout_s=120.0).collect_work(work)


def test_what_was_sent_again_is_read_back_from_the_prometheus_endpoint(service, tmp_path):
    """And an evaluation, which comes last, moves nothing of the training's."""
    service.pids()
    service.fail(fault="raise", bad_seed=env_seed(BAD), bad_step=70, marker=str(tmp_path / "happened"))
    work = service.work()
    stats = service.rollouts().collect_work(work).stats
    evaluation = replace(work.info, iteration=FIRST_EVALUATION_ITERATION + 5)
    service.rollouts().collect_work(replace(work, info=evaluation))
    names = {
        "ray_ttray_quotas_redispatched_total": stats.num_quotas_redispatched,
        "ray_ttray_trajectories_recollected_total": stats.num_trajectories_recollected,
        "ray_ttray_iteration": work.info.iteration,
    }
    (node,) = ray.nodes()
    address = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
    deadline = time.monotonic() + 60
    found, of_evaluation = {}, []
    while not (set(names) <= set(found) and of_evaluation):  # they are exported every few seconds
        assert time.monotonic() < deadline, found
        time.sleep(0.5)
        with urllib.request.urlopen(address, timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        ours = [line for line in lines if line.startswith("ray_ttray") and 'environment="ProbeEnv"' in line]
        of_evaluation = [line for line in ours if 'purpose="evaluation"' in line]
        found = {
            name: float(line.split()[-1])
            for line in ours
            for name in names
            if line.startswith(f"{name}{{") and 'purpose="training"' in line
        }
    for name, value in names.items():
        assert found[name] >= value  # at least: other tests count too
    assert found["ray_ttray_iteration"] < FIRST_EVALUATION_ITERATION
    assert not [line for line in of_evaluation if line.startswith("ray_ttray_iteration")]
    assert [line for line in of_evaluation if line.startswith("ray_ttray_env_steps_total")]


@pytest.mark.parametrize(("fault", "what"), ERRORS.items())
def test_a_fault_that_always_happens_is_one_clear_error_within_seconds(service, fault, what):
    work = service.work()
    expected = service.undisturbed(work)
    service.pids()
    service.fail(fault=fault, bad_seed=env_seed(BAD), bad_step=70)
    rollouts = service.rollouts()
    started = time.monotonic()
    with pytest.raises(CollectionError) as caught:
        rollouts.collect_work(work)
    assert time.monotonic() - started < 30.0
    message = str(caught.value)
    quota = service.quota_of(work, BAD)
    assert f"trajectories {quota.start} to {quota.stop - 1} could not be collected in 3 attempts" in message
    assert f"ProbeEnv: trajectory {BAD} failed at step {71 if fault == 'nan_obs' else 70} " in message
    assert f"seed={env_seed(BAD)}" in message
    assert what in message
    assert ("Traceback (most recent call last)" in message) == (fault in ("raise", "exit"))
    service.fail()
    handle = rollouts.collect_work(work)  # the same dispatcher goes on
    assert checked_digest(handle, work) == expected
    assert handle.stats.num_quotas_redispatched == 0


def test_an_interrupt_that_nobody_typed_is_an_error_of_the_environment(service):
    work = service.work()
    service.pids()
    service.fail(fault="interrupt", bad_seed=env_seed(BAD), bad_step=70)
    with pytest.raises(CollectionError) as caught:
        service.rollouts(max_quota_attempts=2).collect_work(work)
    message = str(caught.value)
    assert "in 2 attempts" in message
    assert "ProbeEnv: run seed 7, iteration 3, trajectories" in message
    assert "the environment or policy tried to end the process (KeyboardInterrupt)" in message
    service.fail()
    assert checked_digest(service.rollouts().collect_work(work), work) == service.undisturbed(work)


@pytest.mark.parametrize(
    ("fault", "patience_s", "what"),
    [
        ("exit_at_once", 120.0, r"ProbeEnv: worker [0-3] died \(run seed 7, iteration 3\): .* an os._exit"),
        ("hang", 3.0, "worker [0-3] did not answer for 3.0 s .quota_timeout_s."),
    ],
)
def test_a_quota_that_takes_every_worker_down_is_given_up(service, fault, patience_s, what):
    work = service.work()
    expected = service.undisturbed(work)
    service.pids()
    service.fail(fault=fault, bad_seed=env_seed(BAD), bad_step=70)
    rollouts = service.rollouts(max_quota_attempts=1, quota_timeout_s=patience_s)
    with pytest.raises(CollectionError, match=rf"could not be collected in 2 attempts(?s:.*){what}"):
        rollouts.collect_work(work)
    service.fail()
    handle = rollouts.collect_work(work)
    assert checked_digest(handle, work) == expected


def test_all_actors_killed_at_once_come_back_and_finish(service):
    work = service.work()
    expected = service.undisturbed(work)
    pids = service.pids(2)
    service.fail(delay_s=0.01)

    def kill_all(progress):
        while pids and progress.num_trajectories > 0:
            os.kill(pids.pop(), signal.SIGKILL)

    # Processes that start at once need a minute where the cores are shared with others.
    handle = service.rollouts(2, env_runner_wait_s=180.0).collect_work(work, kill_all)
    assert not pids
    assert checked_digest(handle, work) == expected
    assert 1 <= handle.stats.num_quotas_redispatched <= 2
    assert handle.stats.num_trajectories_recollected >= handle.stats.num_quotas_redispatched
    assert len(set(service.pids(2))) == 2


def test_an_interrupted_collection_leaves_a_dispatcher_that_works(service):
    class Interrupt(Exception):
        pass

    def interrupt(progress):
        if progress.num_trajectories:
            raise Interrupt

    work = service.work()
    rollouts = service.rollouts()
    service.fail(delay_s=0.002)
    with pytest.raises(Interrupt):
        rollouts.collect_work(work, interrupt)
    handle = rollouts.collect_work(work)
    assert checked_digest(handle, work) == service.undisturbed(work)
    assert handle.stats.num_quotas_redispatched == 0


def test_without_a_worker_that_starts_there_is_a_clear_error_after_the_wait(service):
    actor = ray.remote(num_cpus=1000, max_restarts=-1)(RemoteWorker).remote(probe())
    rollouts = service_on({0: actor}, probe(), env_runner_wait_s=1.5)
    started = time.monotonic()
    with pytest.raises(
        CollectionError, match=r"none of the 1 rollout workers has been alive for 2 s.*8 CPUs"
    ):
        rollouts.collect_work(service.work())
    assert 1.5 <= time.monotonic() - started < 5.0
    ray.kill(actor)


def test_workers_that_are_gone_for_good_are_an_error_at_once(service):
    actor = ray.remote(num_cpus=1, max_restarts=-1)(RemoteWorker).remote(probe())
    rollouts = service_on({0: actor}, probe())
    rollouts.collect_work(service.work())
    ray.kill(actor)
    started = time.monotonic()
    with pytest.raises(CollectionError, match="all 1 rollout workers are gone for good"):
        rollouts.collect_work(service.work())
    assert time.monotonic() - started < 30.0


@pytest.mark.parametrize("fault", ERRORS)
def test_in_one_process_faults_are_retried_and_given_up_alike(service, tmp_path, fault):
    work = service.work()
    expected = service.undisturbed(work)
    once = {"fault": fault, "bad_seed": env_seed(BAD), "bad_step": 70, "marker": str(tmp_path / "happened")}
    handle = local_service(probe(**once)).collect_work(work)
    assert checked_digest(handle, work) == expected
    assert handle.stats.num_quotas_redispatched == 1
    with pytest.raises(CollectionError) as caught:
        local_service(probe(**{**once, "marker": None}), max_quota_attempts=2).collect_work(work)
    assert "in 2 attempts" in str(caught.value)
    assert f"ProbeEnv: trajectory {BAD} failed at step" in str(caught.value)
    assert ERRORS[fault] in str(caught.value)


def test_an_environment_that_cannot_be_made_is_a_clear_error(service):
    licences = [1]

    def scarce():
        if not licences:
            raise OSError("no licence for the simulator")
        licences.pop()
        return ProbeEnv()

    rollouts = local_service(EnvironmentMaker.of(scarce))
    with pytest.raises(CollectionError, match=r"in 3 attempts(?s:.*)Traceback(?s:.*)no licence for the sim"):
        rollouts.collect_work(service.work())


def test_settings_out_of_range_are_refused():
    for wrong in (
        {"quotas_per_env_runner": 0},
        {"quota_timeout_s": 0.0},
        {"max_quota_attempts": 0},
        {"env_runner_wait_s": 0},
        {"backup_quotas": 1},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            DispatchSettings(**wrong)
    for wrong in (-1, True, 1.5, "many"):
        with pytest.raises(ValueError, match='num_env_runners must be a whole number, at least 0, or "auto"'):
            RolloutService(probe(), num_env_runners=wrong)


def test_the_probe_collects_what_the_actions_of_its_policy_make():
    # Guards the tests above: an environment that ignored its actions would hide a wrong retry.
    maker, strategy = probe(), mixed_strategy()
    tables = []
    for policy in (policy_for(maker), policy_for(maker), fresh_policy(maker.facts(), seed=SEED)):
        ((table,), _) = roll(maker, strategy, policy=policy)
        validate(table, strategy)
        tables.append(table)
    first, again, other = tables
    assert (first.num_rows, strategy.num_trajectories) == (strategy.budget, 22)
    assert digest(first) == digest(again)
    # A trajectory begins as its seed says. Two policies may agree on a few actions, not on many.
    begins = np.asarray(first["t"]) == 0
    first_obs, other_obs = (np.stack(table["obs"].to_numpy()) for table in (first, other))
    assert np.array_equal(first_obs[begins], other_obs[begins])
    for trajectory in np.unique(first["trajectory"])[np.asarray(first["length"])[begins] >= 64]:
        rows = np.asarray(first["trajectory"]) == trajectory
        assert not np.array_equal(first_obs[rows], other_obs[rows])
        assert not np.array_equal(np.asarray(first["reward"])[rows], np.asarray(other["reward"])[rows])
