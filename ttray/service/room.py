"""Counts how many workers fit on the nodes that they may use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import ray

from ttray.service.waiting import NoAnswerError, ask
from ttray.service.worker_needs import WorkerNeeds


class Room(NamedTuple):
    """For how many workers there is room, and for how many more."""

    total: int
    free: int


def room(needs: WorkerNeeds | None = None) -> Room:
    """For workers with these needs; for those of one CPU unless given.

    What is free is known of the whole cluster only. Where some nodes may not be used, or a worker needs
    several CPUs, it may be less: a worker for which there is no room waits until there is.

    Raises:
        NoAnswerError: Ray does not tell it.
    """
    nodes, available = ask("how many CPUs are free", lambda: (ray.nodes(), ray.available_resources()))
    needs = needs or WorkerNeeds()
    allowed = [
        node for node in nodes if node["Alive"] and has_labels(node["Labels"], needs.label_selector or {})
    ]
    total = sum(needs.number_in(node["Resources"]) for node in allowed)
    return Room(total, min(total, needs.number_in(available)))


def cpus_told() -> str:
    """How many CPUs there are, in words."""
    try:
        total, free = room()
    except NoAnswerError as problem:
        return str(problem)
    return f"The cluster has {total} CPUs, and {free} of them are free"


def has_labels(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    """Whether a node's labels are those of a selector, read as Ray does: VALUE, in(A,B), !VALUE, !in(A,B)."""
    return all(_selects(wanted, labels.get(label)) for label, wanted in selector.items())


def _selects(wanted: str, found: str | None) -> bool:
    values = wanted.removeprefix("!")
    if values.startswith("in(") and values.endswith(")"):
        is_in = found in [value.strip() for value in values[len("in(") : -1].split(",")]
    else:
        is_in = found == values
    return is_in != wanted.startswith("!")
