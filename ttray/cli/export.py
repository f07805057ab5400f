"""`ttray export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import ttray
from ttray.cli import options
from ttray.cli.terminal import emit, out


def export(
    policy: Annotated[Path, typer.Argument(help="Run or checkpoint directory.")],
    to: options.ExportFormat,
    output: Annotated[
        Path | None,
        typer.Option(
            help="File to write; for safetensors a directory.",
            show_default="policy.onnx, policy.pt, policy",
        ),
    ] = None,
    module: options.Module = None,
    json: options.Json = False,
) -> None:
    """Export a trained policy for other programs, which need no Ray.

    onnx and torchscript: one file for other runtimes. safetensors: for ttray.load_policy, which runs nothing
    that a file says.

    ttray export runs/dam-TTPOIS-0.95-0 --to onnx

    ttray export runs/dam-TTPOIS-0.95-0 --to safetensors --output dam-policy
    """
    written = ttray.export(policy, to, path=output, module_class=options.module_class(module))
    emit({"policy": str(written), "format": to}, json, lambda: out.print(f"policy  {written}"))
