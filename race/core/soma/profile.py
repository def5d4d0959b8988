"""The constants and zone rules of SOMA's scoring, in one place per version of the rules.

SOMA has changed its formulas before and will again. Callers ask a profile and know no constant; another
version is another entry in PROFILES.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Pool = Literal["main", "hard_boost", "excluded"]
Zone = Literal["penalty", "maintain", "bonus", "none"]
LAYERS: tuple[tuple[int, float], ...] = ((3, 0.25), (2, 0.45), (1, 0.30))
"""Groups per set, and the weight of the layer of all sets of that size."""


@dataclass(frozen=True)
class Profile:
    """One version of the rules. The defaults are the seed's."""

    name: str
    source: str
    input_weight: float = 1.0
    cached_weight: float = 0.1
    output_weight: float = 3.0
    log_base: float = 2.0
    ratio_limit: float = 2.0
    quality_share: Fraction = Fraction(4, 5)
    hard_at_most: int = 1
    bonus_floor: float = -2.0
    bonus_cap: float = 3.0
    penalty_floor: float = -4.0
    penalty_ceiling: float = -2.0
    weight_exponent: float = 1 / 3
    layers: tuple[tuple[int, float], ...] = LAYERS

    def weighted_tokens(self, uncached: float, cached: float, output: float) -> float:
        """T = w_i T_i + w_c T_c + w_o T_o. Works on numbers and on arrays of them."""
        return self.input_weight * uncached + self.cached_weight * cached + self.output_weight * output

    def ratio(self, baseline: float | None, miner: float | None) -> float:
        """r = clamp(log(T_B / T_A), -2, 2); 0 when either is missing or not positive."""
        if baseline is None or miner is None or not baseline > 0 or not miner > 0:
            return 0.0
        quotient = baseline / miner
        if quotient <= 0:
            return -self.ratio_limit
        r = math.log2(quotient) if self.log_base == 2 else math.log(quotient, self.log_base)
        return _clamp(r, -self.ratio_limit, self.ratio_limit)

    @property
    def log_name(self) -> str:
        """How the logarithm is written."""
        return "ln" if self.log_base == math.e else f"log{self.log_base:g}"

    def threshold(self, x: int) -> int:
        """t = floor(0.8 x), in whole numbers."""
        return x * self.quality_share.numerator // self.quality_share.denominator

    def place(self, x: int, y: int) -> tuple[Pool, Zone]:
        """Which pool and zone a task with x baseline and y miner successes falls into."""
        if x <= self.hard_at_most:
            if y == 0:
                return "excluded", "none"
            return "hard_boost", "maintain" if x == y else "bonus"
        if y < self.threshold(x):
            return "main", "penalty"
        return "main", "maintain" if y <= x else "bonus"

    def score(self, zone: Zone, x: int, y: int, n: int, r: float) -> float | None:
        """A zone's score. In the bonus zone n is above x, because n is at least y."""
        if zone == "none":
            return None
        if zone == "maintain":
            return r
        if zone == "bonus":
            return _clamp(r + (y - x) / (n - x), self.bonus_floor, self.bonus_cap)
        span = self.penalty_ceiling - self.penalty_floor
        lost = 1 - y / self.threshold(x)
        return _clamp(self.penalty_ceiling - span * lost, self.penalty_floor, self.penalty_ceiling)

    def task_weight(self, x: int) -> float:
        """What a main task counts for in the main score: the cube root of x."""
        return float(x**self.weight_exponent)

    def total(self, main_score: float, hard_boost: float) -> float:
        """(2 clamp(main + boost, -4, 3) + 1) / 7: -1 at the penalty floor, 1 at the bonus cap."""
        raw = _clamp(main_score + hard_boost, self.penalty_floor, self.bonus_cap)
        low, high = self.penalty_floor, self.bonus_cap
        return (2 * raw - low - high) / (high - low)


def _clamp(value: float, low: float, high: float) -> float:
    return max(low, min(value, high))


DEFAULT = Profile(
    name="soma-swe-1",
    source="SOMA's published document on SWE scoring, base-2 logarithm, cube-root weights (autumn 2026)",
)
PROFILES = {DEFAULT.name: DEFAULT}
