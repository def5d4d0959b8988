"""What about some results is made up, and must be said wherever a person or a program reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from race.core.runs.grid import Grid
from race.core.scripted import PREFIX


@dataclass(frozen=True)
class MadeUp:
    """Whether any task is of a sample release, and which entrants are scripts."""

    sample: bool
    scripted: tuple[str, ...]

    def lines(self) -> list[str]:
        """For a person; empty when everything is real."""
        lines = []
        if self.sample:
            lines.append(
                "SAMPLE: these tasks are of a sample release and say nothing about a real project"
            )
        if self.scripted:
            lines.append(f"SCRIPTED: {', '.join(self.scripted)} know the fix; their skill is simulated")
        return lines

    @property
    def short(self) -> str:
        """A few words for a figure; empty when everything is real."""
        words = ["sample release"] * self.sample + ["scripted agents: simulated"] * bool(self.scripted)
        return ", ".join(words)

    def as_json(self) -> dict[str, Any]:
        """For a program."""
        return {"sample": self.sample, "scripted": list(self.scripted)}


def made_up(grid: Grid) -> MadeUp:
    """The labels of a grid's tasks and entrants."""
    return MadeUp(
        any(task.sample for task in grid.tasks),
        tuple(name for name in grid.entrants if name.startswith(PREFIX)),
    )
