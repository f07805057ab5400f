"""Who has which worker, and who is next: with a clock that is set, and workers that answer when told."""

from collections import Counter
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttray.service.lease_terms import Wish
from ttray.service.leases import Leases


class Hands:
    """Workers that answer at once, unless they are busy."""

    def __init__(self):
        self.busy, self.restarted, self.open = set(), [], {}
        self.signs = Counter()

    def ping(self, worker, on_answer):
        self.open[worker] = on_answer

    def restart(self, worker):
        self.restarted.append(worker)
        self.signs[worker] += 1
        self.busy.discard(worker)

    def answer(self):
        for worker in sorted(self.open.keys() - self.busy):
            self.open.pop(worker)((worker, self.signs[worker], "build"))


class Client:
    """A client that says what it wants, and what it was told."""

    def __init__(self, shop, name, priority=1.0, modules=None):
        self.shop, self.name, self.priority, self.modules = shop, name, priority, modules or {}
        self.numbers, self.lent, self.seen, self.done, self.wanted = count(1), {}, 0, 0, 0
        self.others_wait = False

    def wish(self, wanted):
        self.wanted = wanted
        self._say()
        self.shop.hands.answer()

    def _say(self):
        wish = Wish(
            self.name,
            next(self.numbers),
            self.name,
            self.priority,
            self.wanted,
            frozenset(self.lent),
            self.seen,
            self.done,
            self.modules,
        )
        self.latest = wish.number
        self.shop.leases.wish(wish, lambda loan: self.hear(wish.number, loan))

    def hear(self, number, loan):
        self.lent = dict(loan.lent)
        self.seen = max([self.seen, *(each.lease for each in loan.lent.values())])
        self.others_wait = loan.others_wait
        if self.wanted and number == self.latest:
            self._say()

    def finish_quota(self):
        """One of its workers answers, and goes back if somebody waits."""
        if self.lent:
            self.done += 1
            if self.others_wait:
                self.lent.pop(min(self.lent))
            self.wish(self.wanted)


class Shop:
    def __init__(self, number, **options):
        self.now, self.hands = 0.0, Hands()
        self.leases = Leases(number, self.hands, clock=lambda: self.now, **options)
        self.hands.answer()

    def later(self, seconds):
        self.now += seconds
        self.leases.tick()
        self.hands.answer()


def states(shop):
    return [each["state"] for each in shop.leases.status()["workers"]]


def test_one_client_has_all_workers_and_keeps_them():
    shop = Shop(3)
    alone = Client(shop, "alone")
    alone.wish(5)
    leases = dict(alone.lent)
    assert sorted(leases) == [0, 1, 2]
    for _ in range(10):
        alone.finish_quota()
    assert alone.lent == leases
    alone.lent = {}
    alone.wish(0)
    assert states(shop) == ["idle"] * 3


@settings(max_examples=25)
@given(
    st.integers(1, 4),
    st.lists(st.sampled_from([0.5, 1.0, 2.0, 4.0]), min_size=2, max_size=4),
    st.randoms(use_true_random=False),
)
def test_quotas_are_shared_by_priority_whoever_is_quicker(number, priorities, random):
    shop = Shop(number)
    clients = [Client(shop, str(name), priority) for name, priority in enumerate(priorities)]
    for client in clients:
        client.wish(number)
    before = [client.done for client in clients]
    for _ in range(100):
        random.choice([client for client in clients if client.lent]).finish_quota()
        taken = [worker for client in clients for worker in client.lent]
        assert len(taken) == len(set(taken))
    shares = [(client.done - was) / client.priority for client, was in zip(clients, before, strict=True)]
    # Nobody is further ahead than by the quotas that may be under way at once, however many there were.
    assert max(shares) - min(shares) <= 2 * (number + 1) / min(priorities)


def test_who_comes_late_does_not_catch_up_and_does_not_wait_for_long():
    shop = Shop(1)
    first, second = Client(shop, "first"), Client(shop, "second")
    first.wish(1)
    for _ in range(100):
        first.finish_quota()
    second.wish(1)
    for _ in range(20):
        next(each for each in (first, second) if each.lent).finish_quota()
    assert second.done == pytest.approx(first.done - 100, abs=2)


def test_who_had_much_while_alone_does_not_starve_when_it_comes_back():
    shop = Shop(1)
    first, second = Client(shop, "first"), Client(shop, "second")
    first.wish(1)
    for _ in range(1000):
        first.finish_quota()
    first.lent = {}
    first.wish(0)
    second.wish(1)
    first.wish(1)
    for _ in range(20):
        next(each for each in (first, second) if each.lent).finish_quota()
    assert first.done - 1000 == pytest.approx(second.done, abs=2)


def test_a_limit_leaves_workers_idle_for_others():
    shop = Shop(4, most=2)
    first, second = Client(shop, "first"), Client(shop, "second")
    first.wish(4)
    assert len(first.lent) == 2
    assert not first.others_wait
    second.wish(4)
    assert len(second.lent) == 2
    assert not first.others_wait


def test_a_client_that_says_nothing_more_loses_its_workers_and_one_that_hangs_is_started_anew():
    shop = Shop(2)
    dead, heir = Client(shop, "dead"), Client(shop, "heir")
    dead.wish(2)
    dead.hear = lambda number, loan: None
    shop.hands.busy = {1}
    heir.wish(2)
    for _ in range(12):
        shop.later(0.5)
        heir.wish(2)
    assert 0 in heir.lent
    for _ in range(12):
        shop.later(0.5)
        heir.wish(2)
    assert shop.hands.restarted == [1]
    assert sorted(heir.lent) == [0, 1]
    assert [each["client"] for each in shop.leases.status()["clients"]] == ["heir"]


def test_a_worker_that_is_still_at_a_late_copy_is_given_time():
    shop = Shop(1)
    client = Client(shop, "client")
    client.wish(1)
    client.lent, shop.hands.busy = {}, {0}
    client.wish(0)
    for _ in range(40):
        shop.later(0.5)
    assert shop.hands.restarted == []
    for _ in range(30):
        shop.later(0.5)
    assert shop.hands.restarted == [0]


def test_a_lease_that_its_client_has_not_heard_of_is_not_taken_back():
    shop = Shop(2)
    client = Client(shop, "slow")
    client.hear = lambda number, loan: None  # the answer is on its way
    client.wish(2)
    client.wish(2)
    assert states(shop) == ["lent"] * 2
    client.wish(0)
    assert states(shop) == ["idle"] * 2


def test_a_message_that_was_overtaken_changes_nothing():
    shop = Shop(1)
    client = Client(shop, "client")
    client.wish(1)
    late = Wish("client", 0, "client", 1.0, 0, frozenset(), 0, 0)
    told = []
    shop.leases.wish(late, told.append)
    assert states(shop) == ["lent"]
    assert list(told[0].lent) == [0]


def test_a_successor_learns_from_clients_what_they_have_before_it_lends():
    shop = Shop(2, is_second=True)
    old, new = Client(shop, "old"), Client(shop, "new")
    old.lent = {1: None}
    new.wish(2)
    assert new.lent == {}
    old.wish(2)
    assert list(old.lent) == [1]
    shop.later(3.0)
    assert list(new.lent) == [0]


def test_a_worker_that_has_loaded_other_code_of_the_same_name_is_started_anew():
    shop = Shop(1)
    before, after = (
        Client(shop, "before", modules={"mine": "1"}),
        Client(shop, "after", modules={"mine": "2"}),
    )
    before.wish(1)
    before.lent = {}
    before.wish(0)
    others = Client(shop, "others", modules={"theirs": "1"})
    others.wish(1)
    assert list(others.lent) == [0]
    others.lent = {}
    others.wish(0)
    assert shop.hands.restarted == []
    after.wish(1)
    shop.hands.answer()
    assert shop.hands.restarted == [0]
    assert list(after.lent) == [0]


def test_waiting_is_told():
    shop = Shop(1)
    has, waits = Client(shop, "has"), Client(shop, "waits")
    has.wish(1)
    waits.wish(1)
    assert has.others_wait
    shop.now += 2.0
    has.finish_quota()
    found = {each["client"]: each for each in shop.leases.status()["clients"]}
    assert (found["has"]["state"], found["waits"]["state"]) == ("waiting", "collecting")
    assert found["waits"]["waited_s"] == found["waits"]["longest_wait_s"] == 2.0
