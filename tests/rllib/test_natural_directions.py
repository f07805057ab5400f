"""Natural directions of modules as RLlib has them, and of runs that go on."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import ttray
from tests.support.small import small_config, weights_of
from ttray.data.ragged import RaggedBatch
from ttray.optim.fisher import FisherRows
from ttray.optim.modules import trainable_parameters
from ttray.plans import dcs
from ttray.policies.running_mean_std import RunningMeanStd
from ttray.rllib.catalog_module import CatalogModule
from ttray.rllib.learner import forward_train
from ttray.rllib.module import PolicyModule
from ttray.rllib.normalized_module import NormalizedModule
from ttray.rollout.environment_facts import distribution_of
from ttray.settings.improvement import ImprovementSettings

VECTOR, IMAGE = Box(-np.inf, np.inf, (5,), np.float32), Box(0, 255, (36, 36, 3), np.uint8)
FILTERS, NORM = [[4, 8, 4], [8, 4, 2]], {"head_fcnet_hiddens": [7], "fcnet_use_layernorm": True}
CASES = {
    "ours": (PolicyModule, VECTOR, Box(-1, 1, (2,)), {"hidden_sizes": (8, 6), "seed": 0}),
    "relu": (CatalogModule, VECTOR, Discrete(3), {"fcnet_hiddens": [8], "fcnet_activation": "relu"}),
    "norm": (
        CatalogModule,
        VECTOR,
        MultiDiscrete([2, 3]),
        {"head_fcnet_hiddens": [7], "fcnet_use_layernorm": True},
    ),
    "image": (CatalogModule, IMAGE, Discrete(4), {"conv_filters": FILTERS, "conv_activation": "silu"}),
}


def module_of(name):
    torch.manual_seed(1)
    module_class, observation_space, action_space, model_config = CASES[name]
    return RLModuleSpec(
        module_class=module_class,
        observation_space=observation_space,
        action_space=action_space,
        model_config=model_config,
    )


def rows_of(space, number=30):
    obs = np.random.default_rng(0).normal(0.0, 1.0, (number, int(np.prod(space.shape))))
    nothing = torch.zeros(number)
    t = torch.arange(number, dtype=torch.int32)
    return RaggedBatch(
        torch.tensor([0, number]), torch.tensor([number]), t, torch.from_numpy(obs).float(), nothing,
        nothing.double(), nothing, None,
    )  # fmt: skip


def curvature_of_outputs(module, distribution, obs, vector, step=1e-2):
    """The mean of (Jv)ᵀ M (Jv), J v by a difference of outputs."""
    parameters = trainable_parameters(module)
    start = parameters_to_vector(parameters).detach().clone()
    outputs = {}
    with torch.no_grad():
        for size in (-step, 0.0, step):
            vector_to_parameters(start + size * vector, parameters)
            outputs[size] = forward_train(module, obs).double()
        vector_to_parameters(start, parameters)
    moved = (outputs[step] - outputs[-step]) / (2.0 * step)
    return (moved * distribution.fisher_product(outputs[0.0], moved)).sum(-1).mean().item()


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize(
    ("name", "normalized"), [(name, False) for name in CASES] + [("ours", True), ("norm", True)]
)
def test_fisher_products_of_modules_are_those_of_their_outputs(name, normalized, frozen):
    spec = module_of(name)
    space = spec.observation_space
    module = (NormalizedModule.around(spec) if normalized else spec).build().eval()
    rows = rows_of(space)
    if normalized:
        module.set_filter(RunningMeanStd.of(3.0 * rows.obs.numpy() + 1.0))
    if frozen:
        next(module.parameters()).requires_grad_(False)
    distribution = distribution_of(spec.action_space, "the environment")
    plan = dcs.uniform(30, 30)
    fisher = FisherRows(rows, plan, distribution, ImprovementSettings(gamma=1.0))
    parameters = trainable_parameters(module)
    vector = torch.randn(sum(each.numel() for each in parameters), generator=torch.Generator().manual_seed(2))
    vector /= vector.norm()
    found = fisher.product(forward_train, module, vector)
    assert found[-1].item() == pytest.approx(30.0)
    expected = curvature_of_outputs(module, distribution, rows.obs, vector)
    assert (vector.double() @ found[:-1]).item() / 30.0 == pytest.approx(expected, rel=0.02)


class WithoutForwardMode(PolicyModule):
    """Has an operation that torch cannot differentiate forwards."""

    def _forward(self, batch, **kwargs):
        outputs = super()._forward(batch, **kwargs)
        return {name: Doubled.apply(value) for name, value in outputs.items()}


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2.0 * x

    @staticmethod
    def backward(ctx, gradient):
        return 2.0 * gradient


def test_a_module_that_has_no_forward_derivative_is_a_clear_error():
    spec = module_of("ours")
    spec.module_class = WithoutForwardMode
    module = spec.build()
    distribution = distribution_of(spec.action_space, "the environment")
    fisher = FisherRows(rows_of(VECTOR), dcs.uniform(30, 30), distribution, ImprovementSettings())
    size = sum(each.numel() for each in module.parameters())
    with pytest.raises(ValueError, match="choose direction='gradient'"):
        fisher.product(forward_train, module, torch.ones(size))


def test_a_resumed_run_begins_with_the_divergence_of_its_last_step(tmp_path):
    config = small_config(direction="natural", line_search="geometric", importance_weights="per_decision")
    algorithm = config.build_algo()
    try:
        for _ in range(3):
            steps = algorithm.train()["learners"]["default_policy"]["step_kls"]
            if algorithm.iteration == 1:
                algorithm.save_to_path(tmp_path / "checkpoint")
        assert steps
        expected = weights_of(algorithm)
    finally:
        algorithm.stop()
    resumed = ttray.TTPOIS.from_checkpoint(tmp_path / "checkpoint")
    try:
        assert resumed._standing.statistics.step_kl > 0.0
        for _ in range(2):
            resumed.train()
        assert np.array_equal(weights_of(resumed), expected)
    finally:
        resumed.stop()
