"""`ttray submit`."""

from __future__ import annotations

import os
import shlex
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from ttray.cli import options
from ttray.cli.terminal import ExitCode, emit, err, out
from ttray.service.variables import environment

_FOLLOWS = ("train", "collect", "compare")  # commands with lines of progress for the log
_NAMES_MODULES = ("--env", "--module")
_STOPPED = 143  # as of a process that SIGTERM ended
# Keeps the cluster's token from proxies, and a password of ~/.netrc from being sent in its place: Ray asks by
# `requests`, which heeds these variables. The log comes without a proxy in any case.
_STRAIGHT = {"no_proxy": "*", "NETRC": os.devnull}
# For the shell of the job: what it would write beside its code is deleted with the code.
_LASTING = 'TTRAY_RUNS="${TTRAY_RUNS:-$HOME/runs}"'


def submit(
    context: typer.Context,
    address: Annotated[
        str | None,
        typer.Option(
            help="Address of the cluster's dashboard.",
            show_default="$RAY_API_SERVER_ADDRESS or 127.0.0.1:8265",
        ),
    ] = None,
    working_dir: Annotated[
        Path | None,
        typer.Option(
            help="Send this directory along, e.g. a checkout of ttray or your environments, without secrets, "
            "runs and what .gitignore names; a .zip is sent as it is.",
            show_default="none: ttray is installed there",
        ),
    ] = None,
    wait: Annotated[bool, typer.Option(help="Follow the log until the job ends.")] = True,
    json: options.Json = False,
) -> None:
    """Run any other command as a Ray job, and follow its log.

    Its results go to TTRAY_RUNS as set on the cluster, or to ~/runs of the node that runs it; a path
    that you give, as --directory, should be absolute. The token of the cluster is taken from
    RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH, as Ray does (RAY_AUTH_MODE=token); no proxy is used.

    ttray submit -- train --preset dam --env-runners 8 --directory /checkpoints/dam

    ttray submit --working-dir . -- compare --preset dam
    """
    command = list(context.args)
    if not command:
        raise ValueError(
            "found no command to run; write it after --, as in: ttray submit -- train --preset dam"
        )
    if command[0] in _FOLLOWS and not {"--progress", "--no-progress"} & set(command):
        command.append("--progress")
    where = address or os.environ.get("RAY_API_SERVER_ADDRESS") or "http://127.0.0.1:8265"
    if hint := _stays_behind(command, working_dir):
        err.print(f"note: {hint}")
    with environment(_STRAIGHT), tempfile.TemporaryDirectory() as scratch:
        sent = None if working_dir is None else _parcel(working_dir, Path(scratch))
        job, status, info = _run(where, command, sent, wait=wait, to_stderr=json)
    result = {"job": job, "status": str(status), "exit_code": info.driver_exit_code, "address": where}
    emit(result, json, lambda: out.print(f"job {job}: {status}"))
    if wait and status.name != "SUCCEEDED":
        is_stopped = status.name == "STOPPED"
        if not is_stopped:
            err.print(info.message or "no message")
            if hint:
                err.print(f"hint: {hint}")
        raise typer.Exit(_STOPPED if is_stopped else info.driver_exit_code or ExitCode.FAILED)


def _run(
    where: str, command: list[str], sent: Path | None, *, wait: bool, to_stderr: bool
) -> tuple[str, Any, Any]:
    """Submits a job; returns its name, status and Ray's information, after its end if that is waited for."""
    import asyncio

    from ray.exceptions import RayError
    from ray.job_submission import JobSubmissionClient

    try:
        client = JobSubmissionClient(where if "://" in where else f"http://{where}")
        job = client.submit_job(
            entrypoint=f"{_LASTING} {shlex.join(['python', '-m', 'ttray', *command])}",
            runtime_env={} if sent is None else {"working_dir": str(sent)},
        )
    except (ConnectionError, RuntimeError, RayError) as problem:
        raise RuntimeError(f"{where} did not take the job: {problem}") from problem
    err.print(f"job {job} at {where}; stop it with: ray job stop {job} --address {where}")
    if wait:
        try:
            asyncio.run(_follow(client, job, to_stderr=to_stderr))
        except KeyboardInterrupt:
            err.print(f"the job goes on; follow it with: ray job logs -f {job} --address {where}")
            raise
    return job, client.get_job_status(job), client.get_job_info(job)


def _parcel(working_dir: Path, scratch: Path) -> Path:
    """The archive to send, once it is said what is in it."""
    from ttray.cli.sending import parcel_of

    if working_dir.suffix == ".zip" and working_dir.is_file():
        return working_dir.absolute()
    parcel, archive = parcel_of(working_dir), scratch / "working_dir.zip"
    parcel.write(archive)
    err.print(f"sending {working_dir}, {parcel.describe()}")
    err.print("Ray deletes its copy after the job: give absolute paths for what shall last")
    return archive


def _stays_behind(command: list[str], working_dir: Path | None) -> str | None:
    """What to say of a module of this directory that a command names and that is not sent."""
    if working_dir is not None:
        return None
    for option, value in zip(command, [*command[1:], ""], strict=True):
        option, is_joined, joined = option.partition("=")
        module, is_own, _ = (joined if is_joined else value).partition(":")
        place = Path(module.replace(".", "/"))
        if option in _NAMES_MODULES and is_own and (place.is_dir() or place.with_suffix(".py").is_file()):
            return (
                f"{module} is in this directory, which is not sent; if it is not installed on the cluster, "
                "add --working-dir ."
            )
    return None


async def _follow(client: Any, job: str, *, to_stderr: bool) -> None:
    console = err if to_stderr else out
    async for lines in client.tail_job_logs(job):
        console.print(lines, end="")
