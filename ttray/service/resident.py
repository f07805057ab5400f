"""The process that holds the Ray of a service where there is no cluster, until the service is stopped."""

from __future__ import annotations

import json
import os
import sys
import time

import ray

from ttray.service.connection import quieten, start_embedded
from ttray.service.residents import remove_address, write_address
from ttray.service.service_actor import NAMESPACE
from ttray.service.warm_service import Service

_LOOKS_S = 0.5


def main(name: str, options: str) -> None:
    """Starts a Ray and a service on it, and ends with the service.

    Args:
        name: Of the service.
        options: Arguments of `Service.start`, as JSON.
    """
    given = json.loads(options)
    start_embedded(max(os.cpu_count() or 1, given["num_env_runners"]))
    quieten()
    Service.start(name, **given)
    write_address(name, str(ray.get_runtime_context().gcs_address))
    try:
        while _is_there(name):
            time.sleep(_LOOKS_S)
    finally:
        remove_address(name)
        ray.shutdown()


def _is_there(name: str) -> bool:
    try:
        ray.get_actor(name, namespace=NAMESPACE)
    except ValueError:
        return False
    return True


if __name__ == "__main__":
    main(*sys.argv[1:])
