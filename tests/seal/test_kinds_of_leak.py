"""The battery of sabotaged images: each kind of leak is found by the right probe, at its place."""

from __future__ import annotations

from pathlib import Path

import kinds_archives
import kinds_builder
import kinds_files
import kinds_git
import kinds_python
import kinds_turned
import pytest
from sabotage import Kit, Sabotages, check

from race.ports import Engine

MODULES = (kinds_archives, kinds_builder, kinds_files, kinds_git, kinds_python, kinds_turned)
SABOTAGES: Sabotages = {name: spoil for module in MODULES for name, spoil in module.SABOTAGES.items()}


@pytest.mark.engine
@pytest.mark.parametrize("name", SABOTAGES)
def test_each_kind_of_leak_is_found_by_its_probe(
    name: str, kit: Kit, workshop, engine: Engine, tar_of, names: str, tmp_path: Path
) -> None:
    """A sabotaged image fails the probe named for its kind, with the place of the leak."""
    check(SABOTAGES[name], kit, workshop, engine, tar_of, names, tmp_path)


def test_the_battery_is_whole() -> None:
    """Every module of kinds is in it, no kind hides another, and a hundred are tried."""
    found = {path.stem for path in Path(__file__).parent.glob("kinds_*.py")}
    assert {module.__name__ for module in MODULES} == found
    assert len(SABOTAGES) == sum(len(module.SABOTAGES) for module in MODULES)
    assert len(SABOTAGES) >= 100
