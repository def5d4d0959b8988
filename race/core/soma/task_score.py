"""One miner on one task: counts and mean tokens in, a score with its pool and zone out."""

from __future__ import annotations

import math
from dataclasses import dataclass

from race.core.soma.profile import DEFAULT, Pool, Profile, Zone
from race.errors import UsageError


@dataclass(frozen=True, slots=True)
class TaskScore:
    """A task's score and everything it was made from. `note` says why there is no score, if a rule
    about the input (not a formula) is the reason."""

    x: int
    y: int
    n: int
    tokens_without_compression: float | None
    tokens_with_compression: float | None
    r: float
    threshold: int
    zone: Zone
    pool: Pool
    score: float | None
    hard_boost_contribution: float | None
    note: str = ""

    def as_json(self) -> dict[str, float | int | str | None]:
        """For a program; the reference's names."""
        value: dict[str, float | int | str | None] = {
            name: getattr(self, name) for name in self.__slots__ if name != "note"
        }
        return value | ({"note": self.note} if self.note else {})


def compute_weighted_tokens(
    *,
    input_tokens: float | None,
    cached_input_tokens: float | None,
    output_tokens: float | None,
    profile: Profile = DEFAULT,
) -> float | None:
    """Weighted tokens of one run. Input and output are required, a missing cached count is 0.

    None when a required count is missing, or any is negative or not a finite number.
    """
    if input_tokens is None or output_tokens is None:
        return None
    cached = 0 if cached_input_tokens is None else cached_input_tokens
    if not all(0 <= count < math.inf for count in (input_tokens, cached, output_tokens)):
        return None
    return profile.weighted_tokens(float(input_tokens), float(cached), float(output_tokens))


def score_task(
    x: int,
    y: int,
    tokens_without_compression: float | None,
    tokens_with_compression: float | None,
    *,
    n: int,
    profile: Profile = DEFAULT,
) -> TaskScore:
    """Score x resolved baseline runs against y resolved miner runs out of n.

    n is raised to max(x, y, 1) as the reference does. Raises UsageError for negative counts.
    """
    for name, count in (("x", x), ("y", y), ("n", n)):
        if count < 0:
            raise UsageError(f"{name} is {count}: a count of runs cannot be negative")
    n = max(n, x, y, 1)
    r = profile.ratio(tokens_without_compression, tokens_with_compression)
    pool, zone = profile.place(x, y)
    score = profile.score(zone, x, y, n, r)
    boost = max(0.0, score) if pool == "hard_boost" and score is not None else None
    return TaskScore(
        x=x,
        y=y,
        n=n,
        tokens_without_compression=tokens_without_compression,
        tokens_with_compression=tokens_with_compression,
        r=r,
        threshold=profile.threshold(x),
        zone=zone,
        pool=pool,
        score=score,
        hard_boost_contribution=boost,
    )


def unscored(x: int, y: int, n: int, note: str) -> TaskScore:
    """A task that takes no part, for a reason that lies in the input."""
    return TaskScore(x, y, n, None, None, 0.0, 0, "none", "excluded", None, None, note)


def compute_swe_task_score(
    x: int,
    y: int,
    tokens_without_compression: float | None,
    tokens_with_compression: float | None,
    *,
    task_run_count: int,
) -> dict[str, object]:
    """The reference's call: score, zone, pool, r, threshold, hard_boost_contribution by name."""
    result = score_task(x, y, tokens_without_compression, tokens_with_compression, n=int(task_run_count))
    names = ("score", "zone", "pool", "r", "threshold", "hard_boost_contribution")
    return {name: getattr(result, name) for name in names}
