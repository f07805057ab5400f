"""What a client of a service and its leases say to each other, as values that travel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class Wish:
    """What a client says: all that it knows, so that one that is lost or comes twice does no harm.

    Attributes:
        client: Its name, which no other has.
        number: Of this message: a later one replaces those before.
        about: Who it is, for people.
        priority: Its share, beside that of others.
        wanted: How many workers it could use now, those that it has included.
        held: The workers that it has.
        seen: The newest lease that it knows of.
        num_quotas: Answered to it so far.
        modules: Own code that its quotas need: digests of the sources by module.
    """

    client: str
    number: int
    about: str
    priority: float
    wanted: int
    held: frozenset[int]
    seen: int
    num_quotas: int
    modules: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Lent:
    """A worker that a client has.

    Attributes:
        lease: Number of the lease; later ones are larger.
        sign: The worker's sign of life.
    """

    lease: int
    sign: Any


@dataclass(frozen=True)
class Loan:
    """What a client is answered.

    Attributes:
        lent: The workers that it has, by number.
        others_wait: Whether a worker is to come back after each quota.
        most: Workers that it may have at once.
        num_alive: Workers that have answered since they were started, whoever has them.
    """

    lent: Mapping[int, Lent]
    others_wait: bool
    most: int
    num_alive: int


OnLoan = Callable[[Loan], None]


class Hands(Protocol):
    """What is done to workers."""

    def ping(self, worker: int, on_answer: Callable[[Any], None]) -> None:
        """Asks for a sign of life; `on_answer` gets it, or an exception, from any thread."""

    def restart(self, worker: int) -> None:
        """Ends a worker's process; another one takes its place."""
