"""The bound is computed by the workers that hold the rows: the same bits, whoever dies in the middle."""

import os
import signal
import time
from dataclasses import replace
from threading import Timer

import pytest
import ray
from torch.nn.utils import parameters_to_vector

import ttray
from tests.support.service import TorchMLP, local_service
from ttray.optim.improvement import StaleBatchError, improve
from ttray.optim.local_evaluator import LocalEvaluator
from ttray.optim.run_statistics import StepRewards
from ttray.optim.shard_bound import BoundSpec
from ttray.optim.shards import cut, indices_of
from ttray.service import remote_evaluator
from ttray.service.remote_evaluator import RemoteEvaluator, share
from ttray.settings.improvement import ImprovementSettings
from ttray.settings.training import SearchSettings

PLAN = ttray.dcs.truncated(horizon=60, budget=25_000, gamma=0.95)  # six parts
SETTINGS = ImprovementSettings(gamma=0.95, delta=0.7, search=SearchSettings(2, direction="natural"))


def work_of(service, **changes):
    return replace(service.work("ttray/Dam-v0", strategy=PLAN), in_parts=True, **changes)


def improved(module, holder):
    """What an improvement leaves, to the last bit."""
    metrics = improve(module, holder, SETTINGS)
    rewards = StepRewards.of(holder, PLAN)
    weights = parameters_to_vector(module.parameters()).detach().numpy().tobytes()
    return weights, metrics, rewards.sums.tobytes(), rewards.variances.tobytes()


def spec_of(module, handle):
    return BoundSpec(handle.info, module, TorchMLP.forward, SETTINGS)


@pytest.fixture(scope="module")
def expected(running_service):
    """By this process alone."""
    work = work_of(running_service)
    handle = local_service(running_service.makers["ttray/Dam-v0"]).collect_work(work)
    module = TorchMLP(work.policy)
    with LocalEvaluator.whole(spec_of(module, handle), handle.batch(), 2) as holder:
        found = improved(module, holder)
    assert found[1]["gain"] > 0.0
    assert found[1]["num_fisher_products"] > 8
    return found


class Disturbed(RemoteEvaluator):
    """Does something when it is asked a question of a kind for the second time."""

    def disturb_at(self, what, disturb):
        self._what, self._disturb, self._seen = what, disturb, 0

    def answer(self, request):
        self._seen += request.what == self._what
        if self._seen == 2 and request.what == self._what:
            self._disturb()
        return super().answer(request)


def elsewhere_holder(service, num_actors, kind=RemoteEvaluator):
    work = work_of(service)
    service.pids(num_actors)
    rollouts = service.rollouts(num_actors)
    handle = rollouts.collect_work(work)
    assert len(handle.workers) == num_actors
    module = TorchMLP(work.policy)
    return module, kind(spec_of(module, handle), handle, timeout_s=60.0, num_threads=1), rollouts


@pytest.mark.parametrize("num_actors", [1, 2, 4])
def test_workers_give_the_bits_of_this_process(service, expected, num_actors):
    module, holder, _rollouts = elsewhere_holder(service, num_actors)
    with holder:
        assert improved(module, holder) == expected
        assert not holder._here, "the workers must have answered everything"
        assert set(holder._worker_of.values()) == set(range(num_actors))


@pytest.mark.parametrize("what", ["sums", "gradient", "fisher"])
@pytest.mark.parametrize("num_actors", [1, 2])
def test_a_worker_killed_in_the_middle_changes_no_bit(service, expected, caplog, what, num_actors):
    victim = service.pids(num_actors)[0]
    module, holder, _rollouts = elsewhere_holder(service, num_actors, Disturbed)

    def kill():
        os.kill(victim, signal.SIGSTOP)  # so that it has the question when it dies
        Timer(0.5, os.kill, (victim, signal.SIGKILL)).start()

    holder.disturb_at(what, kill)
    with holder:
        assert improved(module, holder) == expected
        assert bool(holder._here) == (num_actors == 1), "where nobody is left, this process goes on"
    who = "this process" if num_actors == 1 else "whoever is left"
    assert f"worker 0 is lost while the bound is computed; {who} evaluates its" in caplog.text


def test_a_worker_that_hangs_is_left_behind(service, expected, caplog, monkeypatch):
    monkeypatch.setattr(remote_evaluator, "_LEAST_PATIENCE_S", 2.0)
    victim = service.pids(2)[1]
    module, holder, _rollouts = elsewhere_holder(service, 2, Disturbed)
    holder.disturb_at("sums", lambda: os.kill(victim, signal.SIGSTOP))
    try:
        with holder:
            assert improved(module, holder) == expected
    finally:
        os.kill(victim, signal.SIGCONT)
    assert "worker 1 is lost while the bound is computed" in caplog.text
    assert "no answer for" in caplog.text


def test_a_worker_that_waits_for_rows_of_a_lost_one_is_not_lost_too(
    service, expected, caplog, monkeypatch, tmp_path
):
    """As where the network between two hosts is gone for longer than a worker may be silent."""
    monkeypatch.setattr(remote_evaluator, "_LEAST_PATIENCE_S", 2.0)
    monkeypatch.setattr(remote_evaluator, "_PATIENCE", 0.0)
    victim = service.pids(2)[1]
    module, holder, _rollouts = elsewhere_holder(service, 2, Disturbed)
    network = tmp_path / "network"

    @ray.remote(num_cpus=0)
    def behind_the_network(message, network):
        while not os.path.exists(network):
            time.sleep(0.1)
        return message

    def lose():
        for position, worker in holder._worker_of.items():
            if worker == 1:
                piece = holder._pieces[position]
                table = behind_the_network.remote(piece.table, str(network))
                holder._pieces[position] = replace(piece, table=table)
        os.kill(victim, signal.SIGSTOP)
        Timer(7.0, network.touch).start()

    holder.disturb_at("sums", lose)
    try:
        with holder:
            assert improved(module, holder) == expected
    finally:
        os.kill(victim, signal.SIGCONT)
    assert "worker 1 is lost while the bound is computed" in caplog.text
    assert "worker 0 is lost" not in caplog.text


def test_rows_that_are_gone_are_collected_again(service, expected, caplog):
    module, holder, _rollouts = elsewhere_holder(service, 2)

    # A reference that nobody can fetch any more, as after the loss of a node.
    @ray.remote(num_cpus=0)
    class Shortlived:
        def message(self):
            return None

    lost = Shortlived.remote()
    ray.kill(lost)
    holder._pieces[1] = replace(holder._pieces[1], table=lost.message.remote())
    with holder:
        assert improved(module, holder) == expected
    assert "the rows of 1 of 4 quotas are lost with their node; collecting them again" in caplog.text


def test_a_batch_of_other_weights_is_refused_from_elsewhere_too(service):
    work = work_of(service)
    handle = service.rollouts(2).collect_work(work)
    module = TorchMLP(work.policy)
    module.weights[0].data += 0.1
    holder = RemoteEvaluator(spec_of(module, handle), handle, timeout_s=60.0, num_threads=1)
    with holder, pytest.raises(StaleBatchError, match="trajectory 0, 1, 2"):
        improve(module, holder, SETTINGS)


def test_quotas_are_whole_parts_only_where_workers_compute(service):
    parts = cut(PLAN)
    in_parts = service.rollouts(2).collect_work(work_of(service))
    for receipt in in_parts.receipts:
        assert len(indices_of(parts, receipt.quota.trajectories)) >= 1
    plain = service.rollouts(2).collect_work(replace(work_of(service), in_parts=False))
    assert not plain.workers
    assert plain.discounted_return == in_parts.discounted_return


def test_quotas_are_evaluated_by_their_makers_unless_one_has_too_many():
    assert share([0, 1, 0, 1], [5, 5, 5, 5], {0: None, 1: None}) == [0, 1, 0, 1]
    assert share([0, 0, 0, 1], [5, 5, 5, 5], {0: None, 1: None}) == [0, 0, 1, 1]
    assert share([7, 0], [5, 5], {0: None, 1: None}) == [1, 0]
    assert share([0, 0, 0], [1, 1, 1], {4: None}) == [4, 4, 4]
