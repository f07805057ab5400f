"""`ttray submit`."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from ttray.cli import options
from ttray.cli.terminal import ExitCode, emit, err, out

_FOLLOWS = ("train", "collect", "compare", "reproduce")  # commands with lines of progress for the log
_STOPPED = 143  # as of a process that SIGTERM ended


def submit(
    context: typer.Context,
    address: Annotated[
        str | None,
        typer.Option(
            help="Of the cluster's dashboard.", show_default="$RAY_API_SERVER_ADDRESS or 127.0.0.1:8265"
        ),
    ] = None,
    working_dir: Annotated[
        Path | None,
        typer.Option(
            help="Send this directory along, e.g. a checkout of ttray or your environments.",
            show_default="none: ttray is installed there",
        ),
    ] = None,
    wait: Annotated[bool, typer.Option(help="Follow the log until the job ends.")] = True,
    json: options.Json = False,
) -> None:
    """Run any other command as a Ray job, and follow its log.

    Write its files to storage that outlives the job: --directory, or TTRAY_RUNS set on the cluster.
    The token of the cluster is taken from RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH, as Ray does
    (RAY_AUTH_MODE=token).

    ttray submit -- train --preset dam --env-runners 8 --directory /checkpoints/dam

    ttray submit --working-dir . -- reproduce main
    """
    import asyncio

    from ray.exceptions import RayError
    from ray.job_submission import JobStatus, JobSubmissionClient

    command = list(context.args)
    if not command:
        raise ValueError(
            "found no command to run; write it after --, as in: ttray submit -- train --preset dam"
        )
    if command[0] in _FOLLOWS and not {"--progress", "--no-progress"} & set(command):
        command.append("--progress")
    where = address or os.environ.get("RAY_API_SERVER_ADDRESS") or "http://127.0.0.1:8265"
    try:
        client = JobSubmissionClient(where if "://" in where else f"http://{where}")
        job = client.submit_job(
            entrypoint=shlex.join(["python", "-m", "ttray", *command]),
            runtime_env={} if working_dir is None else {"working_dir": str(working_dir.absolute())},
        )
    except (ConnectionError, RuntimeError, RayError) as problem:
        raise RuntimeError(f"{where} did not take the job: {problem}") from problem
    err.print(f"job {job} at {where}; stop it with: ray job stop {job} --address {where}", markup=False)
    status: Any = client.get_job_status(job)
    if wait:
        try:
            asyncio.run(_follow(client, job, to_stderr=json))
        except KeyboardInterrupt:
            err.print(
                f"the job goes on; follow it with: ray job logs -f {job} --address {where}", markup=False
            )
            raise
        status = client.get_job_status(job)
    info = client.get_job_info(job)
    result = {"job": job, "status": str(status), "exit_code": info.driver_exit_code, "address": where}
    emit(result, json, lambda: out.print(f"job {job}: {status}", markup=False))
    if wait and status != JobStatus.SUCCEEDED:
        if status != JobStatus.STOPPED:
            err.print(info.message or "no message", markup=False)
        raise typer.Exit(
            _STOPPED if status == JobStatus.STOPPED else info.driver_exit_code or ExitCode.FAILED
        )


async def _follow(client: Any, job: str, *, to_stderr: bool) -> None:
    console = err if to_stderr else out
    async for lines in client.tail_job_logs(job):
        console.print(lines, end="", markup=False)
