"""Recorded runs and the tasks they were made on: read, checked, counted; nothing dropped unsaid."""

from race.core.runs.counts import RunCounts
from race.core.runs.grid import Grid, build_grid
from race.core.runs.labels import MadeUp, made_up
from race.core.runs.table import RunTable, RunTableBuilder
from race.core.runs.tasks import TaskRow, read_task

__all__ = [
    "Grid",
    "MadeUp",
    "RunCounts",
    "RunTable",
    "RunTableBuilder",
    "TaskRow",
    "build_grid",
    "made_up",
    "read_task",
]
