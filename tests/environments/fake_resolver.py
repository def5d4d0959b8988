"""A resolver behind its port, for tests of the ladder: refuses what it is told to refuse."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from race.errors import Unresolvable


class FakeResolver:
    """Every requirement resolves to version 1, but for names in `refused` (name -> explanation).

    `wheelless` names need a source archive, or a later date of their own; `undated` names exist only
    without a cut-off.
    """

    def __init__(
        self,
        refused: Mapping[str, str] | None = None,
        wheelless: Sequence[str] = (),
        undated: Sequence[str] = (),
    ) -> None:
        self.refused, self.wheelless, self.undated = dict(refused or {}), wheelless, undated
        self.asked: list[list[str]] = []

    def compile(
        self,
        requirements: Sequence[str],
        *,
        python: str,
        cutoff: datetime | None,
        constraints: Sequence[str] = (),
        omit: Sequence[str] = (),
        built: Mapping[str, Path] | None = None,
        later: Mapping[str, datetime] | None = None,
    ) -> str:
        self.asked.append([*requirements])
        names = [re.split(r"[<>=;\[ ]", item)[0] for item in requirements]
        made = {path.name.split("-")[0]: digest for digest, path in (built or {}).items()}
        for name in names:
            if name in self.refused:
                raise Unresolvable(f"No solution found: {self.refused[name]}")
            if name in self.undated and cutoff is not None:
                raise Unresolvable(f"No solution found: {name} was not found")
            if name in self.wheelless and name not in made and name not in (later or {}):
                raise Unresolvable(
                    f"No solution found: Because {name}==1 has no usable wheels hint: Wheels are "
                    f"required for `{name}` because building from source is disabled"
                )
        lines = [f"{name}==1 --hash=sha256:{made.get(name, '0' * 64)}\n" for name in names]
        return "".join(sorted(line for line in lines if line.split("==")[0] not in omit))

    def fetch(self, lock: str, *, python: str) -> dict[str, Path]:
        return {}

    def source(self, name: str, *, version: str, cutoff: datetime | None) -> tuple[str, Path]:
        return "a" * 64, Path(f"{name}-{version or 1}.tar.gz")

    def reach(self) -> str:
        return "fake"
