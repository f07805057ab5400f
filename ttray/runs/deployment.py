"""`ttray.load_policy`: loads the policy of a run into a program, without Ray."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ttray.rollout.deployed_policy import DeployedPolicy
from ttray.rollout.policy_files import (
    PAPERS_NETWORK,
    network_in,
    read_description,
    read_weights,
    telling_what_is_wrong,
)
from ttray.rollout.space_json import space_from
from ttray.runs.checkpoints import find_checkpoint


def load_policy(
    path: str | Path, *, seed: int | None = None, module_class: type[Any] | None = None
) -> DeployedPolicy:
    """Loads a trained policy that acts: `ttray.load_policy("runs/x").act(observations)`.

    Nothing in the directory is executed. The paper's network, normalised or not, needs neither Ray nor RLlib;
    RLlib's default models and modules of your own are built by RLlib, which is imported for them. To have
    these without RLlib, `ttray.export` them.

    Args:
        path: Directory of a run, of a checkpoint of TTPOIS or POIS, or what `ttray export --to safetensors`
            wrote.
        seed: Of the actions that are sampled; other ones each time unless given.
        module_class: Of a policy whose module is not ttray's own.

    Returns:
        The policy, with `act(observations, deterministic=False)`.

    Raises:
        ValueError: There is no policy, or its files are damaged.
    """
    checkpoint = find_checkpoint(path)
    described = read_description(checkpoint)["module"]
    with telling_what_is_wrong(checkpoint):
        is_papers = described["class"] == PAPERS_NETWORK
    if not is_papers:
        return _of_module(checkpoint, seed, module_class)
    weights = read_weights(checkpoint)
    with telling_what_is_wrong(checkpoint):
        spaces = space_from(described["observation_space"]), space_from(described["action_space"])
        return DeployedPolicy(network_in(described, weights), *spaces, seed=seed)


def _of_module(checkpoint: Path, seed: int | None, module_class: type[Any] | None) -> DeployedPolicy:
    from ttray.rllib.module_files import load_module  # here, because most policies need no RLlib
    from ttray.rllib.policies import policy_of_module
    from ttray.rllib.torch_policy import check_stateless

    module = load_module(checkpoint, module_class)
    check_stateless(module)
    return DeployedPolicy(policy_of_module(module), module.observation_space, module.action_space, seed=seed)
