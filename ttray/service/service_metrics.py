"""What a service tells Ray's metrics: who works, who waits, and for how long."""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import ray
from ray.util.metrics import Gauge

_WORKER_STATES = ("starting", "asked", "idle", "lent")
_CLIENT_STATES = ("waiting", "collecting", "resting")


class ServiceMetrics:
    """Gauges of a service, set from its status.

    Args:
        name: Of the service.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    @cached_property
    def _workers(self) -> Gauge:
        return Gauge("ttray_service_workers", "Workers of a service", tag_keys=("service", "state"))

    @cached_property
    def _clients(self) -> Gauge:
        return Gauge("ttray_service_clients", "Clients of a service", tag_keys=("service", "state"))

    @cached_property
    def _longest_wait(self) -> Gauge:
        return Gauge(
            "ttray_service_longest_wait_seconds",
            "The longest that a client of a service waits for a worker now",
            tag_keys=("service",),
        )

    def record(self, status: Mapping[str, Any]) -> None:
        """Sets the gauges; does nothing without a Ray."""
        if not ray.is_initialized():
            return
        tags = {"service": self._name}
        for gauge, states, found in (
            (self._workers, _WORKER_STATES, status["workers"]),
            (self._clients, _CLIENT_STATES, status["clients"]),
        ):
            number = Count(each["state"] for each in found)
            for state in states:
                gauge.set(number[state], tags | {"state": state})
        self._longest_wait.set(max((each["waits_s"] for each in status["clients"]), default=0.0), tags)
