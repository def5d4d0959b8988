"""The names of the machine itself that tests listen on."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

CAGE = Path(__file__).parents[2] / "images" / "grader" / "cage.py"
FOUR, SIX = "127.0.0.1\tlocalhost\n", "::1\tlocalhost ip6-localhost\n"
LOOPBACK = "00000000000000000000000000000001 01 80 10 80       lo\n"


@pytest.mark.parametrize(
    ("hosts", "addresses", "settled"),
    [
        ("", "", FOUR),
        ("# localhost\n10.0.0.7 box\n", None, FOUR + "# localhost\n10.0.0.7 box\n"),
        (FOUR + SIX, "", FOUR),
        (SIX, "", FOUR),
        (FOUR + SIX, LOOPBACK, FOUR + SIX),
    ],
)
def test_localhost_leads_to_addresses_that_are_there(tmp_path, hosts, addresses, settled):
    """An empty file of names gets 127.0.0.1; ::1 stays only where somebody can listen on it."""
    spec = importlib.util.spec_from_file_location("cage_under_test", CAGE)
    cage = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(cage)
    names, there = tmp_path / "hosts", tmp_path / "if_inet6"
    names.write_text(hosts)
    if addresses is not None:
        there.write_text(addresses)
    cage.settle_names(str(names), str(there))
    assert names.read_text() == settled
