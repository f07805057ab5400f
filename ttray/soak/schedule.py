"""When something happens to whom: a function of the seed alone, so that a soak can be repeated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ttray.boundary.fields import check_count, check_positive

KILL, STOP, LOSE_NODE, KILL_CLIENT = "kill", "stop", "lose node", "kill client"
_SHARES = {KILL: 0.7, STOP: 0.2, LOSE_NODE: 0.1, KILL_CLIENT: 0.3}
_SHORTEST_STOP_S, _LONGEST_STOP_S = 2.0, 15.0


@dataclass(frozen=True)
class Disturbance:
    """Something that is to happen.

    Attributes:
        at_s: When, in seconds after the start.
        kind: `KILL` or `STOP` an env runner, `LOSE_NODE`, or `KILL_CLIENT` of a service.
        victim: Which one, as a place from 0 to 1 in the row of those that are alive then.
        stop_s: For how long, if it is stopped.
    """

    at_s: float
    kind: str
    victim: float
    stop_s: float = 0.0

    def among(self, number: int) -> int:
        """Whom it hits, if so many are alive."""
        return int(self.victim * number)


@dataclass(frozen=True)
class Schedule:
    """An endless row of disturbances; the same for the same values, however often it is gone through.

    Attributes:
        seed: Of everything random in it.
        every_s: Mean time from one disturbance to the next; they come independently of each other.
        loses_nodes: Whether there are nodes to lose.
        kills_clients: Whether there are clients of a service to kill.
        stop_s: The shortest and the longest stop.
    """

    seed: int
    every_s: float
    loses_nodes: bool = False
    kills_clients: bool = False
    stop_s: tuple[float, float] = (_SHORTEST_STOP_S, _LONGEST_STOP_S)

    def __post_init__(self) -> None:
        check_count("seed", self.seed, 0)
        check_positive("every_s", self.every_s)

    def __iter__(self) -> Iterator[Disturbance]:
        stream = np.random.default_rng([self.seed, 0x50A])  # other numbers than the run of this seed has
        absent = {LOSE_NODE: not self.loses_nodes, KILL_CLIENT: not self.kills_clients}
        kinds = [kind for kind in _SHARES if not absent.get(kind, False)]
        shares = np.array([_SHARES[kind] for kind in kinds])
        at_s = 0.0
        while True:
            at_s += stream.exponential(self.every_s)
            kind = kinds[stream.choice(len(kinds), p=shares / shares.sum())]
            victim, stop_s = stream.random(), stream.uniform(*self.stop_s)
            yield Disturbance(at_s, kind, victim, stop_s if kind == STOP else 0.0)
