"""User networks (torch, TorchScript, ONNX) as functions from observations to one array."""

from __future__ import annotations

import hashlib
import io
from abc import ABC, abstractmethod
from copy import copy, deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box
from numpy.typing import NDArray
from torch import nn

from ttray.boundary.fields import brief
from ttray.boundary.files import read_bytes
from ttray.boundary.printable import printable
from ttray.rollout.aligned_layers import with_aligned_layers, with_random_parameters
from ttray.rollout.observations import shaper_of, tensors_of

_PREFERRED = ("action_dist_inputs", "actions", "action")  # of several outputs; otherwise the first
# Of a file that needs no trust, and of all that the operations in such files may ask for.
_MAX_BYTES, _MAX_MEMORY = 2**27, 2**29
_BOUNDS = {
    "session.use_env_allocators": "1",
    "optimization.constant_folding_max_output_size_in_bytes": str(2**24),
}
_SILENT = 4  # ONNX Runtime would print what names a file holds, as they are


class Model(ABC):
    """A network without a memory.

    Attributes:
        name: What messages call it.
        is_batched: Whether it takes any number of rows, or one.
        takes_flat: Whether observations that are no Box are flat rows for it, as in ttray's own exports.
    """

    name: str
    is_batched: bool = True
    takes_flat: bool = True

    @abstractmethod
    def answer(self, observations: Any) -> NDArray[Any]:
        """What it makes of observations with an axis for rows; one output, if it has several."""

    @abstractmethod
    def kind(self) -> str:
        """What tells it from models whose rows may depend on each other in another way."""

    def trial(self) -> Model:
        """Its double for a trial."""
        return self

    def on_flat_rows(self, rows: NDArray[Any]) -> NDArray[Any]:
        """What it makes of recorded observations."""
        with torch.inference_mode():
            return self.answer(rows)

    def shaper(self, space: gymnasium.Space) -> Any:
        """How it wants flat rows of a space."""
        return (lambda rows: rows) if self.takes_flat and not isinstance(space, Box) else shaper_of(space)


class TorchModel(Model):
    """A `torch.nn.Module` from observations, as tensors in the shape of their space.

    Args:
        module: It is copied, and behaves as in evaluation.
    """

    takes_flat = False

    def __init__(self, module: nn.Module) -> None:
        self.name = type(module).__name__
        self._module = with_aligned_layers(deepcopy(module).to("cpu").eval())

    def answer(self, observations: Any) -> NDArray[Any]:
        """See base class."""
        return _picked(self._module(tensors_of(observations)))

    def kind(self) -> str:
        """See base class."""
        shapes = [(name, tuple(each.shape), each.dtype) for name, each in self._module.state_dict().items()]
        return repr((type(self._module).__qualname__, self._module, shapes))

    def trial(self) -> Model:
        """See base class: with other parameters."""
        found = copy(self)
        found._module = with_aligned_layers(with_random_parameters(deepcopy(self._module)))
        return found


class ScriptModel(Model):
    """TorchScript: a program in a file, which torch's interpreter runs.

    Args:
        program: What `torch.jit.load` gave.
    """

    def __init__(self, program: torch.jit.ScriptModule) -> None:
        self.name = f"TorchScript {program.original_name}"
        file = io.BytesIO()
        torch.jit.save(program, file)
        self._bytes = file.getvalue()
        self._load()

    def _load(self) -> None:
        self._program = torch.jit.load(io.BytesIO(self._bytes), map_location="cpu").eval()

    def __getstate__(self) -> dict[str, Any]:
        return {"name": self.name, "_bytes": self._bytes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self._load()

    def answer(self, observations: Any) -> NDArray[Any]:
        """See base class."""
        # As it stands: the optimiser would change a program, and its low bits, after some calls.
        with torch.jit.optimized_execution(False):  # type: ignore[attr-defined]
            return _picked(self._program(tensors_of(observations)))

    def kind(self) -> str:
        """See base class."""
        return hashlib.sha256(self._bytes).hexdigest()


class OnnxModel(Model):
    """A model in an ONNX file, run by ONNX Runtime.

    Args:
        path: Of the file. It holds operations and numbers, and no code.
    """

    def __init__(self, path: str | Path) -> None:
        self.name = Path(path).name
        try:
            self._bytes = read_bytes(Path(path), _MAX_BYTES, is_named=True)
        except FileNotFoundError:
            raise ValueError(f"there is no file {path}") from None
        except OSError as problem:
            raise ValueError(f"{path} cannot be read: {problem.strerror}") from None
        except ValueError as problem:
            raise ValueError(f"{path} is no ONNX model that can be run here ({problem})") from None
        self._load()

    def _load(self) -> None:
        try:
            import onnxruntime
        except ModuleNotFoundError as missing:
            raise ValueError(
                f"{self.name} needs ONNX Runtime ({missing}); pip install onnxruntime"
            ) from missing
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = _SILENT
        for name, value in _BOUNDS.items():
            options.add_session_config_entry(name, value)
        _bound_memory()
        self._quietly = onnxruntime.RunOptions()
        self._quietly.log_severity_level = _SILENT
        try:
            self._session: Any = onnxruntime.InferenceSession(
                self._bytes, options, providers=["CPUExecutionProvider"]
            )
        except Exception as problem:
            text = printable(" ".join(str(problem).split()))[:300]
            raise ValueError(f"{self.name} is no ONNX model that can be run here ({text})") from problem
        inputs = self._session.get_inputs()
        if len(inputs) != 1:
            given = brief([each.name for each in inputs])
            raise ValueError(
                f"{self.name} takes the inputs {given}; a policy takes observations alone. For others, wrap "
                "the session into ttray.policies.function"
            )
        rows = inputs[0].shape[0] if inputs[0].shape else None
        if isinstance(rows, int) and rows != 1:
            raise ValueError(f"{self.name} takes {rows} rows and no other number; export it for one, or any")
        self.is_batched = not isinstance(rows, int)
        self._input, self._type = inputs[0].name, _numpy_type(self.name, inputs[0].type)
        names = [each.name for each in self._session.get_outputs()]
        self._output = next((name for name in _PREFERRED if name in names), names[0])

    def __getstate__(self) -> dict[str, Any]:
        return {"name": self.name, "_bytes": self._bytes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self._load()

    def answer(self, observations: Any) -> NDArray[Any]:
        """See base class."""
        rows = np.ascontiguousarray(observations, dtype=self._type)
        (found,) = self._session.run([self._output], {self._input: rows}, self._quietly)
        return np.asarray(found)

    def kind(self) -> str:
        """See base class."""
        return hashlib.sha256(self._bytes).hexdigest()


@cache
def _bound_memory() -> None:
    """Has all models of this process together take at most so much: a small file may ask for anything."""
    import onnxruntime

    onnxruntime.create_and_register_allocator(
        onnxruntime.OrtMemoryInfo(
            "Cpu", onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, onnxruntime.OrtMemType.DEFAULT
        ),
        onnxruntime.OrtArenaCfg({"max_mem": _MAX_MEMORY}),
    )


def load_torchscript(path: Path) -> ScriptModel:
    """The program in a TorchScript file; it may read and write files when it runs.

    Raises:
        ValueError: The file is none.
    """
    try:
        return ScriptModel(torch.jit.load(str(path), map_location="cpu"))
    except Exception as problem:
        text = printable(" ".join(str(problem).split()))[:200]
        raise ValueError(
            f"{path} is no TorchScript ({text}). A pickled module or a state_dict has to be loaded in "
            "Python, by who trusts it; pass the module then"
        ) from None


def model_of(source: Any) -> Model | None:
    """A model, if a source is one."""
    if isinstance(source, Model):
        return source
    if isinstance(source, torch.jit.ScriptModule):
        return ScriptModel(source)
    return TorchModel(source) if isinstance(source, nn.Module) else None


def _picked(outputs: Any) -> NDArray[Any]:
    """One output of several, as an array."""
    if isinstance(outputs, dict):
        chosen = next((name for name in _PREFERRED if name in outputs), next(iter(outputs)))
        outputs = outputs[chosen]
    while isinstance(outputs, tuple | list):
        outputs = outputs[0]
    return np.array(outputs.numpy())


def _numpy_type(model: str, name: str) -> Any:
    """Of ONNX's "tensor(float)" and the like."""
    inner = name.removeprefix("tensor(").removesuffix(")")
    try:
        return np.dtype({"float": "float32", "double": "float64"}.get(inner, inner))
    except TypeError:
        raise ValueError(
            f"{model} takes {brief(name)}, and observations are numbers; export it for tensors of them"
        ) from None
