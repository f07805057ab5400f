"""Any stateless RLModule as a policy for rollouts: called with many rows at once, one bit pattern per row.

A trajectory must not depend on the slot that it runs in, so a row's bits may not depend on its place or its
neighbours. Matrix products of torch keep that for numbers of rows that are multiples of 16, if the rows of
their inputs begin at multiples of 16 bytes. So a call is filled up to such a number, inputs of linear layers
are filled up with zeros, and that rows are independent is tried out when a kind of module is first used in a
process. Where it is not so, rows are computed one by one. Rows that fill up a call are computed and
forgotten: no batch and no step of an environment has any.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from ray.rllib.core import Columns
from ray.rllib.core.rl_module.rl_module import RLModule
from torch import Tensor

from ttray.numerics.threads import torch_threads
from ttray.rollout.aligned_layers import with_aligned_layers, with_random_parameters
from ttray.rollout.observations import example_rows, structure_of
from ttray.rollout.row_proof import NUM_TRIAL_ROWS, Trial, proved_widths


class TorchPolicy:
    """A stateless torch module as a policy.

    Args:
        module: Its `_forward` maps observations to `action_dist_inputs`. It is copied, and behaves as in
            evaluation: dropout does nothing, batch normalisation uses what it has stored.
    """

    def __init__(self, module: RLModule) -> None:
        self._module: Any = with_aligned_layers(deepcopy(module).to("cpu").eval())
        self._make_transient()

    def _make_transient(self) -> None:
        self._structure = observation_structure(self._module)
        # The inputs of calls, by their number of rows, and the memory that they all look at.
        self._inputs: tuple[Tensor, ...] = ()
        self._memory: NDArray[Any] = np.zeros((0, 0))

    @property
    def name(self) -> str:
        """What messages call it."""
        return type(self._module).__name__

    def __getstate__(self) -> dict[str, Any]:
        """The module alone: another process proves for itself."""
        return {"_module": self._module}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self._make_transient()

    def __call__(self, obs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the distribution inputs `[rows, num_inputs]` of flat observations `[rows, obs_size]`."""
        # With several threads, a row's bits would depend on how they share the rows.
        with torch.inference_mode(), torch_threads(1):
            if not self._inputs:
                self._prepare(obs)
            most = len(self._inputs[-1])
            if len(obs) <= most:
                return self._call(obs)
            return np.concatenate([self._call(obs[at : at + most]) for at in range(0, len(obs), most)])

    def _prepare(self, obs: NDArray[np.float32]) -> None:
        widths = widths_of(self._module)
        # In aligned memory of torch, which an array need not be; NumPy writes to it in less time.
        rows = torch.zeros(widths[-1], obs.shape[1], dtype=torch.from_numpy(obs[:0]).dtype)
        self._memory, self._inputs = rows.numpy(), tuple(rows[:width] for width in widths)

    def _call(self, obs: NDArray[np.float32]) -> NDArray[np.float32]:
        number = len(obs)
        self._memory[:number] = obs
        for rows in self._inputs:
            if len(rows) >= number:
                break
        # A copy: the outputs of some modules are a part of their inputs, which the next call overwrites.
        return _forward(self._module, self._structure(rows)).numpy()[:number].copy()


def check_stateless(module: RLModule) -> None:
    """Raises ValueError for a recurrent module."""
    if module.is_stateful():
        raise ValueError(
            f"{type(module).__name__} is recurrent; ttray needs π(a|s) of single observations. Use a "
            "stateless TorchRLModule, or put the history into the observation"
        )


def observation_structure(module: RLModule) -> Any:
    """How a module wants its observations: in the shape of their space, unless it says that flat will do.

    They are the module's own, so that a layer that works in place changes no recorded observation.
    """
    if getattr(module, "takes_flat_observations", False):
        return torch.clone
    structure = structure_of(module.observation_space)
    return lambda rows: structure(rows.clone())


def widths_of(module: RLModule) -> tuple[int, ...]:
    """With how many rows the module may be called, see `rollout.row_proof`."""
    return proved_widths(
        _kind(module), type(module).__name__, lambda: _trial_of(module), lambda: _check_single_rows(module)
    )


def _kind(module: RLModule) -> str:
    shapes = [(name, tuple(each.shape), each.dtype) for name, each in module.state_dict().items()]
    return repr((type(module).__qualname__, module, module.model_config, module.observation_space, shapes))


def _trial_of(module: RLModule) -> Trial:
    trial = with_aligned_layers(with_random_parameters(deepcopy(module)))
    structure = observation_structure(trial)
    rows = torch.from_numpy(example_rows(module.observation_space, NUM_TRIAL_ROWS))
    return lambda numbers: [_forward(trial, structure(rows[torch.from_numpy(numbers)])).numpy()]


def _check_single_rows(module: RLModule) -> None:
    row = torch.from_numpy(example_rows(module.observation_space, 1))
    try:
        _forward(module, observation_structure(module)(row))
    except (RuntimeError, ValueError) as problem:
        raise ValueError(
            f"{type(module).__name__} mixes the rows of a call and cannot compute one alone ({problem}); a "
            "policy must be a function of one observation"
        ) from problem


def _forward(module: Any, observations: Any) -> Tensor:
    # Not `forward_exploration`, which tells every layer twice a call that it is in evaluation.
    outputs = module._forward_exploration({Columns.OBS: observations})
    return distribution_inputs_in(outputs).float()


def distribution_inputs_in(outputs: Any) -> Tensor:
    """The distribution inputs in the outputs of a module."""
    if isinstance(outputs, dict) and Columns.ACTION_DIST_INPUTS in outputs:
        found: Tensor = outputs[Columns.ACTION_DIST_INPUTS]
        return found
    held = (
        f"a dictionary of {sorted(map(str, outputs))}"
        if isinstance(outputs, dict)
        else type(outputs).__name__
    )
    raise ValueError(
        f"its _forward gives {held}; it must give a dictionary with {Columns.ACTION_DIST_INPUTS}, for ttray "
        "samples the actions"
    )
