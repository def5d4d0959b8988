"""What every probe is handed, and how its answer becomes a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from race.core.leaks.fragments import Wanted
from race.core.leaks.judge import Leak
from race.core.leaks.layers import ImageView
from race.core.sealed import LeakFinding, ProbeResult


@dataclass(frozen=True)
class Subject:
    """An image under audit. `live` is what a container of it reported, None when none was started;
    `hints` are commit ids, pull request numbers and the like that must not be named anywhere.
    `hidden_tests_belong` is set for a grading image, where hidden tests are there by design."""

    view: ImageView
    wanted: Wanted
    leaks: Sequence[Leak] = ()
    live: Mapping[str, Any] | None = None
    live_why: str = "no container was started"
    commits: Sequence[str] = ()
    numbers: Sequence[str] = ()
    allowed: Sequence[str] = ()
    """Path prefixes where the grader's own files lie: not searched for hidden tests."""
    hidden_tests_belong: bool = False


@dataclass(frozen=True)
class NotChecked:
    """A probe that could not run, and why."""

    why: str


Answer = Sequence[LeakFinding] | NotChecked


@dataclass(frozen=True)
class Probe:
    """One named check. `title` says in a line what it looks for."""

    name: str
    group: str
    title: str
    check: Callable[[Subject], Answer] = field(compare=False)

    def run(self, subject: Subject) -> ProbeResult:
        """The check's result; findings are listed once each, in order of place."""
        answer = self.check(subject)
        if isinstance(answer, NotChecked):
            return ProbeResult(
                name=self.name,
                title=self.title,
                group=self.group,
                passed=False,
                checked=False,
                why=answer.why,
            )
        unique = {(f.path, f.layer, f.what): f for f in answer}
        findings = tuple(sorted(unique.values(), key=lambda f: (f.layer, f.path, f.what)))
        return ProbeResult(
            name=self.name,
            title=self.title,
            group=self.group,
            passed=not findings,
            findings=findings,
        )
