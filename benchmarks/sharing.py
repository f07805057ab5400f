"""Two trainings and an evaluation at once through one service of two workers: what each gets, and its bits.

Each client is a process of its own. First they are alone, one after the other; then together; then together
again until the evaluation is killed. All begin anew each time, so what they find must have the bits that it
had alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import ray

from benchmarks.report import Finding, Reporter, Result
from ttray.runs.drawing import PALETTE, subplots
from ttray.service.connection import connect
from ttray.service.warm_service import Service

NUM_WORKERS = 2
CLIENTS = {"training 1": ("train", 1), "training 2": ("train", 2), "evaluation": ("evaluate", 3)}
_VICTIM = "evaluation"
_NAME = f"sharing-{os.getpid()}"
_LOOKS_S = 0.05
_PATIENCE_S = 120.0  # with what takes seconds
_FREE_S = 10.0  # five until silence is noticed, three for a quota that goes on


class Word(NamedTuple):
    """What a client tells of a batch: when, its steps so far, and what it has found, to the last bit."""

    time_s: float
    num_steps: int
    found: str


class Client:
    """A client in a process of its own, and what it tells.

    Args:
        kind: Of its work, see `sharing_client`.
        seed: Of it.
    """

    def __init__(self, kind: str, seed: int) -> None:
        more = {
            "RAY_ADDRESS": ray.get_runtime_context().gcs_address,
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # an embedded one listens on the loopback
            "PYTHONPATH": str(Path(__file__).parents[1]),
        }
        self.words: list[Word] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.sharing_client", _NAME, kind, str(seed)],
            env=os.environ | more,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._rests = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if (told := json.loads(line)) is None:
                self._rests.set()
            else:
                self.words.append(Word(*told))

    def begin(self) -> None:
        """Has it begin anew."""
        self._rests.clear()
        self.words = []
        self._say("begin")

    def end(self) -> None:
        """Has it end with its next batch."""
        self._say("end")
        self.await_rest()

    def await_rest(self) -> None:
        """Waits until it has ended, or loaded everything."""
        _until(lambda: self._rests.is_set() or self.process.poll() is not None)
        if not self._rests.is_set():
            raise RuntimeError(f"a client does not answer; its status is {self.process.poll()}")

    def _say(self, word: str) -> None:
        assert self.process.stdin is not None
        print(word, file=self.process.stdin, flush=True)

    def has(self, worker: Mapping[str, Any]) -> bool:
        """Whether a worker is lent to it."""
        return str(worker["client"]).endswith(f" process {self.process.pid}")

    def kill(self) -> None:
        """Ends the process, with nothing that it could do about it."""
        self.process.kill()
        self.process.wait()


def run(alone_s: float = 8.0, together_s: float = 20.0, killed_s: float = 5.0) -> Result:
    """Measures all of it.

    Args:
        alone_s: Of each client with the service to itself.
        together_s: Of all at once.
        killed_s: Of all at once again, before one of them is killed, and after its workers are free.
    """
    report = Reporter("sharing", "Three clients of one service of two workers")
    connect(NUM_WORKERS)
    with _service(), _clients() as clients:
        alone = {name: _alone(client, alone_s) for name, client in clients.items()}
        shares = _together(clients, together_s)
        for name, client in clients.items():
            report.add(*_findings(name, alone[name], client.words, shares[name]))
        killed_at, freed_at, num_left = _kill_one(clients, killed_s)
        killed = {name: client.words for name, client in clients.items()}
    case = f"the {_VICTIM} killed"
    report.add(Finding(case, "its workers free, s", (freed_at - killed_at,), at_most=_FREE_S))
    report.add(Finding(case, "left behind", (float(num_left),), at_most=0.0))
    for name, words in killed.items():
        report.add(Finding(case, f"bits, {name}", (_is_same(alone[name], words),), at_least=1.0))
        if name != _VICTIM:
            report.add(Finding(case, f"silence, {name}, s", (_longest_silence_s(words),)))
    points = {
        name: [(word.time_s - killed_at, word.num_steps) for word in words] for name, words in killed.items()
    }
    return report.result({"killed": points, "freed_s": freed_at - killed_at})


@contextmanager
def _service() -> Iterator[None]:
    Service.start(_NAME, NUM_WORKERS)
    try:
        yield
    finally:
        Service.stop(_NAME)


@contextmanager
def _clients() -> Iterator[dict[str, Client]]:
    clients = {name: Client(*work) for name, work in CLIENTS.items()}
    try:
        for client in clients.values():
            client.await_rest()
        yield clients
    finally:
        for client in clients.values():
            client.kill()


def _begin(clients: Iterable[Client]) -> None:
    """Has all begin, and waits until each has got something."""
    for client in clients:
        client.begin()
    _until(lambda: all(client.words for client in clients))


def _alone(client: Client, seconds: float) -> Sequence[Word]:
    _begin([client])
    time.sleep(seconds)
    client.end()
    return client.words


class _Share(NamedTuple):
    """What a client got while all were at work, of what all got."""

    quotas: float
    workers: float


def _together(clients: Mapping[str, Client], seconds: float) -> dict[str, _Share]:
    """Has all work at once."""
    _begin(clients.values())
    began_at, lent = time.monotonic(), Counter[str]()
    while time.monotonic() < began_at + seconds:
        workers = Service.status_of(_NAME)["workers"]
        lent.update(name for name, client in clients.items() for worker in workers if client.has(worker))
        time.sleep(_LOOKS_S)
    ended_at = time.monotonic()
    for client in clients.values():
        client.end()
    # All batches are alike: a share of them is one of quotas.
    got = {
        name: sum(began_at < word.time_s <= ended_at for word in client.words)
        for name, client in clients.items()
    }
    return {name: _Share(got[name] / sum(got.values()), lent[name] / lent.total()) for name in clients}


def _kill_one(clients: Mapping[str, Client], seconds: float) -> tuple[float, float, int]:
    """Kills one that has a worker.

    Returns:
        When it was killed, when it had no worker any more, and how many clients and workers that are not
        idle are left when the others have ended.
    """
    victim, others = clients[_VICTIM], [client for name, client in clients.items() if name != _VICTIM]

    def has_worker() -> bool:
        return any(map(victim.has, Service.status_of(_NAME)["workers"]))

    def num_left() -> int:
        status = Service.status_of(_NAME)
        return len(status["clients"]) + sum(worker["state"] != "idle" for worker in status["workers"])

    _begin(clients.values())
    time.sleep(seconds)
    _until(has_worker)
    killed_at = time.monotonic()
    victim.kill()
    _until(lambda: not has_worker())
    freed_at = time.monotonic()
    time.sleep(seconds)
    for client in others:
        client.end()
    _until(lambda: not num_left(), patience_s=_FREE_S)
    return killed_at, freed_at, num_left()


def _until(is_so: Callable[[], bool], patience_s: float = _PATIENCE_S) -> None:
    """Waits for something, but not for ever."""
    deadline = time.monotonic() + patience_s
    while not is_so() and time.monotonic() < deadline:
        time.sleep(_LOOKS_S)


def _findings(name: str, alone: Sequence[Word], together: Sequence[Word], share: _Share) -> Iterator[Finding]:
    rate = _steps_per_s(alone)
    yield Finding(name, "alone, steps/s", (rate,))
    yield Finding(name, "together ÷ alone", (_steps_per_s(together) / rate,))
    yield Finding(name, "share of quotas", (share.quotas,))
    yield Finding(name, "share of workers", (share.workers,))
    yield Finding(name, "silence, s", (_longest_silence_s(together),))
    yield Finding(name, "same bits", (_is_same(alone, together),), at_least=1.0)


def _steps_per_s(words: Sequence[Word]) -> float:
    return (words[-1].num_steps - words[0].num_steps) / (words[-1].time_s - words[0].time_s)


def _longest_silence_s(words: Sequence[Word]) -> float:
    return max(after.time_s - before.time_s for before, after in pairwise(words))


def _is_same(alone: Sequence[Word], words: Sequence[Word]) -> float:
    """1 if all was found as it was alone, as far as both came."""
    return float(all(one.found == other.found for one, other in zip(alone, words, strict=False)))


def draw(result: Result) -> Any:
    """Steps of each client, before and after one is killed."""
    figure, axis = subplots(figsize=(8, 3.6))
    for colour, (name, points) in zip(PALETTE, result.series["killed"].items(), strict=False):
        axis.plot(*zip(*points, strict=True), "o-", markersize=3, color=colour, label=name)
    axis.axvline(0.0, color="0.5", linestyle="--", label=f"the {_VICTIM} is killed")
    axis.axvline(result.series["freed_s"], color="0.5", linestyle=":", label="its workers are free")
    axis.set(xlabel="seconds", ylabel="environment steps of each")
    axis.grid(alpha=0.3)
    axis.legend(frameon=False, fontsize="small")
    return figure
