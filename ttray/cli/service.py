"""`ttray service`: workers that stay, for all commands that collect."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ttray.cli import options
from ttray.cli.terminal import emit, err, out

DEFAULT_NAME = "main"

Name = Annotated[str, typer.Argument(help="Name of the service.")]

service = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@service.callback()
def about() -> None:
    """Keep workers for other commands: start, status, stop.

    They collect for --service of collect, evaluate, rank and train, and keep their environments in between.

    On a cluster (RAY_ADDRESS, or inside a job) they live there, and everybody who can join it can use them.
    Elsewhere a process of this machine holds them until they are stopped.
    """


@service.command()
def start(
    name: Name = DEFAULT_NAME,
    env_runners: Annotated[int, typer.Option(min=1, metavar="N", help="Workers, of one CPU each.")] = 2,
    label: options.Labels = None,
    most: Annotated[
        int | None,
        typer.Option(
            "--per-client",
            min=1,
            metavar="N",
            help="Most workers of one client at a time.",
            show_default="all",
        ),
    ] = None,
    environments: Annotated[
        int, typer.Option(min=1, help="Kinds of environments that each worker keeps made.")
    ] = 4,
    json: options.Json = False,
) -> None:
    """Start workers that stay until `ttray service stop`.

    ttray service start

    ttray collect batch.parquet --env CartPole-v1 --horizon 200 --budget 10000 --service main
    """
    from ttray.service.cluster_address import is_on_cluster
    from ttray.service.lent_workers import ServiceError
    from ttray.service.residents import address_of, check_name, start_resident
    from ttray.service.warm_service import Service

    asked: dict[str, Any] = {
        "num_env_runners": env_runners,
        "label_selector": options.label_selector(label),
        "max_workers_per_client": most,
        "num_environments": environments,
    }
    check_name(name)
    if is_on_cluster():
        Service.start(name, **asked)
    elif address_of(name) is not None:
        raise ServiceError(
            f"service {name!r} is there already; use it, stop it (ttray service stop {name}), or choose "
            "another name"
        )
    else:
        start_resident(name, **asked)
    found = Service.status_of(name)

    def render() -> None:
        out.print(f"service {name} has {env_runners} workers; use it with --service {name}")
        err.print(f"end it with: ttray service stop {name}")

    emit(found, json, render)


@service.command()
def status(name: Name = DEFAULT_NAME, json: options.Json = False) -> None:
    """Show workers and clients, and how long clients have waited.

    ttray service status --json
    """
    from ttray.service.warm_service import Service

    found = Service.status_of(name)
    emit(found, json, lambda: _render(found))


@service.command()
def stop(name: Name = DEFAULT_NAME, json: options.Json = False) -> None:
    """End a service and its workers; commands that use it fail.

    ttray service stop main
    """
    from ttray.service.residents import await_end
    from ttray.service.warm_service import Service

    Service.stop(name)
    await_end(name)
    emit({"stopped": name}, json, lambda: out.print(f"service {name} has ended"))


def _render(found: dict[str, Any]) -> None:
    out.print(f"service {found['service']}: {len(found['workers'])} workers of {found['needs']} each")
    for each in found["workers"]:
        where = f"process {each['process']} on {each['host']}" if each["process"] else ""
        died = f", started {each['num_restarts'] + 1} times" if each["num_restarts"] else ""
        out.print(f"  worker {each['worker']:<4} {each['state']:<10} {where}{died}".rstrip())
    out.print(f"{len(found['clients'])} clients, at most {found['most']} workers each")
    for each in found["clients"]:
        out.print(
            f"  {each['state']:<10} {each['num_workers']} of {each['num_wanted']} workers, "
            f"{each['num_quotas']} quotas, priority {each['priority']:g}, waited {each['waited_s']:.1f} s "
            f"(at most {each['longest_wait_s']:.1f} s): {each['client']}"
        )
