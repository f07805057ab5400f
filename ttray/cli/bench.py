"""`ttray bench`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from ttray.cli.terminal import one_of
from ttray.experiments.benchmarks import core, envs, optimisation, service, training, utilization

_BENCHMARKS: dict[str, Callable[[], object]] = {
    "core": core.run,
    "envs": envs.run,
    "utilization": utilization.run,
    "service": service.run,
    "optimisation": optimisation.run,
    "training": training.run,
}


def bench(
    what: Annotated[
        str, typer.Argument(callback=one_of(("all", *_BENCHMARKS)), help=f"all, {', '.join(_BENCHMARKS)}.")
    ] = "all",
) -> None:
    """Measure ttray beside the alternatives, in one go.

    ttray bench service
    """
    for name, benchmark in _BENCHMARKS.items():
        if what in (name, "all"):
            print(f"== {name}")
            benchmark()
            print(flush=True)
