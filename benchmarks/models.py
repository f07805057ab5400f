"""Models of one's own: steps per second of the service and of RLlib's runner, with the same module.

Both sample the same environment with the same module, 64 slots, one env runner with one thread of torch, in
turns, and bring the rows to the driver. A measurement lasts about as long for everyone. What the service
reaches on one plan of the budget is measured beside it: where episodes end early, as CartPole's do after some
20 of 200 steps, that is over in 50 ms, half of them with slots that have nothing left to do. The share is of
the speed of the default network, which has a form of its own for rollouts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.env.env_runner_group import EnvRunnerGroup
from torch import Tensor, nn

from benchmarks.cases import NUM_SLOTS, Case, Sample
from benchmarks.report import Finding, Reporter, Result
from benchmarks.timing import in_turns, ratios, steps_in, steps_per_s
from ttray.rllib.policies import policy_of_module
from ttray.rollout.environment_facts import distribution_of
from ttray.service.connection import connect
from ttray.service.service import RolloutService


class Layers(TorchRLModule):
    """ReLU layers, as a user writes them; `model_config` holds `hidden_sizes` and `layer_norm`."""

    def setup(self) -> None:
        """Builds them."""
        size, layers = int(np.prod(self.observation_space.shape)), []
        for width in self.model_config["hidden_sizes"]:
            norm = [nn.LayerNorm(width)] if self.model_config["layer_norm"] else []
            layers += [nn.Linear(size, width), *norm, nn.ReLU()]
            size = width
        outputs = distribution_of(self.action_space, "the environment").num_inputs
        self.net = nn.Sequential(*layers, nn.Linear(size, outputs))

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Tensor]:
        return {Columns.ACTION_DIST_INPUTS: self.net(batch[Columns.OBS])}


class Convolutions(TorchRLModule):
    """A small network for images."""

    def setup(self) -> None:
        """Builds it."""
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 8, 4), nn.ReLU(), nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.Flatten(),
            nn.Linear(32 * 9 * 9, 64), nn.ReLU(), nn.Linear(64, int(self.action_space.n)),
        )  # fmt: skip

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Tensor]:
        images = batch[Columns.OBS].permute(0, 3, 1, 2).float() / 255.0
        return {Columns.ACTION_DIST_INPUTS: self.net(images)}


class Images(gymnasium.Env):
    """A spot that wanders over an image of 84 × 84 × 3, as cheap as such a thing can be."""

    def __init__(self) -> None:
        self.observation_space = Box(0, 255, (84, 84, 3), np.uint8)
        self.action_space = Discrete(4)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Puts the spot somewhere."""
        super().reset(seed=seed)
        self._place = self.np_random.integers(0, 80, 2)
        return self._image(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Moves it."""
        move = ((0, 1), (0, -1), (1, 0), (-1, 0))[int(action)]
        self._place = (self._place + move) % 80
        return self._image(), float(self._place[0]) / 80.0, False, False, {}

    def _image(self) -> Any:
        image = np.zeros((84, 84, 3), np.uint8)
        row, column = self._place
        image[row : row + 4, column : column + 4] = 255
        return image


gymnasium.register("ttray-benchmark/Images-v0", f"{__name__}:Images")

LAYERS = {
    "64-64": {"hidden_sizes": (64, 64), "layer_norm": False},
    "LayerNorm 100-50": {"hidden_sizes": (100, 50), "layer_norm": True},
    "256-256": {"hidden_sizes": (256, 256), "layer_norm": False},
}


@dataclass(frozen=True)
class ModelCase:
    """What is compared.

    Attributes:
        name: Of the model, for lines.
        case: The environment.
        module_class: Of the model.
        model_config: Its settings.
        target: The least number of times that the service has to be faster than RLlib.
    """

    name: str
    case: Case
    module_class: type[TorchRLModule]
    model_config: dict[str, Any]
    target: float


_CART_POLE, _DAM = Case("CartPole-v1", 200, 16_000, None), Case("ttray/Dam-v0", 360, 46_080, None)
_IMAGES = Case(f"{__name__}:ttray-benchmark/Images-v0", 20, 1_280, None)
CASES = (
    *(ModelCase(name, _CART_POLE, Layers, LAYERS[name], 2.5) for name in LAYERS),
    *(ModelCase(name, _DAM, Layers, LAYERS[name], 10.0) for name in LAYERS),
    ModelCase("convolutions", _IMAGES, Convolutions, {}, 1.2),
)


def run(cases: tuple[ModelCase, ...] = CASES, rounds: int = 5, seconds: float = 1.0) -> Result:
    """Measures all models, in rounds of so many seconds for each."""
    connect(4)
    report = Reporter("models", "Models of one's own, steps per second beside RLlib")
    report.say(f"{NUM_SLOTS} slots, one env runner, {rounds} rounds of {seconds:g} s each")
    for model in cases:
        with ExitStack() as stack:
            samplers = {
                **stack.enter_context(_service(model)),
                "RLlib": stack.enter_context(_rllib(model)),
            }
            budget = model.case.budget
            # Tries first, so code is loaded by then, and rows are proved to be independent.
            measures = {
                name: partial(steps_per_s, sample, steps_in(sample, budget, seconds))
                for name, sample in samplers.items()
            }
            measures["ttray, Λ"] = partial(steps_per_s, samplers["ttray"], budget)
            rates = in_turns(measures, rounds)
        line = f"{model.case.name}, {model.name}"
        report.add(Finding(line, "steps/s", tuple(rates["ttray"])))
        report.add(Finding(line, "× RLlib", ratios(rates["ttray"], rates["RLlib"]), at_least=model.target))
        report.add(Finding(line, "× RLlib, batch's Λ", ratios(rates["ttray, Λ"], rates["RLlib"])))
        report.add(Finding(line, "÷ default network", ratios(rates["ttray"], rates["default"])))
    return report.result()


@contextmanager
def _service(model: ModelCase) -> Iterator[dict[str, Sample]]:
    """Samples with the rollout service: with the user's module, and with the default network."""
    maker = model.case.maker()
    environment = maker.make_single()
    torch.manual_seed(0)
    module = model.module_class(
        observation_space=environment.observation_space,
        action_space=environment.action_space,
        model_config=model.model_config,
    )
    default, iterations = model.case.work(0), count()
    works = {"ttray": replace(default, policy=policy_of_module(module)), "default": default}

    def sample(name: str, num_steps: int) -> int:
        horizon = model.case.horizon
        strategy = replace(model.case, budget=max(num_steps // horizon, 1) * horizon).strategy()
        info = replace(works[name].info, iteration=next(iterations), strategy=strategy)
        return int(service.collect_work(replace(works[name], info=info)).batch().table.num_rows)

    with RolloutService(maker, num_env_runners=1) as service:
        yield {name: partial(sample, name) for name in works}


@contextmanager
def _rllib(model: ModelCase) -> Iterator[Sample]:
    """Samples with one of RLlib's remote runners."""
    prefix = "ttray:" if model.case.environment.startswith("ttray/") else ""
    config = (
        PPOConfig()
        .environment(prefix + model.case.environment, env_config={"max_episode_steps": model.case.horizon})
        .env_runners(num_env_runners=1, num_envs_per_env_runner=NUM_SLOTS)
        .rl_module(
            rl_module_spec=RLModuleSpec(module_class=model.module_class, model_config=model.model_config)
        )
    )
    group = EnvRunnerGroup(config=config, local_env_runner=False)

    def sample(num_steps: int) -> int:
        episodes: list[list[Any]] = group.foreach_env_runner(
            lambda runner: runner.sample(num_timesteps=num_steps), local_env_runner=False
        )
        return sum(len(episode) for of_runner in episodes for episode in of_runner)

    try:
        group.foreach_env_runner(lambda runner: torch.set_num_threads(1), local_env_runner=False)
        yield sample
    finally:
        group.stop()
