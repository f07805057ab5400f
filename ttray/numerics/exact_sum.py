"""Exact sums: the same number for any split and any order.

A sum of floats depends on the order of its terms, so the sum of a batch would depend on how many workers
shared it. Here terms are added as integers; rounding happens once, when the total is read.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_PIECE = 2**14  # terms at a time: the temporaries stay in the cache
_BITS = 36
_SMALLEST = -1074  # every float64 is a multiple of 2 to this power


@dataclass(frozen=True)
class ExactSum:
    """The number `mantissa` · 2^`exponent`, of any size.

    Attributes:
        mantissa: An integer without limits.
        exponent: Of 2.
    """

    mantissa: int = 0
    exponent: int = 0

    @classmethod
    def of(cls, terms: NDArray[np.float64]) -> ExactSum:
        """Adds up finite float64 terms."""
        total = cls()
        for start in range(0, len(terms), _PIECE):
            total += _sum_of_piece(terms[start : start + _PIECE])
        return total

    def __add__(self, other: ExactSum) -> ExactSum:
        exponent = min(self.exponent, other.exponent)
        return ExactSum(
            (self.mantissa << (self.exponent - exponent)) + (other.mantissa << (other.exponent - exponent)),
            exponent,
        )

    def __float__(self) -> float:
        """The nearest float64."""
        if self.exponent >= 0:
            return float(self.mantissa << self.exponent)
        return self.mantissa / (1 << -self.exponent)  # Python rounds a quotient of integers correctly


def largest_magnitude(terms: NDArray[np.float64]) -> float:
    """The largest |x|, without an array of them."""
    return max(float(terms.max()), -float(terms.min()))


def _sum_of_piece(terms: NDArray[np.float64]) -> ExactSum:
    """Cuts the terms into multiples of a unit and rests below it, until nothing is left.

    A multiple has at most 36 bits, so float64 adds up a piece without rounding.
    """
    total, rest = ExactSum(), terms
    while largest := largest_magnitude(rest):
        unit = max(math.frexp(largest)[1] - _BITS, _SMALLEST)
        if unit + 53 > sys.float_info.max_exp:
            return total + _sum_of_giants(rest)
        # Beside this number, float64 has no digits below the unit.
        rounder = math.ldexp(1.5, unit + 52)
        multiples = rest + rounder
        multiples -= rounder
        total += ExactSum(int(math.ldexp(float(multiples.sum()), -unit)), unit)
        rest = np.subtract(rest, multiples, out=multiples)
    return total


def _sum_of_giants(terms: NDArray[np.float64]) -> ExactSum:
    """Term by term, for numbers beside which there is none large enough to round with."""
    ratios = [term.as_integer_ratio() for term in terms.tolist()]  # denominators are powers of 2
    return sum((ExactSum(top, 1 - bottom.bit_length()) for top, bottom in ratios), ExactSum())
