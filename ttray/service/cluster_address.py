"""Checks whether a cluster answers at RAY_ADDRESS, before Ray waits for it.

Ray itself waits for minutes for a head that is not there, and then ends the process from outside of Python.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

_VARIABLE = "RAY_ADDRESS"
_PATIENCE_S = 4.0  # for a connection, and again for the first words
# Ray's head speaks HTTP/2: a client begins with these bytes and a frame of settings, here an empty one, and
# the server with a frame of its own settings.
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_SETTINGS, _TYPE_OF_FRAME, _LENGTH_OF_HEADER = 4, 3, 9


def is_on_cluster() -> bool:
    """Whether there is a cluster to join, as there is around a job."""
    return os.environ.get(_VARIABLE, "") not in ("", "local")


def check_address() -> None:
    """Raises unless the head of a cluster answers at the address in the environment.

    Raises:
        ValueError: It is no address of a head.
        ConnectionError: Nobody answers there, or somebody who is no head.
    """
    given = os.environ[_VARIABLE]
    if given.startswith("ray://"):  # of Ray's client, whose own time limit is short
        return
    address = _started_here() if given == "auto" else given
    if address is None:
        return  # Ray looks for one among this machine's processes, and says at once if there is none
    host, _, port = address.rpartition(":")
    if "/" in address or not host or not port.isdecimal() or int(port) >= 2**16:
        raise ValueError(
            f"{_VARIABLE}={given} is not the address of a cluster's head; set it to HOST:PORT (port 6379 "
            "unless chosen otherwise, not that of the dashboard), or unset it to compute on this machine"
        )
    problem = problem_at(address)
    if problem:
        raise ConnectionError(
            f"no Ray cluster answers at {_VARIABLE}={given} ({problem}); start its head, correct the "
            f"address, or unset {_VARIABLE} to compute on this machine"
        )


def _started_here() -> str | None:
    """The address that `ray start` has left on this machine; None if it has not."""
    try:
        return (directory_of_rays() / "ray" / "ray_current_cluster").read_text().strip() or None
    except OSError:
        return None


def directory_of_rays() -> Path:
    """Where Ray keeps its files unless told otherwise, in a directory `ray`."""
    variables = ("RAY_TMPDIR", "TMPDIR") if sys.platform == "linux" else ("RAY_TMPDIR",)
    return Path(next((os.environ[name] for name in variables if name in os.environ), "/tmp"))


def problem_at(address: str, timeout_s: float = _PATIENCE_S) -> str | None:
    """Why no head can be talked to; None if one can.

    Args:
        address: As "host:port".
        timeout_s: How long to wait for a connection, and again for the first words.
    """
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_s) as connection:
            if os.environ.get("RAY_USE_TLS", "0") == "1":
                return None  # it would say nothing before certificates are exchanged
            connection.sendall(_GREETING)
            answer = b""
            while len(answer) < _LENGTH_OF_HEADER:
                more = connection.recv(_LENGTH_OF_HEADER - len(answer))
                if not more:
                    return "what listens there is no head of Ray"
                answer += more
    except TimeoutError:
        return "no answer"
    except OSError as problem:
        return problem.strerror or str(problem)
    return None if answer[_TYPE_OF_FRAME] == _SETTINGS else "what listens there is no head of Ray"
