"""The result of a ranking: the order, what is proven of it, and its history."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from ttray.estimators.pairs import RankedPair
from ttray.estimators.ranking import RankingRound
from ttray.runs.return_interval import decimals, numbered

_WIDTH = 18  # of a name in a table


@dataclass(frozen=True)
class RankedPolicy:
    """A policy in a ranking.

    Attributes:
        name: As it was given.
        estimate: Mean discounted return of its own rounds; for reading beside the differences, without an
            interval.
        num_env_steps: That it made.
        dropped_after: The round after which nothing of it was open any more; None if something is.
    """

    name: str
    estimate: float
    num_env_steps: int
    dropped_after: int | None


@dataclass(frozen=True, repr=False)
class Ranking:
    """An order of policies.

    Attributes:
        order: Names, best first: as proven, and by estimates where nothing is.
        is_decided: Whether the order, or the best where only that was asked for, is proven but for policies
            that are proven equal within the indifference.
        pairs: Of every two policies the interval of their difference, and who is better.
        policies: In the order of `order`.
        is_guaranteed: Whether all intervals hold at once with probability at least 1 − δ, however many
            trajectories there were. If not, they do so about, for many.
        guarantee: The same in words, with what it rests on.
        environment: In which the policies acted.
        horizon: Longest trajectory.
        gamma: Discount; 1 for none.
        delta: Probability that an interval fails, any of them: that something said to be proven is wrong.
        reward_range: Smallest and largest possible reward, the 0 of ended episodes among them; None if not
            known.
        indifference: ε, within which policies count as equal; None if every difference matters.
        best_only: Whether only the best was asked for.
        num_env_steps: Really made, by all policies.
        num_rounds: In which they were made.
        num_fixed_steps: For comparison, the steps of full episodes in which Welch's test of a fixed size,
            which guarantees nothing, would have found the same, if the differences had been known beforehand;
            None if nothing is decided.
        history: What was known after every round.
    """

    order: tuple[str, ...]
    is_decided: bool
    pairs: tuple[RankedPair, ...]
    policies: tuple[RankedPolicy, ...]
    is_guaranteed: bool
    guarantee: str
    environment: str
    horizon: int
    gamma: float
    delta: float
    reward_range: tuple[float, float] | None
    indifference: float | None
    best_only: bool
    num_env_steps: int
    num_rounds: int
    num_fixed_steps: int | None
    history: tuple[RankingRound, ...]

    @property
    def best(self) -> str:
        """Name of the first; `is_decided` tells whether that is proven."""
        return self.order[0]

    def difference(self, first: str, second: str) -> RankedPair:
        """What is known of J(first) − J(second), whichever comes first in `pairs`."""
        for pair in self.pairs:
            if (pair.first, pair.second) == (first, second):
                return pair
            if (pair.second, pair.first) == (first, second):
                return RankedPair(
                    first,
                    second,
                    -pair.estimate,
                    -pair.high,
                    -pair.low,
                    pair.better,
                    pair.is_equal,
                    pair.decided_in,
                )
        raise ValueError(f"{first!r} and {second!r} are no two of {', '.join(self.order)}")

    def is_proven(self, name: str, *, better_than: str) -> bool:
        """Whether a policy is proven better than another; with an indifference ε, not worse by more than ε.

        Without a range of rewards nothing is: see `is_shown`.

        Args:
            name: The one.
            better_than: The other.
        """
        return self.is_guaranteed and self.is_shown(name, better_than=better_than)

    def is_shown(self, name: str, *, better_than: str) -> bool:
        """The same by intervals that may be asymptotic.

        Args:
            name: The one.
            better_than: The other.
        """
        low = self.difference(name, better_than).low
        return low > 0.0 or (self.indifference is not None and low >= -self.indifference)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values, for JSON."""
        return asdict(self) | {"best": self.best}

    def plot(self, path: str | Path) -> Path:
        """Draws how the differences to the first narrowed; the suffix of the file decides the format."""
        from ttray.runs.ranking_picture import draw_ranking  # not above: few need Matplotlib

        draw_ranking(self, Path(path))
        return Path(path)

    def __repr__(self) -> str:
        return f"Ranking({in_order(self.order, self.pairs, 48)}, {self.num_env_steps:,} steps)"

    def __str__(self) -> str:
        discount = "undiscounted" if self.gamma == 1.0 else f"γ = {self.gamma:g}"
        lines = [f"{self.environment}, {discount}, up to {self.horizon:,} steps", self._verdict()]
        lines.append(f"{'policy':{_WIDTH}}  {'return':>10}  {'steps':>11}  rounds")
        for each in self.policies:
            is_in_all = each.dropped_after in (None, self.num_rounds)
            rounds = "all" if is_in_all else f"1 to {each.dropped_after}"
            steps = f"{each.num_env_steps:>11,}"
            lines.append(f"{shortened(each.name):{_WIDTH}}  {each.estimate:>10.5g}  {steps}  {rounds}")
        lines.append(
            f"{'difference':{2 * _WIDTH + 3}}  {100.0 * (1.0 - self.delta):.6g}% intervals, together"
        )
        for pair in self._pairs_in_order():
            digits = decimals(0.5 * (pair.high - pair.low))
            names = f"{shortened(pair.first)} − {shortened(pair.second)}"
            lines.append(f"{names:{2 * _WIDTH + 3}}  {pair.low:.{digits}f} to {pair.high:.{digits}f}")
            lines[-1] += "" if pair.decided_in is None else f", {_said(pair)}"
        lines.append(self.guarantee)
        lines.append(f"collected {self.num_env_steps:,} steps in {numbered(self.num_rounds, 'round')}")
        if self.num_fixed_steps is not None:
            about = f"{float(f'{self.num_fixed_steps:.2g}'):,.0f}"
            lines.append(f"for comparison: Welch's test, told the differences, takes about {about}")
        return "\n".join(lines)

    def _verdict(self) -> str:
        if self.best_only:
            found = f"best: {shortened(self.best)}"
        else:
            found = f"order: {in_order(self.order, self.pairs, 60)}"
        return found if self.is_decided else f"{found} (not decided)"

    def _pairs_in_order(self) -> list[RankedPair]:
        places = range(len(self.order))
        return [
            self.difference(self.order[one], self.order[two]) for one in places for two in places if one < two
        ]


def _said(pair: RankedPair) -> str:
    return f"{'equal' if pair.is_equal else 'better'} after round {pair.decided_in}"


def told(found: RankingRound) -> str:
    """What is known after a round, in less than a line of eighty columns."""
    still = f", {len(found.contenders)} still open" if found.contenders else ""
    return f"{in_order(found.order, found.pairs, 40)}, {found.num_env_steps:,} steps{still}"


def in_order(order: tuple[str, ...], pairs: tuple[RankedPair, ...], width: int) -> str:
    """Names with what is known of neighbours, as "a > b = c ? d": better, equal, or nothing yet.

    Args:
        order: Best first.
        pairs: Of all of them.
        width: Characters that it may have.
    """
    known = {
        frozenset((pair.first, pair.second)): ">" if pair.better else "=" if pair.is_equal else "?"
        for pair in pairs
    }
    text = shortened(order[0])
    for before, name in pairwise(order):
        more = f" {known[frozenset((before, name))]} {shortened(name)}"
        if len(text) + len(more) > width - 2:
            return f"{text} …"
        text += more
    return text


def shortened(name: str) -> str:
    """A name, or the end of a long one."""
    return name if len(name) <= _WIDTH else f"…{name[1 - _WIDTH :]}"
