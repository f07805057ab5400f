"""The accuracy to reach: a half-width, or a share of the return."""

from __future__ import annotations

from dataclasses import dataclass

from ttray.boundary.fields import brief, check_positive, check_real


@dataclass(frozen=True)
class Accuracy:
    """The half-width at which an evaluation stops.

    Attributes:
        value: The half-width, or a share of the estimate's magnitude.
        is_relative: Whether it is a share.
    """

    value: float
    is_relative: bool = False

    @classmethod
    def of(cls, wanted: float | str) -> Accuracy:
        """From a number, or a text: "0.5" is a half-width, "5%" a share of the estimate."""
        if not isinstance(wanted, str):
            return cls(check_positive("accuracy", wanted))
        text = wanted.strip()
        try:
            number = float(text.removesuffix("%"))
        except ValueError:
            raise ValueError(
                f'accuracy must be a half-width such as 0.5, or a share such as "5%", found {brief(wanted)}'
            ) from None
        if not text.endswith("%"):
            return cls(check_positive("accuracy", number))
        rule = "a share of the estimate above 0% and below 100%"
        return cls(check_real("accuracy", number, lambda x: 0 < x < 100, rule) / 100.0, is_relative=True)

    def __str__(self) -> str:
        return f"{100.0 * self.value:.12g}%" if self.is_relative else f"{self.value:.12g}"
