"""What a remote worker needs from its node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import ray

_MANY = 1024  # workers of a node, where they need nothing


@dataclass(frozen=True)
class WorkerNeeds:
    """Of each worker; Ray places it where all of this is free.

    Attributes:
        num_cpus: CPUs, of one node.
        resources: Others, by name.
        label_selector: Labels of the nodes that may be used, e.g. of one type of CPU; None for any node.
        env_vars: Variables of its process.
        max_restarts: How often Ray starts it again when it dies; -1 for as often as needed.
        is_reserved: Whether a placement group around the driver, as Tune makes one for each trial, holds
            resources for it. Otherwise it runs wherever there is room.
    """

    num_cpus: float = 1
    resources: Mapping[str, float] = field(default_factory=dict)
    label_selector: Mapping[str, str] | None = None
    env_vars: Mapping[str, str] = field(default_factory=dict)
    max_restarts: int = -1
    is_reserved: bool = False

    def options(self) -> dict[str, Any]:
        """The same as options of a Ray actor."""
        found: dict[str, Any] = {"num_cpus": self.num_cpus, "max_restarts": self.max_restarts}
        if self.resources:
            found["resources"] = dict(self.resources)
        if self.label_selector:
            found["label_selector"] = dict(self.label_selector)
        if self.env_vars:
            found["runtime_env"] = {"env_vars": dict(self.env_vars)}
        if not (self.is_reserved and ray.util.get_current_placement_group()):
            # Inside a placement group an actor without a strategy could only use what the group holds.
            found["scheduling_strategy"] = "SPREAD"
        return found

    def number_in(self, resources: Mapping[str, float]) -> int:
        """How many such workers the resources of one node are enough for."""
        wanted = {"CPU": self.num_cpus, **self.resources}
        return min(
            (int(resources.get(name, 0.0) / amount) for name, amount in wanted.items() if amount),
            default=_MANY,
        )

    def __str__(self) -> str:
        others = (f"{amount:g} {name}" for name, amount in self.resources.items())
        return ", ".join([f"{self.num_cpus:g} CPU", *others])
