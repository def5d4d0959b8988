"""The resolver against a real index of our own on this machine: dates, hashes, offline, refusals."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from race.adapters.uv_resolver import UvResolver, failure
from race.errors import Accident, Unreachable, Unresolvable

CUT = datetime(2024, 6, 1, tzinfo=UTC)


@pytest.fixture
def resolver(index: Any, tmp_path: Path) -> UvResolver:
    """A resolver that asks that index."""
    return UvResolver(index_url=index.url, cache=tmp_path / "cache")


def test_a_lock_holds_what_existed_at_the_date(resolver: UvResolver) -> None:
    """Before the cut-off the old release, without one the new; sorted, one hash to a line."""
    lock = resolver.compile(["beta"], python="3.11", cutoff=CUT)
    assert [line.split(" ")[0] for line in lock.splitlines()] == ["alpha==1.0", "beta==1.0"]
    assert lock.count("--hash=sha256:") == 2
    assert "alpha==2.0" in resolver.compile(["beta"], python="3.11", cutoff=None)
    later = {"alpha": datetime(2025, 6, 1, tzinfo=UTC)}
    assert "alpha==2.0" in resolver.compile(["beta"], python="3.11", cutoff=CUT, later=later)
    assert "alpha" not in resolver.compile(["beta"], python="3.11", cutoff=CUT, omit=["alpha"])


def test_wheels_are_fetched_once_and_then_without_network(
    resolver: UvResolver, index: Any, tmp_path: Path
) -> None:
    """Also by another resolver that knows the lock only; a fetched lock needs no index any more."""
    lock = resolver.compile(["beta"], python="3.11", cutoff=CUT)
    other = UvResolver(index_url=index.url, cache=tmp_path / "other")
    assert sorted(other.fetch(lock, python="3.11")) == [
        "alpha-1.0-py3-none-any.whl", "beta-1.0-py3-none-any.whl"
    ]  # fmt: skip
    index.close()
    assert len(other.fetch(lock, python="3.11")) == 2


def test_other_bytes_than_the_lock_names_are_an_accident(resolver: UvResolver, index: Any) -> None:
    """A file whose hash differs is refused by name, and nothing of it is kept."""
    lock = resolver.compile(["alpha"], python="3.11", cutoff=CUT)
    index.tampered = True
    with pytest.raises(Accident, match=r"alpha-1\.0.*the lock says"):
        resolver.fetch(lock, python="3.11")
    index.tampered = False
    assert resolver.fetch(lock, python="3.11")


def test_a_file_of_the_cache_that_was_changed_is_not_used(resolver: UvResolver) -> None:
    """What is kept is checked each time it is taken, and brought anew when it differs."""
    lock = resolver.compile(["alpha"], python="3.11", cutoff=CUT)
    (path,) = resolver.fetch(lock, python="3.11").values()
    whole = path.read_bytes()
    path.write_bytes(whole + b"planted")
    assert [kept.read_bytes() for kept in resolver.fetch(lock, python="3.11").values()] == [whole]


def test_packages_that_need_each_other_are_locked_together(resolver: UvResolver, index: Any) -> None:
    """A cycle of packages is no contradiction; one that asks for another release of itself is."""
    index.add("round", "1.0", "trip>=1")
    index.add("trip", "1.0", "round>=1")
    lock = resolver.compile(["round"], python="3.11", cutoff=CUT)
    assert [line.split(" ")[0] for line in lock.splitlines()] == ["round==1.0", "trip==1.0"]
    index.add("there", "1.0", "back")
    index.add("back", "1.0", "there>=2")
    with pytest.raises(Unresolvable, match="there"):
        resolver.compile(["there"], python="3.11", cutoff=CUT)


def test_a_hash_that_the_index_does_not_have_is_an_accident(resolver: UvResolver) -> None:
    """A lock that names a file which nobody has says which."""
    with pytest.raises(Accident, match=r"no file of alpha==1\.0"):
        resolver.fetch(f"alpha==1.0 --hash=sha256:{'0' * 64}\n", python="3.11")


def test_what_does_not_resolve_is_a_verdict(resolver: UvResolver) -> None:
    """Contradictions, unknown names, later releases, packages without wheels, each explained."""
    for wanted, word in (
        (["alpha>1", "alpha<1"], "alpha"), (["nothing-like-it"], "not found"),
        (["alpha>=2"], "alpha"), (["gamma"], "no usable wheels"), (["not a requirement"], "parse"),
    ):  # fmt: skip
        with pytest.raises(Unresolvable, match=word):
            resolver.compile(wanted, python="3.11", cutoff=CUT)


def test_source_archives_by_date(resolver: UvResolver) -> None:
    """The newest before the cut-off, or the version that was asked for; none is a verdict."""
    assert resolver.source("gamma", version="", cutoff=CUT)[1].name == "gamma-1.0.tar.gz"
    assert resolver.source("gamma", version="2.0", cutoff=None)[1].name == "gamma-2.0.tar.gz"
    with pytest.raises(Unresolvable, match="source archive"):
        resolver.source("gamma", version="2.0", cutoff=CUT)


def test_an_index_that_does_not_answer_is_an_accident(resolver: UvResolver, index: Any) -> None:
    """Never a verdict about the project."""
    index.close()
    with pytest.raises(Unreachable):
        resolver.compile(["alpha"], python="3.11", cutoff=CUT)
    with pytest.raises(Unreachable):
        resolver.source("gamma", version="", cutoff=CUT)


def test_words_of_the_resolver() -> None:
    """Network trouble in any spelling is an accident, the rest is told apart by what it says."""
    assert isinstance(failure("error: Failed to fetch: `https://example.invalid/x`"), Unreachable)
    assert isinstance(failure("error: No solution found when resolving dependencies:"), Unresolvable)
    assert isinstance(failure("thread 'main' panicked"), Accident)
    assert "example.invalid" not in str(failure("error: Failed to fetch: `https://example.invalid/x`"))
