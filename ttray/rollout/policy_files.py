"""The two files of a policy, `policy.json` and `policy.safetensors`; reading them executes nothing.

They lie in every checkpoint, beside RLlib's own state, which is pickled: who loads that runs what it says.
Here are numbers and names. Names of environments and modules are not looked up by themselves, for that would
run code that a stranger has chosen: the modules of ttray and environments that are registered here are made,
anything else only if the caller says which class or function it is.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import safetensors.torch
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import flatdim
from safetensors import SafetensorError
from torch import Tensor

from ttray.boundary.fields import brief, check_count, check_gamma, check_text
from ttray.boundary.files import read_bytes, read_json
from ttray.plans.dcs import check_horizon, check_plan
from ttray.policies.distributions import DiagonalGaussian
from ttray.policies.mlp import MLP
from ttray.rollout.environment import EnvironmentMaker, EnvSource
from ttray.rollout.environment_facts import EnvironmentFacts, distribution_of
from ttray.rollout.policies import FilteredPolicy, Policy
from ttray.rollout.space_json import space_from

DESCRIPTION, WEIGHTS = "policy.json", "policy.safetensors"
FORMAT = 1
PAPERS_NETWORK = "ttray.rllib.module:PolicyModule"
"""The class of the only module that is built without RLlib."""

MAX_WEIGHT_BYTES = 2**27


@dataclasses.dataclass(frozen=True)
class Training:
    """How a policy was trained, as its file tells.

    Attributes:
        environment: Gymnasium id, or the name of a class or function.
        has_id: Whether it is an id.
        env_config: Arguments of the environment; None if they are more than numbers and words.
        horizon: Longest trajectory.
        budget: Planned environment steps per iteration.
        gamma: Discount.
    """

    environment: str
    has_id: bool
    env_config: dict[str, Any] | None
    horizon: int
    budget: int
    gamma: float

    def maker(
        self,
        environment: EnvSource | EnvironmentMaker | None = None,
        env_config: dict[str, Any] | None = None,
    ) -> EnvironmentMaker:
        """Makes environments as in training.

        Args:
            environment: What the caller says it is. Unless given, it must be registered here and have no
                arguments: what a stranger's file names is neither imported nor called.
            env_config: Arguments in place of those of training.
        """
        arguments = self.env_config if env_config is None else env_config
        if environment is not None:
            if arguments is None:
                raise ValueError(f"{self.environment} had arguments that no file holds; pass env_config")
            return EnvironmentMaker.of(environment, arguments)
        if self.has_id and arguments == {}:
            with suppress(ValueError):  # without its module, which would be imported
                found = EnvironmentMaker.of(self.environment.rpartition(":")[2])
                return dataclasses.replace(found, name=self.environment)
        with_arguments = f" with the arguments {arguments}" if arguments != {} else ""
        name = self.environment if self.has_id else "ID"
        raise ValueError(
            f"the policy was trained on {self.environment}{with_arguments}, which is not made because a file "
            f"says so; if you trust it, name it: --env {name}, in Python environment=ID, class or function"
        )

    def plan(
        self, facts: EnvironmentFacts, *, horizon: int | None, budget: int | None, gamma: float | None
    ) -> tuple[int, int, float]:
        """Horizon, budget and discount: those given, else those of training.

        Args:
            facts: Of the environment.
            horizon: Longest trajectory.
            budget: Environment steps. One that only the file names may not need much memory.
            gamma: Discount.
        """
        if budget is None:
            facts.check_asked(self.budget, f"the {DESCRIPTION}")
            budget = self.budget
        return check_plan(
            self.horizon if horizon is None else horizon, budget, self.gamma if gamma is None else gamma
        )


def training_with(maker: EnvironmentMaker, *, horizon: int, budget: int, gamma: float) -> Training:
    """How a policy is being trained, for its file."""
    config = dict(maker.config)
    return Training(
        environment=maker.name,
        has_id=isinstance(maker.source, EnvSpec),
        env_config=config if is_plain(config) else None,
        horizon=horizon,
        budget=budget,
        gamma=gamma,
    )


def training_of(checkpoint: Path) -> Training:
    """How the policy of a checkpoint was trained; ValueError if there is none, or it is damaged."""
    found = read_description(checkpoint)["training"]
    try:
        training = Training(**found)
        for name, value, kind in (
            ("has_id", training.has_id, bool),
            ("env_config", training.env_config, dict | None),
        ):
            if not isinstance(value, kind):
                raise ValueError(f"{name} must not be {brief(value)}")
        check_text("environment", training.environment)
        check_horizon(training.horizon)
        check_count("budget", training.budget)
        check_gamma(training.gamma)
    except (TypeError, ValueError) as problem:
        raise ValueError(f"{checkpoint / DESCRIPTION} does not tell a training: {problem}") from None
    return training


def read_weights(checkpoint: Path) -> dict[str, Tensor]:
    """The parameters and buffers of a module, by name; ValueError if there are none, or they are damaged."""
    path = checkpoint / WEIGHTS
    try:
        return safetensors.torch.load(read_bytes(path, MAX_WEIGHT_BYTES))
    except OSError as problem:
        raise ValueError(f"{path} cannot be read: {problem.strerror}") from None
    except (SafetensorError, KeyError, TypeError, RuntimeError, ValueError) as problem:
        raise ValueError(f"{path} holds no usable policy: {_in_one_line(problem)}") from problem


def read_description(checkpoint: Path) -> dict[str, Any]:
    """What the file of a policy says of its "module" and its "training"; ValueError if there is none."""
    path = checkpoint / DESCRIPTION
    try:
        found = read_json(path)
    except FileNotFoundError:
        raise ValueError(
            f"{checkpoint} holds no checkpoint of TTPOIS or POIS, for there is no {DESCRIPTION}; pass the "
            "directory of a run, or what algorithm.save_to_path() wrote. A checkpoint of another algorithm "
            "is pickled: if you trust who wrote it, call ttray.evaluate(Algorithm.from_checkpoint(PATH), "
            "environment=..., horizon=..., budget=..., gamma=...) in Python; ttray.collect takes it as well"
        ) from None
    except OSError as problem:
        raise ValueError(f"{path} cannot be read: {problem.strerror}") from None
    except ValueError as problem:
        raise ValueError(f"{path} is no JSON that can be used ({problem})") from None
    if not (
        isinstance(found, dict) and found.get("format") == FORMAT and {"training", "module"} <= set(found)
    ):
        raise ValueError(f"{path} is of another format than {FORMAT}, or damaged")
    return found


def network_in(module: dict[str, Any], weights: dict[str, Tensor]) -> Policy:
    """The paper's network, behind its filter if it has one, as rollouts compute it: bit for bit.

    Args:
        module: As the file of a policy describes it.
        weights: Of it.

    Raises:
        ValueError: They do not belong together.
    """
    observation, action = (space_from(module[f"{which}_space"]) for which in ("observation", "action"))
    distribution = distribution_of(action, DESCRIPTION)
    size, hidden = flatdim(observation), module["model_config"]["hidden_sizes"]
    sizes = [
        size,
        *(check_count("a number in hidden_sizes", each) for each in hidden),
        distribution.noise_size,
    ]
    is_filtered = module["is_filtered"]
    outer = "inner." if is_filtered else ""
    inner = f"{outer}inner." if "critic" in module else outer
    # What a critic says of states plays no part in acting.
    weights = {name: each for name, each in weights.items() if not name.startswith(f"{outer}value_")}
    shapes: dict[str, tuple[int, ...]] = {}
    for layer, (fan_in, fan_out) in enumerate(itertools.pairwise(sizes)):
        shapes[f"{inner}layers.{layer}.weight"] = fan_out, fan_in
        shapes[f"{inner}layers.{layer}.bias"] = (fan_out,)
    if isinstance(distribution, DiagonalGaussian):
        shapes[f"{inner}log_std"] = (distribution.noise_size,)
    if is_filtered:
        shapes["mean"] = shapes["scale"] = (size,)
    if (found := {name: tuple(each.shape) for name, each in weights.items()}) != shapes:
        raise ValueError(f"its network needs {brief(shapes)}, and the weights are {brief(found)}")
    arrays = {name.removeprefix(inner): each.float().numpy() for name, each in weights.items()}
    layers = range(len(sizes) - 1)
    network = MLP(
        weights=tuple(arrays[f"layers.{layer}.weight"].T.copy() for layer in layers),
        biases=tuple(arrays[f"layers.{layer}.bias"] for layer in layers),
        log_std=arrays.get("log_std"),
    )
    return FilteredPolicy(network, arrays["mean"], arrays["scale"]) if is_filtered else network


@contextmanager
def telling_what_is_wrong(checkpoint: Path) -> Iterator[None]:
    """Turns whatever goes wrong while a policy is built from its files into a ValueError of one line."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, RuntimeError, ValueError) as problem:
        raise ValueError(
            f"{checkpoint} holds no usable policy in {DESCRIPTION} and {WEIGHTS}: {_in_one_line(problem)}"
        ) from problem


def is_plain(value: Any) -> bool:
    """Whether JSON gives it back, but for tuples, which become lists."""
    if isinstance(value, dict):
        return all(type(key) is str and is_plain(each) for key, each in value.items())
    if isinstance(value, list | tuple):
        return all(is_plain(each) for each in value)
    return value is None or type(value) in (str, int, bool) or (type(value) is float and value - value == 0.0)


def _in_one_line(problem: Exception) -> str:
    return " ".join(str(problem).split())[:300] or repr(problem)
