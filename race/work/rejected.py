"""rejected.jsonl: what mining turned down, one sorted line each, so that a diff of it can be read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from race.core.records import Mined
from race.errors import Malformed
from race.settings import first_problem, json_object
from race.store import Store

REJECTED = "rejected.jsonl"


def read_rejected(store: Store) -> dict[str, Mined]:
    """rejected.jsonl by instance id; Malformed names the line."""
    path = store.folder / REJECTED
    found: dict[str, Mined] = {}
    for number, line in enumerate((store.read_text(REJECTED) or b"").splitlines(), 1):
        try:
            record = Mined.model_validate_json(line)
        except ValidationError as error:
            place, what = first_problem(error)
            raise Malformed(path, f"line {number}" + (f": {place}" if place else ""), what) from error
        found[record.instance_id] = record
    return found


def rejected_rows(store: Store) -> list[Mapping[str, Any]]:
    """The lines as they stand, without the rules of a record; Malformed names the line."""
    lines = (store.read_text(REJECTED) or b"").splitlines()
    path = store.folder / REJECTED
    return [
        json_object(path, line, f"line {number}") for number, line in enumerate(lines, 1) if line.strip()
    ]


def write_rejected(store: Store, rejected: Mapping[str, Mined]) -> None:
    """One line each, sorted by project and number; only what is not a default."""
    ordered = sorted(rejected.values(), key=lambda record: (record.repo, record.pr))
    lines = [
        json.dumps(
            record.model_dump(mode="json", exclude_defaults=True), ensure_ascii=False, sort_keys=True
        )
        for record in ordered
    ]
    data = "".join(f"{line}\n" for line in lines).encode()
    if data != (store.read_text(REJECTED) or b""):
        store.write_text(REJECTED, data)
