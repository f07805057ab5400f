"""Services on a machine without a cluster: a process that stays holds a Ray of its own for each.

Where it is stands in a file of the user's home, which nobody else can write, with a link to nowhere else: who
is named there is sent programs.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ttray.boundary.fields import brief
from ttray.boundary.files import open_regular, read_json
from ttray.boundary.printable import printable
from ttray.service.cluster_address import is_on_cluster, problem_at

_STARTS_S = 120.0  # an interpreter, a Ray and its workers, on a machine that is busy
_ENDS_S = 30.0
_LOOKS_S = 0.5
_LOG_BYTES = 2**14  # of the end of a log, in which its last line is
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def check_name(name: Any) -> str:
    """Returns the name of a service: it becomes a part of a file's."""
    if not isinstance(name, str) or name == "none" or not _NAME.fullmatch(name):
        raise ValueError(
            "a service is named by letters, digits, '-', '_' and '.', at most 64, and not 'none', found "
            f"{brief(name)}"
        )
    return name


def directory() -> Path:
    """Where the files are that say where services of this machine live."""
    return Path.home() / ".ttray" / "services"


def names() -> list[str]:
    """Of the services of this machine that live."""
    found = sorted(path.stem for path in directory().glob("*.json"))
    return [name for name in found if address_of(name) is not None]


def address_of(name: str) -> str | None:
    """Of the Ray on which a service of this machine lives; None if there is none."""
    path = _file(name)
    try:
        address = _checked(read_json(path)["address"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise ValueError(f"{path} does not tell where service {name!r} is ({problem}); remove it") from None
    return None if problem_at(address) else address


def _checked(address: Any) -> str:
    """Returns an address on the loopback: whoever else was named there would be shown the user's token."""
    host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
    if not (port.isdecimal() and int(port) < 2**16 and ipaddress.ip_address(host.strip("[]")).is_loopback):
        raise ValueError(f"{brief(address)} is no address of this machine")
    return str(address)


def join_resident(name: str) -> bool:
    """Joins the Ray on which a service of this machine lives; false if nothing was to be joined."""
    import ray

    from ttray.service.connection import join_embedded

    if ray.is_initialized() or is_on_cluster() or (address := address_of(name)) is None:
        return False
    join_embedded(address)
    return True


def start_resident(name: str, **options: Any) -> None:
    """Starts a process that stays, with a Ray and a service; returns when the service answers.

    Args:
        name: Of the service.
        **options: Arguments of `ttray.Service.start`.

    Raises:
        RuntimeError: It did not start; the message has its last words.
    """
    directory().mkdir(parents=True, exist_ok=True, mode=0o700)
    log = _file(name).with_suffix(".log")
    with open_regular(log, "w") as output:
        # Not from the current directory, where a stranger's modules may lie.
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "ttray.service.resident", name, json.dumps(options)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    deadline = time.monotonic() + _STARTS_S
    while address_of(name) is None:
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise RuntimeError(f"service {name!r} did not start ({_last_line(log)}); its log is {log}")
        time.sleep(_LOOKS_S)


def _last_line(log: Path) -> str:
    with open_regular(log) as file:
        file.seek(max(os.fstat(file.fileno()).st_size - _LOG_BYTES, 0))
        lines: list[str] = file.read().decode(errors="replace").strip().splitlines()
    return printable(lines[-1]) if lines else "without a word"


def await_end(name: str) -> None:
    """Waits until a service of this machine has ended."""
    deadline = time.monotonic() + _ENDS_S
    while _file(name).exists() and time.monotonic() < deadline:
        time.sleep(_LOOKS_S)


def write_address(name: str, address: str) -> None:
    """Says where a service lives, to this user alone."""
    path = _file(name)
    scratch = path.with_suffix(f".{os.getpid()}")
    scratch.unlink(missing_ok=True)
    scratch.touch(mode=0o600, exist_ok=False)
    with open_regular(scratch, "w") as file:
        file.write(json.dumps({"address": address, "process": os.getpid()}) + "\n")
    scratch.replace(path)


def remove_address(name: str) -> None:
    """A service lives no more."""
    _file(name).unlink(missing_ok=True)


def _file(name: str) -> Path:
    return directory() / f"{check_name(name)}.json"
