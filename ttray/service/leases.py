"""Leases: which client has which worker of a service, and who is next. Nothing here knows Ray.

A client says how many workers it could use and which it has, and is answered when that changes. While
somebody waits, a worker comes back after each quota and goes to whoever has had the fewest quotas for its
priority; else it stays where it is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ttray.service.lease_clients import Client
from ttray.service.lease_terms import Hands, Lent, Loan, OnLoan, Wish

_GONE_S = 5.0  # without a word of a client that has workers, or waits for some
_FORGOTTEN_S = 600.0  # without a word of one that rests
_HANGS_S = 3.0  # without a sign of life of a worker whose client is gone: nobody waits for what it does
_LINGERS_S = (
    30.0  # the same where the client lives, and has left a copy that was late: to start anew costs more
)
_ASK_AGAIN_S = 0.2


@dataclass(eq=False)
class _Worker:
    """A worker.

    Attributes:
        sign: Its last sign of life; None of a process that has given none.
        is_free: Whether it has given it since somebody had it, and nobody has it now.
        asked: Since when it is asked for one; None if it is not.
        patience_s: For how long.
        ask_at: When to ask it again.
        client: Who has it.
        lease: The last one.
        modules: Own code that its process has loaded.
        num_asked: How often it was asked: an answer to an earlier question counts no more.
    """

    sign: Any = None
    is_free: bool = False
    asked: float | None = None
    patience_s: float = _LINGERS_S
    ask_at: float | None = None
    client: str | None = None
    lease: int = 0
    modules: dict[str, str] = field(default_factory=dict)
    num_asked: int = 0
    num_restarts: int = 0

    def forget_process(self) -> None:
        """Its process has ended."""
        self.num_restarts += self.sign is not None
        self.sign, self.is_free, self.asked, self.modules = None, False, None, {}


def _whose_turn(client: Client) -> tuple[float, float]:
    """Whose is the smallest is next; of several, who waits for longest."""
    return client.turn, float("inf") if client.waits_since is None else client.waits_since


class Leases:
    """Lends workers to clients; may be called by any thread.

    Args:
        number: Of workers.
        hands: What is done to them.
        most: Workers that one client may have at once; None for all.
        expires: Whether clients that say nothing for long are gone; else they say so themselves.
        is_second: Whether clients of a predecessor may have workers: then nothing is lent before they can
            have said so.
        clock: Seconds.
    """

    def __init__(
        self,
        number: int,
        hands: Hands,
        *,
        most: int | None = None,
        expires: bool = True,
        is_second: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hands, self._expires, self._clock = hands, expires, clock
        self._most = min(most or number, number)
        self._clients: dict[str, Client] = {}
        self._workers = {worker: _Worker() for worker in range(number)}
        self._lease = time.time_ns()  # a predecessor's are smaller
        self._served = 0.0  # the latest turn that was somebody's
        self._lends_from = clock() + (_GONE_S / 2 if is_second else 0.0)
        self._lock = threading.RLock()
        self._answers: list[tuple[OnLoan, Loan]] = []
        with self._changing():
            for worker in self._workers:
                self._ask(worker)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Something changes; then free workers are lent, and those whom it concerns are answered."""
        with self._lock:
            yield
            self._lend_all()
            self._tell_all()
            answers, self._answers = self._answers, []
        for on_loan, loan in answers:  # not within: they may wish for something
            on_loan(loan)

    def wish(self, wish: Wish, on_loan: OnLoan) -> None:
        """Hears a client; answers it once, when there is something that it has not been told."""
        with self._changing():
            client = self._clients.get(wish.client)
            if client is None:
                client = Client(wish)
                client.handicap = self._present() - client.turn
                self._clients[wish.client] = client
            elif wish.number < client.wish.number:
                self._answers.append((on_loan, self._loan(client)))
                return
            elif not client.is_active:
                client.handicap += max(self._present() - client.turn, 0.0)
            self._answer(client)  # the question before, if it is open
            client.wish, client.heard, client.on_loan = wish, self._clock(), on_loan
            self._served = max(self._served, client.turn)
            self._take_back(client)
            self._take_over(client)

    def answer_now(self, wish: Wish) -> None:
        """Answers a wish though nothing has changed: the client says it again, and so is known to live."""
        with self._changing():
            client = self._clients.get(wish.client)
            if client is not None and client.wish.number == wish.number:
                self._answer(client)

    def forget(self, name: str) -> None:
        """Takes back all that a client has: it is gone."""
        with self._changing():
            self._forget(name)

    def tick(self) -> None:
        """Looks at what time does: to be called several times a second."""
        with self._changing():
            now = self._clock()
            for name, client in list(self._clients.items()):
                limit = _GONE_S if client.is_active else _FORGOTTEN_S
                if self._expires and now - client.heard > limit:
                    self._forget(name)
            for number, worker in self._workers.items():
                waited_s = 0.0 if worker.asked is None or worker.sign is None else now - worker.asked
                if waited_s > worker.patience_s:
                    self._restart(number)
                elif worker.ask_at is not None and worker.ask_at <= now:
                    self._ask(number)

    def status(self) -> dict[str, Any]:
        """What there is to know, as plain values."""
        with self._lock:
            return {
                "workers": [self._about_worker(number) for number in self._workers],
                "clients": [self._about_client(client) for client in self._clients.values()],
            }

    def _about_worker(self, number: int) -> dict[str, Any]:
        worker = self._workers[number]
        has = None if worker.client is None else self._clients[worker.client].wish.about
        state = "lent" if has else "idle" if worker.is_free else "asked" if worker.sign else "starting"
        process, host = worker.sign[:2] if worker.sign else (None, None)
        return {
            "worker": number,
            "state": state,
            "process": process,
            "host": host,
            "client": has,
            "num_restarts": worker.num_restarts,
        }

    def _about_client(self, client: Client) -> dict[str, Any]:
        now, wish = self._clock(), client.wish
        state = "collecting" if client.num_lent else "waiting" if wish.wanted else "resting"
        waits_s = 0.0 if client.waits_since is None else now - client.waits_since
        return {
            "client": wish.about,
            "state": state,
            "priority": wish.priority,
            "num_workers": client.num_lent,
            "num_wanted": wish.wanted,
            "num_quotas": wish.num_quotas,
            "num_leases": client.num_leases,
            "waits_s": waits_s,
            "waited_s": client.waited_s + waits_s,
            "longest_wait_s": max(client.longest_wait_s, waits_s),
            "heard_s_ago": now - client.heard,
        }

    def _present(self) -> float:
        """The turn of somebody who comes now."""
        return min((each.turn for each in self._clients.values() if each.is_active), default=self._served)

    def _take_back(self, client: Client) -> None:
        """Workers that it had, and has no more; one that it has not yet heard of is not missing."""
        wish = client.wish
        for number, worker in self._workers.items():
            is_known = worker.lease <= wish.seen or not wish.wanted
            if worker.client == wish.client and is_known and number not in wish.held:
                self._free(number)

    def _take_over(self, client: Client) -> None:
        """Workers that a predecessor has lent to it."""
        if self._clock() < self._lends_from:
            for number in client.wish.held & self._workers.keys():
                if self._workers[number].client is None:
                    self._lend(number, client)

    def _forget(self, name: str) -> None:
        # Out of the list first: a worker that answers at once must not be lent to it again.
        if client := self._clients.pop(name, None):
            for number, worker in self._workers.items():
                if worker.client == name:
                    worker.patience_s = _HANGS_S
                    self._free(number)
            self._answer(client)

    def _free(self, number: int) -> None:
        worker = self._workers[number]
        if worker.client in self._clients:  # else it is being forgotten
            self._clients[worker.client].num_lent -= 1
        worker.client = None
        self._ask(number)

    def _ask(self, number: int) -> None:
        """Asks for a sign of life. Whoever is at something gives it when that is done."""
        worker = self._workers[number]
        worker.is_free, worker.asked, worker.ask_at = False, self._clock(), None
        worker.num_asked += 1
        question = worker.num_asked
        self._hands.ping(number, lambda answer: self._hear(number, question, answer))

    def _hear(self, number: int, question: int, answer: Any) -> None:
        with self._changing():
            worker = self._workers[number]
            if worker.num_asked != question:
                return
            if isinstance(answer, Exception):
                worker.forget_process()
                worker.ask_at = self._clock() + _ASK_AGAIN_S
                return
            if answer != worker.sign:  # another process, which has loaded nothing
                worker.forget_process()
            worker.sign, worker.asked, worker.is_free = answer, None, worker.client is None
            worker.patience_s = _LINGERS_S

    def _restart(self, number: int) -> None:
        self._workers[number].forget_process()
        self._hands.restart(number)
        self._ask(number)

    def _waits(self, client: Client) -> bool:
        return client.num_lent < min(client.wish.wanted, self._most)

    def _lend_all(self) -> None:
        """Lends what is free to those whose turn it is."""
        while self._clock() >= self._lends_from and self._lend_one():
            pass

    def _lend_one(self) -> bool:
        """Lends a worker, if one is free and suits somebody; else starts one anew for who has none."""
        free = [number for number, worker in self._workers.items() if worker.is_free]
        waiting = [each for each in self._clients.values() if self._waits(each)]
        for client in sorted(waiting, key=_whose_turn):
            for number in free:
                if self._suits(number, client):
                    self._lend(number, client)
                    return True
        if free and waiting and all(worker.sign for worker in self._workers.values()):
            self._restart(free[0])
        return False

    def _suits(self, number: int, client: Client) -> bool:
        """Whether a worker has loaded no other code under the same names."""
        loaded = self._workers[number].modules
        return all(loaded.get(name, digest) == digest for name, digest in client.wish.modules.items())

    def _lend(self, number: int, client: Client) -> None:
        worker = self._workers[number]
        self._lease += 1
        worker.client, worker.lease, worker.is_free = client.wish.client, self._lease, False
        worker.modules |= client.wish.modules
        client.num_lent += 1
        client.num_leases += 1

    def _tell_all(self) -> None:
        now = self._clock()
        for client in self._clients.values():
            if client.num_lent or not client.wish.wanted:
                if client.waits_since is not None:
                    waited_s, client.waits_since = now - client.waits_since, None
                    client.waited_s += waited_s
                    client.longest_wait_s = max(client.longest_wait_s, waited_s)
            elif client.waits_since is None:
                client.waits_since = now
            if client.on_loan is not None and self._loan(client) != client.told:
                self._answer(client)

    def _loan(self, client: Client) -> Loan:
        name = client.wish.client
        has = {n: Lent(each.lease, each.sign) for n, each in self._workers.items() if each.client == name}
        return Loan(
            has,
            any(self._waits(each) for each in self._clients.values() if each is not client),
            self._most,
            sum(each.sign is not None for each in self._workers.values()),
        )

    def _answer(self, client: Client) -> None:
        if client.on_loan is not None:
            client.told = self._loan(client)
            self._answers.append((client.on_loan, client.told))
            client.on_loan = None
