"""What an export needs to know of one task, whatever the format."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskFacts:
    """One task as it ships. Lists are sorted; patches and statement are text; dates ISO 8601."""

    instance_id: str
    benchmark: str
    repo: str
    base_commit: str
    created_at: str
    merged_at: str
    statement: str
    patch: str
    test_patch: str
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    env_image: str
    test_image: str
    workdir: str
    run_tests: str
    test_command: str
    canary: str
    repeats: int
    fix_lines: int
    version: str = ""
    kind: str = ""
    tier: str = ""
    complexity: str = ""
    sample: bool = False
    members: tuple[str, ...] = ()

    @property
    def canary_line(self) -> str:
        """The line by which a training set can be searched for this release."""
        return f"race canary GUID {self.canary}"
