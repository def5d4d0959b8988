"""Reads task lists and files of runs, from JSONL or Parquet, ours or a SOMA validator's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from race.core.runs import RunCounts, RunTable, RunTableBuilder, TaskRow, read_task
from race.core.runs.table import BadRow
from race.core.runs.validator import ValidatorReader, is_validator_row
from race.errors import Malformed, UsageError
from race.workbench import Workbench

BATCH = 20_000
Rows = Iterator[tuple[list[dict[str, Any]], list[int]]]


def read_tasks(path: Path, bench: Workbench) -> list[TaskRow]:
    """The tasks of a list. A row told twice alike counts once.

    Raises Malformed with the line for a row that is refused, for two rows of one id that differ, and
    for a list without a task.
    """
    counts = RunCounts()
    tasks: dict[str, TaskRow] = {}
    for rows, lines in _batches(path, bench, counts):
        for row, line in zip(rows, lines, strict=True):
            try:
                task = read_task(row)
            except UsageError as error:
                raise Malformed(path, f"line {line}", str(error)) from error
            if tasks.setdefault(task.instance_id, task) != task:
                raise Malformed(
                    path, f"line {line}", f"task {task.instance_id} is told twice, differently"
                )
    if counts.half_written:
        raise Malformed(path, "last line", "cut off; a task list must be whole")
    if not tasks:
        raise Malformed(path, "", "no task in it")
    return list(tasks.values())


def read_runs(path: Path, bench: Workbench, *, baseline: str = "baseline") -> tuple[RunTable, RunCounts]:
    """All runs of a file as columns, with the counts of what was left out while reading.

    A last line without a newline that does not parse was cut off in writing: it is counted and left out.
    Any other line that does not parse, and any row that is refused, raises Malformed with the line. A
    validator's rows are recognised by their keys; its baseline runs get the name `baseline`.
    Raises Malformed for a file without a run.
    """
    counts, builder = RunCounts(), RunTableBuilder()
    validator = ValidatorReader(baseline)
    for rows, lines in _batches(path, bench, counts):
        try:
            if is_validator_row(rows[0]):
                rows, lines = _from_validator(validator, rows, lines)
            builder.add(rows, lines)
        except BadRow as error:
            raise Malformed(path, f"line {lines[error.index]}", error.what) from error
    table = builder.table()
    if not len(table):
        raise Malformed(path, "", "no run in it")
    counts.rows += counts.half_written
    return table, counts


def _from_validator(
    reader: ValidatorReader, rows: list[dict[str, Any]], lines: list[int]
) -> tuple[list[dict[str, Any]], list[int]]:
    runs: list[dict[str, Any]] = []
    places: list[int] = []
    for index, (row, line) in enumerate(zip(rows, lines, strict=True)):
        try:
            told = reader.runs(row)
        except UsageError as error:
            raise BadRow(index, str(error)) from error
        runs += told
        places += [line] * len(told)
    return runs, places


def _batches(path: Path, bench: Workbench, counts: RunCounts) -> Rows:
    """Non-empty batches of rows with their line (or row) numbers."""
    try:
        with path.open("rb") as file:
            head = file.read(4)
            if head == b"PAR1":
                first = 1
                for rows in bench.parquet_rows(path):
                    if rows:
                        yield rows, list(range(first, first + len(rows)))
                    first += len(rows)
                return
            file.seek(0)
            yield from _json_lines(path, file, counts)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot read: {error.strerror}") from error


def _json_lines(path: Path, file: Any, counts: RunCounts) -> Rows:
    texts: list[bytes] = []
    lines: list[int] = []
    for number, text in enumerate(file, start=1):
        if not text.strip():
            counts.blank_lines += 1
            continue
        texts.append(text)
        lines.append(number)
        if len(texts) == BATCH:
            yield _parsed(path, texts, lines, counts), lines
            texts, lines = [], []
    if texts:
        rows = _parsed(path, texts, lines, counts)
        if rows:
            yield rows, lines[: len(rows)]


def _parsed(path: Path, texts: list[bytes], lines: list[int], counts: RunCounts) -> list[dict[str, Any]]:
    """A batch in one go; line by line when that fails, to say which line it was."""
    try:
        rows: list[Any] = orjson.loads(b"[" + b",".join(texts) + b"]")
        if len(rows) == len(texts) and set(map(type, rows)) == {dict}:
            return rows
    except orjson.JSONDecodeError:
        pass
    rows = []
    for text, line in zip(texts, lines, strict=True):
        try:
            row = _one(text)
        except ValueError as error:
            if not text.endswith(b"\n"):
                counts.half_written += 1
                break
            raise Malformed(path, f"line {line}", _not_json(error, text)) from error
        if not isinstance(row, dict):
            raise Malformed(path, f"line {line}", "not an object")
        rows.append(row)
    return rows


def _not_json(error: ValueError, text: bytes) -> str:
    """What is wrong with a line, by its column alone: the line's own number is told beside it."""
    if not isinstance(error, json.JSONDecodeError):
        return "not JSON: not UTF-8"
    if error.pos >= len(text.rstrip()):
        return "not JSON: cut off"
    return f"not JSON: {error.msg} at column {error.pos + 1}"


def _one(text: bytes) -> Any:
    """One line. Python writes NaN and Infinity, which JSON does not know; they are read as numbers."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text)
