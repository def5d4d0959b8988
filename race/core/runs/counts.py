"""What happened to every row that was read: the rules for imperfect input, and their counts."""

from __future__ import annotations

from dataclasses import dataclass, field, fields


@dataclass
class RunCounts:
    """Counts of rows by what was done with them. `rows` = counted + the four kinds left out.

    Left out: `accidents` (ours, never a failure), `duplicates` (the same attempt, told twice alike),
    `unknown_task` (its id is not in the task list), `half_written` (a last line cut off in writing).
    Counted, with a remark: `tokens_missing` and `tokens_invalid` (the run counts as resolved or not, but
    not in mean tokens), `cost_missing`.
    """

    rows: int = 0
    counted: int = 0
    accidents: int = 0
    duplicates: int = 0
    unknown_task: int = 0
    half_written: int = 0
    tokens_missing: int = 0
    tokens_invalid: int = 0
    cost_missing: int = 0
    blank_lines: int = 0
    unknown_tasks: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, int | list[str]]:
        """For a program; at most twenty unknown ids are named."""
        value = {item.name: getattr(self, item.name) for item in fields(self)}
        return value | {"unknown_tasks": self.unknown_tasks[:20]}

    def lines(self, *, names: bool = True) -> list[str]:
        """For a person: the sum, then one line per remark that applies; without `names` no task id."""
        left_out = {
            "accidents of ours, to be run again": self.accidents,
            "told twice": self.duplicates,
            "on tasks that are not in the list": self.unknown_task,
            "half written": self.half_written,
        }
        parts = [f"{self.counted} counted"] + [f"{n} {what}" for what, n in left_out.items() if n]
        lines = [f"runs: {' + '.join(parts)} = {self.rows}"]
        if self.unknown_tasks and names:
            more = len(self.unknown_tasks) - 3
            first = ", ".join(self.unknown_tasks[:3]) + (f" and {more} more" if more > 0 else "")
            lines.append(f"unknown tasks: {first}")
        if self.tokens_missing:
            lines.append(f"{self.tokens_missing} runs without token counts: left out of mean tokens")
        if self.tokens_invalid:
            lines.append(
                f"{self.tokens_invalid} runs with a negative or non-finite token count: left out of "
                "mean tokens"
            )
        return lines
