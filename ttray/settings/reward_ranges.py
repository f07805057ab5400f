"""The range of rewards, as the user or the environment declares it."""

from __future__ import annotations

from dataclasses import dataclass

from ttray.boundary.fields import MAX_NUMBER, brief, check_positive, to_python


@dataclass(frozen=True)
class RewardRange:
    """The range of rewards that an interval may count on, the 0 of ended episodes in it.

    Attributes:
        low: Smallest possible reward, at most 0.
        high: Largest possible reward, at least 0.
        is_declared: Whether the environment says so, not the caller.
        width: Largest minus smallest, as it was given where only that was.
    """

    low: float
    high: float
    is_declared: bool
    width: float

    @property
    def pair(self) -> tuple[float, float]:
        """Both ends."""
        return self.low, self.high

    def __str__(self) -> str:
        source = "as the environment says" if self.is_declared else "as given"
        return f"{self.low:g} to {self.high:g}, {source}"


def known_range(
    given: float | tuple[float, float] | None, declared: tuple[float, float] | None = None
) -> RewardRange | None:
    """The range that is known, or None.

    Args:
        given: By the caller: smallest and largest reward, or the difference of these.
        declared: By the environment.

    Raises:
        ValueError: What was given is no range.
    """
    if given is None:
        return None if declared is None else _with_zero(*declared, is_declared=True)
    if isinstance(given, tuple | list):
        return _with_zero(*_checked(given), is_declared=False)
    # Where the range lies is not told, but that the 0 of ended episodes is in it.
    width = check_positive("reward_range", given)
    return RewardRange(-width, width, is_declared=False, width=width)


def _checked(given: tuple[float, ...] | list[float]) -> tuple[float, float]:
    numbers = [to_python(each) for each in given]
    is_pair = len(numbers) == 2 and all(
        isinstance(each, int | float) and not isinstance(each, bool) and abs(each) <= MAX_NUMBER
        for each in numbers
    )
    if not is_pair or not numbers[0] <= numbers[1] or not any(numbers):
        raise ValueError(
            "reward_range must be (smallest, largest) of the possible rewards, two finite numbers, not both "
            f"0, found {brief(given)}"
        )
    return float(numbers[0]), float(numbers[1])


def _with_zero(low: float, high: float, *, is_declared: bool) -> RewardRange | None:
    """With the 0 that ended episodes earn; None if nothing but 0 is in it."""
    low, high = min(low, 0.0), max(high, 0.0)
    return RewardRange(low, high, is_declared, high - low) if high > low else None
