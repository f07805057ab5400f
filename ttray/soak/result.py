"""What a soak found: the figures, the file, the picture."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ttray.runs.drawing import PALETTE, save, subplots
from ttray.runs.run import Run
from ttray.soak.fault_injector import InjectedFault
from ttray.soak.schedule import KILL, KILL_CLIENT, LOSE_NODE, STOP, Schedule

_MARKS = {
    KILL: ("killed", "x", PALETTE[1]),
    STOP: ("stopped", "s", PALETTE[4]),
    LOSE_NODE: ("node lost", "v", PALETTE[6]),
    KILL_CLIENT: ("client killed", "+", PALETTE[3]),
}


@dataclass(frozen=True)
class Iteration:
    """An iteration of the disturbed training.

    Attributes:
        begun_s: When, in seconds after the start of the injector; the first one is before it.
        time_s: How long it took.
        num_env_runners: Those that have collected something.
        num_quotas_redispatched: Quotas that were sent again, because somebody died.
        num_quotas_backed_up: Copies of quotas that took long.
        memory_bytes: Resident in the driver after it.
        is_same: Whether weights and batch have the bits of the calm training.
    """

    begun_s: float
    time_s: float
    num_env_runners: int
    num_quotas_redispatched: int
    num_quotas_backed_up: int
    memory_bytes: int
    is_same: bool


@dataclass
class SoakResult:
    """A soak, finished or under way.

    Attributes:
        run: What was trained.
        schedule: What was to happen.
        iterations: What each took. The first is before the injector, and starts the env runners.
        disturbances: What happened.
        error: What ended the disturbed training, if anything did.
    """

    run: Run
    schedule: Schedule
    iterations: list[Iteration] = field(default_factory=list)
    disturbances: list[InjectedFault] = field(default_factory=list)
    error: str | None = None

    @property
    def is_same(self) -> bool:
        """Whether every bit so far is that of the calm training."""
        return all(iteration.is_same for iteration in self.iterations[-1:])

    @property
    def is_survived(self) -> bool:
        """Whether the disturbed training went on to the end, with every bit."""
        return self.is_same and self.error is None and bool(self.iterations)

    def count(self) -> Counter[str]:
        """How often which kind of disturbance has hit somebody."""
        return Counter(struck.planned.kind for struck in self.disturbances if struck.whom is not None)

    def summary(self) -> dict[str, Any]:
        """The figures. Of times and memory None where there are too few iterations to tell."""
        happened = self.count()
        usual_s = self._undisturbed_time_s()
        times = [iteration.time_s for iteration in self.iterations[1:]]
        first, last = self._memory_bytes()
        return {
            "num_iterations": len(self.iterations),
            "is_same": self.is_same,
            "num_kills": happened[KILL],
            "num_stops": happened[STOP],
            "num_nodes_lost": happened[LOSE_NODE],
            "num_clients_killed": happened[KILL_CLIENT],
            "num_quotas_redispatched": sum(each.num_quotas_redispatched for each in self.iterations),
            "num_quotas_backed_up": sum(each.num_quotas_backed_up for each in self.iterations),
            "time_s": sum(times),
            "undisturbed_iteration_s": usual_s,
            "time_lost_s": None if usual_s is None else sum(times) - usual_s * len(times),
            "first_memory_bytes": first,
            "last_memory_bytes": last,
            "error": self.error,
        }

    def _undisturbed_time_s(self) -> float | None:
        """The median of iterations in which all env runners took part, and no quota was sent twice."""
        times = [
            each.time_s
            for each in self.iterations[1:]
            if each.num_env_runners == self.run.num_env_runners
            and not each.num_quotas_redispatched + each.num_quotas_backed_up
        ]
        return statistics.median(times) if times else None

    def _memory_bytes(self) -> tuple[float | None, float | None]:
        """The median over the first tenth and over the last tenth of the iterations."""
        memory = [iteration.memory_bytes for iteration in self.iterations]
        if not memory:
            return None, None
        tenth = max(len(memory) // 10, 1)
        return statistics.median(memory[:tenth]), statistics.median(memory[-tenth:])

    def write(self, path: Path) -> None:
        """Writes all of it as JSON: what was planned, what happened, a list per column of the iterations."""
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = {
            column.name: [getattr(iteration, column.name) for iteration in self.iterations]
            for column in fields(Iteration)
        }
        found = {
            "summary": self.summary(),
            "run": self.run.to_settings(),
            "schedule": asdict(self.schedule),
            "disturbances": [struck.to_json() for struck in self.disturbances],
            "iterations": columns,
        }
        path.write_text(json.dumps(found) + "\n")

    def draw(self, path: Path) -> None:
        """Draws the iterations over time, what happened beside them, and the driver's memory."""
        ended = [(each.begun_s + each.time_s) / 60.0 for each in self.iterations]
        figure, (above, below) = subplots(2, 1, figsize=(10, 5.5), sharex=True, height_ratios=(3, 1))
        above.plot(
            ended, range(1, len(ended) + 1), color=PALETTE[0], drawstyle="steps-post", label="iterations"
        )
        above.set_ylabel("iterations")
        for kind, (label, marker, colour) in _MARKS.items():
            times = [
                each.at_s / 60.0
                for each in self.disturbances
                if each.planned.kind == kind and each.whom is not None
            ]
            if times:
                reached = [_at(time, ended) for time in times]
                above.plot(times, reached, marker, color=colour, markersize=5, label=f"{label}: {len(times)}")
        above.legend(frameon=False, fontsize="small")
        above.set_title(self._verdict(), fontsize="medium")
        below.plot(ended, [each.memory_bytes / 2**20 for each in self.iterations], color=PALETTE[2])
        below.set_ylabel("driver (MiB)")
        below.set_ylim(0, 1.2 * max((each.memory_bytes for each in self.iterations), default=2**20) / 2**20)
        below.set_xlabel("minutes")
        for axis in (above, below):
            axis.grid(alpha=0.3)
        save(figure, path)

    def _verdict(self) -> str:
        if self.error:
            return f"{self.run.subject}: ended by an error after {len(self.iterations)} iterations"
        if not self.is_same:
            return f"{self.run.subject}: other bits in iteration {len(self.iterations)}"
        return f"{self.run.subject}: {len(self.iterations)} iterations with the bits of the calm training"


def _at(time: float, ended: Sequence[float]) -> int:
    """How many iterations had ended by a time."""
    return sum(end <= time for end in ended)
