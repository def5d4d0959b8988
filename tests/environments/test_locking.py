"""The part of the ladder that gives requirements up, and that it says so."""

from __future__ import annotations

import importlib.util
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from race.adapters.uv_resolver import failure
from race.core.environment.model import reason
from race.core.environment.needs import Needs
from race.errors import BuildFailed, Unresolvable
from race.work.locking import Pinner, blamed, lock_build, lock_requirements, without_wheel

_spec = importlib.util.spec_from_file_location(
    "fake_resolver", Path(__file__).parent / "fake_resolver.py"
)
assert _spec is not None
assert _spec.loader is not None
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
FakeResolver: Any = _module.FakeResolver

DATE = datetime(2025, 1, 1, tzinfo=UTC)
NEEDS = Needs(
    requirements=("h11", "pytest", "mock"),
    sources=("a", "b", "c"),
    optional=(("tox.ini", ("pytest", "trio")), ("ci.yml", ("ghost",))),
)


def pinner(resolver: Any, from_source: Any = None) -> Pinner:
    """A pinner for these tests."""
    return Pinner(resolver, python="3.11", cutoff=DATE, from_source=from_source)


def test_everything_is_locked_when_everything_resolves() -> None:
    """No rung is climbed without need."""
    locked = lock_requirements(pinner(FakeResolver()), NEEDS, run_time=["h11"])
    assert locked.rungs == ()
    assert locked.requirements == ("h11", "pytest", "mock", "trio", "ghost")


def test_the_weakest_source_goes_first_and_is_named() -> None:
    """When nobody can be blamed, optional sources go whole, the weakest first, and it is said why."""
    resolver = FakeResolver(refused={"ghost": "something was not found"})
    locked = lock_requirements(pinner(resolver), NEEDS, run_time=["h11"])
    assert locked.requirements == ("h11", "pytest", "mock", "trio")
    assert [rung.name for rung in locked.rungs] == ["drop-source"]
    assert "ci.yml: ghost" in locked.rungs[0].what
    assert "not found" in locked.rungs[0].why


def test_a_single_test_requirement_can_be_dropped() -> None:
    """One that the resolver blames goes alone when no source can be blamed."""
    resolver = FakeResolver(refused={"mock": "mock was not found"})
    locked = lock_requirements(pinner(resolver), NEEDS, run_time=["h11"])
    assert "mock" not in locked.requirements
    assert locked.rungs[-1].name == "drop-requirement"
    assert locked.rungs[-1].what == "mock"


def test_run_time_requirements_are_never_dropped() -> None:
    """Contradictory requirements of the project itself are a verdict with the resolver's words."""
    resolver = FakeResolver(refused={"h11": "h11>2 and h11<1 contradict each other"})
    with pytest.raises(Unresolvable, match="contradict each other"):
        lock_requirements(pinner(resolver), NEEDS, run_time=["h11"])


def test_pytest_is_never_dropped() -> None:
    """Tests without their runner would be no tests."""
    assert blamed("Because pytest>9 and pytest<8", ["pytest>9"]) == []
    assert blamed("because pytest-mock needs pytest", ["pytest", "pytest-mock==1"]) == ["pytest-mock==1"]


def test_a_package_without_wheels_is_built_from_source() -> None:
    """The lock then names the source archive by its hash, and the record names the rung."""
    resolver = FakeResolver(wheelless=["trio"])
    made = pinner(resolver, lambda digest, archive: Path("trio-1-py3-none-any.whl"))
    locked = lock_requirements(made, NEEDS, run_time=["h11"])
    assert f"trio==1 --hash=sha256:{'a' * 64}\n" in locked.text
    assert [rung.name for rung in locked.rungs] == ["built-from-source"]


def test_a_source_archive_that_does_not_build_falls_to_the_next_rung() -> None:
    """The failed build is told, and the optional source that wanted it goes."""

    def fails(digest: str, archive: Path) -> Path:
        raise BuildFailed("building trio", 1, "error: no compiler")

    locked = lock_requirements(pinner(FakeResolver(wheelless=["trio"]), fails), NEEDS, run_time=["h11"])
    assert "trio" not in locked.requirements
    assert any("no compiler" in rung.why for rung in locked.rungs)


def test_a_package_without_wheels_for_a_young_python_may_come_later() -> None:
    """Only when it cannot be built, only that package, and it is said; nothing is dropped for it."""

    def broken(digest: str, archive: Path) -> Path:
        raise BuildFailed("building mock-1.tar.gz", 1, "ffi.h: No such file or directory")

    until = datetime(2026, 1, 1, tzinfo=UTC)
    young = Pinner(
        FakeResolver(wheelless=["mock"]),
        python="3.11",
        cutoff=DATE,
        from_source=broken,
        wheels_until=until,
    )
    locked = lock_requirements(young, NEEDS, run_time=["h11"])
    assert [(rung.name, rung.what) for rung in locked.rungs] == [
        ("wheel-of-this-python", "mock until 2026-01-01")
    ]
    assert "mock==1" in locked.text


def test_a_reason_is_read_to_its_end() -> None:
    """However long the resolver's explanation, the requirement at its end is found and given up."""
    chain = "Because a<=1 depends on b<=1 we know that a cannot be used. " * 60
    resolver = FakeResolver(refused={"mock": f"{chain}And because you require mock, unsatisfiable."})
    locked = lock_requirements(pinner(resolver), NEEDS, run_time=["h11"])
    assert [(rung.name, rung.what) for rung in locked.rungs] == [("drop-requirement", "mock")]
    error = failure(f"error: No solution found: {chain} you require mock")
    assert isinstance(error, Unresolvable)
    assert error.reason.endswith("you require mock")
    assert len(error.message) < 1600
    assert error.message.endswith("you require mock")


def test_the_build_back_end_may_be_undated_and_it_is_said() -> None:
    """Only the back-end's lock ever loses the cut-off, never the run-time lock."""
    locked = lock_build(
        FakeResolver(undated=["hatchling"]), ["hatchling"], python="3.11", cutoff=DATE, undated=False
    )
    assert locked.text.startswith("hatchling==1")
    assert [rung.name for rung in locked.rungs] == ["build-undated"]


def test_reasons_read_the_same_on_every_machine() -> None:
    """Colours, addresses, temporary names, digests and durations do not get into a record."""
    first = "\x1b[31mstart\nRuntimeError: <x at 0x7f00aa11bb22> in /tmp/tmpab12/x after 1.2 s\nbye"
    second = first.replace("0x7f00aa11bb22", "0x7fffffff1111").replace("tmpab12", "tmpzz")
    second = second.replace("1.2", "9.5")
    assert reason(first) == reason(second)
    assert "RuntimeError" in reason(first)
    assert reason("") == ""


def test_explanations_without_a_missing_wheel_are_not_about_sources() -> None:
    """Only a package that has no wheel is built; a conflict is a conflict."""
    assert without_wheel("Because a>2 and a<1") == []
    said = "all versions of a have no usable wheels, b==2 has no usable wheels "
    hints = "hint: Wheels are required for `a` because hint: Wheels are required for `b` because"
    assert without_wheel(said + hints) == [("a", ""), ("b", "2")]
