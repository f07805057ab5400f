"""A cable that delays, loses, is narrow or cut: what tc's netem does, for kernels that were built without it.

    cable.py NEAR FAR ORDERS

makes two network cards; what goes into one comes out of the other. It does as it is told by lines that are
written to the FIFO ORDERS, such as "delay=0.025 jitter=0.005 loss=0.01 rate=1e7", "cut=1" or an empty one:
seconds, shares and bits per second, for each direction. It ends when it is killed, and the cards with it.
"""

import fcntl
import heapq
import os
import random
import select
import struct
import sys
import time
from dataclasses import dataclass, field

SET_INTERFACE, TAP, WITHOUT_HEADER = 0x400454CA, 0x2, 0x1000  # of linux/if_tun.h
MOST_QUEUED = 1000  # frames; as many as netem keeps
LONGEST_FRAME = 65536
ORDERS = ("delay", "jitter", "loss", "rate", "cut")


@dataclass
class Way:
    """One direction: frames that have not arrived yet."""

    into: int
    free: float = 0.0  # when the frame before has been sent
    last: float = 0.0  # when it arrives: none overtakes another
    queue: list[tuple[float, int, bytes]] = field(default_factory=list)

    def take(self, number: int, frame: bytes, now: float, orders: dict[str, float]) -> None:
        """Takes a frame in, or loses it."""
        if orders.get("cut") or random.random() < orders.get("loss", 0.0) or len(self.queue) >= MOST_QUEUED:
            return
        self.free = max(self.free, now)
        if "rate" in orders:
            self.free += 8 * len(frame) / orders["rate"]
        on_the_way = orders.get("delay", 0.0) + orders.get("jitter", 0.0) * random.uniform(-1, 1)
        self.last = max(self.last, self.free + on_the_way)
        heapq.heappush(self.queue, (self.last, number, frame))

    def deliver(self, now: float) -> None:
        """Gives out what has arrived."""
        while self.queue and self.queue[0][0] <= now:
            _, _, frame = heapq.heappop(self.queue)
            try:
                os.write(self.into, frame)
            except OSError:
                return  # the card is down: lost


def card(name: str) -> int:
    """Makes a network card; returns the file that is its other side."""
    file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(file, SET_INTERFACE, struct.pack("16sH22x", name.encode(), TAP | WITHOUT_HEADER))
    return file


def orders_of(text: str) -> dict[str, float]:
    """What the last line says."""
    orders = dict(word.split("=") for word in text.rstrip("\n").split("\n")[-1].split())
    if not orders.keys() <= set(ORDERS):
        raise SystemExit(f"cable: {text.strip()!r}: only {', '.join(ORDERS)}")
    return {name: float(value) for name, value in orders.items()}


def main(near: str, far: str, path: str) -> None:
    """Passes frames on for ever."""
    random.seed(near)
    ends = [card(near), card(far)]
    ways = {ends[0]: Way(ends[1]), ends[1]: Way(ends[0])}
    control = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    orders: dict[str, float] = {}
    number = 0
    while True:
        due = min((way.queue[0][0] for way in ways.values() if way.queue), default=None)
        wait = None if due is None else max(due - time.monotonic(), 0.0)
        readable = select.select([*ends, control], [], [], wait)[0]
        now = time.monotonic()
        for file in readable:
            if file == control:
                orders = orders_of(os.read(control, LONGEST_FRAME).decode())
                continue
            try:
                frame = os.read(file, LONGEST_FRAME)
            except OSError:
                continue  # the card is not up
            number += 1
            ways[file].take(number, frame, now, orders)
        for way in ways.values():
            way.deliver(time.monotonic())


if __name__ == "__main__":
    main(*sys.argv[1:])
