"""Runs as columns: a million rows in some tens of megabytes, checked as they come in.

Rules for a row: `instance_id` and `agent` are non-empty strings and `resolved` is true or false, else
the file is refused with the line. A token count, cost, number of steps or seconds may be null; a value
that is not a finite number counts as absent; text, or a fractional token count, is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from race.core.soma.profile import DEFAULT, Profile
from race.errors import UsageError

ENDED = ("submitted", "step_limit", "timeout", "accident")
TOKENS = ("input_tokens", "cached_input_tokens", "output_tokens")
NUMBERS = (*TOKENS, "cost_usd", "steps", "seconds")

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]


class BadRow(UsageError):
    """A row that is refused; `index` counts from 0 within the rows that were given."""

    def __init__(self, index: int, what: str) -> None:
        super().__init__(what)
        self.index, self.what = index, what


@dataclass(frozen=True)
class RunTable:
    """All runs of a file. Codes point into the name lists; absent numbers are NaN, an absent attempt
    is -1. `line` is the line (or row) number in the file, from 1."""

    tasks: list[str]
    agents: list[str]
    models: list[str]
    task: Codes
    agent: Codes
    model: Codes
    attempt: NDArray[np.int64]
    resolved: NDArray[np.bool_]
    ended: NDArray[np.int8]
    line: NDArray[np.int64]
    numbers: Mapping[str, Floats]

    def __len__(self) -> int:
        return int(self.task.size)

    def weighted_tokens(self, profile: Profile = DEFAULT) -> Floats:
        """Per run as `compute_weighted_tokens` says; NaN where it would give None."""
        uncached, cached, output = (self.numbers[name] for name in TOKENS)
        cached = np.where(np.isnan(cached), 0.0, cached)
        weighted = profile.weighted_tokens(uncached, cached, output)  # type: ignore[arg-type]
        invalid = (uncached < 0) | (cached < 0) | (output < 0)
        return np.where(invalid, np.nan, weighted)


class RunTableBuilder:
    """Takes rows in batches and gives a table at the end."""

    def __init__(self) -> None:
        self._names: dict[str, dict[str, int]] = {"instance_id": {}, "agent": {}, "model": {}}
        self._parts: dict[str, list[NDArray[Any]]] = {}

    def add(self, rows: Sequence[Mapping[str, Any]], lines: Sequence[int]) -> None:
        """Add a batch; `lines` are the rows' line numbers. Raises BadRow for the first bad one."""
        for key in self._names:
            self._keep(key, self._codes(rows, key))
        resolved = [row.get("resolved") for row in rows]
        _require(resolved, {bool}, "resolved", "true or false")
        self._keep("resolved", np.array(resolved, dtype=np.bool_))
        attempts = [row.get("attempt") for row in rows]
        _require(attempts, {int, type(None)}, "attempt", "a whole number from 0 or null", _is_attempt)
        self._keep("attempt", np.array([-1 if a is None else a for a in attempts], dtype=np.int64))
        self._keep("ended", _ended(rows))
        for name in NUMBERS:
            self._keep(name, _numbers(rows, name))
        self._keep("line", np.array(lines, dtype=np.int64))

    def table(self) -> RunTable:
        """Everything that was added."""
        names = {key: list(codes) for key, codes in self._names.items()}
        empty: dict[str, Any] = {"resolved": np.bool_, "ended": np.int8, "attempt": np.int64}
        joined = {
            key: np.concatenate(self._parts[key])
            if key in self._parts
            else np.zeros(0, dtype=empty.get(key, np.float64 if key in NUMBERS else np.int32))
            for key in (*self._names, "attempt", "resolved", "ended", "line", *NUMBERS)
        }
        self._parts.clear()
        return RunTable(
            names["instance_id"],
            names["agent"],
            names["model"],
            joined["instance_id"],
            joined["agent"],
            joined["model"],
            joined["attempt"],
            joined["resolved"],
            joined["ended"],
            joined["line"],
            {name: joined[name] for name in NUMBERS},
        )

    def _keep(self, key: str, column: NDArray[Any]) -> None:
        self._parts.setdefault(key, []).append(column)

    def _codes(self, rows: Sequence[Mapping[str, Any]], key: str) -> Codes:
        codes = self._names[key]
        values = [row.get(key) for row in rows]
        if key == "model":
            _require(values, {str, type(None)}, key, "text or null")
            values = [value or "" for value in values]
        else:
            _require(values, {str}, key, "a non-empty string", lambda value: bool(value))
        return np.array([codes.setdefault(str(v), len(codes)) for v in values], dtype=np.int32)


def _require(values: Sequence[Any], types: set[type], key: str, what: str, also: Any = None) -> None:
    """All values have one of these types (exactly; true is no number), or BadRow for the first."""
    if set(map(type, values)) <= types and (also is None or all(map(also, set(values)))):
        return
    for index, value in enumerate(values):
        if type(value) not in types or (also is not None and not also(value)):
            found = "nothing" if value is None else repr(value)[:60]
            raise BadRow(index, f"{key}: expected {what}, found {found}")


def _is_attempt(value: int | None) -> bool:
    return value is None or 0 <= value < 2**53


def _ended(rows: Sequence[Mapping[str, Any]]) -> NDArray[np.int8]:
    codes = {name: code for code, name in enumerate(ENDED)} | {None: -1, "": -1}
    values = [row.get("ended") for row in rows]
    if set(map(type, values)) <= {str, type(None)} and set(values) <= set(codes):
        return np.array([codes[value] for value in values], dtype=np.int8)
    for index, value in enumerate(values):
        if not isinstance(value, str | None) or value not in codes:
            raise BadRow(index, f"ended: expected one of {', '.join(ENDED)}, found {value!r}"[:160])
    raise AssertionError("unreachable")


def _numbers(rows: Sequence[Mapping[str, Any]], name: str) -> Floats:
    values = [row.get(name) for row in rows]
    _require(values, {int, float, type(None)}, name, "a number or null")
    try:
        column = np.array(values, dtype=np.float64)
    except OverflowError:
        column = np.array(
            [np.inf if v is not None and v > 2**1000 else v for v in values], dtype=np.float64
        )
    column[~np.isfinite(column)] = np.nan
    if name in TOKENS:
        known = ~np.isnan(column)
        fractional = known & (column != np.floor(column))
        if fractional.any():
            index = int(np.argmax(fractional))
            raise BadRow(index, f"{name}: expected a whole number, found {values[index]!r}")
    return column
