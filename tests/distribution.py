"""Which tests one worker runs, and in which order, where several workers share the tests.

What is costly to make and shared (a built release, images under fixed names) is used by one worker
only, and what takes minutes begins first. Nothing of this applies to `pytest` without `-n`.
"""

from __future__ import annotations

import pytest

TOGETHER = {
    "built_sample": (
        "tests/validate/test_validate_stage.py",
        "tests/report/test_report_site.py",
        "tests/verify/test_verify_images.py",
        "tests/verify/test_corrections.py",
        "tests/test_faults.py",
    ),
    "counter_image": (
        "tests/grader/test_battery.py",
        "tests/grader/test_observe.py",
        "tests/grader/test_grading.py",
        "tests/grader/test_helper_attacks.py",
        "tests/grader/test_own_plugin.py",
        "tests/grader/test_seen.py",
        "tests/grader/test_memory.py",
    ),
    "two_commits": ("tests/test_real.py",),
    "gate_image": (
        "tests/validate/test_repeating.py",
        "tests/validate/test_matrix_runs.py",
        "tests/validate/test_odd_ids.py",
    ),
}
"""The fixture that is costly or has one name on the engine -> modules that use it; the longest first."""

LAST = "tests/environments/test_doctor.py"
"""`race clean` takes away what builds leave between their steps: no other worker builds by then."""

GROUPS = {module: shared for shared, modules in TOGETHER.items() for module in modules}
RANKS = {module: number for number, module in enumerate(GROUPS)}


def group_of(node_id: str) -> str:
    """What the test belongs to: a group of modules, else its module."""
    module = node_id.partition("::")[0]
    return GROUPS.get(module, module)


def place_of(item: pytest.Item) -> tuple[int, bool]:
    """Sorts modules that take minutes first, then all that need an engine, then the others."""
    module = item.nodeid.partition("::")[0]
    rank = len(RANKS) + 1 if module == LAST else RANKS.get(module, len(RANKS))
    return rank, item.get_closest_marker("engine") is None
