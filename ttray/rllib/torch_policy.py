"""Any stateless RLModule as a policy for rollouts: called with many rows at once, one bit pattern per row.

A trajectory must not depend on the slot that it runs in, so a row's bits may not depend on its place or its
neighbours. Matrix products of torch keep that for numbers of rows that are multiples of 16, if the rows of
their inputs begin at multiples of 16 bytes. So a call is filled up to such a number, inputs of linear layers
are filled up with zeros, and that rows are independent is tried out when a kind of module is first used in a
process. Where it is not so, rows are computed one by one. Rows that fill up a call are computed and
forgotten: no batch and no step of an environment has any.
"""

from __future__ import annotations

import logging
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from ray.rllib.core import Columns
from ray.rllib.core.rl_module.rl_module import RLModule
from torch import Tensor, nn
from torch.nn import functional

from ttray.core.threads import torch_threads
from ttray.rollout.observations import example_rows, structure_of

logger = logging.getLogger(__name__)

_WIDTHS = ((16, 32, 48, 64), (64,))  # rows of a call: several if all give the same bits, or a single one
_ONE_BY_ONE = (1,)
_NUM_ROWS, _NUM_ORDERS = 128, 3  # of a trial: more rows than a call has, so that neighbours change
_KNOWN: dict[str, tuple[int, ...]] = {}  # of this process: the widths that were proved for a kind of module


class TorchPolicy:
    """A stateless torch module as a policy.

    Args:
        module: Its `_forward` maps observations to `action_dist_inputs`. It is copied, and behaves as in
            evaluation: dropout does nothing, batch normalisation uses what it has stored.
    """

    def __init__(self, module: RLModule) -> None:
        self._module: Any = _with_aligned_layers(deepcopy(module).to("cpu").eval())
        self._make_transient()

    def _make_transient(self) -> None:
        self._structure = observation_structure(self._module)
        # The inputs of calls, by their number of rows, and the memory that they all look at.
        self._inputs: tuple[Tensor, ...] = ()
        self._memory: NDArray[Any] = np.zeros((0, 0))

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
        widths = proved_widths(self._module)
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


def observation_structure(module: RLModule) -> Any:
    """How a module wants its observations: in the shape of their space, unless it says that flat will do.

    They are the module's own, so that a layer that works in place changes no recorded observation.
    """
    if getattr(module, "takes_flat_observations", False):
        return torch.clone
    structure = structure_of(module.observation_space)
    return lambda rows: structure(rows.clone())


def proved_widths(module: RLModule) -> tuple[int, ...]:
    """With how many rows the module may be called, by a trial when its kind is first used in this process.

    The trial's numbers and parameters are the same in every process, so all workers decide alike.
    """
    kind = _kind(module)
    if kind not in _KNOWN:
        _KNOWN[kind] = next((widths for widths in _WIDTHS if _is_independent(module, widths)), _ONE_BY_ONE)
        name = type(module).__name__
        if _KNOWN[kind] == _ONE_BY_ONE:
            _check_single_rows(module)
            logger.warning(
                "%s: a row of its output depends on the other rows of a call, so rows are computed one by "
                "one: the same bits everywhere, but slow. Layers that mix rows (batch normalisation without "
                "stored statistics, means over a batch) are the usual cause",
                name,
            )
        else:
            logger.info("%s: proved that rows are independent in calls of %s rows", name, _KNOWN[kind])
    return _KNOWN[kind]


def _kind(module: RLModule) -> str:
    shapes = [(name, tuple(each.shape), each.dtype) for name, each in module.state_dict().items()]
    return repr((type(module).__qualname__, module, module.model_config, module.observation_space, shapes))


def _is_independent(module: RLModule, widths: tuple[int, ...]) -> bool:
    """Whether rows have the same bits in other orders, beside other rows, and in calls of these widths."""
    trial = deepcopy(module)
    generator = np.random.default_rng(0)
    with torch.no_grad():
        # Not its own parameters: zeros, as some layers begin with, would prove nothing.
        for parameter in trial.parameters():
            fan_in = max(parameter[0].numel(), 1) if parameter.ndim > 1 else 1
            values = generator.standard_normal(tuple(parameter.shape), dtype=np.float32) / np.sqrt(fan_in)
            parameter.copy_(torch.from_numpy(np.asarray(values)))
    _with_aligned_layers(trial)  # with these parameters
    structure = observation_structure(trial)
    rows = torch.from_numpy(example_rows(module.observation_space, _NUM_ROWS))
    first = None
    for width in widths:
        for _ in range(_NUM_ORDERS):
            order = torch.from_numpy(generator.permutation(_NUM_ROWS))
            parts = order.split(width)
            # What is missing in the last call is filled up with rows from the first.
            calls = [torch.cat([part, order[: width - len(part)]]) for part in parts]
            found = torch.cat([_forward(trial, structure(rows[call])) for call in calls])[:_NUM_ROWS]
            outputs = torch.empty_like(found)
            outputs[order] = found
            first = outputs if first is None else first
            if outputs.numpy().tobytes() != first.numpy().tobytes():
                return False
    return True


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
    outputs: Tensor = module._forward_exploration({Columns.OBS: observations})[Columns.ACTION_DIST_INPUTS]
    return outputs.float()


class _AlignedLinear(nn.Linear):
    """A linear layer whose inputs are filled up with zeros, so that every row begins at 16 bytes."""

    def __init__(self, layer: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.weight, self.bias = layer.weight, layer.bias
        self._missing = -layer.in_features % 16
        self._filled = functional.pad(layer.weight.detach(), (0, self._missing))

    def forward(self, input: Tensor) -> Tensor:
        """See base class."""
        return functional.linear(functional.pad(input, (0, self._missing)), self._filled, self.bias)


def _with_aligned_layers(module: Any) -> Any:
    """Replaces the linear layers that need it, in place; those that do more than multiply stay."""
    for parent in list(module.modules()):
        for name, layer in list(parent.named_children()):
            is_linear = type(layer) in (nn.Linear, _AlignedLinear) and layer.in_features % 4
            if is_linear and not is_altered(layer):
                setattr(parent, name, _AlignedLinear(layer))
    return module


def is_altered(layer: nn.Module) -> bool:
    """Whether calling this layer does something else than its class says: hooks, or a `forward` of its own.

    `weight_norm` and `spectral_norm` of old are such hooks; parametrizations change the class itself.
    """
    return bool(layer._forward_hooks or layer._forward_pre_hooks or "forward" in vars(layer))
