"""Models of one's own, called with many rows at once: the same bits for any number of workers and slots."""

from dataclasses import replace

import pytest

from tests.support.environments import strategy_of
from tests.support.modules import ImageModule, MeanModule, StackModule, module_for
from tests.support.service import checked_digest, local_service
from ttray.data.batch import digest
from ttray.rllib.policies import policy_of_module

STACKS = {
    "64-64": (StackModule, {"hidden_sizes": (64, 64)}),
    "layer norm": (StackModule, {"hidden_sizes": (100, 50), "layer_norm": True}),
    "256-256": (StackModule, {"hidden_sizes": (256, 256)}),
    "mixes rows": (MeanModule, {"hidden_sizes": (16,)}),
}
IMAGES = {
    "convolutions": (ImageModule, {}),
    "mixes rows": (ImageModule, {"batch_norm": True}),
}
CASES = [
    *((name, "CartPole-v1", *STACKS[name]) for name in STACKS),
    *((name, "ttray/Dam-v0", *STACKS[name]) for name in STACKS),
    *((name, "images", *IMAGES[name]) for name in IMAGES),
]


@pytest.mark.parametrize(
    ("environment", "module_class", "model_config"),
    [case[1:] for case in CASES],
    ids=[f"{case[0]} on {case[1]}" for case in CASES],
)
def test_workers_and_slots_change_no_bit(service, environment, module_class, model_config):
    maker = service.makers[environment]
    module = module_for(maker.make_single(), module_class, **model_config)
    short = strategy_of(0, 9, 3) if environment == "images" else strategy_of(*[0] * 6, 60, 0, 0, 9, 4)
    work = replace(service.work(environment, strategy=short), policy=policy_of_module(module))
    found = {
        digest(local_service(maker).collect_work(replace(work, num_slots=slots)).batch().table)
        for slots in (8, 64)
    }
    for num_actors in (1, 2, 4):
        found.add(checked_digest(service.rollouts(num_actors).collect_work(work), work))
    assert len(found) == 1
