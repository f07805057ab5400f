"""Connects to the Ray cluster around, or starts a local one."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ttray.service.cluster_address import check_address, directory_of_rays, is_on_cluster
from ttray.service.forks import is_fork_of_connected
from ttray.service.variables import environment

_starting = threading.Lock()  # of two Rays that one process starts at once, neither works
_LONGEST_DIRECTORY = 39  # Ray's sockets are 68 bytes further down, and a socket's path has at most 107
_USUAL_DIRECTORY = Path("/tmp")
_NO_PROXY = ("no_proxy", "NO_PROXY")


def _unlock() -> None:
    global _starting
    _starting = threading.Lock()  # a thread that a fork has not copied may have the other one


os.register_at_fork(after_in_child=_unlock)


def connect(num_env_runners: int | str, *, num_cpus: int | None = None) -> None:
    """Joins the cluster that the job runs on, or starts one of this machine with room for the env runners.

    Args:
        num_env_runners: That there must be room for; "auto" takes what there is.
        num_cpus: Of an embedded cluster; this machine's unless given.

    Raises:
        ValueError: RAY_ADDRESS is no address, or there is no directory for what Ray writes.
        ConnectionError: No cluster answers there.
        RuntimeError: This process was forked from one that is connected.
    """
    import ray  # not above: every command needs `quieten`, few need Ray

    from ttray.service.ray_internals import job_on_drivers_path

    if is_fork_of_connected():
        raise RuntimeError(
            "this process was forked from one that is connected to Ray, and cannot use it; start processes "
            'by multiprocessing.get_context("spawn"), or collect with num_env_runners=0'
        )
    with _starting:
        if ray.is_initialized():
            return
        if is_on_cluster():
            check_address()
            _exit_at_sigterm()
            _by_lasting_thread(
                lambda: ray.init(job_config=job_on_drivers_path(), logging_level="ERROR", log_to_driver=False)
            )
        else:
            cpus = num_cpus or os.cpu_count() or 1
            start_embedded(max(cpus, num_env_runners + 1 if isinstance(num_env_runners, int) else 0))
        quieten()  # again: Ray's start sets its own levels


def join_embedded(address: str) -> None:
    """Joins an embedded Ray of another process of this machine.

    Args:
        address: Of its head, on the loopback.
    """
    import ray

    from ttray.service.ray_internals import job_on_drivers_path, show_token

    with _starting:
        if ray.is_initialized():
            return
        quieten()
        show_token()
        _exit_at_sigterm()
        with on_loopback():
            _by_lasting_thread(
                lambda: ray.init(
                    address=address,
                    job_config=job_on_drivers_path(),
                    logging_level="ERROR",
                    log_to_driver=False,
                )
            )
        quieten()


def start_embedded(num_cpus: int, **options: Any) -> None:
    """Starts a Ray that listens on the loopback only; it ends with this process.

    Another process of this machine can join it with `RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0`.

    Args:
        num_cpus: How many it offers.
        **options: Others of `ray.init`.
    """
    import ray

    from ttray.service.ray_internals import job_on_drivers_path

    _provide_token()
    _exit_at_sigterm()
    with (
        _signals_later(),
        on_loopback(),
        environment(_directory()),
        unreported() as reports,
        telling_what_did_not_start(),
    ):
        _by_lasting_thread(
            lambda: ray.init(
                job_config=job_on_drivers_path(),
                address="local",  # a `ray start` on this machine would otherwise be joined
                num_cpus=num_cpus,
                logging_level="CRITICAL",  # an error would stop it
                log_to_driver=False,
                **reports,
                **options,
            )
        )


def _exit_at_sigterm() -> None:
    """Has SIGTERM shut Ray down, where nobody has said what it does."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(number))


def _by_lasting_thread(start: Callable[[], object]) -> None:
    """Calls something that starts Ray, by a thread that lasts as long as this process.

    Linux ends Ray's processes with the thread that started them, not with its process. And in another than
    the main thread Ray does not put its own handler of SIGTERM, which ends the process without a word, in the
    place of one that is there.
    """
    quieten()  # Ray would say that it has set no handler
    started: Future[object] = Future()

    def last() -> None:
        try:
            started.set_result(start())
        except BaseException as problem:
            started.set_exception(problem)
        else:
            threading.Event().wait()

    threading.Thread(target=last, name="start of Ray", daemon=True).start()
    started.result()


def _directory() -> dict[str, str]:
    """Tells an embedded Ray where to write, if not where it would: $TMPDIR may be read-only, or too long.

    Raises:
        ValueError: It cannot write anywhere.
    """
    own = directory_of_rays()
    if _is_usable(own):
        return {}
    if "RAY_TMPDIR" not in os.environ and _is_usable(_USUAL_DIRECTORY):
        return {"RAY_TMPDIR": str(_USUAL_DIRECTORY)}
    raise ValueError(
        f"Ray cannot keep its files in {own}; set RAY_TMPDIR to a directory that can be written to, "
        f"with a path of at most {_LONGEST_DIRECTORY} letters"
    )


def _is_usable(directory: Path) -> bool:
    # "ray" may be there, another user's.
    return _is_writable(directory.absolute() / "ray") and len(os.fsencode(directory)) <= _LONGEST_DIRECTORY


def _is_writable(wanted: Path) -> bool:
    """Whether files can be made in a directory, or the directory itself."""
    existing = next(each for each in (wanted, *wanted.parents) if each.exists())
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)  # also where it is mounted read-only


def _provide_token() -> None:
    """Gives an embedded Ray a token of its own where it could not write one into the home directory."""
    home = Path.home() / ".ray"
    is_given = {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys()
    if not is_given and not (home / "auth_token").exists() and not _is_writable(home):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


@contextmanager
def _signals_later() -> Iterator[None]:
    """Has handlers of signals called once Ray is started: processes of one half started would be left."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    stopping = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {each: handler for each in stopping if callable(handler := signal.getsignal(each))}
    for each in before:
        signal.signal(each, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        if came:
            signal.raise_signal(came[0])


@contextmanager
def telling_what_did_not_start() -> Iterator[None]:
    """Turns what Ray raises where its processes do not come up in time into a line.

    Raises:
        RuntimeError: With that line. Ray's own error is a bare `Exception`, which commands would show as a
            traceback.
    """
    try:
        yield
    except Exception as problem:
        if type(problem) is not Exception:
            raise
        raise RuntimeError(
            f"no Ray has started on this machine ({problem}); it gives its processes half a minute: try "
            "again when the machine is less busy, or do without env runners (num_env_runners=0)"
        ) from None


@contextmanager
def on_loopback() -> Iterator[None]:
    """Has what Ray starts within listen on the loopback only, and call others there without a proxy."""
    from ttray.service.ray_internals import loopback_as_address

    exempt = [os.environ.get(name) for name in _NO_PROXY]
    everything = ",".join([*filter(None, exempt), "127.0.0.1", "localhost", "::1"])
    with loopback_as_address(), environment(dict.fromkeys(_NO_PROXY, everything)):
        yield


@contextmanager
def unreported() -> Iterator[dict[str, Any]]:
    """Options for a head that is started within: it does not tell Ray's makers how it is used.

    Without a dashboard Ray starts its process nevertheless, for these reports alone. It asks every cloud's
    metadata service whether the machine is theirs, through a proxy if there is one, also where the variable
    that turns the reports off is set. Ray goes on without that process where its port is taken, as it is here
    unless the user asks for the reports.
    """
    if os.environ.get("RAY_USAGE_STATS_ENABLED") == "1":
        yield {"include_dashboard": False}
        return
    logger = logging.getLogger("ray")
    level = logger.level
    with socket.create_server(("127.0.0.1", 0)) as taken:
        logger.setLevel(logging.CRITICAL)  # that the port is taken is an error to Ray
        try:
            yield {"include_dashboard": False, "dashboard_port": taken.getsockname()[1]}
        finally:
            logger.setLevel(level)


def quieten() -> None:
    """Keeps RLlib's warnings of its own deprecated calls, and that it is new, out of what a person reads."""
    for logger in map(logging.getLogger, ("ray", "ray.rllib")):
        if logger.level != logging.ERROR:  # setting it has all loggers look up their levels anew
            logger.setLevel(logging.ERROR)
