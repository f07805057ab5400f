"""One type of CPU: others are noticed, and a label keeps env runners where they belong."""

import pytest
import ray

import ttray
from tests.support.environments import probe, strategy_of
from ttray.service.cpu_types import CpuTypes, cpu_type
from ttray.service.dispatcher import CollectionError
from ttray.service.service import RolloutService
from ttray.service.worker_needs import WorkerNeeds
from ttray.settings.training import DispatchSettings


def test_different_types_are_said_once_with_the_cure(caplog):
    types = CpuTypes()
    types.compare([cpu_type()] * 3)
    assert not caplog.records
    for _ in range(2):
        types.compare([cpu_type(), "another", "another"])
    (record,) = caplog.records
    assert "2 quotas on another; 1 quotas on" in record.message
    assert "--labels=cpu=NAME" in record.message
    assert 'label_selector={"cpu": "NAME"}' in record.message


def test_a_worker_of_another_type_than_the_drivers_is_noticed(caplog):
    CpuTypes().compare(["another"])
    assert f"the driver on {cpu_type()}" in caplog.text


@pytest.mark.parametrize("wrong", [{}, {"cpu": 6}, {"": "m6i"}, "cpu=m6i"])
def test_what_is_no_label_is_refused(wrong):
    with pytest.raises(ValueError, match="label_selector must map labels to values"):
        RolloutService(probe(), num_env_runners=1, needs=WorkerNeeds(label_selector=wrong))


def test_env_runners_stay_on_the_nodes_that_a_label_selects(local_ray):
    strategy = strategy_of(0, 0, 2)
    (node,) = ray.nodes()
    found = ttray.collect(
        "ttray/Dam-v0",
        strategy=strategy,
        num_env_runners=1,
        label_selector={"ray.io/node-id": node["NodeID"]},
    )
    assert ttray.digest(found) == ttray.digest(ttray.collect("ttray/Dam-v0", strategy=strategy))
    with pytest.raises(CollectionError, match="none of the 1 rollout workers has been alive"):
        ttray.collect(
            "ttray/Dam-v0",
            strategy=strategy,
            num_env_runners=1,
            label_selector={"cpu": "of-nobody"},
            settings=DispatchSettings(env_runner_wait_s=3.0),
        )
