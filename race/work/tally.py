"""How a command over tasks ended: its closing line adds up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from race.errors import Accident, RaceError


@dataclass
class Tally:
    """How a command ended: each asked task in exactly one of the four lists."""

    done: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    accidents: dict[str, str] = field(default_factory=dict)
    exit_code: int = 0
    """0, or the largest code among the errors that left something pending."""

    def leave(self, subject: str, error: RaceError | str) -> None:
        """A task (or project) stays pending: why, and what that means for the command's exit code."""
        self.pending.append(subject)
        self.fault(subject, error)

    def fault(self, subject: str, error: RaceError | str) -> None:
        """The same for what is counted elsewhere."""
        self.accidents[subject] = str(error)
        code = error.exit_code if isinstance(error, RaceError) else Accident.exit_code
        self.exit_code = max(self.exit_code, code)

    def line(self, stage: str) -> str:
        """The closing line."""
        parts = [len(self.done), len(self.skipped), len(self.rejected), len(self.pending)]
        return (
            f"{stage}: {parts[0]} done + {parts[1]} skipped + {parts[2]} rejected + "
            f"{parts[3]} pending = {sum(parts)}"
        )

    def as_json(self) -> dict[str, Any]:
        """The same for a program."""
        return {
            "done": sorted(self.done),
            "skipped": sorted(self.skipped),
            "rejected": sorted(self.rejected),
            "pending": sorted(self.pending),
            "accidents": self.accidents,
        }
