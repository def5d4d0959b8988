"""What several workers must not each make for themselves is used by one of them."""

from __future__ import annotations

import pytest
from distribution import GROUPS, LAST, TOGETHER, group_of


def test_users_of_one_costly_thing_are_in_its_group(request: pytest.FixtureRequest) -> None:
    """A test that uses a built release or a named image stands in a module that its worker runs."""
    strangers = [
        f"{item.nodeid} uses {name}: name its module in tests/distribution.py"
        for item in request.session.items
        for name in sorted(TOGETHER.keys() & set(getattr(item, "fixturenames", ())))
        if group_of(item.nodeid) != name
    ]
    assert strangers == []


def test_groups_name_modules_that_exist(request: pytest.FixtureRequest) -> None:
    """A module that was renamed is missed, and none is in two groups."""
    assert [name for name in (*GROUPS, LAST) if not (request.config.rootpath / name).is_file()] == []
    assert len(GROUPS) == sum(len(modules) for modules in TOGETHER.values())
