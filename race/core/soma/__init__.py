"""SOMA scores: one named profile of constants and zone rules, per task, per miner, and contests.

The functions named here keep the call shapes of the reference scorer, so that a caller of it can
switch by changing an import.
"""

from race.core.soma.contests import Contests, hold_contests
from race.core.soma.miners import (
    GROUPS,
    MinerScore,
    build_swe_miner_scores,
    build_swe_miner_total_score,
    score_miner,
)
from race.core.soma.profile import DEFAULT, PROFILES, Profile
from race.core.soma.task_score import (
    TaskScore,
    compute_swe_task_score,
    compute_weighted_tokens,
    score_task,
)

__all__ = [
    "DEFAULT",
    "GROUPS",
    "PROFILES",
    "Contests",
    "MinerScore",
    "Profile",
    "TaskScore",
    "build_swe_miner_scores",
    "build_swe_miner_total_score",
    "compute_swe_task_score",
    "compute_weighted_tokens",
    "hold_contests",
    "score_miner",
    "score_task",
]
