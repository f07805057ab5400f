"""Clients of a service, as far as whoever lends workers knows them."""

from __future__ import annotations

from dataclasses import dataclass

from ttray.service.lease_terms import Loan, OnLoan, Wish


@dataclass(eq=False)
class Client:
    """A client, as far as it is known.

    Attributes:
        wish: What it said last.
        on_loan: Waits for an answer, if anybody does.
        told: What it was answered last.
        handicap: Quotas that count as answered to it: who comes late does not catch up.
        heard: When it said something.
        waits_since: Since when it waits for its first worker; None if it does not.
    """

    wish: Wish
    on_loan: OnLoan | None = None
    told: Loan | None = None
    handicap: float = 0.0
    heard: float = 0.0
    waits_since: float | None = None
    waited_s: float = 0.0
    longest_wait_s: float = 0.0
    num_lent: int = 0
    num_leases: int = 0

    @property
    def is_active(self) -> bool:
        """Whether it has workers, or wants some."""
        return self.wish.wanted > 0 or self.num_lent > 0

    @property
    def turn(self) -> float:
        """Whose is the smallest is next: quotas so far, and those that it is at, for its priority."""
        return self.handicap + (self.wish.num_quotas + self.num_lent) / self.wish.priority
