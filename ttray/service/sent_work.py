"""Work for a worker that stays: what it has already, an environment or a policy, need not be sent again."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import ray
from ray import cloudpickle

from ttray.rollout.environment import EnvironmentMaker
from ttray.service.own_code import own_directories
from ttray.service.waiting import fetch
from ttray.service.worker import Work

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Sealed:
    """A value as bytes in the object store, and their digest: who has it need not open it.

    Attributes:
        digest: Of the bytes.
        where: A reference to them, in a list: so Ray brings them only to who asks.
    """

    digest: str
    where: list[ray.ObjectRef]

    def content(self, what: str) -> bytes:
        """The bytes, from wherever they are."""
        found: bytes = fetch(what, self.where[0])
        return found


@dataclass(frozen=True)
class SentWork:
    """A work without its policy and its environment, and where these are.

    Attributes:
        work: Without its policy.
        policy: The policy.
        maker: Of the environments.
        modules: Own code that they need: digests of the sources by module.
        directories: Where to look for it.
    """

    work: Work
    policy: Sealed
    maker: Sealed
    modules: dict[str, str]
    directories: list[str]

    def whole(self, policy: Any) -> Work:
        """The work with its policy."""
        return replace(self.work, policy=policy)

    def open(self) -> Work:
        """The same for somebody who has nothing yet."""
        return self.whole(cloudpickle.loads(self.policy.content("a policy")))


class Seals:
    """What one process has sealed: the same value is put into the object store once."""

    def __init__(self, number: int = 16) -> None:
        self._known: Recent[Sealed] = Recent(number)
        self._makers: Recent[EnvironmentMaker] = Recent(number)

    def pack(self, work: Work, maker: EnvironmentMaker, modules: dict[str, str]) -> SentWork:
        """What is sent of a work, and of the own code that it needs."""
        bare = replace(work, policy=None)  # type: ignore[arg-type]  # it is put back before anybody looks
        policy, made = self._seal(work.policy), self._seal(_without_facts(maker))
        return SentWork(bare, policy, made, modules, own_directories())

    def same(self, maker: EnvironmentMaker, modules: Mapping[str, str]) -> EnvironmentMaker:
        """The maker of the same environments that came before and knows their facts; else this one."""
        return self._makers.get(self.digest_of_maker(maker, modules), lambda: maker)

    def digest_of_maker(self, maker: EnvironmentMaker, modules: Mapping[str, str]) -> str:
        """By which its environments are known: of itself, and of the own code that is loaded."""
        return digest_of((_without_facts(maker), sorted(modules.items())))

    def _seal(self, value: Any) -> Sealed:
        content = cloudpickle.dumps(value)
        digest = hashlib.sha256(content).hexdigest()
        return self._known.get(digest, lambda: Sealed(digest, [ray.put(content)]))


def _without_facts(maker: EnvironmentMaker) -> EnvironmentMaker:
    """The same, as if nobody had asked it for facts: they would be a part of its digest."""
    return replace(maker)


def digest_of(value: Any) -> str:
    """Of the bytes as which a value travels."""
    return hashlib.sha256(cloudpickle.dumps(value)).hexdigest()


class Recent(Generic[_Value]):
    """The values that were asked for last.

    Args:
        number: How many to keep.
        on_end: Told each that is let go.
    """

    def __init__(self, number: int, on_end: Callable[[_Value], None] = lambda _: None) -> None:
        self._number, self._on_end = number, on_end
        self._values: OrderedDict[str, _Value] = OrderedDict()

    def get(self, key: str, make: Callable[[], _Value]) -> _Value:
        """The value of a key, made if it is not there."""
        if key not in self._values:
            self._values[key] = make()
            while len(self._values) > self._number:
                self._on_end(self._values.popitem(last=False)[1])
        self._values.move_to_end(key)
        return self._values[key]

    def clear(self) -> None:
        """Lets all of them go."""
        while self._values:
            self._on_end(self._values.popitem()[1])
