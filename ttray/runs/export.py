"""`ttray.export`: writes the policy of a run for other programs."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ttray.boundary.files import open_regular, read_bytes
from ttray.rollout.policy_files import DESCRIPTION, MAX_WEIGHT_BYTES, WEIGHTS
from ttray.runs.checkpoints import find_checkpoint
from ttray.runs.deployment import load_policy
from ttray.runs.directories import check_directory, check_file

NAMES = {"onnx": "policy.onnx", "torchscript": "policy.pt", "safetensors": "policy"}
"""What is written unless a name is given, by format."""

_ONNX_PACKAGES = ("onnx", "onnxscript")
_NUM_EXAMPLES, _NUM_RECORDED = 100, 7  # 7 is no other size by chance


def export(
    policy: str | Path, to: str, *, path: str | Path | None = None, module_class: type[Any] | None = None
) -> Path:
    """Writes the policy of a run for other programs.

    "onnx" and "torchscript" are one file each that needs neither ttray nor Ray. It takes `obs`, a batch of
    observations (of a Box in its shape, of other spaces flat as in batches), and gives
    `action_dist_inputs` (logits, or means and logarithms of standard deviations) and `action`, the likeliest
    action as the environment takes it. Normalisation is part of it. "safetensors" is a directory with
    `policy.json` and `policy.safetensors`, for `ttray.load_policy`, `ttray.evaluate` and `ttray.collect`;
    nothing is executed by whoever reads them.

    Args:
        policy: Path of a run or checkpoint. Nothing in it is executed.
        to: "onnx", "torchscript" or "safetensors".
        path: File or directory to write. Default: `policy.onnx`, `policy.pt` or `policy`.
        module_class: Class of the policy's module, if it is not ttray's own.

    Returns:
        What was written.

    Raises:
        ValueError: There is no policy, packages for ONNX are not installed, or nothing can be written there.
        RuntimeError: torch cannot record the module.
    """
    if to not in NAMES:
        raise ValueError(f"to must be one of {', '.join(NAMES)}, found {to!r}")
    target = Path(NAMES[to] if path is None else path).expanduser()
    checkpoint = find_checkpoint(policy)
    if to == "safetensors":
        check_directory(target)
        load_policy(checkpoint, module_class=module_class)  # what cannot be loaded is not handed on
        files = {
            target / name: read_bytes(checkpoint / name, MAX_WEIGHT_BYTES) for name in (DESCRIPTION, WEIGHTS)
        }
        target.mkdir(parents=True, exist_ok=True)
    else:
        check_file(target)
        files = {target: _recorded(checkpoint, to, module_class)}
        target.parent.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        with open_regular(file, "wb", is_named=True) as opened:
            opened.write(content)
    return target


def _recorded(checkpoint: Path, to: str, module_class: type[Any] | None) -> bytes:
    missing = [name for name in _ONNX_PACKAGES if find_spec(name) is None] if to == "onnx" else []
    if missing:
        raise ValueError(
            f"ONNX needs {' and '.join(missing)}, which is not installed; pip install 'ttray[onnx]', or "
            "pip install onnx onnxscript"
        )
    from ttray.rllib.module_files import load_module  # here: what is written as safetensors needs no RLlib
    from ttray.rllib.recordable import RecordablePolicy, example_observations
    from ttray.rllib.torch_policy import check_stateless

    module = load_module(checkpoint, module_class)
    check_stateless(module)
    examples = example_observations(module.observation_space, _NUM_EXAMPLES)
    try:
        with _quiet():
            write = _onnx if to == "onnx" else _torchscript
            return write(RecordablePolicy(module), examples)
    except Exception as problem:
        first = (str(problem).strip() or repr(problem)).splitlines()[0]
        raise RuntimeError(
            f"torch cannot record {type(module).__name__} as {to} ({first}); its _forward must be made of "
            "operations of torch alone. --to safetensors keeps any module"
        ) from problem


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps torch from talking of its own exporters: which are old, and which packages they could use."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _onnx(policy: Any, examples: Any) -> bytes:
    import torch

    from ttray.rllib.recordable import INPUT, OUTPUTS

    rows = {0: torch.export.Dim("rows")}
    program: Any = torch.onnx.export(
        policy,
        (examples[:_NUM_RECORDED],),
        dynamo=True,
        verbose=False,
        input_names=[INPUT],
        output_names=list(OUTPUTS),
        dynamic_shapes=(rows,),
    )
    model = program.model_proto
    for node in model.graph.node:
        node.ClearField("metadata_props")  # they tell where on this machine the code lies
    content: bytes = model.SerializeToString()
    return content


def _torchscript(policy: Any, examples: Any) -> bytes:
    import torch

    file = io.BytesIO()
    with torch.no_grad():
        recorded = torch.jit.trace(policy, (examples[:_NUM_RECORDED],))
        torch.jit.save(recorded, file)
        found, expected = recorded(examples)[0], policy(examples)[0]
    if not torch.allclose(found, expected, rtol=1e-3, atol=1e-3):
        raise ValueError("it does something else for other observations than for those that were recorded")
    return file.getvalue()
